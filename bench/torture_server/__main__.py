"""The command: `python -m bench.torture_server leaks|timing`. It ends with 1 where anything is wrong."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Final

import typer

from bench.served import empty_store, running
from bench.torture.writing import seeded
from bench.torture_postgres.marks import MARK
from bench.torture_server import cast, report
from bench.torture_server.cast import Home
from bench.torture_server.leaks import leaks
from bench.torture_server.timing import timed
from salience import compose
from salience import settings as configuration
from salience.engine import Engine
from salience.ports import Keyring

app = typer.Typer(help=__doc__, no_args_is_help=True, add_completion=False)
Seed = Annotated[int, typer.Option(help="What chance starts from; what threads do at once is the machine's own.")]
Kind = Annotated[str, typer.Option(help="Of the store: sqlite or postgres.")]
Workers = Annotated[int, typer.Option(min=1, help="Processes of the server.")]
EMBEDDER: Final = "static"
"""Costs next to nothing."""
STORED: Final = 2000
"""Memories of each home while time is taken."""


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
def _served(kind: str, workers: int) -> Iterator[tuple[str, Engine, Keyring, Path]]:
    """Yield the URL of a server of our own on an empty store, engine and keys on the same store, and its log."""
    with TemporaryDirectory() as folder, empty_store(kind, Path(folder)) as target:
        settings, log = configuration.load(), Path(folder) / "log"
        with (
            closing(compose.engine(settings, target, embedder=EMBEDDER, profile="salience")) as engine,
            closing(compose.keyring(target)) as keyring,
            running(target, log, embedder=EMBEDDER, workers=workers) as served,
        ):
            yield served.url, engine, keyring, log


def _tell(lines: Iterable[str], wrong: bool) -> None:
    for line in lines:
        typer.echo(line)
    if wrong:
        raise typer.Exit(1)


if __name__ == "__main__":
    app(prog_name="python -m bench.torture_server")
