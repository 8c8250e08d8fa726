"""A change of the model: while the store is in use, cut short and gone on with, and never with vectors of two."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import numpy as np
import pytest

import salience
from bench import torture
from salience import EmbedderError, InputError, PinnedError, compose
from salience.errors import LeaseError, MovedError
from salience.maintain import reembed
from salience.models import registry
from salience.ports import FINGERPRINTED, Lease
from salience.records import ANY
from tests.contract.doubles import HashedEmbedder

pytestmark = pytest.mark.slow

OLD, NEW = HashedEmbedder("old", 16), HashedEmbedder("new", 24)
EVERYWHERE = {"project": ANY, "user_id": ANY}


class Failing(HashedEmbedder):
    """Fails for good after some texts, and until then notes what it was asked."""

    def __init__(self, name, dimension, texts):
        super().__init__(name, dimension)
        self.left = texts
        self.asked = []

    def embed(self, texts, /):
        self.left -= len(texts)
        if self.left < 0:
            raise ConnectionError("the provider is away")
        self.asked += texts
        return super().embed(texts)


class Picky(HashedEmbedder):
    """Refuses one text and answers to all others."""

    def embed(self, texts, /):
        if "too long" in texts:
            raise ValueError("too long")
        return super().embed(texts)


class Watched(HashedEmbedder):
    """Does something while it embeds the texts of a page."""

    def __init__(self, name, dimension, meanwhile):
        super().__init__(name, dimension)
        self.meanwhile = meanwhile

    def embed(self, texts, /):
        if any(text.startswith("memory") for text in texts):
            self.meanwhile, act = (lambda: None), self.meanwhile
            act()
        return super().embed(texts)


@pytest.fixture
def memory(target):
    with salience.connect(target, embedder=OLD) as engine:
        yield engine


@pytest.fixture
def filed(tmp_path):
    """A function from an embedder to an engine on one file, which may be pinned to another model."""
    engines = []

    def make(embedder, moving=False):
        open_ = compose.moving if moving else salience.connect
        engines.append(open_(tmp_path / "agent.db", embedder=embedder))
        return engines[-1]

    yield make
    for engine in engines:
        engine.close()


def seed(engine, count=10):
    return [receipt.memory.id for receipt in engine.remember_many([{"content": f"memory {n}"} for n in range(count)])]


def vectors(engine, id):
    scope = salience.keywords.scope(engine.services.tenant, {})[0]
    return [stored.vector for stored in engine.services.store.history(scope, id)]


def test_every_memory_and_version_gets_a_vector_of_the_new_model(memory):
    first, second, gone = seed(memory, 3)
    memory.update(first, content="memory 0, changed")
    memory.forget(gone)
    report = memory.reembed(NEW)
    assert (report.made, report.resumed, report.old, report.new) == (5, 0, "old", "new")
    expected = NEW.embed(["memory 0", "memory 0, changed"])
    assert np.array_equal(np.stack(vectors(memory, first)), expected)
    assert np.array_equal(vectors(memory, second)[0], NEW.embed(["memory 1"])[0])
    assert np.array_equal(vectors(memory, gone)[-1], NEW.embed(["memory 2"])[0])


def test_recalls_and_writes_use_the_new_model_afterwards(memory):
    seed(memory)
    memory.reembed(NEW)
    found = memory.recall("memory 3", limit=1)
    assert found.degraded == ()
    assert found[0].memory.content == "memory 3"
    assert found[0].score_detail.recompute() == pytest.approx(found[0].score)
    assert memory.remember("memory 99").status == "created"
    assert memory.stats().pending == 0
    assert (memory.stats().embedder, memory.stats().dimension) == ("new", 24)


def test_progress_ends_with_the_total(memory):
    seed(memory, 150)
    calls = []
    memory.reembed(NEW, progress=lambda done, of: calls.append((done, of)))
    assert calls[0] == (0, 150)
    assert calls[-1] == (150, 150)
    assert calls == sorted(calls)


def test_equal_texts_of_a_page_are_embedded_once(memory):
    for user in "abcdef":
        memory.remember("memory of all", user_id=user)
    asking = Failing("new", 24, 100)
    assert memory.reembed(asking).made == 6
    assert asking.asked.count("memory of all") == 1


def test_the_pinned_model_embeds_only_pending_memories(memory):
    seed(memory)
    assert memory.reembed().made == 0
    memory.services.embedder.forget()
    down = salience.engine.Engine(compose.moved(memory.services, Failing("old", 16, 0), salience.settings.load()))
    assert down.remember("memory of bad times").status == "pending"
    report = memory.reembed()
    assert (report.made, report.old, report.new) == (1, "old", "old")
    assert memory.stats().pending == 0


def test_an_empty_store_adopts_the_model_at_once(memory):
    assert memory.reembed(NEW).made == 0
    assert memory.remember("memory 1").status == "created"
    assert memory.stats().dimension == 24


def test_a_provider_failure_keeps_finished_vectors(memory):
    seed(memory, 200)
    with pytest.raises(EmbedderError, match="128 of 200 vectors are made and kept: run reembed again") as caught:
        memory.reembed(Failing("new", 24, 150))
    assert "memory" not in str(caught.value).replace("memories", "")
    assert memory.recall("memory 7", limit=1).degraded == ()
    report = memory.reembed(NEW)
    assert (report.made, report.resumed) == (72, 128)


def test_a_third_model_starts_again(memory):
    seed(memory, 200)
    with pytest.raises(EmbedderError):
        memory.reembed(Failing("new", 24, 150))
    report = memory.reembed(HashedEmbedder("third", 24))
    assert (report.made, report.resumed, report.new) == (200, 0, "third")
    assert np.array_equal(memory.services.store.unembedded(), [])


def test_another_model_of_the_same_name_starts_again(memory):
    seed(memory, 200)
    with pytest.raises(EmbedderError):
        memory.reembed(Failing("new", 24, 150))
    assert memory.reembed(HashedEmbedder("new", 24, "another")).made == 200


def test_a_refused_text_does_not_block_the_others(memory):
    ids = seed(memory, 5)
    refused = memory.remember("too long").memory.id
    assert memory.reembed(Picky("new", 24)).made == 5
    assert memory.stats().pending == 1
    assert vectors(memory, refused) == [None]
    assert all(vectors(memory, id)[0] is not None for id in ids)
    assert refused in [hit.memory.id for hit in memory.recall("too long", min_score=0.0)]


def test_memories_written_meanwhile_are_embedded(memory):
    first, *_ = seed(memory, 100)

    def meanwhile():
        memory.update(first, content="memory of meanwhile")
        memory.remember("another memory of meanwhile")

    memory.reembed(Watched("new", 24, meanwhile))
    assert memory.stats().pending == 0
    assert memory.recall("memory of meanwhile", limit=1)[0].memory.id == first


def test_memories_erased_meanwhile_stay_erased(memory):
    first, *_ = seed(memory, 100)
    memory.reembed(Watched("new", 24, lambda: memory.erase(ids=[first])))
    assert memory.stats().memories == 99
    assert memory.doctor().healthy


def test_recalls_use_the_old_model_until_the_switch(memory):
    seed(memory, 100)
    found = []
    memory.reembed(Watched("new", 24, lambda: found.append(memory.recall("memory 7", limit=1))))
    assert [hit.memory.content for hit in found[0]] == ["memory 7"]
    assert found[0].degraded == ()


def test_a_failure_after_the_switch_leaves_the_rest_pending(memory):
    first = memory.remember(
        "Is this a text apart?"
    ).memory.id  # nothing replaces it, so that its update changes no other memory
    seed(memory, 19)

    class Failed(HashedEmbedder):
        """Is away once it has shown its fingerprint, which it does for the last page; somebody else writes then."""

        is_away = False

        def embed(self, texts, /):
            if self.is_away:
                raise ConnectionError("the provider is away")
            if FINGERPRINTED in texts:
                salience.engine.Engine(old_services).update(first, content="late")  # which the last page is past
                self.is_away = True
            return super().embed(texts)

    old_services, failed = memory.services, Failed("new", 24)
    assert memory.reembed(failed).made == 20
    failed.is_away = False
    assert (memory.stats().embedder, memory.stats().pending) == ("new", 1)
    assert memory.recall("memory 7", limit=1).degraded == ()


def test_a_second_run_at_the_same_time_is_refused(memory):
    seed(memory, 3)
    now = memory.services.clock()
    memory.services.store.apply([Lease(reembed.LEASE, "somebody", now, now + reembed.HELD)])
    with pytest.raises(LeaseError, match="reembed: somebody is at it"):
        memory.reembed(NEW)
    assert memory.stats().embedder == "old"


def test_the_lease_is_returned_after_a_failure(memory):
    seed(memory, 3)
    with pytest.raises(EmbedderError):
        memory.reembed(Failing("new", 24, 0))
    now = memory.services.clock()
    memory.services.store.apply([Lease(reembed.LEASE, "somebody", now, now)])  # raises while another one has it


def test_an_engine_without_connect_cannot_change_its_model_by_name(memory):
    with pytest.raises(InputError, match="embedder"):
        salience.engine.Engine(memory.services).reembed("minilm")


@pytest.mark.parametrize("dimension", [16, 24])
def test_other_processes_recall_by_words_and_store_as_pending(filed, dimension):
    other, moving = filed(OLD), filed(OLD)
    seed(moving)
    assert other.recall("memory 3", limit=1).degraded == ()
    moving.reembed(HashedEmbedder("new", dimension))
    found = other.recall("memory 3", limit=1)
    assert found.degraded == ("embedding",)
    assert found[0].memory.content == "memory 3"
    receipt = other.remember("memory of the old model")
    assert receipt.status == "pending"
    assert "has vectors of embedder 'new'" in receipt.warning
    assert "Connect again with that embedder." in receipt.warning
    assert other.update(receipt.memory.id, content="memory of the old model, changed").memory.version == 2
    assert [stored.vector for stored in moving.services.store.unembedded()] == [None, None]
    assert moving.reembed().made == 2
    assert moving.recall("memory of the old model, changed", limit=1)[0].memory.id == receipt.memory.id


def test_other_processes_load_the_new_model_by_name(filed, monkeypatch):
    loads = []
    monkeypatch.setitem(registry.EMBEDDERS, "new", lambda _: loads.append(1) or NEW)
    other, moving = filed(OLD), filed(OLD)
    seed(moving)
    other.recall("memory 3", limit=1)
    moving.reembed(NEW)
    assert other.remember("written meanwhile").status == "pending"
    assert other.recall("memory 3", limit=1).degraded == ()
    assert other.remember("written afterwards").status == "created"
    assert other.stats().pending == 0  # what was pending got its vector beside that write
    assert other.services.embedder.name == "new"
    assert loads == [1]
    assert moving.doctor(deep=True).healthy


def test_a_model_that_cannot_be_loaded_is_retried_rarely(filed, monkeypatch):
    loads = []
    down = Failing("new", 24, 0)
    monkeypatch.setitem(registry.EMBEDDERS, "new", lambda _: loads.append(1) or down)
    other, moving = filed(OLD), filed(OLD)
    seed(moving)
    moving.reembed(NEW)
    for _ in range(5):
        assert other.recall("memory 3", limit=1).degraded == ("embedding",)
    assert loads == [1]
    monkeypatch.setattr("salience.engine.FOLLOW_PAUSE", 0.0)
    monkeypatch.setattr(other, "_follow_after", 0.0)
    down.left = 1000
    assert other.recall("memory 3", limit=1).degraded == ()


def test_the_store_opens_only_with_the_new_model(filed):
    seed(filed(OLD))
    filed(NEW, moving=True).reembed()
    with pytest.raises(PinnedError, match=r"salience --store .* --embedder NAME reembed"):
        filed(OLD)
    assert filed(NEW).recall("memory 3", limit=1)[0].memory.content == "memory 3"


def test_an_engine_under_a_new_model_recalls_by_words_until_reembed(filed):
    seed(filed(OLD))
    moving = filed(NEW, moving=True)
    assert moving.recall("memory 3", limit=1).degraded == ("embedding",)
    assert moving.remember("memory of the mover").status == "pending"
    assert moving.reembed().made == 11
    assert moving.recall("memory of the mover", limit=1).degraded == ()


def test_another_model_of_the_same_name_and_length_is_refused_and_can_take_over(filed):
    ids = seed(filed(OLD))
    other = filed(HashedEmbedder("old", 16, "another"))
    with pytest.raises(PinnedError, match="another model of the name 'old'") as caught:
        other.recall("memory 3")
    assert not isinstance(caught.value, MovedError)
    with pytest.raises(PinnedError, match="reembed"):
        other.remember("memory of the other")
    assert other.stats().memories == 10
    report = other.reembed()
    assert (report.made, report.old, report.new) == (10, "old", "old")
    assert other.recall("memory 3", limit=1)[0].memory.id == ids[3]


def test_an_embedder_that_is_down_leaves_a_store_of_its_model_readable(filed):
    seed(filed(OLD))
    down = filed(Failing("old", 16, 0))
    assert down.recall("memory 3", limit=1).degraded == ("embedding",)
    assert down.remember("memory of bad times").status == "pending"
    with pytest.raises(EmbedderError, match="try again"):
        down.reembed()


@pytest.mark.slow
def test_reembed_survives_kills_while_others_write_and_recall(tmp_path):
    counts, faults = torture.change_model(tmp_path, 250, 3, HashedEmbedder("new", 24))
    assert faults == []
    assert counts["killed"] == 3
    assert counts["recalls"] > 0
    with closing(sqlite3.connect(tmp_path / "agent.db")) as connection:
        pins = dict(connection.execute("SELECT name, value FROM meta"))
    assert (pins["embedder"], pins["dimension"]) == ("new", "24")
