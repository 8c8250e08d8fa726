"""The command that brings a store into another database: copy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from hashlib import sha256
from typing import Annotated, Final

import typer
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from salience import compose
from salience.cli import files
from salience.cli.calls import Call, command
from salience.cli.screen import Answer, progress
from salience.cli.signs import one_line
from salience.cli.surface import app
from salience.records import Copied, CopyReport
from salience.store.moving.copy import Progress
from salience.text import counted

SHOWN: Final = 12
"""Digits of a checksum that are shown where not the whole of it is."""


@command(app, scope=())
def copy(
    _: Call,
    source: Annotated[str, typer.Argument(metavar="FROM", help="A store: a file, or the URL of a database.")],
    target: Annotated[str, typer.Argument(metavar="TO", help="Another one, which is made if it is not there.")],
    tenant: Annotated[
        list[str] | None, typer.Option("--tenant", metavar="NAME", help="Copy this tenant alone; may be repeated.")
    ] = None,
) -> Answer:
    """Bring all that a store holds into another one.

    Memories, versions, vectors, counters and sessions go over as they are, from a file to PostgreSQL or back. FROM may
    be in use. Cut short, it goes on where it stopped when it is run again; until it is whole, TO is not opened. In the
    end both are read and compared.
    """
    with _bars() as told:
        report = compose.copy(source, target, tenants=tenant or None, progress=told)
    return answer(report)


@contextmanager
def _bars() -> Iterator[Progress]:
    """Yield what takes the progress, and shows a bar for each step of the copy."""
    with ExitStack() as stack:
        shown: dict[str, files.Progress] = {}

        def told(step: str, done: int, of: int) -> None:
            if step not in shown:
                stack.close()  # the bar of the step before
                shown[step] = files.steps(stack.enter_context(progress(step, of, unit="rows")))
            shown[step](done)

        yield told


def answer(report: CopyReport) -> Answer:
    """Return what was copied: a line for each tenant with its rows by table and a checksum, then the sum."""
    lines = [*(_line(name, tables) for name, tables in report.tenants.items()), *map(one_line, summary(report))]
    return Answer(report, lambda: lines, lambda _: _view(report))


def checksum(tables: Mapping[str, Copied]) -> str:
    """Return the beginning of a checksum over those of a tenant's tables."""
    return sha256("\n".join(found.checksum for found in tables.values()).encode()).hexdigest()[:SHOWN]


def _line(tenant: str, tables: Mapping[str, Copied]) -> str:
    rows = " ".join(f"{name}={found.rows}" for name, found in tables.items())
    return "\t".join((one_line(tenant), rows, checksum(tables)))


def _view(report: CopyReport) -> RenderableType:
    """Return a table: a row for each tenant, a column for each table."""
    shown = Table(box=None, pad_edge=False)
    shown.add_column("tenant")
    for name in next(iter(report.tenants.values()), {}):
        shown.add_column(name.replace("_", " "), justify="right")
    shown.add_column("checksum", style="dim")
    for tenant, tables in report.tenants.items():
        shown.add_row(Text(one_line(tenant)), *(f"{found.rows:,}" for found in tables.values()), checksum(tables))
    return Group(shown, *map(Text, map(one_line, summary(report))))


def summary(report: CopyReport) -> list[str]:
    """Return what was done, in a line or two."""
    rows = sum(found.rows for tables in report.tenants.values() for found in tables.values())
    said = f"copied {counted(rows, 'row')} of {counted(len(report.tenants), 'tenant')} to {report.target}"
    last = f"{said}: counts and checksums are equal"
    if report.resumed is None:
        return [last]
    gone = f", {report.removed:,} of them gone since" if report.removed else ""
    return [f"went on with a copy that was cut short: {report.resumed:,} rows were there{gone}", last]
