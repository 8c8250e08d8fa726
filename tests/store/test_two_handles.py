"""Several handles on one store: what one does to the past, the vectors or for good, the others see at once."""

from unittest.mock import patch

import pytest

from salience.errors import BusyError, LeaseError, MovedError, PinnedError, StoreError
from salience.ports import Add, Adopt, Derive, Erase, Lease, Model, Near, Prune, Revise, Touch
from salience.records import Scope
from salience.store import sqlite_file
from salience.store.postgres import PostgresStore
from salience.store.sqlite import SQLiteStore
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
    random_tokens,
    replaces,
    stored,
    successors,
    unit,
)

pytestmark = pytest.mark.slow

MODEL = Model("e", DIMENSION, lambda: unit(1))
NEW = Model("new", 4, lambda: fitted(unit(0, 1), 4))
SECRET = "the crocus blooms at midnight"


ON_A_FILE = pytest.mark.parametrize("kind", [SQLiteStore], indirect=True, ids=["file"])


@pytest.fixture(params=[SQLiteStore, PostgresStore], ids=["file", "server"])
def kind(request):
    return request.param


@pytest.fixture
def path(tmp_path):
    return tmp_path / "memory.db"


@pytest.fixture
def opened(kind, path, request):
    stores = []
    place = path if kind is SQLiteStore else request.getfixturevalue("tables")

    def opened(model=MODEL, **options):
        stores.append(
            kind.open(place, embedder=model.name, dimension=model.dimension, fingerprint=model.fingerprint,
                      language="none", busy_timeout=5, **options)
        )  # fmt: skip
        return stores[-1]

    yield opened
    for store in stores:
        store.close()


@pytest.fixture
def two(opened):
    """Two handles that have both read the file: of three memories one has an older version, and one has no vector."""
    first, second = opened(), opened()
    add(first, stored(1, unit(1), ("old",), key="k"), stored(2, unit(0, 1), ("old",)), stored(3, None, ("old",)))
    first.apply([Revise(memory(1, key="k").changed("update", NOW.replace(hour=13)), terms=("new",))])
    for store in (first, second):
        assert numbers(store.gather(need(vector=unit(1), terms=("old",)))) == [1, 2, 3]
        assert numbers(store.gather(need(as_of=NOW, vector=unit(1), terms=("old",)))) == [1, 2, 3]
    return first, second


def test_only_a_change_of_a_file_makes_a_search_begin_a_transaction(two, kind):
    if kind is PostgresStore:
        pytest.skip("its statements are counted on the wire")
    (first, second), said = two, list[str]()
    sqlite_file._driver(second._reader).set_trace_callback(said.append)
    asked = need(vector=unit(1), terms=("old",))
    assert numbers(second.gather(asked)) == [1, 2, 3]
    second.speakers(EVERYTHING, ["Ann"]), second.sessions(EVERYTHING)
    assert set(said) == {"PRAGMA data_version"}
    add(first, stored(4, unit(1)))
    assert numbers(second.gather(asked)) == [1, 2, 3, 4]
    assert "BEGIN" in said


def test_token_vectors_alone_rebuild_no_index(two, kind):
    first, second = two
    before = second.gather(need(vector=unit(1)))["cosine"].tolist()
    place = (
        "salience.store.sqlite.SQLiteStore._loaded" if kind is SQLiteStore else "salience.store.postgres.cache.index_of"
    )
    with patch(place, side_effect=AssertionError):
        derived = [Derive("default", id_of(n), 1, memory(n).content_hash, tokens=random_tokens(n)) for n in (1, 2)]
        first.apply(derived)
        assert second.gather(need(vector=unit(1)))["cosine"].tolist() == before
        first.apply([Derive("default", id_of(3), 1, memory(3).content_hash, unit(1), tokens=random_tokens(3))])
        assert second.gather(need(vector=unit(1)))["cosine"].tolist() == [1.0, 0.0, 1.0]
    held = [
        None if found is None else found.tolist()
        for found in second.token_vectors(EVERYTHING, list(map(id_of, (1, 2, 3))))
    ]
    assert held == [None, random_tokens(2).tolist(), random_tokens(3).tolist()]
    first.apply([Derive("default", id_of(2), 1, memory(2).content_hash, unit(1))])
    with patch(place, side_effect=AssertionError), pytest.raises(AssertionError):
        second.gather(need(vector=unit(1)))


def test_relations_that_one_decides_are_seen_by_the_other(two):
    first, second = two
    assert successors(second.gather(need(successors=True))) == [None, None, None]
    first.apply([Derive("default", id_of(2), 1, memory(2).content_hash, relations=(replaces(3, 0.8),))])
    for store in (first, second):
        batch = store.gather(need(successors=True, vector=unit(1)))
        assert (successors(batch), batch["replaced"].tolist()) == ([None, None, 2], [0.0, 0.0, 0.8])
        assert only(store, 2).memory.version == 1
    past = Derive("default", id_of(1), 1, memory(1).content_hash, relations=(replaces(3),))
    first.apply([past])
    for store in (first, second):
        assert successors(store.gather(need(successors=True, as_of=NOW))) == [None, None, 1]
        assert successors(store.gather(need(successors=True))) == [None, None, 2]


