"""Turns at a processor: never more than there are, none lost, and nobody waits for long."""

import os
import threading
from contextlib import ExitStack

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from salience import compose, turns
from salience.testing.doubles import PlantedEmbedder
from salience.turns import Turns

LONG = 30.0


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


class Asking:
    """A thread that takes a turn, and gives it back when it is told to."""

    def __init__(self, turns):
        self.has_turn, self.is_done, self.waited = threading.Event(), threading.Event(), None
        self.thread = threading.Thread(target=self._take, args=(turns,), daemon=True)
        self.thread.start()

    def _take(self, turns):
        with turns as self.waited:
            self.has_turn.set()
            self.is_done.wait(LONG)

    def leave(self):
        self.is_done.set()
        self.thread.join(LONG)


def waits(turns, count=1):
    """Return once so many threads wait."""
    gone_by = threading.Event()
    for _ in range(int(LONG * 1000)):
        with turns._looking:
            if len(turns._waiting) == count and all(one.sleep.locked() for one in turns._waiting):
                return
        gone_by.wait(0.001)
    raise AssertionError("nobody waits")


@given(st.integers(1, 3), st.integers(1, 6), st.sampled_from([0.0, 0.001, LONG]))
@settings(deadline=None, max_examples=30)
def test_no_more_have_a_turn_than_there_are_and_all_get_theirs(count, threads, patience):
    turns, inside, most, done = Turns(count, patience), [], [], []

    def work():
        for _ in range(40):
            with turns:
                inside.append(1)
                most.append(len(inside))
                inside.pop()
            done.append(1)

    workers = [threading.Thread(target=work) for _ in range(threads)]
    [worker.start() for worker in workers]
    [worker.join(LONG) for worker in workers]
    assert len(done) == 40 * threads
    assert max(most) <= count
    assert turns._free == count
    assert not turns._waiting


def test_who_finds_a_turn_has_not_waited():
    turns = Turns(2)
    with turns as first, turns as second:
        assert (first, second) == (False, False)


def test_who_leaves_may_come_again_before_those_who_wait():
    turns = Turns(1, LONG)
    with ExitStack() as stack:
        stack.enter_context(turns)
        asking = Asking(turns)
        waits(turns)
        with turns._looking:  # the one who waits is woken, and cannot look yet
            turns._free += 1
            turns._wake_first()
            turns._free -= 1
        waits(turns)
        assert not asking.has_turn.is_set()
    assert asking.has_turn.wait(LONG)
    assert asking.waited is True
    asking.leave()


def test_who_has_waited_for_long_is_handed_the_next_turn():
    clock = Clock()
    turns = Turns(1, 5.0, clock)
    turns.__enter__()
    first = Asking(turns)
    waits(turns)
    second = Asking(turns)
    waits(turns, 2)
    clock.now = 5.0
    turns.__exit__(None, None, None)
    assert turns._free == 0  # nobody else can have it
    assert first.has_turn.wait(LONG)
    first.leave()
    assert second.has_turn.wait(LONG)
    second.leave()
    assert turns._free == 1


def test_turns_that_become_free_together_are_all_taken():
    turns = Turns(2, LONG)
    turns.__enter__(), turns.__enter__()
    asking = [Asking(turns), Asking(turns)]
    waits(turns, 2)
    turns.__exit__(), turns.__exit__()
    for one in asking:
        assert one.has_turn.wait(LONG)
    for one in asking:
        one.leave()
    assert turns._free == 2


@pytest.mark.parametrize("is_handed", [False, True])
def test_the_turn_of_who_was_interrupted_is_for_others(is_handed, monkeypatch):
    clock, turned = Clock(), []
    turns = Turns(1, 5.0, clock)
    turns.__enter__()

    def interrupted(own):
        if not turned:
            turned.append(own)
            if is_handed:
                clock.now = 5.0
                turns.__exit__()
            raise KeyboardInterrupt
        return Turns._has_turn(turns, own)

    monkeypatch.setattr(turns, "_has_turn", interrupted)
    with pytest.raises(KeyboardInterrupt):
        turns.__enter__()
    assert turned[0].is_handed is is_handed
    assert not turns._waiting
    if not is_handed:
        turns.__exit__()
    with turns as waited:
        assert waited is False


def test_an_error_gives_the_turn_back():
    turns = Turns(1)
    with pytest.raises(ValueError, match="oh"), turns:
        raise ValueError("oh")
    assert turns._free == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_a_child_begins_with_all_turns():
    made = turns.turns()
    with ExitStack() as stack:
        for _ in range(made._count):
            stack.enter_context(made)
        child = os.fork()
        if child == 0:
            os._exit(0 if made._free == made._count else 1)
        assert os.waitpid(child, 0)[1] == 0


def test_a_recall_from_a_file_takes_a_turn_and_tells_that_it_waited(tmp_path, monkeypatch):
    own = Turns(1)
    monkeypatch.setattr("salience.compose.engines.turns", lambda: own)
    with compose.connect(tmp_path / "a.db", embedder=PlantedEmbedder()) as memory:
        memory.remember("Ann likes tea")
        assert "wait" not in memory.recall("tea").timings
        found = []
        with own:
            asking = threading.Thread(target=lambda: found.append(memory.recall("tea")))
            asking.start()
            waits(own)
        asking.join(LONG)
    assert "wait" in found[0].timings
    assert [hit.memory.content for hit in found[0]] == ["Ann likes tea"]
