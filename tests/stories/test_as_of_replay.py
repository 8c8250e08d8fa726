"""Whatever was done, and in whatever order: a recall as of an instant answers what a recall answered at that instant.

Random verbs run on a file under a clock that moves on. After each of them every profile is asked; in the
end it is asked again as of each of those instants, and so is what becomes of each memory. The questions name no
session: an earlier instant knows of no priming.
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

import salience
from salience import ANY, InputError, NotFoundError, Recall
from salience.engine import Engine
from salience.explain import trace_recall
from salience.explain.trace import verdicts
from salience.ports import Clustering
from salience.rank import profiles
from salience.records import Filter, Query, Scope
from tests.contract.doubles import StoppedClock

pytestmark = pytest.mark.slow

WORDS = "atlas deploy Lisbon Ann prefers tea budget not 7 train".split()
TEXTS = st.lists(st.sampled_from(WORDS), min_size=1, max_size=5).map(" ".join)
ALIKE = ("the train to Lisbon", "a train to Lisbon is late", "the Lisbon train was late", "Lisbon by train")
"""What a reflection may sum up."""
USERS = st.sampled_from([None, "ann", "bob"])
SESSIONS = st.sampled_from([None, "s1", "s2"])
QUESTIONS: tuple[tuple[str, dict[str, Any], dict[str, Any]], ...] = (
    ("where does Ann deploy atlas", {"user_id": "ann"}, {"min_score": 0.0, "limit": 20}),
    ("latest tea in Lisbon", {"user_id": ANY, "project": ANY}, {"min_score": 0.0, "limit": 3, "tags": ["red"]}),
)
FIELDS = st.fixed_dictionaries(
    {},
    optional={
        "importance": st.sampled_from([0.0, 0.5, 0.97]),
        "weight": st.sampled_from([0.1, 0.6]),
        "tags": st.sampled_from([[], ["red"], ["red", "blue"]]),
        "fact_key": st.sampled_from(["f", "g"]),
        "ttl": st.sampled_from(["2h", "10d"]),
        "tier": st.sampled_from(["working", "semantic"]),
    },
)
SAID = st.sampled_from([None, "2026-03-01T00:00:00+00:00", "2026-05-20T00:00:00+00:00"])
REMEMBER = st.tuples(
    st.just("remember"),
    st.fixed_dictionaries(
        {
            "content": TEXTS,
            "user_id": USERS,
            "project": st.sampled_from([None, "p"]),
            "session_id": SESSIONS,
            "created_at": SAID,
        }
    ),
    FIELDS,
    st.none() | st.integers(0, 9),
)
INGEST = st.tuples(
    st.just("ingest"),
    st.lists(st.tuples(st.sampled_from(["Ann", "Bo"]), TEXTS), min_size=1, max_size=3),
    st.sampled_from(["s1", "s2"]),
)
UPDATE = st.tuples(st.just("update"), st.integers(0, 99), FIELDS, st.none() | TEXTS)
FORGET = st.tuples(st.just("forget"), st.integers(0, 99))
RESTORE = st.tuples(st.just("restore"), st.integers(0, 99), st.none() | st.integers(1, 3))
RECALL = st.tuples(st.just("recall"), TEXTS, st.sampled_from(["zeromemory", "cmm", "memorysync", "salience"]), SESSIONS)
KEEP = st.tuples(st.sampled_from(["upkeep", "consolidate", "reflect"]))
END = st.tuples(st.just("end_session"), st.sampled_from(["s1", "s2"]))
STEPS = st.lists(
    st.tuples(
        st.one_of(
            REMEMBER, REMEMBER, REMEMBER, INGEST, UPDATE, UPDATE, FORGET, RESTORE, RECALL, RECALL, END, KEEP, KEEP
        ),
        st.sampled_from([0, 1, 3600, 86_400, 5 * 86_400]),
    ),
    min_size=3,
    max_size=16,
)


class Bag:
    """An embedder whose texts lie near each other where they share words."""

    name, dimension = "bag", 24

    def embed(self, texts: Any, /) -> np.ndarray:
        return np.stack([sum(map(self._word, text.lower().split()), np.full(self.dimension, 0.1)) for text in texts])

    def _word(self, word: str) -> np.ndarray:
        seed = int.from_bytes(hashlib.sha256(word.encode()).digest()[:8], "big")
        return np.random.default_rng(seed).normal(size=self.dimension)


@dataclass(frozen=True)
class Asked:
    """What a profile answered, and the stage, rank and deciding memory of each memory that it ranked."""

    answer: Recall
    dropped_at: dict[str, tuple[str, int, str | None]]


class Services:
    """An engine, the ids that were made, and what was answered at each instant."""

    anybody: ClassVar = {"user_id": ANY, "project": ANY, "agent_id": ANY}

    def __init__(self, engine: Engine, clock: StoppedClock) -> None:
        self.engine, self.clock = engine, clock
        self.ids: list[str] = []
        self.answers: dict[datetime, list[Asked]] = {}

    def do(self, verb: str, *given: Any) -> None:
        """Do one step; one that cannot be done now is passed over."""
        with suppress(NotFoundError, InputError):
            getattr(self, verb)(*given)
        self.engine.services.access_log.flush()  # hits show the counters as last written
        self.answers[self.clock()] = self.asked(None)

    def asked(self, as_of: datetime | None) -> list[Asked]:
        """Return what every profile makes of every question."""
        return [
            Asked(
                self.engine.recall(text, profile=name, as_of=as_of, dry_run=True, **where, **options),
                self.dropped_at(name, text, where, options, as_of),
            )
            for name in profiles.NAMES
            for text, where, options in QUESTIONS
        ]

    def dropped_at(
        self, name: str, text: str, where: Any, options: Any, as_of: Any
    ) -> dict[str, tuple[str, int, str | None]]:
        """Return what becomes of each memory that is ranked."""
        arguments = {key: options[key] for key in ("min_score", "limit")}
        query = Query(
            text=text, scope=Scope(**where), filter=Filter(tags=options.get("tags", ())), as_of=as_of, **arguments
        )
        trial, _ = trace_recall(self.engine.services, profiles.load(name), query)
        found, ids = verdicts(trial), trial.batch.ids
        return {
            str(ids[row]): (str(found.stage[row]), int(found.rank[row]), None if by < 0 else str(ids[by]))
            for row, by in enumerate(found.by.tolist())
        }

    def remember(self, home: dict[str, Any], fields: dict[str, Any], supersedes: int | None) -> None:
        older = None if supersedes is None or not self.ids else self.ids[supersedes % len(self.ids)]
        self.ids.append(self.engine.remember(**home, **fields, supersedes=older).memory.id)

    def ingest(self, said: list[tuple[str, str]], session: str) -> None:
        turns = [{"speaker": speaker, "content": text} for speaker, text in said]
        self.ids += [receipt.memory.id for receipt in self.engine.ingest(turns, session_id=session, user_id="ann")]

    def update(self, number: int, fields: dict[str, Any], content: str | None) -> None:
        self.engine.update(
            self._one(number), **fields, **({} if content is None else {"content": content}), **self.anybody
        )

    def forget(self, number: int) -> None:
        self.engine.forget(self._one(number), **self.anybody)

    def restore(self, number: int, version: int | None) -> None:
        """Bring a version back, or one of those that are out of sight."""
        gone = [id for id in self.ids if self.engine.history(id, **self.anybody)[-1].memory.forgotten_at is not None]
        if version is None and gone:
            self.engine.restore(gone[number % len(gone)], **self.anybody)
        else:
            self.engine.restore(self._one(number), version, **self.anybody)
        event("restored")

    def recall(self, text: str, profile: str, session: str | None) -> None:
        self.engine.recall(text, profile=profile, user_id="ann", session_id=session, min_score=0.0)

    def end_session(self, session: str) -> None:
        self.engine.end_session(session, user_id="ann")

    def consolidate(self) -> None:
        if any(self.engine.consolidate(user_id="ann").promoted.values()):
            event("promoted")

    def upkeep(self) -> None:
        if self.engine.upkeep().expired:
            event("expired")

    def reflect(self) -> None:
        report = self.engine.reflect(user_id="ann")
        if report.made or report.renewed:
            event("reflected")
        self.ids += [memory.id for memory in report.made]

    def _one(self, number: int) -> str:
        return self.ids[number % len(self.ids)] if self.ids else "0" * 32


def same(found: Asked, then: Asked) -> None:
    """The same memories, states, order and scores, taken apart, and each row dropped at the same stage."""
    answer, before = found.answer, then.answer
    assert [hit.memory for hit in answer] == [hit.memory for hit in before]
    assert [hit.score for hit in answer] == pytest.approx([hit.score for hit in before], abs=1e-6)
    assert [(hit.absorbed, hit.via and hit.via.id) for hit in answer] == [
        (hit.absorbed, hit.via and hit.via.id) for hit in before
    ]
    assert (answer.intent, answer.exact, answer.degraded) == (before.intent, before.exact, before.degraded)
    for hit, old in zip(answer, before, strict=True):
        for part, was in zip(hit.score_detail.parts, old.score_detail.parts, strict=True):
            assert (part.signal, part.weight) == (was.signal, was.weight)
            assert part.raw == pytest.approx(was.raw, abs=1e-6)
    assert found.dropped_at == then.dropped_at


@pytest.fixture(scope="module")
def blank():
    """A new store's file: to copy one is quicker than to make one."""
    folder = Path(tempfile.mkdtemp())
    salience.connect(folder / "blank.db", embedder=Bag()).close()
    yield folder / "blank.db"
    shutil.rmtree(folder)


@settings(max_examples=6, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(steps=STEPS)
def test_the_past_answers_as_it_did(blank, steps):
    folder, clock = Path(tempfile.mkdtemp()), StoppedClock()
    try:
        with salience.connect(shutil.copy(blank, folder / "agent.db"), embedder=Bag(), clock=clock) as engine:
            engine.services = replace(engine.services, clustering=Clustering(tightness=0.1, share=0.05))
            services = Services(engine, clock)
            for text in ALIKE:
                services.do("remember", {"content": text, "user_id": "ann", "tier": "working"}, {}, None)
            clock.advance(hours=5)
            for step, seconds in steps:
                services.do(*step)
                clock.advance(seconds=seconds)
            clock.advance(days=3, microseconds=1)
            for instant, before in services.answers.items():
                for found, then in zip(services.asked(instant), before, strict=True):
                    same(found, then)
    finally:
        shutil.rmtree(folder)