def frequencies(store, **values):
    return store.gather(need(terms=("old", "new"), **values)).lexicon.document_frequency.tolist()


def test_what_one_erases_is_gone_for_the_other_at_once(two):
    first, second = two
    first.apply([Erase("default", (id_of(1),))])
    assert numbers(second.gather(need(vector=unit(1)))) == numbers(second.gather(need(as_of=NOW))) == [2, 3]
    assert frequencies(second) == [2.0, 0.0]
    assert frequencies(second, as_of=NOW) == [2.0, 0.0]
    assert second.history(EVERYTHING, id_of(1)) == second.fetch(EVERYTHING, [id_of(1)], as_of=NOW) == []


@pytest.mark.parametrize("at", [None, NOW], ids=["unasked", "at an instant"])
def test_a_touch_of_which_the_note_is_pruned_is_seen_by_the_other(two, at):
    """Though it had not read the store since: where notes are gone that it had not met, it reads all anew."""
    first, second = two
    first.apply([Touch(Scope(), (id_of(1),), accessed_at=NOW, access_count=2, at=at)])
    first.apply([Prune("default", touches_before=NOW.replace(hour=23))])
    assert second.gather(need())["access_count"].tolist() == [2, 0, 0]
    assert second.fetch(EVERYTHING, [id_of(1)])[0].access_count == 2


@ON_A_FILE
def test_where_no_note_is_pruned_that_was_not_met_no_row_is_read_again(two):
    first, _ = two
    first.apply([Touch(Scope(), (id_of(1),), accessed_at=NOW, access_count=2, at=NOW)])
    first.gather(need())
    known = first._current["default"].index.codes
    for _ in range(2):
        first.apply([Prune("default", touches_before=NOW.replace(hour=23))])
        assert first.gather(need())["access_count"].tolist() == [2, 0, 0]
    assert first._current["default"].index.codes is known


def test_what_takes_an_erased_id_is_not_mistaken_for_it(two):
    """Though it is of the same version, which is how an arena tells that a text is as it was."""
    first, second = two
    first.apply([Erase("default", (id_of(2),))])
    add(first, stored(2, unit(1), ("new",)))
    batch = second.gather(need(ids=(id_of(2),), vector=unit(1)))
    assert batch["cosine"].tolist() == [1.0]
    assert frequencies(second) == [1.0, 2.0]


@ON_A_FILE
def test_what_is_erased_is_nowhere_in_the_file_nor_in_its_journal(opened, path):
    """Nor is it in the caches of the process; what belongs to others stays."""
    store = opened()
    words = tuple(SECRET.split())
    held = {"entities": ("Crocus",), "tags": ("crocus",), "metadata": {"why": "crocus"}, "speaker": "Crocus"}
    add(store, stored(1, content=SECRET, terms=words, distinctions=(f"text:{SECRET}",), **held), stored(2))
    second = memory(1, content=SECRET, **held).changed("update", NOW, reason="crocus", content=f"{SECRET}, again")
    store.apply([Revise(second), Touch(Scope(), (id_of(1),), access_count=1, at=NOW)])
    store.gather(need(terms=words, as_of=NOW))
    assert b"crocus" in everything(path)
    store.apply([Erase("default", (id_of(1),))])
    assert store.finish_erasures()
    assert b"crocus" not in everything(path).lower()
    assert not store._current
    assert not store._past
    assert listed(store) == [2]


def everything(path):
    return b"".join(file.read_bytes() for file in path.parent.iterdir() if not file.name.endswith("-shm"))


@ON_A_FILE
def test_erasing_does_not_wait_for_one_who_reads_without_end(two):
    """It is done for all who read after it; the journal is emptied another time."""
    first, second = two
    first._busy_timeout = 0.01
    with second._reader.begin():
        second._reader.exec_driver_sql("SELECT count(*) FROM memories").fetchone()
        first.apply([Erase("default", (id_of(1),))])
        assert second._reader.exec_driver_sql("SELECT count(*) FROM memories").scalar_one() == 3
    assert listed(first) == listed(second) == [2, 3]


def test_a_vector_that_one_derives_is_found_by_the_other(two):
    first, second = two
    first.apply([Derive("default", id_of(3), 1, only(first, 3).memory.content_hash, unit(1))])
    batch = second.gather(need(vector=unit(1), vectors=True, near=Near(unit(1)[None], 0.9)))
    assert (numbers(batch), batch["cosine"].tolist()) == ([1, 3], [1.0, 1.0])


