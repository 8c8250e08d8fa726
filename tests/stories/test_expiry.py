"""A memory is over at its `expires_at`, by the clock of the engine, before and after a store records it."""

from __future__ import annotations

from datetime import timedelta

import pytest

import salience
from salience import ANY, NotFoundError
from tests.contract.doubles import PlantedEmbedder

pytestmark = pytest.mark.every_surface

HOUR = timedelta(hours=1)
ANN = {"user_id": "ann"}


@pytest.fixture
def memory(planted):
    return planted({"tea": 0.9, "coffee": 0.8, "soup": 0.7})


def changes(memory, id, **where):
    return [version.memory.change for version in memory.history(id, **where)]


def seen(memory, id, **where):
    """Return the names of the reads that show a memory of user ann as a live one."""
    reads = {
        "recall": lambda: any(
            hit.memory.id == id for hit in memory.recall("query", min_score=0, dry_run=True, **where)
        ),
        "context": lambda: any(hit.memory.id == id for hit in memory.context("query", dry_run=True, **where).hits),
        "list": lambda: any(one.id == id for one in memory.list(**where)),
        "stats": lambda: memory.stats(**where).by_kind.get("rule"),
        "facets": lambda: memory.facets(statuses=["live"], **where).values["kind"].get("rule"),
        "sessions": lambda: any(one.id == "brief" for one in memory.sessions(**where).sessions),
        "history": lambda: memory.history(id, **where)[-1].memory.status == "live",
        "elsewhere": lambda: (
            memory.list(user_id=ANY, sessions=["x"], agent_id="other").memories
            or sum(place.count for place in memory.stats(environment="default", agent_id="none").out_of_scope)
        ),
    }
    found = {name for name, read in reads.items() if read()}
    try:
        memory.get(id, **where)
    except NotFoundError:
        return found
    return {*found, "get"}


ALL = {"recall", "context", "list", "stats", "facets", "sessions", "history", "elsewhere", "get"}


def test_every_read_shows_a_memory_until_its_time_is_over(memory, clock):
    brief = memory.remember("tea", ttl="1h", kind="rule", session_id="brief", **ANN).memory
    clock.advance(seconds=3599)
    assert seen(memory, brief.id, **ANN) == ALL
    clock.advance(seconds=1)
    assert seen(memory, brief.id, **ANN) == set()
    assert changes(memory, brief.id, **ANN) == ["create"]
    clock.advance(seconds=-1)
    assert seen(memory, brief.id, **ANN) == ALL
    clock.advance(hours=2)
    assert memory.upkeep().expired == (brief.id,)
    assert seen(memory, brief.id, **ANN) == set()


def test_a_memory_without_a_time_to_live_stays(memory, clock):
    kept = memory.remember("tea", kind="rule", session_id="brief", **ANN).memory
    clock.advance(days=20_000)
    assert memory.upkeep().expired == ()
    assert seen(memory, kept.id, **ANN) == ALL


def test_a_listing_of_expired_memories_has_those_that_no_version_hides_yet(memory, clock):
    brief = memory.remember("tea", ttl="1h").memory
    lasting = memory.remember("coffee", ttl="3h").memory
    assert memory.list(statuses=["expired"]).memories == ()
    clock.advance(hours=1)
    for _ in range(2):
        (listed,) = memory.list(statuses=["expired"])
        assert (listed.id, listed.status) == (brief.id, "expired")
        assert dict(memory.facets(statuses=["expired", "live"]).values["status"]) == {"expired": 1, "live": 1}
        assert [one.id for one in memory.list()] == [lasting.id]
        memory.upkeep()


@pytest.mark.local("a file goes to Markdown in the process")
def test_an_export_as_text_leaves_an_expired_memory_out_and_one_to_import_has_it(memory, clock, tmp_path):
    memory.remember("tea", ttl="1h")
    clock.advance(hours=1)
    assert memory.export(tmp_path / "all.md", format="markdown").written == 0
    assert memory.export(tmp_path / "all.jsonl").written == 1


@pytest.mark.parametrize("recorded", [False, True])
def test_an_expired_memory_is_not_changed_but_restored(memory, clock, recorded):
    brief = memory.remember("tea", ttl="1h").memory
    clock.advance(hours=1)
    if recorded:
        memory.upkeep()
    for change in (lambda: memory.update(brief.id, tags=["a"]), lambda: memory.forget(brief.id)):
        with pytest.raises(NotFoundError):
            change()
    restored = memory.restore(brief.id)
    assert (restored.status, restored.memory.expires_at) == ("restored", None)
    assert memory.get(brief.id).content == "tea"
    clock.advance(days=1)
    assert memory.get(brief.id).status == "live"
    assert changes(memory, brief.id)[-1] == "restore"


@pytest.mark.parametrize("recorded", [False, True])
def test_a_key_of_an_expired_memory_stores_anew_and_the_receipt_says_so(memory, clock, recorded):
    brief = memory.remember("tea", key="k", ttl="1h").memory
    again = memory.remember("tea", key="k", ttl="1h")
    assert (again.status, again.memory.id, again.warning) == ("unchanged", brief.id, None)
    clock.advance(hours=1)
    if recorded:
        memory.upkeep()
    made = memory.remember("coffee", key="k", ttl="1h")
    assert made.status == "created"
    assert made.memory.id != brief.id
    assert made.warning == f"Memory {brief.short_id} of this key has expired, so this one was stored."
    assert memory.history(brief.id)[-1].memory.status == "expired"
    again = memory.remember("coffee", key="k", ttl="1h")
    assert (again.status, again.memory.id, again.warning) == ("unchanged", made.memory.id, None)
    assert [one.content for one in memory.list()] == ["coffee"]
    restored = memory.restore(brief.id).memory
    assert (restored.content, restored.key) == ("tea", None)
    assert memory.remember("coffee", key="k").memory.id == made.memory.id


