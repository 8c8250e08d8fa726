"""The throw-away PostgreSQL server for tests: kills, restarts, and nothing left behind."""

from __future__ import annotations

import stat
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import psutil
import psycopg
import pytest

from salience.errors import StoreError
from tests.postgres_server import Elsewhere, fresh, server
from waiting import PATIENCE

pytestmark = pytest.mark.slow
STARTER = """
from tests.postgres_server import server
running = server()
print(running.pid, running.folder, flush=True)
input()
"""


@contextmanager
def connected(dsn):
    with psycopg.connect(dsn, autocommit=True) as connection:
        yield connection


def gone(pid):
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def test_committed_rows_survive_a_kill_under_writers():
    with server() as running, connected(running.dsn()) as connection:
        connection.execute("CREATE TABLE written (number int)")
        written, enough = [], threading.Event()

        def write():
            try:
                for number in range(1_000_000):
                    connection.execute("INSERT INTO written VALUES (%s)", (number,))
                    written.append(number)
                    if number == 20:
                        enough.set()
            except psycopg.OperationalError:
                pass

        writer = threading.Thread(target=write)
        writer.start()
        assert enough.wait(PATIENCE)
        processes = [running.pid, *(child.pid for child in psutil.Process(running.pid).children())]
        running.kill()
        writer.join(PATIENCE)
        assert running.pid is None
        assert all(map(gone, processes))
        running.start()
        with connected(running.dsn()) as again:
            assert set(written) <= {number for (number,) in again.execute("SELECT number FROM written")}


def test_databases_are_separate_and_dropped(postgres):
    with fresh(postgres) as one, fresh(postgres) as other:
        with connected(one) as connection:
            connection.execute("CREATE EXTENSION vector; CREATE TABLE here (number int)")
        with connected(other) as connection, pytest.raises(psycopg.errors.UndefinedTable):
            connection.execute("SELECT * FROM here")
    with pytest.raises(psycopg.OperationalError, match="does not exist"):
        psycopg.connect(one)


def test_a_killed_program_leaves_no_server_and_no_folder():
    command = [sys.executable, "-c", STARTER]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as program:
        pid, folder = program.stdout.readline().split()
        assert not gone(int(pid))
        program.kill()
    deadline = time.monotonic() + 60
    while not gone(int(pid)) or Path(folder).exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_closed_folder_is_refused_and_keeps_its_permissions(tmp_path):
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    before = [stat.S_IMODE(path.stat().st_mode) for path in (closed, *closed.parents)]
    if closed.owner() == "root":
        with pytest.raises(StoreError, match="closed to user 'nobody'"):
            server(closed / "data")
    assert [stat.S_IMODE(path.stat().st_mode) for path in (closed, *closed.parents)] == before


def test_a_server_that_cannot_start_shows_its_log():
    with pytest.raises(StoreError, match="max_connections"):
        server(settings={"max_connections": -1})


@pytest.mark.parametrize(
    ("options", "dsn"),
    [
        ({}, "postgresql://a:b@host:1/postgres?x=y"),
        ({"database": "z", "user": "c"}, "postgresql://c@host:1/z?x=y"),
        ({"user": "c", "password": "d/e"}, "postgresql://c:d%2Fe@host:1/postgres?x=y"),
    ],
)
def test_the_dsn_of_another_server(options, dsn):
    assert Elsewhere("postgresql://a:b@host:1/x?x=y").dsn(**options) == dsn
