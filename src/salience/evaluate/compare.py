"""The figures of an evaluation: means with intervals, paired differences, empty answers, and times."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Final, Literal

from salience.errors import InputError, Words
from salience.evaluate import datasets
from salience.evaluate.metrics import Estimate, Metric, estimate, paired, precision
from salience.evaluate.run import FOREIGN, UNANSWERABLE, Granularity, Outcome, Plan, Result, Source

ALL: Final = "all"
"""The category of all questions together."""
DEPTH: Final = 10
"""Cut-off of MRR and nDCG."""
KS: Final = (1, 5, 10, 20)
Resample = Literal["questions", "conversations"]


@dataclass(frozen=True, slots=True)
class Score:
    """A contender's mean of a metric over the questions of a category."""

    ranking: str
    embedder: str
    category: str
    metric: str
    estimate: Estimate


@dataclass(frozen=True, slots=True)
class Difference:
    """The mean of first - second on the same questions."""

    first: str
    second: str
    embedder: str
    metric: str
    estimate: Estimate


@dataclass(frozen=True, slots=True)
class Silence:
    """A contender's answers to questions that nothing answers.

    Attributes:
        kind: `foreign`, questions of another conversation; `unanswerable`, those of the data set.
        empty: share of empty answers, which are the right ones.
        hits: mean number of memories returned.
    """

    ranking: str
    embedder: str
    kind: str
    empty: Estimate
    hits: float


@dataclass(frozen=True, slots=True)
class Times:
    """Median milliseconds of a contender by step; all contenders share `embed` and `gather`."""

    ranking: str
    embedder: str
    steps: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Comparison:
    """The figures, with the data and settings of the measurement.

    Attributes:
        conversations: number of stores, each with one conversation.
        n: questions that the metrics are means of.
        without_evidence: questions left out, whose evidence is not stored.
        categories: of the n questions -> their meaning.
        metric: of the differences.
        limit: memories that each contender was asked for.
        min_score: None: each profile's own.
        naming: what happened to names in foreign questions; None without any.
    """

    files: tuple[str, ...]
    formats: tuple[str, ...]
    conversations: int
    memories: int
    n: int
    without_evidence: int
    granularity: Granularity
    categories: Mapping[str, str]
    metric: str
    limit: int
    min_score: float | None
    resample: Resample
    seed: int
    naming: str | None
    scores: tuple[Score, ...]
    differences: tuple[Difference, ...]
    silences: tuple[Silence, ...]
    times: tuple[Times, ...]

    @property
    def rankings(self) -> list[str]:
        """The contenders, in the given order."""
        return list(dict.fromkeys(one.ranking for one in self.times))

    @property
    def embedders(self) -> list[str]:
        """The embedders, in the given order."""
        return list(dict.fromkeys(one.embedder for one in self.times))

    @property
    def metrics(self) -> list[str]:
        """The names of the metrics."""
        return list(dict.fromkeys(score.metric for score in self.scores))

    def score(self, ranking: str, embedder: str, metric: str, category: str = ALL) -> Estimate | None:
        """Return a figure; None if it was not measured."""
        key = (ranking, embedder, metric, category)
        found = (s.estimate for s in self.scores if (s.ranking, s.embedder, s.metric, s.category) == key)
        return next(found, None)


@dataclass(frozen=True, slots=True)
class Wanted:
    """What to compute.

    Attributes:
        ks: cut-offs of recall, all and hit.
        metric: of the differences.
        compare: pairs of contenders; empty: the first with each other one.
        resample: what the bootstrap draws.
    """

    ks: tuple[int, ...] = KS
    metric: Metric = Metric("recall", DEPTH)
    compare: tuple[tuple[str, str], ...] = ()
    resample: Resample = "questions"

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """The metrics of each category."""
        own = [Metric(name, k) for name in ("recall", "all", "hit") for k in self.ks]
        last = [Metric("mrr", max(DEPTH, *self.ks)), Metric("ndcg", DEPTH)]
        return tuple(dict.fromkeys([*own, *last, self.metric]))

    @property
    def deepest(self) -> int:
        """The largest cut-off."""
        return max(metric.k for metric in self.metrics)


def pair(written: str) -> tuple[str, str]:
    """Parse two contenders such as `salience:bm25`.

    Raises:
        InputError: another form.
    """
    first, colon, second = written.partition(":")
    if not (first and colon and second):
        raise InputError("compare", written, "Give two rankings, such as salience:bm25.")
    return first, second


