"""A memory whose text is read when somebody asks for it is the one whose text was read before."""

from __future__ import annotations

import copy
import pickle
from dataclasses import FrozenInstanceError, replace

import numpy as np
import pytest

from salience.ports import Stored, unread
from salience.records import Memory
from salience.testing.memories import memory

MEMORY = memory(1, content="tea")
VECTOR = np.ones(1, np.float32)


def told(stored: Stored) -> tuple[object, ...]:
    return stored.memory, stored.vector, stored.terms, dict(stored.activations), stored.distinctions


def read(memory: Memory) -> tuple[tuple[str, ...], tuple[str, ...]]:
    return (memory.content,), (f"text:{memory.content}",)


@pytest.fixture
def later() -> Stored:
    return unread(MEMORY, VECTOR, {"s": 1}, read)


def test_it_holds_what_reading_gives(later):
    assert told(later) == told(Stored(MEMORY, VECTOR, ("tea",), {"s": 1}, ("text:tea",)))


def test_it_is_read_once_and_not_before_it_is_asked_for():
    asked: list[Memory] = []
    later = unread(MEMORY, None, {}, lambda memory: asked.append(memory) or read(memory))
    assert (later.memory, later.vector, later.activations) == (MEMORY, None, {})
    assert asked == []
    assert (later.distinctions, later.terms, later.distinctions) == (("text:tea",), ("tea",), ("text:tea",))
    assert asked == [MEMORY]


def test_what_is_derived_is_the_same_and_kept_only_where_it_is_a_field():
    asked: list[Memory] = []
    later = unread(MEMORY, None, {}, lambda memory: asked.append(memory) or read(memory))
    assert later.derived() == later.derived() == (("tea",), ("text:tea",))
    assert asked == [MEMORY, MEMORY]
    assert Stored(MEMORY, None, ("tea",), {}, ("text:tea",)).derived() == later.derived()


@pytest.mark.parametrize("copied", [copy.copy, replace, lambda it: pickle.loads(pickle.dumps(it))])  # noqa: S301
def test_a_copy_is_the_same(later, copied):
    assert told(copied(later)) == told(later)


def test_what_reading_fails_with_is_raised_each_time():
    later = unread(MEMORY, None, {}, lambda memory: 1 / 0)
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            later.terms  # noqa: B018


def test_it_has_no_other_names_and_stays_as_it_is(later):
    with pytest.raises(AttributeError, match="term"):
        later.term  # noqa: B018
    with pytest.raises(FrozenInstanceError):
        later.terms = ()
