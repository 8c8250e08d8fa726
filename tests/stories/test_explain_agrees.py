"""Explain agrees with recall on every memory of a store of 1,000, for 50 queries, under all six profiles.

What became of each memory is told for all rows of a ranking at once (`verdicts`), and the public verb reads one of
them. Here all rows are held against what recall returns and against the rules written out anew, and the verb against
these for a memory of every fate.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import numpy as np
import pytest

import salience
from salience import Draft, Memory
from salience.engine import Engine
from salience.explain import trace_recall
from salience.explain.trace import Trace, verdicts
from salience.ports import EDGE, Calibration
from salience.rank import profiles
from salience.rank.run import details
from salience.records import Filter, Query, Scope
from tests.contract.doubles import StoppedClock

pytestmark = pytest.mark.slow

MEMORIES, QUERIES, TOPICS = 1000, 30, 15
SEEN = {"user_id": "ann", "session_id": "s1"}
WORDS = "atlas tea lisbon deploy budget garden python train window coffee editor theme river invoice".split()
RANKED = ("returned", "outranked")
COLLAPSING = ("near_duplicate", "same_statement")
HIDDEN = ({"user_id": "bob"}, {"user_id": "ann", "project": "p"}, {"environment": "staging"})


class Topics:
    """An embedder whose texts lie near the centre of the topic that their last word numbers."""

    name, dimension = "topics", 48
    calibration = Calibration((0.0, 1.0), (0.0, 1.0), 0.9, "test")

    def embed(self, texts: Any, /) -> np.ndarray:
        return np.stack([self._vector(text) for text in texts])

    def _vector(self, text: str) -> np.ndarray:
        last = text.rsplit(" ", 1)[1]
        topic = int(last) if last.isdigit() else 0  # a store is pinned with a sentence of its own
        seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")
        centre = np.random.default_rng(topic).normal(size=self.dimension)
        return centre + np.random.default_rng(seed).normal(size=self.dimension) * (0.25 + 0.75 * (seed % 4))


def draft(random: np.random.Generator, number: int, now: Any, shared: list[str]) -> Draft:
    """Return a memory with a bit of everything: facts, expiry, chains, low importance, near-duplicates, tags, names."""
    words = " ".join(random.choice(WORDS, 3))
    home = Scope(**(HIDDEN[number % 3] if number % 40 == 0 else {"user_id": "ann" if number % 3 else None}))
    return Draft(
        content=f"{words} {'' if number % 7 else number} topic {int(random.integers(TOPICS))}",
        scope=replace(home, session_id=f"s{number % 4}" if number % 2 else None),
        kind=("fact", "rule", "decision")[number % 3],
        importance=float(random.choice([0.0, 0.05, 0.3, 0.5, 0.8, 1.0])),
        weight=float(random.choice([0.1, 0.5, 1.0])),
        tags=["red"] if number % 5 == 0 else ["blue"],
        entities=list(random.choice(["Ann", "Atlas", "Lisbon"], number % 3, replace=False)),
        fact_key=f"fact {number % 90}" if number % 6 == 0 else None,
        supersedes=shared[int(random.integers(len(shared)))] if shared and number % 5 == 0 and number % 40 else None,
        ttl=timedelta(days=float(random.integers(1, 400))) if number % 8 == 0 else None,
        tier=("working", "episodic", "semantic")[number % 3],
        created_at=now - timedelta(days=float(random.integers(0, 300)), seconds=number),
        speaker=("Ann", "Bo", None)[number % 3],
    )


@dataclass(frozen=True)
class Case:
    """One question: its text and the arguments of recall."""

    text: str
    asked: dict[str, Any]


def questions(random: np.random.Generator) -> list[Case]:
    filters: list[dict[str, Any]] = [{}, {}, {}, {"tags": ["red"]}, {"kinds": ["rule"], "tiers": ["episodic"]}]
    intents = ["", "", "latest ", "which does Ann prefer ", "yesterday "]
    return [
        Case(
            f"{intents[number % 5]}{' '.join(random.choice(WORDS, 2))} Atlas topic {int(random.integers(TOPICS))}",
            {
                "limit": [5, 1, 12, 40][number % 4],
                "min_score": [None, 0.3, 0.0, 0.55][number // 4 % 4],
                **filters[number % len(filters)],
            },
        )
        for number in range(QUERIES)
    ]


@dataclass(frozen=True)
class Shelf:
    """A store, its visible memories by id, and the questions."""

    engine: Engine
    memories: dict[str, Memory]
    cases: list[Case]


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shelf]:
    clock, random = StoppedClock(), np.random.default_rng(3)
    engine = salience.connect(tmp_path_factory.mktemp("explain") / "agent.db", embedder=Topics(), clock=clock)
    engine.services.embedder._embedder.calibration = Calibration((0.0, 1.0), (0.0, 1.0), 0.9, "test")
    shared: list[str] = []
    for start in range(0, MEMORIES, 500):
        drafts = [draft(random, number, clock(), shared) for number in range(start, start + 500)]
        stored = [receipt.memory for receipt in engine.remember_many(drafts)]
        shared += [memory.id for memory in stored if memory.scope == Scope(session_id=memory.scope.session_id)]
        clock.advance(hours=1)
    cases = questions(random)
    for case in cases[:10]:
        engine.recall(case.text, profile="cmm", limit=20, min_score=0.1, **SEEN)
    clock.advance(days=40)
    listed = {"limit": 1000, "statuses": ["live", "expired"], **SEEN}
    page = engine.list(**listed)
    memories = [*page.memories, *engine.list(cursor=page.cursor, **listed).memories]
    yield Shelf(engine, {memory.id: memory for memory in memories if memory.change != "expire"}, cases)
    engine.close()


def query_of(case: Case) -> Query:
    conditions = {name: case.asked[name] for name in ("tags", "kinds", "tiers") if name in case.asked}
    arguments = {name: case.asked[name] for name in ("limit", "min_score")}
    return Query(text=case.text, scope=Scope(**SEEN), filter=Filter(**conditions), dry_run=True, **arguments)


def trial_of(shelf: Shelf, profile: str, case: Case) -> Trace:
    return trace_recall(shelf.engine.services, profiles.load(profile), query_of(case))[0]


@pytest.mark.parametrize("profile", profiles.NAMES)
def test_every_memory_has_the_fate_rank_and_score_that_recall_gives_it(shelf, profile):
    assert len(shelf.memories) > 0.9 * MEMORIES
    for number, case in enumerate(shelf.cases):
        trial = trial_of(shelf, profile, case)
        found = verdicts(trial)
        assert_it_is_what_recall_returns(shelf, profile, case, trial, found)
        assert_the_rows_are_all_there(shelf, profile, case, trial)
        assert_ranks_follow_scores(trial, found)
        assert_rules_hold(shelf, trial, found)
        if number % 10 == 0:
            assert_scores_are_those_of_a_recall_of_more(shelf, profile, case, trial, found)


def assert_it_is_what_recall_returns(shelf, profile, case, trial, found):
    answer = shelf.engine.recall(case.text, profile=profile, dry_run=True, **case.asked, **SEEN)
    rows = np.flatnonzero(found.stage == "returned")
    rows = rows[np.argsort(found.rank[rows])]
    assert found.rank[rows].tolist() == list(range(1, len(answer) + 1))
    for row, hit in zip(rows.tolist(), answer, strict=True):
        assert trial.batch.ids[row] == hit.memory.id
        assert found.score[row] == hit.score
        assert details(trial.ranked, np.array([row]))[0] == hit.score_detail
        assert (str(trial.batch.ids[found.by[row]]) if found.by[row] >= 0 else None) == (hit.via and hit.via.id)
        collapsed = np.flatnonzero(np.isin(found.stage, COLLAPSING) & (found.by == row))
        assert sorted(hit.absorbed) == trial.batch.ids[collapsed].tolist()


def assert_the_rows_are_all_there(shelf, profile, case, trial):
    """All visible memories that pass the filter are ranked, or as many of the nearest as the profile takes."""
    conditions = query_of(case).filter
    passing = [id for id, memory in shelf.memories.items() if conditions.accepts(memory)]
    count = profiles.load(profile).candidate_count(case.asked["limit"])
    if count is None or count >= len(passing):
        assert trial.batch.ids.tolist() == passing
    else:
        assert len(trial.batch) == count
        assert set(trial.batch.ids) <= set(passing)


def assert_ranks_follow_scores(trial, found):
    """In the order that the limit cuts, places go by falling score, equal ones by id; what is past it is outranked."""
    rows = np.flatnonzero(np.isin(found.stage, ["returned", "outranked"]))
    ordered = sorted(rows.tolist(), key=lambda row: (-found.score[row], row))
    assert [found.rank[row] for row in ordered] == list(range(1, len(rows) + 1))
    assert all((found.rank[row] <= trial.criteria.limit) == (found.stage[row] == "returned") for row in ordered)


def assert_rules_hold(shelf, trial, found):
    """Each fate is right, and no memory that met a rule later should have fallen at it; the rules as the pages say."""
    memories, asked, stages = [shelf.memories[id] for id in trial.batch.ids], trial.criteria, trial.profile.stages
    position = {**{name: place for place, name in enumerate(stages)}, "outranked": len(stages), "returned": len(stages)}
    fell = np.array([position[stage] for stage in found.stage])
    if "expired" in stages:
        over = np.array([bool(memory.expires_at and memory.expires_at <= asked.reading.now) for memory in memories])
        assert ((fell == position["expired"]) == over).all()
    if "superseded" in stages:
        alive = fell > position["expired"]
        successors = {memory.supersedes for memory, living in zip(memories, alive, strict=True) if living}
        older = alive & np.array([memory.id in successors for memory in memories])
        assert ((fell == position["superseded"]) == older).all()
        for row in np.flatnonzero(older):
            assert memories[found.by[row]].supersedes == memories[row].id
    if "replaced" in stages:
        hidden = replaced_by_a_caller(shelf, memories, asked.reading.now) & (fell >= position["replaced"])
        assert ((fell == position["replaced"]) == hidden).all()
    if "importance_floor" in stages:
        low = (fell >= position["importance_floor"]) & np.array([memory.importance < 0.1 for memory in memories])
        assert ((fell == position["importance_floor"]) == low).all()
    if "same_fact" in stages:
        assert_one_of_each_fact_is_kept(memories, fell, position["same_fact"], found)
    if "similarity_floor" in stages and asked.min_score is not None:
        low = (fell >= position["similarity_floor"]) & (np.clip(trial.batch["cosine"], 0, 1) < asked.min_score - EDGE)
        assert ((fell == position["similarity_floor"]) == low).all()
    if asked.min_score is not None:  # the last of the two where there are two
        low = (fell >= position["threshold"]) & (found.score < asked.min_score - EDGE)
        kept = np.isin(found.stage, ["returned", "outranked", *COLLAPSING])
        assert not (low & kept).any()
        assert ((found.score < asked.min_score - EDGE) | (found.stage != "threshold")).all()


def replaced_by_a_caller(shelf, memories, now):
    """Return which memories a visible one that is not expired replaces, as a caller said."""
    holding = [memory for memory in shelf.memories.values() if memory.expires_at is None or memory.expires_at > now]
    gone = {one.id for memory in holding for one in memory.relations or () if one.hides}
    return np.array([memory.id in gone for memory in memories])


def assert_one_of_each_fact_is_kept(memories, fell, position, found):
    newest: dict[Any, tuple[Any, int]] = {}
    for row, memory in enumerate(memories):
        if fell[row] >= position and memory.fact_key is not None:
            fact = (memory.scope.user_id, memory.fact_key)
            newest[fact] = max(newest.get(fact, (memory.updated_at, row)), (memory.updated_at, row))
    for row, memory in enumerate(memories):
        keeper = newest.get((memory.scope.user_id, memory.fact_key)) if fell[row] >= position else None
        assert (fell[row] == position) == (keeper is not None and keeper[1] != row)
        assert fell[row] != position or found.by[row] == keeper[1]


def assert_scores_are_those_of_a_recall_of_more(shelf, profile, case, trial, found):
    """A recall of as many as the profile gives, however low their score, has the same scores."""
    arguments = {**case.asked, "limit": profiles.load(profile).max_limit, "min_score": 0.0}
    for hit in shelf.engine.recall(case.text, profile=profile, dry_run=True, **arguments, **SEEN):
        row = trial.row(hit.memory.id)
        if row is not None and hit.via is None and row not in trial.ranked.spread:
            assert found.score[row] == hit.score


@pytest.mark.parametrize("profile", profiles.NAMES)
def test_the_public_verb_tells_what_became_of_the_row(shelf, profile):
    """For one memory of every fate in every third query, filtered ones and those past the candidates among them."""
    result = Counter[str]()
    for case in shelf.cases[::3]:
        trial = trial_of(shelf, profile, case)
        found, ids = verdicts(trial), trial.batch.ids
        for stage, row in zip(*np.unique(found.stage.astype(str), return_index=True), strict=True):
            answer = shelf.engine.explain(case.text, ids[row], profile=profile, **case.asked, **SEEN)
            expected = (ids[row], stage, int(found.rank[row]) or None)
            assert (answer.id, answer.stage, answer.rank) == expected
            decided = trial.first if stage in RANKED and found.rank[row] > 1 else found.by[row]
            assert answer.by == (None if decided < 0 else ids[decided])
            assert answer.score_detail.final == found.score[row]
            assert abs(answer.score_detail.recompute() - answer.score_detail.final) <= 1e-9
            assert (answer.path[-1].outcome == "passed") == (stage == "returned")
            result[stage] += 1
        kept_away = [id for id in shelf.memories if trial.row(id) is None]
        for id in kept_away[:1]:
            filtered = not query_of(case).filter.accepts(shelf.memories[id])
            answer = shelf.engine.explain(case.text, id, profile=profile, **case.asked, **SEEN)
            assert answer.stage == ("filtered" if filtered else "candidates")
            result[answer.stage] += 1
    assert result["returned"] >= 6
    assert len(result) >= 4


def test_the_store_has_something_of_every_fate(shelf):
    met = Counter[str]()
    for case in shelf.cases:
        for profile in profiles.NAMES:
            met.update(verdicts(trial_of(shelf, profile, case)).stage.tolist())
    assert sum(met.values()) > 0.5 * MEMORIES * QUERIES * len(profiles.NAMES)
    for fate in (
        "expired", "superseded", "replaced", "same_fact", "importance_floor", "similarity_floor", "nonzero",
        "threshold", "cut_off", "near_duplicate", "outranked", "returned",
    ):  # fmt: skip
        assert met[fate] >= 20, fate


def test_a_counterfactual_comes_true(shelf):
    """What a larger limit or a lower least score is said to return is what recall then returns."""
    seen = 0
    for profile in ("memlayer", "zeromemory", "cmm", "mememory"):
        for case in shelf.cases[1::12]:
            trial = trial_of(shelf, profile, case)
            for row in np.flatnonzero(np.isin(verdicts(trial).stage.astype(str), ["outranked", "threshold"]))[:2]:
                id = trial.batch.ids[row]
                found = shelf.engine.explain(case.text, id, profile=profile, **case.asked, **SEEN)
                rank = re.search(r" at rank (\d+)\.", found.counterfactual or "")
                if (
                    found.change
                    and found.change.keys() <= {"limit", "min_score"}
                    and "past" not in found.counterfactual
                ):
                    arguments = {**case.asked, **found.change}
                    answer = shelf.engine.recall(case.text, profile=profile, dry_run=True, **arguments, **SEEN)
                    assert answer[int(rank[1]) - 1].memory.id == id
                    seen += 1
    assert seen >= 5
