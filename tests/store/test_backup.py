"""Copies of a file that is in use: whole, of one instant, and put back under the eyes of those who have it open."""

import json
import os
import shutil
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing
from pathlib import Path

import pytest

import salience
from salience import BusyError, InputError, NotAStoreError, StoreError, VersionError, compose, keywords
from salience.steps import scan
from salience.store import backup
from salience.store.sqlite_file import PAGE_SIZE
from salience.temporary import PREFIX, STUCK
from tests.contract.doubles import HashedEmbedder

pytestmark = pytest.mark.slow

EMBEDDER = HashedEmbedder("e", 16)
PRELUDE = """
import sys
import salience
from tests.contract.doubles import HashedEmbedder
memory = salience.connect(sys.argv[1], embedder=HashedEmbedder("e", 16))
print("open", flush=True)
"""
PAIRS = """
number = 0
while True:
    memory.remember_many([{"content": f"left {number}"}, {"content": f"right {number}"}])
    print(number, flush=True)
    number += 1
"""
ASKED = """
for line in sys.stdin:
    found = memory.recall(line.strip(), limit=1, min_score=0.0, profile="mememory")
    print([hit.memory.content for hit in found], found.degraded, flush=True)
"""
TOLD = """
for line in sys.stdin:
    print(memory.remember(line.strip()).status, flush=True)
"""


@pytest.fixture
def path(tmp_path):
    return tmp_path / "agent.db"


@pytest.fixture
def copy(tmp_path):
    return tmp_path / "copy.db"


@pytest.fixture
def memory(path):
    with salience.connect(path, embedder=EMBEDDER) as engine:
        yield engine


