"""Laws of requests under idempotency keys: one answer to a key, kept with what it made, or not at all."""

from __future__ import annotations

import threading
from dataclasses import replace
from datetime import timedelta

import pytest

from salience.errors import SalienceError, StaleError
from salience.ports import Answered, Erase, Prune, Revise, Store
from salience.records import Scope
from salience.testing.memories import EVERYTHING, NOW, add, id_of, memory, stored

HOUR = timedelta(hours=1)


def answer(number: int, key: str = "k", home: Scope = Scope(), *, version: int = 2, verb: str = "update") -> Answered:
    """Return the answer by a version of the contract's memory `number`."""
    return Answered(home, key, verb, id_of(number), version, NOW)


class RequestLaws:
    """What is answered once; each test is a law."""

    def test_what_was_answered_is_told_in_its_home_alone(self, store: Store) -> None:
        """Tenant, environment, project, user and agent are part of it, a session is not."""
        add(store, stored(1))
        home = Scope(project="p", user_id="u", session_id="s")
        assert store.answered(home, "k") is None
        (receipt,) = store.apply([Revise(memory(1).changed("update", NOW + HOUR)), answer(1, home=home)])
        assert receipt.memory.version == 2
        known = store.answered(replace(home, session_id="t"), "k")
        assert known is not None
        assert (known.key, known.verb, known.id, known.version, known.at) == ("k", "update", id_of(1), 2, NOW)
        others = [Scope("other", project="p", user_id="u"), Scope(), replace(home, agent_id="a")]
        assert [store.answered(other, "k") for other in [*others, replace(home, environment="e")]] == [None] * 4
        assert store.answered(home, "l") is None

    def test_a_second_answer_to_a_key_undoes_all_that_comes_with_it(self, store: Store) -> None:
        """Whatever it is about, also in the same transaction; in another home, or tenant, the key is free."""
        add(store, stored(1), stored(2))
        store.apply([answer(1)])
        for answers in ([answer(2)], [answer(2, "l"), answer(2, "l")]):
            with pytest.raises(StaleError):
                store.apply([Revise(memory(2).changed("update", NOW)), *answers])
        assert [one.memory.version for one in store.history(EVERYTHING, id_of(2))] == [1]
        assert store.answered(Scope(), "l") is None
        elsewhere = [answer(2, home=Scope(user_id="u")), answer(2, home=Scope("other"))]
        assert store.apply(elsewhere, counted=True) == []
        assert [getattr(store.answered(one.home, "k"), "id", None) for one in elsewhere] == [id_of(2)] * 2

    def test_what_is_undone_is_not_answered(self, store: Store) -> None:
        """The answer comes and goes with the change that it tells of."""
        add(store, stored(1))
        with pytest.raises(StaleError):
            store.apply([answer(1), Revise(replace(memory(1), version=9))])
        assert store.answered(Scope(), "k") is None

    def test_an_answer_goes_with_the_memory_that_is_erased(self, store: Store) -> None:
        """Those about others stay, in other tenants too."""
        add(store, stored(1), stored(2))
        other = answer(1, "other", Scope("other"))
        store.apply([answer(1), answer(1, "l", Scope(user_id="u")), answer(2, "m"), other])
        store.apply([Erase("default", (id_of(1),))])
        assert store.answered(Scope(), "k") is None
        assert store.answered(Scope(user_id="u"), "l") is None
        assert store.answered(Scope(), "m") is not None
        assert store.answered(Scope("other"), "other") is not None

    def test_pruning_drops_the_answers_before_an_instant(self, store: Store) -> None:
        """Of one tenant; a key is free again then."""
        add(store, stored(1))
        late = replace(answer(1, "late"), at=NOW + HOUR)
        store.apply([answer(1), late, answer(1, home=Scope("other"))])
        store.apply([Prune("default", requests_before=NOW)], counted=True)
        assert store.answered(Scope(), "k") is not None
        assert store.apply([Prune("default", touches_before=NOW + 2 * HOUR)]) == []
        assert store.apply([Prune("default", requests_before=NOW + HOUR)]) == []
        assert store.answered(Scope(), "k") is None
        assert store.answered(Scope(), "late") is not None
        assert store.answered(Scope("other"), "k") is not None
        store.apply([answer(1, verb="forget")])
        assert getattr(store.answered(Scope(), "k"), "verb", None) == "forget"

    def test_of_many_at_once_one_is_answered(self, store: Store) -> None:
        """Each brings a version of a memory of its own; those of the others are undone."""
        add(store, *(stored(number) for number in range(1, 5)))
        began, won, lost = threading.Barrier(4), [], []

        def ask(number: int) -> None:
            began.wait()
            try:
                store.apply([Revise(memory(number).changed("update", NOW)), answer(number)])
                won.append(id_of(number))
            except SalienceError as error:
                lost.append(type(error))

        threads = [threading.Thread(target=ask, args=(number,)) for number in range(1, 5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert (len(won), lost) == (1, [StaleError] * 3)
        assert getattr(store.answered(Scope(), "k"), "id", None) == won[0]
        versions = [store.history(EVERYTHING, id_of(number))[-1].memory for number in range(1, 5)]
        assert [one.id for one in versions if one.version == 2] == won
