"""A server of ours: really PostgreSQL, killed and started again without loss, gone with the process that started it."""

import os
import re
import shutil
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil
import psycopg
import pytest
import sqlalchemy

from salience.errors import InputError, StoreError
from salience.testing.postgres import Elsewhere, fresh, server, wait_until_gone
from salience.testing.postgres_programs import WHEEL, account, owned, programs, writable

AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root runs the server as somebody else")
HAS_PROC = pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="no /proc to read shared memory from")
WRITERS = 16
SECRET = "the content of a memory"
STARTER = """
import sys
from salience.testing.postgres import server
running = server()
print(running.pid, running._watchdog.pid, running.folder, flush=True)
sys.stdin.readline()
"""


def opened(dsn):
    """A connection that commits each statement, closed with its context."""
    return closing(psycopg.connect(dsn, autocommit=True))


def asked(dsn, statement, *values):
    with opened(dsn) as connection:
        return connection.execute(statement, values).fetchall()


def told(dsn, *statements):
    with opened(dsn) as connection:
        for statement in statements:
            connection.execute(statement)


def gone(pid):
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


@pytest.fixture(scope="module")
def ours():
    with server() as ours:
        yield ours


@pytest.fixture
def running(ours):
    """A server that tests may stop and kill; it runs again for the next."""
    ours.start()
    return ours


@pytest.fixture
def mine(running):
    """DSN of a database on it."""
    with fresh(running) as dsn:
        yield dsn
        running.start()


@pytest.fixture
def reachable():
    """A folder in which the server may make its own, also where we are root and it is somebody else."""
    with TemporaryDirectory() as folder:
        yield owned(Path(folder), account())


def test_a_database_is_empty_and_can_have_vectors(database):
    assert asked(database, "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace") == []
    told(database, "CREATE EXTENSION vector")
    distances = "SELECT '[1,0]'::vector <=> '[0,1]', '[1,0]'::halfvec <-> '[1,2]'"
    assert asked(database, distances) == [(1.0, 2.0)]
    ((version,),) = asked(database, "SELECT extversion FROM pg_extension WHERE extname = 'vector'")
    assert tuple(map(int, version.split(".")[:2])) >= (0, 8)


def test_it_is_as_durable_as_postgresql_is_by_itself(running):
    durable = ["data_checksums", "fsync", "full_page_writes", "synchronous_commit"]
    found = asked(running.dsn(), "SELECT name, setting FROM pg_settings WHERE name = ANY(%s)", durable)
    assert dict(found) == dict.fromkeys(durable, "on")


def test_text_is_the_same_on_every_machine(running):
    assert asked(running.dsn(), "SELECT lower('ÄÖ'), 'B' < 'a', current_setting('TimeZone')") == [("äö", True, "UTC")]


def test_sqlalchemy_reads_its_dsn(database):
    engine = sqlalchemy.create_engine(sqlalchemy.make_url(database).set(drivername="postgresql+psycopg"))
    with engine.connect() as connection:
        assert connection.scalar(sqlalchemy.text("SELECT current_database()")).startswith("salience_test_")
    engine.dispose()


def test_two_databases_are_apart_and_dropped(postgres):
    with fresh(postgres) as one, fresh(postgres) as two:
        told(one, "CREATE TABLE mine (number int)")
        assert asked(one, "SELECT to_regclass('mine')::text") == [("mine",)]
        assert asked(two, "SELECT to_regclass('mine')::text") == [(None,)]
        names = [*asked(one, "SELECT current_database()"), *asked(two, "SELECT current_database()")]
        abandoned = psycopg.connect(one)
    assert len(set(names)) == 2
    assert not set(names) & set(asked(postgres.dsn(), "SELECT datname FROM pg_database"))
    with closing(abandoned), pytest.raises(psycopg.OperationalError):
        abandoned.execute("SELECT 1")


def test_a_database_is_dropped_after_a_failure(running):
    with pytest.raises(psycopg.errors.UndefinedTable), fresh(running) as dsn:
        told(dsn, "SELECT * FROM not_there")
    assert asked(running.dsn(), "SELECT datname FROM pg_database WHERE NOT datistemplate") == [("postgres",)]


