"""A question asked once and ranked under many profiles: one batch that holds what each of them needs.

It calls what `recall` is made of (`make_need`, `gather`, `rank`), so that it follows when that changes; a test
holds the ids against those that `Engine.recall` returns. A profile that embeds more than the question has a
batch of its own.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any, TypeVar

import numpy as np

from salience import recall as recalls
from salience.batch import Batch
from salience.evaluate.datasets import Question
from salience.evaluate.planting import Planted
from salience.ports import Need, Services
from salience.rank.profile import Profile
from salience.rank.run import rank
from salience.records import Query
from salience.steps import embed_each

Made = TypeVar("Made")


@dataclass(frozen=True, slots=True)
class Terms:
    """How questions are asked.

    Attributes:
        contenders: label -> profile.
        limit: memories to return of each, whatever the profile's own limits say.
        min_score: least score, on each profile's own scale; None for the profile's own.
    """

    contenders: Mapping[str, Profile]
    limit: int
    min_score: float | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Gathered:
    """What one profile knows of a question before it ranks.

    Attributes:
        need: what it has to know.
        batch: every visible memory, with what this and other profiles need.
        laps: milliseconds by step; `embed` and `gather` are those of all profiles that embed the same text.
    """

    need: Need
    batch: Batch
    laps: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Answer:
    """What a profile made of a question: ids of memories, best first, and milliseconds by step."""

    ids: tuple[str, ...]
    laps: Mapping[str, float]


def ask(planted: Planted, question: Question, terms: Terms) -> dict[str, Answer]:
    """Return label -> the answer of that profile."""
    found = gathered(planted, question, terms)
    return {label: _answer(profile, found[label]) for label, profile in terms.contenders.items()}


def gathered(planted: Planted, question: Question, terms: Terms) -> dict[str, Gathered]:
    """Return label -> what that profile knows of a question; the store is read once for each text that is embedded.

    Raises:
        EmbedderError: the embedder failed; a measure of what is left would be one of something else.
    """
    services = planted.services
    query = Query(
        text=question.question,
        scope=replace(question.scope, tenant=services.tenant),
        filter=question.filter,
        min_score=terms.min_score,
        now=question.now or planted.end,
        dry_run=True,
    )
    needs = {
        label: _timed(partial(_heard, services, profile, query, terms.limit))
        for label, profile in terms.contenders.items()
    }
    alike: dict[tuple[tuple[str, ...], ...], list[str]] = {}
    for label, ((need, texts), _) in needs.items():
        alike.setdefault((texts, need.speakers), []).append(label)
    found: dict[str, Gathered] = {}
    for (texts, _), labels in alike.items():
        vectors, embedding = _timed(partial(embed_each, services, texts))
        whole = union(needs[label][0][0] for label in labels)
        batch, gathering = _timed(partial(recalls.gather, services, recalls.with_vectors(whole, vectors), query.text))
        for label in labels:
            (need, _), lap = needs[label]
            laps = {"need": lap, "embed": embedding, "gather": gathering}
            found[label] = Gathered(recalls.with_vectors(need, vectors), batch, laps)
    return found


def _heard(services: Services, profile: Profile, query: Query, limit: int) -> tuple[Need, tuple[str, ...]]:
    """Return what a profile needs, and the texts that it embeds."""
    need, texts = recalls.make_need(services, profile, query, recalls.instant_of(services, query))
    return replace(need, limit=limit, depth=None, candidates=profile.candidate_count(limit)), texts


def _timed(work: Callable[[], Made]) -> tuple[Made, float]:
    """Return what `work` returns, and the milliseconds that it took."""
    start = time.perf_counter()
    made = work()
    return made, (time.perf_counter() - start) * 1e3


def union(needs: Iterable[Need]) -> Need:
    """Return the need of every visible memory, with each part that some of `needs` asks for.

    What is a set is united; a flag holds if it does anywhere; of the rest, the first that is given is taken, since the
    needs are of one query and do not differ in it.
    """
    whole, *others = needs
    for other in others:
        united = {item.name: _either(getattr(whole, item.name), getattr(other, item.name)) for item in fields(Need)}
        whole = replace(whole, **united)
    return replace(whole, candidates=None, reach=None)


def _either(one: Any, other: Any) -> Any:
    if isinstance(one, frozenset):
        return one | other
    return other if one is None or one is False or one == () else one


def ranked_ids(profile: Profile, batch: Batch, need: Need) -> tuple[str, ...]:
    """Return the ids of the rows that `profile` returns, best first."""
    held = narrowed(batch, need)
    return tuple(str(held.ids[row]) for row in rank(profile, held, need).rows)


def narrowed(batch: Batch, need: Need) -> Batch:
    """Return the part of a whole batch that a store would have brought for a need of the nearest memories alone.

    The store's own function picks them, so that ties fall as they do there.
    """
    if need.candidates is None or need.candidates >= len(batch):
        return batch
    picked = np.sort(np.argsort(-batch["cosine"], kind="stable")[: need.candidates])
    beyond = float(np.delete(batch["cosine"], picked).max(initial=-1.0))
    return replace(batch.take(picked), complete=False, beyond=beyond)


def _answer(profile: Profile, found: Gathered) -> Answer:
    ids, lap = _timed(lambda: ranked_ids(profile, found.batch, found.need))
    return Answer(ids, {**found.laps, "rank": lap})
