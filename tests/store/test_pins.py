"""Which model's vectors a store takes and brings: by name, length and fingerprint, and from when it is known."""

import sqlite3
from contextlib import closing

import numpy as np
import pytest

from reference import ReferenceStore
from salience.errors import EmbedderError, MovedError, PinnedError
from salience.ports import Adopt, Derive, Model
from salience.store.pins import Handle, Pin
from salience.store.sqlite import SQLiteStore
from tests.contract.memories import DIMENSION, add, need, random_unit, stored

PINS = "SELECT name, value FROM meta WHERE name IN ('embedder', 'dimension', 'fingerprint')"


def model(name="e", seed=1, dimension=DIMENSION):
    vector = random_unit(seed) if dimension == DIMENSION else np.eye(1, dimension, dtype=np.float32)[0]
    return Model(name, dimension, lambda: vector)


def away():
    raise EmbedderError("the provider is away")


def handle(of):
    return Handle(of, "agent.db")


def pin(of):
    return Pin(of.name, of.dimension, None if of.fingerprint is None else of.fingerprint())


@pytest.fixture
def opened(tmp_path):
    """A function from a model to a store in one file."""
    stores = []

    def open_(of, **options):
        stores.append(
            SQLiteStore.open(
                tmp_path / "m.db", embedder=of.name, dimension=of.dimension, fingerprint=of.fingerprint,
                language="none", busy_timeout=5, **options,
            )
        )  # fmt: skip
        return stores[-1]

    yield open_
    for store in stores:
        store.close()


@pytest.fixture(params=["memory", "sqlite"])
def store(request, opened):
    of = model()
    return opened(of) if request.param == "sqlite" else ReferenceStore(of.name, of.dimension, of.fingerprint)


def pinned(tmp_path):
    with closing(sqlite3.connect(tmp_path / "m.db")) as connection:
        return dict(connection.execute(PINS))


def asking(vector=None):
    return need(vector=random_unit(7) if vector is None else vector)


@pytest.mark.parametrize("other", [model("f"), model("e", dimension=4)])
def test_another_name_or_length_has_moved(other):
    with pytest.raises(MovedError, match=r"has vectors of embedder 'e' .* Connect again with that embedder\."):
        handle(other).check_vectors(pin(model()))


def test_another_fingerprint_is_another_model_of_the_name():
    with pytest.raises(PinnedError, match="another model of the name 'e'") as caught:
        handle(model(seed=2)).check_vectors(pin(model()))
    assert not isinstance(caught.value, MovedError)


def test_a_fingerprint_that_changed_under_a_handle_has_moved():
    own = handle(model())
    own.check_vectors(pin(model()))
    with pytest.raises(MovedError, match="another model of the name"):
        own.check_vectors(pin(model(seed=2)))


def test_builds_for_other_machines_are_one_model():
    vector = random_unit(1) + 0.01 * random_unit(2)
    near = Model("e", DIMENSION, lambda: (vector / np.linalg.norm(vector)).astype(np.float32))
    handle(near).check_vectors(pin(model()))
    assert handle(near).matches(pin(model()))
    assert not handle(model(seed=2)).matches(pin(model()))


def test_a_handle_without_a_fingerprint_is_told_by_name_and_length():
    bare = handle(Model("e", DIMENSION))
    bare.check_vectors(pin(model()))
    assert bare.matches(pin(model()))
    assert bare.pin().fingerprint is None


def test_a_provider_that_is_away_is_asked_only_where_a_fingerprint_is_known():
    own = handle(Model("e", DIMENSION, away))
    own.check_vectors(None)
    own.check_vectors(Pin("e", DIMENSION))
    with pytest.raises(EmbedderError):
        own.check_vectors(pin(model()))
    with pytest.raises(MovedError):
        own.check_vectors(pin(model("f")))


def test_memories_without_vectors_pin_no_fingerprint(opened, tmp_path):
    store = opened(Model("e", DIMENSION, away))
    add(store, stored(1, vector=None))
    assert pinned(tmp_path) == {"embedder": "e", "dimension": str(DIMENSION)}


@pytest.mark.parametrize("derived", [False, True])
def test_the_first_vector_pins_the_fingerprint(opened, tmp_path, derived):
    store = opened(model())
    (receipt,) = add(store, stored(1, vector=None))
    if derived:
        memory = receipt.memory
        store.apply([Derive(memory.scope.tenant, memory.id, 1, memory.content_hash, random_unit(1))])
    else:
        add(store, stored(2))
    assert pinned(tmp_path)["fingerprint"]
    with pytest.raises(PinnedError):
        opened(model(seed=2)).gather(asking())


def test_a_file_of_a_model_without_a_fingerprint_learns_it_at_its_next_vector(opened, tmp_path):
    add(opened(Model("e", DIMENSION)), stored(1))
    assert "fingerprint" not in {name for name, value in pinned(tmp_path).items() if value}
    store = opened(model())
    assert len(store.gather(asking())) == 1
    assert not pinned(tmp_path).get("fingerprint")
    add(store, stored(2))
    assert pinned(tmp_path)["fingerprint"]


def test_vectors_of_another_model_of_the_name_are_neither_written_nor_read(store):
    add(store, stored(1))
    other = store.with_model(model(seed=2))
    with pytest.raises(PinnedError):
        add(other, stored(2))
    with pytest.raises(PinnedError):
        other.gather(asking())
    assert len(other.gather(need())) == 1
    assert len(store.gather(asking())) == 1


def test_a_handle_of_a_former_model_serves_all_but_vectors(store):
    add(store, stored(1))
    new = store.with_model(model("f", seed=3))
    new.apply([Adopt()])
    with pytest.raises(MovedError, match="has vectors of embedder 'f' "):
        store.gather(asking())
    with pytest.raises(MovedError):
        add(store, stored(2))
    add(store, stored(3, vector=None))
    assert len(store.gather(need())) == len(new.gather(asking())) == 2


def test_a_late_vector_of_the_former_model_takes_no_place(store):
    (receipt,) = add(store, stored(1))
    new, memory = store.with_model(model("f", seed=3)), receipt.memory
    new.apply([Adopt()])
    store.apply([Derive(memory.scope.tenant, memory.id, 1, memory.content_hash, random_unit(1))])
    assert new.unembedded()[0].vector is None
    assert new.pinned().name == "f"


def test_a_store_that_moves_opens_under_another_model(opened):
    add(opened(model()), stored(1))
    with pytest.raises(PinnedError, match="written with embedder 'e'"):
        opened(model("f", dimension=4))
    moving = opened(model("f", dimension=4), moving=True)
    assert [item.memory.version for item in moving.unembedded()] == [1]
    assert moving.pinned().name == "e"
