"""Contract of models: pins, vectors that come later, and the change to another model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
import pytest

from salience.batch import Vectors32
from salience.errors import EmbedderError, InputError, MovedError, PinnedError, StaleError
from salience.ports import Add, Adopt, Change, Derive, Erase, Lease, Model, Near, Prune, Revise, Store, Stored
from salience.records import Scope
from salience.text import content_hash
from tests.contract.memories import (
    DIMENSION,
    EVERYTHING,
    NOW,
    add,
    fitted,
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

SHORT: Final = 4
"""Length of the vectors of another model."""


def model(name: str = "first", dimension: int = DIMENSION, fingerprint: Vectors32 | None = None) -> Model:
    """Return a model; its fingerprint is its name's own, unless it is given."""
    own = random_unit(len(name)) if fingerprint is None else fingerprint
    return Model(name, dimension, lambda: own[:dimension] / np.linalg.norm(own[:dimension]))


def silent(name: str = "first", dimension: int = DIMENSION) -> Model:
    """Return a model whose provider does not answer."""

    def fail() -> Vectors32:
        raise EmbedderError("provider: no answer")

    return Model(name, dimension, fail)


def derive(number: int, vector: Vectors32 | None = None, version: int = 1, **values: Any) -> Derive:
    """Return what is derived from a version of a memory of the default tenant, with the content of `memory`."""
    fields = {"tenant": "default", "content_hash": content_hash(f"memory {number}"), **values}
    return Derive(id=id_of(number), version=version, vector=vector, **fields)


def vectors(store: Store, scope: Scope = EVERYTHING) -> list[list[float] | None]:
    """Return the vectors of all versions in the order of a scan, rounded."""
    found = store.scan(scope, forgotten=True, versions=True)
    return [None if item.vector is None else np.round(item.vector, 4).tolist() for item in found]


def keys(found: Sequence[Stored]) -> list[tuple[str, int, int]]:
    """Return (tenant, number, version) of each."""
    held = [item.memory for item in found]
    return [(one.scope.tenant, int(one.id, 16), one.version) for one in held]


def rounded(vector: Vectors32 | None) -> list[float] | None:
    """Return a vector as `vectors` has it."""
    return None if vector is None else np.round(vector, 4).tolist()


def short(*values: float) -> Vectors32:
    """Return a unit vector of the other model."""
    found = fitted(unit(*values), SHORT)
    assert found is not None
    return found


def frequencies(store: Store) -> list[float]:
    """Return how many memories hold each of two words."""
    found = store.gather(need(terms=("old", "new"))).lexicon
    assert found is not None
    frequencies: list[float] = found.document_frequency.tolist()
    return frequencies


