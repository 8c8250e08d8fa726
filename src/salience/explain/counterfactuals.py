"""Counterfactuals: the change that would put a memory first, or return it, found by ranking again under each change.

A change is tried on a copy of the columns. Nothing is written.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np

from salience.batch import COLUMNS, OWN_COPIES, Batch, Floats, Lexicon, Postings, Vectors32
from salience.explain.trace import (
    OUTRANKED,
    REPLACED,
    RETURNED,
    Gather,
    Trace,
    cosine_rank,
    every_candidate,
    row_of,
    verdicts,
)
from salience.extract.subjects import Subjects, index_terms
from salience.ports import LIVE, Need, Selection, Services
from salience.rank.criteria import Criteria
from salience.rank.signals import inverse_document_frequency
from salience.recall import reach_for
from salience.records import Memory
from salience.records.ids import short_id
from salience.relations import ADDED, compared
from salience.remember.conflicts import DISMISSED
from salience.remember.write import weight_before

SMALL: Final = 4
"""Multiple of the limit up to which a larger limit counts as a small change."""
TRIES: Final = 5
"""Limits to try in turn, since more candidates or seeds may move the memory down."""
MOST_TAGS: Final = 8
"""Most words of the question to try as tags."""
STATED: Final = str.maketrans("?？؟", "...")
"""Makes a statement of a question."""
MOST_RELATIONS: Final = 100
"""Most memories with a relation to the replaced one that are read."""


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """A memory and a ranking that a change is applied to.

    Attributes:
        trace: the ranking.
        memory: the memory; it may be missing from the ranking's candidates.
        need: the request for its candidates.
        gather: returns the batch for a need, as the recall does.
        services: to read other memories and relations.
        text: the query.
    """

    trace: Trace
    memory: Memory
    need: Need
    gather: Gather
    services: Services
    text: str

    @property
    def id(self) -> str:
        """The whole id of the memory."""
        return self.memory.id

    @property
    def row(self) -> int:
        """The row of the memory, which is in the ranking."""
        row = self.trace.row(self.id)
        if row is None:
            raise AssertionError("the memory is not in the ranking")
        return row

    @property
    def returned(self) -> bool:
        """Whether the memory is in the answer."""
        return self.standing[0] == 0

    @property
    def is_first(self) -> bool:
        """Whether the memory is the first hit, or would be with a limit above 0."""
        return self.standing in ((0, 1), (1, 1))

    @property
    def standing(self) -> tuple[int, int]:
        """The memory's standing, smaller is better: (0 returned, 1 outranked or 2 neither, rank)."""
        row = self.trace.row(self.id)
        if row is None:
            return 2, 0
        found = verdicts(self.trace)
        level = {RETURNED: 0, OUTRANKED: 1}.get(found.stage[row], 2)
        return level, int(found.rank[row]) if level < 2 else 0

    def with_columns(self, **columns: float) -> Case:
        """Return the case after an update of the memory that sets these columns."""
        changed = {name: self.trace.batch[name].copy() for name in columns}
        for name, column in changed.items():
            column[self.row] = columns[name]
        return self.ranking(self.trace.batch.with_columns(**changed, **self.touched()))

    def touched(self) -> dict[str, Floats]:
        """Return the column `updated_at` after an update of the memory; empty if the profile does not read it."""
        column = self.trace.batch.columns.get("updated_at")
        if column is None:
            return {}
        column = column.copy()
        column[self.row] = max(column[self.row], self.trace.criteria.reading.now.timestamp())
        return {"updated_at": column}

    def ranking(self, batch: Batch, criteria: Criteria | None = None) -> Case:
        """Return the case with another batch, and other criteria if they are given."""
        trace = self.trace
        return replace(self, trace=Trace.of(trace.profile, batch, criteria or trace.criteria, trace.states[0].tokens))


@dataclass(frozen=True, slots=True, eq=False)
class Change:
    """One change: the subject of a sentence, the case under it, and arguments as in `Explanation.change`."""

    words: str
    case: Case
    arguments: Mapping[str, Any] = field(default_factory=dict)


Counterfactual = Mapping[str, Any]
"""The fields `counterfactual` and `change` of `Explanation`; empty if nothing helps."""
NONE: Final[Counterfactual] = {}


