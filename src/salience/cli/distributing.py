"""A command on the database of a store: distribute."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import typer

from salience import compose
from salience.cli.calls import Call, command
from salience.cli.database import group
from salience.cli.repairing import told
from salience.cli.screen import Answer, show, waiting
from salience.cli.signs import one_line
from salience.cli.surface import FAILED
from salience.records import Distributed
from salience.text import counted


@command(group, scope=())
def distribute(
    call: Call,
    shards: Annotated[
        int | None, typer.Option("--shards", min=1, max=1024, help="Into how many [default: the server's, 32]")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Tell what would be done, and do nothing.")] = False,
) -> Answer:
    """Spread the tables over the servers of a Citus cluster, each tenant on one of them.

    It is for the database on the coordinator, and the user who owns the tables. Writers wait meanwhile; all tables are
    spread, or none. Then it is checked. Run again, it does what is left to do, and checks again. Exit code 1 says that
    something is wrong.
    """
    with waiting("distributing"):
        report = compose.distribute(call.options.store, shards=shards, dry_run=dry_run)
    answer = Answer(report, lambda: lines(report))
    if not report.findings:
        return answer
    show(answer, call.as_json)
    raise typer.Exit(FAILED)


def lines(report: Distributed) -> Iterator[str]:
    """Return what was done, or would be, a line each, and then what is wrong."""
    yield from map(one_line, report.steps)
    if report.is_dry:
        yield f"{counted(len(report.steps), 'statement')} would be run on {report.store}, and nothing was done"
        return
    servers = counted(report.workers, "server")
    yield f"{report.store}: {counted(report.shards or 0, 'shard')} of each table on {servers}, Citus {report.citus}"
    if report.steps:
        yield "connect engines anew, as a user who is in salience_app and no superuser"
    yield from map(told, report.findings)
    yield f"{len(report.findings):,} wrong" if report.findings else "healthy"
