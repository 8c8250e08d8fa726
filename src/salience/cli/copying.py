"""The command that brings a store into another database: copy."""

from __future__ import annotations

from collections.abc import Mapping
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
    """Copy the memories of a store into another one.

    Memories keep their ids, versions, vectors, counters and places in sessions. Both stores may be in use. Run the
    command again to continue a copy that was cut off: memories that are there already are left as they are.
    """
    with progress("copying", None) as advance:
        done = files.steps(advance)
        report = compose.copy(source, target, tenants=tenant or None, progress=lambda count, _: done(count))
    return answer(report)


def answer(report: CopyReport) -> Answer:
    """Return the report as a line for each tenant, with its rows by table and a checksum, and the sum."""
    lines = [*(_line(name, tables) for name, tables in report.tenants.items()), one_line(summary(report))]
    return Answer(report, lambda: lines, lambda _: _view(report))


def checksum(tables: Mapping[str, Copied]) -> str:
    """Return the first digits of a checksum over those of a tenant's tables."""
    return sha256("\n".join(found.checksum for found in tables.values()).encode()).hexdigest()[:SHOWN]


def _line(tenant: str, tables: Mapping[str, Copied]) -> str:
    rows = " ".join(f"{name}={found.rows}" for name, found in tables.items())
    return "\t".join((one_line(tenant), rows, checksum(tables)))


def _view(report: CopyReport) -> RenderableType:
    """Return a table: a row for each tenant, a column for each table."""
    shown = Table(box=None, pad_edge=False)
    shown.add_column("tenant")
    for name in next(iter(report.tenants.values()), {}):
        shown.add_column(name, justify="right")
    shown.add_column("checksum", style="dim")
    for tenant, tables in report.tenants.items():
        shown.add_row(Text(one_line(tenant)), *(f"{found.rows:,}" for found in tables.values()), checksum(tables))
    return Group(shown, Text(one_line(summary(report))))


def summary(report: CopyReport) -> str:
    """Return the result in one line."""
    said = f"copied {counted(report.written, 'memory', 'memories')} of {counted(len(report.tenants), 'tenant')}"
    present = f"; {report.unchanged:,} were there already" if report.unchanged else ""
    return f"{said} to {report.target}{present}"
