"""Commands on the settings: show them with their sources, print the path of the config file."""

from __future__ import annotations

import typer

from salience.cli.options import Call, command, command_group
from salience.cli.output import Answer, one_line, table, tsv

app = typer.Typer()
group = command_group("Show the settings and their sources.")
app.add_typer(group, name="config")


@command(group)
def show(call: Call) -> Answer:
    """Show every setting with its value and source; secrets are masked.

    A setting is read from its variable (SALIENCE_ and its name in capitals), then from the config file; otherwise it
    has its default. Variables that look like a setting but are none are listed too.
    """
    from rich.console import Group
    from rich.table import Column

    from salience import settings

    given = {} if call.options.store is None else {"url": call.options.store}
    every, stray = settings.effective(**given), settings.unknown()
    shown = table(Column("setting", no_wrap=True), Column("value", overflow="fold"), Column("from", overflow="fold"))
    lines = []
    for one in every:
        value = one.value
        text = "-" if value is None or value == () else ",".join(value) if isinstance(value, tuple) else str(value)
        text = text.lower() if isinstance(value, bool) else text
        source: str = "--store" if one.source == "argument" else one.source
        source += f" {settings.variable(one.name)}" if one.source == "environment" else ""
        lines.append(tsv(one.name, text, source))
        shown.add_row(one.name, one_line(text), source, style="" if one.source == "default" else "bold")
    lines += [f"{one_line(name)}\t-\tenvironment, unknown" for name in stray]
    notes = [f"{one_line(name)} sets nothing: no setting has that name." for name in stray]
    record = {"file": str(settings.config_file()), "settings": every, "unknown": stray}
    return Answer(record, lines, Group(shown, *notes))


@command(group)
def path(_: Call) -> Answer:
    """Print the path of the config file, which may not exist."""
    from salience import settings

    file = settings.config_file()
    return Answer({"path": str(file), "exists": file.exists()}, [one_line(str(file))])
