"""Figures of an evaluation as drawings: SVG whose text and lines take the colours of the page that they stand in."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Sequence
from html import escape
from typing import Any, Final

from salience.evaluate.metrics import Estimate
from salience.evaluate.summary import Difference, Measured, Silence, Times

COLOURS: Final = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8c6bb1", "#7f7f7f")
"""One for each contender, from the palette of Okabe and Ito, which the colour-blind can tell apart, and two more."""
MARKS: Final = "osD^vPX*"
STEPS: Final = ("need", "embed", "gather", "rank")
INK: Final = "#010101"
"""Stands for the page's own colour of text, and `FAINT` for that of its lines."""
FAINT: Final = "#020202"
_STYLE: Final[Any] = {
    "svg.fonttype": "none",  # text stays text: it can be read out, searched and set in the page's own type
    "svg.hashsalt": "salience",  # the same figures make the same file
    "font.size": 10,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": FAINT,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "xtick.color": INK,
    "ytick.color": INK,
    "grid.color": FAINT,
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "savefig.facecolor": "none",
}
_VARIABLES: Final = {INK: "var(--ink)", FAINT: "var(--faint)"}
_ID: Final = re.compile(r'(\bid="|url\(#|href="#)')
_SIZE: Final = re.compile(r' width="[\d.]+pt" height="[\d.]+pt"| (?:width|height)="[\d.]+pt"')


def colour(rankings: Sequence[str], ranking: str) -> str:
    """Return the colour of a contender, the same in every drawing."""
    return COLOURS[rankings.index(ranking) % len(COLOURS)]


