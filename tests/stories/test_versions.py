"""The history of a memory and how an older version is put in place again, on each store."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import numpy as np
import pytest

import salience
from salience import InputError, NotFoundError
from salience.engine import Engine
from salience.ports import Add, Derive, Model, Revise, Stored
from salience.records import Memory, Scope
from tests.contract.doubles import PlantedEmbedder, StoppedClock
from tests.contract.memories import random_tokens

pytestmark = pytest.mark.every_store

LYON, OSLO, NICE = "I live in Lyon", "I live in Oslo", "I live in Nice"
COSINES = {LYON: 0.9, OSLO: 0.7, NICE: 0.5}
EASY = {"profile": "zeromemory", "min_score": 0.0}
RESTORED = (
    "content", "content_hash", "kind", "importance", "weight", "tier", "tags", "entities", "fact_key", "supersedes",
    "metadata", "sources",
)  # fmt: skip


@pytest.fixture
def memory(planted) -> Engine:
    return planted(COSINES, profile="zeromemory")


def stood(memory: Engine, id: str, version: int = -1) -> Stored:
    """Return a version of a memory with what is derived from it; the current one by default."""
    held = memory.services.store.history(Scope(user_id=salience.ANY), id)
    return held[-1] if version < 0 else next(item for item in held if item.memory.version == version)


def statuses(memory: Engine, id: str, **where: str) -> list[str]:
    return [version.memory.change for version in memory.history(id, **where)]


def test_history_names_what_who_when_and_why(memory, clock):
    first = memory.remember(LYON, user_id="u", tags=["a"], fact_key="f").memory
    clock.advance(hours=1)
    moved = memory.update(first.id, content=OSLO, user_id="u", agent_id="helper", reason="she moved").memory
    clock.advance(hours=1)
    gone = memory.forget(first.id, user_id="u").memory
    result = memory.history(first.short_id, user_id="u")
    assert [version.memory for version in result] == [first, moved, gone]
    assert [version.until for version in result] == [moved.changed_at, gone.changed_at, None]
    changed = ("content", "entities", "updated_at")
    assert [version.changed for version in result] == [(), changed, ("forgotten_at",)]
    changes = [(version.memory.change, version.memory.changed_by, version.memory.reason) for version in result]
    assert changes == [("create", "user:u", None), ("update", "agent:helper", "she moved"), ("forget", "user:u", None)]


def test_recall_counters_are_no_change(memory, clock):
    id = memory.remember(LYON, importance=0.5).memory.id
    for _ in range(2):
        clock.advance(hours=1)
        memory.recall("query")
        clock.advance(hours=1)
        memory.update(id, tags=[str(clock())])
    clock.advance(hours=1)
    memory.recall("query")
    memory.update(id, importance=0.1)
    clock.advance(hours=1)
    memory.recall("query")
    result = memory.history(id)
    assert [round(version.memory.importance, 2) for version in result] == [0.55, 0.6, 0.65, 0.15]
    assert [version.changed for version in result[1:]] == [
        ("tags", "updated_at"), ("tags", "updated_at"), ("importance", "updated_at"),
    ]  # fmt: skip


def test_history_needs_a_visible_memory(memory):
    id = memory.remember(LYON, user_id="u").memory.id
    memory.forget(id, user_id="u")
    for unseen in ({"user_id": "v"}, {"user_id": "u", "environment": "other"}):
        with pytest.raises(NotFoundError):
            memory.history(id, **unseen)
    for unseen in ({}, {"user_id": "v"}, {"user_id": "u", "environment": "other"}):
        with pytest.raises(NotFoundError):
            memory.restore(id, **unseen)
    with pytest.raises(NotFoundError):
        memory.history("0" * 32)
    with pytest.raises(InputError, match=r"^id is empty"):
        memory.history("")
    assert len(memory.history(id)) == len(memory.history(id, user_id="u")) == 2


def test_restore_undoes_a_forget(memory, clock):
    before = memory.remember(LYON, user_id="u", tags=["a"], metadata={"page": 7}, key="k", session_id="s").memory
    memory.recall("query", user_id="u", session_id="s")
    clock.advance(hours=1)
    ranked = memory.recall("query", user_id="u", dry_run=True)
    memory.forget(before.id, user_id="u")
    clock.advance(hours=1)
    receipt = memory.restore(before.id, user_id="u", agent_id="helper", reason="a slip")
    made = receipt.memory
    assert (receipt.status, receipt.warning) == ("restored", None)
    assert (made.version, made.change, made.changed_at) == (3, "restore", clock())
    assert (made.changed_by, made.reason, made.status) == ("agent:helper", "a slip", "live")
    was = ranked[0].memory
    for name in (
        *RESTORED,
        "id",
        "key",
        "turn",
        "created_at",
        "updated_at",
        "tier_since",
        "accessed_at",
        "access_count",
    ):
        assert getattr(made, name) == getattr(was, name), name
    again = memory.recall("query", user_id="u", dry_run=True, now=clock() - timedelta(hours=1))
    assert [(hit.memory.id, hit.score) for hit in again] == [(hit.memory.id, hit.score) for hit in ranked]
    assert memory.get(before.id, user_id="u") == made
    assert memory.remember(LYON, user_id="u", key="k").status == "unchanged"


def test_restore_takes_all_fields_of_the_version(memory, clock):
    id = memory.remember(
        LYON, kind="decision", importance=0.9, weight=0.8, tier="working", tags=["a"], entities=["Lyon"], fact_key="f",
        metadata={"page": 7}, ttl="30d",
    ).memory.id  # fmt: skip
    first = stood(memory, id)
    clock.advance(hours=1)
    memory.update(
        id, content=NICE, kind="fact", importance=0.2, weight=0.5, tier="semantic", tags=["b"], entities=["Nice"],
        fact_key="g", metadata={}, ttl="1d",
    )  # fmt: skip
    clock.advance(hours=1)
    made = memory.restore(id, 1).memory
    for name in (*RESTORED, "created_at", "expires_at"):
        assert getattr(made, name) == getattr(first.memory, name), name
    assert (made.version, made.updated_at, made.tier_since) == (3, clock(), clock())
    now = stood(memory, id)
    assert np.array_equal(now.vector, first.vector)
    assert (now.terms, now.distinctions) == (first.terms, first.distinctions)
    [hit] = memory.recall("query", dry_run=True, **EASY)
    assert (hit.memory, hit.score_detail.similarity) == (made, pytest.approx(0.9))
    assert statuses(memory, id) == ["create", "update", "restore"]


def test_restore_brings_the_token_vectors_of_the_version(memory):
    id = memory.remember(LYON).memory.id
    store, first = memory.services.store, stood(memory, id).memory
    store.apply([Derive("default", id, 1, first.content_hash, tokens=random_tokens(1))])
    memory.update(id, content=NICE)
    assert stood(memory, id).tokens is None
    memory.restore(id, 1)
    assert np.array_equal(stood(memory, id).tokens, random_tokens(1))
    memory.forget(id)
    memory.restore(id)
    assert np.array_equal(stood(memory, id).tokens, random_tokens(1))


def test_restore_in_the_same_tier_keeps_tier_since(memory, clock):
    first = memory.remember(LYON).memory
    clock.advance(hours=1)
    memory.update(first.id, tags=["a"])
    clock.advance(hours=1)
    assert memory.restore(first.id, 1).memory.tier_since == first.tier_since


def test_restore_keeps_the_recall_counters(memory, clock):
    id = memory.remember(LYON, importance=0.5).memory.id
    clock.advance(hours=1)
    memory.update(id, importance=0.9)
    for _ in range(3):
        clock.advance(hours=1)
        memory.recall("query")
    last = memory.get(id)
    made = memory.restore(id, 1).memory
    assert (made.access_count, made.accessed_at) == (3, last.accessed_at)
    assert made.importance == 0.5


def test_a_version_of_a_forgotten_memory_can_be_restored(memory, clock):
    id = memory.remember(LYON).memory.id
    memory.update(id, content=OSLO)
    memory.forget(id)
    clock.advance(hours=1)
    made = memory.restore(id, 1).memory
    assert (made.content, made.status, made.updated_at) == (LYON, "live", clock())
    assert [hit.memory.content for hit in memory.recall("query", **EASY)] == [LYON]


def test_restore_returns_the_weight_of_a_superseded_memory(memory, clock):
    old = memory.remember(LYON, weight=0.9).memory
    clock.advance(hours=1)
    new = memory.remember(OSLO, supersedes=old.id).memory
    assert memory.get(old.id).weight == 0.1
    assert memory.restore(old.id, 1).memory.weight == 0.9
    assert memory.get(new.id).supersedes == old.id


def test_an_expired_memory_is_restored_without_its_expiry(memory, clock):
    held = memory.remember(LYON, ttl="1h").memory
    clock.advance(hours=2)
    away = held.changed("expire", clock(), by="upkeep", reason="its time ran out", forgotten_at=clock())
    memory.services.store.apply([Revise(away)])
    assert [(version.memory.status, version.changed) for version in memory.history(held.id)] == [
        ("live", ()), ("expired", ("forgotten_at",)),
    ]  # fmt: skip
    made = memory.restore(held.id).memory
    assert (made.expires_at, made.status) == (None, "live")
    assert [hit.memory.id for hit in memory.recall("query", **EASY)] == [held.id]


def test_an_expiry_in_the_future_is_kept(memory, clock):
    held = memory.remember(LYON, ttl="3h").memory
    memory.forget(held.id)
    clock.advance(hours=1)
    assert memory.restore(held.id).memory.expires_at == held.expires_at


@pytest.mark.parametrize(
    ("version", "message"),
    [
        (None, r"^version is missing, and the memory is live\. Name one of these: 1, 2, 4\.$"),
        (5, r"^version 5 is live\. Name one of these: 1, 2, 4\.$"),
        (3, r"^version 3 was hidden from recalls\. Name one of these: 1, 2, 4\.$"),
        (6, r"^version 6 does not exist\. Name one of these: 1, 2, 4\.$"),
        (0, r"^version is 0\. "),
        (1.5, r"^version is 1\.5\. "),
        (True, r"^version is True\. "),
    ],
)
def test_the_error_lists_the_versions_that_can_be_restored(memory, version, message):
    id = memory.remember(LYON).memory.id
    memory.update(id, content=OSLO)
    memory.forget(id)
    memory.restore(id)
    memory.update(id, content=NICE)
    before = memory.history(id)
    with pytest.raises(InputError, match=message):
        memory.restore(id, version)
    assert memory.history(id) == before


def test_a_memory_with_one_version_cannot_be_restored(memory):
    id = memory.remember(LYON).memory.id
    for version in (None, 1, 2):
        with pytest.raises(InputError, match=r"There is no other version of it\.$"):
            memory.restore(id, version)


def test_version_numbers_are_listed_as_ranges(memory):
    id = memory.remember(LYON).memory.id
    for number in range(40):
        memory.update(id, tags=[str(number)])
    with pytest.raises(InputError, match=r"Name one of these: 1 to 40\.$"):
        memory.restore(id, 77)


@pytest.mark.parametrize("reason", ["", "x" * 257, "two\nlines", 5])
def test_a_reason_must_be_a_short_text(memory, reason):
    id = memory.remember(LYON).memory.id
    memory.forget(id)
    with pytest.raises(InputError, match=r"^reason (is|has) "):
        memory.restore(id, reason=reason)
    assert memory.history(id)[-1].memory.status == "forgotten"


def test_no_message_shows_a_content(memory):
    id = memory.remember("a secret of mine").memory.id
    for version in (None, 1, 9):
        with pytest.raises(InputError) as caught:
            memory.restore(id, version)
        assert "secret" not in str(caught.value)


@pytest.fixture
def bare(memory) -> Stored:
    """A memory that was stored without its vector, next to one of the same text that has it; returns the latter's."""
    kept = stood(memory, memory.remember(LYON).memory.id)
    made = replace(kept, memory=replace(kept.memory, id=f"{1:032x}"))
    memory.services.store.apply([Add(replace(made, vector=None))])
    return made


