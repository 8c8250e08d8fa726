"""Laws that hold for each command: it is listed, it explains itself, and it answers people, pipes and programs."""

from __future__ import annotations

import json
import shutil
import sys

import pytest
import typer

from salience.cli import app
from salience.cli.main import PANELS

pytestmark = pytest.mark.slow

COMMANDS = typer.main.get_command(app).commands
CASES = {
    "remember": ["remember", "Something new", "--user", "alice"],
    "recall": ["recall", "query", "--user", "alice"],
    "graph-recall": ["graph-recall", "What does Alice prefer?", "--user", "alice"],
    "explain": ["explain", "query", "ALICE", "--user", "alice"],
    "scores": ["scores", "query", "--user", "alice"],
    "decay": ["decay", "ALICE", "--user", "alice"],
    "context": ["context", "query", "--user", "alice"],
    "get": ["get", "ALICE", "--user", "alice"],
    "update": ["update", "ALICE", "--importance", "0.9", "--user", "alice"],
    "forget": ["forget", "ALICE", "--user", "alice"],
    "restore": ["restore", "GONE", "--user", "alice"],
    "history": ["history", "GONE", "--user", "alice"],
    "review": ["review", "--user", "alice"],
    "dismiss": ["dismiss", "ALICE", "GONE", "--user", "alice"],
    "changes": ["changes", "--user", "alice"],
    "activity": ["activity", "--user", "alice"],
    "erase": ["erase", "ALICE", "GONE", "--yes", "--user", "alice"],
    "list": ["list", "--user", "alice"],
    "facets": ["facets", "--field", "kind", "--user", "alice"],
    "sessions": ["sessions", "--user", "alice"],
    "stats": ["stats", "--user", "alice"],
    "status": ["status"],
    "recalls": ["recalls", "--user", "alice"],
    "ingest": ["ingest", "CHAT"],
    "end-session": ["end-session", "monday", "--user", "alice"],
    "consolidate": ["consolidate", "--user", "alice"],
    "reflect": ["reflect", "--user", "alice"],
    "upkeep": ["upkeep"],
    "import": ["import", "DRAFTS"],
    "export": ["export", "NEW"],
    "backup": ["backup", "COPY"],
    "reinstate": ["reinstate", "BACKUP", "--yes"],
    "copy": ["copy", "BACKUP", "COPY"],
    "doctor": ["doctor"],
    "reembed": ["reembed"],
    "db upgrade": ["db", "upgrade"],
    "db status": ["db", "status"],
    "db index": ["--store", "TABLES", "db", "index", "--drop"],
    "db doctor": ["db", "doctor"],
    "keys create": ["keys", "create", "--right", "read"],
    "keys list": ["keys", "list"],
    "keys revoke": ["keys", "revoke", "KEY"],
    "mcp install": ["mcp", "install", "--client", "claude-desktop", "--dry-run"],
    "profiles list": ["profiles", "list"],
    "profiles show": ["profiles", "show", "cmm"],
    "profiles check": ["profiles", "check", "salience", "cmm"],
    "eval": ["eval", "ASKED", "--profiles", "bm25,cosine", "--foreign", "2", "--no-cache"],
    "tune": ["tune", "ASKED", "--trials", "2", "--no-cache"],
    "config show": ["config", "show"],
    "config path": ["config", "path"],
    "help": ["help", "scope"],
    "demo": ["demo"],
}
ELSEWHERE = ("chat", "db distribute", "hook", "mcp serve", "serve", "ui")
"""What needs a Citus cluster or a language model, answers an agent, or goes on until it is ended: see
tests/store/test_citus.py, test_chat.py, test_hook.py, tests/server."""
OF_EXTRAS = (
    "fastapi", "fastembed", "jinja2", "jwt", "limits", "mcp", "multipart", "openai", "opentelemetry", "optuna",
    "pgvector", "prometheus_client", "psycopg", "starlette", "structlog", "tomlkit", "uvicorn", "wordllama",
)  # fmt: skip
"""Libraries that `pip install .` without an extra does not install."""
WITH_EXTRAS = {"db index": "postgres", "mcp install": "server", "tune": "eval"}
"""Command that needs an extra -> its name."""
UNSCOPED = (
    "profiles", "eval", "tune", "help", "demo", "upkeep", "backup", "reinstate", "copy", "doctor",
    "reembed", "db", "keys", "mcp", "config", "status",
)  # fmt: skip
SCOPED = [name for name in CASES if not name.startswith(UNSCOPED)]


def commands():
    return [
        f"{name} {below}" if below else name
        for name, command in COMMANDS.items()
        for below in getattr(command, "commands", {"": None})
    ]


