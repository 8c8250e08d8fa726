"""Many processes on one file: no errors, nothing lost, nothing stale, nothing twice; and a crowd that sees it if so."""

from dataclasses import replace

import pytest

from bench.torture.check import Contents, miscounted
from bench.torture.crowd import USER, Figures, Member, crowd
from bench.torture.journal import Journal, read, read_all
from bench.torture.verbs import Hand
from bench.torture.writing import opened, seeded

PROCESSES, VERBS = 4, 40


def test_a_crowd_on_one_file_loses_nothing_and_sees_everything(tmp_path):
    found = crowd(tmp_path, PROCESSES, seed=1, verbs=VERBS)
    assert found.checked.faults == ()
    assert (found.checked.lost, found.figures.stale) == (0, 0)
    assert found.figures.met > PROCESSES
    assert len(found.figures.writes) + len(found.figures.recalls) >= PROCESSES * VERBS
    entries = [len(notes.entries) for notes in read_all(tmp_path)]
    assert len(entries) == PROCESSES + 1  # one more for the board
    assert sum(count >= VERBS for count in entries) == PROCESSES


@pytest.fixture
def member(tmp_path):
    with opened(tmp_path / "memory.db") as engine:
        yield Member(Hand("p0", USER, engine, seeded(1)), Journal(tmp_path / "p0.journal"), Figures())


def stale(member, memory):
    member.meet(memory)
    return bool(member.figures.stale) and bool(read(member.journal.path).failures)


def test_a_memory_as_it_is_counts_as_seen(member):
    engine = member.hand.engine
    old = engine.remember("anchor bridge candle", user_id=USER).memory
    new = engine.update(old.id, content="desert ember forest", user_id=USER).memory
    assert not stale(member, new)
    assert member.hand.own == {new.id: new}
    assert not stale(member, engine.forget(new.id, user_id=USER).memory)
    assert member.figures.met == 2


@pytest.mark.parametrize(
    "harm",
    [
        lambda engine, memory: replace(memory, version=memory.version + 1),
        lambda engine, memory: replace(memory, content="other words"),
        lambda engine, memory: replace(memory, id="0" * 32),
        lambda engine, memory: replace(memory, forgotten_at=memory.created_at),
        lambda engine, memory: engine.forget(memory.id, user_id=USER) and memory,
    ],
    ids=["version", "content", "absent", "forgotten", "live"],
)
def test_a_memory_that_is_not_as_it_was_told_is_stale(member, harm):
    memory = member.hand.engine.remember("anchor bridge candle", user_id=USER).memory
    assert stale(member, harm(member.hand.engine, memory))


def test_recalls_that_are_not_counted_are_seen(tmp_path, member):
    engine = member.hand.engine
    memory = engine.remember("anchor bridge candle", user_id=USER).memory
    member.meet(memory)
    assert miscounted(Contents.read(engine), read_all(tmp_path)) == []
    engine.recall("anchor", user_id=USER, min_score=0)
    assert miscounted(Contents.read(engine), read_all(tmp_path)) == [
        f"1 recalls of {memory.id} were noted, and 2 are there"
    ]


def test_a_process_that_fails_is_a_fault(tmp_path, monkeypatch):
    monkeypatch.setattr("bench.torture.crowd.board", lambda engine, journal: "0" * 32)  # no such memory
    found = crowd(tmp_path, 2, seed=1, verbs=60)
    assert any("ended with NotFoundError" in fault for fault in found.checked.faults)
