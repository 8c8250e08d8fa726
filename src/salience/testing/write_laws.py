"""Laws of writing: what is kept comes back as it was, all or nothing, with its versions."""

from __future__ import annotations

import copy
import pickle
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import numpy as np
import pytest

from salience.errors import ConflictError, InputError, StaleError, StoreError
from salience.ports import Add, Change, Revise, Store, Touch
from salience.records import Filter, Receipt, Scope
from salience.records.checks import Frozen, frozen
from salience.testing.memories import (
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
from salience.text import content_hash

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


class WriteLaws:
    """What a store keeps; each test is a law."""

    def test_vectors_come_back_bit_for_bit(self, store: Store) -> None:
        """Float32, denormals and signed zeros too; zeros for a memory without a vector."""
        odd = np.array([1e-45, -0.0, 0.1, 1 / 3, -1e-38, 0.5, 0.25, np.sqrt(0.5)], np.float32)
        add(store, stored(1, vector=odd), stored(2, vector=None), stored(3))
        batch = store.gather(need(vectors=True))
        assert batch.vectors is not None
        taken = batch.vectors.at(np.arange(3))
        assert taken.tobytes() == np.stack([odd, np.zeros(DIMENSION, np.float32), random_unit(3)]).tobytes()
        kept = [item.vector for item in store.scan(EVERYTHING)]
        assert [None if vector is None else vector.tobytes() for vector in kept] == [
            odd.tobytes(),
            None,
            random_unit(3).tobytes(),
        ]

    def test_a_vector_that_is_known_later_is_found(self, store: Store) -> None:
        """A revision may bring the vector alone."""
        add(store, stored(1, vector=None))
        assert store.gather(need(vector=unit(1)))["cosine"].tolist() == [0.0]
        store.apply([Revise(memory(1).changed("update", NOW), vector=unit(1))])
        assert store.gather(need(vector=unit(1)))["cosine"].tolist() == [1.0]
        assert only(store, 1).terms == ("memory", "1")

    def test_a_vector_of_another_length_is_refused(self, store: Store) -> None:
        """And nothing is stored of its transaction."""
        with pytest.raises(InputError, match=r"^vector .*8"):
            add(store, stored(1), stored(2, vector=np.ones(3, np.float32)))
        assert listed(store) == []

    def test_records_come_back_as_they_went_in(self, store: Store) -> None:
        """All fields, with microseconds, nested metadata, and an instant before 1970."""
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
        """In content, names, keys and metadata."""
        name = " ".join(text.split())[:100]  # names are free of control characters
        item = stored(
            1, content=text, user_id=name, session_id=name, tags=(name,), entities=(name,), key=name, kind=name,
            metadata={name: [text]}, terms=("é", "e\u0301"),
        )  # fmt: skip
        add(store, item)
        found = store.scan(Scope(user_id=name), filter=Filter(tags=[name], kinds=[name], sessions=[name]))
        assert [(item.memory, item.terms) for item in found] == [(replace(item.memory, turn=1), ("é", "e\u0301"))]
        asked = need(Scope(user_id=name), filter=Filter(tags=[name], kinds=[name], sessions=[name]))
        assert numbers(store.gather(asked)) == [1]

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
        """A change that fails leaves nothing of those before it: rows, versions, counters, turns, keys."""
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
        """Also within one transaction; the receipt has the memory that is there."""
        first, second = add(store, stored(1, key="k", content="same"), stored(2, key="k", content="same"))
        (third,) = add(store, stored(3, key="k", content="same"))
        assert [first.status, second.status, third.status] == ["created", "unchanged", "unchanged"]
        assert first.memory == second.memory == third.memory == memory(1, key="k", content="same")
        assert listed(store) == [1]

    def test_a_retry_may_come_after_a_change(self, store: Store) -> None:
        """Its content is that of an older version; the memory stays as it stands, and no other content is taken."""
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
        """The error names the key."""
        add(store, stored(1, key="k"))
        with pytest.raises(ConflictError, match=r"^key: 'k'"):
            add(store, stored(2, key="k"))
        with pytest.raises(ConflictError, match=r"^key: 'j'"):
            add(store, stored(3, key="j"), stored(4, key="j"))
        assert listed(store) == [1]

    def test_an_idempotency_key_belongs_to_its_home(self, store: Store) -> None:
        """The same key elsewhere is another key; the session is no part of the home."""
        homes: list[dict[str, Any]] = [
            {}, {"project": "p"}, {"user_id": "p"}, {"agent_id": "p"}, {"environment": "p"}, {"tenant": "p"},
        ]  # fmt: skip
        receipts = add(store, *(stored(n, key="k", **home) for n, home in enumerate(homes)))
        assert {receipt.status for receipt in receipts} == {"created"}
        with pytest.raises(ConflictError):
            add(store, stored(50, key="k", session_id="s"))

    def test_an_id_stores_once(self, store: Store) -> None:
        """The same content again changes nothing; other content is refused; another tenant has its own ids."""
        add(store, stored(1))
        assert add(store, stored(1)) == [Receipt(memory(1), "unchanged")]
        with pytest.raises(ConflictError, match=f"^id: '{id_of(1)}'"):
            add(store, stored(1, content="other"))
        assert add(store, stored(1, content="other", tenant="t"))[0].status == "created"

    def test_a_later_version_is_not_passed_over(self, store: Store) -> None:
        """It is refused, since adding is no way to revise; an older one of the same content is there already."""
        add(store, stored(1))
        later = replace(stored(1), memory=memory(1).changed("update", NOW, weight=0.5))
        with pytest.raises(ConflictError, match="version 1, before version 2"):
            add(store, later)
        store.apply([Revise(later.memory)])
        assert add(store, stored(1))[0].status == "unchanged"
        assert only(store, 1).memory.version == 2

    def test_a_revision_takes_the_place_and_keeps_the_version_before(self, store: Store) -> None:
        """With its vector and terms; those that are not given stay as they were."""
        add(store, stored(1, content="one", vector=unit(1)))
        second = memory(1, content="two").changed("update", NOW + timedelta(hours=1))
        third = second.changed("promote", NOW + timedelta(hours=2), tier="semantic")
        assert store.apply([Revise(second, unit(0, 1), ("two",)), Revise(third)]) == [
            Receipt(second, "updated"),
            Receipt(third, "updated"),
        ]
        kept = store.scan(EVERYTHING, versions=True)
        assert [item.memory for item in kept] == [memory(1, content="one"), second, third]
        assert [item.terms for item in kept] == [("one",), ("two",), ("two",)]
        assert [np.argmax(item.vector) for item in kept if item.vector is not None] == [0, 1, 1]
        assert store.fetch(EVERYTHING, [id_of(1)]) == [third]
        batch = store.gather(need(vector=unit(0, 1), terms=("one", "two")))
        assert batch["cosine"].tolist() == [1.0]
        assert batch.lexicon is not None
        assert batch.lexicon.document_frequency.tolist() == [0.0, 1.0]

    def test_a_stale_revision_is_refused(self, store: Store) -> None:
        """Of two revisions of one version, the second."""
        add(store, stored(1))
        store.apply([Revise(memory(1).changed("update", NOW, weight=0.5))])
        with pytest.raises(StaleError, match="version 2"):
            store.apply([Revise(memory(1).changed("update", NOW, weight=0.7))])
        assert store.fetch(EVERYTHING, [id_of(1)])[0].weight == 0.5

    def test_a_forgotten_memory_is_out_of_sight_and_can_return(self, store: Store) -> None:
        """Only a scan that asks for forgotten ones has it."""
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

    def test_history_comes_along_with_a_memory_from_elsewhere(self, store: Store) -> None:
        """Its older versions are versions here."""
        old, older = stored(1, content="b", version=2), stored(1, content="a")
        now = stored(1, content="c", version=3)
        store.apply([Add(now, (older, old))])
        assert [item.memory for item in store.scan(EVERYTHING, versions=True)] == [older.memory, old.memory, now.memory]
        assert store.apply([Add(now, (older, old))])[0].status == "unchanged"
        store.apply([Revise(now.memory.changed("update", NOW))])
        assert [item.memory.version for item in store.scan(EVERYTHING, versions=True)] == [1, 2, 3, 4]

    def test_versions_do_not_count_towards_the_limit(self, store: Store) -> None:
        """Each memory comes with its older versions before it, also where only the current one passes the filter."""
        add(store, *(stored(n, kind="old") for n in (1, 2, 3)))
        store.apply([Revise(memory(n, kind="old").changed("update", NOW, kind="new")) for n in (1, 2)])
        store.apply([Revise(memory(1, version=2).changed("update", NOW, kind="new"))])
        asked = Filter(kinds=["new"])
        pages = [store.scan(EVERYTHING, after, 1, asked, versions=True) for after in ("", id_of(1), id_of(2))]
        assert [[(int(item.memory.id, 16), item.memory.version) for item in page] for page in pages] == [
            [(1, 1), (1, 2), (1, 3)], [(2, 1), (2, 2)], [],
        ]  # fmt: skip
        assert listed(store, limit=2) == [1, 2]

    def test_what_is_handed_in_and_out_is_nobody_elses(self, store: Store) -> None:
        """Writing to a vector, a column, metadata or activations afterwards changes nothing in the store."""
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
        assert [kept.memory.metadata for kept in store.scan(EVERYTHING, versions=True)] == expected
        for turn in (3, 4):
            with pytest.raises(TypeError):
                only(store, 1).activations["other"] = 1  # type: ignore[index]
            assert dict(only(store, 1).activations) == {"default\x1f\x1fs": turn}
            store.apply([Touch(Scope(session_id="s"), (id_of(1),), activate=True)])

    def test_metadata_comes_out_frozen_in_every_verb(self, store: Store) -> None:
        """Mappings refuse to be changed and lists are tuples, at every depth; a memory can be pickled and copied."""
        raw: dict[str, Any] = {"list": [1, [2], {"deep": []}], "map": {"x": None}}
        new = replace(memory(1, key="k"), metadata=raw)
        (added,) = store.apply([Add(replace(stored(1), memory=new))])
        (revised,) = store.apply([Revise(new.changed("update", NOW))])
        (unchanged,) = store.apply([Add(replace(stored(1), memory=new))])
        found = [receipt.memory for receipt in (added, revised, unchanged)]
        found += [item.memory for item in store.scan(EVERYTHING, versions=True)]
        found += store.fetch(EVERYTHING, [id_of(1)]) + store.keyed(Scope(), ["k"])
        assert len(found) == 7
        for each in found:
            assert each.metadata == {"list": (1, (2,), {"deep": ()}), "map": {"x": None}}
            for mapping in (each.metadata, each.metadata["map"], each.metadata["list"][2]):
                assert type(mapping) is Frozen
            assert pickle.loads(pickle.dumps(each)) == copy.copy(each) == copy.deepcopy(each) == each  # noqa: S301

    def test_a_closed_store_says_so(self, store: Store) -> None:
        """In every verb; closing twice is no error."""
        store.close()
        store.close()
        for verb in (
            lambda: store.apply([]),
            lambda: store.gather(need()),
            lambda: store.fetch(EVERYTHING, []),
            lambda: store.keyed(Scope(), []),
            lambda: store.scan(EVERYTHING),
        ):
            with pytest.raises(StoreError, match="closed"):
                verb()


def _seen(store: Store) -> list[object]:
    """Return all that a store shows, in a form that compares."""
    everything = store.scan(EVERYTHING, forgotten=True, versions=True)
    return [(item.memory, item.terms, dict(item.activations)) for item in everything]
