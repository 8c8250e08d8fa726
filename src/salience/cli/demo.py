"""The command demo: the sample's questions under all profiles, side by side."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Final

import typer
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from salience.cli.options import Call, command
from salience.cli.output import Answer, sanitize, scope_text, status, truncate
from salience.records import Memory, Recall

if TYPE_CHECKING:
    from salience.evaluate.sample import Demo, Round

app = typer.Typer()
WIDTH: Final = 118
"""Width of the plain form."""
ABSENT: Final = "·"
LEGEND: Final = (
    "Rank and score under each profile; a dot: not among its first {limit} (memlayer: or under 0.70).\n"
    "?: weak. +2: two near-duplicates folded in. ~: brought in by a linked memory, or put before one that it updates."
)
NEXT: Final = """\
More questions: salience demo --all. Now with memories of your own:
  salience remember "Alice prefers Python for backend work" --user alice
  salience recall "What language does Alice like?" --user alice --explain"""


@command(app, scope=())
def demo(
    call: Call,
    every: Annotated[bool, typer.Option("--all", help="Ask every question, not only one screen of them.")] = False,
) -> Answer:
    """Ask a sample store under all profiles, side by side.

    The store is a temporary file with a fixed clock; your own store is not touched.
    """
    from salience.evaluate import sample

    with TemporaryDirectory(prefix="salience-demo-") as folder, status("asking the sample"):
        played = sample.demo(Path(folder), call.options.embedder, every)
    return Answer(played, _lines(played), _view(played))


def _head(played: Demo) -> str:
    return (
        f"{played.stats.memories} memories of an assistant, {len(played.rounds)} questions, "
        f"{len(_profiles(played))} profiles. It is {played.now:%-d %B %Y}."
    )


def _counts(played: Demo) -> str:
    kinds = ", ".join(f"{count} {kind}" for kind, count in played.stats.by_kind.items())
    return f"{played.stats.memories} memories: {kinds}."


def _rows(one: Round) -> Iterator[tuple[Memory, list[str]]]:
    """Yield each memory of a round, with rank and score under each profile, or a dot."""
    for memory in one.memories:
        yield memory, [_cell(answer, memory.id) for answer in one.answers]


def _cell(answer: Recall, id: str) -> str:
    for rank, hit in enumerate(answer, 1):
        if hit.memory.id == id:
            absorbed = f" +{len(hit.absorbed)}" if hit.absorbed else ""
            return f"{rank} {hit.score:.2f}{'?' if hit.weak else ''}{' ~' if hit.via else ''}{absorbed}"
    return ABSENT


def _profiles(played: Demo) -> list[str]:
    return [answer.profile for answer in played.rounds[0].answers]


def _widths(played: Demo) -> tuple[list[int], int]:
    """Return the width of each profile's column, and of the text."""
    widths = [max(len(name), 9) for name in _profiles(played)]
    return widths, WIDTH - sum(widths) - len(widths)


def _lines(played: Demo) -> Iterator[str]:
    """Yield aligned lines of at most `WIDTH` columns."""
    profiles, (widths, room) = _profiles(played), _widths(played)

    def aligned(text: str, cells: Iterable[str]) -> str:
        padded = (f" {item:{width}}" for item, width in zip(cells, widths, strict=True))
        return f"{text:{room}}{''.join(padded)}".rstrip()

    yield from (_head(played), *LEGEND.format(limit=played.limit).splitlines())
    for number, one in enumerate(played.rounds, 1):
        yield from ("", f"{number}. {sanitize(one.asked.question)}  ({scope_text(one.asked.scope)})")
        yield aligned("", profiles)
        for memory, cells in _rows(one):
            yield aligned(f"   {truncate(memory.content, room - 4)}", cells)
        yield from textwrap.wrap(sanitize(one.asked.shows), WIDTH, initial_indent="   ", subsequent_indent="   ")
    yield from ("", _counts(played), *NEXT.splitlines())


def _view(played: Demo) -> RenderableType:
    parts: list[RenderableType] = [
        Text(_head(played), style="bold"),
        Text(LEGEND.format(limit=played.limit), style="dim"),
    ]
    profiles, (widths, room) = _profiles(played), _widths(played)
    for number, one in enumerate(played.rounds, 1):
        question = (sanitize(one.asked.question), "bold cyan")
        parts.append(Text.assemble(f"\n{number}. ", question, (f"  ({scope_text(one.asked.scope)})", "dim")))
        table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, expand=True)
        table.add_column("", ratio=1)
        for name, width in zip(profiles, widths, strict=True):
            table.add_column(Text(name, style="dim"), no_wrap=True, min_width=width)
        for memory, cells in _rows(one):
            content = Padding(Text(truncate(memory.content, room - 4)), (0, 0, 0, 3))
            table.add_row(content, *(Text(item, style=_style(item)) for item in cells))
        parts += [table, Padding(Text(sanitize(one.asked.shows), style="italic"), (0, 0, 0, 3))]
    return Group(*parts, Text(f"\n{_counts(played)}", style="bold"), Text(NEXT))


def _style(item: str) -> str:
    if item == ABSENT:
        return "dim"
    return "bold green" if item.startswith("1 ") else ""
