"""The story of recall: need, embed, gather, rank, fetch, shape, rerank where one is chosen, touch."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from functools import cache, partial
from types import ModuleType
from typing import Final

import numpy as np

from salience.batch import Batch, Floats, Vectors32
from salience.deadline import OutOfTime, places, within
from salience.errors import EmbedderError, InputError, MovedError, RerankerError, StoreError
from salience.extract import intent, voice
from salience.ports import Need, Reranker, Services, Touch
from salience.rank.bound import exact, provable, pruning, starved
from salience.rank.profile import Profile
from salience.rank.run import details, rank, weak
from salience.rank.signals import lexical_cosines
from salience.rank.stages import State
from salience.records import PERIOD, Hit, Memory, Query, Recall, TimeCue, checks
from salience.steps import AnswerLimit, embed_each, embed_timeout, out_of_scope, rerank_scores
from salience.text import phrases

NARROWEST: Final = 100
"""How many of the nearest, and of those that hold rare terms, a store is asked for at first."""
PER_HIT: Final = 4
"""How many at least for each memory that is wanted."""
WIDEST: Final = 1600
"""How many at most."""
WIDER: Final = 4
"""How many times as many it is asked for where those were too few."""
SPARING: Final = 4
"""How many times as many of the best a store keeps at most before it is asked for all."""
FETCHED: Final = 100
"""Memories that are read at a time, so that an answer over its limit is not read to its end."""
HIT: Final = 1600
"""Size of a hit without what its memory holds, bytes."""
LOWER: Final = "Lower limit, or ask fewer questions at once."
_late: Final = places()
_late_rerankings: Final = places()


class Stopwatch:
    """Milliseconds by step: each call of `lap` closes the step that it names, which may come again."""

    def __init__(self) -> None:
        self._last = time.perf_counter()
        self.laps: dict[str, float] = {}

    def lap(self, step: str) -> None:
        """Note the time since the last lap as that of `step`."""
        now = time.perf_counter()
        self.laps[step] = self.laps.get(step, 0.0) + (now - self._last) * 1e3
        self._last = now

    def seconds(self) -> float:
        """Return how long it is since the first step began, up to now."""
        return sum(self.laps.values()) / 1e3 + time.perf_counter() - self._last


def recall(services: Services, profile: Profile, query: Query) -> Recall:
    """Return the memories that answer `query`, best first, as `profile` ranks them.

    Raises:
        InputError: a limit over the profile's, or a query that is too long.
        LimitError: the answer is larger than `Services.answer_limit`.
        StoreError: the store failed.
    """
    watch = Stopwatch()
    query = at_an_instant(services, query)
    need, texts = heard(services, profile, query, deeper(services, needed(services, profile, query)))
    watch.lap("need")
    need = directed(need, embedded(services, query, texts))
    watch.lap("embed")
    found = counted(services, profile, query, answered(services, profile, query, need, watch), watch)
    return found if found.hits else empty(services, query, found)


def empty(services: Services, query: Query, found: Recall) -> Recall:
    """Return an answer without hits, with the places whose memories it left out; one of the past tells of none."""
    if query.as_of is not None or query.filter.level is not None:
        return found
    return replace(found, out_of_scope=out_of_scope(services, query.scope))


def answered(services: Services, profile: Profile, query: Query, need: Need, watch: Stopwatch) -> Recall:
    """Return the answer to a need that has the vectors of its query; nothing is counted yet."""
    need, batch, ranked = searched(services, profile, need, query.text, watch)
    hits = shaped(services, ranked)
    watch.lap("fetch")
    degraded: tuple[str, ...] = () if need.vector is not None else ("embedding",)
    by: str | None = None
    if services.reranker is not None and hits:
        hits, by = reranked(services.reranker, query, need.limit, hits, watch)
        degraded += () if by else ("rerank",)
        watch.lap("rerank")
    is_exact = exact(profile, batch, need, ranked)
    confident = any(not hit.weak for hit in hits)
    return Recall(hits, profile.name, need.intent, is_exact, degraded, watch.laps, by, confident)


def counted(services: Services, profile: Profile, query: Query, found: Recall, watch: Stopwatch) -> Recall:
    """Return the answer once its recall is recorded, as the profile says; a dry run, or one of the past, is not."""
    if query.dry_run or query.as_of is not None:
        return found
    degraded = touch(services, profile, query, found.hits)
    watch.lap("touch")  # which `found.timings` are
    return replace(found, degraded=(*found.degraded, *degraded)) if degraded else found


def at_an_instant(services: Services, query: Query) -> Query:
    """Return the query with the instant at which it is asked: its own, else that of the state it asks for, else now.

    Raises:
        InputError: a state of the future.
    """
    if query.now is not None and query.as_of is None:
        return query
    now = services.clock()
    if query.as_of is not None and query.as_of > now:
        remedy = "Give an instant of the past; leave it out for the present."
        at = query.as_of.isoformat()
        raise InputError("as_of", at, remedy, f"{at} is in the future")
    return query.replace(now=query.now or query.as_of or checks.instant("now", now))


def needed(services: Services, profile: Profile, query: Query) -> Need:
    """Return what the store has to bring and ranking has to know for `query` under `profile`."""
    checks.text("query", query.text, services.content_limit)
    limit = profile.limit if query.limit is None else checks.whole("limit", query.limit, 0, profile.max_limit)
    now = at_an_instant(services, query).now or services.clock()
    cue = timed(query.text, now) if profile.reads_time else None
    meant = intent.detect(query.text, {name: rule.words for name, rule in profile.intents.items()})
    terms = distinct_terms(services, query.text) if profile.brings("terms") else ()
    return Need(
        scope=query.scope,
        now=now,
        filter=query.filter,
        as_of=query.as_of,
        columns=profile.columns | {"embedded"},
        terms=terms,
        windows=profile.brings("windows"),
        names=phrases(query.text) if profile.brings("entities") else (),
        anchor=tuple(term for term in services.tokeniser.terms(cue.anchor) if term in terms) if cue else (),
        entities=profile.brings("entities"),
        vectors=profile.brings("vectors"),
        distinctions=profile.brings("distinctions"),
        candidates=profile.candidate_count(limit),
        reach=reach_for(limit),
        latest=profile.favours_latest,
        limit=limit,
        min_score=profile.min_score if query.min_score is None else query.min_score,
        intent=replace(meant, time=cue) if cue else meant,
        calibration=services.calibration,
        calibrated=profile.threshold_scale == "calibrated",
    )


def reach_for(count: int) -> int:
    """Return how far a store is to reach at first where the best `count` are wanted."""
    return max(NARROWEST, PER_HIT * count)


def timed(text: str, now: datetime) -> TimeCue | None:
    """Return when a query is about; None if it names no time."""
    found: TimeCue | None = _times().read(text, now)
    return found


@cache
def _times() -> ModuleType:
    from salience.extract import when  # it takes longer to load than a recall: only a profile that reads time waits

    return when


def heard(services: Services, profile: Profile, query: Query, need: Need) -> tuple[Need, tuple[str, ...]]:
    """Return the need that knows which speakers the query names, and the texts to embed: its own, and theirs.

    A speaker tells of "I" and not of a name, so that what somebody said is asked for in that one's voice, and all else
    as the query has it. Only speakers of memories that the caller sees are known; their names are no entities besides.
    """
    if not (profile.first_person or "speaker_named" in profile.columns):
        return at_a_time(profile, need, query.text, ()), (query.text,)
    names = need.names or phrases(query.text)
    speakers = voice.named(query.text, services.store.speakers(query.scope, names, as_of=query.as_of))
    known, own = voice.forms(speakers), query.text
    if spoken := (*known, *voice.roles(query.text)):
        need = need.replace(names=tuple(name for name in need.names if name not in known), speakers=spoken)
    if speakers and profile.first_person and services.tokeniser.language == voice.LANGUAGE:
        own = voice.first_person(query.text, speakers)
    need = at_a_time(profile, need, query.text, known)
    return need, (query.text,) if own == query.text else (query.text, own)


def at_a_time(profile: Profile, need: Need, text: str, speakers: Sequence[str]) -> Need:
    """Return the need with the intent `period`, where the profile knows it and the query asks about a time alone."""
    cue = need.intent.time
    if cue is None or PERIOD not in profile.intents or not _times().asks_only_time(text, cue, need.now, speakers):
        return need
    return need.replace(intent=replace(need.intent, name=PERIOD, words=cue.words))


def embedded(services: Services, query: Query, texts: Sequence[str]) -> Vectors32 | None:
    """Return unit vectors float32[len(texts), d]; None where the embedder fails or the deadline passes before."""
    return embedded_within(services, allowance(services, query, len(texts)), texts)


def allowance(services: Services, query: Query, texts: int = 1) -> float | None:
    """Return the seconds that the vectors of a query's texts are waited for; None: as long as it takes.

    Without a deadline a remote embedder is waited for no longer than a write waits for it.
    """
    return embed_timeout(services, texts) if query.deadline_ms is None else query.deadline_ms / 1e3


def embedded_within(services: Services, seconds: float | None, texts: Sequence[str]) -> Vectors32 | None:
    """Return unit vectors float32[len(texts), d]; None where the embedder fails or needs longer."""
    try:
        return (
            embed_each(services, texts)
            if seconds is None
            else within(seconds, partial(embed_each, services, texts), _late)
        )
    except (EmbedderError, OutOfTime):
        return None


def directed(need: Need, vectors: Vectors32 | None) -> Need:
    """Return the need with the vector of the query, and that of a named speaker's voice, if there are any."""
    if vectors is None:
        return undirected(need)
    return need.replace(vector=vectors[0], voice=vectors[1] if len(vectors) > 1 else None)