def counterfactual(case: Case, stage: str) -> Counterfactual:
    """Return the change that would put the memory first, else return it, else rank it higher.

    Of several changes that reach the same, the first of `_changes` counts. A larger limit is named alone only if no
    other change returns the memory.

    `stage` is the outcome of the memory, one of `OUTCOMES`.
    """
    before, best = case.standing, None
    if case.is_first and case.returned:
        return NONE
    for change in _changes(case, stage):
        if change.case.standing < (before if best is None else best.case.standing):
            if change.case.is_first or (change.case.returned and stage not in (RETURNED, OUTRANKED, REPLACED)):
                best = change
                break
            best = change
    if stage != OUTRANKED:
        return NONE if best is None else effect(best, "put" if case.returned else "return")
    larger = next(_limits(case, case.trace.profile.max_limit), None)
    if best is not None and (best.case.returned or larger is None):
        beside = "" if larger is None else f" As it is, a limit of {larger.arguments['limit']} returns it."
        found = effect(best)
        return {**found, "counterfactual": found["counterfactual"] + beside}
    return NONE if larger is None else _only(larger)


def _only(larger: Change) -> Counterfactual:
    """Return a larger limit as the one change that returns the memory."""
    rank = larger.case.standing[1]
    words = f"Only a larger limit would return it: a limit of {larger.arguments['limit']}, at rank {rank}."
    return {"counterfactual": words, "change": larger.arguments}


def effect(change: Change, verb: str = "return") -> Counterfactual:
    """Return the change and, as a sentence, the rank of the memory after it; `NONE` if the memory is not ranked."""
    level, rank = change.case.standing
    if level == 2:
        return NONE
    past = f"put it at rank {rank}, past the limit of {change.case.trace.criteria.wanted}"
    words = f"{change.words} would {past if level else f'{verb} it at rank {rank}'}."
    return {"counterfactual": words, "change": change.arguments}


def _changes(case: Case, stage: str) -> Iterator[Change]:
    """Yield the changes to try for an outcome, the simplest first."""
    small = min(SMALL * case.trace.criteria.limit, case.trace.profile.max_limit)
    match stage:
        case "returned" | "outranked":
            yield from _dismissals(case)
            yield from _full_weight(case)
            yield from _supersession(case)
            yield from _tags(case)
            yield from _more_importance(case)
        case "candidates":
            yield from _more_candidates(case, small)
        case "expired":
            yield Change("No time to live", case.with_columns(expires_at=math.inf), {"ttl": None})
        case "superseded":
            batch = case.trace.batch
            links = np.where(batch["supersedes"] == batch["code"][case.row], -1, batch["supersedes"])
            alone = case.ranking(batch.with_columns(supersedes=links))
            yield Change(f"Not being superseded by {_other(case)}", alone)
        case "replaced":
            dismissals = list(_dismissals(case))
            yield from dismissals
            if not any(change.case.returned for change in dismissals):
                yield from _forgotten_successor(case)
        case "same_fact":
            yield Change("No fact_key", case.with_columns(fact=-1), {"fact_key": None})
        case "importance_floor":
            yield from _more_importance(case)
        case "similarity_floor":
            yield from _lower_min_score(case)
        case "shortlist" | "nonzero":
            yield from _full_weight(case)
            yield from _more_importance(case)
        case "threshold" | "cut_off":
            yield from _full_weight(case)
            yield from _lower_min_score(case)
            yield from _more_importance(case)
        case "near_duplicate" | "same_statement":  # the statistics of terms are left as they are
            others = np.delete(np.arange(len(case.trace.batch)), case.trace.ranked.by[case.row])
            without = case.ranking(case.trace.batch.take(others))
            yield Change(f"Forgetting {_other(case)}", without, {"forget": _other_id(case)})


def _other(case: Case) -> str:
    return short_id(_other_id(case))


def _other_id(case: Case) -> str:
    return str(case.trace.batch.ids[case.trace.ranked.by[case.row]])


