"""The story of several recalls at once: all are heard, embedded together, answered one by one, and counted last."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain

from salience.batch import Vectors32
from salience.ports import Need, Services
from salience.rank.profile import Profile
from salience.recall import (
    HIT,
    LOWER,
    Stopwatch,
    allowance,
    answered,
    at_an_instant,
    counted,
    deeper,
    directed,
    embedded_within,
    empty,
    heard,
    needed,
)
from salience.records import Query, Recall
from salience.steps import AnswerLimit


@dataclass(frozen=True, slots=True)
class _Heard:
    """A query with what it needs, the texts to embed for it, and the time that it takes."""

    query: Query
    need: Need
    texts: tuple[str, ...]
    watch: Stopwatch


def recall_many(services: Services, profile: Profile, queries: Sequence[Query]) -> list[Recall]:
    """Return what `recall` answers to each query, in their order: as if it alone were asked, at one instant for all.

    None of them counts before all are answered.

    Args:
        services: the ports, as for `recall`.
        profile: how to rank.
        queries: of one caller; they differ in their text alone, and their deadline holds for all of them together.

    Raises:
        InputError, LimitError, StoreError: as `recall`; the limit of an answer holds for all of them together.
    """
    if not queries:
        return []
    now = at_an_instant(services, queries[0]).now
    asking = [_heard(services, profile, replace(query, now=now)) for query in queries]
    vectors = _embedded(services, queries[0], [one.texts for one in asking])
    for one in asking:
        one.watch.lap("embed")
    size, answers = AnswerLimit(services, LOWER, HIT), list[Recall]()
    for one, found in zip(asking, vectors, strict=True):
        answers.append(_answered(services, profile, one, found))
        size.add(hit.memory for hit in answers[-1])
    counts = [_counted(services, profile, one, answer) for one, answer in zip(asking, answers, strict=True)]
    elsewhere = next((empty(services, queries[0], found).out_of_scope for found in counts if not found.hits), ())
    return [found if found.hits else replace(found, out_of_scope=elsewhere) for found in counts]


def _heard(services: Services, profile: Profile, query: Query) -> _Heard:
    watch = Stopwatch()
    need, texts = heard(services, profile, query, deeper(services, needed(services, profile, query)))
    watch.lap("need")
    return _Heard(query, need, texts, watch)


def _embedded(services: Services, asked: Query, wanted: Sequence[tuple[str, ...]]) -> list[Vectors32 | None]:
    """Return the vectors of each query's texts; None of those for which the embedder fails, or the time is over."""
    watch, distinct = Stopwatch(), tuple(dict.fromkeys(chain.from_iterable(wanted)))
    seconds = allowance(services, asked, len(distinct))
    found = embedded_within(services, seconds, distinct)
    if found is not None:
        rows = {text: row for row, text in enumerate(distinct)}
        return [found[[rows[text] for text in texts]] for texts in wanted]
    if len(wanted) == 1:
        return [None]
    # one of them may be what failed them all
    return [embedded_within(services, _left(seconds, watch), texts) for texts in wanted]


def _left(seconds: float | None, watch: Stopwatch) -> float | None:
    return None if seconds is None else seconds - watch.seconds()


def _answered(services: Services, profile: Profile, one: _Heard, vectors: Vectors32 | None) -> Recall:
    one.watch.lap("wait")
    return answered(services, profile, one.query, directed(one.need, vectors), one.watch)


def _counted(services: Services, profile: Profile, one: _Heard, found: Recall) -> Recall:
    one.watch.lap("wait")
    return counted(services, profile, one.query, found, one.watch)