def undirected(need: Need) -> Need:
    """Return the need without a vector of the query; its words alone are to find the answer, and so reach far."""
    return need.replace(vector=None, voice=None, reach=need.reach and max(need.reach, WIDEST))


def searched(
    services: Services, profile: Profile, need: Need, text: str, watch: Stopwatch, spare: int = 1
) -> tuple[Need, Batch, State]:
    """Return the candidates, the need that they meet, and their ranking.

    A store that brings no more than the best, or no more than `need.reach`, is asked for more until none that is left
    out can be in the answer, as long as that can be shown at all; and while the answer lacks memories for no better
    reason than that others stand for those that were brought.

    Args:
        services: the ports.
        profile: how to rank.
        need: of the query.
        text: of the query.
        watch: notes how long the steps take.
        spare: how many times as many as are likely to do the store is to keep, where it brings the best alone; 0: it is
            to bring every candidate.
    """
    need = need.replace(pruning=pruning(profile, need, spare) if spare else None)
    need, batch = met(services, need, text)
    watch.lap("gather")
    ranked = rank(profile, batch, need)
    watch.lap("rank")
    if exact(profile, batch, need, ranked):
        return need, batch, ranked
    if batch.floor is not None:
        return searched(services, profile, need, text, watch, 0 if spare > SPARING else WIDER * spare)
    reach = WIDER * (need.reach or WIDEST)
    if reach > WIDEST or not (provable(profile, batch, need, ranked) or starved(profile, need, ranked)):
        return need, batch, ranked
    return searched(services, profile, need.replace(reach=reach), text, watch, spare)