def test_a_database_is_a_copy_of_its_template(running):
    told(running.dsn(), 'CREATE DATABASE "Laid out: 1"')
    told(running.dsn("Laid out: 1"), "CREATE TABLE kept AS SELECT 7 AS number")
    with fresh(running, template="Laid out: 1") as dsn:
        assert asked(dsn, "SELECT number FROM kept") == [(7,)]
    told(running.dsn(), 'DROP DATABASE "Laid out: 1"')


def test_a_role_comes_in_without_its_password(running):
    told(running.dsn(), "CREATE ROLE application LOGIN")
    dsn = running.dsn(user="application", password="of no use: /@?")  # noqa: S106
    assert asked(dsn, "SELECT current_user, current_setting('is_superuser')") == [("application", "off")]


def test_what_is_committed_outlives_a_kill_under_writers(running, mine):
    told(mine, "CREATE TABLE written (writer int, number int)")
    kept: list[tuple[int, int]] = []
    enough = threading.Barrier(WRITERS + 1)

    def write(writer):
        with opened(mine) as connection:
            for number in range(1_000_000):
                try:
                    connection.execute("INSERT INTO written VALUES (%s, %s)", (writer, number))
                except psycopg.OperationalError:
                    return
                kept.append((writer, number))
                if number == 5:
                    enough.wait(60)

    threads = [threading.Thread(target=write, args=(writer,)) for writer in range(WRITERS)]
    for thread in threads:
        thread.start()
    enough.wait(60)
    running.kill()
    for thread in threads:
        thread.join(60)
    running.start()
    assert len(kept) > 5 * WRITERS
    assert set(kept) <= set(asked(mine, "SELECT writer, number FROM written"))


def test_a_kill_leaves_no_process(running):
    with opened(running.dsn()) as connection:
        first = running.pid
        mine = [child.pid for child in psutil.Process(first).children()]
        assert connection.info.backend_pid in mine
        running.kill()
    assert running.pid is None
    assert all(gone(pid) for pid in (first, *mine))
    running.kill()  # nothing is left to be killed


@HAS_PROC
def test_a_kill_leaves_no_shared_memory():
    running = server()
    maps = Path(f"/proc/{running.pid}/maps").read_text()
    shared = {Path(name) for name in re.findall(r"\S+/PostgreSQL\.\d+", maps)}
    assert shared
    running.kill()
    assert all(path.exists() for path in shared)
    running.close()
    assert not any(path.exists() for path in shared)


def test_it_starts_and_stops_as_often_as_wanted(running, mine):
    told(mine, "CREATE TABLE kept AS SELECT 7 AS number")
    for _ in range(2):
        running.start()  # it runs: nothing happens
        pid = running.pid
        running.stop()
        running.stop()
        assert running.pid is None
        assert gone(pid)
        with pytest.raises(psycopg.OperationalError):
            psycopg.connect(mine)
        running.start()
        assert asked(mine, "SELECT number FROM kept") == [(7,)]


def test_a_folder_that_is_given_is_kept_and_used_again(reachable):
    folder = reachable / "a folder of ours"
    with server(folder) as first:
        told(first.dsn(), "CREATE TABLE kept AS SELECT 7 AS number")
        first.kill()
    with server(folder) as second:
        assert asked(second.dsn(), "SELECT number FROM kept") == [(7,)]
    assert {path.name for path in folder.iterdir()} == {"data", "log"}


def test_a_folder_half_made_is_made_anew(reachable):
    (reachable / "making").mkdir()
    (reachable / "making" / "PG_VERSION").write_text("18")
    with server(reachable) as running:
        assert asked(running.dsn(), "SELECT 7") == [(7,)]


@AS_ROOT
def test_a_folder_closed_to_the_server_is_refused(tmp_path):
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    with pytest.raises(InputError, match=r"folder is .*closed/inner.* user 'nobody' can reach"):
        server(closed / "inner")
    assert closed.stat().st_mode & 0o777 == 0o700
    assert closed.stat().st_uid == 0


@AS_ROOT
def test_programs_closed_to_the_server_are_copied_not_opened(tmp_path, reachable, monkeypatch):
    home = programs(18, {}, reachable).parents[1]
    closed = tmp_path / "closed"
    shutil.copytree(home, closed / WHEEL, ignore=shutil.ignore_patterns("include", "pginstall"))
    if (libraries := home.parent / f"{WHEEL}.libs").is_dir():
        shutil.copytree(libraries, closed / libraries.name)
    closed.chmod(0o700)
    monkeypatch.syspath_prepend(str(closed))
    with server() as running:
        assert psutil.Process(running.pid).exe().startswith(str(running.folder))
        told(running.dsn(), "CREATE EXTENSION vector")
    assert not running.folder.exists()
    assert closed.stat().st_mode & 0o777 == 0o700
    assert not writable(closed, account())


