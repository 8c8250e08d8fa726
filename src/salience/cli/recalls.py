"""An answer to a query, as lines and as a table with a bar for each score."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from string import ascii_lowercase
from typing import Final

from rich import box
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from salience.cli import words
from salience.cli.bars import SCORE, VIA, Share, cells, shares, total
from salience.cli.screen import Answer
from salience.cli.signs import one_line, visible
from salience.records import Hit, Recall

BAR: Final = 20
"""Cells of the longest bar."""
LONGEST: Final = 280
"""Characters of a memory that a table shows."""
COLOURS: Final = ("cyan", "yellow", "magenta", "green", "blue", "red", "bright_cyan", "bright_yellow")
_OWN_COLOURS: Final = {SCORE: "green", VIA: "blue"}


def answer(found: Recall, now: datetime, explain: bool) -> Answer:
    """Return a recall in its three forms; `explain` adds the arithmetic of each score."""

    def shown(console: Console) -> RenderableType:
        return view(found, now, explain, letters=console.no_color or not console.color_system)

    return Answer(found, lambda: lines(found, now, explain), shown)


def answers(queries: Sequence[str], found: Sequence[Recall], now: datetime, explain: bool) -> Answer:
    """Return several recalls, each under its question, in their three forms."""
    each = [(query, answer(one, now, explain)) for query, one in zip(queries, found, strict=True)]

    def written() -> Iterator[str]:
        for query, one in each:
            yield f"# question: {one_line(query)}"
            yield from one.lines()

    def shown(console: Console) -> RenderableType:
        return Group(
            *(Group(Text(visible(query), style="bold"), one.view(console), "") for query, one in each if one.view)
        )

    return Answer({"recalls": found}, written, shown)


def lines(found: Recall, now: datetime, explain: bool) -> Iterator[str]:
    """Yield a comment of how the answer came about, then a line of tab-separated values for each hit."""
    yield f"# {'; '.join(words.how(found))}"
    yield from (f"# {one_line(line)}" for line in times(found))
    if found.hits and not found.confident:
        yield f"# {words.UNSURE}"
    yield "# rank\tscore\tage\tid\tscope\tparts\tcontent"
    for rank, hit in enumerate(found, 1):
        memory = hit.memory
        parts = "; ".join([" ".join(map(words.part, hit.score_detail.parts)), *words.asides(hit)])
        cells = (
            f"{hit.score:.4f}", words.age(memory.created_at, now), memory.id, words.scope(memory.scope), parts,
            memory.content,
        )  # fmt: skip
        yield "\t".join((str(rank), *map(one_line, cells)))
    yield from (f"# {line}" for line in words.elsewhere(found.out_of_scope))
    for rank, hit in enumerate(found, 1) if explain else ():
        yield from (f"# {one_line(line)}" for line in words.taken_apart(rank, hit))


def view(found: Recall, now: datetime, explain: bool, letters: bool) -> RenderableType:
    """Return the answer for a terminal; `letters` draws bars of initials where there are no colours."""
    head = Text(visible("\n".join([" · ".join(words.how(found)), *times(found)])), style="dim")
    if not found.hits:
        where = words.elsewhere(found.out_of_scope) or [words.ELSEWHERE]
        return Group(head, Text("\n".join([f"Nothing found. {words.NEAREST}", *where])))
    drawn = marks(found, letters)
    unsure = [] if found.confident else [Text(words.UNSURE, style="yellow")]
    parts: list[RenderableType] = [head, *unsure, _table(found, now, drawn), legend(found, drawn)]
    if explain:
        parts += [
            Text("\n" + visible("\n".join(words.taken_apart(rank, hit)))) for rank, hit in enumerate(found.hits, 1)
        ]
    return Group(*parts)


def times(found: Recall) -> list[str]:
    """Return what the query was taken to say of time, as a line; none where it names no time."""
    cue = found.intent.time
    if cue is None:
        return []
    sides = [f"{word} {_moment(at)}" for word, at in (("from", cue.start), ("until", cue.end)) if at is not None]
    said = [
        *([" ".join(sides) + " UTC"] if sides else []),
        *([f'{cue.relation} "{cue.anchor}" was told of'] if cue.relation else []),
        *([f"{cue.order} first"] if cue.order else []),
    ]
    quoted = ", ".join(f'"{run}"' for run in cue.words)
    return [f"time {quoted}: {', '.join(said)}"]


def _moment(at: datetime) -> str:
    """Return the date of an instant, and its time of day unless it is midnight."""
    return f"{at:%Y-%m-%d %H:%M}".removesuffix(" 00:00")


def _table(found: Recall, now: datetime, drawn: Mapping[str, Mark]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1), pad_edge=False, expand=True)
    table.add_column("#", justify="right", no_wrap=True)
    table.add_column("score", justify="right", no_wrap=True)
    table.add_column("made of", no_wrap=True, width=BAR)
    table.add_column("memory", ratio=3, overflow="fold")
    table.add_column("age", justify="right", no_wrap=True)
    table.add_column("id", no_wrap=True, style="dim")
    table.add_column("scope", ratio=1, overflow="fold", style="dim")
    longest = max(total(hit.score_detail) for hit in found)
    for rank, hit in enumerate(found, 1):
        memory = hit.memory
        table.add_row(
            str(rank),
            Text(f"{hit.score:.3f}", style="bold"),
            bar(shares(hit.score_detail), longest, drawn),
            _content(hit),
            words.age(memory.created_at, now),
            memory.short_id,
            Text(visible(words.scope(memory.scope))),
        )
    return table


def _content(hit: Hit) -> Text:
    content = visible(hit.memory.content)
    text = Text(content if len(content) <= LONGEST else content[: LONGEST - 1] + "…")
    for said in words.asides(hit):
        text.append(f"\n{said}", style="dim italic")
    return text


@dataclass(frozen=True, slots=True)
class Mark:
    """How the segments of a signal are drawn: a style, a sign for what is kept and one for what is taken."""

    style: str
    kept: str
    taken: str


def marks(found: Recall, letters: bool) -> dict[str, Mark]:
    """Return a mark for each segment that the bars can have: by colour, or by a letter of its own."""
    signals = dict.fromkeys(item.signal for hit in found for item in hit.score_detail.parts)
    if letters:
        return {signal: Mark("", letter.upper(), letter) for signal, letter in initials(signals).items()} | {
            SCORE: Mark("", "#", ""), VIA: Mark("", "=", "")
        }  # fmt: skip
    colours = {signal: COLOURS[place % len(COLOURS)] for place, signal in enumerate(signals)} | _OWN_COLOURS
    return {signal: Mark(colour, "█", "░") for signal, colour in colours.items()}


def initials(signals: Iterable[str]) -> dict[str, str]:
    """Return a small letter for each name, no two the same: the first of its own letters that is free."""
    found: dict[str, str] = {}
    for signal in signals:
        free = (letter for letter in (*signal.lower(), *ascii_lowercase) if letter.isalpha())
        found[signal] = next((letter for letter in free if letter not in found.values()), "?")
    return found


def bar(parts: Sequence[Share], longest: float, drawn: Mapping[str, Mark]) -> Text:
    """Return the segments side by side: solid what is kept, shaded what a factor took."""
    text = Text()
    for part, length in zip(parts, cells(parts, longest, BAR), strict=True):
        mark = drawn[part.signal]
        text.append((mark.kept if part.kept else mark.taken) * length, style=mark.style)
    return text


def legend(found: Recall, drawn: Mapping[str, Mark]) -> Text:
    """Return which segment is which, of those that the bars have: first what is kept, then what is taken."""
    seen = dict.fromkeys(
        (part.signal, part.kept) for hit in found for part in shares(hit.score_detail) if part.length > 0
    )
    text = Text()
    for signal, kept in sorted(seen, key=lambda pair: not pair[1]):
        mark = drawn[signal]
        text.append(mark.kept if kept else mark.taken, style=mark.style)
        text.append(f" {visible(signal)}{'' if kept else ' takes'}   ", style="dim")
    return text
