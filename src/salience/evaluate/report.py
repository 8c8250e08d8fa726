"""An evaluation as a page of HTML that stands alone: tables, drawings in the page itself, nothing from a network."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import date
from html import escape
from importlib import resources
from typing import Final

import salience
from salience.evaluate import plots
from salience.evaluate.evaluation import FOREIGN
from salience.evaluate.metrics import ROUNDS, Estimate
from salience.evaluate.summary import ALL, Measured
from salience.loading import require

TITLE: Final = "How well memories are found"
_SILENCES: Final = {
    "foreign": "Questions of another conversation",
    "unanswerable": "Questions that the data set calls unanswerable",
}


def page(measured: Measured, day: date) -> str:
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


def _head(measured: Measured, day: date) -> str:
    title, lead = escape(TITLE), escape(_lead(measured))
    return f"<header>\n<h1>{title}</h1>\n<p class=lead>{lead}</p>\n{_facts(measured, day)}\n</header>"


def _lead(measured: Measured) -> str:
    """Return the result in a line: who finds most."""
    embedder = measured.embedders[0]
    found = {ranking: measured.score(ranking, embedder, measured.metric) for ranking in measured.rankings}
    ordered = sorted(((one.mean, ranking) for ranking, one in found.items() if one), reverse=True)
    told = ", ".join(f"{ranking} {mean:.3f}" for mean, ranking in ordered[:3])
    return f"{measured.metric} over {measured.n:,} questions with {embedder}: {told}."


def _facts(measured: Measured, day: date) -> str:
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
        "Answers": f"of at most {measured.limit} memories; least score: {least}",
        "Intervals": f"95 %, bootstrap over {measured.resample}, {ROUNDS:,} samples, seed {measured.seed}",
        "Measured on": day.isoformat(),
    }
    rows = "".join(f"<dt>{escape(key)}</dt><dd>{escape(value)}</dd>" for key, value in facts.items())
    return f"<dl>{rows}</dl>"


def _left_out(measured: Measured) -> str:
    if not measured.without_evidence:
        return ""
    return f"; {measured.without_evidence:,} left out, whose evidence is not among what is stored"


def _sections(measured: Measured) -> Iterator[str]:
    for embedder in measured.embedders:
        yield from _found(measured, embedder)
    if measured.differences:
        text = "The same questions under both; blue where the interval leaves out 0, so that the two can be told apart."
        drawn = plots.differences(measured.differences, len(measured.embedders))
        yield _section("Paired differences", text, _figure(drawn), _compared(measured))
    for kind in dict.fromkeys(one.kind for one in measured.silences):
        yield _silent(measured, kind)
    yield from _timed(measured)


def _compared(measured: Measured) -> str:
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


def _found(measured: Measured, embedder: str) -> Iterator[str]:
    names = measured.rankings
    ks = [int(name.removeprefix("recall@")) for name in measured.metrics if name.startswith("recall@")]
    text = "Recall at k: the share of a question's evidence among its first k memories, with the interval as a band."
    curves = [_figure(plots.curves(measured, embedder, names, sorted(ks)))] if len(ks) > 1 else []
    first = [metric for metric in measured.metrics if not metric.startswith(("all@", "hit@"))]
    whole = _folded("All figures of all questions", _table(measured, embedder, ALL, measured.metrics))
    yield _section(f"All questions, {embedder}", text, *curves, _table(measured, embedder, ALL, first), whole)
    text = f"{measured.metric} of the questions of each category; the line on a bar is the interval."
    details = [
        _folded(f"All figures of category {key} {meaning}".strip(), _table(measured, embedder, key, measured.metrics))
        for key, meaning in measured.categories.items()
    ]
    yield _section(f"By category, {embedder}", text, _figure(plots.categories(measured, embedder, names)), *details)


def _folded(title: str, part: str) -> str:
    return f"<details><summary>{escape(title)}</summary>{part}</details>"


def _table(measured: Measured, embedder: str, category: str, metrics: Sequence[str]) -> str:
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


def _silent(measured: Measured, kind: str) -> str:
    found = [one for one in measured.silences if one.kind == kind]
    text = "Nothing that is stored answers them: an empty answer is right."
    if kind == FOREIGN:
        naming = {"strip": "taken out", "swap": "replaced by those of the other", "keep": "kept"}[
            measured.naming or "keep"
        ]
        text += f" The names of those who speak in a question's own conversation are {naming}."
    drawings = [
        plots.silences([one for one in found if one.embedder == embedder], measured.rankings, kind)
        for embedder in measured.embedders
    ]
    rows = (
        [escape(one.ranking), escape(one.embedder), f"{one.empty.n:,}", _cell(one.empty, None), f"{one.hits:.2f}"]
        for one in found
    )
    table = _rows(["ranking", "embedder", "questions", "empty answers", "mean hits"], rows)
    return _section(_SILENCES[kind], text, *map(_figure, drawings), table)


def _timed(measured: Measured) -> Iterator[str]:
    for embedder in measured.embedders:
        found = [one for one in measured.times if one.embedder == embedder]
        text = (
            "Median milliseconds of each step of a recall, on the machine that measured. The store is read once for "
            "all rankings that embed the same text, so that gather holds what any of them needs."
        )
        steps = list(dict.fromkeys(step for one in found for step in one.steps))
        rows = ([escape(one.ranking), *(f"{one.steps.get(step, 0):.3f}" for step in steps)] for one in found)
        yield _section(f"Time, {embedder}", text, _figure(plots.times(found)), _rows(["ranking", *steps], rows))
