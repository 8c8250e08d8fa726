"""Laws of upkeep: leases, counting, and what is asked for by fact or by whether it has a vector."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from salience.errors import InputError, LeaseError, SalienceError, StoreError
from salience.ports import Add, Change, Erase, Lease, Prune, Revise, Store, Touch
from salience.records import Filter, Scope
from salience.testing.memories import EVERYTHING, NOW, add, id_of, listed, memory, need, numbers, stored, unit

MINUTE = timedelta(minutes=1)


def lease(holder: str, now: int, until: int, name: str = "upkeep") -> Lease:
    """Return a lease from one minute to another."""
    return Lease(name, holder, NOW + now * MINUTE, NOW + until * MINUTE)


class UpkeepLaws:
    """What keeps a store in order; each test is a law."""

    def test_one_holder_at_a_time_has_a_lease(self, store: Store) -> None:
        """Until it runs out, or is given back; the error says who has it and until when."""
        assert store.apply([lease("a", 0, 10)]) == []
        with pytest.raises(LeaseError, match=r"^upkeep: a .*2026-05-01T12:10:00\+00:00"):
            store.apply([lease("b", 9, 20)])
        store.apply([lease("b", 10, 20)])
        with pytest.raises(LeaseError, match="b is at it"):
            store.apply([lease("a", 19, 30)])

    def test_a_holder_may_prolong_and_give_back(self, store: Store) -> None:
        """Also after it ran out, while nobody else took it; another piece of work is another lease."""
        store.apply([lease("a", 0, 10), lease("b", 0, 90, "reembed")])
        store.apply([lease("a", 5, 20)])
        with pytest.raises(LeaseError):
            store.apply([lease("b", 15, 30)])
        store.apply([lease("a", 25, 40), lease("a", 26, 26)])
        store.apply([lease("b", 26, 30)])
        with pytest.raises(LeaseError):
            store.apply([lease("a", 27, 30)])

    def test_a_lease_that_is_not_to_be_had_undoes_the_rest(self, store: Store) -> None:
        """Work that begins with its lease is done by its holder, or not at all."""
        store.apply([lease("a", 0, 10)])
        with pytest.raises(LeaseError):
            store.apply([Add(stored(1)), lease("b", 1, 2, "other"), lease("b", 1, 2)])
        assert listed(store) == []
        store.apply([lease("c", 1, 2, "other")])

    def test_counted_changes_are_made_as_others_are(self, store: Store) -> None:
        """What is there already, what is touched, erased and pruned included, of any tenant."""
        history = (stored(3, content="a"),)
        add(store, stored(1), stored(2))
        second = memory(1).changed("update", NOW)
        changes: list[Change] = [
            Add(stored(1)), Add(stored(3, content="b", version=2), history), Revise(second), Add(stored(4, tenant="t")),
            Touch(Scope(), (id_of(1),), access_count=1, at=NOW), lease("a", 0, 1),
        ]  # fmt: skip
        receipts = store.apply(changes, counted=True)
        assert [receipt.status for receipt in receipts] == ["unchanged", "created", "updated", "created"]
        assert listed(store, versions=True) == [1, 1, 2, 3, 3]
        store.apply([Prune("default", ((id_of(1), 1), (id_of(9), 1)))], counted=True)
        store.apply([Erase("default", (id_of(3), id_of(2), id_of(3))), Add(stored(5))], counted=True)
        assert listed(store, versions=True) == [1, 5]

    def test_a_filter_finds_facts_by_their_key(self, store: Store) -> None:
        """One of several keys, whosever they are; none that merely looks like it."""
        keys = {1: "user.diet", 2: "user.residence", 3: None, 4: "user.diet", 5: "User.diet", 6: "user.diet.x"}
        add(store, *(stored(n, fact_key=key, user_id="u" if n == 4 else None) for n, key in keys.items()))
        for asked, found in (
            (["user.diet"], [1, 4]), (["user.residence", "user.diet"], [1, 2, 4]), (["none"], []), (["%"], [])
        ):  # fmt: skip
            batch = store.gather(need(filter=Filter(fact_keys=asked)))
            assert numbers(batch) == listed(store, filter=Filter(fact_keys=asked)) == found
            assert batch.complete
        assert numbers(store.gather(need(Scope(), filter=Filter(fact_keys=["user.diet"])))) == [1]
        store.apply([Revise(memory(1, fact_key="user.diet").changed("update", NOW + MINUTE, fact_key=None))])
        assert listed(store, filter=Filter(fact_keys=["user.diet"])) == [4]
        assert numbers(store.gather(need(filter=Filter(fact_keys=["user.diet"]), as_of=NOW))) == [1, 4]

    def test_what_has_no_vector_yet_is_always_a_candidate(self, store: Store) -> None:
        """However few are asked for; it passes the filter and is seen, or it is none. `embedded` tells it."""
        add(store, stored(1, unit(1)), stored(2, unit(0, 1)), stored(3, None), stored(4, None, kind="x"))
        add(store, stored(5, None, user_id="hidden"))
        for count, found in ((0, [3, 4]), (1, [1, 3, 4]), (2, [1, 2, 3, 4])):
            batch = store.gather(need(Scope(), vector=unit(1), candidates=count))
            assert numbers(batch) == found
            assert batch["embedded"].tolist() == [number < 3 for number in found]
            assert batch.complete == (count == 2)
        assert numbers(store.gather(need(Scope(), vector=unit(1), candidates=1, filter=Filter(kinds=["x"])))) == [4]

    def test_a_new_text_may_wait_for_its_vector(self, store: Store) -> None:
        """`unembeds` takes the old one away from the new version alone; a vector that comes along is taken."""
        add(store, stored(1, unit(1)), stored(2, unit(1)), stored(3, unit(1)))
        store.apply([
            Revise(memory(1).changed("update", NOW + MINUTE), terms=("new",), unembeds=True),
            Revise(memory(2).changed("update", NOW + MINUTE), unit(0, 1), unembeds=True),
            Revise(memory(3).changed("update", NOW + MINUTE)),
        ])  # fmt: skip
        batch = store.gather(need(vector=unit(0, 1)))
        assert batch["cosine"].tolist() == [0.0, 1.0, 0.0]
        assert batch["embedded"].tolist() == [False, True, True]
        assert [item.vector is None for item in store.history(EVERYTHING, id_of(1))] == [False, True]
        assert store.gather(need(vector=unit(1), as_of=NOW))["cosine"].tolist() == [1.0, 1.0, 1.0]
        assert store.gather(need(as_of=NOW + MINUTE))["embedded"].tolist() == [False, True, True]

    def test_a_sound_store_has_nothing_to_find(self, store: Store) -> None:
        """Nor to repair, whatever was done to it."""
        add(store, stored(1, session_id="s"), stored(2, None))
        store.apply([Revise(memory(1, session_id="s", turn=1).changed("update", NOW)), Erase("default", (id_of(2),))])
        assert store.check() == store.check(repair=True) == []
        assert listed(store, versions=True) == [1, 1]

    @pytest.mark.parametrize(
        "verb",
        [
            lambda store: store.history(EVERYTHING, id_of(1)),
            lambda store: store.speakers(EVERYTHING, ("ann",)),
            lambda store: store.fetch(EVERYTHING, [id_of(1)], as_of=NOW),
            lambda store: store.gather(need(as_of=NOW)),
            lambda store: store.unembedded(),
            lambda store: store.pinned(),
            lambda store: store.check(),
            lambda store: store.apply([Erase("default", (id_of(1),))]),
        ],
        ids=["history", "speakers", "fetch", "gather", "unembedded", "pinned", "check", "erase"],
    )
    def test_a_closed_store_says_so_to_the_newer_verbs(self, store: Store, verb: Callable[[Store], Any]) -> None:
        """As to the others."""
        add(store, stored(1))
        store.close()
        with pytest.raises(StoreError, match="closed"):
            verb(store)

    def test_no_error_of_upkeep_says_what_a_memory_says(self, store: Store) -> None:
        """They name ids, holders and counts."""
        add(store, stored(1, content="secret"))
        store.apply([lease("a", 0, 10)])
        failing: list[Change] = [Erase("default", (id_of(1), id_of(2))), lease("b", 1, 2)]
        for change in failing:
            with pytest.raises(SalienceError) as caught:
                store.apply([change])
            assert not isinstance(caught.value, InputError)
            assert "secret" not in str(caught.value)
