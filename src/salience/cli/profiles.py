"""Commands on ranking profiles: list, show, check."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.console import RenderableType
from rich.table import Table

from salience.cli.calls import Call, command
from salience.cli.screen import Answer
from salience.cli.signs import one_line, visible
from salience.cli.surface import app
from salience.rank import profiles
from salience.rank.profile import Profile

group = typer.Typer(help="List, show and check ranking profiles.", no_args_is_help=False)
app.add_typer(group, name="profiles")


@command(group, "list", scope=())
def list_(_: Call) -> Answer:
    """List the profiles that ship."""
    shipped = [profiles.load(name) for name in profiles.NAMES]
    return Answer(
        shipped, lambda: (f"{one.name}\t{formula(one)}\t{one.summary}" for one in shipped), lambda _: _table(shipped)
    )


def _table(shipped: list[Profile]) -> RenderableType:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1), pad_edge=False)
    table.add_column("profile", style="bold", no_wrap=True)
    table.add_column("score", ratio=2)
    table.add_column("what it is for", ratio=3)
    for one in shipped:
        table.add_row(one.name, formula(one), one.summary)
    return table


def formula(profile: Profile) -> str:
    """Return how a profile makes a score, in one line: `(0.3 similarity + 0.6 lexical) x weight`."""
    added = " + ".join(f"{term.weight:g} {term.label}" for term in profile.terms if term.combine == "sum")
    factors = [
        term.label if term.weight == 1 else f"{term.label}^{term.weight:g}"
        for term in profile.terms
        if term.combine == "product"
    ]
    if added and factors:
        added = f"({added})"
    return " x ".join([*([added] if added else []), *factors])


Named = Annotated[str, typer.Argument(metavar="NAME", help="A name, or the path of a TOML file.")]


@command(group, scope=())
def show(_: Call, name: Named) -> Answer:
    """Print the TOML of a profile, a start for your own."""
    profile = profiles.load(name)
    text = profiles.source(name) if name in profiles.NAMES else Path(name).read_text("utf-8")
    return Answer(profile, lambda: map(visible, text.splitlines()))


@command(group, scope=())
def check(
    _: Call, names: Annotated[list[str], typer.Argument(metavar="NAME...", help="Names, or paths of TOML files.")]
) -> Answer:
    """Check that profiles can be used.

    Every key, signal and stage has to be known, and every number in its range.
    """
    checked = [profiles.load(name) for name in names]

    def lines() -> Iterator[str]:
        for name, one in zip(names, checked, strict=True):
            yield one_line(f"{name}: ok. {one.name} = {formula(one)}; stages {', '.join(one.stages)}")

    return Answer(checked, lines)
