"""Requests under idempotency keys where several processes are at one store, and where its books are wrong."""

import sqlite3
import subprocess
import sys
from contextlib import closing

import psycopg
import pytest

import salience
from salience import compose
from salience.ports import Answered
from salience.records import Scope
from tests.contract.doubles import PlantedEmbedder
from tests.contract.memories import NOW, id_of

ASKING = """
import sys
import salience
from tests.contract.doubles import PlantedEmbedder
with salience.connect(sys.argv[1], embedder=PlantedEmbedder()) as memory:
    print("ready", flush=True)
    sys.stdin.readline()
    print(memory.update(sys.argv[2], tags=[sys.argv[3]], key="k").memory.tags[0], flush=True)
"""


@pytest.fixture(params=["file", pytest.param("server", marks=pytest.mark.slow)])
def place(request, tmp_path):
    return str(tmp_path / "memory.db") if request.param == "file" else request.getfixturevalue("tables")


@pytest.fixture
def memory(place):
    with salience.connect(place, embedder=PlantedEmbedder()) as memory:
        yield memory


@pytest.mark.slow
def test_of_several_processes_with_one_key_one_writes(memory, place):
    id = memory.remember("The crocus blooms").memory.id
    command = [sys.executable, "-W", "error", "-c", ASKING, place, id]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    asking = [subprocess.Popen([*command, name], **pipes) for name in "ab"]
    try:
        assert [process.stdout.readline() for process in asking] == ["ready\n"] * 2
        for process in asking:
            process.stdin.write("\n")
            process.stdin.flush()
        told = {process.communicate()[0].strip() for process in asking}
        assert [process.returncode for process in asking] == [0, 0]
    finally:
        for process in asking:
            process.kill()
            process.communicate()
    assert memory.get(id).tags == tuple(told)
    assert memory.get(id).version == 2


def test_a_request_of_a_memory_that_is_not_there_is_found_and_dropped(memory, place):
    kept = memory.remember("The crocus blooms").memory
    memory.forget(kept.id, key="kept")
    memory.services.store.apply([Answered(Scope(), "stray", "forget", id_of(9), 2, NOW)])
    with compose.database(place) as database:
        assert [(found.check, found.repaired) for found in database.check()] == [("requests", False)]
        assert [found.repaired for found in database.check(repair=True)] == [True]
        assert database.check() == []
    assert memory.services.store.answered(Scope(), "stray") is None
    assert memory.forget(kept.id, key="kept").status == "forgotten"


def test_a_request_that_cannot_be_read_is_told_as_damage(memory, place):
    id = memory.remember("The crocus blooms").memory.id
    memory.forget(id, key="k")
    if place.startswith("postgresql"):
        with psycopg.connect(place) as connection:
            connection.execute("UPDATE salience.requests SET at = 9223372036854775807")
    else:
        with closing(sqlite3.connect(place, isolation_level=None)) as file:
            file.execute("UPDATE requests SET at = 'damaged'")
    with pytest.raises(salience.StoreError, match="salience doctor"):
        memory.forget(id, key="k")
