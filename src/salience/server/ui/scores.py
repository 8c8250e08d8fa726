"""The scores of all candidates of a recall: where each stage leaves how many, and the best that are not returned."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from salience import keywords
from salience.engine import Engine
from salience.explain import trace_recall
from salience.explain.trace import OUTRANKED, RETURNED, verdicts
from salience.rank import profiles
from salience.rank.stages import SCORE
from salience.records import Filter, Memory, Query
from salience.records.query import CONDITIONS

MISSED: Final = 8
"""Number of memories to show that are not returned."""


@dataclass(frozen=True, slots=True)
class Missed:
    """A memory that is not returned: its score, the stage that dropped it, and its rank, if it was ranked."""

    memory: Memory
    stage: str
    score: float
    rank: int | None


@dataclass(frozen=True, slots=True)
class Scores:
    """The scores of a recall.

    Attributes:
        candidates: number of ranked memories.
        dropped: stage -> number of memories that it dropped, in the order of the stages.
        values: the scores of the memories that reached the scoring.
        cut: the least score in the answer; None for an empty answer.
        missed: the best memories that are not returned.
    """

    candidates: int
    dropped: dict[str, int]
    values: list[float]
    cut: float | None
    missed: tuple[Missed, ...]


def scores(
    engine: Engine, *, query: str, profile: Any = None, weights: Any = None, dry_run: bool = True, **given: Any
) -> Scores:
    """Return the scores of the recall with these arguments; it changes nothing."""
    services = engine.services
    conditions = {name: given.pop(name) for name in CONDITIONS if name in given}
    where = {name: given.pop(name) for name in keywords.NAMES if name in given}
    scope, level = keywords.scope(services.tenant, where)
    chosen = (engine.profile if profile is None else profiles.load(profile)).with_weights(weights or {})
    request = Query(text=query, scope=scope, filter=Filter(level=level, **conditions), dry_run=dry_run, **given)
    trace, _ = trace_recall(services, chosen, request)
    found, ranked = verdicts(trace), trace.ranked
    names, counts = np.unique(found.stage.astype(str), return_counts=True)
    by_stage = dict(zip(names.tolist(), counts.tolist(), strict=True))
    order = [OUTRANKED if name == "trim" else name for name in dict.fromkeys(chosen.stages)]
    scored = np.zeros(len(trace.batch), bool)
    scored[trace.states[chosen.stages.index(SCORE) + 1].rows] = True
    outside = np.flatnonzero(found.stage != RETURNED)
    best = outside[np.argsort(-found.score[outside], kind="stable")[:MISSED]].tolist()
    ids = [str(trace.batch.ids[row]) for row in best]
    memories = {one.id: one for one in services.store.fetch(scope, ids, as_of=request.as_of)} if ids else {}
    missed = tuple(
        Missed(memories[one], str(found.stage[row]), float(found.score[row]), int(found.rank[row]) or None)
        for one, row in zip(ids, best, strict=True)
        if one in memories
    )
    return Scores(
        candidates=len(trace.batch),
        dropped={name: by_stage[name] for name in order if name in by_stage},
        values=found.score[scored].tolist(),
        cut=float(ranked.scores[ranked.rows].min()) if len(ranked.rows) else None,
        missed=missed,
    )
