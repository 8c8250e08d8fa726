"""Memories without a vector: how upkeep and the next writes give them theirs."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

import salience
from salience import pending
from salience.errors import EmbedderError
from salience.pending import FEW, REST, catch_up, embed_pending
from salience.ports import FINGERPRINTED
from salience.records import Draft
from tests.contract.doubles import PlantedEmbedder

pytestmark = pytest.mark.every_store


class Picky(PlantedEmbedder):
    """An embedder that fails while it is `down`, refuses texts with `poison`, and counts its calls."""

    def __init__(self, dimension=64, name="planted"):
        super().__init__(dimension=dimension)
        self.name = name
        self.down = False
        self.calls = 0

    def embed(self, texts, /):
        self.calls += 1
        if self.down or any("poison" in text for text in texts):
            raise EmbedderError("embedder 'planted' failed. Wait.")
        return super().embed(texts)


@pytest.fixture
def embedder():
    return Picky()


@pytest.fixture
def memory(target, clock, embedder):
    with salience.connect(target, embedder=embedder, clock=clock) as made:
        made.remember("known")  # from now on, the store is pinned to the embedder's fingerprint
        yield made


@pytest.fixture
def wait(monkeypatch):
    """Return a function that moves the clock by which writes rest; servers in other threads keep theirs."""
    now = [1000.0]
    monkeypatch.setattr(pending, "time", SimpleNamespace(monotonic=lambda: now[0]))
    return lambda seconds: now.__setitem__(0, now[0] + seconds)


def lacking(memory):
    return [stored.memory.content for stored in memory.services.store.unembedded()]


def while_down(memory, embedder, *texts):
    embedder.down = True
    made = [memory.remember(text).memory for text in texts]
    embedder.down = False
    embedder.texts.clear()
    embedder.calls = 0
    return made


def test_pages_are_embedded_in_order_and_equal_texts_once(memory, embedder, monkeypatch):
    monkeypatch.setattr(pending, "PAGE", 3)
    while_down(memory, embedder, "a", "b", "a", "c", "b", "b", "d")
    done = embed_pending(memory.services)
    assert (done.embedded, done.pending, done.warning, done.answers) == (7, 0, None, True)
    assert embedder.texts == ["a", "b", "c", "b", "d"]
    assert lacking(memory) == []


def test_without_pending_memories_the_embedder_is_not_called(memory, embedder):
    embedder.calls = 0
    assert embed_pending(memory.services).embedded == 0
    catch_up(memory.services)
    assert embedder.calls == 0


def test_older_versions_get_their_vectors_too(memory, embedder, clock):
    (made,) = while_down(memory, embedder, "first")
    embedder.down = True
    then = clock()
    clock.advance(hours=1)
    memory.update(made.id, content="second")
    embedder.down = False
    assert lacking(memory) == ["first", "second"]
    assert embed_pending(memory.services).embedded == 2
    found = memory.recall("first", as_of=then, profile="mememory")
    assert (found.degraded, found[0].memory.content) == ((), "first")


def test_it_ends_where_the_embedder_stops_answering_and_keeps_what_was_done(memory, embedder, monkeypatch):
    monkeypatch.setattr(pending, "PAGE", 2)
    while_down(memory, embedder, "a", "b", "c", "d", "e")
    calls = []

    def before():
        calls.append(True)
        embedder.down = len(calls) == 2

    done = embed_pending(memory.services, before=before)
    assert (done.embedded, done.pending, done.answers) == (2, 3, False)
    assert done.warning == "embedder 'planted' failed. Wait."
    assert lacking(memory) == ["c", "d", "e"]
    assert embedder.calls == 3  # the second page, and whether it answers at all


def test_vectors_made_before_a_failure_are_stored(memory, embedder):
    while_down(memory, embedder, "a", "b", "poison", "c")
    calls = []

    def before():
        calls.append(True)
        embedder.down = len(calls) == 3

    assert embed_pending(memory.services, before=before).embedded == 2
    assert lacking(memory) == ["poison", "c"]


@pytest.mark.parametrize("poisons", [(0,), (63,), (5, 6, 40), tuple(range(16))])
def test_texts_that_are_refused_stand_alone_in_the_end(memory, embedder, poisons):
    texts = [f"poison {number}" if number in poisons else f"text {number}" for number in range(64)]
    made = while_down(memory, embedder, *texts)
    done = embed_pending(memory.services)
    assert (done.embedded, done.pending, done.answers) == (64 - len(poisons), len(poisons), True)
    assert lacking(memory) == [texts[number] for number in poisons]
    assert made[poisons[0]].short_id in done.warning
    assert "text of" not in done.warning
    assert "poison" not in done.warning
    assert embedder.calls <= 3 * (1 + 7 * len(poisons))  # halves of halves, and each time whether it answers


def test_an_embedder_that_takes_one_text_at_a_time_gets_single_texts(memory, embedder):
    while_down(memory, embedder, "a", "b", "c")
    whole = embedder.embed

    def one_by_one(texts):
        if len(texts) > 1:
            raise EmbedderError("embedder 'planted' takes one text. Wait.")
        return whole(texts)

    embedder.embed = one_by_one
    assert embed_pending(memory.services).embedded == 3


def test_the_check_for_an_answer_does_not_use_the_cache(memory, embedder):
    memory.recall(FINGERPRINTED)  # keeps the vector of that text
    while_down(memory, embedder, "a")
    embedder.down = True
    memory.services.embedder.embed([FINGERPRINTED])
    assert embed_pending(memory.services).answers is False


def test_a_dry_run_counts_and_does_nothing(memory, embedder):
    while_down(memory, embedder, "a", "b")
    assert embed_pending(memory.services, dry_run=True).embedded == 2
    assert (lacking(memory), embedder.calls) == (["a", "b"], 0)


def test_a_text_that_changes_meanwhile_does_not_get_the_vector_of_the_former_one(memory, embedder):
    (made,) = while_down(memory, embedder, "former")
    embed_pending(memory.services, before=lambda: memory.update(made.id, content="latter"))
    older, current = memory.services.store.history(made.scope, made.id)
    for stored, text in ((older, "former"), (current, "latter")):
        assert stored.memory.content == text
        np.testing.assert_allclose(stored.vector, embedder.embed([text])[0], rtol=1e-5)


def test_what_another_process_embedded_meanwhile_is_left_as_it_is(memory, embedder):
    while_down(memory, embedder, "a", "b")
    again = []

    def other():
        if not again:
            again.append(embed_pending(memory.services).embedded)

    assert embed_pending(memory.services, before=other).embedded == 0
    assert (again, lacking(memory)) == ([2], [])


def test_an_engine_of_a_former_model_embeds_nothing(target, clock):
    before, after = Picky(), Picky(32, "another")
    with salience.connect(target, embedder=before, clock=clock) as memory:
        memory.remember("text")
        former = memory.services
        memory.reembed(after)
        after.down = True
        memory.remember("pending")
        before.calls = 0
        done = embed_pending(former)
        assert (done.embedded, done.pending, done.answers) == (0, 1, True)
        assert "vectors of embedder 'another' (32 dimensions) by now" in done.warning
        catch_up(former)
        assert before.calls == 0
        after.down = False
        assert embed_pending(memory.services).embedded == 1


def test_another_model_of_the_same_name_embeds_nothing(tmp_path, clock):
    class Other(Picky):
        def _vector(self, text):
            return -super()._vector(text)

    first = Picky()
    with salience.connect(tmp_path / "a.db", embedder=first, clock=clock) as memory:
        memory.remember("known")
        while_down(memory, first, "a")
        with salience.connect(tmp_path / "a.db", embedder=Other(), clock=clock) as wrong:
            done = embed_pending(wrong.services)
            assert (done.embedded, done.pending) == (0, 1)
            assert "another model of the name 'planted'" in done.warning
        assert lacking(memory) == ["a"]


def test_a_successful_write_embeds_a_few_pending_memories(memory, embedder):
    while_down(memory, embedder, *(f"text {number}" for number in range(FEW + 3)))
    memory.remember("well again")
    assert lacking(memory) == [f"text {number}" for number in range(FEW, FEW + 3)]


def test_a_write_embeds_pending_memories_of_its_own_tenant_alone_and_upkeep_those_of_all(memory, embedder):
    other = memory.of("other")
    while_down(other, embedder, "of the other")
    while_down(memory, embedder, "own")
    memory.remember("well again")
    assert lacking(memory) == ["of the other"]
    assert memory.upkeep().embedded == 1
    assert lacking(memory) == []


@pytest.mark.slow
def test_upkeep_by_a_user_who_does_not_see_all_tenants_embeds_those_of_its_own(as_application, clock, embedder):
    with salience.connect(as_application, embedder=embedder, clock=clock) as memory:
        memory.remember("known")
        while_down(memory.of("other"), embedder, "of the other")
        while_down(memory, embedder, "own")
        assert [memory.upkeep().embedded, memory.of("other").upkeep().embedded] == [1, 1]


def test_a_write_never_fails_for_what_is_pending_and_rests_after_a_failure(memory, embedder, wait):
    while_down(memory, embedder, "poison", "a")
    assert memory.remember("well").status == "created"
    assert embedder.calls == 2
    memory.remember("well too")
    assert embedder.calls == 3
    wait(REST)
    memory.remember("well still")
    assert embedder.calls == 5
    assert lacking(memory) == ["poison", "a"]
    assert embed_pending(memory.services).embedded == 1


def test_catch_up_ignores_a_closed_store(target, clock):
    memory = salience.connect(target, embedder=Picky(), clock=clock)
    memory.close()
    assert catch_up(memory.services) is None


def test_several_pages_are_embedded(memory, embedder):
    embedder.down = True
    memory.remember_many([Draft(content=f"text {number}") for number in range(300)])
    embedder.down = False
    assert embed_pending(memory.services).embedded == 300
    assert lacking(memory) == []