def met(services: Services, need: Need, text: str) -> tuple[Need, Batch]:
    """Return the candidates, and the need that they meet: without vectors, if the store is another model's by now."""
    try:
        return need, gathered(services, need, text)
    except (MovedError, EmbedderError):  # the latter where the store's check of the model gets no answer
        need = undirected(need)
        return need, gathered(services, need, text)


def gathered(services: Services, need: Need, text: str) -> Batch:
    """Return the candidates; where a query or a memory has no vector, the lexical channels stand in for its cosines."""
    if "embedded" not in need.columns:
        need = need.replace(columns=need.columns | {"embedded"})
    if need.vector is None:
        batch = services.store.gather(need.replace(terms=distinct_terms(services, text), candidates=None))
        return batch.with_columns(**lexical_cosines(batch))
    batch = services.store.gather(need)
    if batch["embedded"].all():
        return batch
    if batch.floor is not None and batch.windows is None:  # the best by words is the measure, and may not be there
        return gathered(services, need.replace(pruning=None), text)
    batch = batch if need.terms else services.store.gather(need.replace(terms=distinct_terms(services, text)))
    stand_ins = {name: column for name, column in lexical_cosines(batch).items() if name in batch.columns}
    return batch.with_columns(
        **{name: np.where(batch["embedded"], batch[name], column) for name, column in stand_ins.items()}
    )


