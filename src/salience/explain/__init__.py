"""Explain: why a memory is, or is not, in the answer to a query; and the scores of all candidates.

`explain` repeats the recall without its side effects, and reads the outcome that the ranking records for every row.

```
trace             the ranking stage by stage, and the outcome for each row
texts             a note for each stage, a sentence for the stage that decided, and what put the first hit above
counterfactuals   the change that would put the memory first, or return it
profiles          profiles as data: their signals and stages, and how memories fade under them
```
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from typing import Any, Final

import numpy as np

from salience import recall as recalls
from salience.batch import Batch
from salience.errors import NotFoundError
from salience.explain import texts
from salience.explain.counterfactuals import Case, Change, counterfactual, effect
from salience.explain.trace import (
    CANDIDATES,
    FILTERED,
    FORGOTTEN,
    NOT_STORED,
    OUT_OF_SCOPE,
    OUTRANKED,
    REPLACED,
    RERANK,
    RETURNED,
    TRIM,
    Trace,
    every_candidate,
    row_of,
    verdicts,
)
from salience.extract.reading import Reading
from salience.ports import Need, Reranker, Services
from salience.rank.confidence import confidence_parts, confidences
from salience.rank.profile import Profile
from salience.rank.run import details
from salience.rank.signals import lexical_cosines
from salience.rank.stages import NOBODY, SCORE
from salience.records import (
    ANY,
    BOUNDS,
    NARROWING,
    Explanation,
    Filter,
    Memory,
    Missed,
    Query,
    Replacement,
    Scope,
    Scores,
    Waypoint,
    checks,
)
from salience.records.ids import short_id
from salience.relations import replaced_by
from salience.steps import AnswerLimit

BINS: Final = 24
"""Bins of the histogram of `scores`."""
MISSED: Final = 8
"""Memories that `scores` returns beside the answer."""


def explain(services: Services, profile: Profile, query: Query, id: str) -> Explanation:
    """Return why a memory, by its whole or short id, is or is not in the answer of `recall` to `query`.

    Raises:
        InputError: as `recall`.
        NotFoundError: no such memory, or it is not visible to the caller.
    """
    now = recalls.instant_of(services, query)
    query = replace(query, now=now, dry_run=True)
    recalls.read_query(services, profile, query, now)  # raises the same errors as recall, before any lookup
    target = find_target(services, query.scope, id, query.as_of)
    if query.as_of is not None and target.memory.changed_at > query.as_of:
        return explain_absent(profile, target.memory, NOT_STORED, texts.later_reason(target.memory))
    if target.memory.forgotten_at is not None:
        return explain_absent(profile, target.memory, FORGOTTEN, texts.forgotten_reason(target.memory))
    query = replace(query, scope=target.scope)
    trace, need = trace_recall(services, profile, query)
    found = explain_target(Question(services, query, target, need, trace.criteria.reading), trace)
    return replace(found, degraded=("embedding", *found.degraded)) if trace.criteria.lacks_embedding else found


def trace_recall(services: Services, profile: Profile, query: Query) -> tuple[Trace, Need]:
    """Return the ranking of the recall of `query`, over every candidate, and the request for them."""
    criteria = recalls.read_query(services, profile, query, recalls.instant_of(services, query))
    embedded = recalls.embed_query(services, query, criteria.reading.texts)
    criteria = recalls.with_vectors(services, profile, criteria, embedded)
    ranked, need = recalls.search(services, profile, query, criteria, recalls.Clock(), prunes=False)
    tokens = recalls.token_reader(services, query, ranked.criteria)
    return Trace.of(profile, replace(ranked.batch, late=None), ranked.criteria, tokens), need


@dataclass(frozen=True, slots=True)
class Target:
    """The memory to explain.

    Attributes:
        memory: the memory.
        scope: the caller's scope, with the memory's own value of each coordinate that hides it.
        hidden: coordinate that hides the memory -> the caller's value.
        own: the memory's project, user and agent, if they were used because the caller names none.
    """

    memory: Memory
    scope: Scope
    hidden: Mapping[str, Any]
    own: Mapping[str, str] = field(default_factory=dict)


def find_target(services: Services, scope: Scope, id: str, as_of: datetime | None = None) -> Target:
    """Return the memory of an id: a visible one, else a hidden one, else a forgotten one.

    With `as_of`, the memory is returned as it was then, or, as a last resort, as it was stored later.

    For a caller that names no project, user or agent, the scope becomes the memory's own. A caller that names some of
    them may also see a memory that another project, agent or environment hides: a user may know these. A memory of
    another user or tenant looks like an unknown id.

    Raises:
        NotFoundError: no such memory.
    """
    checks.name("id", id)
    for memory in services.store.fetch(scope, [id], as_of=as_of):
        return Target(memory, scope, {})
    widened = scope.widened()
    if all(getattr(scope, name) is None for name in NARROWING):
        for memory in services.store.fetch(widened, [id], as_of=as_of):
            own = {name: value for name in NARROWING if (value := getattr(memory.scope, name)) is not None}
            return Target(memory, replace(scope, **own), {}, own)
    wide_scope = replace(widened, environment=ANY, project=ANY, agent_id=ANY)
    for memory in services.store.fetch(wide_scope, [id], as_of=as_of):
        hiding = [name for name in BOUNDS if not replace(wide_scope, **{name: getattr(scope, name)}).sees(memory.scope)]
        own = {name: getattr(memory.scope, name) for name in hiding}
        return Target(memory, replace(scope, **own), {name: getattr(scope, name) for name in hiding})
    versions = [stored.memory for stored in services.store.history(widened, id)]
    if not versions:
        raise NotFoundError(id)
    known = [memory for memory in versions if as_of is None or memory.changed_at <= as_of]
    memory = known[-1] if known else versions[0]
    if known and memory.forgotten_at is None:  # restored or stored in the meantime
        raise NotFoundError(id)
    return Target(memory, scope, {})


@dataclass(frozen=True, slots=True, eq=False)
class Question:
    """A query and the memory to explain.

    Attributes:
        services, query: as for the recall.
        target: the memory.
        need, reading: those of the recall, in a scope in which the memory is visible.
    """

    services: Services
    query: Query
    target: Target
    need: Need
    reading: Reading

    @property
    def id(self) -> str:
        """The memory's whole id."""
        return self.target.memory.id

    def gather(self, need: Need) -> Batch:
        """Return the batch for a need, as the recall gathers it."""
        return recalls.gather(self.services, need, self.reading)

    def case(self, trace: Trace) -> Case:
        """Return a ranking to which changes can be applied."""
        return Case(trace, self.target.memory, self.need, self.gather, self.services, self.query.text)


