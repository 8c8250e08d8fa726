"""Commands on the settings: show them with their sources, print the path of the config file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer
from rich import box
from rich.console import Group
from rich.table import Table
from rich.text import Text

from salience.cli.options import Call, command
from salience.cli.output import Answer, one_line, tsv

if TYPE_CHECKING:
    from salience.settings import Setting

app = typer.Typer()
group = typer.Typer(help="Show the settings and their sources.", no_args_is_help=False)
app.add_typer(group, name="config")


@command(group, scope=())
def show(call: Call) -> Answer:
    """Show every setting with its value and source; secrets are masked.

    A setting is read from its variable (SALIENCE_ and its name in capitals), then from the config file; otherwise it
    has its default. Variables that look like a setting but are none are listed too.
    """
    from salience import settings

    given = {} if call.options.store is None else {"url": call.options.store}
    every, stray = settings.standing(**given), settings.unknown()
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1), pad_edge=False)
    table.add_column("setting", no_wrap=True)
    table.add_column("value", overflow="fold")
    table.add_column("from", overflow="fold")
    lines = []
    for one in every:
        source: str = "--store" if one.source == "argument" else one.source
        source += f" {settings.variable(one.name)}" if one.source == "environment" else ""
        lines.append(tsv(one.name, _written(one), source))
        table.add_row(one.name, one_line(_written(one)), source, style="" if one.source == "default" else "bold")
    lines += [f"{one_line(name)}\t-\tenvironment, unknown" for name in stray]
    notes = [Text(f"{one_line(name)} sets nothing: no setting has that name.") for name in stray]
    record = {"file": str(settings.config_file()), "settings": every, "unknown": stray}
    return Answer(record, lines, Group(table, *notes))


def _written(one: Setting) -> str:
    """Return a value as its variable would hold it; a dash if it is unset."""
    match one.value:
        case None | ():
            return "-"
        case bool():
            return str(one.value).lower()
        case tuple():
            return ",".join(one.value)
    return str(one.value)


@command(group, scope=())
def path(_: Call) -> Answer:
    """Print the path of the config file, which may not exist."""
    from salience import settings

    file = settings.config_file()
    return Answer({"path": str(file), "exists": file.exists()}, [one_line(str(file))])