def _dismissals(case: Case) -> Iterator[Change]:
    """Yield the dismissal of the relation that replaces the memory, then of the one that gave the first hit its score.

    The second one, which is about other memories, counts only if it puts this memory first. A low weight that the
    caller gave may need a change too.
    """
    trace, row = case.trace, case.row
    if trace.batch.successors is None:
        return
    pairs = [(str(trace.batch.successors[row]), case.id)]
    first = trace.first
    link = None if first is None else trace.ranked.spread.get(first)
    if first is not None and link is not None and link.link == "update":
        pair = str(trace.batch.ids[first]), str(trace.batch.ids[link.parent])
        pairs.append(pair if trace.batch.successors[link.parent] == pair[0] else pair[::-1])
    for newer, older in dict.fromkeys(pairs):
        if not newer:
            continue
        under = without_relation(case, newer, older)
        if older == case.id:
            under = _with_weight_back(under, newer)
        elif not under.is_first:
            continue
        whom = "it" if older == case.id else short_id(older)
        call = f"dismiss(id='{short_id(newer)}', other_id='{short_id(older)}')"
        words = f"If {short_id(newer)} does not replace {whom}, {call}"
        dismissed = {"id": newer, "other_id": older}
        yield Change(words, under, {"dismiss": dismissed})
        for weighed in _full_weight(under):
            both = f"{words} and weight {weighed.words.removeprefix('Weight ')}"
            yield Change(both, weighed.case, {"dismiss": dismissed, **weighed.arguments})


def _with_weight_back(case: Case, newer: str) -> Case:
    """Return the case with the weight that the memory gets back if a caller's `supersedes` of it is dismissed."""
    found = case.services.store.fetch(case.need.scope, [newer])
    if not found or found[0].supersedes != case.id or "weight" not in case.trace.batch.columns:
        return case
    return case.with_columns(weight=weight_before(case.services, case.memory, found[0]))


def without_relation(case: Case, newer: str, older: str) -> Case:
    """Return the case without the relation by which one memory replaces another; the next one then counts."""
    batch, row = case.trace.batch, case.trace.row(older)
    if row is None or batch.successors is None:
        return case
    successor, chance = _next_successor(case, newer, older)
    successors, replaced = batch.successors.copy(), batch["replaced"].copy()
    successors[row], replaced[row] = successor, chance
    return case.ranking(replace(batch.with_columns(replaced=replaced), successors=successors))


def _next_successor(case: Case, newer: str, older: str) -> tuple[str, float]:
    """Return the id and the probability of the memory that replaces `older` if `newer` does not; "" and 0 for none."""
    need = case.need
    selection = Selection(scope=need.scope, linked_to=(older,), values=LIVE, now=need.now)
    found = [
        (one.probability, memory.id)
        for memory in case.services.store.browse(selection, "id", MOST_RELATIONS)
        if memory.id not in (newer, older)
        for one in memory.relations or ()
        if one.id == older and one.kind == "replaces"
    ]
    chance, successor = max(found, default=(0.0, ""))
    return successor, chance


def _forgotten_successor(case: Case) -> Iterator[Change]:
    """Yield forgetting the memory that replaces this one."""
    batch = case.trace.batch
    newer = "" if batch.successors is None else str(batch.successors[case.row])
    if newer:
        under = without_relation(case, newer, case.id)
        row = under.trace.row(newer)
        if row is not None:
            kept = np.delete(np.arange(len(batch)), row)
            under = under.ranking(under.trace.batch.take(kept))
        yield Change(f"Forgetting {short_id(newer)}", under, {"forget": newer})


def _supersession(case: Case) -> Iterator[Change]:
    """Yield that the memory supersedes the first hit, if it is newer and says something about the same thing.

    Nothing unless that puts it first.
    """
    trace, new = case.trace, case.memory
    first, batch, store = trace.first, trace.batch, case.services.store
    if first is None or new.supersedes is not None or {"superseded", REPLACED}.isdisjoint(trace.profile.stages):
        return
    found = store.fetch(case.need.scope, [str(batch.ids[first])], as_of=case.need.as_of)
    if not found or (found[0].created_at, found[0].id) > (new.created_at, new.id) or not new.scope.sees(found[0].scope):
        return
    (old,) = found
    if old.id in new.metadata.get(DISMISSED, ()) or new.id in old.metadata.get(DISMISSED, ()):
        return  # a caller said that neither replaces the other
    is_related = any(one.id == old.id and one.kind == "replaces" for one in new.relations or ())
    if not is_related and not _is_alike(case, old):
        return
    under, columns = without_relation(case, old.id, new.id), case.touched()
    changed = {name: under.trace.batch.columns[name].copy() for name in ("weight", "supersedes", "replaced")
               if name in batch.columns}  # fmt: skip
    is_private = any(getattr(new.scope, name) and not getattr(old.scope, name) for name in ("user_id", "agent_id"))
    if "weight" in changed and not is_private:
        changed["weight"][first] = COLUMNS["weight"].low
    if "supersedes" in changed:
        changed["supersedes"][case.row] = batch["code"][first]
    successors = under.trace.batch.successors
    if successors is not None:
        successors = successors.copy()
        successors[first], changed["replaced"][first] = new.id, 1.0
    batch = replace(batch.with_columns(**changed, **columns), successors=successors)
    superseding = case.ranking(batch)
    if superseding.is_first:
        words = f"If it replaces {old.short_id}, update(id='{new.short_id}', supersedes='{old.short_id}')"
        yield Change(words, superseding, {"supersedes": old.id})


