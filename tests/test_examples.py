"""The programs in `examples/` run, in processes of their own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
import venv
from itertools import pairwise
from pathlib import Path

import pytest

from chat_double import ChatDouble
from waiting import PATIENCE

FOLDER = Path(__file__).parents[1] / "examples"
CACHE = FOLDER.parent / ".mypy_cache" / "examples"
"""Kept from run to run: without it, mypy reads all libraries again, which takes half a minute."""


@pytest.fixture
def example(tmp_path):
    """A function that runs an example in an empty folder and returns what it prints."""

    def run(name, input="", **variables):
        environment = os.environ | {"PYTHONPATH": str(FOLDER.parent / "src")} | variables
        command = [sys.executable, "-W", "error", str(FOLDER / name)]
        result = subprocess.run(
            command, cwd=tmp_path, env=environment, input=input, capture_output=True, text=True, timeout=PATIENCE
        )
        assert (result.returncode, result.stderr) == (0, "")
        return result.stdout

    return run


def test_the_list_names_each_example():
    named = re.findall(r"\]\((\w+\.py)\)", (FOLDER / "README.md").read_text("utf-8"))
    assert sorted(named) == sorted(file.name for file in FOLDER.glob("*.py"))


@pytest.mark.slow
def test_chat_remembers_from_one_run_to_the_next(example):
    with ChatDouble(lambda asked: f"You said: {asked}") as model:
        variables = {"OPENAI_BASE_URL": model.url, "OPENAI_API_KEY": "none"}
        assert "You said: My dog is called Bruno" in example("chat.py", "My dog is called Bruno\n", **variables)
        printed = example("chat.py", "What is my dog called?\n", **variables)
    assert "My dog is called Bruno (similarity" in printed
    assert "Bruno" in model.told[-1]
    assert "Bruno" not in model.told[0]
    lines = (FOLDER / "chat.py").read_text("utf-8").splitlines()
    assert len(lines) < 60


@pytest.mark.slow
def test_profiles_shows_both_orders(example):
    printed = example("profiles.py")
    first = {name: line for name, line in pairwise(printed.splitlines()) if name.endswith(":")}
    assert "peanuts" in first["salience:"]
    assert "salad" in first["mememory:"]
    assert "temporal_decay" in printed


@pytest.mark.slow
def test_as_of_answers_from_before_the_change(example):
    today, past, *versions = example("as_of.py").splitlines()
    assert today.endswith("Alice lives in Lisbon")
    assert past.endswith("Alice lives in Berlin")
    assert [line.split(":")[0] for line in versions] == ["version 1", "version 2"]
    assert "she moved" in versions[1]


TALK = """\
ann: I live in Berlin
bob: My dog is called Bruno
ann: I live in Lisbon now
ann: Where do I live?
bob: What is my dog called?
ann: What is my dog called?
"""
ANSWERS = [
    "Noted.", "Noted.", "Noted. Until now it was: I live in Berlin", "You told me: I live in Lisbon now",
    "You told me: My dog is called Bruno", "Nobody told me: What is my dog called?",
]  # fmt: skip


@pytest.mark.slow
def test_two_users_get_their_own_memories(example):
    printed = example("two_users.py", TALK).splitlines()
    assert printed[::2] == TALK.splitlines()
    assert [line.strip() for line in printed[1::2]] == ANSWERS
    assert len((FOLDER / "two_users.py").read_text("utf-8").splitlines()) <= 60


@pytest.mark.slow
def test_the_types_of_a_chat_loop_are_those_that_an_installation_brings(tmp_path):
    """mypy with no configuration: it reads `py.typed` of an installed package, and has no plugin of pydantic."""
    venv.create(tmp_path / "venv", with_pip=False)
    python = tmp_path / "venv" / "bin" / "python"
    [packages] = (tmp_path / "venv" / "lib").glob("python*/site-packages")
    (packages / "installed.pth").write_text(f"{FOLDER.parent / 'src'}\n{sysconfig.get_path('purelib')}\n")
    strict = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--config-file",
        "",
        "--cache-dir",
        CACHE,
        "--python-executable",
        python,
    ]
    files = [FOLDER / "two_users.py", FOLDER / "as_of.py", FOLDER / "profiles.py"]
    checked = subprocess.run([*strict, *files], cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE)
    assert (checked.returncode, checked.stderr) == (0, ""), checked.stdout
    assert "type: ignore" not in "".join(file.read_text("utf-8") for file in files)
