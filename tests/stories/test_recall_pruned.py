"""A recall reads the few that can be among the best, and answers as if it had ranked everything.

Texts are read by the engine's own tokeniser and extractor, and the store is a file, as those of users are.
`SALIENCE_TEST_STEPS` says how many questions are asked.
"""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from typing import Any

import numpy as np
import pytest

import salience
from salience import Draft
from salience import recall as recalls
from salience.engine import Engine
from salience.explain import trace_recall
from salience.explain.trace import verdicts
from salience.ports import Calibration, Services
from salience.rank import profiles
from salience.rank.criteria import Criteria
from salience.rank.profile import Profile
from salience.records import Filter, Query, Scope
from salience.steps import AnswerLimit
from tests.contract.doubles import StoppedClock

pytestmark = pytest.mark.slow

QUESTIONS = int(os.environ.get("SALIENCE_TEST_STEPS") or 240)
MEMORIES, USERS = 3000, 4
PROFILES = [name for name in profiles.NAMES if name in ("salience", "zeromemory", "memlayer")]
PEOPLE = ("Mira", "Jonas", "Priya", "Tom Reed")
SUBJECTS = "garden budget train invoice python lisbon harbour theme release editor coffee river window course".split()
DEEDS = "moved painted paid planned finished booked deployed forgot compared repaired sold learned".split()
OTHERS = "the blue old second big early quiet new small late red last third open".split()


class Words:
    """An embedder whose texts lie near those that share words with them."""

    name, dimension = "words", 96

    def embed(self, texts: Any, /) -> np.ndarray:
        return np.stack([self._vector(text) for text in texts])

    def _vector(self, text: str) -> np.ndarray:
        return sum((self._direction(word) for word in text.lower().split()), 0.2 * self._direction(text))

    @staticmethod
    @cache
    def _direction(word: str) -> np.ndarray:
        seed = int.from_bytes(hashlib.sha256(word.strip("?.,'").encode()).digest()[:8], "big")
        return np.random.default_rng(seed).normal(size=Words.dimension)


def pick(random: np.random.Generator, *choices: Any) -> Any:
    """Return one of some choices, the first ones far more often, as words are."""
    return choices[min(int(random.zipf(1.4)) - 1, len(choices) - 1)] if len(choices) > 4 else random.choice(choices)


def sentence(random: np.random.Generator) -> str:
    person = str(random.choice(PEOPLE))
    thing = f"{pick(random, *OTHERS)} {pick(random, *SUBJECTS)}"
    more = f" with the {random.choice(SUBJECTS)} for {random.integers(5, 90)} euros" if random.random() < 0.4 else ""
    return f"{random.choice(['I', 'We', person, 'They'])} {random.choice(DEEDS)} {thing}{more}."


def draft(random: np.random.Generator, number: int, now: Any, shared: list[str]) -> Draft:
    user = f"user {random.integers(USERS)}" if number % 6 else None
    return Draft(
        content=sentence(random),
        scope=Scope(user_id=user, session_id=f"{user} {number // 100}" if random.random() < 0.8 else None),
        kind=("fact", "decision")[number % 2],
        importance=float(random.choice([0.1, 0.5, 0.5, 0.9])),
        weight=float(random.choice([0.3, 1.0, 1.0])),
        tags=["red"] if number % 5 == 0 else ["blue"],
        fact_key=f"fact {number % 50}" if number % 20 == 0 else None,
        supersedes=shared[int(random.integers(len(shared)))] if shared and number % 30 == 7 else None,
        ttl=timedelta(days=float(random.integers(1, 90))) if number % 11 == 0 else None,
        created_at=now - timedelta(days=float(random.integers(0, 300)), seconds=number),
        speaker=None if random.random() < 0.3 else str(random.choice(PEOPLE)),
    )


@dataclass(frozen=True)
class Case:
    """A question: its text, of which scope, and the other arguments of a recall."""

    text: str
    scope: Scope
    filter: dict[str, Any]
    asked: dict[str, Any]

    def query(self) -> Query:
        return Query(text=self.text, scope=self.scope, filter=Filter(**self.filter), dry_run=True, **self.asked)

    def arguments(self) -> dict[str, Any]:
        return {**self.filter, **self.asked, "user_id": self.scope.user_id}


def question(random: np.random.Generator) -> Case:
    things = " ".join(pick(random, *SUBJECTS) for _ in range(random.integers(1, 3)))
    who = str(random.choice(["we", "they", *PEOPLE]))
    text = str(
        random.choice(
            [
                f"What did {who} say of the {pick(random, *OTHERS)} {things}?",
                f"When was the {things} {random.choice(DEEDS)}?",
                f"{things} {random.choice(DEEDS)}",
                f"What was the first thing {who} {random.choice(DEEDS)}?",
                f"the {things} in January",
                f"Which {things} did {who} and I {random.choice(DEEDS)} last month?",
                "What happened last month?",
                "What happened on 3 March 1999?",
                f"What is the latest {things}?",
                "what have we decided lately?",
                "weather on the moon",
                "the",
            ]
        )
    )
    filters: list[dict[str, Any]] = [{}, {}, {}, {"tags": ("red",)}, {"kinds": ("fact",)}]
    return Case(
        text,
        Scope(user_id=str(random.choice([f"user {number}" for number in range(USERS)]))),
        filters[random.integers(len(filters))],
        {"limit": int(random.choice([1, 5, 5, 12])), "min_score": [None, None, None, 0.3][random.integers(4)]},
    )