@pytest.fixture(scope="session")
def files(apart, of_alice, tmp_path_factory):
    """A folder with what the cases name, to be copied, and the ids in it."""
    folder = tmp_path_factory.mktemp("files")
    store, result = of_alice
    shutil.copyfile(store, folder / store.name)
    with apart(folder) as run:
        gone = run("remember", "Gone", "--user", "alice").stdout.split()[1]
        run("forget", gone, "--user", "alice")
        run("backup", str(folder / "backup.db"))
        key = run("keys", "create", "--right", "read").stdout.split("_")[1]
    return folder, {"ALICE": result.alice, "GONE": gone, "KEY": key}


@pytest.fixture
def arguments(request, files, run, written, tmp_path):
    folder, places = files
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    texts = [("Ana", "I drink tea"), ("Bo", "I sail"), ("Bo", "My boat leaks")]
    turns = [{"speaker": who, "dia_id": f"D1:{n}", "text": text} for n, (who, text) in enumerate(texts, 1)]
    given = [{"question": "Who drinks tea?", "answer": "Ana", "category": 4, "evidence": ["D1:1"]}]
    talks = [{"sample_id": name, "conversation": {"session_1": turns}, "qa": given} for name in "ab"]
    places = {
        **places,
        "CHAT": written("chat.json", [{"role": "user", "content": "Hello"}]),
        "DRAFTS": written("drafts.jsonl", {"content": "A draft"}),
        "ASKED": written("asked.json", talks),
        "NEW": str(tmp_path / "new.jsonl"),
        "BACKUP": str(tmp_path / "backup.db"),
        "COPY": str(tmp_path / "copy.db"),
    }

    def arguments(name):
        if "TABLES" in CASES[name]:
            places["TABLES"] = request.getfixturevalue("tables")
        return [places.get(item, item) for item in CASES[name]]

    return arguments


def test_the_cases_cover_every_command():
    assert sorted(commands()) == sorted([*CASES, *ELSEWHERE])


def test_help_lists_every_command_with_its_summary(run):
    listed = run("--help").stdout.split("--help ")[1].splitlines()
    names = [line.split()[0] for line in listed if line.startswith("  ") and line[2] != " "]
    assert names == list(COMMANDS)
    assert [line.removesuffix(":") for line in listed if line.endswith(":")] == list(PANELS)


def test_both_help_options_are_the_same(run):
    assert run("recall", "-h").stdout == run("recall", "--help").stdout


@pytest.mark.parametrize("name", CASES)
def test_help_explains_every_command(run, name):
    printed = run(*name.split(), "--help").stdout
    assert printed.startswith("Usage: ")
    assert "--json" in printed
    assert "..." not in printed.split("Options:")[0].replace("...}", "").replace("PATH...", "").replace(
        "NAME...", ""
    ).replace("[ID]...", "").replace("{ID}...", "").replace("[TOPIC]...", "")


@pytest.mark.parametrize("name", SCOPED)
def test_every_verb_takes_the_scope_options(run, name):
    printed = run(name, "--help").stdout
    for option in ("--environment", "--project", "--user", "--agent", "--scope"):
        assert option in printed
    assert ("--session" in printed) == (name not in ("end-session", "consolidate", "reflect"))


@pytest.mark.parametrize("name", CASES)
def test_every_command_prints_one_json_document_on_request(run, arguments, name):
    result = run(*arguments(name), "--json")
    assert json.loads(result.stdout)
    assert result.stderr == ""


@pytest.mark.parametrize("name", CASES)
def test_a_pipe_gets_plain_text(run, arguments, name):
    result = run(*arguments(name))
    assert result.stdout.strip()
    assert not set(result.stdout) & set("\x1b─│┃━█░")
    assert result.stderr == ""


@pytest.mark.parametrize("name", CASES)
def test_an_installation_without_extras_has_the_command_or_names_the_extra(run, arguments, name, monkeypatch):
    given = arguments(name)
    for library in OF_EXTRAS:
        monkeypatch.setitem(sys.modules, library, None)
    result = run(*given, code=int(name in WITH_EXTRAS))
    if name in WITH_EXTRAS:
        assert result.stderr.endswith(f'[{WITH_EXTRAS[name]}]"\n')


@pytest.mark.parametrize("name", [name for name in CASES if not name.startswith("profiles")])
def test_a_terminal_gets_the_same_facts(run, arguments, of_alice, name):
    result = run(*arguments(name), terminal=True)
    assert result.stdout.strip()
    if name in ("recall", "graph-recall", "context", "get", "list"):
        assert of_alice[1].text in result.stdout


@pytest.mark.parametrize("option", ["--embedder", "--profile", "--store"])
def test_the_options_before_the_command_are_explained(run, option):
    assert option in run("--help").stdout


def test_the_version_is_reported(run):
    assert run("--version").stdout == "salience 0.1.0\n"
