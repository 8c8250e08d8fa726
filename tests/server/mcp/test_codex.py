"""Codex' command line, from npm, with the server and the hooks that `mcp install` writes.

A double answers as its model. `codex/package-lock.json` names the version.
"""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

import node_packages
import salience
from mcp_servers import COMMAND, surroundings
from node_packages import call, program
from salience.records import ANY

pytestmark = pytest.mark.slow

FACT = "The deploy key of borealis is kept in the vault"
DONE = "I stored that."
QUESTION = "Where is the deploy key of borealis kept?"
TOOLS = "mcp__salience"


class Model:
    """A double of OpenAI's Responses API: it calls `remember` once, and then ends its turn.

    Attributes:
        requests: the body of each request, in order.
    """

    def __init__(self):
        self.requests = []

    def answer(self, request):
        """Return the events of the answer to a request."""
        self.requests.append(request)
        called = any(item["type"] == "function_call_output" for item in request["input"])
        item = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": DONE}]}
        if not called:
            item = {"type": "function_call", "call_id": "1", "namespace": TOOLS, "name": "remember"}
            item["arguments"] = json.dumps({"content": FACT})
        usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
        return [
            {"type": "response.created", "response": {"id": "1"}},
            {"type": "response.output_item.done", "output_index": 0, "item": {"id": "1", **item}},
            {"type": "response.completed", "response": {"id": "1", "usage": usage}},
        ]

    def context(self):
        """Return what the last request has beside the words of the user and of the model."""
        messages = [item for item in self.requests[-1]["input"] if item.get("role") == "developer"]
        return "\n".join(part["text"] for message in messages for part in message["content"])


@contextmanager
def served(model):
    """Yield the base URL of a model."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            events = model.answer(request) if self.path.endswith("/responses") else []
            body = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events).encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/v1"
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture(scope="module")
def codex():
    return node_packages.modules(Path(__file__).with_name("codex")) / ".bin" / "codex"


def test_codex_calls_the_tools_and_gets_and_stores_what_is_said_by_its_hooks(codex, tmp_path):
    store, project = tmp_path / "agent.db", tmp_path / "project"
    (project / ".git").mkdir(parents=True)
    env = surroundings(tmp_path, SALIENCE_TEST_KEY="any")
    call(COMMAND, "--store", str(store), "mcp", "install", "--client", "codex", "--hooks", "--yes", env=env)
    model = Model()
    with served(model) as url:
        provider = f'{{name="double", base_url="{url}", wire_api="responses", env_key="SALIENCE_TEST_KEY"}}'
        options = ["--model", "gpt-5", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"]
        options += ["--dangerously-bypass-hook-trust"]  # a person confirms hooks once, in the program
        settings = {"model_provider": "double", "model_providers.double": provider}
        settings |= {"mcp_servers.salience.required": "true", "mcp_servers.salience.startup_timeout_sec": "300"}
        options += [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]

        def ask(prompt):
            call(program("node"), str(codex), "exec", *options, prompt, cwd=project, env=env, stdin=None)

        ask(QUESTION)
        tools = next(tool for tool in model.requests[0]["tools"] if tool.get("name") == TOOLS)
        assert {tool["name"] for tool in tools["tools"]} >= {"remember", "recall", "forget"}
        with salience.connect(str(store)) as memory:
            stored = {(one.kind, one.speaker, one.content) for one in memory.list(project=ANY)}
        assert stored == {("fact", None, FACT), ("turn", "user", QUESTION), ("turn", "assistant", DONE)}
        ask(QUESTION)
    assert f'project="{project.as_posix()}"' in model.context()
    assert FACT in model.context()
