"""The command `demo`: the sample's questions, the answers of all profiles side by side."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Final

import typer
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from salience.cli import words
from salience.cli.calls import Call, command
from salience.cli.screen import Answer, waiting
from salience.cli.signs import shortened, visible
from salience.cli.surface import app
from salience.evaluate import demo as lab
from salience.evaluate.demo import PROFILES, Demo, Round
from salience.records import Memory, Recall

WIDTH: Final = 118
"""Columns of the piped form."""
WIDTHS: Final = tuple(max(len(name), 9) for name in PROFILES)
"""Columns of each profile's cells."""
TEXT: Final = WIDTH - sum(WIDTHS) - len(WIDTHS)
"""Columns of a memory's text, with its indent."""
ABSENT: Final = "·"
LEGEND: Final = (
    "Rank and score under each profile; a dot: not among its first {limit} "
    "(memlayer: or under 0.70).\n"
    "?: weak. +2: two near-duplicates folded in. ~: brought in by a linked memory, or put before one that it updates."
)
NEXT: Final = """\
More questions: salience demo --all. Now with memories of your own:
  salience remember "Alice prefers Python for backend work" --user alice
  salience recall "What language does Alice like?" --user alice --explain"""


@command(app, "demo", scope=())
def demo(
    call: Call,
    every: Annotated[bool, typer.Option("--all", help="Ask every question, not only one screen of them.")] = False,
) -> Answer:
    """Ask a sample store under all profiles, side by side.

    The store is a file in a temporary folder, and the clock stands at the sample's day: nothing of yours is touched.
    """
    with TemporaryDirectory(prefix="salience-demo-") as folder, waiting("asking the sample"):
        played = lab.run(Path(folder), call.options.embedder, every)
    return Answer(played, lambda: lines(played), lambda _: view(played))


def head(played: Demo) -> str:
    """Return what the demo is about, in a line."""
    return (
        f"{played.stats.memories} memories of an assistant, {len(played.rounds)} questions, "
        f"{len(PROFILES)} profiles. It is {played.now:%-d %B %Y}."
    )


def legend(played: Demo) -> str:
    """Return what the cells mean."""
    return LEGEND.format(limit=played.limit)


def rows(played: Round) -> Iterator[tuple[Memory, list[str]]]:
    """Yield each memory of a round with what every profile makes of it: rank and score, or a dot."""
    for memory in played.memories:
        yield memory, [cell(answer, memory.id) for answer in played.answers]


def cell(answer: Recall, id: str) -> str:
    """Return rank and score of a memory in an answer, with marks for what it absorbed and where it came from."""
    for rank, hit in enumerate(answer, 1):
        if hit.memory.id == id:
            absorbed = f" +{len(hit.absorbed)}" if hit.absorbed else ""
            return f"{rank} {hit.score:.2f}{'?' if hit.weak else ''}{' ~' if hit.via else ''}{absorbed}"
    return ABSENT


def lines(played: Demo) -> Iterator[str]:
    """Yield the demo as aligned lines of at most `WIDTH` columns."""
    yield from (head(played), *legend(played).splitlines())
    for number, one in enumerate(played.rounds, 1):
        yield ""
        yield f"{number}. {visible(one.asked.question)}  ({words.scope(one.asked.scope)})"
        yield _aligned("", PROFILES)
        for memory, cells in rows(one):
            yield _aligned(f"   {shortened(memory.content, TEXT - 4)}", cells)
        yield from textwrap.wrap(visible(one.asked.shows), WIDTH, initial_indent="   ", subsequent_indent="   ")
    yield from ("", counts(played), *NEXT.splitlines())


def _aligned(text: str, cells: Iterable[str]) -> str:
    padded = (f" {item:{width}}" for item, width in zip(cells, WIDTHS, strict=True))
    return f"{text:{TEXT}}{''.join(padded)}".rstrip()


def counts(played: Demo) -> str:
    """Return what the store held, in a line."""
    kinds = ", ".join(f"{count} {kind}" for kind, count in played.stats.by_kind.items())
    return f"{played.stats.memories} memories: {kinds}."


def view(played: Demo) -> RenderableType:
    """Return the demo for a terminal."""
    parts: list[RenderableType] = [Text(head(played), style="bold"), Text(legend(played), style="dim")]
    for number, one in enumerate(played.rounds, 1):
        scope = f"  ({words.scope(one.asked.scope)})"
        parts.append(Text.assemble(f"\n{number}. ", (visible(one.asked.question), "bold cyan"), (scope, "dim")))
        parts += [_table(one), _indented(one.asked.shows)]
    return Group(*parts, Text(f"\n{counts(played)}", style="bold"), Text(NEXT))


def _table(played: Round) -> Table:
    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, expand=True)
    table.add_column("", ratio=1)
    for name, width in zip(PROFILES, WIDTHS, strict=True):
        table.add_column(Text(name, style="dim"), no_wrap=True, min_width=width)
    for memory, cells in rows(played):
        said = Padding(Text(shortened(memory.content, TEXT - 4)), (0, 0, 0, 3))
        table.add_row(said, *(Text(item, style=_style(item)) for item in cells))
    return table


def _style(item: str) -> str:
    if item == ABSENT:
        return "dim"
    return "bold green" if item.startswith("1 ") else ""


def _indented(text: str) -> RenderableType:
    return Padding(Text(visible(text), style="italic"), (0, 0, 0, 3))
