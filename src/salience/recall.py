"""The story of recall: need, embed, gather, rank, fetch, shape, touch."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as OutOfTime
from dataclasses import replace
from typing import Final

from salience import checks
from salience.batch import Batch, Vectors32
from salience.derived import embed
from salience.errors import EmbedderError, StoreError
from salience.extract import intent
from salience.ports import Need, Touch, World
from salience.rank.fuse import lexical_similarity
from salience.rank.profile import Profile
from salience.rank.run import Ranked, detail, rank, via
from salience.records import Hit, Query, Recall
from salience.text import phrases

LATE: Final = 8
"""Embeddings of queries that may go on after their deadline."""
_late: Final = threading.BoundedSemaphore(LATE)


class Stopwatch:
    """Milliseconds by step: each call of `lap` closes the step that it names."""

    def __init__(self) -> None:
        self._last = time.perf_counter()
        self.laps: dict[str, float] = {}

    def lap(self, step: str) -> None:
        """Note the time since the last lap as that of `step`."""
        now = time.perf_counter()
        self.laps[step] = (now - self._last) * 1e3
        self._last = now


def recall(world: World, profile: Profile, query: Query) -> Recall:
    """Return the memories that answer `query`, best first, as `profile` ranks them.

    Raises:
        InputError: a limit over the profile's, or a query that is too long.
        StoreError: the store failed.
    """
    watch = Stopwatch()
    query = replace(query, now=query.now or world.clock())
    need = needed(world, profile, query)
    watch.lap("need")
    vector = embedded(world, query)
    watch.lap("embed")
    batch = gathered(world, replace(need, vector=vector), query.text)
    watch.lap("gather")
    ranked = rank(profile, batch, need)
    watch.lap("rank")
    hits = shaped(world, profile, need, batch, ranked)
    watch.lap("fetch")
    degraded: tuple[str, ...] = () if vector is not None else ("embedding",)
    if not query.dry_run:
        degraded += touch(world, profile, query, hits)
        watch.lap("touch")
    return Recall(hits, profile.name, need.intent, batch.complete, degraded, watch.laps)


def needed(world: World, profile: Profile, query: Query) -> Need:
    """Return what the store has to bring and ranking has to know for `query` under `profile`."""
    checks.text("query", query.text, world.content_limit)
    limit = profile.limit if query.limit is None else checks.whole("limit", query.limit, 0, profile.max_limit)
    return Need(
        scope=query.scope,
        now=query.now or world.clock(),
        filter=query.filter,
        columns=profile.columns,
        terms=tuple(dict.fromkeys(world.tokeniser.terms(query.text))) if profile.brings("terms") else (),
        names=phrases(query.text) if profile.brings("entities") else (),
        entities=profile.brings("entities"),
        vectors=profile.brings("vectors"),
        candidates=profile.candidate_count(limit),
        limit=limit,
        min_score=profile.min_score if query.min_score is None else query.min_score,
        intent=intent.detect(query.text, {name: rule.words for name, rule in profile.intents.items()}),
        calibration=world.calibration,
        calibrated=profile.threshold_scale == "calibrated",
    )


def embedded(world: World, query: Query) -> Vectors32 | None:
    """Return the query's unit vector, float32[d]; None where the embedder fails or the deadline passes before."""
    try:
        if query.deadline_ms is None:
            return first(embed(world, [query.text]))
        return within(query.deadline_ms / 1e3, lambda: first(embed(world, [query.text])))
    except (EmbedderError, OutOfTime):
        return None


def within(seconds: float, work: Callable[[], Vectors32]) -> Vectors32:
    """Return what `work` returns if it does so within `seconds`.

    Work that is late goes on by itself, at most `LATE` of it at a time, and keeps no process from ending.

    Raises:
        TimeoutError: it was not done in time, or too much is late already.
    """
    if not _late.acquire(blocking=False):
        raise OutOfTime
    done: Future[Vectors32] = Future()

    def run() -> None:
        try:
            done.set_result(work())
        except BaseException as error:
            done.set_exception(error)
        finally:
            _late.release()

    threading.Thread(target=run, name="salience-deadline", daemon=True).start()
    return done.result(timeout=seconds)


def first(vectors: Vectors32) -> Vectors32:
    """Return float32[d], the first row of float32[n, d]."""
    row: Vectors32 = vectors[0]
    return row


def gathered(world: World, need: Need, text: str) -> Batch:
    """Return the candidates; without a query vector, the lexical channel stands in for the cosine."""
    if need.vector is not None:
        return world.store.gather(need)
    terms = tuple(dict.fromkeys(world.tokeniser.terms(text)))
    batch = world.store.gather(replace(need, terms=terms, candidates=None))
    return batch.with_columns(cosine=lexical_similarity(batch))


def shaped(world: World, profile: Profile, need: Need, batch: Batch, ranked: Ranked) -> tuple[Hit, ...]:
    """Return the ranked rows as hits; a memory that went away meanwhile is left out."""
    ids = [str(batch.ids[row]) for row in ranked.rows]
    memories = {memory.id: memory for memory in world.store.fetch(need.scope, ids)}
    return tuple(
        Hit(
            memory=memories[found],
            score=float(ranked.scores[row]),
            score_detail=detail(profile, ranked, batch, row, need.intent.name),
            via=via(ranked, batch, row),
            absorbed=tuple(str(batch.ids[other]) for other in ranked.absorbed.get(row, ())),
        )
        for found, row in zip(ids, ranked.rows.tolist(), strict=True)
        if found in memories
    )


def touch(world: World, profile: Profile, query: Query, hits: Sequence[Hit]) -> tuple[str, ...]:
    """Record the recall on the memories that it returned, as the profile's `[on_recall]` says.

    Returns `("touch",)` if the store could not be written, which takes nothing from the answer; else `()`.
    """
    rule = profile.on_recall
    if not rule or not (hits or (rule.activate and query.scope.session_key)):
        return ()
    asked, clock = query.now or world.clock(), world.clock()
    change = Touch(
        scope=query.scope,
        ids=tuple(hit.memory.id for hit in hits),
        accessed_at=min(asked, clock) if rule.accessed_at else None,  # a question about the future is no access then
        access_count=rule.access_count,
        importance=rule.importance,
        activate=rule.activate,
    )
    try:
        world.store.apply([change])
    except StoreError:
        return ("touch",)
    return ()
