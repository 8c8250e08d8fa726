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
from salience.evaluate.compare import ALL, Comparison
from salience.evaluate.metrics import ROUNDS, Estimate
from salience.loading import require

TITLE: Final = "Retrieval quality"
NAMING: Final = {"strip": "removed", "swap": "replaced by those of the other conversation", "keep": "kept"}
COLOURS: Final = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8c6bb1", "#7f7f7f")
"""The colour-blind safe palette of Okabe and Ito, and two more."""
MARKS: Final = "osD^vPX*"
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


def page(measured: Comparison, day: date) -> str:
    """Return the page of an evaluation made on `day`.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    require("matplotlib", "the HTML report", "eval")
    style = resources.files(__package__).joinpath("report.css").read_text("utf-8")
    embedder = measured.embedders[0]
    found = {ranking: measured.score(ranking, embedder, measured.metric) for ranking in measured.rankings}
    best = sorted(((one.mean, ranking) for ranking, one in found.items() if one), reverse=True)[:3]
    scores = ", ".join(f"{ranking} {mean:.3f}" for mean, ranking in best)
    lead = f"{measured.metric} over {measured.n:,} questions with {embedder}: {scores}."
    missing = f"; {measured.without_evidence:,} left out, without stored evidence" if measured.without_evidence else ""
    minimum = "each profile's own" if measured.min_score is None else f"{measured.min_score:g}"
    is_turn = measured.granularity == "turn"
    facts = {
        "Data": f"{', '.join(measured.formats)}: {', '.join(measured.files)}",
        "Stores": f"{measured.conversations:,} with {measured.memories:,} memories",
        "Granularity": "turn: one memory each" if is_turn else "session: its memories count as one",
        "Questions": f"n = {measured.n:,}{missing}",
        "Categories": ", ".join(f"{key} {meaning}".strip() for key, meaning in measured.categories.items()),
        "Metric": f"{measured.metric} in drawings and differences; the mean over questions",
        "Embedders": ", ".join(measured.embedders),
        "Answers": f"at most {measured.limit} memories; minimum score: {minimum}",
        "Intervals": f"95 %, bootstrap over {measured.resample}, {ROUNDS:,} samples, seed {measured.seed}",
        "Comparison on": day.isoformat(),
    }
    rows = "".join(f"<dt>{escape(key)}</dt><dd>{escape(value)}</dd>" for key, value in facts.items())
    body = "\n".join(_sections(measured))
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(TITLE)}: {escape(', '.join(measured.files))}</title>\n"
        f"<style>\n{style}</style>\n</head>\n<body>\n"
        f"<header>\n<h1>{escape(TITLE)}</h1>\n<p class=lead>{escape(lead)}</p>\n<dl>{rows}</dl>\n</header>\n{body}\n"
        f"<footer>Made by <code>salience eval</code> {salience.__version__} on {day.isoformat()}.</footer>\n"
        f"</body>\n</html>\n"
    )


def _sections(measured: Comparison) -> Iterator[str]:
    """Yield the sections: scores and categories of each embedder, differences, empty answers, times."""
    ks = sorted(int(name.removeprefix("recall@")) for name in measured.metrics if name.startswith("recall@"))
    shown = [metric for metric in measured.metrics if not metric.startswith(("all@", "hit@"))]
    for embedder in measured.embedders:
        text = "Recall at k: the share of a question's evidence in the first k memories, with the interval as a band."
        curves = [_curves(measured, embedder, ks)] if len(ks) > 1 else []
        every = _folded("All figures of all questions", _scores(measured, embedder, ALL, measured.metrics))
        yield _section(f"All questions, {embedder}", text, *curves, _scores(measured, embedder, ALL, shown), every)
        text = f"{measured.metric} of the questions of each category; the line on a bar is the interval."
        details = [
            _folded(
                f"All figures of category {key} {meaning}".strip(), _scores(measured, embedder, key, measured.metrics)
            )
            for key, meaning in measured.categories.items()
        ]
        yield _section(f"By category, {embedder}", text, _bars(measured, embedder), *details)
    if measured.differences:
        text = "The same questions under both rankings; blue if the interval excludes 0."
        rows = (
            (
                f"{one.first} − {one.second}",
                one.embedder,
                f"{one.estimate.n:,}",
                f"{one.estimate.mean:+.3f}",
                f"{one.estimate.low:+.3f} to {one.estimate.high:+.3f}",
            )
            for one in measured.differences
        )
        table = _table(["difference", "embedder", "questions", f"in {measured.metric}", "interval"], rows)
        yield _section("Paired differences", text, _differences(measured), table)
    if measured.silences:
        text = "No stored memory answers these questions: an empty answer is correct."
        if measured.naming:
            text += (
                f" In questions of another conversation, the names of their own speakers are {NAMING[measured.naming]}."
            )
        cells = (
            (one.ranking, one.embedder, one.kind, f"{one.empty.n:,}", _figure(one.empty), f"{one.hits:.2f}")
            for one in measured.silences
        )
        heads = ["ranking", "embedder", "kind", "questions", "empty answers", "mean hits"]
        yield _section("Questions without an answer", text, _table(heads, cells))
    steps = list(dict.fromkeys(step for one in measured.times for step in one.steps))
    text = "Median milliseconds of each step. Rankings that embed the same text share embed and gather."
    laps = ((one.ranking, one.embedder, *(f"{one.steps.get(step, 0):.3f}" for step in steps)) for one in measured.times)
    yield _section("Time", text, _table(["ranking", "embedder", *steps], laps))


# --- Tables -----------------------------------------------------------------------------------------------------------


class _Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


def _section(title: str, text: str, *parts: str) -> str:
    return f"<section>\n<h2>{escape(title)}</h2>\n<p>{escape(text)}</p>\n" + "\n".join(parts) + "\n</section>"


def _folded(title: str, part: str) -> str:
    return f"<details><summary>{escape(title)}</summary>{part}</details>"


def _scores(measured: Comparison, embedder: str, category: str, metrics: Sequence[str]) -> str:
    rows: dict[str, list[str]] = {ranking: [ranking] for ranking in measured.rankings}
    for metric in metrics:
        found = {ranking: measured.score(ranking, embedder, metric, category) for ranking in rows}
        best = max((one.mean for one in found.values() if one), default=None)
        for ranking, one in found.items():
            rows[ranking].append(f"{one.mean:.1f}" if one and metric == "hits" else _figure(one, best))
    return _table(["ranking", *metrics], rows.values())


def _figure(found: Estimate | None, best: float | None = None) -> str:
    """Return a mean, marked if it is the best, above its interval."""
    if found is None:
        return ""
    mean = f"<span class=best>{found.mean:.3f}</span>" if found.mean == best else f"{found.mean:.3f}"
    return _Markup(f"{mean}<span class=low>{found.low:.3f}–{found.high:.3f}</span>")


def _table(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in heads)
    cells = ((cell if isinstance(cell, _Markup) else escape(cell) for cell in row) for row in rows)
    body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>\n" for row in cells)
    return f"<div class=scroll><table><thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody></table></div>"


# --- Drawings ---------------------------------------------------------------------------------------------------------


def _drawing(title: str, height: float, draw: Callable[[Any], None]) -> str:
    """Return the figure that `draw` fills, scaled to its container, in the colours of the page."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(8.2, height), layout="constrained")
        draw(figure)
        written = io.StringIO()
        figure.savefig(written, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    document = written.getvalue()
    head, _, rest = document[document.index("<svg") :].partition(">")
    head = re.sub(r' width="[\d.]+pt" height="[\d.]+pt"| (?:width|height)="[\d.]+pt"', "", head)
    rest = rest.replace(INK, "var(--ink)").replace(FAINT, "var(--faint)")
    prefix = re.sub(r"[^a-z0-9]+", "-", title.lower())  # a page holds several drawings, each with ids of its own
    rest = re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>{prefix}-", rest)
    return f'<figure>{head} role="img" aria-label="{escape(title, quote=True)}">{rest}</figure>'


def _curves(measured: Comparison, embedder: str, ks: Sequence[int]) -> str:
    """Draw recall by depth: a line with a band for each ranking."""

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        for place, ranking in enumerate(measured.rankings):
            found = [measured.score(ranking, embedder, f"recall@{k}") for k in ks]
            colour, mark = COLOURS[place % len(COLOURS)], MARKS[place % len(MARKS)]
            means, lows, highs = ([getattr(one, edge, 0.0) for one in found] for edge in ("mean", "low", "high"))
            axes.plot(ks, means, marker=mark, color=colour, label=ranking, linewidth=1.8)
            axes.fill_between(ks, lows, highs, color=colour, alpha=0.12, linewidth=0)
        axes.set(xlabel="k", ylabel="recall@k", xticks=list(ks), ylim=(0, 1))
        axes.grid(axis="y")
        figure.legend(loc="outside right center")

    return _drawing(f"recall by depth, {embedder}", 4.2, draw)


def _bars(measured: Comparison, embedder: str) -> str:
    """Draw the metric by category: a panel for each, with a bar and an interval for each ranking."""
    rows, columns, rankings = -(-len(measured.categories) // 2), min(2, len(measured.categories)), measured.rankings

    def draw(figure: Any) -> None:
        figure.get_layout_engine().set(hspace=0.06)
        panels = figure.subplots(rows, columns, sharex=True, squeeze=False)
        for panel in panels.flat[len(measured.categories) :]:
            panel.set_axis_off()
        for panel, (category, meaning) in zip(panels.flat, measured.categories.items(), strict=False):
            found = [measured.score(ranking, embedder, measured.metric, category) for ranking in rankings]
            colours = [COLOURS[place % len(COLOURS)] for place in range(len(rankings))]
            means = [one.mean if one else 0.0 for one in found]
            panel.barh(range(len(rankings)), means, color=colours, height=0.72, alpha=0.85)
            for place, one in enumerate(found):
                if one:
                    panel.plot([one.low, one.high], [place, place], color=INK, linewidth=1.4)
                    panel.text(one.high + 0.015, place, f"{one.mean:.2f}", va="center", fontsize=8.5)
            panel.set(yticks=range(len(rankings)), yticklabels=rankings, xlim=(0, 1.08))
            panel.set_title(f"{category} {meaning}".strip() + f"  (n = {next((one.n for one in found if one), 0)})")
            panel.invert_yaxis()
            panel.grid(axis="x")
            panel.tick_params(length=0)
        for panel in panels[-1]:
            panel.set_xlabel(measured.metric)

    return _drawing(f"{measured.metric} by category, {embedder}", rows * (0.28 * len(rankings) + 0.9), draw)


def _differences(measured: Comparison) -> str:
    """Draw the paired differences with their intervals."""
    found, several = measured.differences, len(measured.embedders) > 1

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        for place, one in enumerate(found):
            colour, mean = COLOURS[0] if one.is_significant else COLOURS[-1], one.estimate.mean
            axes.plot([one.estimate.low, one.estimate.high], [place, place], color=colour, linewidth=2.2)
            axes.plot([mean], [place], "o", color=colour)
            above: dict[str, Any] = {"xytext": (0, 7), "textcoords": "offset points", "ha": "center", "fontsize": 8.5}
            axes.annotate(f"{mean:+.3f}", (mean, place), **above)
        axes.axvline(0, color=INK, linewidth=1)
        names = [f"{one.first} − {one.second}" + (f"  ({one.embedder})" if several else "") for one in found]
        axes.set(yticks=range(len(found)), yticklabels=names, xlabel=f"difference in {measured.metric}")
        axes.set_ylim(len(found) - 0.4, -0.7)
        axes.grid(axis="x")
        axes.tick_params(length=0)

    return _drawing("paired differences", 0.42 * len(found) + 0.9, draw)
