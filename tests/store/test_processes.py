"""Many processes and threads on one file: no error, no lost write, no stale read."""

import subprocess
import sys
import threading

import pytest

from salience.store.sqlite import SQLiteStore
from tests.contract.memories import DIMENSION, EVERYTHING, add, id_of, listed, need, stored

pytestmark = pytest.mark.slow

PRELUDE = f"""
import sys
from salience.store.sqlite import SQLiteStore
from tests.contract.memories import EVERYTHING, add, id_of, need, stored
store = SQLiteStore.open(sys.argv[1], embedder="e", dimension={DIMENSION}, language="none", busy_timeout=30)
print("open", flush=True)
"""
WRITER = """
first, count = int(sys.argv[2]), int(sys.argv[3])
for number in range(first, first + count):
    add(store, stored(number, session_id="s"))
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
def path(tmp_path):
    return tmp_path / "shared" / "memory.db"


@pytest.fixture
def start(path):
    running = []

    def start(program, *arguments, prelude=PRELUDE):
        command = [sys.executable, "-W", "error", "-c", prelude + program, str(path), *map(str, arguments)]
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        running.append(process)
        return process

    yield start
    for process in running:
        process.kill()
        process.communicate()


@pytest.fixture
def opened(path):
    store = SQLiteStore.open(path, embedder="e", dimension=DIMENSION, language="none", busy_timeout=30)
    yield store
    store.close()


def test_two_writers_and_two_readers_lose_nothing(start, opened):
    writers = [start(WRITER, first, 500) for first in (0, 500)]
    readers = [start(READER, 1000) for _ in range(2)]
    ends = [(*process.communicate(timeout=60), process.returncode) for process in (*writers, *readers)]
    assert [(error, code) for _, error, code in ends] == [("", 0)] * 4
    assert listed(opened, limit=2000) == list(range(1000))
    turns = sorted(item.memory.turn for item in opened.scan(EVERYTHING, limit=2000))
    assert turns == list(range(1, 1001))


def test_an_acknowledged_memory_is_seen_by_the_next_gather_elsewhere(start, opened):
    answering = """
for line in sys.stdin:
    add(store, stored(int(line)))
    print(line.strip(), flush=True)
"""
    writer = start(answering)
    assert writer.stdout.readline() == "open\n"
    for number in range(50):
        print(number, file=writer.stdin, flush=True)
        assert writer.stdout.readline() == f"{number}\n"
        assert len(opened.gather(need())) == number + 1


def test_a_killed_writer_loses_nothing_that_was_acknowledged(start, path):
    writer = start(WRITER, 0, 100_000)
    acknowledged = [int(line) for line in (writer.stdout.readline() for _ in range(101)) if line != "open\n"]
    writer.kill()
    acknowledged += [int(line) for line in writer.communicate()[0].splitlines()]
    assert len(acknowledged) >= 100
    store = SQLiteStore.open(path, embedder="e", dimension=DIMENSION, language="none", busy_timeout=30)
    found = listed(store, limit=100_000)
    assert found[: len(acknowledged)] == acknowledged
    assert len(found) <= len(acknowledged) + 1  # one more may have been stored and not yet told
    add(store, stored(200_000))
    assert len(store.gather(need())) == len(found) + 1
    store.close()


def test_eight_processes_open_one_new_file_at_once(start, path):
    program = "sys.stdin.readline(); add(store, stored(int(sys.argv[2]), session_id='s')); store.close()"
    held = PRELUDE.replace("store =", "print('ready', flush=True); sys.stdin.readline(); store =")
    processes = [start(program, number, prelude=held) for number in range(8)]
    for process in processes:
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        process.stdin.write("open\nwrite\n")
        process.stdin.flush()
    ends = [(*process.communicate(timeout=60), process.returncode) for process in processes]
    assert [(error, code) for _, error, code in ends] == [("", 0)] * 8
    store = SQLiteStore.open(path, embedder="e", dimension=DIMENSION, language="none", busy_timeout=30)
    assert listed(store) == list(range(8))
    store.close()


def test_one_key_from_many_processes_is_stored_once(start, opened):
    program = "print(add(store, stored(int(sys.argv[2]), key='k', content='same'))[0].status); store.close()"
    processes = [start(program, number) for number in range(4)]
    statuses = sorted(process.communicate(timeout=60)[0].split()[-1] for process in processes)
    assert statuses == ["created", "unchanged", "unchanged", "unchanged"]
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
