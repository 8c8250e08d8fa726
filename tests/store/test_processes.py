"""Many processes and threads on one file or database: no error, no lost write, no stale read, one set of tables."""

import subprocess
import sys
import threading
from contextlib import closing

import psycopg
import pytest

from salience.store.postgres import PostgresStore
from salience.store.sqlite import SQLiteStore
from tests.contract.memories import DIMENSION, EVERYTHING, add, id_of, listed, need, stored
from tests.postgres_server import fresh, server
from waiting import PATIENCE

pytestmark = pytest.mark.slow

IMPORTS = """
import sys
from salience.store.postgres import PostgresStore
from salience.store.sqlite import SQLiteStore
from tests.contract.memories import EVERYTHING, add, id_of, need, stored
"""
OPEN = f"""
kind = PostgresStore if sys.argv[1].startswith("postgresql") else SQLiteStore
store = kind.open(sys.argv[1], embedder="e", dimension={DIMENSION}, language="none", busy_timeout=60)
print("open", flush=True)
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


@pytest.fixture(params=["file", "server"])
def new(request, tmp_path):
    """A file that is not there yet, or a database without tables."""
    return str(tmp_path / "shared" / "memory.db") if request.param == "file" else request.getfixturevalue("database")


@pytest.fixture(params=["file", "server"])
def place(request, tmp_path):
    """A file that is not there yet, or a database with empty tables."""
    return str(tmp_path / "shared" / "memory.db") if request.param == "file" else request.getfixturevalue("tables")


@pytest.fixture
def start():
    running = []

    def start(place, program, *arguments, prelude=IMPORTS + OPEN):
        command = [sys.executable, "-W", "error", "-c", prelude + program, place, *map(str, arguments)]
        running.append(
            subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        )
        return running[-1]

    yield start
    for process in running:
        process.kill()
        process.communicate()


def open_store(place):
    kind = PostgresStore if place.startswith("postgresql") else SQLiteStore
    return closing(kind.open(place, embedder="e", dimension=DIMENSION, language="none", busy_timeout=60))


@pytest.fixture
def opened(place):
    with open_store(place) as store:
        yield store


def ended(*processes):
    """What they said, once they are done without an error."""
    ends = [(*process.communicate(timeout=PATIENCE), process.returncode) for process in processes]
    assert [(error, code) for _, error, code in ends] == [("", 0)] * len(processes)
    return [out for out, _, _ in ends]


def test_writers_of_one_tenant_and_of_another_and_readers_lose_nothing(start, opened, place):
    """Each memory has a place of its own in its session, though three write to two sessions."""
    writers = [start(place, WRITER, *given) for given in ((0, 60, "default"), (60, 60, "default"), (0, 60, "other"))]
    ended(*writers, *(start(place, READER, 120) for _ in range(2)))
    assert listed(opened, limit=1000) == list(range(120))
    turns = [item.memory.turn for item in opened.scan(EVERYTHING, limit=1000)]
    assert sorted(turns) == list(range(1, 121))
    if place.startswith("postgresql"):
        with psycopg.connect(place) as superuser:
            found = superuser.execute("SELECT tenant, count(*), max(seq) FROM salience.memories GROUP BY 1 ORDER BY 1")
            assert found.fetchall() == [("default", 120, 120), ("other", 60, 60)]


def test_an_acknowledged_memory_is_seen_by_the_next_gather_elsewhere(start, opened, place):
    answering = """
for line in sys.stdin:
    add(store, stored(int(line)))
    print(line.strip(), flush=True)
"""
    writer = start(place, answering)
    assert writer.stdout.readline() == "open\n"
    for number in range(50):
        print(number, file=writer.stdin, flush=True)
        assert writer.stdout.readline() == f"{number}\n"
        assert len(opened.gather(need())) == number + 1


def test_a_killed_writer_loses_nothing_that_was_acknowledged(start, opened, place):
    """And nobody waits for what it had begun."""
    writer = start(place, WRITER, 0, 100_000, "default")
    acknowledged = [int(line) for line in (writer.stdout.readline() for _ in range(101)) if line != "open\n"]
    writer.kill()
    acknowledged += [int(line) for line in writer.communicate()[0].splitlines()]
    assert len(acknowledged) >= 100
    add(opened, stored(200_000))
    found = listed(opened, limit=100_000)
    assert found.pop() == 200_000
    assert found[: len(acknowledged)] == acknowledged
    assert len(found) <= len(acknowledged) + 1  # one more may have been stored and not yet told
    assert len(opened.gather(need())) == len(found) + 1


def test_processes_that_open_one_new_store_at_once_make_its_tables_once(start, new):
    program = "sys.stdin.readline(); add(store, stored(int(sys.argv[2]), session_id='s')); store.close()"
    held = f"{IMPORTS}\nprint('ready', flush=True); sys.stdin.readline()\n{OPEN}"
    processes = [start(new, program, number, prelude=held) for number in range(6)]
    for process in processes:
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        process.stdin.write("open\nwrite\n")
        process.stdin.flush()
    ended(*processes)
    with open_store(new) as store:
        assert listed(store) == list(range(6))


def test_databases_of_one_new_server_are_opened_at_once(start):
    """The role that engines work in is the server's: whoever comes second finds it made."""
    with server() as running, fresh(running) as one, fresh(running) as two, fresh(running) as three:
        ended(*(start(place, "store.close()") for place in (one, two, three)))


def test_one_key_from_many_processes_is_stored_once(start, opened, place):
    program = "print(add(store, stored(int(sys.argv[2]), key='k', content='same'))[0].status); store.close()"
    told = ended(*(start(place, program, number) for number in range(4)))
    assert sorted(out.split()[-1] for out in told) == ["created", "unchanged", "unchanged", "unchanged"]
    assert len(listed(opened)) == 1


def test_threads_share_a_store(opened):
    failures = []

    def write(first):
        for number in range(first, first + 100):
            add(opened, stored(number))
            if id_of(number) not in opened.gather(need()).ids:
                failures.append(number)

    threads = [threading.Thread(target=write, args=(first,)) for first in (0, 100)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert listed(opened, limit=500) == list(range(200))
