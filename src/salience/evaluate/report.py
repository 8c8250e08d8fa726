"""An evaluation as one HTML page: tables and SVG plots, with nothing from a network."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import date
from html import escape
from importlib import resources
from typing import Any, Final

import salience
from salience.evaluate.compare import ALL, Comparison, Difference, Silence, Times
from salience.evaluate.metrics import ROUNDS, Estimate
from salience.evaluate.run import FOREIGN
from salience.loading import require

TITLE: Final = "How well memories are found"
_SILENCES: Final = {
    "foreign": "Questions of another conversation",
    "unanswerable": "Questions that the data set calls unanswerable",
}
COLOURS: Final = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8c6bb1", "#7f7f7f")
"""The colour-blind safe palette of Okabe and Ito, and two more."""
MARKS: Final = "osD^vPX*"
STEPS: Final = ("need", "embed", "gather", "rank")
INK: Final = "#010101"
"""Placeholder for the page's text colour; `FAINT` for its line colour."""
FAINT: Final = "#020202"
_STYLE: Final[Any] = {
    "svg.fonttype": "none",  # text stays text, in the font of the page
    "svg.hashsalt": "salience",  # for reproducible files
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


def page(measured: Comparison, day: date) -> str:
    """Return the page.

    Args:
        measured: the figures.
        day: on which they were measured.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    require("matplotlib", "the HTML report", "eval")
    style = resources.files(__package__).joinpath("report.css").read_text("utf-8")
    body = "\n".join(_sections(measured))
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(TITLE)}: {escape(', '.join(measured.files))}</title>\n"
        f"<style>\n{style}</style>\n</head>\n<body>\n"
        f"{_head(measured, day)}\n{body}\n"
        f"<footer>Made by <code>salience eval</code> {salience.__version__} on {day.isoformat()}.</footer>\n"
        f"</body>\n</html>\n"
    )


def _head(measured: Comparison, day: date) -> str:
    title, lead = escape(TITLE), escape(_lead(measured))
    return f"<header>\n<h1>{title}</h1>\n<p class=lead>{lead}</p>\n{_facts(measured, day)}\n</header>"


def _lead(measured: Comparison) -> str:
    """Return the best three rankings in a line."""
    embedder = measured.embedders[0]
    found = {ranking: measured.score(ranking, embedder, measured.metric) for ranking in measured.rankings}
    ordered = sorted(((one.mean, ranking) for ranking, one in found.items() if one), reverse=True)
    scores = ", ".join(f"{ranking} {mean:.3f}" for mean, ranking in ordered[:3])
    return f"{measured.metric} over {measured.n:,} questions with {embedder}: {scores}."


def _facts(measured: Comparison, day: date) -> str:
    least = "each profile's own" if measured.min_score is None else f"{measured.min_score:g}"
    facts = {
        "Data": f"{', '.join(measured.formats)}: {', '.join(measured.files)}",
        "Stores": f"{measured.conversations:,} with {measured.memories:,} memories",
        "Granularity": "turn: one memory each"
        if measured.granularity == "turn"
        else "session: its memories count as one",
        "Questions": f"n = {measured.n:,}" + _left_out(measured),
        "Categories": ", ".join(f"{key} {meaning}".strip() for key, meaning in measured.categories.items()),
        "Metric": f"{measured.metric} in drawings and differences; the mean over questions",
        "Embedders": ", ".join(measured.embedders),
        "Answers": f"at most {measured.limit} memories; minimum score: {least}",
        "Intervals": f"95 %, bootstrap over {measured.resample}, {ROUNDS:,} samples, seed {measured.seed}",
        "Comparison on": day.isoformat(),
    }
    rows = "".join(f"<dt>{escape(key)}</dt><dd>{escape(value)}</dd>" for key, value in facts.items())
    return f"<dl>{rows}</dl>"


def _left_out(measured: Comparison) -> str:
    if not measured.without_evidence:
        return ""
    return f"; {measured.without_evidence:,} left out, without stored evidence"


def _sections(measured: Comparison) -> Iterator[str]:
    for embedder in measured.embedders:
        yield from _found(measured, embedder)
    if measured.differences:
        text = "The same questions under both rankings; blue if the interval excludes 0."
        drawn = _differences_plot(measured.differences, len(measured.embedders))
        yield _section("Paired differences", text, _figure(drawn), _compared(measured))
    for kind in dict.fromkeys(one.kind for one in measured.silences):
        yield _silent(measured, kind)
    yield from _timed(measured)


def _compared(measured: Comparison) -> str:
    rows = (
        [
            escape(f"{one.first} − {one.second}"),
            escape(one.embedder),
            f"{one.estimate.n:,}",
            f"{one.estimate.mean:+.3f}",
            f"{one.estimate.low:+.3f} to {one.estimate.high:+.3f}",
        ]
        for one in measured.differences
    )
    return _rows(["difference", "embedder", "questions", f"in {measured.metric}", "interval"], rows)


def _section(title: str, text: str, *parts: str) -> str:
    return f"<section>\n<h2>{escape(title)}</h2>\n<p>{escape(text)}</p>\n" + "\n".join(parts) + "\n</section>"


def _figure(drawing: str) -> str:
    return f"<figure>{drawing}</figure>"


def _found(measured: Comparison, embedder: str) -> Iterator[str]:
    names = measured.rankings
    ks = [int(name.removeprefix("recall@")) for name in measured.metrics if name.startswith("recall@")]
    text = "Recall at k: the share of a question's evidence among its first k memories, with the interval as a band."
    curves = [_figure(_curves_plot(measured, embedder, names, sorted(ks)))] if len(ks) > 1 else []
    first = [metric for metric in measured.metrics if not metric.startswith(("all@", "hit@"))]
    whole = _folded("All figures of all questions", _table(measured, embedder, ALL, measured.metrics))
    yield _section(f"All questions, {embedder}", text, *curves, _table(measured, embedder, ALL, first), whole)
    text = f"{measured.metric} of the questions of each category; the line on a bar is the interval."
    details = [
        _folded(f"All figures of category {key} {meaning}".strip(), _table(measured, embedder, key, measured.metrics))
        for key, meaning in measured.categories.items()
    ]
    yield _section(f"By category, {embedder}", text, _figure(_categories_plot(measured, embedder, names)), *details)


def _folded(title: str, part: str) -> str:
    return f"<details><summary>{escape(title)}</summary>{part}</details>"


def _table(measured: Comparison, embedder: str, category: str, metrics: Sequence[str]) -> str:
    names = measured.rankings
    columns = {metric: [measured.score(name, embedder, metric, category) for name in names] for metric in metrics}
    best = {metric: max(one.mean for one in found if one) for metric, found in columns.items() if metric != "hits"}
    rows = (
        [escape(name), *(_figured(metric, columns[metric][place], best.get(metric)) for metric in metrics)]
        for place, name in enumerate(names)
    )
    return _rows(["ranking", *metrics], rows)


def _figured(metric: str, found: Estimate | None, best: float | None) -> str:
    return f"{found.mean:.1f}" if found and metric == "hits" else _cell(found, best)


def _cell(found: Estimate | None, best: float | None) -> str:
    if found is None:
        return ""
    mean = f"<span class=best>{found.mean:.3f}</span>" if found.mean == best else f"{found.mean:.3f}"
    return f"{mean}<span class=low>{found.low:.3f}–{found.high:.3f}</span>"


def _rows(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in heads)
    body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>\n" for row in rows)
    return f"<div class=scroll><table><thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody></table></div>"


def _silent(measured: Comparison, kind: str) -> str:
    found = [one for one in measured.silences if one.kind == kind]
    text = "No stored memory answers them: an empty answer is correct."
    if kind == FOREIGN:
        naming = {"strip": "removed", "swap": "replaced by those of the other conversation", "keep": "kept"}[
            measured.naming or "keep"
        ]
        text += f" The names of the question's own speakers are {naming}."
    drawings = [
        _silences_plot([one for one in found if one.embedder == embedder], measured.rankings, kind)
        for embedder in measured.embedders
    ]
    rows = (
        [escape(one.ranking), escape(one.embedder), f"{one.empty.n:,}", _cell(one.empty, None), f"{one.hits:.2f}"]
        for one in found
    )
    table = _rows(["ranking", "embedder", "questions", "empty answers", "mean hits"], rows)
    return _section(_SILENCES[kind], text, *map(_figure, drawings), table)


def _timed(measured: Comparison) -> Iterator[str]:
    for embedder in measured.embedders:
        found = [one for one in measured.times if one.embedder == embedder]
        text = "Median milliseconds of each step. Rankings that embed the same text share embed and gather."
        steps = list(dict.fromkeys(step for one in found for step in one.steps))
        rows = ([escape(one.ranking), *(f"{one.steps.get(step, 0):.3f}" for step in steps)] for one in found)
        yield _section(f"Time, {embedder}", text, _figure(_times_plot(found)), _rows(["ranking", *steps], rows))


def _colour(rankings: Sequence[str], ranking: str) -> str:
    """Return the colour of a contender."""
    return COLOURS[rankings.index(ranking) % len(COLOURS)]


def _drawn(title: str, width: float, height: float, draw: Callable[[Any], None]) -> str:
    """Return the `svg` element of a figure that `draw` fills."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(width, height), layout="constrained")
        draw(figure)
        written = io.StringIO()
        figure.savefig(written, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    return _element(written.getvalue(), title)


def _element(document: str, title: str) -> str:
    """Return the `svg` element of a document, scaled to its container, in the colours of the page."""
    svg = document[document.index("<svg") :]
    head, _, rest = svg.partition(">")
    head = f'{_SIZE.sub("", head)} role="img" aria-label="{escape(title, quote=True)}"'
    for sign, variable in _VARIABLES.items():
        rest = rest.replace(sign, variable)
    rest = _ID.sub(rf"\g<1>{re.sub(r'[^a-z0-9]+', '-', title.lower())}-", rest)  # a page holds several drawings
    return f"{head}>{rest}"


def _curves_plot(measured: Comparison, embedder: str, rankings: Sequence[str], ks: Sequence[int]) -> str:
    """Return recall by depth: a line for each contender."""

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        for place, ranking in enumerate(rankings):
            found = [measured.score(ranking, embedder, f"recall@{k}") for k in ks]
            means = [one.mean if one else 0.0 for one in found]
            shade = _colour(rankings, ranking)
            axes.plot(ks, means, marker=MARKS[place % len(MARKS)], color=shade, label=ranking, linewidth=1.8)
            lows, highs = ([getattr(one, edge) if one else 0.0 for one in found] for edge in ("low", "high"))
            axes.fill_between(ks, lows, highs, color=shade, alpha=0.12, linewidth=0)
        axes.set(xlabel="k", ylabel="recall@k", xticks=list(ks), ylim=(0, 1))
        axes.grid(axis="y")
        figure.legend(loc="outside right center")

    return _drawn(f"recall by depth, {embedder}", 8.2, 4.2, draw)


def _categories_plot(measured: Comparison, embedder: str, rankings: Sequence[str]) -> str:
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
    shades = [_colour(rankings, ranking) for ranking in rankings]
    panel.barh(places, means, color=shades, height=0.72, alpha=0.85)
    for place, one in zip(places, found, strict=True):
        if one:
            panel.plot([one.low, one.high], [place, place], color=INK, linewidth=1.4)
            panel.text(one.high + 0.015, place, f"{one.mean:.2f}", va="center", fontsize=8.5)
    panel.set(yticks=list(places), yticklabels=list(rankings), xlim=(0, 1.08))
    panel.invert_yaxis()
    panel.grid(axis="x")
    panel.tick_params(length=0)


def _differences_plot(found: Sequence[Difference], embedders: int) -> str:
    """Return the paired differences with their intervals, or a line if there are none."""

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        for place, one in enumerate(found):
            shade = COLOURS[0] if one.is_significant else COLOURS[-1]
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


def _silences_plot(found: Sequence[Silence], rankings: Sequence[str], kind: str) -> str:
    """Return the share of empty answers: a bar for each contender."""

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        _bars(axes, [one.ranking for one in found], [one.empty for one in found])
        for bar, one in zip(axes.patches, found, strict=True):
            bar.set_color(_colour(rankings, one.ranking))
        axes.set(xlabel=f"share of empty answers, {found[0].embedder}")

    return _drawn(f"empty answers to {kind} questions", 8.2, 0.3 * len(found) + 0.8, draw)


def _times_plot(found: Sequence[Times]) -> str:
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
