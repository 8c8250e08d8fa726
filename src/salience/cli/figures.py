"""Figures of an evaluation: as lines, as tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields
from typing import Any, Final

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from salience.evaluate.metrics import ROUNDS, Estimate
from salience.evaluate.summary import ALL, Difference, Measured, Times
from salience.evaluate.tune import Tuned
from salience.text import counted

RESTS: Final = ("precision", "hits")
"""Columns after the metrics."""
_GRANULARITY: Final = {"turn": "turn (a memory each)", "session": "session (memories of one session count as one)"}


def lines(measured: Measured) -> Iterator[str]:
    """Yield comments on what was measured, then a line of tab-separated values for each figure."""
    yield from (f"# {line}" for line in head(measured))
    names = measured.metrics
    yield "# ranking\tembedder\tcategory\tn\t" + "\t".join(names)
    for embedder in measured.embedders:
        for ranking in measured.rankings:
            for category in (ALL, *measured.categories):
                found = [measured.score(ranking, embedder, name, category) for name in names]
                n = next((one.n for one in found if one), 0)
                yield "\t".join([ranking, embedder, category, str(n), *map(bounds, found)])
    yield "# difference\tembedder\tmetric\tn\tmean"
    for difference in measured.differences:
        yield "\t".join([*_pair(difference), str(difference.estimate.n), bounds(difference.estimate, sign=True)])
    yield "# no answer\tembedder\tkind\tn\tempty\thits"
    for one in measured.silences:
        yield "\t".join([one.ranking, one.embedder, one.kind, str(one.empty.n), bounds(one.empty), f"{one.hits:.2f}"])
    yield "# time\tembedder\tmedian ms"
    for times in measured.times:
        yield "\t".join([times.ranking, times.embedder, *(f"{step} {lap:.2f}" for step, lap in times.steps.items())])


def _pair(difference: Difference) -> list[str]:
    return [f"{difference.first} - {difference.second}", difference.embedder, difference.metric]


def head(measured: Measured) -> list[str]:
    """Return what was measured, on what and how, in sentences."""
    categories = ", ".join(f"{key} {meaning}".strip() for key, meaning in measured.categories.items())
    left_out = f"; {measured.without_evidence} left out, without evidence that is stored"
    drawn = f"{ROUNDS:,} samples of {measured.resample}, seed {measured.seed}"
    least = "each profile's own min_score" if measured.min_score is None else f"min_score {measured.min_score:g}"
    asked_elsewhere = f"; names in foreign questions: {measured.naming}" if measured.naming else ""
    return [
        f"{', '.join(measured.formats)}: {', '.join(measured.files)}; {counted(measured.conversations, 'store')}, "
        f"{counted(measured.memories, 'memory', 'memories')}",
        f"granularity: {_GRANULARITY[measured.granularity]}; n = {counted(measured.n, 'question')} of the categories "
        f"{categories}{left_out if measured.without_evidence else ''}",
        f"metric of differences: {measured.metric}; limit {measured.limit}; {least}{asked_elsewhere}",
        f"intervals: 95 %, {drawn}",
    ]


def bounds(estimate: Estimate | None, sign: bool = False) -> str:
    """Return a mean with its interval: `0.639 [0.604, 0.672]`."""
    if estimate is None:
        return "-"
    form = "+.3f" if sign else ".3f"
    return f"{estimate.mean:{form}} [{estimate.low:{form}}, {estimate.high:{form}}]"


def view(measured: Measured) -> RenderableType:
    """Return the figures for a terminal."""
    parts: list[RenderableType] = [Text("\n".join(head(measured)), style="dim")]
    for embedder in measured.embedders:
        parts += [_scores(measured, embedder), _by_category(measured, embedder)]
    if measured.differences:
        parts.append(_differences(measured.differences))
    if measured.silences:
        parts.append(_silences(measured))
    parts.append(_times(measured.times))
    return Group(*parts)


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
    for place, column in enumerate(columns):
        table.add_column(column, justify="right" if place else "left", no_wrap=True)
    return table


def _scores(measured: Measured, embedder: str) -> Table:
    names = [name for name in measured.metrics if name not in RESTS]
    shown = [name for name in names if name.startswith(("recall", "mrr", "ndcg"))]
    table = _table(f"{embedder}: all {measured.n} questions", "ranking", *shown, f"{measured.metric}, 95 %", *RESTS)
    best = {name: max(_mean(measured, one, embedder, name) for one in measured.rankings) for name in shown}
    for ranking in measured.rankings:
        cells = [_cell(_mean(measured, ranking, embedder, name), best[name]) for name in shown]
        main = measured.score(ranking, embedder, measured.metric)
        interval = Text(f"[{main.low:.3f}, {main.high:.3f}]" if main else "-", style="dim")
        rests = [Text(f"{_mean(measured, ranking, embedder, name):.2f}") for name in RESTS]
        table.add_row(Text(ranking), *cells, interval, *rests)
    return table


def _by_category(measured: Measured, embedder: str) -> Table:
    counts = {one: _count(measured, embedder, one) for one in measured.categories}
    heads = [f"{one} {meaning}".strip() + f" ({counts[one]})" for one, meaning in measured.categories.items()]
    table = _table(f"{embedder}: {measured.metric} by category", "ranking", *heads)
    for ranking in measured.rankings:
        found = [measured.score(ranking, embedder, measured.metric, one) for one in measured.categories]
        table.add_row(Text(ranking), *(Text(bounds(one)) for one in found))
    return table


def _count(measured: Measured, embedder: str, category: str) -> int:
    found = measured.score(measured.rankings[0], embedder, measured.metric, category)
    return found.n if found else 0


def _mean(measured: Measured, ranking: str, embedder: str, metric: str) -> float:
    found = measured.score(ranking, embedder, metric)
    return found.mean if found else 0.0


def _cell(mean: float, best: float) -> Text:
    return Text(f"{mean:.3f}", style="bold green" if mean == best else "")


def _differences(differences: Sequence[Difference]) -> Table:
    table = _table(
        "paired differences; bold where the interval leaves 0 out", "difference", "embedder", "metric", "mean"
    )
    for one in differences:
        style = "bold" if one.is_told else ""
        table.add_row(*map(Text, _pair(one)), Text(bounds(one.estimate, sign=True), style=style))
    return table


def _silences(measured: Measured) -> Table:
    table = _table("questions without an answer", "ranking", "embedder", "questions", "n", "empty answers", "mean hits")
    for one in measured.silences:
        cells = (one.ranking, one.embedder, one.kind, str(one.empty.n), bounds(one.empty), f"{one.hits:.2f}")
        table.add_row(*map(Text, cells))
    return table


def _times(times: Sequence[Times]) -> Table:
    steps = list(dict.fromkeys(step for one in times for step in one.steps))
    title = "median ms; embed and gather are done once for all rankings"
    table = _table(title, "ranking", "embedder", *steps)
    for one in times:
        table.add_row(Text(one.ranking), Text(one.embedder), *(Text(f"{one.steps.get(step, 0):.2f}") for step in steps))
    return table


def tuned_record(tuned: Tuned) -> dict[str, Any]:
    """Return the figures of a tuning for JSON, without the profile."""
    return {item.name: getattr(tuned, item.name) for item in fields(Tuned) if item.name != "profile"}


def tuned_lines(tuned: Tuned) -> Iterator[str]:
    """Yield what tuning came to as comments, so that the TOML may follow."""
    yield f"# {_tuned_title(tuned)}, 95 % intervals"
    for name in ("before", "held_out", "gain", "fitted"):
        yield f"# {name.replace('_', ' ')}\t{bounds(getattr(tuned, name), sign=name == 'gain')}"
    yield "# held out\tn\tbefore\theld out\tfitted on the others"
    for fold in tuned.folds:
        yield f"# {', '.join(fold.conversations)}\t{fold.n}\t{fold.before:.3f}\t{fold.held_out:.3f}\t{fold.fitted:.3f}"
    yield "# number\tbefore\tafter"
    for change in tuned.changes:
        yield f"# {change.path}\t{change.before:g}\t{change.after:g}"
    if tuned.unfitted:
        yield f"# not fitted, since the data does not vary in it: {', '.join(tuned.unfitted)}"


def tuned_view(tuned: Tuned, written: str | None) -> RenderableType:
    """Return what tuning came to for a terminal, and the TOML unless a file holds it."""
    whole = _table(_tuned_title(tuned), "", "mean and 95 % interval")
    for name in ("before", "held_out", "gain", "fitted"):
        style = "bold" if name in ("held_out", "gain") else ""
        figure = bounds(getattr(tuned, name), sign=name == "gain")
        whole.add_row(Text(name.replace("_", " "), style=style), Text(figure, style=style))
    folds = _table("held out, one after the other", "conversation", "n", "before", "held out", "fitted on the others")
    for fold in tuned.folds:
        numbers = (f"{number:.3f}" for number in (fold.before, fold.held_out, fold.fitted))
        folds.add_row(Text(", ".join(fold.conversations)), Text(str(fold.n)), *map(Text, numbers))
    changes = _table("numbers", "", "before", "after")
    for change in tuned.changes:
        changes.add_row(Text(change.path), Text(f"{change.before:g}"), Text(f"{change.after:g}"))
    rest = [f"Not fitted, since the data does not vary in it: {', '.join(tuned.unfitted)}."] if tuned.unfitted else []
    rest += [f"\n{written}"] if written else []
    return Group(whole, folds, changes, *map(Text, rest))


def _tuned_title(tuned: Tuned) -> str:
    return f"{tuned.metric}, n = {counted(tuned.n, 'question')}, {counted(tuned.trials, 'trial')} a fit"
