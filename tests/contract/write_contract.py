"""Contract of writing: transactions, versions, touches, idempotency keys, leases and checks."""

from __future__ import annotations

import copy
import math
import pickle
import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import numpy as np
import pytest

from salience.errors import ConflictError, InputError, LeaseError, SalienceError, StaleError, StoreError
from salience.ports import Add, Answered, Change, Erase, Lease, Near, Prune, Revise, Store, Touch
from salience.records import Filter, Receipt, Scope
from salience.records.checks import Frozen, frozen
from salience.text import content_hash
from tests.contract.memories import (
    DIMENSION,
    EVERYTHING,
    NOW,
    add,
    id_of,
    listed,
    memory,
    need,
    numbers,
    only,
    random_unit,
    stored,
    unit,
)

TEXTS: Final = (
    "emoji 👩🏽‍🚀🇪🇺 and 𝔐athematical letters",
    "من اليمين إلى اليسار, עברית",
    "combining e\u0301 and composed \u00e9",
    "quotes ' \" ` \\ ; -- % _ {} and ? :name",
    "lines\nwith\r\nends\tand\u2028separators\u2029\u0085",
    "  white space at both ends  ",
    "x" * 100_000,
)
"""Texts that must come back as they went in."""


def _seen(store: Store) -> list[object]:
    """Return all that a store shows, in a form that compares."""
    everything = store.scan(EVERYTHING, forgotten=True, versions=True)
    return [(item.memory, item.terms, dict(item.activations)) for item in everything]


def _turns(store: Store, scope: Scope) -> list[float]:
    """Return turns_since_activation of all memories of the default environment in the session of `scope`."""
    caller = replace(EVERYTHING, environment="default", session_id=scope.session_id)
    return [float(turns) for turns in store.gather(need(caller))["turns_since_activation"]]


HOUR = timedelta(hours=1)


def answer(number: int, key: str = "k", home: Scope = Scope(), *, version: int = 2, verb: str = "update") -> Answered:
    """Return the answer by a version of the contract's memory `number`."""
    return Answered(home, key, verb, id_of(number), version, NOW)


MINUTE = timedelta(minutes=1)


def lease(holder: str, now: int, until: int, name: str = "upkeep") -> Lease:
    """Return a lease from one minute to another."""
    return Lease(name, holder, NOW + now * MINUTE, NOW + until * MINUTE)