def test_a_restored_text_without_a_vector_is_pending(memory, clock, bare):
    memory.update(bare.memory.id, content=OSLO)
    clock.advance(hours=1)
    receipt = memory.restore(bare.memory.id, 1)
    assert receipt.warning == "It has no vector for now: searches find its words only, until upkeep adds the vector."
    assert stood(memory, bare.memory.id).vector is None
    assert bare.memory.id in [hit.memory.id for hit in memory.recall("query Lyon", **EASY)]


def test_restore_uses_the_vector_of_the_older_version(memory, clock, bare):
    memory.update(bare.memory.id, tags=["a"])
    clock.advance(hours=1)
    memory.services.store.apply([Derive("default", bare.memory.id, 1, bare.memory.content_hash, bare.vector)])
    assert stood(memory, bare.memory.id).vector is None
    assert memory.restore(bare.memory.id, 1).warning is None
    assert np.array_equal(stood(memory, bare.memory.id).vector, bare.vector)


def test_an_engine_of_another_model_restores_as_pending(memory):
    id = memory.remember(LYON).memory.id
    memory.update(id, content=OSLO)
    other = Engine(replace(memory.services, store=memory.services.store.with_model(Model("other", 8))))
    receipt = other.restore(id, 1)
    assert (receipt.memory.content, receipt.status) == (LYON, "restored")
    assert receipt.warning.startswith("It has no vector for now")
    assert stood(memory, id).vector is None
    other.forget(id)
    assert other.restore(id).warning is None  # nothing to embed that was not missing before