@dataclass(frozen=True)
class Shelf:
    """A store and what it is asked."""

    engine: Engine
    cases: list[Case]


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shelf]:
    clock, random = StoppedClock(), np.random.default_rng(5)
    engine = salience.connect(tmp_path_factory.mktemp("pruned") / "agent.db", embedder=Words(), clock=clock)
    calibration = Calibration((0.0, 0.3, 0.8, 1.0), (0.0, 0.1, 0.8, 1.0), 0.95, "test")
    engine.services.embedder._embedder.calibration = calibration
    shared: list[str] = []
    for start in range(0, MEMORIES, 500):
        stored = engine.remember_many([draft(random, start + n, clock(), shared) for n in range(500)])
        shared += [receipt.memory.id for receipt in stored if receipt.memory.scope.user_id is None]
    clock.advance(days=20)
    yield Shelf(engine, [question(random) for _ in range(QUESTIONS)])
    engine.close()


def asked(shelf: Shelf, profile: str, case: Case) -> tuple[Services, Profile, Query, Criteria]:
    """Return what a recall of the case searches with."""
    services, ranking, query = shelf.engine.services, profiles.load(profile), case.query()
    criteria = recalls.read_query(services, ranking, query, recalls.instant_of(services, query))
    embedded = recalls.embed_query(services, query, criteria.reading.texts)
    return services, ranking, query, recalls.with_vectors(services, ranking, criteria, embedded)


def whole(shelf: Shelf, profile: str, case: Case) -> tuple[salience.Hit, ...]:
    """Return the hits of a ranking of every memory."""
    services, ranking, query, criteria = asked(shelf, profile, case)
    ranked, _ = recalls.search(services, ranking, query, criteria, recalls.Clock(), prunes=False)
    assert ranked.batch.complete
    return recalls.make_hits(services, query, ranked, AnswerLimit(services, ""))


def brought(shelf: Shelf, profile: str, case: Case) -> set[str]:
    """Return the ids of the memories that a recall ranks, at first."""
    services, ranking, query, criteria = asked(shelf, profile, case)
    return set(services.store.gather(recalls.make_need(ranking, query, criteria, prunes=True)).ids.tolist())


@pytest.mark.parametrize("profile", PROFILES)
def test_a_recall_answers_as_if_it_had_ranked_everything(shelf, profile):
    result = Counter[str]()
    for case in shelf.cases:
        answer = shelf.engine.recall(case.text, profile=profile, dry_run=True, **case.arguments())
        assert answer.exact
        assert tuple(answer) == whole(shelf, profile, case)
        result["answers"] += bool(answer)
        result["lifted"] += any(hit.via is not None for hit in answer)
        result["absorbed"] += any(hit.absorbed for hit in answer)
        result["in time"] += answer.intent.time is not None
        result["of an empty period"] += answer.intent.name == "empty_period"
        result["none"] += not answer
    assert result["answers"] > QUESTIONS / 4
    if profile == "salience":
        assert min(result["in time"], result["of an empty period"]) > 0
        assert min(result["none"], result["lifted"] + result["absorbed"]) > 0


@pytest.mark.parametrize("profile", PROFILES)
def test_explain_tells_of_what_a_recall_did_not_read(shelf, profile):
    """What was left out has the fate, the rank and the score that a ranking of everything gives it."""
    left_out = 0
    for case in shelf.cases[:: max(1, len(shelf.cases) // 12)]:
        trial, _ = trace_recall(shelf.engine.services, profiles.load(profile), case.query())
        found, read = verdicts(trial), brought(shelf, profile, case)
        others = [row for row, id in enumerate(trial.batch.ids) if id not in read]
        for row in others[:: max(1, len(others) // 3)]:
            result = shelf.engine.explain(case.text, trial.batch.ids[row], profile=profile, **case.arguments())
            assert (result.stage, result.rank) == (found.stage[row], int(found.rank[row]) or None)
            assert result.score_detail.final == found.score[row]
            assert result.stage != "returned"
            left_out += 1
    assert left_out >= 12


def test_far_fewer_than_all_are_read(shelf):
    some = shelf.cases[: min(60, QUESTIONS)]
    read = sorted(len(brought(shelf, "salience", case)) for case in some)
    seen = shelf.engine.stats(user_id="user 0").memories
    assert read[len(read) // 2] < 0.3 * seen
