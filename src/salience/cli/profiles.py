"""Commands on ranking profiles: list, show, check."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from salience.cli.options import PROFILES, Call, command, command_group
from salience.cli.output import Answer, one_line, sanitize, table

if TYPE_CHECKING:
    from salience.rank.profile import Profile

app = typer.Typer()
group = command_group("List, show and check ranking profiles.")
app.add_typer(group, name="profiles")


@command(group, "list")
def list_(_: Call) -> Answer:
    """List the included profiles."""
    from rich.table import Column

    from salience.rank import profiles

    shipped = [profiles.load(name) for name in profiles.NAMES]
    shown = table(Column("profile", style="bold", no_wrap=True), Column("score", ratio=2), Column("purpose", ratio=3))
    rows = [(one.name, formula(one), one.summary) for one in shipped]
    for row in rows:
        shown.add_row(*row)
    return Answer(shipped, map("\t".join, rows), shown)


def formula(profile: Profile) -> str:
    """Return the score formula of a profile in one line: `(0.3 similarity + 0.6 lexical) x weight`."""
    from salience.cli.results import product

    added = [f"{term.weight:g} {term.label}" for term in profile.terms if term.combine == "sum"]
    factors = [
        term.label if term.weight == 1 else f"{term.label}^{term.weight:g}"
        for term in profile.terms
        if term.combine == "product"
    ]
    return product(added, factors)


@command(group)
def show(
    _: Call,
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="A name, or the path of a TOML file.", autocompletion=PROFILES)
    ],
) -> Answer:
    """Print the TOML of a profile, to start your own from."""
    from salience.rank import profiles

    profile = profiles.load(name)
    text = profiles.source(name) if name in profiles.NAMES else Path(name).read_text("utf-8")
    return Answer(profile, map(sanitize, text.splitlines()))


@command(group)
def check(
    _: Call,
    names: Annotated[
        list[str], typer.Argument(metavar="NAME...", help="Names, or paths of TOML files.", autocompletion=PROFILES)
    ],
) -> Answer:
    """Check that profiles are valid: keys, signals, stages, and the range of every number."""
    from salience.rank import profiles

    checked = [profiles.load(name) for name in names]
    lines = [
        one_line(f"{name}: ok. {one.name} = {formula(one)}; stages {', '.join(one.stages)}")
        for name, one in zip(names, checked, strict=True)
    ]
    lines += [
        one_line(f"{name}: without the stage 'expired', it returns memories past their ttl")
        for name, one in zip(names, checked, strict=True)
        if "expired" not in one.stages
    ]
    return Answer(checked, lines)
