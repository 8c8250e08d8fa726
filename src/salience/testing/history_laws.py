"""Laws of history: what was is kept, and every read can be asked as of an earlier instant."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Final

import pytest

from salience.batch import COLUMNS
from salience.ports import Add, Change, Need, Revise, Store, Touch
from salience.records import Filter, Memory, Scope
from salience.testing.comparing import kept, shown
from salience.testing.memories import EVERYTHING, NOW, add, id_of, memory, need, numbers, only, stored, unit

HOUR: Final = timedelta(hours=1)
MOMENT: Final = timedelta(microseconds=1)
NAMES: Final = ("ann", "bob", "zoë")
PAST: Final = frozenset(COLUMNS) - {"turns_since_activation"}
"""The columns that are as they were; how long ago a memory was active in a session is not known of earlier instants."""


def at(hours: float) -> datetime:
    """Return the instant so many hours after `NOW`."""
    return NOW + hours * HOUR


def moved(of: Memory, hours: float, change: str = "update", **values: Any) -> Memory:
    """Return the next version of a memory, made at that hour."""
    return of.changed(change, at(hours), **values)


def asked(**values: Any) -> Need:
    """Return a need for all that is known of earlier instants."""
    return need(**{
        "columns": PAST, "vector": unit(1, 2), "voice": unit(0, 1), "terms": ("one", "two", "new"), "windows": True,
        "names": NAMES, "speakers": NAMES, "entities": True, "vectors": True, "distinctions": True, **values,
    })  # fmt: skip


ASKED: Final = (
    asked(),
    asked(candidates=2),
    asked(now=at(9)),
    asked(filter=Filter(kinds=["rule"], tiers=["semantic", "working"])),
    asked(filter=Filter(fact_keys=["theme"])),
    asked(scope=Scope(user_id="u"), ids=(id_of(1), id_of(4))),
    asked(scope=replace(EVERYTHING, tenant="other")),
)
"""Needs that are asked at every step of the story, and again later."""


def _story() -> list[list[Change]]:
    """Return what is done at `at(0)`, `at(1)` and so on: every kind of change that leaves a trace."""
    made: dict[str, Any] = {"created_at": NOW - HOUR, "session_id": "s"}
    first = stored(1, unit(1), ("one", "one"), distinctions=("number:1",), speaker="Ann", entities=("Zoë",), **made)
    theme = stored(2, fact_key="theme", kind="rule", **made, expires_at=at(8))
    one = memory(1, speaker="Ann", entities=("Zoë",), turn=1, **made)
    two = moved(one, 1, content="two", entities=("Bob", "Zoë"), speaker="Bob", importance=0.9, tags=("x",))
    three = moved(two, 4, "promote", tier="semantic", weight=0.25, kind="rule", tier_since=at(4))
    newer = stored(3, fact_key="theme", kind="rule", tier="working", created_at=at(2), updated_at=at(2),
                   changed_at=at(2), user_id="u")  # fmt: skip
    old = memory(2, fact_key="theme", kind="rule", **made, turn=2, expires_at=at(8))
    gone = moved(old, 5, "forget", forgotten_at=at(5))
    last = stored(4, supersedes=id_of(3), changed_at=at(6), created_at=at(6), updated_at=at(6), expires_at=at(8))
    touch = Touch(Scope(session_id="s"), (id_of(1), id_of(2)), at(3), 2, 0.25, activate=True, at=at(3))
    elsewhere = stored(1, tenant="other", content="new", changed_at=at(3))
    return [
        [Add(first), Add(theme)],
        [Revise(two, unit(0, 1), ("two",), sets_importance=True, distinctions=("name:bob", "text:two"))],
        [Add(newer)],
        [touch, Add(elsewhere)],
        [Revise(three, unembeds=True, terms=("two", "new"))],
        [Revise(gone)],
        [Add(last)],
        [Revise(moved(gone, 7, "restore", forgotten_at=None)), replace(touch, at=at(7), accessed_at=at(7))],
    ]


class HistoryLaws:
    """What a store keeps of what was; each test is a law."""

    def test_an_earlier_instant_is_answered_as_it_was_then(self, store: Store) -> None:
        """Columns, vectors, words, windows, entities, distinctions, filters; an instant later and one before the next.

        What the future did to a memory is nowhere in it, and what it brought is not there.
        """
        told: list[list[object]] = []
        ids = [id_of(n) for n in range(1, 5)]
        for changes in _story():
            store.apply(changes)
            told.append([shown(store.gather(each)) for each in ASKED])
            told[-1] += [store.fetch(EVERYTHING, ids), store.speakers(EVERYTHING, NAMES)]
        for hour, then in reversed(list(enumerate(told))):
            for instant in (at(hour), at(hour) + MOMENT, at(hour + 1) - MOMENT):
                found: list[object] = [shown(store.gather(replace(each, as_of=instant))) for each in ASKED]
                found += [store.fetch(EVERYTHING, ids, as_of=instant), store.speakers(EVERYTHING, NAMES, as_of=instant)]
                assert found == then
        assert len(store.gather(asked(as_of=at(0) - MOMENT))) == 0
        assert store.fetch(EVERYTHING, ids, as_of=at(0) - MOMENT) == []
        assert store.speakers(EVERYTHING, NAMES, as_of=at(0) - MOMENT) == []

    def test_no_activation_of_an_earlier_instant_is_known(self, store: Store) -> None:
        """The column is inf for all, also for what was active then."""
        add(store, stored(1))
        store.apply([Touch(Scope(session_id="s"), (id_of(1),), activate=True, at=at(1))])
        caller = replace(EVERYTHING, session_id="s", environment="default")
        assert store.gather(need(caller))["turns_since_activation"].tolist() == [0.0]
        for instant in (at(0), at(1), at(2)):
            assert store.gather(need(caller, as_of=instant))["turns_since_activation"].tolist() == [float("inf")]

    def test_of_versions_of_one_instant_the_last_one_held(self, store: Store) -> None:
        """A version that was replaced at once held at no instant."""
        add(store, stored(1))
        second = moved(memory(1), 1, weight=0.2)
        third = moved(second, 1, weight=0.3)
        fourth = moved(third, 2, weight=0.4)
        store.apply([Revise(second), Revise(third)])
        store.apply([Revise(fourth), Revise(moved(fourth, 2, "forget", forgotten_at=at(2)))])
        weights = {0.0: [1.0], 0.99: [1.0], 1.0: [0.3], 1.99: [0.3], 2.0: []}
        for hours, weight in weights.items():
            assert store.gather(need(as_of=at(hours)))["weight"].tolist() == weight
            assert [found.weight for found in store.fetch(EVERYTHING, [id_of(1)], as_of=at(hours))] == weight

    def test_a_clock_that_stepped_back_hides_no_version(self, store: Store) -> None:
        """A version is not older than the one before it, so that the last one always holds now."""
        add(store, stored(1, changed_at=at(5)))
        store.apply([Revise(moved(memory(1, changed_at=at(5)), 1, weight=0.2))])
        assert [item.memory.changed_at for item in store.history(EVERYTHING, id_of(1))] == [at(5), at(5)]
        assert store.gather(need(as_of=at(4)))["weight"].tolist() == []
        assert store.gather(need(as_of=at(5)))["weight"].tolist() == [0.2]

    def test_versions_from_elsewhere_are_the_past_here_too(self, store: Store) -> None:
        """Also where they come with instants that are not in their order: the last one made by then held."""
        past = (stored(1, content="a"), stored(1, content="b", version=2, changed_at=at(3)))
        store.apply([Add(stored(1, content="c", version=3, changed_at=at(2)), past)])
        for hours, content in {0: "a", 1.5: "a", 2: "c", 4: "c"}.items():
            assert [found.content for found in store.fetch(EVERYTHING, [id_of(1)], as_of=at(hours))] == [content]

    def test_counters_are_as_they_were(self, store: Store) -> None:
        """Before a touch, at it, between two and after; importance too, which touches raise."""
        add(store, stored(1), stored(2))
        for hour in (1, 3):
            store.apply([Touch(Scope(), (id_of(1),), at(hour), 1, 0.25, at=at(hour))])
        expected = {
            0: (0, 0.5, None),
            0.99: (0, 0.5, None),
            1: (1, 0.75, at(1)),
            2: (1, 0.75, at(1)),
            3: (2, 1.0, at(3)),
        }
        for hours, counters in expected.items():
            assert _counters(store, at(hours)) == counters
            batch = store.gather(need(as_of=at(hours)))
            assert (batch["access_count"].tolist(), batch["importance"].tolist()) == (
                [counters[0], 0], [counters[1], 0.5]
            )  # fmt: skip
            assert batch["accessed_at"][0] == (counters[2] or NOW).timestamp()
        assert _counters(store, None) == _counters(store, at(9)) == (2, 1.0, at(3))

    @pytest.mark.parametrize("instants", [(2, 2), (2, 4), (4, 2)], ids=["same", "forward", "back"])
    def test_touches_of_one_transaction_are_told_apart(self, store: Store, instants: tuple[int, int]) -> None:
        """Before both of them the counters are those before the first one, whatever the clock said."""
        add(store, stored(1))
        store.apply([Touch(Scope(), (id_of(1),), access_count=n + 1, at=at(hour)) for n, hour in enumerate(instants)])
        assert _counters(store, at(1))[0] == 0
        assert _counters(store, at(4))[0] == 3

    def test_no_touch_of_the_future_shows(self, store: Store) -> None:
        """Where a clock stepped back between two recalls, the earlier state has neither of those made after it."""
        add(store, stored(1))
        for hour in (5, 3):
            store.apply([Touch(Scope(), (id_of(1),), access_count=1, at=at(hour))])
        assert [_counters(store, at(hour))[0] for hour in (0, 2, 4, 5)] == [0, 0, 0, 2]

    def test_a_touch_and_a_revision_of_one_instant(self, store: Store) -> None:
        """In either order; each version has the counters that it had, and none that came later."""
        add(store, stored(1))
        scope, ids = Scope(), (id_of(1),)
        second = moved(memory(1), 2, weight=0.5)
        store.apply([Touch(scope, ids, access_count=1, at=at(2))])
        store.apply([Revise(second)])
        store.apply([Touch(scope, ids, access_count=1, at=at(2)), Touch(scope, ids, access_count=1, at=at(3))])
        found = [(hours, _counters(store, at(hours))[0]) for hours in (1, 2, 2.5, 3)]
        assert found == [(1, 0), (2, 2), (2.5, 2), (3, 3)]
        store.apply([Touch(scope, ids, access_count=1, at=at(4)), Revise(moved(second, 3.5, weight=0.6)),
                     Touch(scope, ids, access_count=1, at=at(4))])  # fmt: skip
        assert [_counters(store, at(hours))[0] for hours in (3, 3.75, 4)] == [3, 4, 5]

    def test_a_touch_without_an_instant_leaves_no_trace(self, store: Store) -> None:
        """Nobody asks back: the counters count as if they had been there before; nor does one that counts nothing."""
        add(store, stored(1))
        store.apply([Touch(Scope(), (id_of(1),), access_count=1), Touch(Scope(), (id_of(1),), at=at(1))])
        assert _counters(store, at(0))[0] == 1

    def test_expiry_is_a_matter_of_now(self, store: Store) -> None:
        """An expired memory is among the candidates of an earlier instant; `now` says whether it succeeds another."""
        add(store, stored(1), stored(2, supersedes=id_of(1), expires_at=at(1)))
        for now, successors in ((0, [True, False]), (2, [False, False])):
            batch = store.gather(need(as_of=at(0), now=at(now)))
            assert numbers(batch) == [1, 2]
            assert (batch["successor"] >= 0).tolist() == successors

    def test_a_short_id_means_what_was_there_then(self, store: Store) -> None:
        """One of twins that came later, or was forgotten by then, is in nobody's way."""
        twins = [f"{n:024x}0badcafe" for n in (1, 2)]
        add(store, stored(1, id=twins[0]), stored(2, id=twins[1], changed_at=at(2)))
        store.apply([Revise(moved(memory(1, id=twins[0]), 4, "forget", forgotten_at=at(4)))])
        for hours, found in {1: twins[:1], 3: [], 5: twins[1:]}.items():
            assert [held.id for held in store.fetch(EVERYTHING, ["0badcafe"], as_of=at(hours))] == found
        assert [held.id for held in store.fetch(EVERYTHING, ["0badcafe"])] == twins[1:]

    def test_history_has_every_version(self, store: Store) -> None:
        """Oldest first with all that belongs to each; live, forgotten and live again; by whole or short id."""
        first = stored(1, unit(1), ("a",), distinctions=("text:a",))
        add(store, first, stored(2))
        second = moved(memory(1), 1, content="b", content_hash="h", by="agent:x", reason="it changed")
        third = moved(second, 2, "forget", forgotten_at=at(2), by="user:u")
        store.apply([Touch(Scope(session_id="s"), (id_of(1),), activate=True)])
        store.apply([Revise(second, unit(0, 1), ("b",), distinctions=("text:b",)), Revise(third)])
        scope = Scope(session_id="s")
        expected = [
            kept(first), (second, unit(0, 1).tobytes(), ("b",), {}, ("text:b",)),
            (third, unit(0, 1).tobytes(), ("b",), {scope.session_key: 1}, ("text:b",)),
        ]  # fmt: skip
        for name in (id_of(1), first.memory.short_id):
            assert [kept(item) for item in store.history(EVERYTHING, name)] == expected
        fourth = moved(third, 3, "restore", forgotten_at=None)
        store.apply([Revise(fourth)])
        assert [item.memory for item in store.history(EVERYTHING, id_of(1))] == [
            first.memory, second, third, fourth
        ]  # fmt: skip

    def test_history_is_for_those_who_see_the_memory(self, store: Store) -> None:
        """None for what is absent, hidden or another tenant's; a short id that fits several fits none."""
        twins = [f"{n:024x}0badcafe" for n in (1, 2)]
        add(store, stored(1, user_id="u"), stored(1, tenant="other", content="other"))
        add(store, *(stored(5, id=twin, user_id=f"u{n}") for n, twin in enumerate(twins)))
        assert store.history(EVERYTHING, id_of(9)) == store.history(Scope(), id_of(1)) == []
        assert [item.memory.content for item in store.history(Scope("other"), id_of(1))] == ["other"]
        assert [item.memory.content for item in store.history(Scope(user_id="u"), id_of(1))] == ["memory 1"]
        assert store.history(EVERYTHING, "0badcafe") == []
        assert [item.memory.id for item in store.history(Scope(user_id="u1"), "0badcafe")] == [twins[1]]
        assert only(store, 1).memory.version == 1

    def test_who_why_and_what_from_come_back(self, store: Store) -> None:
        """In every version: who made it and why, what it follows, what it sums up, and what sums it up."""
        whole = memory(
            1, changed_by="user:ü", reason="a reason; 'quoted'", follows=id_of(2), reflection=id_of(5),
            sources=(id_of(3), id_of(4)),
        )  # fmt: skip
        store.apply([Add(replace(stored(1), memory=whole))])
        second = moved(whole, 1, "reflect", by="upkeep", follows=None, sources=(), reflection=None)
        store.apply([Revise(second)])
        assert [item.memory for item in store.history(EVERYTHING, id_of(1))] == [whole, second]
        assert store.fetch(EVERYTHING, [id_of(1)]) == [second]
        assert store.fetch(EVERYTHING, [id_of(1)], as_of=at(0)) == [whole]


def _counters(store: Store, as_of: datetime | None) -> tuple[int, float, datetime | None]:
    (found,) = store.fetch(EVERYTHING, [id_of(1)], as_of=as_of)
    return found.access_count, found.importance, found.accessed_at
