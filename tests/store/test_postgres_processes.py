"""Many processes on one database: no error, no lost write, no stale read, and one set of tables."""

import subprocess
import sys
from contextlib import closing

import psycopg
import pytest

from salience.store.postgres import PostgresStore
from tests.contract.memories import DIMENSION, EVERYTHING, add, listed, need, stored
from tests.postgres_server import fresh, server

OPEN = f"""
store = PostgresStore.open(sys.argv[1], embedder="e", dimension={DIMENSION}, language="none", busy_timeout=60)
print("open", flush=True)
"""
PRELUDE = """
import sys
from salience.records import Scope
from salience.store.postgres import PostgresStore
from tests.contract.memories import EVERYTHING, add, id_of, need, stored
"""
WRITER = """
first, count, tenant = int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
for number in range(first, first + count):
    add(store, stored(number, session_id="s", tenant=tenant))
    print(number, flush=True)
store.close()
"""
READER = """
seen = 0
while seen < int(sys.argv[2]):
    batch = store.gather(need(terms=("memory",)))
    assert len(batch) == batch.lexicon.documents == len(batch.lexicon.postings.rows) >= seen
    seen = len(batch)
print(seen, flush=True)
store.close()
"""


@pytest.fixture
def start():
    running = []

    def start(dsn, program, *arguments, prelude=PRELUDE + OPEN):
        command = [sys.executable, "-W", "error", "-c", prelude + program, dsn, *map(str, arguments)]
        running.append(
            subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        )
        return running[-1]

    yield start
    for process in running:
        process.kill()
        process.communicate()


@pytest.fixture
def opened(tables):
    with closing(PostgresStore.open(tables, embedder="e", dimension=DIMENSION, language="none")) as store:
        yield store


def ended(*processes):
    """What they said, once they are done without an error."""
    ends = [(*process.communicate(timeout=120), process.returncode) for process in processes]
    assert [(error, code) for _, error, code in ends] == [("", 0)] * len(processes)
    return [out for out, _, _ in ends]


def test_writers_of_one_tenant_and_of_others_and_readers_lose_nothing(start, opened, tables):
    """Each memory has a place of its own in its session, though three write to two sessions."""
    writers = [start(tables, WRITER, first, 100, tenant) for first, tenant in ((0, "default"), (100, "default"))]
    writers.append(start(tables, WRITER, 0, 100, "other"))
    ended(*writers, start(tables, READER, 200))
    assert listed(opened, limit=1000) == list(range(200))
    assert sorted(item.memory.turn for item in opened.scan(EVERYTHING, limit=1000)) == list(range(1, 201))
    with psycopg.connect(tables) as superuser:
        found = superuser.execute("SELECT tenant, count(*), max(seq) FROM salience.memories GROUP BY 1 ORDER BY 1")
        assert found.fetchall() == [("default", 200, 200), ("other", 100, 100)]


def test_an_acknowledged_memory_is_seen_by_the_next_gather_elsewhere(start, opened, tables):
    answering = """
for line in sys.stdin:
    add(store, stored(int(line)))
    print(line.strip(), flush=True)
"""
    writer = start(tables, answering)
    assert writer.stdout.readline() == "open\n"
    for number in range(50):
        print(number, file=writer.stdin, flush=True)
        assert writer.stdout.readline() == f"{number}\n"
        assert len(opened.gather(need())) == number + 1


def test_a_killed_writer_loses_nothing_that_was_acknowledged(start, opened, tables):
    """And nobody waits for what it had begun."""
    writer = start(tables, WRITER, 0, 100_000, "default")
    acknowledged = [int(line) for line in (writer.stdout.readline() for _ in range(51)) if line != "open\n"]
    writer.kill()
    acknowledged += [int(line) for line in writer.communicate()[0].splitlines()]
    add(opened, stored(200_000))
    found = listed(opened, limit=100_000)
    assert found.pop() == 200_000
    assert found[: len(acknowledged)] == acknowledged
    assert len(found) <= len(acknowledged) + 1  # one more may have been stored and not yet told
    assert len(opened.gather(need())) == len(found) + 1


def test_processes_that_open_one_empty_database_make_its_tables_once(start, database):
    program = "sys.stdin.readline(); add(store, stored(int(sys.argv[2]), session_id='s')); store.close()"
    held = f"{PRELUDE}\nprint('ready', flush=True); sys.stdin.readline()\n{OPEN}"
    processes = [start(database, program, number, prelude=held) for number in range(6)]
    for process in processes:
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        process.stdin.write("open\nwrite\n")
        process.stdin.flush()
    ended(*processes)
    with closing(PostgresStore.open(database, embedder="e", dimension=DIMENSION, language="none")) as store:
        assert listed(store) == list(range(6))


@pytest.mark.slow
def test_databases_of_one_new_server_are_opened_at_once(start):
    """The role that engines work in is the server's: whoever comes second finds it made."""
    with server() as running, fresh(running) as one, fresh(running) as two, fresh(running) as three:
        ended(*(start(place, "store.close()") for place in (one, two, three)))


def test_one_key_from_many_processes_is_stored_once(start, opened, tables):
    program = "print(add(store, stored(int(sys.argv[2]), key='k', content='same'))[0].status); store.close()"
    told = ended(*(start(tables, program, number) for number in range(4)))
    assert sorted(out.split()[-1] for out in told) == ["created", "unchanged", "unchanged", "unchanged"]
    assert len(listed(opened)) == 1
