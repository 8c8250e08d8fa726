"""Commands on the settings: show them with their sources, tell where the config file is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import typer
from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from salience import settings
from salience.cli.calls import Call, command
from salience.cli.screen import Answer
from salience.cli.signs import one_line
from salience.cli.surface import app
from salience.settings import Setting

group = typer.Typer(help="See the settings, and where each comes from.", no_args_is_help=False)
app.add_typer(group, name="config")
UNSET: Final = "-"
"""Shown of a setting that has no value."""


@command(group, scope=())
def show(call: Call) -> Answer:
    """Show every setting, its value, and where that comes from; secrets are masked.

    A setting is read from its variable (SALIENCE_ and its name in capitals), then from the config file, and has its
    default otherwise. Told are variables, too, that look like a setting and are none.
    """
    given = {} if call.options.store is None else {"url": call.options.store}
    every, stray = settings.standing(**given), settings.unknown()
    record = {"file": str(settings.config_file()), "settings": every, "unknown": stray}
    return Answer(record, lambda: _lines(every, stray), lambda _: _view(every, stray))


@command(group, scope=())
def path(_: Call) -> Answer:
    """Print where the config file is looked for; it need not be there."""
    file = settings.config_file()
    return Answer({"path": str(file), "exists": file.exists()}, lambda: [one_line(str(file))])


def _lines(every: Sequence[Setting], stray: Sequence[str]) -> Iterator[str]:
    for one in every:
        yield "\t".join(map(one_line, (one.name, written(one), source(one))))
    yield from (f"{one_line(name)}\t{UNSET}\tenvironment, unknown" for name in stray)


def _view(every: Sequence[Setting], stray: Sequence[str]) -> RenderableType:
    """Return a table, in which what has not its default stands out, and a line on each unknown variable."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1), pad_edge=False)
    table.add_column("setting", no_wrap=True)
    table.add_column("value", overflow="fold")
    table.add_column("from", overflow="fold")
    for one in every:
        table.add_row(one.name, one_line(written(one)), source(one), style="" if one.source == "default" else "bold")
    return Group(table, *(Text(f"{one_line(name)} sets nothing: no setting is of that name.") for name in stray))


def written(one: Setting) -> str:
    """Return the value of a setting as its variable would hold it; a dash where it is unset."""
    match one.value:
        case None | ():
            return UNSET
        case bool():
            return str(one.value).lower()
        case tuple():
            return ",".join(one.value)
    return str(one.value)


def source(one: Setting) -> str:
    """Return where a value comes from: `environment SALIENCE_URL`, `config file`, `default`, `--store`."""
    match one.source:
        case "environment":
            return f"environment {settings.variable(one.name)}"
        case "argument":
            return "--store"
    return one.source
