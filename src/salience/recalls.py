"""The story of several recalls at once: all are heard, embedded together, answered one by one, and counted last."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain

from salience.batch import Vectors32
from salience.derived import AnswerSize
from salience.ports import Need, World
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


@dataclass(frozen=True, slots=True)
class _Heard:
    """A query with what it needs, the texts to embed for it, and the time that it takes."""

    query: Query
    need: Need
    texts: tuple[str, ...]
    watch: Stopwatch


def recall_many(world: World, profile: Profile, queries: Sequence[Query]) -> list[Recall]:
    """Return what `recall` answers to each query, in their order: as if it alone were asked, at one instant for all.

    None of them counts before all are answered.

    Args:
        world: the ports, as for `recall`.
        profile: how to rank.
        queries: of one caller; they differ in their text alone, and their deadline holds for all of them together.

    Raises:
        InputError, LimitError, StoreError: as `recall`; the limit of an answer holds for all of them together.
    """
    if not queries:
        return []
    now = at_an_instant(world, queries[0]).now
    asking = [_heard(world, profile, replace(query, now=now)) for query in queries]
    vectors = _embedded(world, queries[0], [one.texts for one in asking])
    for one in asking:
        one.watch.lap("embed")
    size, answers = AnswerSize(world, LOWER, HIT), list[Recall]()
    for one, found in zip(asking, vectors, strict=True):
        answers.append(_answered(world, profile, one, found))
        size.add(hit.memory for hit in answers[-1])
    counts = [_counted(world, profile, one, answer) for one, answer in zip(asking, answers, strict=True)]
    elsewhere = next((empty(world, queries[0], found).out_of_scope for found in counts if not found.hits), ())
    return [found if found.hits else replace(found, out_of_scope=elsewhere) for found in counts]


def _heard(world: World, profile: Profile, query: Query) -> _Heard:
    watch = Stopwatch()
    need, texts = heard(world, profile, query, deeper(world, needed(world, profile, query)))
    watch.lap("need")
    return _Heard(query, need, texts, watch)


def _embedded(world: World, asked: Query, wanted: Sequence[tuple[str, ...]]) -> list[Vectors32 | None]:
    """Return the vectors of each query's texts; None of those for which the embedder fails, or the time is over."""
    watch, distinct = Stopwatch(), tuple(dict.fromkeys(chain.from_iterable(wanted)))
    seconds = allowance(world, asked, len(distinct))
    found = embedded_within(world, seconds, distinct)
    if found is not None:
        rows = {text: row for row, text in enumerate(distinct)}
        return [found[[rows[text] for text in texts]] for texts in wanted]
    if len(wanted) == 1:
        return [None]
    # one of them may be what failed them all
    return [embedded_within(world, _left(seconds, watch), texts) for texts in wanted]


def _left(seconds: float | None, watch: Stopwatch) -> float | None:
    return None if seconds is None else seconds - watch.seconds()


def _answered(world: World, profile: Profile, one: _Heard, vectors: Vectors32 | None) -> Recall:
    one.watch.lap("wait")
    return answered(world, profile, one.query, directed(one.need, vectors), one.watch)


def _counted(world: World, profile: Profile, one: _Heard, found: Recall) -> Recall:
    one.watch.lap("wait")
    return counted(world, profile, one.query, found, one.watch)