class WriteContract:
    """Every write is atomic, versioned and readable as it was written."""

    def test_vectors_come_back_bit_for_bit(self, store: Store) -> None:
        odd = np.array([1e-45, -0.0, 0.1, 1 / 3, -1e-38, 0.5, 0.25, np.sqrt(0.5)], np.float32)
        add(store, stored(1, vector=odd), stored(2, vector=None), stored(3))
        batch = store.gather(need(vectors=True))
        assert batch.vectors is not None
        taken = batch.vectors.at(np.arange(3))
        assert taken.tobytes() == np.stack([odd, np.zeros(DIMENSION, np.float32), random_unit(3)]).tobytes()
        found = [item.vector for item in store.scan(EVERYTHING)]
        assert [None if vector is None else vector.tobytes() for vector in found] == [
            odd.tobytes(),
            None,
            random_unit(3).tobytes(),
        ]

    def test_a_revision_can_add_a_vector(self, store: Store) -> None:
        add(store, stored(1, vector=None))
        assert store.gather(need(vector=unit(1)))["cosine"].tolist() == [0.0]
        store.apply([Revise(memory(1).changed("update", NOW), vector=unit(1))])
        assert store.gather(need(vector=unit(1)))["cosine"].tolist() == [1.0]
        assert only(store, 1).terms == ("memory", "1")

    def test_records_come_back_as_they_went_in(self, store: Store) -> None:
        whole = stored(
            1, environment="prod", project="p", user_id="u", agent_id="a", session_id="s", kind="my kind", turn=4,
            importance=0.1 + 0.2, weight=1 / 3, tier="working", tags=("b", "a"), entities=("Zoë", "AT&T"),
            fact_key="user.theme", supersedes=id_of(9), key="k", speaker="Al", access_count=2**40, version=3,
            metadata={"n": None, "x": [1, 2.5, {"y": "ü"}], "big": 2**62, "t": True, "f": 0.1}, change="update",
            created_at=datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC), updated_at=NOW, tier_since=NOW,
            accessed_at=NOW + timedelta(microseconds=1), expires_at=datetime.max.replace(tzinfo=UTC),
        )  # fmt: skip
        assert add(store, whole, stored(2)) == [Receipt(whole.memory, "created"), Receipt(memory(2), "created")]
        assert [item.memory for item in store.scan(EVERYTHING)] == [whole.memory, memory(2)]
        assert store.fetch(EVERYTHING, [id_of(1)]) == [whole.memory]
        assert only(store, 1).terms == whole.terms

    @pytest.mark.parametrize("text", TEXTS, ids=range(len(TEXTS)))
    def test_texts_come_back_as_they_went_in(self, store: Store, text: str) -> None:
        name = " ".join(text.split())[:100]  # names are free of control characters
        item = stored(
            1, content=text, user_id=name, session_id=name, tags=(name,), entities=(name,), key=name, kind=name,
            metadata={name: [text]}, terms=("é", "e\u0301"),
        )  # fmt: skip
        add(store, item)
        found = store.scan(Scope(user_id=name), filter=Filter(tags=[name], kinds=[name], sessions=[name]))
        assert [(item.memory, item.terms) for item in found] == [(replace(item.memory, turn=1), ("é", "e\u0301"))]
        request = need(Scope(user_id=name), filter=Filter(tags=[name], kinds=[name], sessions=[name]))
        assert numbers(store.gather(request)) == [1]

    @pytest.mark.parametrize(
        "failing",
        [
            Add(stored(1, content="other")),
            Add(stored(9, key="k", content="other")),
            Revise(memory(1, version=7)),
            Revise(memory(99, version=2)),
        ],
        ids=["id", "key", "stale", "absent"],
    )
    def test_apply_is_all_or_nothing(self, store: Store, failing: Change) -> None:
        add(store, stored(1, key="k", session_id="s"))
        before = _seen(store)
        some: list[Change] = [
            Add(stored(2, key="new", session_id="s")),
            Touch(Scope(session_id="s"), (id_of(1),), accessed_at=NOW, access_count=1, importance=0.1, activate=True),
            Revise(memory(1, key="k", session_id="s", turn=1).changed("update", NOW, weight=0.2)),
        ]
        with pytest.raises(ConflictError):
            store.apply([*some, failing])
        assert _seen(store) == before
        (receipt,) = add(store, stored(3, key="new", session_id="s"))
        assert (receipt.status, receipt.memory.turn) == ("created", 2)

    def test_an_idempotency_key_stores_once(self, store: Store) -> None:
        first, second = add(store, stored(1, key="k", content="same"), stored(2, key="k", content="same"))
        (third,) = add(store, stored(3, key="k", content="same"))
        assert [first.status, second.status, third.status] == ["created", "unchanged", "unchanged"]
        assert first.memory == second.memory == third.memory == memory(1, key="k", content="same")
        assert listed(store) == [1]

    def test_a_retry_after_an_update_returns_the_current_memory(self, store: Store) -> None:
        add(store, stored(1, key="k", content="same"))
        changed = replace(memory(1, key="k", content="same"), content="other", content_hash=content_hash("other"))
        (now,) = store.apply([Revise(changed.changed("update", NOW))])
        (again,) = add(store, stored(2, key="k", content="same"))
        assert (again.status, again.memory) == ("unchanged", now.memory)
        with pytest.raises(ConflictError, match=r"^key: 'k'"):
            add(store, stored(3, key="k", content="new"))
        with pytest.raises(ConflictError, match=r"^id: "):
            add(store, stored(1, content="same"))

    def test_an_idempotency_key_refuses_other_content(self, store: Store) -> None:
        add(store, stored(1, key="k"))
        with pytest.raises(ConflictError, match=r"^key: 'k'"):
            add(store, stored(2, key="k"))
        with pytest.raises(ConflictError, match=r"^key: 'j'"):
            add(store, stored(3, key="j"), stored(4, key="j"))
        assert listed(store) == [1]

    def test_an_idempotency_key_belongs_to_its_home(self, store: Store) -> None:
        """The session is not part of the home."""
        homes: list[dict[str, Any]] = [
            {}, {"project": "p"}, {"user_id": "p"}, {"agent_id": "p"}, {"environment": "p"}, {"tenant": "p"},
        ]  # fmt: skip
        receipts = add(store, *(stored(n, key="k", **home) for n, home in enumerate(homes)))
        assert {receipt.status for receipt in receipts} == {"created"}
        with pytest.raises(ConflictError):
            add(store, stored(50, key="k", session_id="s"))

    def test_an_id_stores_once(self, store: Store) -> None:
        add(store, stored(1))
        assert add(store, stored(1)) == [Receipt(memory(1), "unchanged")]
        with pytest.raises(ConflictError, match=f"^id: '{id_of(1)}'"):
            add(store, stored(1, content="other"))
        assert add(store, stored(1, content="other", tenant="t"))[0].status == "created"

    def test_adding_a_later_version_is_refused(self, store: Store) -> None:
        """An older version with the same content is there already."""
        add(store, stored(1))
        later = replace(stored(1), memory=memory(1).changed("update", NOW, weight=0.5))
        with pytest.raises(ConflictError, match="version 1, before version 2"):
            add(store, later)
        store.apply([Revise(later.memory)])
        assert add(store, stored(1))[0].status == "unchanged"
        assert only(store, 1).memory.version == 2

    def test_a_revision_keeps_earlier_versions(self, store: Store) -> None:
        add(store, stored(1, content="one", vector=unit(1)))
        second = memory(1, content="two").changed("update", NOW + timedelta(hours=1))
        third = second.changed("promote", NOW + timedelta(hours=2), tier="semantic")
        assert store.apply([Revise(second, unit(0, 1), ("two",)), Revise(third)]) == [
            Receipt(second, "updated"),
            Receipt(third, "updated"),
        ]
        found = store.scan(EVERYTHING, versions=True)
        assert [item.memory for item in found] == [memory(1, content="one"), second, third]
        assert [item.terms for item in found] == [("one",), ("two",), ("two",)]
        assert [np.argmax(item.vector) for item in found if item.vector is not None] == [0, 1, 1]
        assert store.fetch(EVERYTHING, [id_of(1)]) == [third]
        batch = store.gather(need(vector=unit(0, 1), terms=("one", "two")))
        assert batch["cosine"].tolist() == [1.0]
        assert batch.lexicon is not None
        assert batch.lexicon.document_frequency.tolist() == [0.0, 1.0]

    def test_a_stale_revision_is_refused(self, store: Store) -> None:
        add(store, stored(1))
        store.apply([Revise(memory(1).changed("update", NOW, weight=0.5))])
        with pytest.raises(StaleError, match="version 2"):
            store.apply([Revise(memory(1).changed("update", NOW, weight=0.7))])
        assert store.fetch(EVERYTHING, [id_of(1)])[0].weight == 0.5

    def test_a_forgotten_memory_is_hidden_and_can_be_restored(self, store: Store) -> None:
        add(store, stored(1, terms=("x",), entities=("E",)), stored(2, terms=("x",)))
        gone = memory(1, entities=("E",)).changed("forget", NOW, forgotten_at=NOW)
        assert store.apply([Revise(gone)]) == [Receipt(gone, "forgotten")]
        batch = store.gather(need(terms=("x",), entities=True, names=("e",)))
        assert numbers(batch) == listed(store) == [2]
        assert batch.lexicon is not None
        assert batch.lexicon.documents == 1
        assert batch.entities is not None
        assert len(batch.entities.of_query) == 0
        assert store.fetch(EVERYTHING, [id_of(1)]) == []
        assert listed(store, forgotten=True) == [1, 2]
        store.apply([Revise(gone.changed("update", NOW, forgotten_at=None))])
        assert numbers(store.gather(need())) == listed(store) == [1, 2]

    def test_an_added_memory_can_bring_older_versions(self, store: Store) -> None:
        old, older = stored(1, content="b", version=2), stored(1, content="a")
        now = stored(1, content="c", version=3)
        store.apply([Add(now, (older, old))])
        assert [item.memory for item in store.scan(EVERYTHING, versions=True)] == [older.memory, old.memory, now.memory]
        assert store.apply([Add(now, (older, old))])[0].status == "unchanged"
        store.apply([Revise(now.memory.changed("update", NOW))])
        assert [item.memory.version for item in store.scan(EVERYTHING, versions=True)] == [1, 2, 3, 4]

    def test_versions_do_not_count_towards_the_limit(self, store: Store) -> None:
        """Also where only the current version passes the filter."""
        add(store, *(stored(n, kind="old") for n in (1, 2, 3)))
        store.apply([Revise(memory(n, kind="old").changed("update", NOW, kind="new")) for n in (1, 2)])
        store.apply([Revise(memory(1, version=2).changed("update", NOW, kind="new"))])
        request = Filter(kinds=["new"])
        pages = [store.scan(EVERYTHING, after, 1, request, versions=True) for after in ("", id_of(1), id_of(2))]
        assert [[(int(item.memory.id, 16), item.memory.version) for item in page] for page in pages] == [
            [(1, 1), (1, 2), (1, 3)], [(2, 1), (2, 2)], [],
        ]  # fmt: skip
        assert listed(store, limit=2) == [1, 2]

    def test_the_store_shares_no_mutable_value_with_callers(self, store: Store) -> None:
        vector, activations = unit(1), {"default\x1f\x1fs": 3}
        nested: dict[str, Any] = {"list": [{"deep": [1]}], "map": {"x": 1}}
        item = stored(1, vector=vector, activations=activations)
        add(store, replace(item, memory=replace(item.memory, metadata=nested)))
        second: dict[str, Any] = {"list": [[2]]}
        expected = [frozen(nested), frozen(second)]
        before = only(store, 1)
        store.apply([Revise(replace(memory(1).changed("update", NOW), metadata=second))])
        vector[:] = 0
        activations.clear()
        nested["list"][0]["deep"].append(2)
        nested["map"]["x"] = second["list"][0][0] = 3
        store.gather(need())["weight"][:] = 0
        batch = store.gather(need(vector=unit(1)))
        assert (batch["cosine"].tolist(), batch["weight"].tolist()) == ([1.0], [1.0])
        assert before.memory.metadata == expected[0]
        assert [found.memory.metadata for found in store.scan(EVERYTHING, versions=True)] == expected
        for turn in (3, 4):
            with pytest.raises(TypeError):
                only(store, 1).activations["other"] = 1  # type: ignore[index]
            assert dict(only(store, 1).activations) == {"default\x1f\x1fs": turn}
            store.apply([Touch(Scope(session_id="s"), (id_of(1),), activate=True)])

    def test_metadata_comes_out_frozen_in_every_verb(self, store: Store) -> None:
        raw: dict[str, Any] = {"list": [1, [2], {"deep": []}], "map": {"x": None}}
        new = replace(memory(1, key="k"), metadata=raw)
        (added,) = store.apply([Add(replace(stored(1), memory=new))])
        (revised,) = store.apply([Revise(new.changed("update", NOW))])
        (unchanged,) = store.apply([Add(replace(stored(1), memory=new))])
        found = [receipt.memory for receipt in (added, revised, unchanged)]
        found += [item.memory for item in store.scan(EVERYTHING, versions=True)]
        found += store.fetch(EVERYTHING, [id_of(1)]) + store.find_by_key(Scope(), ["k"])
        assert len(found) == 7
        for each in found:
            assert each.metadata == {"list": (1, (2,), {"deep": ()}), "map": {"x": None}}
            for mapping in (each.metadata, each.metadata["map"], each.metadata["list"][2]):
                assert type(mapping) is Frozen
            assert pickle.loads(pickle.dumps(each)) == copy.copy(each) == copy.deepcopy(each) == each  # noqa: S301

    def test_every_verb_of_a_closed_store_raises(self, store: Store) -> None:
        add(store, stored(1))
        store.close()
        store.close()
        verbs: list[Callable[[], object]] = [
            lambda: store.apply([]),
            lambda: store.apply([Erase("default", (id_of(1),))]),
            lambda: store.gather(need()),
            lambda: store.gather(need(as_of=NOW)),
            lambda: store.fetch(EVERYTHING, []),
            lambda: store.fetch(EVERYTHING, [id_of(1)], as_of=NOW),
            lambda: store.find_by_key(Scope(), []),
            lambda: store.scan(EVERYTHING),
            lambda: store.history(EVERYTHING, id_of(1)),
            lambda: store.speakers(EVERYTHING, ("ann",)),
            lambda: store.recalls(EVERYTHING, NOW),
            lambda: store.unembedded(),
            lambda: store.pinned(),
            lambda: store.check(),
        ]
        for verb in verbs:
            with pytest.raises(StoreError, match="closed"):
                verb()

    def test_a_revision_loses_no_touch_made_meanwhile(self, store: Store) -> None:
        add(store, stored(1))
        later = NOW + timedelta(hours=1)
        store.apply([Touch(Scope(), (id_of(1),), accessed_at=later, access_count=2)])
        (receipt,) = store.apply([Revise(memory(1).changed("update", NOW, weight=0.5))])
        assert (receipt.memory.accessed_at, receipt.memory.access_count) == (later, 2)
        assert store.fetch(EVERYTHING, [id_of(1)]) == [receipt.memory]
        assert store.gather(need())["access_count"].tolist() == [2]

    def test_a_revision_leaves_importance_as_recalls_made_it_unless_it_sets_it(self, store: Store) -> None:
        add(store, stored(1, importance=0.5))
        store.apply([Touch(Scope(), (id_of(1),), importance=0.25)])
        second = memory(1, importance=0.5).changed("update", NOW, weight=0.5)
        (left,) = store.apply([Revise(second)])
        assert left.memory == replace(second, importance=0.75)
        assert store.fetch(EVERYTHING, [id_of(1)]) == [left.memory]
        assert store.gather(need())["importance"].tolist() == [0.75]
        third = second.changed("update", NOW, importance=0.125)
        (given,) = store.apply([Revise(third, sets_importance=True)])
        assert given.memory == third
        assert store.fetch(EVERYTHING, [id_of(1)]) == [third]
        assert store.gather(need())["importance"].tolist() == [0.125]
        found = [item.memory.importance for item in store.scan(EVERYTHING, versions=True)]
        assert found == [0.75, 0.75, 0.125]

    def test_touches_add_up(self, store: Store) -> None:
        add(store, stored(1, importance=0.93), stored(2, importance=0.5), stored(3))
        touch = Touch(Scope(), (id_of(1), id_of(2), id_of(1)), accessed_at=NOW, access_count=1, importance=0.05)
        assert store.apply([touch, touch]) == []
        batch = store.gather(need())
        assert batch["importance"].tolist() == [1.0, 0.5 + 0.05 + 0.05, 0.5]
        assert batch["access_count"].tolist() == [2, 2, 0]
        assert batch["accessed_at"].tolist() == [NOW.timestamp()] * 3
        touched = only(store, 1).memory
        assert (touched.version, touched.accessed_at, touched.updated_at) == (1, NOW, NOW)
        assert [item.memory.version for item in store.scan(EVERYTHING, versions=True)] == [1, 1, 1]

    def test_a_touch_can_leave_accessed_at_unchanged(self, store: Store) -> None:
        add(store, stored(1, accessed_at=NOW))
        store.apply([Touch(Scope(), (id_of(1),), access_count=1), Touch(Scope(), (id_of(1),))])
        assert only(store, 1).memory == memory(1, accessed_at=NOW, access_count=1)

    def test_accessed_at_never_decreases(self, store: Store) -> None:
        late = NOW + timedelta(microseconds=1)
        add(store, stored(1, accessed_at=late), stored(2, accessed_at=NOW), stored(3))
        for moment in (NOW, late, NOW):
            store.apply([Touch(Scope(), (id_of(1), id_of(2)), accessed_at=moment, access_count=1)])
        store.apply([Touch(Scope(), (id_of(3),), accessed_at=NOW - timedelta(days=1))])
        found = [item.memory.accessed_at for item in store.scan(EVERYTHING)]
        assert found == [late, late, NOW - timedelta(days=1)]
        assert store.gather(need())["accessed_at"].tolist() == [moment.timestamp() for moment in found if moment]
        assert store.gather(need())["access_count"].tolist() == [3, 3, 0]

    def test_touches_of_one_transaction_are_applied_in_turn(self, store: Store) -> None:
        """The counters before each touch stay known."""
        add(store, *(stored(number, accessed_at=NOW if number == 1 else None) for number in range(1, 5)))
        minute, ids = timedelta(minutes=1), [id_of(number) for number in (1, 2, 3)]
        touches = [
            Touch(Scope(), tuple(ids[: 3 - step % 3]), NOW + minute * later, step + 1, at=NOW + minute * (10 + step))
            for step, later in enumerate((2, 5, 1, 5, 0))
        ]
        store.apply(touches)
        for step in range(len(touches) + 1):
            batch = store.gather(need(as_of=NOW + minute * (10 + step) - timedelta(microseconds=1)))
            made = touches[:step]
            for row, request in enumerate([*ids, id_of(4)]):
                mine = [touch for touch in made if request in touch.ids]
                moments = [touch.accessed_at for touch in mine if touch.accessed_at is not None]
                assert batch["access_count"][row] == sum(touch.access_count for touch in mine)
                assert batch["accessed_at"][row] == max([NOW, *moments]).timestamp()
        assert store.gather(need())["access_count"].tolist() == [15, 12, 5, 0]

    def test_a_touch_ignores_memories_that_are_not_live(self, store: Store) -> None:
        add(store, stored(1), stored(2, tenant="other"))
        store.apply([Revise(memory(1).changed("forget", NOW, forgotten_at=NOW))])
        scope = Scope(session_id="s")
        store.apply([Touch(scope, (id_of(1), id_of(2), id_of(3)), access_count=1, importance=0.1, activate=True)])
        untouched = [only(store, 1), *store.scan(replace(EVERYTHING, tenant="other"))]
        assert [(item.memory.access_count, item.memory.importance) for item in untouched] == [(0, 0.5), (0, 0.5)]
        assert [dict(item.activations) for item in untouched] == [{}, {}]

    def test_turns_count_up_in_each_session(self, store: Store) -> None:
        """A session belongs to a user of an environment; a given turn moves the clock."""
        first = add(store, stored(1, session_id="s"), stored(2, session_id="s"), stored(3, session_id="t"), stored(4))
        assert [receipt.memory.turn for receipt in first] == [1, 2, 1, None]
        second = add(
            store, stored(5, session_id="s", turn=10), stored(6, session_id="s"), stored(7, session_id="s", turn=4)
        )
        assert [receipt.memory.turn for receipt in second] == [10, 11, 4]
        homes: list[dict[str, Any]] = [{}, {"user_id": "u"}, {"environment": "e"}, {"tenant": "t"}, {"project": "p"}]
        third = add(store, *(stored(20 + n, session_id="s", **home) for n, home in enumerate(homes)))
        assert [receipt.memory.turn for receipt in third] == [12, 1, 1, 1, 13]
        assert only(store, 6).memory.turn == 11

    def test_activations_age_by_turns_of_their_session(self, store: Store) -> None:
        add(store, stored(1), stored(2), stored(3, session_id="s"))
        scope = Scope(session_id="s")
        store.apply([Touch(scope, (id_of(1), id_of(2)), activate=True)])
        assert _turns(store, scope) == [0.0, 0.0, math.inf]
        store.apply([Touch(scope, (id_of(2),), activate=True), Touch(scope, (id_of(1),))])
        assert _turns(store, scope) == [2.0, 1.0, math.inf]
        add(store, stored(4, session_id="s"))
        assert _turns(store, scope) == [3.0, 2.0, math.inf, math.inf]
        assert [dict(item.activations) for item in store.scan(EVERYTHING)] == [
            {scope.session_key: 2}, {scope.session_key: 3}, {}, {},
        ]  # fmt: skip
        assert _turns(store, Scope()) == _turns(store, Scope(session_id="t")) == [math.inf] * 4

    def test_an_added_memory_can_bring_activations(self, store: Store) -> None:
        scope = Scope(session_id="s")
        add(store, stored(1, activations={str(scope.session_key): 5}))
        assert _turns(store, scope) == [0.0]
        store.apply([Touch(scope, (), activate=True), Revise(memory(1).changed("update", NOW))])
        assert _turns(store, scope) == [1.0]
        assert dict(only(store, 1).activations) == {scope.session_key: 5}

    def test_answers_are_found_only_in_their_home(self, store: Store) -> None:
        """The session is not part of the home."""
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

    def test_a_second_answer_to_a_key_rolls_back_its_transaction(self, store: Store) -> None:
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

    def test_a_failed_transaction_records_no_answer(self, store: Store) -> None:
        add(store, stored(1))
        with pytest.raises(StaleError):
            store.apply([answer(1), Revise(replace(memory(1), version=9))])
        assert store.answered(Scope(), "k") is None

    def test_erasing_a_memory_deletes_its_answers(self, store: Store) -> None:
        add(store, stored(1), stored(2))
        other = answer(1, "other", Scope("other"))
        store.apply([answer(1), answer(1, "l", Scope(user_id="u")), answer(2, "m"), other])
        store.apply([Erase("default", (id_of(1),))])
        assert store.answered(Scope(), "k") is None
        assert store.answered(Scope(user_id="u"), "l") is None
        assert store.answered(Scope(), "m") is not None
        assert store.answered(Scope("other"), "other") is not None

    def test_pruning_drops_the_answers_before_an_instant(self, store: Store) -> None:
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

    def test_of_concurrent_answers_to_a_key_one_wins(self, store: Store) -> None:
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

    def test_one_holder_at_a_time_has_a_lease(self, store: Store) -> None:
        assert store.apply([lease("a", 0, 10)]) == []
        with pytest.raises(LeaseError, match=r"^upkeep: a .*2026-05-01T12:10:00\+00:00"):
            store.apply([lease("b", 9, 20)])
        store.apply([lease("b", 10, 20)])
        with pytest.raises(LeaseError, match="b is at it"):
            store.apply([lease("a", 19, 30)])

    def test_a_holder_can_extend_and_release_a_lease(self, store: Store) -> None:
        store.apply([lease("a", 0, 10), lease("b", 0, 90, "reembed")])
        store.apply([lease("a", 5, 20)])
        with pytest.raises(LeaseError):
            store.apply([lease("b", 15, 30)])
        store.apply([lease("a", 25, 40), lease("a", 26, 26)])
        store.apply([lease("b", 26, 30)])
        with pytest.raises(LeaseError):
            store.apply([lease("a", 27, 30)])

    def test_a_refused_lease_rolls_back_its_transaction(self, store: Store) -> None:
        store.apply([lease("a", 0, 10)])
        with pytest.raises(LeaseError):
            store.apply([Add(stored(1)), lease("b", 1, 2, "other"), lease("b", 1, 2)])
        assert listed(store) == []
        store.apply([lease("c", 1, 2, "other")])

    def test_counted_changes_have_the_same_effect(self, store: Store) -> None:
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
        keys = {1: "user.diet", 2: "user.residence", 3: None, 4: "user.diet", 5: "User.diet", 6: "user.diet.x"}
        add(store, *(stored(n, fact_key=key, user_id="u" if n == 4 else None) for n, key in keys.items()))
        for request, found in (
            (["user.diet"], [1, 4]), (["user.residence", "user.diet"], [1, 2, 4]), (["none"], []), (["%"], [])
        ):  # fmt: skip
            batch = store.gather(need(filter=Filter(fact_keys=request)))
            assert numbers(batch) == listed(store, filter=Filter(fact_keys=request)) == found
            assert batch.complete
        assert numbers(store.gather(need(Scope(), filter=Filter(fact_keys=["user.diet"])))) == [1]
        store.apply([Revise(memory(1, fact_key="user.diet").changed("update", NOW + MINUTE, fact_key=None))])
        assert listed(store, filter=Filter(fact_keys=["user.diet"])) == [4]
        assert numbers(store.gather(need(filter=Filter(fact_keys=["user.diet"]), as_of=NOW))) == [1, 4]

    def test_pending_memories_are_always_candidates(self, store: Store) -> None:
        """`embedded` is false for them."""
        add(store, stored(1, unit(1)), stored(2, unit(0, 1)), stored(3, None), stored(4, None, kind="x"))
        add(store, stored(5, None, user_id="hidden"))
        for count, found in ((0, [3, 4]), (1, [1, 3, 4]), (2, [1, 2, 3, 4])):
            batch = store.gather(need(Scope(), vector=unit(1), candidates=count))
            assert numbers(batch) == found
            assert batch["embedded"].tolist() == [number < 3 for number in found]
            assert batch.complete == (count == 2)
        assert numbers(store.gather(need(Scope(), vector=unit(1), candidates=1, filter=Filter(kinds=["x"])))) == [4]

    def test_a_vector_of_zeros_is_none_to_search_by_but_not_pending(self, store: Store) -> None:
        """The model knows no word of such a text."""
        zeros = np.zeros(DIMENSION, np.float32)
        add(store, stored(1, unit(1)), stored(2, zeros), stored(3, None), stored(4, unit(0, 1)))
        batch = store.gather(need(vector=unit(1), vectors=True))
        assert batch["embedded"].tolist() == [True, False, False, True]
        assert batch["cosine"].tolist() == [1.0, 0.0, 0.0, 0.0]
        assert numbers(store.gather(need(near=Near(unit(1)[None], -0.5)))) == [1, 4]
        assert [item.memory.id for item in store.unembedded()] == [id_of(3)]
        assert store.counts(EVERYTHING, NOW).pending == 1
        vector = store.history(EVERYTHING, id_of(2))[0].vector
        assert vector is not None
        assert not vector.any()
        assert store.check() == []

    def test_unembeds_removes_the_vector_of_the_new_version(self, store: Store) -> None:
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

    def test_check_finds_nothing_in_a_sound_store(self, store: Store) -> None:
        add(store, stored(1, session_id="s"), stored(2, None))
        store.apply([Revise(memory(1, session_id="s", turn=1).changed("update", NOW)), Erase("default", (id_of(2),))])
        assert store.finish_erasures()
        assert store.check() == store.check(repair=True) == []
        assert listed(store, versions=True) == [1, 1]

    def test_errors_of_upkeep_quote_no_content(self, store: Store) -> None:
        add(store, stored(1, content="secret"))
        store.apply([lease("a", 0, 10)])
        failing: list[Change] = [Erase("default", (id_of(1), id_of(2))), lease("b", 1, 2)]
        for change in failing:
            with pytest.raises(SalienceError) as caught:
                store.apply([change])
            assert not isinstance(caught.value, InputError)
            assert "secret" not in str(caught.value)
