"""The scores of all candidates of a recall: how many each stage drops, and the best memories that are not returned."""

from __future__ import annotations

from typing import Final

import numpy as np

from salience.explain import trace_recall
from salience.explain.trace import OUTRANKED, RETURNED, TRIM, verdicts
from salience.ports import Services
from salience.rank.profile import Profile
from salience.rank.stages import SCORE
from salience.records import Missed, Query, Scores

BINS: Final = 24
"""Bins of the histogram."""
MISSED: Final = 8
"""Number of memories to return that are not in the answer."""


def scores(services: Services, profile: Profile, query: Query) -> Scores:
    """Return the scores of the recall of `query`; it changes nothing."""
    trace, _ = trace_recall(services, profile, query)
    found, ranked = verdicts(trace), trace.ranked
    names, counts = np.unique(found.stage.astype(str), return_counts=True)
    by_stage = dict(zip(names.tolist(), counts.tolist(), strict=True))
    order = [OUTRANKED if name == TRIM else name for name in dict.fromkeys(profile.stages)]
    values = found.score[trace.states[profile.stages.index(SCORE) + 1].rows]
    high = float(values.max(initial=0.0))
    outside = np.flatnonzero(found.stage != RETURNED)
    best = outside[np.argsort(-found.score[outside], kind="stable")[:MISSED]].tolist()
    ids = [str(trace.batch.ids[row]) for row in best]
    memories = {one.id: one for one in services.store.fetch(query.scope, ids, as_of=query.as_of)} if ids else {}
    missed = tuple(
        Missed(memories[one], str(found.stage[row]), float(found.score[row]), int(found.rank[row]) or None)
        for one, row in zip(ids, best, strict=True)
        if one in memories
    )
    return Scores(
        candidates=len(trace.batch),
        dropped={name: by_stage[name] for name in order if name in by_stage},
        histogram=tuple(np.histogram(values.clip(0.0), BINS, (0.0, high or 1.0))[0].tolist()),
        high=high,
        cut=float(ranked.scores[ranked.rows].min()) if len(ranked.rows) else None,
        missed=missed,
    )
