"""The command hook: each agent's protocol, JSON in and JSON out, from a first session to the next one's prompt."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import salience
import servers
from command_line import invoke
from salience import settings
from salience.cli import hook
from salience.models import registry
from salience.records import ANY
from salience.transfer.importers import records
from waiting import PATIENCE

RULE = "The uploader of invoices must never retry more than three times, or the vendor blocks our account."
DONE = "The uploader of invoices now stops after three attempts."
QUESTION = "How often may the uploader of invoices retry?"
NAMES = {
    "claude-code": ("SessionStart", "UserPromptSubmit", "Stop"),
    "codex": ("SessionStart", "UserPromptSubmit", "Stop"),
    "cursor": ("sessionStart", "beforeSubmitPrompt", "afterAgentResponse"),
}


class Agent:
    """An agent that works in a folder and starts the command at its events."""

    def __init__(self, client, folder, home, store):
        self.client, self.folder, self.store = client, folder, store
        self.start_event, self.prompt_event, self.stop_event = NAMES[client]
        self.home = home
        self.turns = 0

    def send(self, session, event, *options, **extra):
        """Start the command at an event; return the JSON that it prints, or None."""
        common = {"hook_event_name": event}
        if self.client == "cursor":
            common |= {"conversation_id": session, "workspace_roots": [str(self.folder)], "cursor_version": "3.20"}
        else:
            common |= {"session_id": session, "cwd": str(self.folder), "permission_mode": "default"}
        if self.client == "claude-code":
            common["transcript_path"] = str(self.log(session))
        if self.client == "codex":
            common |= {"transcript_path": None, "model": "gpt-5"}
        arguments = ["--store", self.store, "hook", event, "--client", self.client, *options]
        result = invoke(arguments, input=json.dumps(common | extra))
        assert (result.exit_code, result.stderr) == (0, "")
        return json.loads(result.stdout) if result.stdout else None

    def log(self, session):
        return self.home / f"{session}.jsonl"

    def start(self, session, *options):
        return self.context(self.start_event, self.send(session, self.start_event, *options, source="startup"))

    def prompt(self, session, text, *options):
        self.turns += 1
        turn = {
            "codex": {"turn_id": f"t{self.turns}"},
            "cursor": {"generation_id": f"t{self.turns}", "attachments": []},
        }
        printed = self.send(session, self.prompt_event, *options, prompt=text, **turn.get(self.client, {}))
        self.write(session, "user", text)
        return self.context(self.prompt_event, printed)

    def stop(self, session, text, *options, again=False):
        if not again:
            self.write(session, "assistant", [{"type": "text", "text": text}, {"type": "tool_use", "name": "Bash"}])
        extra = {
            "claude-code": {"stop_hook_active": False},
            "codex": {"stop_hook_active": False, "turn_id": f"t{self.turns}", "last_assistant_message": text},
            "cursor": {"generation_id": f"t{self.turns}", "text": text},
        }
        assert self.send(session, self.stop_event, *options, **extra[self.client]) is None

    def write(self, session, role, content, **marks):
        """Append a line to the session log, as Claude Code does."""
        with self.log(session).open("a", encoding="utf-8") as opened:
            number = opened.tell()
            line = {"type": role, "uuid": f"{session}-{number}", "sessionId": session, "cwd": str(self.folder)}
            line |= {"timestamp": "2026-11-01T10:00:00Z", "message": {"role": role, "content": content}, **marks}
            opened.write(json.dumps(line) + "\n")

    def context(self, event, printed):
        """Return the context in the output of an event, which has nothing else that the agent would refuse."""
        if printed is None:
            return ""
        if self.client == "cursor":
            assert printed.keys() == {"additional_context", *(["continue"] if event == self.prompt_event else [])}
            assert printed.get("continue", True) is True
            return printed["additional_context"]
        inner = printed.pop("hookSpecificOutput")
        assert printed == {}
        assert inner.pop("hookEventName") == event
        context = inner.pop("additionalContext")
        assert inner == {}
        return context

    def stored(self, **where):
        """Return speaker and text of all turns, in order."""
        with salience.connect(self.store) as memory:
            page = memory.list(kinds=["turn"], project=ANY, **where)
            return [(one.speaker, one.content) for one in page.memories]


@pytest.fixture(scope="module")
def model():
    """The default embedder, loaded once."""
    return registry.EMBEDDERS["minilm"](settings.load())


@pytest.fixture
def agent_in(tmp_path, target, monkeypatch, model):
    """A function from a client and the name of a repository to an agent in it."""
    monkeypatch.setitem(registry.EMBEDDERS, "minilm", lambda _: model)
    monkeypatch.setattr(hook, "SECONDS", {"start": 600, "prompt": 600, "stop": 600})  # tests do not depend on speed
    monkeypatch.delenv("CLAUDE_PROJECT_DIR", raising=False)

    def made(client, name="atlas", store=target):
        folder = tmp_path / name
        (folder / ".git").mkdir(parents=True, exist_ok=True)
        return Agent(client, folder, tmp_path, store)

    return made


@pytest.mark.parametrize("client", NAMES)
def test_turns_are_stored_once_and_the_next_session_gets_them(client, agent_in):
    agent = agent_in(client)
    assert "project=" in agent.start("first")
    assert agent.prompt("first", RULE) == ""
    agent.stop("first", DONE)
    agent.stop("first", DONE, again=True)
    assert agent.stored() == [("user", RULE), ("assistant", DONE)]

    assert agent.prompt("first", "Say it again: how often may the uploader retry?") == ""  # the agent has those turns
    context = agent.prompt("second", QUESTION)
    assert RULE in context
    assert context.startswith("<memories note=")
    assert len(context) < 10_000
    assert agent_in(client, "zeppelin").prompt("third", QUESTION) == ""


@pytest.mark.parametrize("client", NAMES)
def test_a_session_starts_with_the_bootstrap_memories_of_its_project(client, agent_in):
    agent = agent_in(client)
    with salience.connect(agent.store) as memory:
        memory.remember("Answer in British English.", kind="bootstrap")
        memory.remember("Deploys need two approvals.", kind="bootstrap", project=agent.folder.as_posix())
    context = agent.start("first")
    assert context.startswith(f'Memories of this project: give project="{agent.folder.as_posix()}" to')
    assert "British English" in context
    assert "two approvals" in context
    assert "two approvals" not in agent_in(client, "zeppelin").start("second")
    assert agent.prompt("first", "How many approvals do deploys need?") == ""  # it has them from the start


@pytest.mark.parametrize("client", NAMES)
def test_scopes_of_the_options_apply(client, agent_in):
    agent = agent_in(client)
    agent.prompt("first", RULE, "--project", "shop", "--user", "alice")
    agent.stop("first", DONE, "--project", "shop", "--user", "alice")
    assert agent.stored(user_id="alice") == [("user", RULE), ("assistant", DONE)]
    assert RULE in agent.prompt("second", QUESTION, "--project", "shop", "--user", "alice")
    assert agent.prompt("third", QUESTION, "--project", "shop", "--user", "bob") == ""
    assert agent.prompt("fourth", QUESTION) == ""


def test_the_project_is_the_repository_around_the_folder(agent_in, tmp_path, monkeypatch):
    agent = agent_in("claude-code")
    agent.prompt("first", RULE)
    (agent.folder / "src" / "deep").mkdir(parents=True)
    agent.folder = agent.folder / "src" / "deep"
    agent.stop("first", DONE)
    with salience.connect(agent.store) as memory:
        assert dict(memory.stats(project=ANY).by_project) == {(tmp_path / "atlas").as_posix(): 2}
    # a repository of configuration files in the home folder makes no project of everything in it
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".git").mkdir()
    agent.folder = tmp_path / "elsewhere"
    agent.folder.mkdir()
    assert f'project="{agent.folder.as_posix()}"' in agent.start("second")


def test_only_new_turns_of_a_log_are_stored_and_embedded(agent_in, monkeypatch):
    agent = agent_in("claude-code")
    for number in range(3):
        agent.write("first", "user", f"Remember the number {number}")
    agent.write("first", "user", "<command-name>/clear</command-name>")
    agent.write("first", "user", [{"type": "tool_result", "content": "secret output"}])
    agent.write("first", "user", [{"type": "text", "text": "[Request interrupted by user for tool use]"}])
    agent.write("first", "assistant", [{"type": "text", "text": "API Error: 529"}], isApiErrorMessage=True)
    agent.write("first", "user", "word " * 30_000)  # over the limit of one memory: stored in parts
    agent.stop("first", "Three numbers.")
    before = agent.stored()
    assert [text for _, text in before[:3]] == [f"Remember the number {number}" for number in range(3)]
    assert len(before) > 5
    assert not any("interrupted" in text or "API Error" in text for _, text in before)
    assert before[-1] == ("assistant", "Three numbers.")

    embedded = []
    ingest = salience.engine.Engine.ingest
    monkeypatch.setattr(
        salience.engine.Engine,
        "ingest",
        lambda self, turns, **where: embedded.extend(turns) or ingest(self, turns, **where),
    )
    agent.stop("first", "A fourth one.")
    assert [turn["content"] for turn in embedded] == ["A fourth one."]
    assert agent.stored() == [*before, ("assistant", "A fourth one.")]


def test_keys_are_those_of_an_import_of_the_log(agent_in):
    agent = agent_in("claude-code")
    agent.prompt("first", RULE)
    agent.stop("first", DONE)
    with salience.connect(agent.store) as memory:
        stored = [one.key for one in memory.list(project=ANY).memories]
    with records("claude-code", agent.log("first")) as items:
        assert stored == [item.draft["key"] for item in items]


SECRET = "the secret of the prompt"
BROKEN = {
    "another event": (["Nope"], "{}"),
    "no event": ([], "{}"),
    "another client": (["Stop", "--client", "emacs"], "{}"),
    "an option of a later version": (["Stop", "--new-option", "x"], "[]"),
    "no JSON": (["UserPromptSubmit"], f"{{'prompt': {SECRET}"),
    "another JSON": (["UserPromptSubmit"], f'["{SECRET}"]'),
    "no log": (["Stop"], '{"session_id": "s", "cwd": "/", "transcript_path": "/nope"}'),
    "no folder": (["UserPromptSubmit"], f'{{"session_id": "s", "prompt": "{SECRET}"}}'),
    "no session": (["Stop", "--client", "codex"], f'{{"cwd": "/", "last_assistant_message": "{SECRET}"}}'),
    "a text that no store holds": (
        ["UserPromptSubmit", "--client", "codex"],
        f'{{"session_id": "s", "cwd": "/", "prompt": "{SECRET}\\u0000"}}',
    ),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_failure_is_one_line_on_standard_error_and_code_0(case, target, monkeypatch):
    monkeypatch.delenv("CLAUDE_PROJECT_DIR", raising=False)
    arguments, given = BROKEN[case]
    result = invoke(["--store", target, "hook", *arguments], input=given)
    assert (result.exit_code, result.stdout) == (0, "")
    [line] = result.stderr.splitlines()
    assert line.startswith("salience: hook: ")
    assert SECRET not in result.stderr


def test_a_store_that_cannot_be_opened_is_no_trouble_for_the_agent(target):
    Path(target).write_text("this is no store, and longer than the header of a database file; " * 20, "utf-8")
    given = json.dumps({"session_id": "s", "cwd": "/", "prompt": SECRET})
    for before in (["--store", target], ["--profile", "nope"], ["--embedder", "nope"]):
        result = invoke([*before, "hook", "UserPromptSubmit"], input=given)
        assert (result.exit_code, result.stdout) == (0, "")
        assert len(result.stderr.splitlines()) == 1


@pytest.mark.slow
def test_after_the_time_limit_the_command_ends_with_code_0(target):
    code = (
        "import sys; from salience.cli import hook, main; hook.SECONDS = {'prompt': 0.01}; "
        f"sys.argv[1:] = ['--store', {target!r}, 'hook', 'UserPromptSubmit']; main()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:  # its input does not end
        assert process.wait(PATIENCE) == 0
        assert process.stdout.read() == ""
        assert process.stderr.read() == "salience: hook: stopped after 0.01 seconds\n"


@pytest.mark.slow
@pytest.mark.parametrize("client", NAMES)
def test_a_server_works_too(client, agent_in, target, monkeypatch):
    monkeypatch.setenv("SALIENCE_API_KEY", "any")
    with salience.connect(target) as engine, servers.live(engine) as url:
        agent = agent_in(client, store=url)
        agent.prompt("first", RULE)
        agent.stop("first", DONE)
        agent.stop("first", DONE, again=True)
        assert agent.stored() == [("user", RULE), ("assistant", DONE)]
        assert RULE in agent.prompt("second", QUESTION)
        assert "project=" in agent.start("third")


@pytest.mark.parametrize("client", NAMES)
def test_a_prompt_that_is_not_embedded_in_time_gets_memories_by_its_words(client, agent_in, model, monkeypatch):
    agent = agent_in(client)
    agent.prompt("first", RULE)
    agent.stop("first", DONE)
    monkeypatch.setattr(hook, "EMBEDDING", 0)  # no time is left to embed
    monkeypatch.setattr(type(model), "embed_tokens", lambda *_: pytest.fail("the prompt was embedded"))
    monkeypatch.setattr(hook, "_store", lambda *_: None)
    assert RULE in agent.prompt("second", "Does the vendor block the account?")
    assert agent.prompt("third", "fix the lint errors") == ""


def test_a_prompt_is_answered_before_it_is_stored(agent_in, monkeypatch):
    agent = agent_in("codex")
    agent.prompt("first", RULE)
    monkeypatch.setattr(hook, "_store", lambda *_: sys.exit("no time is left to store the prompt"))
    given = {"session_id": "second", "cwd": str(agent.folder), "prompt": QUESTION}
    arguments = ["--store", agent.store, "hook", "UserPromptSubmit", "--client", "codex"]
    assert RULE in invoke(arguments, input=json.dumps(given)).stdout


def test_a_long_session_is_stored_in_several_transactions(agent_in, monkeypatch):
    agent = agent_in("claude-code")
    monkeypatch.setattr(hook, "BATCH", 3)
    monkeypatch.setattr(hook, "BATCH_SIZE", 100)
    sizes = []
    ingest = salience.engine.Engine.ingest
    monkeypatch.setattr(
        salience.engine.Engine,
        "ingest",
        lambda self, turns, **where: sizes.append(len(turns)) or ingest(self, turns, **where),
    )
    texts = [f"Turn {number}" for number in range(4)] + ["a" * 60, "b" * 60, "c" * 200, "last"]
    for text in texts:
        agent.write("first", "user", text)
    agent.stop("first", "Done.")
    assert [text for _, text in agent.stored()] == [*texts, "Done."]
    assert sizes == [3, 2, 1, 1, 2]


@pytest.mark.slow
def test_the_installed_command_lines_run_in_a_shell(agent_in, tmp_path, target, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    agent = agent_in("claude-code")
    install = [
        "--store",
        target,
        "mcp",
        "install",
        "--client",
        "claude-code",
        "--hooks",
        "--yes",
        "--project",
        "ana's app",
    ]
    assert invoke(install).exit_code == 0
    hooks = json.loads((tmp_path / ".claude" / "settings.json").read_text("utf-8"))["hooks"]

    def run(event, **data):
        data |= {"session_id": data.pop("session"), "cwd": str(agent.folder), "hook_event_name": event}
        [entry] = hooks[event]
        [command] = [hook["command"] for hook in entry["hooks"]]
        result = subprocess.run(
            ["sh", "-c", command], input=json.dumps(data), capture_output=True, text=True, timeout=PATIENCE
        )
        if "stopped after" in result.stderr:
            pytest.skip("the machine is too busy for the time limit of the command")
        assert (result.returncode, result.stderr) == (0, "")
        return result.stdout

    agent.write("first", "user", RULE)
    agent.write("first", "assistant", DONE)
    assert run("Stop", session="first", transcript_path=str(agent.log("first")), stop_hook_active=False) == ""
    assert 'project=\\"ana' in run("SessionStart", session="second", source="startup")
    prompt = "Does the vendor block the account?"  # its words are enough if the model loads late
    assert RULE in run("UserPromptSubmit", session="second", prompt=prompt)
