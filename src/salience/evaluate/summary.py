"""What was found, summed up: means with their intervals, differences, answers where there are none, times."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Final, Literal

from salience.errors import InputError, Words
from salience.evaluate import datasets
from salience.evaluate.evaluation import FOREIGN, UNANSWERABLE, Asked, Granularity, Outcome, Plan, Source, medians
from salience.evaluate.metrics import Estimate, Metric, estimate, paired, precision

ALL: Final = "all"
"""The row of the questions of every category together."""
MRR: Final = "mrr"
DEPTH: Final = 10
"""How far down MRR and nDCG look."""
KS: Final = (1, 5, 10, 20)
Resample = Literal["questions", "conversations"]


@dataclass(frozen=True, slots=True)
class Score:
    """A contender's mean of one metric over the questions of a category."""

    ranking: str
    embedder: str
    category: str
    metric: str
    estimate: Estimate


@dataclass(frozen=True, slots=True)
class Difference:
    """How much better the first contender is than the second, on the same questions.

    Attributes:
        estimate: of first - second; the two are told apart where its interval leaves 0 out.
    """

    first: str
    second: str
    embedder: str
    metric: str
    estimate: Estimate

    @property
    def is_told(self) -> bool:
        """Whether the interval leaves 0 out."""
        return self.estimate.low > 0 or self.estimate.high < 0


@dataclass(frozen=True, slots=True)
class Silence:
    """What a contender returned where nothing answers the question.

    Attributes:
        kind: `foreign`, a question of another conversation; `unanswerable`, one that the data set calls so.
        empty: share of the answers that were empty, as they should be.
        hits: mean number of memories returned.
    """

    ranking: str
    embedder: str
    kind: str
    empty: Estimate
    hits: float