class Restless:
    """A store in which another writer changes the memory between the read and the write, once."""

    def __init__(self, memory: Engine, id: str) -> None:
        self.store, self.memory, self.id, self.met = memory.services.store, memory, id, False

    def __getattr__(self, name):
        return getattr(self.store, name)

    def apply(self, changes, **options):
        if not self.met and any(isinstance(change, Revise) for change in changes):
            self.met = True
            self.memory.update(self.id, tags=["meanwhile"])
        return self.store.apply(changes, **options)


def test_a_change_by_another_writer_is_kept_as_a_version(memory):
    id = memory.remember(LYON).memory.id
    memory.update(id, content=OSLO)
    own = Engine(replace(memory.services, store=Restless(memory, id)))
    made = own.restore(id, 1).memory
    assert (made.version, made.content, made.tags) == (4, LYON, ())
    assert memory.history(id)[2].memory.tags == ("meanwhile",)


def summed_up(memory: Engine, clock: StoppedClock, *texts: str) -> tuple[list[Memory], Memory]:
    """Store memories and a reflection that sums them up; return them as they stand."""
    held = [memory.remember(text).memory for text in texts]
    new = memory.remember(" / ".join(texts), kind="reflection").memory
    sources = tuple(one.id for one in held)
    changes = [Revise(new.changed("reflect", clock(), sources=sources))]
    changes += [Revise(one.changed("reflect", clock(), reflection=new.id)) for one in held]
    memory.services.store.apply(changes)
    return [memory.get(one.id) for one in held], memory.get(new.id)


