"""Laws of what goes for good: memories that are erased, and what is kept of the past and pruned."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from salience.errors import StaleError
from salience.ports import Add, Erase, Prune, Revise, Store, Touch
from salience.records import ANY, Scope
from salience.testing.comparing import kept
from salience.testing.memories import EVERYTHING, NOW, add, id_of, listed, memory, need, numbers, only, stored, unit

HOUR = timedelta(hours=1)
OTHER = Scope("other")


class EraseLaws:
    """What deletes, deletes all; each test is a law."""

    def test_what_is_erased_is_in_no_answer(self, store: Store) -> None:
        """Row, versions, terms, entities, speaker, vector, past states; and nothing else goes."""
        said: dict[str, Any] = {"entities": ("Zoë",), "speaker": "Bob", "key": "k", "fact_key": "f"}
        add(store, stored(1, unit(1), ("x",), **said), stored(2, unit(0, 1), ("x", "y")))
        store.apply([Revise(memory(1, **said).changed("update", NOW + HOUR, content="two"), terms=("x", "z"))])
        add(store, stored(3, supersedes=id_of(1)))
        assert store.gather(need())["supersedes"][2] >= 0
        assert store.apply([Erase("default", (id_of(1),))]) == []
        batch = store.gather(need(vector=unit(1), terms=("x", "z"), entities=True, names=("zoë",), vectors=True))
        assert numbers(batch) == listed(store, forgotten=True, versions=True) == [2, 3]
        assert batch["supersedes"].tolist() == batch["successor"].tolist() == [-1, -1]
        assert batch.lexicon is not None
        assert (batch.lexicon.documents, batch.lexicon.document_frequency.tolist()) == (2, [1.0, 0.0])
        assert batch.entities is not None
        assert (len(batch.entities.of_query), batch.entities.documents) == (0, 2)
        found = [store.history(EVERYTHING, id_of(1)), store.fetch(EVERYTHING, [id_of(1), memory(1).short_id])]
        assert [*found, store.speakers(EVERYTHING, ("bob",)), store.keyed(Scope(), ["k"])] == [[], [], [], []]
        for instant in (NOW, NOW + HOUR):
            assert numbers(store.gather(need(as_of=instant))) == [2, 3]
            assert store.fetch(EVERYTHING, [id_of(1)], as_of=instant) == []
            assert store.speakers(EVERYTHING, ("bob",), as_of=instant) == []

    def test_an_erased_name_is_free_again(self, store: Store) -> None:
        """Its id and its key; what is stored under them has nothing of what was there."""
        add(store, stored(1, unit(1), ("old",), key="k", entities=("Old",)))
        store.apply([Touch(Scope(session_id="s"), (id_of(1),), NOW, 3, 0.2, activate=True, at=NOW)])
        store.apply([Revise(only(store, 1).memory.changed("update", NOW))])
        assert numbers(store.gather(need(terms=("old",)))) == [1]
        store.apply([Erase("default", (id_of(1),))])
        again = stored(1, unit(0, 1), ("new",), key="k", content="new")
        assert add(store, again)[0].status == "created"
        assert [kept(item) for item in store.history(EVERYTHING, id_of(1))] == [kept(again)]
        batch = store.gather(need(vector=unit(0, 1), terms=("old", "new")))
        assert (batch["cosine"].tolist(), batch["access_count"].tolist()) == ([1.0], [0])
        assert batch.lexicon is not None
        assert batch.lexicon.document_frequency.tolist() == [0.0, 1.0]
        assert store.fetch(EVERYTHING, [id_of(1)], as_of=NOW) == [again.memory]

    def test_a_session_ends_with_its_last_memory(self, store: Store) -> None:
        """Its clock begins anew, and what was active in it is so no more; a session with a memory left goes on."""
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
        """One of the same name elsewhere is no reason for it to stay, nor does it end with it."""
        homes: list[dict[str, Any]] = [{}, {"user_id": "u"}, {"environment": "e"}]
        add(store, *(stored(n, session_id="s", **home) for n, home in enumerate(homes)))
        add(store, stored(9, session_id="s", tenant="other"))
        store.apply([Erase("default", (id_of(0),))])
        receipts = add(store, *(stored(20 + n, session_id="s", **home) for n, home in enumerate(homes)))
        receipts += add(store, stored(30, session_id="s", tenant="other"))
        assert [receipt.memory.turn for receipt in receipts] == [1, 2, 2, 2]

    def test_sessions_without_a_memory_go_where_it_is_said_whose(self, store: Store) -> None:
        """Those of a user of an environment in which that one only asked; one with a memory in it goes on."""
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
    def test_all_that_is_to_be_erased_must_be_there(self, store: Store, ids: tuple[int, ...]) -> None:
        """Else nothing is: not what comes before it in the same transaction either. An id may come twice."""
        add(store, stored(1, key="k", session_id="s"), stored(2), stored(9, tenant="other"))
        before = [kept(item) for item in store.scan(EVERYTHING)]
        with pytest.raises(StaleError, match="to erase"):
            store.apply([Add(stored(3)), Erase("default", (id_of(2),)), Erase("default", tuple(map(id_of, ids)))])
        assert [kept(item) for item in store.scan(EVERYTHING)] == before
        assert numbers(store.gather(need())) == [1, 2]
        assert add(store, stored(4, session_id="s"))[0].memory.turn == 2
        store.apply([Erase("default", (id_of(1), id_of(2), id_of(1)))])
        assert listed(store) == [4]

    def test_a_tenant_erases_its_own(self, store: Store) -> None:
        """Forgotten ones too; another tenant's memory of the same id stays with its versions."""
        add(store, stored(1), stored(1, tenant="other"))
        store.apply([Revise(memory(1, tenant="other").changed("update", NOW))])
        store.apply([Revise(memory(1).changed("forget", NOW, forgotten_at=NOW))])
        store.apply([Erase("default", (id_of(1),))])
        assert listed(store, forgotten=True) == []
        assert [item.memory.version for item in store.history(OTHER, id_of(1))] == [1, 2]

    def test_an_erased_memory_takes_no_vector_any_more(self, store: Store) -> None:
        """Nor is it touched or revised: it is gone for those who read it before."""
        add(store, stored(1))
        store.apply([Erase("default", (id_of(1),)), Touch(Scope(), (id_of(1),), access_count=1, at=NOW)])
        with pytest.raises(StaleError):
            store.apply([Revise(memory(1).changed("update", NOW))])
        assert store.scan(EVERYTHING, forgotten=True, versions=True) == []


