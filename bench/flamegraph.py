"""Stacks that a sampling profiler saw, as a flame graph: a picture without scripts, for pages that allow none.

A box is a function, those below it are what it called, and the width is the share of the looks at which it was running.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

WIDTH: Final = 1200
ROW: Final = 17
LEAST: Final = 2.0
"""Narrowest box that is drawn, in the unit of `WIDTH`."""
_LETTER: Final = 6.6
_PADDING: Final = 6
_COLOURS: Final = (("(salience/", "#f4a261"), ("(sqlalchemy/", "#8ab17d"), ("(numpy/", "#7fb3d5"), ("", "#d9d3c7"))
"""Part of a function's name -> colour; the first that fits."""

Stack = tuple[Sequence[str], int]
"""Functions, the outermost first, and at how many looks they were seen so."""


@dataclass(frozen=True, slots=True)
class Flame:
    """A function as it was called from one place.

    Attributes:
        name: of the function, with its file.
        looks: at which it was running.
        below: what it called, the most frequent first.
    """

    name: str
    looks: int
    below: tuple[Flame, ...] = ()


def stacks(raw: str) -> Iterator[Stack]:
    """Yield the stacks of py-spy's raw form: `outer (file:line);inner (file:line) 12` on each line."""
    for line in raw.splitlines():
        frames, _, looks = line.rpartition(" ")
        yield frames.split(";"), int(looks)


def under(found: Iterable[Stack], function: str) -> Iterator[Stack]:
    """Yield what was called by a function, by a part of its name and file; stacks without it are left out."""
    for frames, looks in found:
        place = next((number for number, frame in enumerate(frames) if function in frame), None)
        if place is not None:
            yield frames[place + 1 :], looks


def grown(name: str, found: Iterable[Stack]) -> Flame:
    """Return stacks as a tree, under one name."""
    groups: dict[str, list[Stack]] = {}
    total = 0
    for frames, looks in found:
        total += looks
        if frames:
            groups.setdefault(frames[0], []).append((frames[1:], looks))
    below = (grown(inner, group) for inner, group in groups.items())
    return Flame(name, total, tuple(sorted(below, key=lambda flame: (-flame.looks, flame.name))))


def svg(root: Flame) -> str:
    """Return the picture; what is narrower than `LEAST` is left out."""
    scale = WIDTH / max(root.looks, 1)
    boxes = list(_boxes(root, root.looks, 0.0, 0, scale))
    height = max((depth + 1 for depth, _ in boxes), default=0) * ROW
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="monospace" '
    style = 'font-size="11" stroke="#fff" stroke-width="0.5">'
    return "\n".join([head + style, *(box for _, box in boxes), "</svg>\n"])


def _boxes(flame: Flame, total: int, left: float, depth: int, scale: float) -> Iterator[tuple[int, str]]:
    """Yield the depth and the box of a function and of all below it."""
    if flame.looks * scale < LEAST:
        return
    yield depth, _box(flame, total, left, depth, flame.looks * scale)
    for inner in flame.below:
        yield from _boxes(inner, total, left, depth + 1, scale)
        left += inner.looks * scale


def _box(flame: Flame, total: int, left: float, depth: int, width: float) -> str:
    colour = next(colour for part, colour in _COLOURS if part in flame.name)
    title = f"{flame.name}, {flame.looks / max(total, 1):.1%}"
    box = f'<rect x="{left:.1f}" y="{depth * ROW}" width="{width:.1f}" height="{ROW}" fill="{colour}"/>'
    return f"<g><title>{escape(title)}</title>{box}{_label(flame.name, left, depth, width)}</g>"


def _label(name: str, left: float, depth: int, width: float) -> str:
    """Return as much of a function's name as its box has room for."""
    room = int((width - _PADDING) / _LETTER)
    shown = name.partition(" (")[0]
    if room < 3:
        return ""
    text = shown if len(shown) <= room else f"{shown[: room - 1]}…"
    return f'<text x="{left + _PADDING / 2:.1f}" y="{depth * ROW + 12}" stroke="none">{escape(text)}</text>'