def _is_alike(case: Case, old: Memory) -> bool:
    """Return whether the memory says something of the subject of an older one that is as near as an addition to it."""
    vectors = [_vector(case, one) for one in (case.memory, old)]
    if vectors[0] is None or vectors[1] is None:
        return False
    pairs = compared(case.services.calibration, case.memory, [(float(vectors[0] @ vectors[1]), old)])
    return any(pair.related >= ADDED and not pair.is_apart for pair in pairs)


def _vector(case: Case, memory: Memory) -> Vectors32 | None:
    """Return the vector of a version of a memory; None without one."""
    stored = case.services.store.history(memory.scope, memory.id)
    return next((one.vector for one in stored if one.memory.version == memory.version), None)


def _tags(case: Case) -> Iterator[Change]:
    """Yield the words of the query that the memory lacks as tags, if they put it first or return it.

    The rarest come first, and no more than it takes. Nothing for a memory of a session, whose terms count for its
    neighbours too, or if words stand in for vectors.
    """
    batch, criteria = case.trace.batch, case.trace.criteria
    lexicon = batch.lexicon
    is_in_context = batch.windows is not None and case.memory.scope.session_id is not None
    if lexicon is None or is_in_context or criteria.vector is None or not batch["embedded"].all():
        return
    rarity, tokeniser = inverse_document_frequency(lexicon), case.services.tokeniser
    speakers = " ".join(criteria.reading.speakers)  # a speaker's name is no tag
    unusable = {*batch.corrected, *tokeniser.query_terms(speakers)}
    lacking = {
        term: weight
        for place, (term, weight) in enumerate(zip(case.need.terms, rarity.tolist(), strict=True))
        if term not in unusable and case.row not in lexicon.postings.of_term(place)[0]
    }
    subjects = Subjects(tokeniser).of(case.text.translate(STATED)).values()  # no verbs of speech and other small talk
    rated = {
        word: max((lacking.get(term, 0.0) for term in tokeniser.query_terms(word)), default=0.0) for word in subjects
    }
    missing = sorted((word for word, weight in rated.items() if weight > 0), key=lambda word: -rated[word])[:MOST_TAGS]

    def tagged(count: int) -> Case:
        memory = replace(case.memory, tags=(*case.memory.tags, *missing[:count]))
        terms = index_terms(tokeniser, memory)
        more = len(terms) - len(index_terms(tokeniser, case.memory))
        frequency = [terms.count(term) for term in case.need.terms]
        changed = replace(
            batch.with_columns(**case.touched()),
            lexicon=_with_terms(lexicon, case.row, frequency, more),
            windows=batch.windows
            and _with_terms(batch.windows, case.row, [OWN_COPIES * one for one in frequency], OWN_COPIES * more),
        )
        return case.ranking(changed)

    if missing:
        count = _first(range(1, len(missing) + 1), lambda count: tagged(count).is_first)
        under, named = tagged(count), " and ".join(f"'{word}'" for word in missing[:count])
        condition = f"If it is about {named}, {'this as a tag' if count == 1 else 'these as tags'}"
        if under.is_first or (under.returned and not case.returned):
            yield Change(condition, under, {"tags": [*case.memory.tags, *missing[:count]]})


def _with_terms(lexicon: Lexicon, row: int, frequency: Sequence[int], more: int) -> Lexicon:
    """Return the statistics after a change of one row: how often it has each term, and how many terms it gained."""
    postings, documents = [], lexicon.document_frequency.copy()
    for place, count in enumerate(frequency):
        rows, counts = lexicon.postings.of_term(place)
        others = rows != row
        had = not others.all()
        at = int(np.searchsorted(rows[others], row))
        documents[place] += int(count > 0) - int(had)
        rows, counts = rows[others], counts[others]
        if count:
            rows, counts = np.insert(rows, at, row), np.insert(counts, at, float(count))
        postings.append((rows, counts))
    length = lexicon.length.copy()
    length[row] += more
    average = lexicon.average_length + more / max(lexicon.documents, 1)
    return replace(
        lexicon, postings=Postings.of(postings), document_frequency=documents, length=length, average_length=average
    )


