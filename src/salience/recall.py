"""The story of recall: need, embed, gather, rank, fetch, shape, touch."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as OutOfTime
from dataclasses import replace

from salience import checks
from salience.batch import Batch, Vectors32, unit_vectors
from salience.errors import EmbedderError
from salience.extract import intent
from salience.ports import Need, Touch, World
from salience.rank.fuse import lexical_similarity
from salience.rank.profile import Profile
from salience.rank.run import Ranked, detail, rank, via
from salience.records import Hit, Query, Recall
from salience.text import phrases


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
        EmbedderError: the query could not be embedded, and no deadline allows an answer without.
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
    if not query.dry_run:
        touch(world, profile, query, hits)
        watch.lap("touch")
    degraded = () if vector is not None else ("embedding",)
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
    """Return the query's unit vector, float32[d]; None where a deadline passed or the provider failed within one."""

    def embed() -> Vectors32:
        vectors = world.embedder.embed([query.text])
        unit: Vectors32 = unit_vectors(vectors, world.embedder.name, 1, world.embedder.dimension)[0]
        return unit

    if query.deadline_ms is None:
        return embed()
    try:
        return within(query.deadline_ms / 1e3, embed)
    except (EmbedderError, OutOfTime):
        return None


def within(seconds: float, work: Callable[[], Vectors32]) -> Vectors32:
    """Return what `work` returns if it does so within `seconds`; else raise and let it end by itself."""
    pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="salience-deadline")
    try:
        future: Future[Vectors32] = pool.submit(work)
        return future.result(timeout=seconds)
    finally:
        pool.shutdown(wait=False)


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


def touch(world: World, profile: Profile, query: Query, hits: Sequence[Hit]) -> None:
    """Record the recall on the memories that it returned, as the profile's `[on_recall]` says."""
    rule = profile.on_recall
    if not rule or not (hits or (rule.activate and query.scope.session_key)):
        return
    world.store.apply(
        [
            Touch(
                scope=query.scope,
                ids=tuple(hit.memory.id for hit in hits),
                accessed_at=(query.now or world.clock()) if rule.accessed_at else None,
                access_count=rule.access_count,
                importance=rule.importance,
                activate=rule.activate,
            )
        ]
    )
