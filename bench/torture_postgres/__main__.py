"""The command: `python -m bench.torture_postgres leaks|kill|tenants`. It ends with 1 where anything is wrong."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from bench.torture_postgres import report
from bench.torture_postgres.growth import growth
from bench.torture_postgres.kill import kill
from bench.torture_postgres.leaks import leaks
from tests.postgres_server import Server, fresh, server

app = typer.Typer(help=__doc__, no_args_is_help=True, add_completion=False)
Seed = Annotated[int, typer.Option(help="What chance starts from; what threads do at once is the machine's own.")]
Version = Annotated[int, typer.Option(help="Of PostgreSQL: 16 or 18.")]
Threads = Annotated[int, typer.Option(min=1, help="How many work at once.")]


@app.command("leaks")
def leaking(
    tenants: Annotated[int, typer.Option(min=2, help="How many.")] = 50,
    threads: Threads = 16,
    seconds: Annotated[float, typer.Option(min=0.1, help="For how long.")] = 60.0,
    seed: Seed = 1,
    version: Version = 18,
) -> None:
    """Let many tenants use every verb on shared pools, and look for what is of another in each answer."""
    with _database(version) as (running, dsn):
        found = leaks(dsn, tenants, threads, seed, seconds=seconds, log=running.log)
    _tell(report.of_leaks(found, tenants, threads), bool(found.faults))


@app.command("kill")
def killing(
    rounds: Annotated[int, typer.Option(min=1, help="How many harms are done to the server.")] = 60,
    threads: Annotated[int, typer.Option(min=1, help="Writers of each process.")] = 6,
    processes: Annotated[int, typer.Option(min=0, help="Processes of writers beside this one.")] = 2,
    seed: Seed = 1,
    version: Version = 18,
) -> None:
    """Kill the server under writers who never open anew, and hold the database against what they were told."""
    with _database(version) as (running, dsn), TemporaryDirectory() as folder:
        found = kill(running, dsn, Path(folder), rounds, seed, threads, processes)
    _tell(report.of_killed(found), bool(found.faults))


@app.command("tenants")
def growing(
    count: Annotated[int, typer.Option(min=20, help="How many tenants.")] = 3000,
    threads: Threads = 16,
    version: Version = 18,
) -> None:
    """Make tenants in a row, and measure what the first cost and what the last."""
    with _database(version) as (_, dsn):
        found = growth(dsn, count, threads)
    _tell(report.of_growth(found), bool(found.faults))


@contextmanager
def _database(version: int) -> Iterator[tuple[Server, str]]:
    """Yield a server of our own and the DSN of an empty database on it."""
    with server(version=version) as running, fresh(running) as dsn:
        yield running, dsn


def _tell(lines: Iterable[str], wrong: bool) -> None:
    for line in lines:
        typer.echo(line)
    if wrong:
        raise typer.Exit(1)


if __name__ == "__main__":
    app(prog_name="python -m bench.torture_postgres")