def explain_target(question: Question, trace: Trace) -> Explanation:
    """Return the explanation of the memory in the recall whose ranking is `trace`."""
    row, target = trace.row(question.id), question.target
    found = explain_ranked(trace, row) if row is not None else explain_unranked(question, trace)
    if found.stage == REPLACED and row is not None:
        found = explain_replaced(question, trace, row, found)
    if question.services.reranker is not None:
        found = explain_reranked(question, question.services.reranker, trace, found)
    else:
        if row is not None and found.stage in (RETURNED, OUTRANKED):
            found = explain_outranked(question, trace, row, found)
        if found.stage != FILTERED:
            found = replace(found, **counterfactual(question.case(trace), found.stage))
    if target.own:
        where = ", ".join(f"{name}={value!r}" for name, value in target.own.items())
        reason = f"{found.reason} Explained with {where}, the memory's own scope; this call does not see it."
        return replace(found, reason=reason, path=(replace(found.path[0], note=f"with {where}"), *found.path[1:]))
    return explain_hidden(target, trace, found) if target.hidden else found


def explain_ranked(trace: Trace, row: int) -> Explanation:
    """Return the explanation of a ranked row, without a counterfactual."""
    found = verdicts(trace)
    by = int(found.by[row])
    places, confidence = np.flatnonzero(trace.ranked.rows == row), confidences(trace.ranked)
    return Explanation(
        id=str(trace.batch.ids[row]),
        stage=found.stage[row],
        reason=texts.reason(trace, row),
        by=None if by == NOBODY else str(trace.batch.ids[by]),
        rank=int(found.rank[row]) or None,
        score_detail=details(trace.ranked, np.array([row]))[0],
        path=texts.steps_before(trace.profile) + texts.path(trace, row),
        counterfactual=None,
        profile=trace.profile.name,
        confidence=float(confidence[places[0]]) if confidence is not None and len(places) else None,
        confidence_parts=confidence_parts(trace.ranked, int(places[0])) if len(places) else (),
    )


def explain_replaced(question: Question, trace: Trace, row: int, found: Explanation) -> Explanation:
    """Return the explanation of a memory that a caller replaced, with who said so."""
    successors = trace.batch.successors
    by = found.by if successors is None else str(successors[row])
    if by is None:
        return found
    said = texts.said_by(relation_of(question, question.id, by))
    excluded = "" if found.by is not None else ", but the filter excludes that memory"
    return replace(found, by=by, reason=f"{short_id(by)} replaces it{excluded}{said}.")


def explain_outranked(question: Question, trace: Trace, row: int, found: Explanation) -> Explanation:
    """Return the explanation of a ranked memory with what put the first hit above it, if that is another memory."""
    first = trace.first
    if first is None or first == row or found.score_detail is None:
        return found
    above = texts.differences(details(trace.ranked, np.array([first]))[0], found.score_detail)
    link, relation, ids = trace.ranked.spread.get(first), None, trace.batch.ids
    if link is not None and link.link == "update":
        pair = str(ids[first]), str(ids[link.parent])
        relation = relation_of(question, *pair) or relation_of(question, *pair[::-1])
    why = texts.first_reason(trace, row, first, above, relation)
    return replace(found, by=str(ids[first]), above=above, reason=f"{found.reason} {why}")


def relation_of(question: Question, older: str, newer: str) -> Replacement | None:
    """Return how one memory replaces another; None if it does not, or no longer."""
    need = question.need
    found = question.services.store.fetch(need.scope, [newer], as_of=need.as_of)
    return replaced_by({older: newer}, found).get(older)


