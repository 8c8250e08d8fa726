"""Contract of the past: reads as of an instant, history, erasing and pruning."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Final

import pytest

from salience.batch import COLUMNS
from salience.errors import StaleError
from salience.ports import Add, Change, Derive, Erase, Need, Prune, Revise, RevisionFilter, Store, Touch
from salience.records import ANY, Filter, Memory, Relation, Scope
from tests.contract.memories import (
    EVERYTHING,
    NOW,
    add,
    comparable,
    id_of,
    listed,
    memory,
    need,
    numbers,
    only,
    replaces,
    shown,
    stored,
    successors,
    unit,
)

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


def full_need(**values: Any) -> Need:
    """Return a need for everything that a store knows of earlier instants."""
    return need(**{
        "columns": PAST, "vector": unit(1, 2), "first_person_vector": unit(0, 1), "terms": ("one", "two", "new"),
        "windows": True, "names": NAMES, "speakers": NAMES, "entities": True, "vectors": True, "distinctions": True,
        **values,
    })  # fmt: skip


NEEDS: Final = (
    full_need(),
    full_need(candidates=2),
    full_need(now=at(9)),
    full_need(filter=Filter(kinds=["rule"], tiers=["semantic", "working"])),
    full_need(filter=Filter(fact_keys=["theme"])),
    full_need(scope=Scope(user_id="u"), ids=(id_of(1), id_of(4))),
    full_need(scope=replace(EVERYTHING, tenant="other")),
)
"""Needs that are gathered after every step of the story, and again later as of that step."""


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


def _counters(store: Store, as_of: datetime | None) -> tuple[int, float, datetime | None]:
    (found,) = store.fetch(EVERYTHING, [id_of(1)], as_of=as_of)
    return found.access_count, found.importance, found.accessed_at


OTHER = Scope("other")


class HistoryContract:
    """The past stays readable until it is pruned; erased memories leave nothing."""

    def test_reads_as_of_an_instant_equal_the_reads_of_that_time(self, store: Store) -> None:
        """At the instant of each change, just after it, and just before the next one."""
        answers: list[list[object]] = []
        ids = [id_of(n) for n in range(1, 5)]
        for changes in _story():
            store.apply(changes)
            answers.append([shown(store.gather(each)) for each in NEEDS])
            answers[-1] += [store.fetch(EVERYTHING, ids), store.speakers(EVERYTHING, NAMES)]
        for hour, then in reversed(list(enumerate(answers))):
            for instant in (at(hour), at(hour) + MOMENT, at(hour + 1) - MOMENT):
                found: list[object] = [shown(store.gather(replace(each, as_of=instant))) for each in NEEDS]
                found += [store.fetch(EVERYTHING, ids, as_of=instant), store.speakers(EVERYTHING, NAMES, as_of=instant)]
                assert found == then
        assert len(store.gather(full_need(as_of=at(0) - MOMENT))) == 0
        assert store.fetch(EVERYTHING, ids, as_of=at(0) - MOMENT) == []
        assert store.speakers(EVERYTHING, NAMES, as_of=at(0) - MOMENT) == []

    def test_revisions_are_the_versions_newest_first_page_by_page(self, store: Store) -> None:
        for changes in _story():
            store.apply(changes)
        found = store.revisions(EVERYTHING)
        keys = [(one.memory.changed_at, one.memory.id, one.memory.version) for one in found]
        assert keys == sorted(keys, reverse=True)
        versions = [store.history(EVERYTHING, id_of(n)) for n in range(1, 5)]
        assert sorted(keys) == sorted(
            (item.memory.changed_at, item.memory.id, item.memory.version) for each in versions for item in each
        )
        by_key = {(item.memory.id, item.memory.version): item.memory for each in versions for item in each}
        for one in found:
            name, version = one.memory.id, one.memory.version
            assert one.memory == by_key[name, version]
            assert one.previous == by_key.get((name, version - 1))
            following = by_key.get((name, version + 1))
            assert one.until == (None if following is None else following.changed_at)
        pages, last = list[Any](), None
        while page := store.revisions(EVERYTHING, last, 2):
            assert len(page) <= 2
            pages += page
            last = (page[-1].memory.changed_at, page[-1].memory.id, page[-1].memory.version)
        assert pages == found

    def test_revisions_are_filtered_and_those_of_visible_memories(self, store: Store) -> None:
        add(store, stored(1), stored(2, project="p"), stored(3, user_id="u"), stored(4, tenant="other"))
        store.apply([Revise(moved(memory(1), 1, "forget", changed_by="upkeep", forgotten_at=at(1)))])
        store.apply([Revise(moved(memory(3, user_id="u"), 2, weight=0.5))])

        def shown_by(scope: Scope = EVERYTHING, **conditions: Any) -> list[tuple[int, int]]:
            found = store.revisions(scope, filter=RevisionFilter(**conditions))
            return [(int(one.memory.id, 16), one.memory.version) for one in found]

        assert shown_by() == [(3, 2), (1, 2), (3, 1), (2, 1), (1, 1)]
        assert shown_by(Scope()) == [(1, 2), (1, 1)]
        assert shown_by(Scope(user_id="u")) == [(3, 2), (1, 2), (3, 1), (1, 1)]
        assert shown_by(Scope(user_id="v", project="p")) == [(1, 2), (2, 1), (1, 1)]
        assert shown_by(Scope("other")) == [(4, 1)]
        assert shown_by(change="forget") == shown_by(changed_by="upkeep") == [(1, 2)]
        assert shown_by(since=at(1), until=at(2)) == [(1, 2)]
        assert shown_by(level="project") == [(2, 1)]
        assert shown_by(level="global", change="create") == [(3, 1), (1, 1)]

    def test_daily_counts_versions_texts_and_last_recalls_by_day(self, store: Store) -> None:
        add(store, stored(1), stored(2, user_id="u"), stored(3, project="p"), stored(4, tenant="other"))
        store.apply([Revise(moved(memory(1), 24)), Touch(Scope(), (id_of(1),), at(48), at=at(48))])
        store.apply([Revise(moved(moved(memory(1), 24), 49, "forget", forgotten_at=at(49)))])
        first, second, third = (at(24 * day).date() for day in range(3))

        def counted(scope: Scope = EVERYTHING, **conditions: Any) -> list[tuple[Any, str, int]]:
            return sorted(store.daily(scope, RevisionFilter(**conditions)))

        changed = [(second, "update", 1), (third, "forget", 1), (third, "recall", 1)]
        assert counted() == [(first, "create", 3), (first, "date", 3), *changed]
        assert counted(Scope()) == [(first, "create", 1), (first, "date", 1), *changed]
        assert counted(Scope(user_id="u")) == [(first, "create", 2), (first, "date", 2), *changed]
        assert counted(level="project") == counted(Scope("other")) == [(first, "create", 1), (first, "date", 1)]
        assert counted(Scope(), since=at(24), until=at(49)) == [changed[0], changed[2]]

    def test_activations_are_unknown_as_of_an_earlier_instant(self, store: Store) -> None:
        add(store, stored(1))
        store.apply([Touch(Scope(session_id="s"), (id_of(1),), activate=True, at=at(1))])
        caller = replace(EVERYTHING, session_id="s", environment="default")
        assert store.gather(need(caller))["turns_since_activation"].tolist() == [0.0]
        for instant in (at(0), at(1), at(2)):
            assert store.gather(need(caller, as_of=instant))["turns_since_activation"].tolist() == [float("inf")]

    def test_of_versions_of_one_instant_the_last_one_counts(self, store: Store) -> None:
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
        """A version never begins before the previous one, so the last one is always current."""
        add(store, stored(1, changed_at=at(5)))
        store.apply([Revise(moved(memory(1, changed_at=at(5)), 1, weight=0.2))])
        assert [item.memory.changed_at for item in store.history(EVERYTHING, id_of(1))] == [at(5), at(5)]
        assert store.gather(need(as_of=at(4)))["weight"].tolist() == []
        assert store.gather(need(as_of=at(5)))["weight"].tolist() == [0.2]

    def test_added_versions_are_read_as_of_their_instants(self, store: Store) -> None:
        past = (stored(1, content="a"), stored(1, content="b", version=2, changed_at=at(3)))
        store.apply([Add(stored(1, content="c", version=3, changed_at=at(2)), past)])
        for hours, content in {0: "a", 1.5: "a", 2: "c", 4: "c"}.items():
            assert [found.content for found in store.fetch(EVERYTHING, [id_of(1)], as_of=at(hours))] == [content]

    def test_counters_are_as_they_were(self, store: Store) -> None:
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
    def test_as_of_separates_touches_of_one_transaction(self, store: Store, instants: tuple[int, int]) -> None:
        add(store, stored(1))
        store.apply([Touch(Scope(), (id_of(1),), access_count=n + 1, at=at(hour)) for n, hour in enumerate(instants)])
        assert _counters(store, at(1))[0] == 0
        assert _counters(store, at(4))[0] == 3

    def test_as_of_ignores_later_touches_after_a_clock_step_back(self, store: Store) -> None:
        add(store, stored(1))
        for hour in (5, 3):
            store.apply([Touch(Scope(), (id_of(1),), access_count=1, at=at(hour))])
        assert [_counters(store, at(hour))[0] for hour in (0, 2, 4, 5)] == [0, 0, 0, 2]

    def test_a_touch_and_a_revision_of_one_instant(self, store: Store) -> None:
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
        """The counters of earlier instants include it."""
        add(store, stored(1))
        store.apply([Touch(Scope(), (id_of(1),), access_count=1), Touch(Scope(), (id_of(1),), at=at(1))])
        assert _counters(store, at(0))[0] == 1

    def test_expiry_depends_on_now_and_not_on_as_of(self, store: Store) -> None:
        add(store, stored(1), stored(2, relations=(replaces(1),), expires_at=at(1)))
        for now, replaced in ((0, [True, False]), (2, [False, False])):
            batch = store.gather(need(as_of=at(0), now=at(now), successors=True))
            assert numbers(batch) == [1, 2]
            assert [one is not None for one in successors(batch)] == replaced

    def test_relations_are_those_of_the_version_of_the_instant(self, store: Store) -> None:
        first = memory(3, relations=(replaces(1, 0.8),))
        second = moved(first, 2, relations=(replaces(2, 0.6),))
        third = moved(second, 4, "forget", forgotten_at=at(4))
        add(store, stored(1), stored(2), replace(stored(3), memory=first))
        store.apply([Revise(second), Revise(third)])
        found = {}
        for hours in (0, 1, 2, 3, 5):
            batch = store.gather(need(as_of=at(hours), successors=True))
            found[hours] = successors(batch)[:2], batch["replaced"].tolist()[:2]
        before, after = ([3, None], [0.8, 0.0]), ([None, 3], [0.0, 0.6])
        assert found == {0: before, 1: before, 2: after, 3: after, 5: ([None, None], [0.0, 0.0])}
        assert [item.memory.relations for item in store.history(EVERYTHING, id_of(3))] == [
            first.relations, second.relations, second.relations
        ]  # fmt: skip
        assert store.fetch(EVERYTHING, [id_of(3)], as_of=at(1)) == [first]

    def test_relations_of_an_earlier_version_can_be_derived(self, store: Store) -> None:
        """Upkeep may decide them after the memory was revised."""
        first = memory(2, relations=None)
        add(store, stored(1), replace(stored(2), memory=first))
        second = moved(first, 2)
        store.apply([Revise(second), Derive("default", id_of(2), 1, first.content_hash, relations=(replaces(1),))])
        assert [item.memory.relations for item in store.history(EVERYTHING, id_of(2))] == [(replaces(1),), None]
        assert successors(store.gather(need(as_of=at(1), successors=True))) == [2, None]
        assert successors(store.gather(need(successors=True))) == [None, None]

    def test_a_short_id_is_resolved_as_of_the_instant(self, store: Store) -> None:
        twins = [f"{n:024x}0badcafe" for n in (1, 2)]
        add(store, stored(1, id=twins[0]), stored(2, id=twins[1], changed_at=at(2)))
        store.apply([Revise(moved(memory(1, id=twins[0]), 4, "forget", forgotten_at=at(4)))])
        for hours, found in {1: twins[:1], 3: [], 5: twins[1:]}.items():
            assert [held.id for held in store.fetch(EVERYTHING, ["0badcafe"], as_of=at(hours))] == found
        assert [held.id for held in store.fetch(EVERYTHING, ["0badcafe"])] == twins[1:]

    def test_history_has_every_version(self, store: Store) -> None:
        first = stored(1, unit(1), ("a",), distinctions=("text:a",))
        add(store, first, stored(2))
        second = moved(memory(1), 1, content="b", content_hash="h", by="agent:x", reason="it changed")
        third = moved(second, 2, "forget", forgotten_at=at(2), by="user:u")
        store.apply([Touch(Scope(session_id="s"), (id_of(1),), activate=True)])
        store.apply([Revise(second, unit(0, 1), ("b",), distinctions=("text:b",)), Revise(third)])
        scope = Scope(session_id="s")
        expected = [
            comparable(first), (second, unit(0, 1).tobytes(), ("b",), {}, ("text:b",), None, None),
            (third, unit(0, 1).tobytes(), ("b",), {scope.session_key: 1}, ("text:b",), None, None),
        ]  # fmt: skip
        for name in (id_of(1), first.memory.short_id):
            assert [comparable(item) for item in store.history(EVERYTHING, name)] == expected
        fourth = moved(third, 3, "restore", forgotten_at=None)
        store.apply([Revise(fourth)])
        assert [item.memory for item in store.history(EVERYTHING, id_of(1))] == [
            first.memory, second, third, fourth
        ]  # fmt: skip

    def test_history_is_empty_for_invisible_memories(self, store: Store) -> None:
        twins = [f"{n:024x}0badcafe" for n in (1, 2)]
        add(store, stored(1, user_id="u"), stored(1, tenant="other", content="other"))
        add(store, *(stored(5, id=twin, user_id=f"u{n}") for n, twin in enumerate(twins)))
        assert store.history(EVERYTHING, id_of(9)) == store.history(Scope(), id_of(1)) == []
        assert [item.memory.content for item in store.history(Scope("other"), id_of(1))] == ["other"]
        assert [item.memory.content for item in store.history(Scope(user_id="u"), id_of(1))] == ["memory 1"]
        assert store.history(EVERYTHING, "0badcafe") == []
        assert [item.memory.id for item in store.history(Scope(user_id="u1"), "0badcafe")] == [twins[1]]
        assert only(store, 1).memory.version == 1

    def test_author_reason_and_links_come_back(self, store: Store) -> None:
        whole = memory(
            1, changed_by="user:ü", reason="a reason; 'quoted'", reflection=id_of(5), sources=(id_of(3), id_of(4)),
            relations=(replaces(2), Relation(id_of(9), "adds", 0.5, "jüdge", "words of 'both'")),
        )  # fmt: skip
        store.apply([Add(replace(stored(1), memory=whole))])
        second = moved(whole, 1, "reflect", by="upkeep", relations=(), sources=(), reflection=None)
        store.apply([Revise(second)])
        assert [item.memory for item in store.history(EVERYTHING, id_of(1))] == [whole, second]
        assert store.fetch(EVERYTHING, [id_of(1)]) == [second]
        assert store.fetch(EVERYTHING, [id_of(1)], as_of=at(0)) == [whole]

    def test_an_erased_memory_is_in_no_answer(self, store: Store) -> None:
        fields: dict[str, Any] = {"entities": ("Zoë",), "speaker": "Bob", "key": "k", "fact_key": "f"}
        add(store, stored(1, unit(1), ("x",), **fields), stored(2, unit(0, 1), ("x", "y")))
        store.apply([Revise(memory(1, **fields).changed("update", NOW + HOUR, content="two"), terms=("x", "z"))])
        add(store, stored(3, supersedes=id_of(1), relations=(replaces(1), replaces(2))))
        assert store.gather(need())["supersedes"][2] >= 0
        assert store.apply([Erase("default", (id_of(1),))]) == []
        wanted: dict[str, Any] = {"terms": ("x", "z"), "entities": True, "names": ("zoë",), "successors": True}
        batch = store.gather(need(vector=unit(1), vectors=True, **wanted))
        assert numbers(batch) == listed(store, forgotten=True, versions=True) == [2, 3]
        assert (batch["supersedes"].tolist(), successors(batch)) == ([-1, -1], [3, None])
        assert batch.lexicon is not None
        assert (batch.lexicon.documents, batch.lexicon.document_frequency.tolist()) == (2, [1.0, 0.0])
        assert batch.entities is not None
        assert (len(batch.entities.of_query), batch.entities.documents) == (0, 2)
        found = [store.history(EVERYTHING, id_of(1)), store.fetch(EVERYTHING, [id_of(1), memory(1).short_id])]
        assert [*found, store.speakers(EVERYTHING, ("bob",)), store.find_by_key(Scope(), ["k"])] == [[], [], [], []]
        for instant in (NOW, NOW + HOUR):
            assert numbers(store.gather(need(as_of=instant))) == [2, 3]
            assert store.fetch(EVERYTHING, [id_of(1)], as_of=instant) == []
            assert store.speakers(EVERYTHING, ("bob",), as_of=instant) == []

    def test_an_erased_id_and_key_are_free_again(self, store: Store) -> None:
        add(store, stored(1, unit(1), ("old",), key="k", entities=("Old",)))
        store.apply([Touch(Scope(session_id="s"), (id_of(1),), NOW, 3, 0.2, activate=True, at=NOW)])
        store.apply([Revise(only(store, 1).memory.changed("update", NOW))])
        assert numbers(store.gather(need(terms=("old",)))) == [1]
        store.apply([Erase("default", (id_of(1),))])
        again = stored(1, unit(0, 1), ("new",), key="k", content="new")
        assert add(store, again)[0].status == "created"
        assert [comparable(item) for item in store.history(EVERYTHING, id_of(1))] == [comparable(again)]
        batch = store.gather(need(vector=unit(0, 1), terms=("old", "new")))
        assert (batch["cosine"].tolist(), batch["access_count"].tolist()) == ([1.0], [0])
        assert batch.lexicon is not None
        assert batch.lexicon.document_frequency.tolist() == [0.0, 1.0]
        assert store.fetch(EVERYTHING, [id_of(1)], as_of=NOW) == [again.memory]

    def test_a_session_ends_with_its_last_memory(self, store: Store) -> None:
        add(store, stored(1, session_id="s"), stored(2, session_id="t"), stored(3, session_id="t"), stored(4))
        for name in ("s", "t"):
            store.apply([Touch(Scope(session_id=name), (id_of(4),), activate=True)])
        store.apply([Erase("default", (id_of(1), id_of(2)))])
        assert dict(only(store, 4).activations) == {str(Scope(session_id="t").session_key): 4 - 1}
        receipts = add(store, stored(5, session_id="s"), stored(6, session_id="t"))
        assert [receipt.memory.turn for receipt in receipts] == [1, 4]
        turns = store.gather(need(replace(EVERYTHING, environment="default", session_id="s")))["turns_since_activation"]
        assert turns.tolist() == [float("inf")] * 4

    def test_a_session_is_one_users_in_one_environment(self, store: Store) -> None:
        homes: list[dict[str, Any]] = [{}, {"user_id": "u"}, {"environment": "e"}]
        add(store, *(stored(n, session_id="s", **home) for n, home in enumerate(homes)))
        add(store, stored(9, session_id="s", tenant="other"))
        store.apply([Erase("default", (id_of(0),))])
        receipts = add(store, *(stored(20 + n, session_id="s", **home) for n, home in enumerate(homes)))
        receipts += add(store, stored(30, session_id="s", tenant="other"))
        assert [receipt.memory.turn for receipt in receipts] == [1, 2, 2, 2]

    def test_erase_ends_the_empty_sessions_of_its_scope(self, store: Store) -> None:
        add(store, stored(1), stored(2, user_id="u", session_id="s"))
        callers = [{"user_id": "u", "session_id": "s"}, {"user_id": "u", "session_id": "t"}, {"session_id": "t"},
                   {"user_id": "u", "environment": "e", "session_id": "t"}]  # fmt: skip
        keys = [str(Scope(**caller).session_key) for caller in callers]
        store.apply([Touch(Scope(**caller), (id_of(1),), activate=True) for caller in callers])
        assert sorted(only(store, 1).activations) == sorted(keys)
        store.apply([Erase("default", (), Scope(user_id="u", session_id="x")), Erase("other", (), Scope(user_id="u"))])
        assert len(only(store, 1).activations) == 4
        store.apply([Erase("default", (), Scope(user_id="u"))])
        assert sorted(only(store, 1).activations) == sorted((keys[0], keys[2], keys[3]))
        store.apply([Erase("default", (id_of(2),), Scope(environment=ANY, user_id=ANY))])
        assert dict(only(store, 1).activations) == {}
        assert add(store, stored(3, user_id="u", session_id="s"))[0].memory.turn == 1

    @pytest.mark.parametrize("ids", [(9,), (1, 9), (1, 2, 1, 9)])
    def test_erase_refuses_absent_ids_and_rolls_back(self, store: Store, ids: tuple[int, ...]) -> None:
        add(store, stored(1, key="k", session_id="s"), stored(2), stored(9, tenant="other"))
        before = [comparable(item) for item in store.scan(EVERYTHING)]
        with pytest.raises(StaleError, match="to erase"):
            store.apply([Add(stored(3)), Erase("default", (id_of(2),)), Erase("default", tuple(map(id_of, ids)))])
        assert [comparable(item) for item in store.scan(EVERYTHING)] == before
        assert numbers(store.gather(need())) == [1, 2]
        assert add(store, stored(4, session_id="s"))[0].memory.turn == 2
        store.apply([Erase("default", (id_of(1), id_of(2), id_of(1)))])
        assert listed(store) == [4]

    def test_erase_affects_only_its_tenant(self, store: Store) -> None:
        add(store, stored(1), stored(1, tenant="other"))
        store.apply([Revise(memory(1, tenant="other").changed("update", NOW))])
        store.apply([Revise(memory(1).changed("forget", NOW, forgotten_at=NOW))])
        store.apply([Erase("default", (id_of(1),))])
        assert listed(store, forgotten=True) == []
        assert [item.memory.version for item in store.history(OTHER, id_of(1))] == [1, 2]

    def test_an_erased_memory_cannot_be_touched_or_revised(self, store: Store) -> None:
        add(store, stored(1))
        store.apply([Erase("default", (id_of(1),)), Touch(Scope(), (id_of(1),), access_count=1, at=NOW)])
        with pytest.raises(StaleError):
            store.apply([Revise(memory(1).changed("update", NOW))])
        assert store.scan(EVERYTHING, forgotten=True, versions=True) == []

    def test_pruning_never_drops_the_current_version(self, store: Store) -> None:
        add(store, stored(1), stored(2), stored(1, tenant="other"))
        for tenant in ("default", "other"):
            second = memory(1, tenant=tenant).changed("update", NOW + HOUR)
            store.apply([Revise(second), Revise(second.changed("update", NOW + 2 * HOUR))])
        named = ((id_of(1), 1), (id_of(1), 3), (id_of(1), 7), (id_of(2), 1), (id_of(9), 1))
        assert store.apply([Prune("default", named)]) == []
        assert [item.memory.version for item in store.history(EVERYTHING, id_of(1))] == [2, 3]
        assert [item.memory.version for item in store.history(EVERYTHING, id_of(2))] == [1]
        assert [item.memory.version for item in store.history(OTHER, id_of(1))] == [1, 2, 3]
        store.apply([Prune("default", named)])
        assert listed(store, versions=True) == [1, 1, 2]

    def test_as_of_before_the_oldest_version_finds_nothing(self, store: Store) -> None:
        add(store, stored(1))
        store.apply([Revise(memory(1).changed("update", NOW + HOUR, weight=0.5))])
        assert numbers(store.gather(need(as_of=NOW))) == [1]
        store.apply([Prune("default", ((id_of(1), 1),))])
        assert numbers(store.gather(need(as_of=NOW))) == []
        assert store.gather(need(as_of=NOW + HOUR))["weight"].tolist() == [0.5]

    def test_pruning_drops_counters_before_an_instant(self, store: Store) -> None:
        add(store, stored(1), stored(1, tenant="other"))
        for tenant in ("default", "other"):
            for hour in (1, 2, 3):
                store.apply([Touch(Scope(tenant), (id_of(1),), access_count=1, at=NOW + hour * HOUR)])
        store.apply([Prune("default", touches_before=NOW + 2 * HOUR)])
        for tenant, counts in (("default", [1, 1, 2, 3]), ("other", [0, 1, 2, 3])):
            scope = replace(EVERYTHING, tenant=tenant)
            found = [store.fetch(scope, [id_of(1)], as_of=NOW + hour * HOUR)[0].access_count for hour in range(4)]
            assert found == counts
        store.apply([Prune("default", touches_before=NOW + 9 * HOUR)])
        assert [found.access_count for found in store.fetch(EVERYTHING, [id_of(1)], as_of=NOW)] == [3]