def test_restoring_another_text_makes_the_reflection_stale(memory, clock):
    [lyon, _], reflection = summed_up(memory, clock, LYON, NICE)
    memory.update(lyon.id, content=OSLO)
    memory.restore(reflection.id)
    memory.restore(lyon.id, lyon.version)
    result = memory.history(reflection.id)[-1].memory
    assert (result.status, result.reason) == ("stale", "a source was restored")
    with pytest.raises(NotFoundError):
        memory.get(reflection.id)


def test_restoring_a_hidden_source_makes_the_reflection_stale(memory, clock):
    [lyon, _], reflection = summed_up(memory, clock, LYON, NICE)
    memory.forget(lyon.id)
    memory.restore(reflection.id)
    memory.restore(lyon.id)
    assert memory.history(reflection.id)[-1].memory.status == "stale"


def test_restoring_the_same_text_keeps_the_reflection(memory, clock):
    [lyon, _], reflection = summed_up(memory, clock, LYON, NICE)
    memory.update(lyon.id, tags=["a"])
    memory.restore(lyon.id, lyon.version)
    assert memory.get(reflection.id) == reflection


def test_restoring_a_former_source_keeps_the_reflection(memory, clock):
    [lyon, nice], reflection = summed_up(memory, clock, LYON, NICE)
    memory.forget(lyon.id)
    gone = memory.history(reflection.id)[-1].memory
    renewed = gone.changed("reflect", clock(), sources=(nice.id,), forgotten_at=None)
    memory.services.store.apply([Revise(renewed)])
    memory.restore(lyon.id)
    assert memory.get(reflection.id).sources == (nice.id,)


def test_a_stale_reflection_can_be_restored_with_a_warning(memory, clock):
    [lyon, _], reflection = summed_up(memory, clock, LYON, NICE)
    memory.update(lyon.id, content=OSLO)
    receipt = memory.restore(reflection.id)
    assert (receipt.status, receipt.memory.sources) == ("restored", reflection.sources)
    assert receipt.warning.startswith("Its text may be outdated")
    assert memory.get(reflection.id).content == reflection.content


def test_two_engines_on_a_file_see_the_same_versions(tmp_path, clock):
    engines = [
        salience.connect(tmp_path / "a.db", embedder=PlantedEmbedder(COSINES), clock=clock, profile="zeromemory")
        for _ in range(2)
    ]
    one, other = engines
    id = one.remember(LYON).memory.id
    assert [hit.memory.id for hit in other.recall("query", dry_run=True)] == [id]
    one.update(id, content=OSLO)
    one.forget(id)
    assert other.recall("query").hits == ()
    other.restore(id, 1)
    assert [hit.memory.content for hit in one.recall("query", dry_run=True)] == [LYON]
    assert one.history(id) == other.history(id)
    for engine in engines:
        engine.close()


def test_a_removed_fact_key_stays_removed(planted):
    memory = planted({"I live in Lisbon": 0.9})
    made = memory.remember("I live in Lisbon").memory
    assert made.fact_key == "user.residence"
    assert memory.update(made.id, fact_key=None).memory.fact_key is None
    assert memory.update(made.id, importance=0.9).memory.fact_key is None
    assert memory.update(made.id, content="I live in Oslo").memory.fact_key == "user.residence"
