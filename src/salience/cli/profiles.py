"""Commands on ranking profiles: list, show, check."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich import box
from rich.table import Table

from salience.cli.options import Call, command
from salience.cli.output import Answer, one_line, sanitize

if TYPE_CHECKING:
    from salience.rank.profile import Profile

app = typer.Typer()
group = typer.Typer(help="List, show and check ranking profiles.", no_args_is_help=False)
app.add_typer(group, name="profiles")


@command(group, "list", scope=())
def list_(_: Call) -> Answer:
    """List the included profiles."""
    from salience.rank import profiles

    shipped = [profiles.load(name) for name in profiles.NAMES]
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1), pad_edge=False)
    table.add_column("profile", style="bold", no_wrap=True)
    table.add_column("score", ratio=2)
    table.add_column("purpose", ratio=3)
    for one in shipped:
        table.add_row(one.name, formula(one), one.summary)
    return Answer(shipped, [f"{one.name}\t{formula(one)}\t{one.summary}" for one in shipped], table)


def formula(profile: Profile) -> str:
    """Return the score formula of a profile in one line: `(0.3 similarity + 0.6 lexical) x weight`."""
    added = " + ".join(f"{term.weight:g} {term.label}" for term in profile.terms if term.combine == "sum")
    factors = [
        term.label if term.weight == 1 else f"{term.label}^{term.weight:g}"
        for term in profile.terms
        if term.combine == "product"
    ]
    if added and factors:
        added = f"({added})"
    return " x ".join([*([added] if added else []), *factors])


@command(group, scope=())
def show(
    _: Call, name: Annotated[str, typer.Argument(metavar="NAME", help="A name, or the path of a TOML file.")]
) -> Answer:
    """Print the TOML of a profile, to start your own from."""
    from salience.rank import profiles

    profile = profiles.load(name)
    text = profiles.source(name) if name in profiles.NAMES else Path(name).read_text("utf-8")
    return Answer(profile, map(sanitize, text.splitlines()))


@command(group, scope=())
def check(
    _: Call, names: Annotated[list[str], typer.Argument(metavar="NAME...", help="Names, or paths of TOML files.")]
) -> Answer:
    """Check that profiles are valid: keys, signals, stages, and the range of every number."""
    from salience.rank import profiles

    checked = [profiles.load(name) for name in names]
    lines = [
        one_line(f"{name}: ok. {one.name} = {formula(one)}; stages {', '.join(one.stages)}")
        for name, one in zip(names, checked, strict=True)
    ]
    return Answer(checked, lines)