def distinct_terms(services: Services, text: str) -> tuple[str, ...]:
    """Return the terms of a text, each once, in order."""
    return tuple(dict.fromkeys(services.tokeniser.terms(text)))


def shaped(services: Services, ranked: State) -> tuple[Hit, ...]:
    """Return the ranked rows as hits; a memory that went away meanwhile is left out.

    Raises:
        LimitError: they are more than one answer may hold.
    """
    batch, need = ranked.batch, ranked.need
    ids: list[str] = batch.ids[ranked.rows].tolist()
    size, memories = AnswerLimit(services, LOWER, HIT), dict[str, Memory]()
    for first in range(0, len(ids), FETCHED):
        fetched = services.store.fetch(need.scope, ids[first : first + FETCHED], as_of=need.as_of)
        size.add(fetched)
        memories |= {memory.id: memory for memory in fetched}
    scores = details(ranked, ranked.rows)
    marks = weak(ranked)
    return tuple(
        Hit(memories[found], score.final, score, score.via, _ids(batch, ranked.absorbed.get(row, ())), weak=is_weak)
        for found, row, score, is_weak in zip(ids, ranked.rows.tolist(), scores, marks, strict=True)
        if found in memories
    )


def _ids(batch: Batch, rows: Sequence[int]) -> tuple[str, ...]:
    return tuple(batch.ids[list(rows)].tolist()) if rows else ()


def deeper(services: Services, need: Need) -> Need:
    """Return the need that has ranking return as many memories as the reranker, if there is one, is to read."""
    if services.reranker is None or not need.limit:
        return need
    depth = max(need.limit, services.rerank_top)
    return need.replace(depth=depth, reach=reach_for(depth))


def reranked(
    reranker: Reranker, query: Query, limit: int, hits: tuple[Hit, ...], watch: Stopwatch
) -> tuple[tuple[Hit, ...], str | None]:
    """Return the best `limit` hits by the reranker's score, ties in their former order, and the reranker's name.

    Where it fails, or the deadline passes before, the hits stand in their former order, and there is no name.
    """
    try:
        scores = reranking(reranker, query, hits, watch)
    except (RerankerError, OutOfTime):
        return hits[:limit], None
    best = np.argsort(-scores, kind="stable")[:limit]
    return tuple(replace(hits[place], rerank=float(scores[place])) for place in best.tolist()), reranker.name


def reranking(reranker: Reranker, query: Query, hits: Sequence[Hit], watch: Stopwatch) -> Floats:
    """Return float64[len(hits)], how well each answers the query by the reranker; a turn is read with its speaker.

    Raises:
        RerankerError: it failed, or gave no number for each.
        TimeoutError: it was late; the deadline counts from the start of the recall.
    """
    texts = [spoken(hit.memory) for hit in hits]
    if query.deadline_ms is None:
        return rerank_scores(reranker, query.text, texts)
    left = query.deadline_ms / 1e3 - watch.seconds()
    return within(left, lambda: rerank_scores(reranker, query.text, texts), _late_rerankings)


def spoken(memory: Memory) -> str:
    """Return a memory as a person would read it out: a turn after the name of who said it."""
    return f"{memory.speaker}: {memory.content}" if memory.speaker else memory.content


def touch(services: Services, profile: Profile, query: Query, hits: Sequence[Hit]) -> tuple[str, ...]:
    """Record the recall on the memories that it returned, as the profile's `[on_recall]` says.

    Returns `("touch",)` if what recalls have touched could not be written, this one's or that of earlier ones, which
    takes nothing from the answer; else `()`.
    """
    rule = profile.on_recall
    if not rule or not (hits or (rule.activate and query.scope.session_key)):
        return ()
    asked, clock = query.now or services.clock(), services.clock()
    change = Touch(
        scope=query.scope,
        ids=tuple(hit.memory.id for hit in hits),
        accessed_at=min(asked, clock) if rule.accessed_at else None,  # a question about the future is no access then
        access_count=rule.access_count,
        importance=rule.importance,
        activate=rule.activate,
        at=clock,
    )
    try:
        services.store.apply([change])
    except StoreError:
        return ("touch",)
    return ()
