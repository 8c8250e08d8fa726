"""Upkeep again and again: when passes are due, what ends them, and how an embedder that fails is asked again."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta

import pytest

import salience
from salience.errors import EmbedderError, LeaseError, StoreError
from salience.maintain.upkeep import Pace, keep
from salience.ports import Lease
from tests.contract.doubles import PlantedEmbedder

pytestmark = pytest.mark.slow

SKEW = 0.25
"""Share by which the longest jitter puts off a retry."""


class Moody(PlantedEmbedder):
    """An embedder that fails while it is `down`."""

    down = False

    def embed(self, texts, /):
        if self.down:
            raise EmbedderError("embedder 'planted' is down. Wait.")
        return super().embed(texts)


@dataclass
class Turns:
    """A stop that lets the loop wait some times, and the clock that it moves on meanwhile."""

    turns: int
    now: float = 100.0
    work: float = 0.0
    waits: list[float] = field(default_factory=list)
    reports: list[object] = field(default_factory=list)
    before: object = None

    def wait(self, timeout: float) -> bool:
        self.waits.append(timeout)
        self.now += timeout
        if self.before is not None:
            self.before(len(self.waits))
        return len(self.waits) > self.turns

    def told(self, report: object) -> None:
        self.reports.append(report)
        self.now += self.work

    def pace(self, jitter: float = 0.0, **every: float) -> Pace:
        return Pace(timedelta(**every), lambda: self.now, lambda: jitter)


@pytest.fixture
def embedder():
    return Moody()


@pytest.fixture
def memory(target, clock, embedder):
    with salience.connect(target, embedder=embedder, clock=clock) as made:
        yield made


def go(memory, turns, pace):
    keep(lambda: memory.services, pace, turns, turns.told, turns.told)
    return turns


def test_passes_run_at_once_and_then_without_drift(memory):
    turns = Turns(4, work=70.0)
    go(memory, turns, turns.pace(minutes=10))
    assert turns.waits == [0.0, 530.0, 530.0, 530.0, 530.0]
    assert [report.warning for report in turns.reports] == [None] * 4


def test_a_long_pass_skips_the_starts_that_it_overruns(memory):
    turns = Turns(3, work=1500.0)
    go(memory, turns, turns.pace(minutes=10))
    assert turns.waits == [0.0, 300.0, 300.0, 300.0]


def test_a_loop_stopped_before_it_begins_does_nothing(memory):
    turns = Turns(0)
    assert go(memory, turns, turns.pace(minutes=10)).reports == []


def test_work_due_between_passes_waits_for_the_next(memory, clock):
    made = memory.remember("text", ttl="1h").memory
    turns = Turns(3, before=lambda turn: clock.advance(minutes=30))
    go(memory, turns, turns.pace(minutes=30))
    assert [report.expired for report in turns.reports] == [(), (made.id,), ()]


def test_a_failing_embedder_is_retried_with_backoff(memory, embedder):
    embedder.down = True
    memory.remember("text")
    turns = Turns(15)

    def mend(turn):
        embedder.down = turn < 13

    turns.before = mend
    go(memory, turns, turns.pace(hours=1))
    assert turns.waits[:11] == [0.0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512]
    assert turns.waits[11:13] == [600.0, 600.0]  # 512 s doubled is more than the most
    assert [report.embedded for report in turns.reports] == [0] * 12 + [1, 0, 0]
    assert [report.pending for report in turns.reports[:13]] == [1] * 12 + [0]
    assert sum(turns.waits[:14]) == pytest.approx(3600.0)  # back on the grid of the first pass
    assert turns.waits[14] == 3600.0


def test_retries_have_jitter_and_bounds():
    pace = Pace(timedelta(hours=1), jitter=lambda: 1.0)
    assert [pace.retry(failures) for failures in (1, 2, 3)] == [1 + SKEW, 2 * (1 + SKEW), 4 * (1 + SKEW)]
    assert pace.retry(9999) == 600.0


def test_a_refused_text_causes_no_retries(memory, embedder):
    embedder.down = True
    memory.remember("poison")
    embedder.down = False
    sound = embedder.embed

    def picky(texts):
        if "poison" in texts:
            raise EmbedderError("embedder 'planted' refuses a text. Shorten it.")
        return sound(texts)

    embedder.embed = picky
    turns = Turns(2)
    go(memory, turns, turns.pace(hours=1))
    assert turns.waits == [0.0, 3600.0, 3600.0]
    assert [report.pending for report in turns.reports] == [1, 1]


def test_errors_are_reported_and_do_not_end_the_loop(memory, clock, monkeypatch):
    failures = [StoreError("store: no space left on the disk."), EmbedderError("embedder: gone.")]
    whole, raised = memory.services.store.apply, list(failures)

    def apply(changes, **options):
        if raised:
            raise raised.pop(0)
        return whole(changes, **options)

    monkeypatch.setattr(memory.services.store, "apply", apply)
    turns = Turns(3)
    go(memory, turns, turns.pace(minutes=1))
    assert turns.reports[:2] == failures
    assert turns.reports[2].warning is None
    assert turns.waits == [0.0, 60.0, 60.0, 60.0]


def test_a_pass_of_another_process_is_left_to_it(memory, clock):
    memory.remember("text", ttl="1h")
    clock.advance(hours=1)
    name = f"upkeep:{memory.services.tenant}"
    memory.services.store.apply([Lease(name, "another:1:a", clock(), clock() + timedelta(minutes=5))])
    turns = Turns(2, before=lambda turn: clock.advance(minutes=3))
    go(memory, turns, turns.pace(minutes=3))
    assert isinstance(turns.reports[0], LeaseError)
    assert len(turns.reports[1].expired) == 1