@dataclass(frozen=True, slots=True)
class Times:
    """Median milliseconds of a contender by step; `embed` and `gather` are shared by all contenders."""

    ranking: str
    embedder: str
    steps: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Measured:
    """What was measured, on what and how: enough to read every figure rightly.

    Attributes:
        files: names of the files or folders.
        formats: of these, each once.
        conversations, memories: how many stores, and memories in them.
        n: questions that the metrics are means of.
        without_evidence: questions left out, since their file names no evidence that is stored.
        granularity: `turn` or `session`.
        categories: those of the n questions, with what they mean.
        metric: the one that differences are of.
        limit: memories that each contender was asked for.
        min_score: least score; None for each profile's own.
        resample: what the intervals draw.
        seed: of all that is drawn.
        naming: what became of the names in the foreign questions; None without any.
        scores, differences, silences, times: the figures.
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
        """The contenders, in the order in which they were named."""
        return list(dict.fromkeys(one.ranking for one in self.times))

    @property
    def embedders(self) -> list[str]:
        """The embedders, in the order in which they were named."""
        return list(dict.fromkeys(one.embedder for one in self.times))

    @property
    def metrics(self) -> list[str]:
        """The names of the metrics, those that people read first first."""
        return list(dict.fromkeys(score.metric for score in self.scores))

    def score(self, ranking: str, embedder: str, metric: str, category: str = ALL) -> Estimate | None:
        """Return one figure; None where it was not measured."""
        key = (ranking, embedder, metric, category)
        found = (s.estimate for s in self.scores if (s.ranking, s.embedder, s.metric, s.category) == key)
        return next(found, None)


@dataclass(frozen=True, slots=True)
class Wanted:
    """What to compute.

    Attributes:
        ks: depths of recall, all and hit.
        metric: the one that differences are of.
        compare: pairs of contenders; empty for the first against each other one.
        resample: what the intervals draw.
    """

    ks: tuple[int, ...] = KS
    metric: Metric = Metric("recall", DEPTH)
    compare: tuple[tuple[str, str], ...] = ()
    resample: Resample = "questions"

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """The metrics of each category, those that people read first first."""
        own = [Metric(name, k) for name in ("recall", "all", "hit") for k in self.ks]
        last = [Metric(MRR, max(DEPTH, *self.ks)), Metric("ndcg", DEPTH)]
        return tuple(dict.fromkeys([*own, *last, self.metric]))

    @property
    def deepest(self) -> int:
        """How far down some metric looks."""
        return max(metric.k for metric in self.metrics)


def summed(read: Sequence[Source], plan: Plan, wanted: Wanted, outcomes: Sequence[Outcome]) -> Measured:
    """Return the figures of what was found with each embedder.

    Raises:
        InputError: no question has evidence that is stored; a contender to compare that is none.
    """
    first = outcomes[0]
    counted = [one for one in first.asked if one.total]
    if not counted:
        remedy = "Give other files or categories, or another granularity."
        raise InputError(
            "path",
            Words("no question with evidence that is stored"),
            remedy,
            "has no question whose evidence is stored",
        )
    present = sorted({one.category for one in counted})
    names = {key: value for source in read for key, value in datasets.CATEGORIES.get(source.format, {}).items()}
    return Measured(
        files=tuple(source.path.name for source in read),
        formats=tuple(dict.fromkeys(datasets.FORMATS[source.format] for source in read)),
        conversations=sum(len(source.conversations) for source in read),
        memories=first.memories,
        n=len(counted),
        without_evidence=first.without_evidence,
        granularity=plan.granularity,
        categories={category: names.get(category, "") for category in present},
        metric=str(wanted.metric),
        limit=plan.terms.limit,
        min_score=plan.terms.min_score,
        resample=wanted.resample,
        seed=plan.seed,
        naming=plan.naming if plan.foreign else None,
        scores=tuple(score for outcome in outcomes for score in _scores(outcome, plan, wanted)),
        differences=tuple(found for outcome in outcomes for found in _differences(outcome, plan, wanted)),
        silences=tuple(found for outcome in outcomes for found in _silences(outcome, plan, wanted)),
        times=tuple(
            Times(label, outcome.embedder, medians(outcome.asked, label))
            for outcome in outcomes
            for label in plan.terms.contenders
        ),
    )


def known_categories(read: Sequence[Source]) -> list[str]:
    """Return the categories of the questions, sorted."""
    return sorted(
        {question.category for source in read for held in source.conversations for question in held.questions}
    )


def values(asked: Sequence[Asked], label: str, metric: Metric) -> list[float]:
    """Return the metric of each question for one contender."""
    return [metric.of(one.found[label].places, one.total) for one in asked]


def _scores(outcome: Outcome, plan: Plan, wanted: Wanted) -> Iterator[Score]:
    counted = [one for one in outcome.asked if one.total]
    rows = {ALL: counted} | {name: [one for one in counted if one.category == name] for name in _categories(counted)}
    for label in plan.terms.contenders:
        for category, asked in rows.items():
            columns: dict[str, list[float]] = {str(metric): values(asked, label, metric) for metric in wanted.metrics}
            columns["precision"] = [precision(len(one.found[label].places), one.found[label].returned) for one in asked]
            columns["hits"] = [one.found[label].returned for one in asked]
            for name, column in columns.items():
                yield Score(
                    label, outcome.embedder, category, name, estimate(column, plan.seed, _groups(asked, wanted))
                )


def _categories(asked: Sequence[Asked]) -> list[str]:
    return sorted({one.category for one in asked})


def _groups(asked: Sequence[Asked], wanted: Wanted) -> list[str] | None:
    return [one.conversation for one in asked] if wanted.resample == "conversations" else None


def _differences(outcome: Outcome, plan: Plan, wanted: Wanted) -> Iterator[Difference]:
    counted = [one for one in outcome.asked if one.total]
    for pair in wanted.compare or _first_and_others(list(plan.terms.contenders)):
        for label in pair:
            if label not in plan.terms.contenders:
                raise InputError("compare", label, f"Name two of: {', '.join(plan.terms.contenders)}.")
        first, second = (values(counted, label, wanted.metric) for label in pair)
        found = paired(first, second, plan.seed, _groups(counted, wanted))
        yield Difference(*pair, outcome.embedder, str(wanted.metric), found)


def _first_and_others(labels: list[str]) -> list[tuple[str, str]]:
    return [(labels[0], other) for other in labels[1:]]


def _silences(outcome: Outcome, plan: Plan, wanted: Wanted) -> Iterator[Silence]:
    for kind in (FOREIGN, UNANSWERABLE):
        asked = [one for one in outcome.asked if not one.answerable and (one.category == FOREIGN) == (kind == FOREIGN)]
        for label in plan.terms.contenders if asked else ():
            returned = [one.found[label].returned for one in asked]
            empty = estimate([float(count == 0) for count in returned], plan.seed, _groups(asked, wanted))
            yield Silence(label, outcome.embedder, kind, empty, sum(returned) / len(returned))


def comparison(written: str) -> tuple[str, str]:
    """Return the two contenders of a text such as `salience:bm25`.

    Raises:
        InputError: something else.
    """
    first, colon, second = written.partition(":")
    if not (first and colon and second):
        raise InputError("compare", written, "Give two rankings, such as salience:bm25.")
    return first, second


def as_record(measured: Measured) -> dict[str, Any]:
    """Return the figures for JSON: the scores nested as embedder -> ranking -> category -> metric."""
    nested: dict[str, Any] = {}
    for score in measured.scores:
        row = nested.setdefault(score.embedder, {}).setdefault(score.ranking, {}).setdefault(score.category, {})
        row[score.metric] = score.estimate
    return {item.name: getattr(measured, item.name) for item in fields(Measured)} | {"scores": nested}
