"""What is done to a server under writers: each ends with a server that runs."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import Final

import psycopg

from tests.postgres_server import Server

Harm = Callable[[Server, Random], None]
AWAY: Final = 0.5
"""Most seconds that a server stays away before it is started again."""
_OTHERS: Final = "FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"


def killed(server: Server, choose: Random) -> None:
    """Kill all processes of the server (`kill -9`), and start it again."""
    server.kill()
    time.sleep(choose.uniform(0, AWAY))
    server.start()


def restarted(server: Server, choose: Random) -> None:
    """Stop the server at once, as `pg_ctl restart -m immediate` does, and start it again."""
    if server.pid is not None:
        os.kill(server.pid, signal.SIGQUIT)
    while server.pid is not None:
        time.sleep(0.01)
    time.sleep(choose.uniform(0, AWAY))
    server.start()


def stopped(server: Server, choose: Random) -> None:
    """Stop the server in an orderly way, and start it again."""
    server.stop()
    time.sleep(choose.uniform(0, AWAY))
    server.start()


def one_killed(server: Server, choose: Random) -> None:
    """Kill one process that serves a writer (`kill -9`), upon which the server ends all others and recovers."""
    with psycopg.connect(server.dsn(), autocommit=True) as superuser:
        pids = [pid for (pid,) in superuser.execute(f"SELECT pid {_OTHERS} AND datname <> 'postgres'")]
    if pids:
        with suppress(ProcessLookupError):
            os.kill(choose.choice(pids), signal.SIGKILL)
    while not _answers(server):
        time.sleep(0.02)


def disconnected(server: Server, _: Random) -> None:
    """End every connection of a writer (`pg_terminate_backend`)."""
    with psycopg.connect(server.dsn(), autocommit=True) as superuser:
        superuser.execute(f"SELECT pg_terminate_backend(pid) {_OTHERS}")


HARMS: Final[dict[str, tuple[Harm, int]]] = {
    "kill -9 of all": (killed, 5),
    "restart -m immediate": (restarted, 2),
    "restart -m fast": (stopped, 1),
    "kill -9 of one backend": (one_killed, 2),
    "pg_terminate_backend": (disconnected, 2),
}
"""Name -> what is done, and how often it is chosen beside the others."""


def chosen(choose: Random) -> str:
    """Return the name of a harm, by chance."""
    return choose.choices(list(HARMS), [weight for _, weight in HARMS.values()])[0]


def _answers(server: Server) -> bool:
    try:
        with psycopg.connect(server.dsn(), autocommit=True) as superuser:
            superuser.execute("SELECT 1")
    except psycopg.OperationalError:
        return False
    return True