def test_a_key_of_a_forgotten_memory_stays_taken(memory):
    gone = memory.remember("tea", key="k").memory
    memory.forget(gone.id)
    receipt = memory.remember("tea", key="k")
    assert (receipt.status, receipt.memory.id) == ("unchanged", gone.id)
    assert (
        receipt.warning == "Nothing was stored: the memory of this key was forgotten. To store it again, use a new key."
    )


def test_a_retry_of_a_memory_that_had_expired_when_it_was_stored_stores_nothing(memory, clock):
    old = {"key": "k", "ttl": "1h", "created_at": clock() - 2 * HOUR}
    first = memory.remember("tea", **old)
    receipt = memory.remember("tea", **old)
    assert (first.status, receipt.status, receipt.memory.id) == ("created", "unchanged", first.memory.id)
    assert "has expired" in receipt.warning


def test_of_two_memories_with_the_key_of_an_expired_one_the_first_is_stored(memory, clock):
    brief = memory.remember("tea", key="k", ttl="1h").memory
    clock.advance(hours=1)
    first, second = memory.remember_many([{"content": "soup", "key": "k"}, {"content": "soup", "key": "k"}])
    assert (first.status, second.status, second.memory.id) == ("created", "unchanged", first.memory.id)
    assert brief.short_id in first.warning


@pytest.mark.parametrize("recorded", [False, True])
@pytest.mark.parametrize("by_update", [False, True])
def test_a_memory_may_supersede_an_expired_one(memory, clock, recorded, by_update):
    brief = memory.remember("tea", ttl="1h").memory
    clock.advance(hours=1)
    if recorded:
        memory.upkeep()
    if by_update:
        made = memory.update(memory.remember("coffee").memory.id, supersedes=brief.short_id)
    else:
        made = memory.remember("coffee", supersedes=brief.id)
    assert made.memory.supersedes == brief.id
    assert memory.history(brief.id)[-1].memory.status == "expired"
    memory.restore(brief.id)
    (listed,) = [one for one in memory.list() if one.id == brief.id]
    assert listed.replaced_by.id == made.memory.id


def test_a_forgotten_memory_is_not_superseded(memory):
    gone = memory.remember("tea").memory
    memory.forget(gone.id)
    with pytest.raises(NotFoundError, match="supersedes"):
        memory.remember("coffee", supersedes=gone.id)


def test_an_expired_memory_is_no_conflict_no_repeat_and_no_fact(memory, clock):
    memory.remember("tea", ttl="1h", fact_key="drink")
    clock.advance(hours=1)
    made = memory.remember("tea", fact_key="drink")
    assert (made.status, made.contradictions, made.superseded, made.warning) == ("created", (), None, None)


def test_an_instant_before_the_end_sees_the_memory_and_one_after_does_not(memory, clock):
    brief = memory.remember("tea", ttl="1h").memory
    clock.advance(minutes=59)
    before = clock()
    clock.advance(minutes=2)
    after = clock()
    clock.advance(hours=1)
    for _ in range(2):
        assert [hit.memory.id for hit in memory.recall("query", as_of=before)] == [brief.id]
        assert memory.recall("query", as_of=after).hits == ()
        assert memory.explain("query", brief.id, as_of=before).stage == "returned"
        memory.upkeep()


def test_explain_says_when_a_memory_expired(memory, clock):
    brief = memory.remember("tea", ttl="1h").memory
    clock.advance(hours=1)
    found = memory.explain("query", brief.id)
    assert (found.stage, found.reason.partition(" on ")[0]) == ("expired", "Its time to live ended")
    memory.upkeep()
    found = memory.explain("query", brief.id)
    assert (found.stage, found.reason.partition(" on ")[0]) == ("forgotten", "It expired")


@pytest.mark.local("a server leaves it to upkeep")
def test_the_next_write_to_a_local_store_writes_the_version_that_upkeep_would(memory, clock):
    brief, other = (memory.remember(text, ttl="1h").memory for text in ("tea", "coffee"))
    memory.remember("soup")
    clock.advance(hours=1)
    assert memory.recall("query").hits
    assert changes(memory, brief.id) == ["create"]
    memory.remember("another text")
    for one in (brief, other):
        hidden = memory.history(one.id)[-1].memory
        assert (hidden.change, hidden.changed_by, hidden.reason) == ("expire", "upkeep", "its time ran out")
        assert hidden.forgotten_at == clock()
    assert memory.upkeep().expired == ()


@pytest.mark.local("two engines on one file")
def test_two_engines_on_one_file_write_that_version_once(memory, target, clock):
    brief = memory.remember("tea", ttl="1h").memory
    with salience.connect(target, embedder=PlantedEmbedder({"tea": 0.9}), clock=clock) as other:
        other.remember("soup")
        clock.advance(hours=1)
        memory.remember("one text")
        other.forget(other.remember("another text").memory.id)
        assert changes(other, brief.id) == changes(memory, brief.id) == ["create", "expire"]


@pytest.mark.local("the state of the store is compared")
def test_a_write_succeeds_if_the_version_cannot_be_written(memory, clock, monkeypatch):
    brief = memory.remember("tea", ttl="1h").memory
    clock.advance(hours=1)
    monkeypatch.setattr(type(memory.services.store), "due", lambda *_: (_ for _ in ()).throw(salience.StoreError("no")))
    assert memory.remember("soup").status == "created"
    assert changes(memory, brief.id) == ["create"]