def _drawn(title: str, width: float, height: float, draw: Callable[[Any], None]) -> str:
    """Return the drawing that `draw` makes on an empty figure, as an `svg` element called `title`."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(width, height), layout="constrained")
        draw(figure)
        written = io.StringIO()
        figure.savefig(written, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    return _element(written.getvalue(), title)


def _element(document: str, title: str) -> str:
    """Return the `svg` element of a document, as wide as it is given room, in the colours of its page."""
    svg = document[document.index("<svg") :]
    head, _, rest = svg.partition(">")
    head = f'{_SIZE.sub("", head)} role="img" aria-label="{escape(title, quote=True)}"'
    for sign, variable in _VARIABLES.items():
        rest = rest.replace(sign, variable)
    rest = _ID.sub(rf"\g<1>{re.sub(r'[^a-z0-9]+', '-', title.lower())}-", rest)  # a page holds several drawings
    return f"{head}>{rest}"


def curves(measured: Measured, embedder: str, rankings: Sequence[str], ks: Sequence[int]) -> str:
    """Return recall by depth: a line for each contender."""

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        for place, ranking in enumerate(rankings):
            found = [measured.score(ranking, embedder, f"recall@{k}") for k in ks]
            means = [one.mean if one else 0.0 for one in found]
            shade = colour(rankings, ranking)
            axes.plot(ks, means, marker=MARKS[place % len(MARKS)], color=shade, label=ranking, linewidth=1.8)
            lows, highs = ([getattr(one, edge) if one else 0.0 for one in found] for edge in ("low", "high"))
            axes.fill_between(ks, lows, highs, color=shade, alpha=0.12, linewidth=0)
        axes.set(xlabel="k", ylabel="recall@k", xticks=list(ks), ylim=(0, 1))
        axes.grid(axis="y")
        figure.legend(loc="outside right center")

    return _drawn(f"recall by depth, {embedder}", 8.2, 4.2, draw)


def categories(measured: Measured, embedder: str, rankings: Sequence[str]) -> str:
    """Return the metric by category: a panel for each, with a bar and an interval for each contender."""
    rows = -(-len(measured.categories) // 2)
    columns = min(2, len(measured.categories))

    def draw(figure: Any) -> None:
        figure.get_layout_engine().set(hspace=0.06)
        panels = figure.subplots(rows, columns, sharex=True, squeeze=False)
        for panel in panels.flat[len(measured.categories) :]:
            panel.set_axis_off()
        for panel, (category, meaning) in zip(panels.flat, measured.categories.items(), strict=False):
            found = [measured.score(ranking, embedder, measured.metric, category) for ranking in rankings]
            _bars(panel, rankings, found)
            count = next((one.n for one in found if one), 0)
            panel.set_title(f"{category} {meaning}".strip() + f"  (n = {count})")
        for panel in panels[-1]:
            panel.set_xlabel(measured.metric)

    height = rows * (0.28 * len(rankings) + 0.9)
    return _drawn(f"{measured.metric} by category, {embedder}", 8.2, height, draw)


def _bars(panel: Any, rankings: Sequence[str], found: Sequence[Estimate | None]) -> None:
    places = range(len(rankings))
    means = [one.mean if one else 0.0 for one in found]
    shades = [colour(rankings, ranking) for ranking in rankings]
    panel.barh(places, means, color=shades, height=0.72, alpha=0.85)
    for place, one in zip(places, found, strict=True):
        if one:
            panel.plot([one.low, one.high], [place, place], color=INK, linewidth=1.4)
            panel.text(one.high + 0.015, place, f"{one.mean:.2f}", va="center", fontsize=8.5)
    panel.set(yticks=list(places), yticklabels=list(rankings), xlim=(0, 1.08))
    panel.invert_yaxis()
    panel.grid(axis="x")
    panel.tick_params(length=0)


def differences(found: Sequence[Difference], embedders: int) -> str:
    """Return the paired differences with their intervals, and a line where there is none."""

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        for place, one in enumerate(found):
            shade = COLOURS[0] if one.is_told else COLOURS[-1]
            axes.plot([one.estimate.low, one.estimate.high], [place, place], color=shade, linewidth=2.2)
            axes.plot([one.estimate.mean], [place], "o", color=shade)
            axes.annotate(f"{one.estimate.mean:+.3f}", (one.estimate.mean, place), xytext=(0, 7),
                          textcoords="offset points", ha="center", fontsize=8.5)  # fmt: skip
        axes.axvline(0, color=INK, linewidth=1)
        names = [f"{one.first} − {one.second}" + (f"  ({one.embedder})" if embedders > 1 else "") for one in found]
        axes.set(yticks=range(len(found)), yticklabels=names, xlabel=f"difference in {found[0].metric}")
        axes.set_ylim(len(found) - 0.4, -0.7)
        axes.grid(axis="x")
        axes.tick_params(length=0)

    return _drawn("paired differences", 8.2, 0.42 * len(found) + 0.9, draw)


def silences(found: Sequence[Silence], rankings: Sequence[str], kind: str) -> str:
    """Return the share of empty answers: a bar for each contender."""

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        _bars(axes, [one.ranking for one in found], [one.empty for one in found])
        for bar, one in zip(axes.patches, found, strict=True):
            bar.set_color(colour(rankings, one.ranking))
        axes.set(xlabel=f"share of empty answers, {found[0].embedder}")

    return _drawn(f"empty answers to {kind} questions", 8.2, 0.3 * len(found) + 0.8, draw)


def times(found: Sequence[Times]) -> str:
    """Return the median milliseconds of each step, one bar for each contender."""

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        steps = [step for step in STEPS if any(step in one.steps for one in found)]
        starts = [0.0] * len(found)
        for place, step in enumerate(steps):
            laps = [one.steps.get(step, 0.0) for one in found]
            axes.barh(range(len(found)), laps, left=starts, color=COLOURS[place], label=step, height=0.72, alpha=0.85)
            starts = [start + lap for start, lap in zip(starts, laps, strict=True)]
        for place, whole in enumerate(starts):
            axes.text(whole, place, f"  {whole:.2f}", va="center", fontsize=8.5)
        axes.set(yticks=range(len(found)), yticklabels=[one.ranking for one in found], xlabel="median ms")
        axes.set_xlim(0, max(starts, default=1.0) * 1.1)
        axes.invert_yaxis()
        axes.grid(axis="x")
        axes.tick_params(length=0)
        figure.legend(loc="outside upper left", ncols=len(steps))

    return _drawn("median milliseconds by step", 8.2, 0.3 * len(found) + 1.2, draw)
