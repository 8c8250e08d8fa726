"""MCP over standard input and output, in processes of their own: how they begin, share a file, and end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import contextmanager

import anyio
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

import salience
from mcp_servers import COMMAND, TABS, surroundings, text_of
from salience.server.mcp.tools import DEFAULT
from tests.contract.doubles import PlantedEmbedder
from waiting import PATIENCE

pytestmark = [pytest.mark.anyio, pytest.mark.slow]
SERVERS = 4
EACH = 5


async def test_many_servers_share_one_file_at_once(tmp_path):
    arguments = ["--store", str(tmp_path / "agent.db"), "mcp", "--tools", "all"]
    starting = StdioServerParameters(command=COMMAND, args=arguments, env=surroundings(tmp_path))
    ready, failures, stored = [anyio.Event() for _ in range(SERVERS)], [], []

    async def work(number):
        async with Client(stdio_client(starting)) as client:
            ready[number].set()
            for event in ready:
                await event.wait()
            for turn in range(EACH):
                content = f"Server {number} was here, turn {turn}"
                written = await client.call_tool("remember", {"content": content})
                stored.append(written.structured_content["memory"]["id"])
                seen = await client.call_tool("history", {"id": stored[-1]})
                counted = await client.call_tool("stats", {})
                found = await client.call_tool("recall", {"query": content, "min_score": 0, "limit": 1})
                failures.extend(text_of(answer) for answer in (written, seen, counted, found) if answer.is_error)

    async with anyio.create_task_group() as tasks:
        for number in range(SERVERS):
            tasks.start_soon(work, number)
    with salience.connect(tmp_path / "agent.db") as engine:
        kept = {memory.id for memory in engine.list(limit=1000).memories}
    assert failures == []
    assert kept == set(stored)
    assert len(kept) == SERVERS * EACH


SLOW = """
import os, sys
import salience
from salience.server.gate import Gate
from salience.server.mcp import server as stdio
from salience.server.mcp.tools import LocalCaller
from salience.records import Grant
from salience.server.mcp.tools import DEFAULT
from tests.contract.doubles import PlantedEmbedder

class Slow(PlantedEmbedder):
    def embed(self, texts):
        if "slow" in texts:
            print("embedding", file=sys.stderr, flush=True)
            open(sys.argv[2]).read()  # until the test closes the other end
        return super().embed(texts)

with salience.connect(sys.argv[1], embedder=Slow({})) as engine:
    stdio.serve(LocalCaller(Gate(engine), Grant(tenant="default", rights=("write",), name="stdio")))
"""
"""A server whose embedder goes on once the test lets it."""


async def test_a_signal_lets_a_call_that_has_begun_come_to_its_end(tmp_path):
    gate, store = tmp_path / "gate", tmp_path / "agent.db"
    os.mkfifo(gate)
    with started(tmp_path, command=[sys.executable, "-c", SLOW, str(store), str(gate)]) as server:
        initialized(server)
        ask(server, 2, "tools/call", name="remember", arguments={"content": "slow"})
        assert server.stderr.readline() == "embedding\n"
        server.send_signal(signal.SIGTERM)
        gate.write_text("")
        assert ended(server)[0] == 0
    with salience.connect(store, embedder=PlantedEmbedder({})) as engine:
        assert [memory.content for memory in engine.list().memories] == ["slow"]


@contextmanager
def started(folder, *options, command=None, **env):
    arguments = command or [COMMAND, "--store", str(folder / "agent.db"), "mcp", "serve", *options]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(arguments, env=surroundings(folder, **env), text=True, **pipes) as server:
        try:
            yield server
        finally:
            server.kill()


def ask(server, number, method, **params):
    message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
    server.stdin.write(json.dumps(message) + "\n")
    server.stdin.flush()


def initialized(server):
    ask(
        server, 1, "initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo={"name": "t", "version": "1"}
    )  # fmt: skip
    answer = json.loads(server.stdout.readline())
    server.stdin.write('{"jsonrpc": "2.0", "method": "notifications/initialized"}\n')
    return answer


def ended(server):
    """Return the exit code, what was left on standard output, and what was logged."""
    out, err = server.communicate(timeout=PATIENCE)
    return server.returncode, out, err


async def test_a_signal_ends_it_cleanly_with_its_writes_done(tmp_path):
    with started(tmp_path) as server:
        assert initialized(server)["result"]["serverInfo"]["name"] == "salience"
        ask(server, 2, "tools/call", name="remember", arguments={"content": TABS})
        assert json.loads(server.stdout.readline())["result"]["isError"] is False
        server.send_signal(signal.SIGTERM)
        assert ended(server) == (0, "", "")
    with salience.connect(tmp_path / "agent.db") as engine:
        assert [memory.content for memory in engine.list().memories] == [TABS]


async def test_the_end_of_input_ends_it_and_nothing_but_the_protocol_was_on_standard_output(tmp_path):
    with started(tmp_path, "--read-only") as server:
        server.stdin.write("SECRET that is no JSON\n")
        initialized(server)
        ask(server, 2, "tools/call", name="remember", arguments={"content": "SECRET"})
        ask(server, 3, "tools/call", name="recall", arguments={"query": "SECRET", "limit": "SECRET"})
        ask(server, 4, "SECRET/method", of="SECRET")
        answers = {answer["id"]: answer for answer in (json.loads(server.stdout.readline()) for _ in range(3))}
        code, out, err = ended(server)
    assert (code, out) == (0, "")
    assert "SECRET" not in err
    assert "needs the right 'write'" in json.dumps(answers[2]["result"])
    assert set(answers) == {2, 3, 4}


async def test_a_client_learns_of_the_tools_while_the_model_still_loads(tmp_path):
    weights = tmp_path / "model.onnx"
    os.mkfifo(weights)  # whoever reads it waits for one who writes
    with started(tmp_path, SALIENCE_MINILM_WEIGHTS=str(weights)) as server:
        assert initialized(server)["result"]["serverInfo"]["name"] == "salience"
        ask(server, 2, "tools/list")
        assert {tool["name"] for tool in json.loads(server.stdout.readline())["result"]["tools"]} == {*DEFAULT}
        with weights.open("wb"):  # opens once the model is being read, so that it was not read before
            ask(server, 3, "ping")
            assert json.loads(server.stdout.readline())["id"] == 3