def explain_absent(profile: Profile, memory: Memory, stage: str, why: str) -> Explanation:
    """Return the explanation of a memory that is forgotten, or not stored yet at the instant of the query."""
    return Explanation(
        id=memory.id,
        stage=stage,
        reason=texts.sentence(f"it {why}"),
        by=None,
        rank=None,
        score_detail=None,
        path=texts.steps_before(profile, texts.SCOPE, why.partition(";")[0]),
        counterfactual=None,
        profile=profile.name,
    )


def explain_unranked(question: Question, trace: Trace) -> Explanation:
    """Return the explanation of a memory that the filter or the list of candidates excluded from the ranking.

    Its score is computed in a ranking with the same candidates and this memory.
    """
    memory, need, wanted = question.target.memory, question.need, question.need.filter
    failing = tuple(
        item.name for item in fields(Filter) if not Filter(**{item.name: getattr(wanted, item.name)}).accepts(memory)
    )
    passing = replace(wanted, **{name: getattr(Filter(), name) for name in failing})
    wide_need = every_candidate(replace(need, filter=passing))
    batch = question.gather(replace(wide_need, ids=(*map(str, trace.batch.ids), question.id), reach=need.reach))
    batch = replace(batch, complete=trace.batch.complete)
    if need.vector is None:  # lexical shares are relative to the best in the batch
        batch = batch.with_columns(**lexical_cosines(batch))
    trace_with_target = Trace.of(trace.profile, batch, trace.criteria)
    row = trace_with_target.row(question.id)
    if row is None:  # deleted in the meantime
        raise NotFoundError(question.id)
    found = replace(explain_ranked(trace_with_target, row), by=None, rank=None)
    if failing:
        spelled, passing_need = texts.spelled_filter(wanted, failing), replace(need, filter=passing)
        case = question.case(trace).ranking(question.gather(passing_need))
        left_out = {"scope" if name == "level" else name: None for name in failing}
        return replace(
            found,
            stage=FILTERED,
            reason=texts.filter_reason(wanted, memory, failing),
            path=texts.steps_before(trace.profile, texts.FILTER, spelled),
            **effect(Change(f"Leaving out {spelled}", case, left_out)),
        )
    if need.candidates is None:
        why = texts.unreached_reason(trace_with_target.batch, row, need.reach or 0)
    else:
        all_candidates = question.gather(every_candidate(need))
        place = row_of(all_candidates, question.id)
        if place is None:  # deleted in the meantime
            raise NotFoundError(question.id)
        why = texts.candidates_reason(all_candidates, place, need.candidates)
    return replace(found, stage=CANDIDATES, reason=why, path=texts.steps_before(trace.profile, CANDIDATES))


def explain_hidden(target: Target, trace: Trace, found: Explanation) -> Explanation:
    """Return the explanation of a hidden memory; `found` explains it in the scope that shows it."""
    where = ", ".join(f"{name}={getattr(target.memory.scope, name)!r}" for name in target.hidden)
    rank = found.rank if found.stage in (RETURNED, OUTRANKED) else None
    past = "" if found.stage == RETURNED else f", past the limit of {trace.criteria.limit}"
    return replace(
        found,
        stage=OUT_OF_SCOPE,
        reason=texts.scope_reason(target.memory, target.hidden),
        by=None,
        rank=None,
        above=(),
        path=texts.steps_before(trace.profile, texts.SCOPE, where),
        counterfactual=None if rank is None else f"Asking with {where} would put it at rank {rank}{past}.",
        change={} if rank is None else {name: getattr(target.memory.scope, name) for name in target.hidden},
    )


def explain_reranked(question: Question, reranker: Reranker, trace: Trace, found: Explanation) -> Explanation:
    """Return the explanation with the reranker's rank of the memory, if the profile returns it.

    There is no counterfactual, since the reranker decides by the texts.
    """
    found = replace(found, counterfactual=None, change={})
    if found.stage != RETURNED:
        return found
    size = AnswerLimit(question.services, recalls.TOO_LARGE, recalls.HIT_SIZE)
    hits = recalls.make_hits(question.services, question.query, trace.ranked, size)
    order, name = recalls.rerank(question.services, reranker, question.query, len(hits), hits, recalls.Clock())
    ids, limit = [hit.memory.id for hit in order], trace.criteria.limit
    if question.id not in ids:  # deleted in the meantime
        raise NotFoundError(question.id)
    place, score = ids.index(question.id) + 1, found.score_detail.final if found.score_detail else 0.0
    inside, position = place <= limit, f"{place} of {len(ids)}, limit {limit}"
    decider = f"The reranker {name}" if name else "The profile, since the reranker did not answer,"
    return replace(
        found,
        stage=RETURNED if inside else RERANK if name else OUTRANKED,
        reason=f"{decider} put it at rank {position}; by the profile it is {found.rank} with {score:.4f}.",
        by=found.by if inside else ids[limit - 1],
        rank=place,
        path=(*found.path, Waypoint(RERANK, "passed" if inside else "fell", position)),
        degraded=found.degraded if name else (*found.degraded, "rerank"),
    )


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
