"""The command demo: the sample's questions under all profiles, side by side."""

from __future__ import annotations

import shlex
import textwrap
from collections.abc import Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Final

import typer

from salience.cli.options import Call, command
from salience.cli.output import Answer, sanitize, scope_text, status
from salience.errors import InputError, shown

if TYPE_CHECKING:
    from rich.console import RenderableType

    from salience.evaluate.sample import Demo, Round

app = typer.Typer()
WIDTH: Final = 100
"""Width of the plain form."""
ABSENT: Final = "·"
DOUBTS: Final = {"answers": "", "may answer": "?", "does not answer": "??"}
"""Verdict -> its mark."""
LEGEND: Final = (
    "Rank and score under each profile; a dot: not among its first {limit} (memlayer: or under 0.70).\n"
    "?: may answer. ??: does not answer. +2: two near-duplicates collapsed.\n"
    "~: found through a linked memory, or before one that it replaces. confidence: of the first hit."
)
NEXT: Final = """\
More questions: salience demo --all. The dashboard of this sample: salience demo --keep demo.db
Now with memories of your own:
  salience remember "Alice prefers Python for backend work" --user alice
  salience recall "Which language does Alice use for backend work?" --user alice --explain"""
KEPT: Final = """\
The sample is in {file}. Open its dashboard, or ask it a question:
  salience ui {file}
  salience --store {file} recall "When does Elena go swimming?" --user elena"""


@command(app)
def demo(
    call: Call,
    every: Annotated[bool, typer.Option("--all", help="Ask every question, not only one screen of them.")] = False,
    keep: Annotated[Path | None, typer.Option("--keep", metavar="FILE", help="Keep the sample in a new file.")] = None,
) -> Answer:
    """Ask a sample store under all profiles, side by side.

    The store is a temporary file with a fixed clock, unless --keep names a file; your own store is not touched.
    """
    from salience.evaluate import sample

    if keep is not None and keep.exists():
        raise InputError("--keep", str(keep), "Name a new file.", f"{shown(str(keep))} exists")
    with TemporaryDirectory(prefix="salience-demo-") as folder, status("asking the sample"):
        played = sample.demo(keep or Path(folder) / "demo.db", call.options.embedder, every)
    last = NEXT if keep is None else KEPT.format(file=shlex.quote(str(keep)))
    return Answer(played, _lines(played, last), _view(played, last))


def _texts(played: Demo) -> tuple[str, str, list[int], int]:
    """Return the first and the last line, the width of each profile's column, and of the text beside them."""
    profiles = [answer.profile for answer in played.rounds[0].answers]
    head = (
        f"{played.stats.memories} memories of an assistant, {len(played.rounds)} questions, {len(profiles)} profiles. "
    )
    kinds = ", ".join(f"{count} {kind}" for kind, count in played.stats.by_kind.items())
    widths = [max(len(name), 9) for name in profiles]
    last = f"{played.stats.memories} memories: {kinds}."
    return f"{head}It is {played.now:%-d %B %Y}.", last, widths, WIDTH - sum(widths) - len(widths)


def _rows(one: Round, room: int) -> Iterator[tuple[str, list[str]]]:
    """Yield each memory of a round, with rank and score under each profile, or a dot."""
    for memory in one.memories:
        cells = []
        for answer in one.answers:
            ranked = ((rank, hit) for rank, hit in enumerate(answer, 1) if hit.memory.id == memory.id)
            rank, hit = next(ranked, (0, None))
            marks = "" if hit is None else f"{DOUBTS[hit.verdict]}{'~' if hit.via else ''}"
            marks += f"+{len(hit.absorbed)}" if hit is not None and hit.absorbed else ""
            cells.append(ABSENT if hit is None else f"{rank} {hit.score:.2f}{marks}")
        yield "\n".join(textwrap.wrap(memory.content, room - 4)), cells


def _confidence(one: Round) -> str:
    """Return how sure the first profile, `salience`, is that its first hit answers."""
    first = one.answers[0]
    sure = first.hits[0].confidence if first.hits else None
    return "" if sure is None else f"confidence {sure:.2f}: {first.hits[0].verdict}"


def _lines(played: Demo, next_steps: str) -> Iterator[str]:
    """Yield aligned lines of at most `WIDTH` columns."""
    head, last, widths, room = _texts(played)

    def aligned(text: str, cells: Iterable[str]) -> str:
        padded = (f" {item:{width}}" for item, width in zip(cells, widths, strict=True))
        return f"{text:{room}}{''.join(padded)}".rstrip()

    yield from (head, *LEGEND.format(limit=played.limit).splitlines())
    for number, one in enumerate(played.rounds, 1):
        where = f"({scope_text(one.asked.scope)})"
        heading = f"{number}. {sanitize(one.asked.question)}  {where}  {_confidence(one)}".rstrip()
        yield from ("", *textwrap.wrap(heading, WIDTH, subsequent_indent="   "))
        yield aligned("", (answer.profile for answer in one.answers))
        for content, cells in _rows(one, room):
            first, *rest = content.split("\n")
            yield aligned(f"   {first}", cells)
            yield from (f"   {line}" for line in rest)
        yield from textwrap.wrap(sanitize(one.asked.shows), WIDTH, initial_indent="   ", subsequent_indent="   ")
    yield from ("", last, *next_steps.splitlines())


def _view(played: Demo, next_steps: str) -> RenderableType:
    from rich.console import Group
    from rich.padding import Padding
    from rich.table import Column, Table
    from rich.text import Text

    head, last, widths, room = _texts(played)
    parts: list[RenderableType] = [Text(head, style="bold"), Text(LEGEND.format(limit=played.limit), style="dim")]
    for number, one in enumerate(played.rounds, 1):
        question = (sanitize(one.asked.question), "bold cyan")
        parts.append(
            Text.assemble(f"\n{number}. ", question, (f"  ({scope_text(one.asked.scope)})  ", "dim"), _confidence(one))
        )
        heads = (
            Column(Text(answer.profile, style="dim"), no_wrap=True, min_width=width)
            for answer, width in zip(one.answers, widths, strict=True)
        )
        table = Table(Column(ratio=1), *heads, box=None, padding=(0, 1, 0, 0), pad_edge=False, expand=True)
        for content, cells in _rows(one, room):
            styles = ["dim" if cell == ABSENT else "bold green" if cell.startswith("1 ") else "" for cell in cells]
            texts = (Text(cell, style=style) for cell, style in zip(cells, styles, strict=True))
            table.add_row(Padding(Text(content), (0, 0, 0, 3)), *texts)
        parts += [table, Padding(Text(sanitize(one.asked.shows), style="italic"), (0, 0, 0, 3))]
    return Group(*parts, Text(f"\n{last}", style="bold"), Text(next_steps))