class PruneLaws:
    """What is dropped of the past; each test is a law."""

    def test_versions_are_dropped_and_the_current_one_never(self, store: Store) -> None:
        """Those that are named; absent ones, and those of other tenants and memories, are passed over."""
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

    def test_of_a_time_without_versions_nothing_is_known(self, store: Store) -> None:
        """The memory is not there then; from the oldest version that is left on, it is."""
        add(store, stored(1))
        store.apply([Revise(memory(1).changed("update", NOW + HOUR, weight=0.5))])
        assert numbers(store.gather(need(as_of=NOW))) == [1]
        store.apply([Prune("default", ((id_of(1), 1),))])
        assert numbers(store.gather(need(as_of=NOW))) == []
        assert store.gather(need(as_of=NOW + HOUR))["weight"].tolist() == [0.5]

    def test_counters_before_an_instant_are_dropped(self, store: Store) -> None:
        """A state before it has the counters that the memory had at that instant; one after it is as it was."""
        add(store, stored(1), stored(1, tenant="other"))
        for tenant in ("default", "other"):
            for hour in (1, 2, 3):
                store.apply([Touch(Scope(tenant), (id_of(1),), access_count=1, at=NOW + hour * HOUR)])
        store.apply([Prune("default", touches_before=NOW + 2 * HOUR)])
        for tenant, counts in (("default", [1, 1, 2, 3]), ("other", [0, 1, 2, 3])):
            asked = replace(EVERYTHING, tenant=tenant)
            found = [store.fetch(asked, [id_of(1)], as_of=NOW + hour * HOUR)[0].access_count for hour in range(4)]
            assert found == counts
        store.apply([Prune("default", touches_before=NOW + 9 * HOUR)])
        assert [found.access_count for found in store.fetch(EVERYTHING, [id_of(1)], as_of=NOW)] == [3]
