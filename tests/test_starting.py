"""What a start leaves unread: each program imports the parts that it uses, and those who read the list see no more."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module

import numpy as np
import pytest

import salience

MODELS = {"onnxruntime", "tokenizers", "wordllama", "fastembed", "sentence_transformers", "torch", "spacy", "openai"}
SURFACES = {"typer", "rich", "fastapi", "starlette", "uvicorn", "mcp", "structlog", "httpx", "anyio"}
LAB = {"optuna", "tomlkit", "salience.evaluate"}
DATABASES = {"psycopg", "pgvector", "salience.store.postgres", "alembic"}
GROUND = {"numpy", "sqlalchemy", "pydantic", "Stemmer", "pybase64", "stop_words", "tenacity", "salience.engine"}
WORDS = {"Stemmer", "stop_words"}
ALWAYS_LATER = MODELS | LAB | DATABASES
OPENED = """
import numpy, salience
class Fixed:
    name, dimension = "fixed", 4
    def embed(self, texts):
        return numpy.full((len(texts), 4), 0.5, numpy.float32)
memory = salience.connect("first.db", embedder=Fixed())
memory.recall("Who is there?")
"""
COMMAND = "import sys; from salience.cli import main; sys.argv = ['salience', {}]\ntry: main()\nexcept SystemExit: pass"
HOOK = """
import io, sys
sys.stdin = io.TextIOWrapper(io.BytesIO(b'{"session_id": "s", "cwd": "/", "prompt": "Who is there?"}'))
from salience.cli import main
sys.argv = ["salience", "--store", "hooked.db", "hook", "UserPromptSubmit"]
try: main()
except SystemExit: pass
"""
OTHER_COMMANDS = {f"salience.cli.{name}" for name in ("memories", "files", "maintain", "serve", "evaluate", "status")}
COMMAND_LINE = ALWAYS_LATER | {"httpx", "fastapi", "mcp", "salience.server"}
CASES = {
    "the package": ("import salience", ALWAYS_LATER | SURFACES | GROUND),
    "an error": ("from salience import InputError", ALWAYS_LATER | SURFACES | GROUND),
    "connect": ("from salience import connect", ALWAYS_LATER | SURFACES | {"sqlalchemy", "salience.client"}),
    "a file": (OPENED, ALWAYS_LATER | SURFACES | {"salience.client"}),
    "the version": (COMMAND.format("'--version'"), COMMAND_LINE | GROUND - WORDS),
    "the help": (COMMAND.format("'--help'"), COMMAND_LINE | GROUND - WORDS),
    "a hook": (HOOK, LAB | DATABASES | OTHER_COMMANDS | {"rich", "httpx", "fastapi", "mcp", "salience.server"}),
    "a command": (COMMAND.format("'config', 'path'"), COMMAND_LINE | OTHER_COMMANDS),
}
"""What is started -> its code, and what it is to leave unimported."""


def imported(code, folder):
    """Return the modules that a fresh process has after running the code."""
    told = f"{code}\nimport sys\nprint('\\n' + ' '.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", told], cwd=folder, check=True, capture_output=True, text=True)
    return set(done.stdout.splitlines()[-1].split())


@pytest.fixture
def made(tmp_path):
    with salience.connect(tmp_path / "first.db", embedder=_Fixed()) as memory:
        memory.remember("Nobody is there")
    return tmp_path


class _Fixed:
    name, dimension = "fixed", 4

    def embed(self, texts):
        return np.full((len(texts), 4), 0.5, np.float32)


@pytest.mark.parametrize("case", CASES)
def test_a_start_leaves_unimported_what_it_does_not_use(case, made):
    code, later = CASES[case]
    assert later & imported(code, made) == set()


def test_what_is_said_to_be_left_is_there_to_be_imported():
    ours = {name for _, later in CASES.values() for name in later if name.startswith("salience.")}
    assert all(import_module(name) for name in ours)


def test_every_name_is_imported_on_first_use():
    assert {*dir(salience)} >= {*salience.__all__}
    for name in salience.__all__:
        assert getattr(salience, name) is not None


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="nothing_of_this_name"):
        _ = salience.nothing_of_this_name
    with pytest.raises(ImportError, match="nothing_of_this_name"):
        exec("from salience import nothing_of_this_name")  # noqa: S102


def test_a_star_brings_all_that_is_exported():
    space = {}
    exec("from salience import *", space)  # noqa: S102
    assert {*space} >= {*salience.__all__}
