"""The story of explain: find the memory, rank as the recall does, tell what became of it. Nothing is written."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import numpy as np

from salience import recall as recalls
from salience.batch import Batch
from salience.errors import NotFoundError
from salience.explain import apart
from salience.explain.levers import Case, Change, counterfactual, effect
from salience.explain.reasons import path, reason
from salience.explain.sought import Target, refused, sought, without
from salience.explain.trial import (
    CANDIDATES,
    FILTERED,
    FORGOTTEN,
    NOT_STORED,
    OUT_OF_SCOPE,
    OUTDATED,
    OUTRANKED,
    RERANK,
    RETURNED,
    Trial,
    listless,
    row_of,
    verdicts,
)
from salience.ports import Need, Reranker, Services
from salience.rank.profile import Profile
from salience.rank.run import details
from salience.rank.signals import lexical_cosines
from salience.rank.stages import NOBODY
from salience.records import Explanation, Filter, Memory, Query, Waypoint
from salience.records.ids import short_id
from salience.steps import AnswerLimit


def explain(services: Services, profile: Profile, query: Query, id: str) -> Explanation:
    """Return why a memory, by its whole or short id, is or is not in what `recall` answers to `query`.

    The recall is made as it would be made, but for its side effects, and ranking's own notes are read.

    Raises:
        InputError: as `recall`.
        NotFoundError: no such memory, or one that the caller may not know of.
    """
    now = recalls.instant_of(services, query)
    query = replace(query, now=now, dry_run=True)
    recalls.make_need(services, profile, query, now)  # refuses what recall refuses, before anything is looked for
    target = sought(services, query.scope, id, query.as_of)
    if query.as_of is not None and target.memory.changed_at > query.as_of:
        return never_met(profile, target.memory, NOT_STORED, apart.later(target.memory))
    if target.memory.forgotten_at is not None:
        return never_met(profile, target.memory, FORGOTTEN, apart.gone(target.memory))
    query = replace(query, scope=target.scope)
    trial = tried(services, profile, query)
    found = told(Question(services, query, target, trial.need), trial)
    return found if trial.need.vector is not None else replace(found, degraded=("embedding", *found.degraded))


def tried(services: Services, profile: Profile, query: Query) -> Trial:
    """Return the ranking of the recall that `query` asks for; the need has the query's vector, if there is one."""
    need, texts = recalls.make_need(services, profile, query, recalls.instant_of(services, query))
    need = recalls.with_vectors(need, recalls.embed_query(services, query, texts))
    ranked = recalls.search(services, profile, need, query.text, [], prunes=False)
    return Trial.of(profile, ranked.batch, ranked.need)


@dataclass(frozen=True, slots=True, eq=False)
class Question:
    """A query, and the memory whose part in the answer is asked for.

    Attributes:
        services, query: what the recall stands on, and what it asks.
        target: the memory.
        need: what the recall needs, with the query's vector, in the scope that shows the memory.
    """

    services: Services
    query: Query
    target: Target
    need: Need

    @property
    def id(self) -> str:
        """The memory's whole id."""
        return self.target.memory.id

    def gather(self, need: Need) -> Batch:
        """Return the batch for a need, as the recall gathers it."""
        return recalls.gather(self.services, need, self.query.text)


def told(question: Question, trial: Trial) -> Explanation:
    """Return what became of the memory in the recall whose ranking is `trial`."""
    row = trial.row(question.id)
    found = ranked(trial, row) if row is not None else kept_away(question, trial)
    if found.stage == OUTDATED and found.by is None:
        found = held_by_another(question, found)
    if question.services.reranker is not None:
        found = reranked(question, question.services.reranker, trial, found)
    elif found.stage != FILTERED:
        case = Case(trial, question.id, question.gather)
        found = replace(found, counterfactual=counterfactual(case, found.stage))
    if question.target.own:
        return in_its_own_scope(question.target, found)
    return out_of_scope(question.target, trial, found) if question.target.hidden else found


def ranked(trial: Trial, row: int) -> Explanation:
    """Return what became of a row in a ranking, as ranking noted it; without a counterfactual."""
    found = verdicts(trial)
    by = int(found.by[row])
    return Explanation(
        id=str(trial.batch.ids[row]),
        stage=found.stage[row],
        reason=reason(trial, row),
        by=None if by == NOBODY else str(trial.batch.ids[by]),
        rank=int(found.rank[row]) or None,
        score_detail=details(trial.ranked, np.array([row]))[0],
        path=apart.before(trial.profile) + path(trial, row),
        counterfactual=None,
        profile=trial.profile.name,
    )


def held_by_another(question: Question, found: Explanation) -> Explanation:
    """Return the explanation with the memory that holds in place of this one, which the filter keeps away."""
    columns = frozenset({"code", "successor"})
    everyone = question.gather(replace(question.need, filter=Filter(), candidates=None, reach=None, columns=columns))
    row = row_of(everyone, question.id)
    places = np.flatnonzero(everyone["code"] == (NOBODY if row is None else everyone["successor"][row]))
    if not len(places):  # it went away meanwhile
        return found
    by = str(everyone.ids[places[0]])
    return replace(found, by=by, reason=f"{short_id(by)} holds in its place, and is itself kept away by the filter.")