@pytest.fixture
def start(path):
    running = []

    def start(program):
        arguments = [sys.executable, "-W", "error", "-c", PRELUDE + program, str(path)]
        running.append(subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
        assert running[-1].stdout.readline() == "open\n"
        return running[-1]

    yield start
    for process in running:
        process.kill()
        process.communicate()


def ask(process, line):
    print(line, file=process.stdin, flush=True)
    return process.stdout.readline().strip()


def texts(file):
    with salience.connect(file, embedder=EMBEDDER) as engine:
        scope, _ = keywords.scope(engine.services.tenant, keywords.EVERYWHERE)
        return sorted(item.memory.content for item in scan(engine.services, scope))


def beside(file):
    return sorted(found.name for found in file.parent.iterdir())


def test_a_backup_is_a_store_of_the_same_memories(memory, copy):
    kept = memory.remember("Alice prefers Python", user_id="alice").memory.id
    memory.update(kept, importance=0.9, user_id="alice")
    memory.backup(copy)
    with salience.connect(copy, embedder=EMBEDDER) as engine:
        assert engine.get(kept, user_id="alice") == memory.get(kept, user_id="alice")
        assert engine.doctor(deep=True).healthy
        assert engine.remember("and goes on").status == "created"


def test_a_backup_is_one_file_for_its_owner_alone(memory, copy):
    memory.remember("Alice prefers Python")
    memory.backup(copy)
    assert copy.stat().st_mode & 0o777 == 0o600
    assert beside(copy) == ["agent.db", "agent.db-shm", "agent.db-wal", "copy.db"]
    shutil.copy(copy, copy.with_name("alone.db"))
    assert texts(copy.with_name("alone.db")) == ["Alice prefers Python"]


def test_progress_ends_with_nothing_left(memory, copy):
    memory.import_([json.dumps({"content": f"{number}", "metadata": {"x": "x" * 5_000}}) for number in range(500)])
    told = []
    memory.backup(copy, progress=lambda left, pages: told.append((left, pages)))
    assert len(told) > 1
    assert told[-1][0] == 0
    assert [left for left, _ in told] == sorted((left for left, _ in told), reverse=True)
    assert len({pages for _, pages in told}) == 1


def test_what_comes_while_it_is_written_is_not_in_it(memory, copy):
    memory.import_([json.dumps({"content": f"{number}", "metadata": {"x": "x" * 5_000}}) for number in range(500)])
    memory.backup(copy, progress=lambda *_: memory.remember("late"))
    assert "late" in [found.content for found in memory.list(limit=1000).memories]
    assert len(texts(copy)) == 500


def test_a_backup_under_write_load_holds_what_was_acknowledged_and_no_half_transaction(memory, copy, start):
    writer = start(PAIRS)
    acknowledged = [int(writer.stdout.readline()) for _ in range(20)]
    for number in range(3):
        memory.backup(copy, overwrite=bool(number))
        held = texts(copy)
        sides = [{text.split()[1] for text in held if text.startswith(side)} for side in ("left", "right")]
        assert sides[0] == sides[1]
        assert sides[0] >= set(map(str, acknowledged))
        with salience.connect(copy, embedder=EMBEDDER) as engine:
            assert engine.doctor(deep=True).healthy
        acknowledged += [int(writer.stdout.readline()) for _ in range(20)]


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_file_of_something_else_is_never_replaced(memory, copy, overwrite):
    copy.write_text("a letter")
    with pytest.raises(InputError, match="Name a new file"):
        memory.backup(copy, overwrite=overwrite)
    assert copy.read_text() == "a letter"
    with pytest.raises(InputError, match="Name a new file"):
        memory.backup(copy.parent, overwrite=overwrite)


def test_a_backup_is_replaced_only_on_request(memory, copy):
    memory.remember("first")
    memory.backup(copy)
    memory.remember("second")
    with pytest.raises(InputError, match="overwrite=True, --force"):
        memory.backup(copy)
    assert texts(copy) == ["first"]
    memory.backup(copy, overwrite=True)
    assert texts(copy) == ["first", "second"]


def test_an_empty_file_is_replaced_on_request(memory, copy):
    copy.touch()
    memory.backup(copy, overwrite=True)
    assert texts(copy) == []


def test_a_store_that_is_open_is_not_replaced(memory, copy):
    memory.backup(copy)
    with salience.connect(copy, embedder=EMBEDDER) as other:
        other.remember("of the other")
        with pytest.raises(InputError, match="is in use"):
            memory.backup(copy, overwrite=True)
    with pytest.raises(InputError, match="Name a new file"):
        memory.backup(copy.with_name("agent.db"), overwrite=True)
    assert texts(copy) == ["of the other"]


def test_a_backup_that_fails_leaves_nothing_behind(memory, copy):
    def fail(*_):
        raise KeyboardInterrupt

    memory.remember("first")
    with pytest.raises(KeyboardInterrupt):
        memory.backup(copy, progress=fail)
    with pytest.raises(InputError, match="cannot be written"):
        memory.backup(copy.parent / "nowhere" / "copy.db")
    assert beside(copy) == ["agent.db", "agent.db-shm", "agent.db-wal"]


def test_what_a_killed_backup_left_behind_goes_with_the_next(memory, copy):
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    old, busy, running = (
        copy.with_name(f"{PREFIX}{process}-{name}")
        for process, name in ((ended.pid, "old"), (ended.pid, "busy"), (os.getpid(), "running"))
    )
    for file in (old, busy, running):
        file.write_text("left")
    os.utime(old, (0, 0))
    os.utime(running, (time.time() - STUCK / 2,) * 2)
    memory.backup(copy)
    assert [file.exists() for file in (old, busy, running)] == [False, True, True]
    os.utime(running, (0, 0))  # the process of that number is another one
    memory.export(copy.with_name("all.jsonl"))
    assert not running.exists()


def test_a_file_that_comes_meanwhile_is_not_replaced(memory, copy):
    memory.remember("first")
    with pytest.raises(InputError, match="overwrite=True"):
        memory.backup(copy, progress=lambda *_: copy.write_text("a letter"))
    assert copy.read_text() == "a letter"
    assert beside(copy) == ["agent.db", "agent.db-shm", "agent.db-wal", "copy.db"]


def test_a_store_in_memory_has_no_file_to_copy(copy):
    with salience.connect(":memory:", embedder=EMBEDDER) as engine, pytest.raises(InputError, match="Use export"):
        engine.backup(copy)


def test_a_reader_elsewhere_sees_the_reinstated_state_at_its_next_recall(memory, path, copy, start):
    memory.remember("the state of then")
    memory.backup(copy)
    reader, writer = start(ASKED), start(TOLD)
    assert ask(writer, "the state of now") == "created"
    assert ask(reader, "the state of now") == "['the state of now'] ()"
    for number in range(3):  # so that the sequence steps back further than one write brings it on
        ask(writer, f"more {number}")
    kept = compose.reinstate(copy, path)
    assert ask(reader, "the state of now") == "['the state of then'] ()"
    assert ask(writer, "the state of then on") == "created"
    assert ask(reader, "the state of then on") == "['the state of then on'] ()"
    assert texts(path) == ["the state of then", "the state of then on"]
    assert texts(kept) == ["more 0", "more 1", "more 2", "the state of now", "the state of then"]
    assert memory.doctor(deep=True).healthy


def test_threads_go_on_while_a_backup_is_reinstated(memory, path, copy):
    memory.remember_many([{"content": f"memory {number}"} for number in range(50)])
    memory.backup(copy)
    stop, failures = threading.Event(), []

    def work(number):
        try:
            with salience.connect(path, embedder=EMBEDDER) as engine:
                while not stop.is_set():
                    engine.remember(f"more of {number}")
                    found = engine.recall("memory 7", limit=1, min_score=0.0)
                    if [hit.memory.content for hit in found] != ["memory 7"]:
                        failures.append(found)
        except Exception as error:  # a thread's failure has to reach the test
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for _ in range(5):
        compose.reinstate(copy, path, keeping=False)
    stop.set()
    for thread in threads:
        thread.join()
    assert failures == []
    assert memory.doctor(deep=True).healthy


def test_a_store_that_is_not_there_is_made_of_the_backup(memory, path, copy):
    memory.remember("first")
    memory.backup(copy)
    new = path.parent / "new" / "agent.db"
    assert compose.reinstate(copy, new) is None
    assert texts(new) == ["first"]
    assert beside(new) == ["agent.db"]
    assert new.stat().st_mode & 0o777 == 0o600


def test_the_state_before_is_kept_unless_told_not_to(memory, path, copy):
    memory.backup(copy)
    memory.remember("of now")
    assert compose.reinstate(copy, path, keeping=False) is None
    assert not Path(f"{path}{backup.KEPT}").exists()
    memory.remember("of later")
    assert compose.reinstate(copy, path) == Path(f"{path}{backup.KEPT}")
    memory.remember("of much later")
    kept = compose.reinstate(copy, path)
    assert texts(kept) == ["of much later"]


def test_a_damaged_store_is_replaced(path, copy):
    with salience.connect(path, embedder=EMBEDDER) as engine:
        engine.remember_many([{"content": f"{number} " + "word " * 200} for number in range(100)])
        engine.backup(copy)
    raw = bytearray(path.read_bytes())
    amid_the_schema = PAGE_SIZE // 2
    raw[amid_the_schema:] = bytes(byte ^ 0x5A for byte in raw[amid_the_schema:])
    path.write_bytes(raw)
    with pytest.raises(StoreError, match="keeping=False, --discard"):
        compose.reinstate(copy, path)
    compose.reinstate(copy, path, keeping=False)
    assert len(texts(path)) == 100


def test_the_backup_itself_stays_as_it_is(memory, path, copy):
    memory.backup(copy)
    before = copy.read_bytes()
    compose.reinstate(copy, path)
    assert copy.read_bytes() == before
    assert not Path(f"{copy}-wal").exists()


def test_what_is_no_backup_is_refused(memory, path, copy):
    memory.remember("stays")
    letter, empty, other, torn = (path.with_name(name) for name in ("letter", "empty", "other.db", "torn.db"))
    letter.write_text("a letter " * 1000)
    empty.touch()
    with closing(sqlite3.connect(other)) as connection:
        connection.execute("CREATE TABLE t (x)")
    memory.backup(torn)
    raw = bytearray(torn.read_bytes())
    raw[PAGE_SIZE : PAGE_SIZE * 5] = bytes(PAGE_SIZE * 4)
    torn.write_bytes(raw)
    for file in (letter, empty, other):
        with pytest.raises(NotAStoreError):
            compose.reinstate(file, path)
    for file in (copy, path, path.parent):
        with pytest.raises(InputError):
            compose.reinstate(file, path)
    with pytest.raises(StoreError, match="damaged"):
        compose.reinstate(torn, path)
    assert texts(path) == ["stays"]


def test_a_file_of_something_else_is_no_place_for_a_backup(memory, path, copy):
    memory.backup(copy)
    other = path.with_name("other.db")
    with closing(sqlite3.connect(other)) as connection:
        connection.execute("CREATE TABLE t (x)")
    with pytest.raises(NotAStoreError, match="Move it"):
        compose.reinstate(copy, other)
    with pytest.raises(InputError, match="Name a file"):
        compose.reinstate(copy, "postgresql://host/db")
    with closing(sqlite3.connect(other)) as connection:
        assert connection.execute("SELECT count(*) FROM t").fetchone() == (0,)


def test_a_backup_of_a_newer_revision_is_refused(memory, path, copy):
    memory.remember("stays")
    memory.backup(copy)
    with closing(sqlite3.connect(copy)) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
        connection.commit()
    with pytest.raises(VersionError, match="pip install --upgrade"):
        compose.reinstate(copy, path)
    assert texts(path) == ["stays"]


def test_a_store_that_is_locked_is_waited_for_and_then_left(memory, path, copy, monkeypatch):
    memory.remember("stays")
    memory.backup(copy)
    monkeypatch.setenv("SALIENCE_BUSY_TIMEOUT", "0.1")
    with closing(sqlite3.connect(path, isolation_level=None)) as holder:
        holder.execute("BEGIN IMMEDIATE")
        with pytest.raises(BusyError, match="kept it locked"):
            compose.reinstate(copy, path)
    assert texts(path) == ["stays"]


def test_a_reader_keeps_its_snapshot_while_a_backup_takes_its_place(memory, path, copy):
    memory.backup(copy)
    memory.remember("of now")
    with closing(sqlite3.connect(path, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        assert reader.execute("SELECT count(*) FROM memories").fetchone() == (1,)
        compose.reinstate(copy, path)
        assert reader.execute("SELECT count(*) FROM memories").fetchone() == (1,)
        reader.execute("COMMIT")
        assert reader.execute("SELECT count(*) FROM memories").fetchone() == (0,)