def test_version_16_is_there_too():
    with server(version=16) as running:
        told(running.dsn(), "CREATE EXTENSION vector")
        assert asked(running.dsn(), "SELECT current_setting('server_version_num')::int / 10000") == [(16,)]


def test_another_version_is_refused():
    with pytest.raises(InputError, match=r"version is 17\. Choose one of 16, 18"):
        server(version=17)


def test_settings_reach_the_server():
    given = {"max_connections": 20, "jit": False, "work_mem": "8MB", "port": 6543}
    with server(settings=given) as running:
        found = asked(running.dsn(), "SELECT name, current_setting(name) FROM unnest(%s::text[]) AS name", [*given])
        assert dict(found) == {"max_connections": "20", "jit": "off", "work_mem": "8MB", "port": "6543"}


def test_settings_of_this_machine_do_not(monkeypatch):
    for name in ("PGDATA", "PGHOST", "PGPORT", "PGDATABASE", "PGUSER", "PGTZ"):
        monkeypatch.setenv(name, "1")
    with server() as running:
        assert asked(running.dsn(), "SELECT current_database(), current_user") == [("postgres", "postgres")]


def test_a_failing_start_shows_the_log_of_that_start_alone(running):
    settings = running.folder / "data" / "postgresql.conf"
    before = settings.read_text()
    with pytest.raises(psycopg.errors.UndefinedFunction):
        told(running.dsn(), f"SELECT nothing('{SECRET}')")
    assert SECRET in running.log.read_text()
    running.stop()
    settings.write_text(f"{before}\nnonsense = on\n")
    with pytest.raises(StoreError, match="did not start") as raised:
        running.start()
    assert 'unrecognized configuration parameter "nonsense"' in str(raised.value)
    assert SECRET not in str(raised.value)
    assert running.pid is None
    settings.write_text(before)
    running.start()
    assert asked(running.dsn(), "SELECT 7") == [(7,)]


def test_a_start_that_takes_too_long_is_ended():
    with pytest.raises(StoreError, match=r"longer than 0 s to start\. Give a longer `patience`"):
        server(patience=0)


def test_what_cannot_start_leaves_nothing(reachable, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(reachable))
    monkeypatch.setattr("tempfile.tempdir", None)
    with pytest.raises(StoreError, match="max_connections"):
        server(settings={"max_connections": -1})
    assert list(reachable.iterdir()) == []


def test_nothing_is_left_of_it_when_its_process_is_killed():
    command = [sys.executable, "-c", STARTER]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as program:
        first, watchdog, folder = program.stdout.readline().split()
        processes = [psutil.Process(int(first)), *psutil.Process(int(first)).children()]
        guard = psutil.Process(int(watchdog))
        assert not any(gone(process.pid) for process in processes)
        program.kill()
    wait_until_gone(guard)
    assert all(gone(process.pid) for process in processes)
    assert not Path(folder).exists()


@pytest.mark.parametrize(
    ("given", "options", "dsn"),
    [
        ("postgresql://a:b@host:1/x", {}, "postgresql://a:b@host:1/postgres"),
        ("postgresql://a:b@host:1/x?sslmode=require", {"database": "y"}, "postgresql://a:b@host:1/y?sslmode=require"),
        ("postgresql://a:b@host:1/x", {"user": "c"}, "postgresql://c@host:1/postgres"),
        ("postgresql://a@host/x", {"user": "c", "password": "d/e"}, "postgresql://c:d%2Fe@host/postgres"),
    ],
)
def test_a_server_elsewhere_is_named_by_its_dsn(given, options, dsn):
    assert Elsewhere(given).dsn(**options) == dsn


def test_a_dsn_that_is_none_is_refused_unseen():
    with pytest.raises(InputError, match=r"SALIENCE_TEST_POSTGRES is .*Give a URL such as") as raised:
        Elsewhere(f"host=here password={SECRET}").dsn()
    assert SECRET not in str(raised.value)