def never_met(profile: Profile, memory: Memory, stage: str, why: str) -> Explanation:
    """Return the explanation of a memory that no recall of that instant meets, since it is not there."""
    return Explanation(
        id=memory.id,
        stage=stage,
        reason=apart.sentence(f"it {why}"),
        by=None,
        rank=None,
        score_detail=None,
        path=apart.before(profile, apart.SCOPE, why.partition(";")[0]),
        counterfactual=None,
        profile=profile.name,
    )


def kept_away(question: Question, trial: Trial) -> Explanation:
    """Return the explanation of a memory that the filter or the list of candidates kept out of the ranking.

    Its score is what it would have been beside the memories that were ranked.
    """
    failing = refused(question.need.filter, question.target.memory)
    beside = joined(question, trial, failing)
    row = beside.row(question.id)
    if row is None:  # it went away meanwhile
        raise NotFoundError(question.id)
    found = replace(ranked(beside, row), by=None, rank=None)
    if not failing:
        why = unlisted(question, beside, row)
        return replace(found, stage=CANDIDATES, reason=why, path=apart.before(trial.profile, CANDIDATES))
    why = apart.refusal(question.need.filter, question.target.memory, failing)
    path = apart.before(trial.profile, apart.FILTER, apart.keywords(question.need.filter, failing))
    return replace(found, stage=FILTERED, reason=why, path=path, counterfactual=unfiltered(question, trial, failing))


def unlisted(question: Question, beside: Trial, row: int) -> str:
    """Return, as a sentence, why a memory that passes the filter was not ranked."""
    if question.need.candidates is None:
        return apart.unreached(beside.batch, row, question.need.reach or 0)
    everyone = question.gather(listless(question.need))
    place = row_of(everyone, question.id)
    if place is None:  # it went away meanwhile
        raise NotFoundError(question.id)
    return apart.far(everyone, place, question.need.candidates)


def joined(question: Question, trial: Trial, failing: tuple[str, ...]) -> Trial:
    """Return the ranking of the memories that were ranked and the one that was not, which fails some conditions."""
    need = listless(replace(question.need, filter=without(question.need.filter, failing)))
    batch = question.gather(replace(need, ids=(*map(str, trial.batch.ids), question.id), reach=question.need.reach))
    batch = replace(batch, complete=trial.batch.complete)
    if question.need.vector is None:  # the stand-in for the cosine is a share of the best one in the batch
        batch = batch.with_columns(**lexical_cosines(batch))
    return Trial.of(trial.profile, batch, question.need)


def unfiltered(question: Question, trial: Trial, failing: tuple[str, ...]) -> str | None:
    """Return, as a sentence, where the memory would be without the conditions that it fails."""
    need = replace(question.need, filter=without(question.need.filter, failing))
    case = Case(trial, question.id, question.gather).ranking(question.gather(need), need)
    return effect(Change(f"Leaving out {apart.keywords(question.need.filter, failing)}", case))


def in_its_own_scope(target: Target, found: Explanation) -> Explanation:
    """Return the explanation of a memory whose own scope the question was asked in; says so."""
    where = ", ".join(f"{name}={value!r}" for name, value in target.own.items())
    scope, *steps = found.path
    said = f"{found.reason} Asked with {where}, the memory's own scope, since the call names none."
    return replace(found, reason=said, path=(replace(scope, note=f"asked with {where}"), *steps))


def out_of_scope(target: Target, trial: Trial, found: Explanation) -> Explanation:
    """Return the explanation of a memory that is hidden, from what became of it where it is not."""
    where = ", ".join(f"{name}={getattr(target.memory.scope, name)!r}" for name in target.hidden)
    limit = trial.need.limit
    rank = found.rank if found.stage in (RETURNED, OUTRANKED) else None
    past = "" if found.stage == RETURNED else f", past the {limit} asked for"
    return replace(
        found,
        stage=OUT_OF_SCOPE,
        reason=apart.hidden(target),
        by=None,
        rank=None,
        path=apart.before(trial.profile, apart.SCOPE, where),
        counterfactual=None if rank is None else f"Asking with {where} would put it at rank {rank}{past}.",
    )


def reranked(question: Question, reranker: Reranker, trial: Trial, found: Explanation) -> Explanation:
    """Return the explanation with the place that the reranker gave the memory, if the profile let it get so far.

    There is no counterfactual then: the reranker has the last word, and it reads texts.
    """
    found = replace(found, counterfactual=None)
    if found.stage != RETURNED:
        return found
    size = AnswerLimit(question.services, recalls.TOO_LARGE, recalls.HIT_SIZE)
    hits = recalls.make_hits(question.services, trial.ranked, size)
    order, name = recalls.rerank(reranker, question.query, len(hits), hits, time.perf_counter())
    ids, limit = [hit.memory.id for hit in order], trial.need.limit
    if question.id not in ids:  # it went away meanwhile
        raise NotFoundError(question.id)
    place, score = ids.index(question.id) + 1, found.score_detail.final if found.score_detail else 0.0
    inside, told = place <= limit, f"{place} of {len(ids)}, {limit} asked for"
    judge = f"The reranker {name}" if name else "The profile, since the reranker did not answer,"
    return replace(
        found,
        stage=RETURNED if inside else RERANK if name else OUTRANKED,
        reason=f"{judge} put it at rank {told}; by the profile it is {found.rank} with {score:.4f}.",
        by=found.by if inside else ids[limit - 1],
        rank=place,
        path=(*found.path, Waypoint(RERANK, "passed" if inside else "fell", told)),
        degraded=found.degraded if name else (*found.degraded, "rerank"),
    )