class ModelContract:
    """One model owns the vectors; another can replace it."""

    def test_a_new_store_says_what_it_can_do(self, store: Store) -> None:
        assert (store.moved, store.is_degraded) == (False, False)
        assert isinstance(store.sees_all, bool)
        assert all(isinstance(count, int) for count in store.connections().values())

    def test_the_first_memory_pins_the_store(self, store: Store) -> None:
        """A lease does not, and a memory without a vector needs no fingerprint."""
        mine = store.with_model(silent("mine", SHORT))
        mine.apply([Lease("work", "me", NOW, NOW)])
        assert store.pinned() is mine.pinned() is None
        mine.apply([Add(stored(1, None))])
        for handle in (store, mine):
            pinned = handle.pinned()
            assert pinned is not None
            assert (pinned.name, pinned.dimension, pinned.fingerprint) == ("mine", SHORT, None)
        mine.apply([Erase("default", (id_of(1),))])
        assert mine.pinned() is not None

    def test_a_handle_of_another_model_can_only_search_words(self, store: Store) -> None:
        mine, other = store.with_model(model("mine", SHORT)), store.with_model(model("other"))
        assert len(other.gather(need(vector=unit(1)))) == 0
        mine.apply([Add(stored(1, fitted(unit(1), SHORT), ("x",)))])
        given: list[Change] = [
            Add(stored(2)), Add(stored(2, None, version=2), (stored(2),)),
            Revise(memory(1).changed("update", NOW), unit(1)),
        ]  # fmt: skip
        for change in given:
            with pytest.raises(MovedError, match=r"'mine' \(4 dimensions\).*Connect again"):
                other.apply([Add(stored(3, None)), change])
        for request in (need(vector=unit(1)), need(near=Near(unit(1)[None], 0.5)), need(vector=unit(1), as_of=NOW)):
            with pytest.raises(MovedError, match="'other'"):
                other.gather(request)
        assert listed(other) == [1]
        second = Revise(memory(1).changed("update", NOW), None, ("y",), unembeds=True)
        other.apply([Add(stored(2, None, ("x",))), second])
        batch = other.gather(need(terms=("x", "y"), candidates=5))
        assert batch.lexicon is not None
        assert (numbers(batch), batch.lexicon.document_frequency.tolist()) == ([1, 2], [1.0, 1.0])
        assert mine.gather(need(vector=fitted(unit(1), SHORT)))["embedded"].tolist() == [False, False]

    def test_a_fingerprint_separates_models_of_one_name(self, store: Store) -> None:
        """Builds of one model differ a little."""
        store.with_model(model("first", fingerprint=unit(1))).apply([Add(stored(1))])
        near, far = (store.with_model(model("first", fingerprint=unit(1, slope))) for slope in (0.12, 0.16))
        assert near.apply([Add(stored(2))])[0].status == "created"
        assert numbers(near.gather(need(vector=unit(1)))) == [1, 2]
        for verb in (lambda: far.apply([Add(stored(3))]), lambda: far.gather(need(vector=unit(1)))):
            with pytest.raises(PinnedError, match=r"another model of the name 'first'.* reembed"):
                verb()
        assert far.apply([Add(stored(3, None))])[0].status == "created"
        assert numbers(far.gather(need())) == [1, 2, 3]

    def test_a_model_without_a_fingerprint_is_known_by_its_name(self, store: Store) -> None:
        bare = store.with_model(Model("first", DIMENSION))
        bare.apply([Add(stored(1))])
        mine = store.with_model(model(fingerprint=unit(1)))
        assert numbers(mine.gather(need(vector=unit(1)))) == [1]
        mine.apply([Add(stored(2, None))])
        assert store.with_model(model(fingerprint=unit(0, 1))).gather(need(vector=unit(1)))["cosine"].shape == (2,)
        mine.apply([Add(stored(3))])
        with pytest.raises(PinnedError):
            store.with_model(model(fingerprint=unit(0, 1))).gather(need(vector=unit(1)))
        assert numbers(bare.gather(need(vector=unit(1)))) == [1, 2, 3]

    @pytest.mark.parametrize("change", [Add(stored(2)), derive(1, unit(1))], ids=["add", "derive"])
    def test_the_first_vector_brings_the_fingerprint(self, store: Store, change: Change) -> None:
        store.with_model(silent()).apply([Add(stored(1, None))])
        with pytest.raises(EmbedderError, match="no answer"):
            store.with_model(silent()).apply([Add(stored(9, None)), change])
        assert vectors(store) == [None]
        store.with_model(model(fingerprint=unit(1))).apply([change])
        with pytest.raises(PinnedError):
            store.with_model(model(fingerprint=unit(0, 1))).gather(need(vector=unit(1)))
        with pytest.raises(EmbedderError, match="no answer"):
            store.with_model(silent()).gather(need(vector=unit(1)))
        assert 1 in numbers(store.with_model(silent()).gather(need(terms=("memory",))))

    @pytest.mark.parametrize(
        "change",
        [
            Add(stored(2, np.ones(3, np.float32))),
            Revise(memory(1).changed("update", NOW), np.ones(3, np.float32)),
            derive(1, np.ones(3, np.float32)),
            derive(1, np.ones(DIMENSION, np.float64)),
        ],
        ids=["add", "revise", "derive", "float64"],
    )
    def test_a_vector_of_another_length_or_type_is_refused(self, store: Store, change: Change) -> None:
        add(store, stored(1, None))
        with pytest.raises(InputError, match=r"^vector"):
            store.apply([Add(stored(3)), change])
        assert vectors(store) == [None]

    def test_a_vector_that_is_derived_later_is_found(self, store: Store) -> None:
        add(store, stored(1, None), stored(2, unit(0, 1)))
        assert store.gather(need(vector=unit(1)))["embedded"].tolist() == [False, True]
        assert store.apply([derive(1, unit(1))]) == []
        batch = store.gather(need(vector=unit(1), vectors=True))
        assert (batch["cosine"].tolist(), batch["embedded"].tolist()) == ([1.0, 0.0], [True, True])
        assert only(store, 1).memory == memory(1)
        assert store.gather(need(vector=unit(1), as_of=NOW))["cosine"].tolist() == [1.0, 0.0]
        store.apply([derive(1, unit(0, 1))])
        assert store.gather(need(vector=unit(1)))["cosine"].tolist() == [0.0, 0.0]

    @pytest.mark.parametrize("vector", [None, unit(1)], ids=["without a vector", "with one"])
    def test_derive_replaces_terms_and_distinctions(self, store: Store, vector: Vectors32 | None) -> None:
        add(store, stored(1, vector, ("old",), distinctions=("text:old",)))
        request = need(terms=("old", "new"), distinctions=True)
        assert frequencies(store) == [1.0, 0.0]
        store.apply([derive(1, terms=("new", "new"))])
        assert frequencies(store) == [0.0, 1.0]
        assert (only(store, 1).terms, only(store, 1).distinctions) == (("new", "new"), ("text:old",))
        store.apply([derive(1, distinctions=("number:1", "number:2"))])
        batch = store.gather(replace(request, asked=("number:3", "number:2")))
        assert batch.distinctions is not None
        assert batch.asked is not None
        assert len(batch.distinctions.values) == 2
        assert batch.distinctions.values[1] == batch.asked[1]
        assert batch.asked[0] not in batch.distinctions.values
        store.apply([derive(1, unit(0, 1), terms=(), distinctions=())])
        found = store.gather(request).distinctions
        assert found is not None
        assert len(found.values) == 0
        assert frequencies(store) == [0.0, 0.0]
        assert vectors(store) == [rounded(unit(0, 1))]

    def test_derive_changes_only_its_version(self, store: Store) -> None:
        add(store, stored(1, None, ("a",)))
        second = memory(1).changed("update", NOW.replace(hour=13), content="b", content_hash=content_hash("b"))
        store.apply([Revise(second, None, ("b",))])
        store.apply([derive(1, unit(1), terms=("x",), distinctions=("text:x",))])
        assert vectors(store) == [rounded(unit(1)), None]
        assert store.gather(need(vector=unit(1)))["embedded"].tolist() == [False]
        assert store.gather(need(vector=unit(1), as_of=NOW))["cosine"].tolist() == [1.0]
        store.apply([derive(1, unit(0, 1), 2, content_hash=content_hash("b"))])
        assert vectors(store) == [rounded(unit(1)), rounded(unit(0, 1))]
        assert [item.terms for item in store.history(EVERYTHING, id_of(1))] == [("x",), ("b",)]

    def test_derive_ignores_changed_texts_and_absent_memories(self, store: Store) -> None:
        add(store, stored(1, None), stored(2, None))
        before = vectors(store)
        store.apply([
            derive(1, unit(1), content_hash=content_hash("another")), derive(1, unit(1), 2), derive(9, unit(1)),
            derive(2, unit(1), tenant="other"), derive(2),
        ])  # fmt: skip
        assert vectors(store) == before == [None, None]
        assert [item.terms for item in store.scan(EVERYTHING)] == [("memory", "1"), ("memory", "2")]

    def test_unembedded_lists_versions_without_a_vector(self, store: Store) -> None:
        add(store, stored(2, None), stored(1, None), stored(3), stored(1, None, tenant="a"), stored(2, tenant="z"))
        store.apply([Revise(memory(1).changed("forget", NOW, forgotten_at=NOW))])
        store.apply([Revise(memory(3).changed("update", NOW), unembeds=True)])
        store.apply([Revise(memory(2, tenant="z").changed("update", NOW), unembeds=True)])
        everything = [("default", 1, 1), ("default", 1, 2), ("default", 2, 1), ("default", 3, 2), ("z", 2, 2)]
        everything.insert(0, ("a", 1, 1))
        assert keys(store.unembedded()) == everything
        after, paged = ("", "", 0), []
        while page := store.unembedded(after, 2):
            paged += page
            last = page[-1].memory
            after = (last.scope.tenant, last.id, last.version)
        assert keys(paged) == everything
        assert keys(store.unembedded(("default", id_of(1), 1), 2)) == everything[2:4]
        assert store.unembedded(limit=0) == []
        assert paged[0].terms == ("memory", "1")
        store.apply([derive(1, unit(1)), derive(2, unit(1))])
        assert keys(store.unembedded()) == [everything[0], *everything[2:3], *everything[4:]]

    @pytest.fixture
    def held(self, store: Store) -> tuple[Store, Store]:
        """Return a handle of the model that the store is pinned to, and one of another, of another dimension."""
        home, new = store.with_model(model("home")), store.with_model(model("new", SHORT))
        home.apply([Add(stored(1, unit(1), ("x",))), Add(stored(2, unit(0, 1))), Add(stored(3, None))])
        home.apply([Revise(memory(1).changed("update", NOW.replace(hour=13)), None, ("y",))])
        home.apply([Add(stored(1, unit(1), tenant="other"))])
        return home, new

    def test_vectors_of_a_new_model_are_in_no_answer_before_adoption(
        self, store: Store, held: tuple[Store, Store]
    ) -> None:
        home, new = held
        before = vectors(home)
        everything = [("default", 1, 1), ("default", 1, 2), ("default", 2, 1), ("default", 3, 1), ("other", 1, 1)]
        assert keys(new.unembedded()) == everything
        assert keys(home.unembedded()) == [("default", 3, 1)]
        new.apply([derive(1, short(1)), derive(3, short(1)), derive(1, short(1), tenant="other")])
        assert keys(new.unembedded()) == [everything[1], everything[2]]
        assert keys(new.unembedded(("default", id_of(1), 2), 1)) == [everything[2]]
        assert vectors(home) == before
        assert home.gather(need(vector=unit(1)))["cosine"].tolist() == [1.0, 0.0, 0.0]
        assert keys(home.unembedded()) == [("default", 3, 1)]
        pinned = new.pinned()
        assert pinned is not None
        assert pinned.name == "home"

    def test_terms_can_be_derived_under_any_model(self, store: Store, held: tuple[Store, Store]) -> None:
        home, new = held
        new.apply([derive(2, short(1), terms=("new",), distinctions=("text:new",))])
        found = only(home, 2)
        assert (found.terms, found.distinctions, rounded(found.vector)) == (
            ("new",),
            ("text:new",),
            rounded(unit(0, 1)),
        )
        assert frequencies(home) == [0.0, 1.0]

    def test_a_changed_text_is_embedded_again_by_the_new_model(self, store: Store, held: tuple[Store, Store]) -> None:
        home, new = held
        new.apply([derive(2, short(1))])
        new.apply([derive(2, short(0, 1), content_hash="another"), derive(9, short(1)), derive(2, short(1), 7)])
        home.apply([Revise(memory(2).changed("update", NOW), unit(1))])
        assert ("default", 2, 1) not in keys(new.unembedded())
        assert ("default", 2, 2) in keys(new.unembedded())
        new.apply([Adopt()])
        assert [rounded(item.vector) for item in new.history(EVERYTHING, id_of(2))] == [rounded(short(1)), None]

    def test_reembedding_resumes_under_the_same_model(self, store: Store, held: tuple[Store, Store]) -> None:
        """A handle of another model starts again, and drops the vectors of the first."""
        _, new = held
        new.apply([derive(1, short(1)), derive(2, short(1))])
        again = store.with_model(model("new", SHORT))
        assert keys(again.unembedded()) == [("default", 1, 2), ("default", 3, 1), ("other", 1, 1)]
        third = store.with_model(model("third", SHORT))
        assert len(third.unembedded()) == 5
        third.apply([derive(3, short(1))])
        assert len(third.unembedded()) == 4
        assert len(new.unembedded()) == 5
        with pytest.raises(PinnedError, match="another model"):
            new.apply([Adopt()])
        fourth = store.with_model(model("home", DIMENSION, unit(1)))
        assert len(fourth.unembedded()) == 5

    def test_adopting_replaces_the_vectors_of_all_tenants(self, store: Store, held: tuple[Store, Store]) -> None:
        home, new = held
        assert home.gather(need(vector=unit(1)))["cosine"].tolist() == [1.0, 0.0, 0.0]
        new.apply([derive(1, short(1)), derive(1, short(0, 1), 2), derive(2, short(1))])
        new.apply([derive(1, short(0, 1), tenant="other")])
        assert new.apply([Adopt()]) == []
        first, second = rounded(short(1)), rounded(short(0, 1))
        assert vectors(new) == [first, second, first, None]
        assert vectors(new, Scope("other")) == [second]
        batch = new.gather(need(vector=short(1), candidates=1))
        assert (batch["cosine"].tolist(), batch["embedded"].tolist()) == ([1.0, 0.0], [True, False])
        assert new.gather(need(vector=short(1), as_of=NOW))["cosine"].tolist() == [1.0, 1.0, 0.0]
        assert keys(new.unembedded()) == [("default", 3, 1)]
        pinned = home.pinned()
        assert pinned is not None
        assert (pinned.name, pinned.dimension) == ("new", SHORT)
        for verb in (lambda: home.gather(need(vector=unit(1))), lambda: home.apply([Add(stored(7))])):
            with pytest.raises(MovedError, match=r"embedder 'new' .*Connect again"):
                verb()
        home.apply([Add(stored(7, None, ("z",)))])
        assert numbers(home.gather(need(terms=("z",)))) == [1, 2, 3, 7]
        assert [item.memory.version for item in new.history(EVERYTHING, id_of(1))] == [1, 2]

    def test_a_model_of_the_same_name_can_be_adopted(self, store: Store) -> None:
        old, new = (store.with_model(model("one", fingerprint=fingerprint)) for fingerprint in (unit(1), unit(0, 1)))
        old.apply([Add(stored(1, unit(1))), Add(stored(2, unit(1)))])
        new.apply([derive(1, unit(0, 1))])
        assert vectors(store) == [rounded(unit(1))] * 2
        new.apply([Adopt()])
        assert vectors(store) == [rounded(unit(0, 1)), None]
        assert new.gather(need(vector=unit(0, 1)))["cosine"].tolist() == [1.0, 0.0]
        with pytest.raises(PinnedError):
            old.gather(need(vector=unit(1)))

    def test_adopting_the_current_model_changes_nothing(self, store: Store, held: tuple[Store, Store]) -> None:
        home, new = held
        new.apply([derive(1, short(1))])
        before = vectors(home)
        home.apply([Adopt()])
        store.with_model(model("home")).apply([Adopt()])
        assert vectors(home) == before
        assert len(new.unembedded()) == 4

    def test_adopting_is_atomic(self, store: Store, held: tuple[Store, Store]) -> None:
        home, new = held
        new.apply([derive(1, short(1), 2)])
        with pytest.raises(StaleError):
            new.apply([Adopt(), Erase("default", (id_of(9),))])
        assert home.gather(need(vector=unit(1)))["cosine"].tolist() == [1.0, 0.0, 0.0]
        assert len(new.unembedded()) == 4
        new.apply([Adopt(), derive(2, short(0, 1)), derive(3, short(0, 1))])
        assert vectors(new) == [None, rounded(short(1)), *[rounded(short(0, 1))] * 2]

    def test_erasing_drops_vectors_that_await_adoption(self, store: Store, held: tuple[Store, Store]) -> None:
        home, new = held
        new.apply([derive(2, short(1)), derive(1, short(1))])
        home.apply([Erase("default", (id_of(2),)), Prune("default", ((id_of(1), 1),))])
        home.apply([Add(stored(2))])
        lacking = [("default", 1, 2), ("default", 2, 1), ("default", 3, 1), ("other", 1, 1)]
        assert keys(new.unembedded()) == lacking
        new.apply([Adopt()])
        assert vectors(new) == [None, None, None]

    def test_an_empty_store_adopts_at_once(self, store: Store) -> None:
        new = store.with_model(model("new", SHORT))
        assert new.unembedded() == []
        new.apply([Adopt()])
        pinned = store.pinned()
        assert pinned is not None
        assert pinned.name == "new"
        assert new.apply([Add(stored(1, short(1)))])[0].status == "created"
        assert new.gather(need(vector=short(1)))["cosine"].tolist() == [1.0]
