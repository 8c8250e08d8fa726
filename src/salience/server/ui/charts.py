"""Charts as SVG: pure functions from numbers to markup, with colours from the style sheet.

Each chart is an image with a label, and has its numbers as text: in the label, in a `<title>` per mark, or in a legend
or table beside it. Values are escaped. There are no inline styles, which the content policy forbids.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from markupsafe import Markup

SERIES: Final = 8
"""Number of colours, the classes `s0` to `s7` of the style sheet."""
LABEL: Final = 64.0
"""Distance below which a label at the end of an axis would touch another one, units of a chart 480 wide."""
ROW: Final = 7
"""Height of a row of `bump`, as in the style sheet, rem."""


def sparkline(values: Sequence[float], label: str) -> Markup:
    """Return a small line of values between 0 and 1 at equal steps."""
    width, height = 96.0, 24.0
    points = _points(values, width, height)
    area = _mark("polygon", class_="area", points=f"0,{height:g} {points} {width:g},{height:g}")
    return _svg("spark", width, height, label, [area, _mark("polyline", class_="line", points=points)])


def bar(value: float, label: str, *, high: float = 1.0) -> Markup:
    """Return a bar of a value between 0 and `high`."""
    share = min(max(value / high, 0.0), 1.0) if high else 0.0
    track = _mark("rect", class_="track", width=100, height=6, rx=3)
    fill = _mark("rect", class_="fill", width=f"{share * 100:.1f}", height=6, rx=3)
    return _svg("bar", 100, 6, label, [track, fill])


def stacked_bar(parts: Sequence[tuple[str, float]], label: str, *, total: float | None = None) -> Markup:
    """Return a bar of parts one after the other; negative parts are left out. `total`: value of the whole width."""
    shown = [(index, name, value) for index, (name, value) in enumerate(parts) if value > 0]
    whole = total or sum(value for _, _, value in shown) or 1.0
    marks, at = [_mark("rect", class_="track", width=100, height=10)], 0.0
    for index, name, value in shown:
        width = min(value / whole * 100, 100 - at)
        place = {"x": f"{at:.2f}", "width": f"{width:.2f}", "height": 10}
        marks.append(_mark("rect", f"{name}: {value:.3f}", class_=f"s{index % SERIES}", **place))
        at += width
    return _svg("stack", 100, 10, label, marks, stretch=True)


def legend(names: Sequence[str]) -> Markup:
    """Return the names of the parts of a stacked bar, each with its colour, in the same order."""
    items = [
        Markup('<li><svg class="swatch" viewBox="0 0 10 10" aria-hidden="true">{}</svg>{}</li>').format(
            _mark("rect", class_=f"s{index % SERIES}", width=10, height=10, rx=2), name
        )
        for index, name in enumerate(names)
    ]
    return Markup('<ul class="legend">{}</ul>').format(Markup().join(items))


def histogram(counts: Sequence[int], label: str, *, high: float, cut: float | None) -> Markup:
    """Return a histogram of the numbers in equal bins from 0 to `high`, with a line at `cut`."""
    width, height, bins = 480.0, 120.0, len(counts)
    floor = height - 16
    most, step, marks = max(counts, default=0) or 1, width / max(bins, 1), []
    for index, count in enumerate(counts):
        tall = count / most * (floor - 4)
        title = f"{index * high / bins:.2f} to {(index + 1) * high / bins:.2f}: {count}"
        place = {"x": f"{index * step + 1:.1f}", "y": f"{floor - tall:.1f}", "width": f"{step - 2:.1f}"}
        marks.append(_mark("rect", title, class_="s0", height=f"{tall:.1f}", **place))
    labels = {"start": (0.0, 0.0), "end": (width, high)}
    if cut is not None:
        x = min(max(cut / high, 0.0), 1.0) * width
        marks.append(_cut(x, floor))
        anchor = "start" if x < LABEL else "end" if x > width - LABEL else "middle"
        labels[anchor] = (x, cut)  # takes the place of a label that it would touch
    marks += [_text(at, height - 3, f"{value:.2f}", anchor) for anchor, (at, value) in labels.items()]
    return _svg("histogram", width, height, label, marks)


def line_chart(series: Sequence[tuple[str, Sequence[float]]], label: str, *, ends: tuple[str, str]) -> Markup:
    """Return lines from 0 to 1 over equal steps, such as decay curves; `ends` are the texts at both ends."""
    width, height, floor = 480.0, 160.0, 140.0
    marks = [_mark("line", class_="axis", x1=0, x2=width, y1=y, y2=y) for y in (0.5, floor / 2, floor)]
    for index, (name, values) in enumerate(series):
        points = _points(values, width, floor)
        marks.append(_mark("polyline", name, class_=f"line s{index % SERIES}", points=points))
    marks += [_text(0, height - 4, ends[0]), _text(width, height - 4, ends[1], "end")]
    return _svg("lines", width, height, label, marks)


Span = tuple[float, float, str, str]
"""Start and end of a period as shares of the width, 0 to 1, its state, which is a class `is-STATE`, and its title."""


def timeline(spans: Sequence[Span], label: str, *, at: float | None) -> Markup:
    """Return periods on one line, drawn over the whole width of their place; `at` is a vertical line."""
    width, height, marks = 1000.0, 22.0, [_mark("rect", class_="track", width=1000, height=22)]
    for start, end, state, title in spans:
        place = {"x": f"{start * width:.1f}", "width": f"{max((end - start) * width - 1, 2):.1f}", "y": 3}
        marks.append(_mark("rect", title, class_=f"is-{state}", height=16, **place))
    if at is not None:
        marks.append(_cut(at * width, height))
    return _svg("timeline", width, height, label, marks, stretch=True)


def heat_map(
    rows: Sequence[tuple[str, Sequence[int]]], label: str, columns: Sequence[str], heads: Sequence[str]
) -> Markup:
    """Return a grid of counts, stronger for more: one row per name, one cell per count.

    `columns` are names of the columns for the titles of the cells, `heads` texts over some of them.
    """
    size, left, top = 14.0, 40.0, 16.0
    most = max((count for _, counts in rows for count in counts), default=0) or 1
    widest, marks = max((len(counts) for _, counts in rows), default=0), list[Markup]()
    marks += [_text(left + x * size, 10, head) for x, head in enumerate(heads) if head]
    for y, (name, counts) in enumerate(rows):
        marks.append(_text(0, top + y * size + 11, name))
        for x, count in enumerate(counts):
            level = 0 if count == 0 else 1 + min(int(count / most * 4), 3)
            title = f"{name} {columns[x]}: {count}"
            place = {"x": left + x * size, "y": top + y * size, "width": size - 2, "height": size - 2}
            marks.append(_mark("rect", title, class_=f"heat{level}", rx=2, **place))
    return _svg("heat", left + widest * size, top + len(rows) * size, label, marks)


def bump(lines: Sequence[tuple[int, int, int]], rows: int, label: str) -> Markup:
    """Return lines between two columns of `rows` rows, each `ROW` high: (row on the left, row on the right, colour)."""
    marks = []
    for start, end, color in lines:
        y, to = start * 10 + 5, end * 10 + 5
        marks.append(_mark("path", class_=f"line s{color % SERIES}", d=f"M0,{y} C50,{y} 50,{to} 100,{to}"))
    return _svg("bump", 100, max(rows, 1) * 10, label, marks, stretch=True, tall=f"{max(rows, 1) * ROW}rem")


def _points(values: Sequence[float], width: float, height: float) -> str:
    """Return the points of a line of values from 0 to 1 over equal steps."""
    step = width / max(len(values) - 1, 1)
    shares = [min(max(value, 0.0), 1.0) for value in values]
    return " ".join(f"{x * step:.1f},{height - 1 - share * (height - 2):.1f}" for x, share in enumerate(shares))


def _cut(x: float, height: float) -> Markup:
    return _mark("line", class_="cut", x1=f"{x:.1f}", x2=f"{x:.1f}", y1=0, y2=height)


def _text(x: float, y: float, text: str, anchor: str = "start") -> Markup:
    return Markup('<text x="{}" y="{}" text-anchor="{}">{}</text>').format(f"{x:.1f}", f"{y:g}", anchor, text)


def _mark(name: str, title: str = "", /, **attributes: Any) -> Markup:
    """Return an SVG element with a title; the attribute `class` is named `class_`."""
    written = [Markup(' {}="{}"').format(key.rstrip("_"), value) for key, value in attributes.items()]
    inside = Markup("<title>{}</title>").format(title) if title else ""
    return Markup("<{}{}>{}</{}>").format(name, Markup().join(written), inside, name)


def _svg(
    kind: str,
    width: float,
    height: float,
    label: str,
    marks: Iterable[Markup],
    *,
    stretch: bool = False,
    tall: str | None = None,
) -> Markup:
    ratio = Markup(' preserveAspectRatio="none"') if stretch else Markup()
    if tall is not None:
        ratio += Markup(' height="{}"').format(tall)
    return Markup('<svg class="chart {}" role="img" aria-label="{}" viewBox="0 0 {} {}"{}>{}</svg>').format(
        kind, label, f"{width:g}", f"{height:g}", ratio, Markup().join(marks)
    )
