"""The installed command in a process of its own: what only a real process can show."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from waiting import PATIENCE

pytestmark = pytest.mark.slow

COMMAND = str(Path(sys.executable).with_name("salience"))
HELP_AND_HEAVY = """
import sys
from salience.cli import main
sys.argv = ["salience", "--help"]
try:
    main()
finally:
    heavy = {"onnxruntime", "tokenizers", "alembic", "httpx", "spacy", "dateutil", "optuna", "tomlkit"}
    print(heavy & set(sys.modules), file=sys.stderr)
"""


@pytest.fixture
def env(tmp_path):
    return {**os.environ, "SALIENCE_URL": str(tmp_path / "process.db"), "TERM": "xterm", "COLUMNS": "100"}


@pytest.fixture
def chat(written):
    return written("chat.jsonl", *({"role": "user", "content": f"Turn {number} of a talk"} for number in range(4000)))


def test_help_starts_without_the_heavy_libraries(env):
    done = subprocess.run(
        [sys.executable, "-c", HELP_AND_HEAVY], env=env, text=True, capture_output=True, timeout=PATIENCE
    )
    assert (done.returncode, done.stderr) == (0, "set()\n")
    assert "Memory for AI agents" in done.stdout


def test_a_memory_from_a_pipe_is_recalled(process):
    made = process("remember", "-", "--user", "alice", input="Alice prefers Python for backend work\n")
    assert (made.returncode, made.stderr) == (0, "")
    found = process("recall", "Which language does Alice like?", "--user", "alice", "--json")
    assert json.loads(found.stdout)["hits"][0]["memory"]["content"] == "Alice prefers Python for backend work"


def test_errors_go_to_stderr_without_a_traceback(process, written):
    text = "These are notes, not memories. " * 50
    broken = process("--store", written("notes.txt", text), "stats")
    assert (broken.returncode, broken.stdout) == (1, "")
    assert broken.stderr.startswith("salience: ")
    assert len(broken.stderr.splitlines()) == 1
    assert "notes, not memories" not in broken.stderr


def test_a_closed_pipe_ends_quietly(process, written, env):
    drafts = [{"content": f"Draft {number} " + "x" * 900, "importance": 0.5, "entities": []} for number in range(300)]
    assert process("import", written("d.jsonl", *drafts)).returncode == 0
    writer = subprocess.Popen([COMMAND, "export"], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    with writer:
        assert writer.stdout.readline().startswith('{"format"')
        writer.stdout.close()
        assert writer.stderr.read() == ""
    assert writer.returncode == 141


def test_a_bar_is_shown_on_a_terminal_and_an_interrupt_ends_quietly(chat, env):
    """The bar goes to stderr, a terminal here; what was stored before the interrupt stays."""
    reader, terminal = pty.openpty()
    working = subprocess.Popen([COMMAND, "ingest", chat], env=env, stdout=subprocess.PIPE, stderr=terminal, text=True)
    os.close(terminal)
    seen = _read_until(reader, "memories/s")
    working.send_signal(signal.SIGINT)
    seen += _read_until(reader, None)
    assert working.wait(PATIENCE) == 130
    assert working.stdout.read() == ""
    working.stdout.close()
    assert "ingesting" in seen
    assert "Traceback" not in seen
    assert "Turn " not in seen


def _read_until(reader, wanted):
    """Return what the terminal shows up to `wanted`, or to the end for None."""
    seen, end = "", time.monotonic() + 60
    while (wanted is None or wanted not in seen) and time.monotonic() < end:
        try:
            piece = os.read(reader, 4096).decode(errors="replace")
        except OSError:  # the other side is closed
            break
        if not piece:
            break
        seen += piece
    return seen


def test_a_locale_without_the_sign_stops_nothing(process, env):
    made = process("remember", "Tomás says 你好", "--json")
    done = subprocess.run(
        [COMMAND, "list", "--json"], env={**env, "PYTHONIOENCODING": "latin-1"}, capture_output=True, timeout=PATIENCE
    )
    assert made.returncode == done.returncode == 0
    assert json.loads(done.stdout)["memories"][0]["content"] == "Tomás says 你好"
    plain = subprocess.run(
        [COMMAND, "list"], env={**env, "PYTHONIOENCODING": "latin-1"}, capture_output=True, timeout=PATIENCE
    )
    assert (plain.returncode, plain.stderr) == (0, b"")
    assert "Tomás says \\u4f60\\u597d" in plain.stdout.decode("latin-1")


def test_bytes_that_are_no_text_are_refused_in_the_locale_c_too(process, monkeypatch):
    monkeypatch.setenv("LC_ALL", "C")
    result = process("remember", "-", input="caf\udce9", errors="surrogateescape")
    assert (result.returncode, result.stderr) == (2, "salience: content is not utf-8. Give text in utf-8.\n")
