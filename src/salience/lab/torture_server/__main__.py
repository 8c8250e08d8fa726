"""The command: `python -m salience.lab.torture_server leaks|timing`. It ends with 1 where anything is wrong."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Final

import httpx
import typer

from salience import checks, compose
from salience import settings as configuration
from salience.engine import Engine
from salience.lab.torture.writing import seeded
from salience.lab.torture_postgres.marks import MARK
from salience.lab.torture_server import cast, report
from salience.lab.torture_server.cast import Home
from salience.lab.torture_server.leaks import leaks
from salience.lab.torture_server.timing import timed
from salience.ports import Keyring
from salience.testing.postgres import fresh, server

app = typer.Typer(help=__doc__, no_args_is_help=True, add_completion=False)
Seed = Annotated[int, typer.Option(help="What chance starts from; what threads do at once is the machine's own.")]
Kind = Annotated[str, typer.Option(help="Of the store: sqlite or postgres.")]
Workers = Annotated[int, typer.Option(min=1, help="Processes of the server.")]
EMBEDDER: Final = "static"
"""Costs next to nothing."""
STORED: Final = 2000
"""Memories of each home while time is taken."""
STORES: Final = ("sqlite", "postgres")
PATIENCE: Final = 600
"""Tenths of a second that a server has to start."""
_URL: Final = re.compile(r"http://[0-9.]+:\d+")


@app.command("leaks")
def leaking(
    store: Kind = "sqlite",
    seconds: Annotated[float, typer.Option(min=0.1, help="For how long.")] = 120.0,
    threads: Annotated[int, typer.Option(min=1, help="How many work at once.")] = 12,
    workers: Workers = 2,
    seed: Seed = 1,
) -> None:
    """Let the holders of twenty keys ask everything, and look for what is of another in each answer."""
    with _served(store, workers) as (url, engine, keyring, log):
        found = leaks(url, engine, keyring, threads, seed, seconds=seconds)
        if MARK.search(log.read_text(errors="replace").lower()):
            found.faults["the server's log holds a memory's text"] += 1
    _tell(report.of_leaks(found, threads), bool(found.faults))


@app.command("timing")
def timing(
    store: Kind = "sqlite",
    rounds: Annotated[int, typer.Option(min=10, help="How often each request is made.")] = 500,
    seed: Seed = 1,
) -> None:
    """Take the time of requests about what is another's, and about what is not there."""
    with _served(store, 1) as (url, engine, keyring, _):
        homes = cast.homes()
        holder = next(one for one in cast.holders(keyring, homes) if one.grant.bound and one.grant.may("write"))
        beyond = [home for home in homes if not holder.sees(home) and home.where.keys() == set(cast.COORDINATES)]
        near = next(home for home in beyond if home.tenant == holder.grant.tenant)
        far = next(home for home in beyond if home.tenant != holder.grant.tenant)
        found = timed(url, holder, _stored(engine, near), _stored(engine, far), rounds, seeded(seed))
    _tell(report.of_timing(found), False)


def _stored(engine: Engine, home: Home) -> list[str]:
    """Return the ids of memories that a home has from now on."""
    drafts = [{"content": f"{home.mark} memory {number}", **home.where} for number in range(STORED)]
    return [receipt.memory.id for receipt in engine.of(home.tenant).remember_many(drafts)]


@contextmanager
def _served(store: str, workers: int) -> Iterator[tuple[str, Engine, Keyring, Path]]:
    """Yield the URL of a server of our own on an empty store, engine and keys on the same store, and its log."""
    with TemporaryDirectory() as folder, _target(checks.choice("store", store, STORES), Path(folder)) as target:
        settings = configuration.load()
        with (
            closing(compose.engine(settings, target, embedder=EMBEDDER, profile="salience")) as engine,
            closing(compose.keyring(target)) as keyring,
            _running(target, workers, Path(folder) / "log") as url,
        ):
            yield url, engine, keyring, Path(folder) / "log"


@contextmanager
def _target(store: str, folder: Path) -> Iterator[str]:
    if store == "sqlite":
        yield str(folder / "memory.db")
        return
    with server() as running, fresh(running) as dsn:
        yield dsn


@contextmanager
def _running(target: str, workers: int, log: Path) -> Iterator[str]:
    command = [str(Path(sys.executable).with_name("salience")), "--store", target, "--embedder", EMBEDDER]
    command += ["serve", "--port", "0", "--workers", str(workers)]
    with log.open("wb") as told, subprocess.Popen(command, stderr=told) as process:  # noqa: S603 - our own
        try:
            yield _url(process, log)
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait()


def _url(process: subprocess.Popen[bytes], log: Path) -> str:
    """Return where the server is, once it answers there."""
    for _ in range(PATIENCE):
        time.sleep(0.1)
        found = _URL.search(log.read_text(errors="replace"))
        if found is not None:
            with suppress(httpx.TransportError):
                if httpx.get(f"{found[0]}/readyz").is_success:
                    return found[0]
        if process.poll() is not None:
            break
    raise SystemExit(f"The server did not start:\n{log.read_text(errors='replace')}")


def _tell(lines: Iterable[str], wrong: bool) -> None:
    for line in lines:
        typer.echo(line)
    if wrong:
        raise typer.Exit(1)


if __name__ == "__main__":
    app(prog_name="python -m salience.lab.torture_server")