def compare(read: Sequence[Source], plan: Plan, wanted: Wanted, outcomes: Sequence[Outcome]) -> Comparison:
    """Return the figures of one outcome per embedder.

    Raises:
        InputError: no question has stored evidence, or a pair names an unknown contender.
    """
    first = outcomes[0]
    counted = [one for one in first.results if one.total]
    if not counted:
        value, problem = Words("no question with evidence that is stored"), "has no question whose evidence is stored"
        raise InputError("path", value, "Give other files or categories, or another granularity.", problem)
    names = {key: value for source in read for key, value in datasets.CATEGORIES.get(source.format, {}).items()}
    return Comparison(
        files=tuple(source.path.name for source in read),
        formats=tuple(dict.fromkeys(datasets.FORMATS[source.format] for source in read)),
        conversations=sum(len(source.conversations) for source in read),
        memories=first.memories,
        n=len(counted),
        without_evidence=first.without_evidence,
        granularity=plan.granularity,
        categories={category: names.get(category, "") for category in sorted({one.category for one in counted})},
        metric=str(wanted.metric),
        limit=plan.terms.limit,
        min_score=plan.terms.min_score,
        resample=wanted.resample,
        seed=plan.seed,
        naming=plan.naming if plan.foreign else None,
        scores=tuple(score for outcome in outcomes for score in _scores(outcome, plan, wanted)),
        differences=tuple(found for outcome in outcomes for found in _differences(outcome, plan, wanted)),
        silences=tuple(found for outcome in outcomes for found in _silences(outcome, plan, wanted)),
        times=tuple(_times(outcome, label) for outcome in outcomes for label in plan.terms.contenders),
    )


def values(results: Sequence[Result], label: str, metric: Metric) -> list[float]:
    """Return the metric of each question for one contender."""
    return [metric.of(one.found[label].places, one.total) for one in results]


def _groups(results: Sequence[Result], wanted: Wanted) -> list[str] | None:
    return [one.conversation for one in results] if wanted.resample == "conversations" else None


def _scores(outcome: Outcome, plan: Plan, wanted: Wanted) -> Iterator[Score]:
    counted = [one for one in outcome.results if one.total]
    rows = {ALL: counted}
    for one in sorted(counted, key=lambda one: one.category):
        rows.setdefault(one.category, []).append(one)
    for label in plan.terms.contenders:
        for category, results in rows.items():
            found = [one.found[label] for one in results]
            columns: dict[str, list[float]] = {str(one): values(results, label, one) for one in wanted.metrics}
            columns["precision"] = [precision(len(one.places), one.returned) for one in found]
            columns["hits"] = [one.returned for one in found]
            for name, column in columns.items():
                mean = estimate(column, plan.seed, _groups(results, wanted))
                yield Score(label, outcome.embedder, category, name, mean)


def _differences(outcome: Outcome, plan: Plan, wanted: Wanted) -> Iterator[Difference]:
    counted = [one for one in outcome.results if one.total]
    labels = list(plan.terms.contenders)
    for compared in wanted.compare or [(labels[0], other) for other in labels[1:]]:
        for label in compared:
            if label not in plan.terms.contenders:
                raise InputError("compare", label, f"Name two of: {', '.join(labels)}.")
        first, second = (values(counted, label, wanted.metric) for label in compared)
        mean = paired(first, second, plan.seed, _groups(counted, wanted))
        yield Difference(*compared, outcome.embedder, str(wanted.metric), mean)


def _silences(outcome: Outcome, plan: Plan, wanted: Wanted) -> Iterator[Silence]:
    for kind in (FOREIGN, UNANSWERABLE):
        is_foreign = kind == FOREIGN
        results = [one for one in outcome.results if not one.answerable and (one.category == FOREIGN) == is_foreign]
        for label in plan.terms.contenders if results else ():
            returned = [one.found[label].returned for one in results]
            empty = estimate([float(count == 0) for count in returned], plan.seed, _groups(results, wanted))
            yield Silence(label, outcome.embedder, kind, empty, sum(returned) / len(returned))


def _times(outcome: Outcome, label: str) -> Times:
    laps = [one.found[label].laps for one in outcome.results]
    medians = {step: statistics.median(lap[step] for lap in laps) for step in (laps[0] if laps else ())}
    return Times(label, outcome.embedder, medians)


def as_record(found: Comparison) -> dict[str, Any]:
    """Return the figures for JSON, with scores nested as embedder -> ranking -> category -> metric."""
    nested: dict[str, Any] = {}
    for score in found.scores:
        row = nested.setdefault(score.embedder, {}).setdefault(score.ranking, {}).setdefault(score.category, {})
        row[score.metric] = score.estimate
    return {item.name: getattr(found, item.name) for item in fields(Comparison)} | {"scores": nested}