def _full_weight(case: Case) -> Iterator[Change]:
    """Yield the neutral weight, if the memory's is less."""
    neutral, weights = COLUMNS["weight"].neutral, case.trace.batch.columns.get("weight")
    if weights is not None and (weight := float(weights[case.row])) < neutral:
        words = f"Weight {neutral:.1f} instead of {weight:.3g}"
        yield Change(words, case.with_columns(weight=neutral), {"weight": neutral})


def _more_importance(case: Case) -> Iterator[Change]:
    """Yield the least importance, in hundredths, that puts the memory first, else the least that returns it.

    If none does, it is 1; nothing for a hit that no importance puts first.
    """
    column = case.trace.batch.columns.get("importance")
    if column is None or (importance := float(column[case.row])) >= 1:
        return
    goal = "is_first" if case.with_columns(importance=1.0).is_first else "returned"
    if goal == "returned" and case.returned:
        return
    steps = range(math.floor(importance * 100) + 1, 101)
    value = _first(steps, lambda step: bool(getattr(case.with_columns(importance=step / 100), goal))) / 100
    words = f"Importance {value:g} instead of {importance:.3g}"
    yield Change(words, case.with_columns(importance=value), {"importance": value})


def _lower_min_score(case: Case) -> Iterator[Change]:
    """Yield the largest `min_score`, in thousandths, under which the memory is ranked; 0 if none does.

    A `min_score` from the caller also replaces the profile's cut-off.
    """
    batch, criteria = case.trace.batch, case.trace.criteria
    bound = float(case.trace.ranked.scores[case.row]) if criteria.min_score is None else criteria.min_score
    steps = range(math.ceil(bound * 1000) - 1, -1, -1)

    def under(step: int) -> Case:
        return case.ranking(batch, replace(criteria, min_score=step / 1000))

    if steps:
        value = _first(steps, lambda step: under(step).standing[0] < 2)
        yield Change(f"A min_score of {value / 1000:g}", under(value), {"min_score": value / 1000})


def _first(steps: range, holds: Callable[[int], bool]) -> int:
    """Return the first step for which `holds`, by bisection, else the last step."""
    return steps[min(bisect_left(steps, True, key=holds), len(steps) - 1)]


def _limits(case: Case, most: int) -> Iterator[Change]:
    """Yield the first limit tried that returns the memory, if it is at most `most`.

    The first try is the memory's rank. A larger limit adds candidates, seeds and duplicates that may move the memory;
    its new rank is then tried.
    """
    for _ in range(TRIES):
        if case.returned:
            limit = case.trace.criteria.limit
            yield Change(f"A limit of {limit}", case, {"limit": limit})
            return
        level, rank = case.standing
        if level != 1 or rank > most:
            return
        case = _with_limit(case, rank)


def _with_limit(case: Case, limit: int) -> Case:
    """Return the case with another limit and its candidates."""
    old, criteria = case.need, replace(case.trace.criteria, limit=limit)
    reach = old.reach and max(old.reach, reach_for(limit))
    need = replace(old, candidates=case.trace.profile.candidate_count(limit), reach=reach)
    is_same = (need.candidates, reach) == (old.candidates, old.reach)
    return replace(case, need=need).ranking(case.trace.batch if is_same else case.gather(need), criteria)


def _more_candidates(case: Case, most: int) -> Iterator[Change]:
    """Yield a limit whose candidates hold the memory and that returns it; then the ranking of every memory.

    Yield nothing if the vector index of a large store left the memory out.
    """
    if case.need.candidates is None:
        return
    need, profile = every_candidate(case.need), case.trace.profile
    all_candidates = case.gather(need)
    row = row_of(all_candidates, case.id)
    if row is None:  # deleted in the meantime
        return
    limits = range(case.trace.criteria.limit + 1, most + 1)
    first = bisect_left(limits, cosine_rank(all_candidates, row), key=lambda limit: profile.candidate_count(limit) or 0)
    if first < len(limits):
        yield from _limits(_with_limit(case, limits[first]), most)
    yield Change("A profile without a list of candidates", case.ranking(all_candidates))
