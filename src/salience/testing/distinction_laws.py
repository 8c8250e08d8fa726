"""Laws of distinctions: kept as they were given, and brought as codes that are equal where they are."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Final

from salience.batch import KINDS, Batch
from salience.ports import Add, Revise, Store
from salience.testing.memories import EVERYTHING, NOW, add, id_of, memory, need, only, stored

GIVEN: Final = {
    1: ("text:1", "speaker:zoë", "number:30", "number:30 minute", "name:new york", "claim:not", "claim:not"),
    2: (),
    3: ("text:3", "number:30", "date:30", "name:30", "claim:not"),
}
"""Memories of the laws, and what is stored with them."""


class DistinctionLaws:
    """What a store keeps of distinctions; each test is a law."""

    def test_distinctions_come_back_as_they_went_in(self, store: Store) -> None:
        """In their order, with repetitions; none stays none."""
        add(store, *(stored(number, distinctions=held) for number, held in GIVEN.items()))
        assert [item.distinctions for item in store.scan(EVERYTHING)] == list(GIVEN.values())

    def test_distinctions_are_brought_as_codes(self, store: Store) -> None:
        """Equal where they are equal, each with its kind, in the order of the rows; only where they are needed."""
        add(store, *(stored(number, distinctions=held) for number, held in reversed(GIVEN.items())))
        assert store.gather(need()).distinctions is None
        batch = store.gather(need(distinctions=True))
        codes = _codes(batch)
        told = [one for held in GIVEN.values() for one in held]
        flat = [code for held in codes for code in held]
        assert [len(held) for held in codes] == [len(held) for held in GIVEN.values()]
        assert len(set(zip(told, flat, strict=True))) == len(set(told)) == len(set(flat))
        assert [KINDS[code % len(KINDS)] for code in flat] == [one.partition(":")[0] for one in told]
        third = _codes(store.gather(need(distinctions=True, ids=(id_of(3),))))
        assert [[code % len(KINDS) for code in held] for held in third] == [[code % len(KINDS) for code in codes[2]]]
        assert _codes(store.gather(need(distinctions=True, ids=()))) == []

    def test_a_revision_brings_its_distinctions_or_leaves_them(self, store: Store) -> None:
        """And each version keeps its own, also one that comes from elsewhere."""
        first = stored(1, distinctions=("text:a", "number:1"))
        add(store, first)
        second = memory(1).changed("update", NOW + timedelta(hours=1))
        third = second.changed("update", NOW + timedelta(hours=2))
        fourth = third.changed("update", NOW + timedelta(hours=3))
        store.apply(
            [Revise(second, distinctions=("text:b", "number:2")), Revise(third), Revise(fourth, distinctions=())]
        )
        expected = [("text:a", "number:1"), ("text:b", "number:2"), ("text:b", "number:2"), ()]
        kept = store.scan(EVERYTHING, versions=True)
        assert [item.distinctions for item in kept] == expected
        elsewhere = [replace(item, memory=replace(item.memory, id=id_of(2))) for item in kept]
        store.apply([Add(elsewhere[-1], tuple(elsewhere[:-1]))])
        assert [item.distinctions for item in store.scan(EVERYTHING, id_of(1), versions=True)] == expected
        assert only(store, 2).distinctions == ()
        assert _codes(store.gather(need(distinctions=True))) == [[], []]


def _codes(batch: Batch) -> list[list[int]]:
    assert batch.distinctions is not None
    return [batch.distinctions.of_row(row) for row in range(len(batch))]
