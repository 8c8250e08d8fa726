"""A question up to where weights come in, computed once, so that a trial of other weights is arithmetic alone.

What ranking does before, at and after the scores is done by the stages' own functions; only the values of the signals
are kept from the first time. A test holds what comes of it against `rank`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from salience.batch import Floats
from salience.evaluate.asking import Gathered, Terms, gathered, narrowed
from salience.evaluate.datasets import Conversation, Question
from salience.evaluate.evaluation import Advance
from salience.evaluate.metrics import Metric
from salience.evaluate.planting import Planted, planted
from salience.ports import Embedder
from salience.rank.profile import Profile, Term
from salience.rank.run import advanced
from salience.rank.signals import SIGNALS
from salience.rank.stages import SCORE, State, scored


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """A question with evidence, ready to be scored.

    Attributes:
        conversation: in whose store it was asked.
        state: what the stages before `score` left of the rows.
        parts: raw value of each signal by its label, under the profile's own parameters.
        evidence: rows that hold the answer.
        total: how many memories hold it, at least 1; a profile that ranks the nearest alone may not see each.
    """

    conversation: str
    state: State
    parts: Mapping[str, Floats]
    evidence: frozenset[int]
    total: int


def cases(
    held: Sequence[Conversation],
    profile: Profile,
    limit: int,
    embedder: Embedder,
    categories: frozenset[str] | None = None,
    cache: Path | None = None,
    advance: Advance = lambda _: None,
) -> list[Case]:
    """Return a case for each question that can be answered, or is of `categories`, and whose evidence is stored."""
    found: list[Case] = []
    for conversation in held:
        with planted(conversation, embedder, cache) as store:
            for question in wanted(conversation, categories):
                known = gathered(store, question, Terms({"": profile}, limit))[""]
                found += _case(store, question, known, profile)
                advance(1)
    return found


def wanted(conversation: Conversation, categories: frozenset[str] | None) -> Iterator[Question]:
    """Yield the questions to tune on: those that can be answered, or those of `categories`."""
    for question in conversation.questions:
        chosen = question.answerable if categories is None else question.category in categories
        if chosen and question.question.strip():
            yield question


def _case(store: Planted, question: Question, known: Gathered, profile: Profile) -> Iterator[Case]:
    named, batch = set(question.evidence), narrowed(known.batch, known.need)
    total = sum(store.refs[found] in named for found in known.batch.ids)
    if not total:
        return
    refs = [store.refs[found] for found in batch.ids]
    evidence = frozenset(row for row, ref in enumerate(refs) if ref in named)
    state = State.start(profile, batch, known.need)
    for step in range(profile.stages.index(SCORE)):
        state = advanced(state, step)
    parts = advanced(state, profile.stages.index(SCORE)).parts
    yield Case(store.name, state, parts, evidence, total)


def value(case: Case, profile: Profile, metric: Metric) -> float:
    """Return the metric of a question under a profile that differs from the case's in weights and parameters alone."""
    places = [place for place, row in enumerate(ranked(case, profile), 1) if row in case.evidence]
    return metric.of(places, case.total)


def ranked(case: Case, profile: Profile) -> list[int]:
    """Return the rows that `profile` returns, best first, as `rank` does."""
    state = rescored(case, profile)
    for step in range(profile.stages.index(SCORE) + 1, len(profile.stages)):
        state = advanced(state, step)
    rows: list[int] = state.rows.tolist()
    return rows


def rescored(case: Case, profile: Profile) -> State:
    """Return the state after `score`, from the signals' values as they are known."""
    own = {term.label: term for term in case.state.profile.terms}
    parts = {term.label: _part(case, term, own[term.label]) for term in profile.terms}
    return scored(replace(case.state, profile=profile), parts)


def _part(case: Case, term: Term, own: Term) -> Floats:
    """Return the column of a signal, computed anew where a parameter is another."""
    if term.parameters == own.parameters:
        return case.parts[term.label]
    batch = case.state.batch.with_columns(alive=case.state.alive)
    column: Floats = SIGNALS[term.signal].formula(batch, case.state.need, **term.parameters)
    return column