@pytest.mark.parametrize("number", [2, 3], ids=["with a vector", "without one"])
def test_words_that_one_derives_are_found_by_the_other(two, number):
    first, second = two
    before = frequencies(second)
    first.apply([Derive("default", id_of(number), 1, only(first, number).memory.content_hash, None, ("new",))])
    assert frequencies(second) == [before[0] - 1, before[1] + 1]


def test_what_one_adopts_is_no_vector_of_the_other(two, opened):
    """A handle of the former model has words alone; one of the new model has its vectors, whenever it was made."""
    first, second = two
    third = opened(NEW, moving=True)
    texts = {number: only(first, number).memory.content_hash for number in (1, 2, 3)}
    short = fitted(unit(0, 1), 4)
    third.apply([Derive("default", id_of(n), 1, texts[n], short) for n in texts])
    third.apply([Derive("default", id_of(1), 2, texts[1], short), Adopt()])
    for store in (first, second):
        with pytest.raises(MovedError, match=r"embedder 'new' .*Connect again"):
            store.gather(need(vector=unit(1)))
        assert frequencies(store) == [2.0, 1.0]
        assert store.gather(need())["embedded"].tolist() == [True] * 3
    with pytest.raises(PinnedError, match="reembed"):
        opened()
    for store in (third, opened(NEW), second.with_model(NEW)):
        assert store.gather(need(vector=short))["cosine"].tolist() == [1.0] * 3
        assert store.gather(need(vector=short, as_of=NOW))["cosine"].tolist() == [1.0] * 3


def test_the_past_that_one_prunes_is_gone_for_the_other(two):
    first, second = two
    first.apply([Prune("default", ((id_of(1), 1),))])
    assert numbers(second.gather(need(as_of=NOW))) == [2, 3]


def test_a_lease_is_the_stores(two):
    first, second = two
    until = NOW.replace(hour=13)
    first.apply([Lease("upkeep", "first", NOW, until)])
    with pytest.raises(LeaseError, match="first is at it"):
        second.apply([Lease("upkeep", "second", NOW, until)])
    second.apply([Lease("upkeep", "second", until, until)])


@ON_A_FILE
@pytest.mark.parametrize(
    "verb",
    [
        lambda store: store.apply([Add(stored(7))]),
        lambda store: store.apply([Derive("default", id_of(1), 1, "x", unit(1))]),
        lambda store: store.apply([Adopt()]),
        lambda store: store.gather(need(vector=unit(1))),
        lambda store: store.unembedded(),
    ],
    ids=["add", "derive", "adopt", "gather", "unembedded"],
)
def test_nobody_waits_while_a_provider_is_asked_for_a_fingerprint(two, opened, verb):
    first, _ = two
    seen = []

    def fingerprint():
        seen.append((store._writing.locked(), store._reading.locked()))
        return unit(1)

    store = opened(Model("e", DIMENSION, fingerprint))
    verb(store)
    verb(store)
    assert seen == [(False, False)]
    assert listed(first)[:3] == [1, 2, 3]


@ON_A_FILE
@pytest.mark.parametrize(
    ("trigger", "changes"),
    [
        ("AFTER INSERT ON memories BEGIN DELETE FROM memories WHERE id = new.id; END", [Add(stored(9))]),
        ("AFTER INSERT ON versions BEGIN DELETE FROM versions WHERE id = new.id; END",
         [Revise(memory(2).changed("update", NOW))]),
        ("AFTER UPDATE ON memories BEGIN DELETE FROM memories WHERE id = new.id; END",
         [Touch(Scope(), (id_of(2),), access_count=1)]),
        ("AFTER DELETE ON memories BEGIN DELETE FROM memories; END", [Erase("default", (id_of(2),))]),
    ],
    ids=["add", "revise", "touch", "erase"],
)  # fmt: skip
def test_a_count_that_is_not_right_undoes_all(two, trigger, changes):
    """Where the file itself loses rows, nothing is written, and the error says how many would be left."""
    first, second = two
    with first._writer.begin():
        first._writer.exec_driver_sql(f"CREATE TRIGGER loses {trigger}")
    before = [item.memory for item in second.scan(EVERYTHING, versions=True)]
    with pytest.raises(StoreError, match=r"^store: \d memories and \d older versions .* nothing was written"):
        first.apply(changes, counted=True)
    assert [item.memory for item in second.scan(EVERYTHING, versions=True)] == before
    assert numbers(first.gather(need())) == [1, 2, 3]


@ON_A_FILE
def test_a_touch_that_notes_what_was_gives_up_as_early_as_any(two):
    first, second = two
    first._busy_timeout = 30
    with second._writer.begin(), patch("salience.store.sql_store.TOUCH_PATIENCE", 0.01), pytest.raises(BusyError):
        first.apply([Touch(Scope(), (id_of(1),), access_count=1, at=NOW)])
    assert first.gather(need())["access_count"].tolist() == [0, 0, 0]
