"""The command chat: recall before an answer, remember after it, and its own commands."""

from __future__ import annotations

import importlib.util
import os
import pty
import re
import subprocess
import sys

import pytest

import salience
from chat_double import ChatDouble
from waiting import PATIENCE

ALICE = "Alice prefers Python for backend work"
"""The planted embedder's nearest text to every question: see conftest."""
QUESTION = "Which language does Alice prefer?"


@pytest.fixture
def model(monkeypatch):
    with ChatDouble(lambda asked: f"You said: {asked}") as double:
        monkeypatch.setenv("SALIENCE_LLM_BASE_URL", double.url)
        monkeypatch.setenv("SALIENCE_LLM_RETRIES", "0")
        yield double


def test_it_recalls_before_the_answer_and_remembers_after_it(run, model, stored):
    result = run("chat", "--user", "alice", "--session", "s", input=f"{QUESTION}\n\nAnd for scripts?\n")
    assert result.stdout == f"You said: {QUESTION}\nYou said: And for scripts?\n"
    shown = [line for line in result.stderr.splitlines() if stored.alice[-8:] in line]
    assert ALICE in shown[0]
    assert re.search(r" = \w+ 0\.\d\d.* x importance 0\.\d\d", shown[0])
    assert ALICE in model.told[0]
    assert [message["content"] for message in model.requests[1][1:]] == [
        QUESTION, f"You said: {QUESTION}", "And for scripts?",
    ]  # fmt: skip
    listed = run("list", "--user", "alice", "--kind", "turn", "--from-session", "s").stdout
    assert [line.split("\t")[-1] for line in listed.splitlines()[1:]] == [
        QUESTION, f"You said: {QUESTION}", "And for scripts?", "You said: And for scripts?",
    ]  # fmt: skip


def test_the_next_conversation_recalls_this_one_and_another_user_does_not(run, model):
    run("chat", "--user", "alice", input="Alice went to Lisbon\n")
    run("chat", "--user", "alice", input=f"{QUESTION}\n")
    assert "Alice went to Lisbon" in model.told[-1]
    run("chat", "--user", "bob", input=f"{QUESTION}\n")
    assert "Lisbon" not in model.told[-1]


def test_why_and_forget_take_an_id(run, model, stored):
    short = stored.alice[-8:]
    commands = f"/why {short}\n{QUESTION}\n/why {short}\n/forget {short}\n/why {short}\n/nonsense\n/quit\nnever asked\n"
    result = run("chat", "--user", "alice", input=commands)
    help_, answer, reason, score, forgotten, gone, *_ = result.stdout.splitlines()
    assert help_.startswith("/why ID")  # nothing was asked yet
    assert answer == f"You said: {QUESTION}"
    assert "rank" in reason.lower() or "returned" in reason.lower()
    assert " = 0." in score
    assert forgotten == f"forgotten {short}"
    assert "forgot" in gone
    assert len(model.questions) == 1
    assert "forget" in run("history", stored.alice, "--user", "alice").stdout


def test_a_failure_in_a_pipe_ends_with_code_1_and_stores_nothing(run, run_json, model, stored):
    model.status = 500
    result = run("chat", "--user", "alice", input=f"{QUESTION}\nmore\n", code=1)
    assert "answered with status 500" in result.stderr
    assert len(model.questions) == 1
    assert not run_json("list", "--user", "alice", "--kind", "turn")["memories"]


def test_an_unknown_id_in_a_pipe_is_an_error(run, model, stored):
    result = run("chat", "--user", "alice", input="/forget 00000000\n", code=1)
    assert "00000000" in result.stderr


def test_without_an_endpoint_the_error_names_the_settings(run):
    result = run("chat", input="hello\n", code=2)
    assert "SALIENCE_LLM_API_KEY" in result.stderr
    assert "SALIENCE_LLM_BASE_URL" in result.stderr


def test_without_the_library_the_error_has_the_pip_line(run, model, monkeypatch):
    found = importlib.util.find_spec
    monkeypatch.setattr("salience.loading.find_spec", lambda name: None if name == "openai" else found(name))
    result = run("chat", input="hello\n", code=1)
    assert '[llm]"' in result.stderr


@pytest.mark.slow
def test_on_a_terminal_a_failure_does_not_end_the_conversation(model, target):
    model.status = 500
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "salience", "--store", target, "chat"], stdin=theirs, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        os.write(ours, b"hello\n/quit\n")
        _, stderr = process.communicate(timeout=PATIENCE)
    os.close(ours)
    os.close(theirs)
    assert process.returncode == 0
    assert "/why ID" in stderr
    assert "status 500" in stderr
    with salience.connect(target) as memory:
        assert not memory.list().memories
