"""Every number of mememory's page, through the public API."""

from __future__ import annotations

import math
from datetime import timedelta

import pytest

from salience import ConflictError, NotFoundError

pytestmark = pytest.mark.filterwarnings("error")


@pytest.mark.parametrize(
    ("days", "factor"), [(1, 0.995), (7, 0.966), (30, 0.861), (90, 0.638), (180, 0.407), (365, 0.161)]
)
def test_the_decay_table(planted, clock, days, factor):
    memory = planted({"old": 1.0}, profile="mememory")
    memory.remember("old", created_at=clock() - timedelta(days=days), project="p")
    hit = memory.recall("query", project="p")[0]
    assert round(hit.score_detail.temporal_decay, 3) == factor
    assert hit.score == pytest.approx(math.exp(-0.005 * days), abs=1e-6)


def test_the_worked_example(planted, clock):
    texts = {
        "Uses Zustand for stores": 0.92,
        "Prefer Redux for large apps": 0.95,
        "State management is complex": 0.88,
    }
    memory = planted(texts, profile="mememory")
    days = [5, 60, 2]
    for text, age, weight, project in zip(texts, days, (1.0, 1.0, 0.5), ("match", None, None), strict=True):
        memory.remember(text, created_at=clock() - timedelta(days=age), weight=weight, project=project)
    hits = memory.recall("query: state management", project="match", limit=3)
    assert [hit.memory.content for hit in hits] == list(texts)
    printed = [0.897, 0.563, 0.349]  # the last is 0.3485 before it is rounded
    assert [hit.score for hit in hits] == pytest.approx(printed, abs=6e-4)
    assert hits[2].score == pytest.approx(0.88 * 0.8 * 0.5 * math.exp(-0.01), abs=1e-6)
    assert [round(hit.score_detail.temporal_decay, 3) for hit in hits] == [0.975, 0.741, 0.990]
    assert [hit.score_detail.scope_weight for hit in hits] == [1.0, 0.8, 0.8]


def test_similarity_is_the_cosine_clipped_at_0(planted):
    memory = planted({"opposite": -0.4, "same": 0.5}, profile="mememory")
    memory.remember("opposite")
    memory.remember("same")
    assert [hit.score_detail.similarity for hit in memory.recall("query")] == [pytest.approx(0.5, abs=1e-6), 0.0]


@pytest.mark.parametrize(("limit", "candidates"), [(1, 15), (5, 15), (6, 18)])
def test_candidates_are_three_times_the_limit_and_at_least_15(planted, clock, limit, candidates):
    cosines = {f"near {number:02}": 0.95 - number / 1000 for number in range(candidates - 1)}
    memory = planted({**cosines, "last in": 0.5, "just out": 0.49}, profile="mememory", dimension=64)
    for text in cosines:
        memory.remember(text, project="p", created_at=clock() - timedelta(days=365))
    memory.remember("last in", project="p")
    memory.remember("just out", project="p")
    hits = memory.recall("query", project="p", limit=limit)
    assert hits[0].memory.content == "last in"
    assert "just out" not in [hit.memory.content for hit in hits]
    assert hits.exact == (limit == 1)  # what is left out is nearer by none than 0.49: behind the first at any age


def test_the_default_limit_is_5(planted):
    memory = planted({f"text {number}": 0.9 for number in range(8)}, profile="mememory")
    for number in range(8):
        memory.remember(f"text {number}")
    assert len(memory.recall("query")) == 5


def test_expired_memories_are_dropped_after_the_candidates_are_fetched(planted, clock):
    memory = planted({**{f"gone {n}": 0.9 for n in range(15)}, "there": 0.5}, profile="mememory")
    for number in range(15):
        memory.remember(f"gone {number}", ttl="24h")
    memory.remember("there")
    assert "there" not in [hit.memory.content for hit in memory.recall("query")]
    clock.advance(hours=24)
    assert len(memory.recall("query", limit=5)) == 0
    assert [hit.memory.content for hit in memory.recall("query", limit=6)] == ["there"]


def test_only_the_latest_belief_of_a_chain_is_shown(planted):
    memory = planted({"first": 0.9, "second": 0.8, "third": 0.7}, profile="mememory")
    first = memory.remember("first").memory
    second = memory.remember("second", supersedes=first.id).memory
    memory.remember("third", supersedes=second.short_id)
    assert [hit.memory.content for hit in memory.recall("query")] == ["third"]
    assert memory.get(first.id).weight == 0.1
    assert memory.get(second.id).weight == 0.1
    assert memory.get(first.id).updated_at == first.updated_at


def test_a_superseded_memory_whose_successor_is_no_candidate_stays(planted):
    memory = planted({**{f"near {n}": 0.6 for n in range(14)}, "old": 0.8, "new": 0.1}, profile="mememory")
    for number in range(14):
        memory.remember(f"near {number}", weight=0.1)
    old = memory.remember("old").memory
    memory.remember("new", supersedes=old.id)
    assert memory.recall("query", limit=5)[0].memory.content == "old"
    assert "old" not in [hit.memory.content for hit in memory.recall("query", limit=6)]


def test_superseding_an_invisible_memory_stores_nothing(planted):
    memory = planted({}, profile="mememory")
    hidden = memory.remember("hidden", user_id="bob").memory
    with pytest.raises(NotFoundError):
        memory.remember("new", supersedes=hidden.id, user_id="alice")
    assert memory.stats(user_id="alice").memories == 0
    assert memory.get(hidden.id, user_id="bob").weight == 1.0


def test_update_embeds_again_and_resets_the_decay(planted, clock):
    memory = planted({"before": 0.2, "after": 0.9}, profile="mememory")
    old = memory.remember("before", project="p").memory
    clock.advance(days=365)
    memory.update(old.id, content="after", project="p")
    hit = memory.recall("query", project="p")[0]
    assert hit.memory.id == old.id
    assert hit.score == pytest.approx(0.9, abs=1e-6)
    assert hit.memory.created_at == old.created_at


def test_a_recall_changes_nothing(planted):
    memory = planted({"text": 0.9}, profile="mememory")
    stored = memory.remember("text").memory
    memory.recall("query")
    assert memory.get(stored.id) == stored


def test_contradictions_are_reported_above_75_per_cent_and_never_block(planted):
    memory = planted({"at": 0.75, "above": 0.7501, "far": 0.2, "query new": 1.0}, profile="mememory", query="query")
    for text in ("at", "above", "far"):
        memory.remember(text)
    receipt = memory.remember("query new")
    assert receipt.status == "created"
    assert [rival.memory.content for rival in receipt.contradictions] == ["above"]
    assert receipt.contradictions[0].similarity == pytest.approx(0.7501, abs=1e-6)


def test_the_text_of_a_contradiction_warning(planted):
    old, new = "Redux is the best state manager", "Zustand is better than Redux for small apps"
    memory = planted({old: 0.82, new: 1.0}, profile="mememory")
    first = memory.remember(old).memory
    receipt = memory.remember(new)
    assert receipt.warning == (
        "CONTRADICTION DETECTED\n"
        "New memory:\n"
        f"[{receipt.memory.short_id}] Zustand is better than Redux for small apps\n"
        "Potentially conflicting memories:\n"
        f"[{first.short_id}] (similarity: 82%) Redux is the best state manager\n"
        "Options:\n"
        "1. Keep both — if they are complementary\n"
        "2. Update old — call update(id=<old_id>, content=...)\n"
        "3. Supersede — call remember(content=..., supersedes=<old_id>)\n"
        "4. Delete old — call forget(id=<old_id>)"
    )
    assert len(first.short_id) == 8


def test_contradictions_look_through_the_same_scope_hierarchy(planted):
    memory = planted({"global": 0.9, "mine": 0.9, "other project": 0.9, "new": 1.0}, profile="mememory")
    memory.remember("global")
    memory.remember("mine", project="mine")
    memory.remember("other project", project="other")
    found = {rival.memory.content for rival in memory.remember("new", project="mine").contradictions}
    assert found == {"global", "mine"}


def test_expired_forgotten_and_superseded_memories_are_no_contradictions(planted, clock):
    memory = planted({"expired": 0.9, "forgotten": 0.9, "older": 0.9, "old": 0.91, "new": 1.0}, profile="mememory")
    memory.remember("expired", ttl=60)
    memory.forget(memory.remember("forgotten").memory.id)
    older = memory.remember("older").memory
    old = memory.remember("old", supersedes=older.id).memory
    clock.advance(minutes=2)
    assert memory.remember("new", supersedes=old.id).contradictions == ()


def test_a_batch_sees_the_contradictions_among_its_own(planted):
    from salience import Draft

    memory = planted({"one": 1.0, "two": 0.9}, profile="mememory")
    receipts = memory.remember_many([Draft(content="one"), Draft(content="two")])
    assert [len(receipt.contradictions) for receipt in receipts] == [0, 1]
    assert receipts[1].contradictions[0].memory.id == receipts[0].memory.id


def test_scope_levels(planted):
    memory = planted({"everywhere": 0.9, "here": 0.9}, profile="mememory")
    memory.remember("everywhere", scope="global")
    memory.remember("here", scope="project", project="p")

    def contents(**where):
        return {hit.memory.content for hit in memory.recall("query", **where)}

    assert contents(project="p") == {"everywhere", "here"}
    assert contents(project="p", scope="global") == {"everywhere"}
    assert contents(project="p", scope="project") == {"here"}
    assert contents() == {"everywhere"}


def test_the_default_confidence_is_1(planted):
    memory = planted({"text": 0.9}, profile="mememory")
    assert memory.remember("text").memory.weight == 1.0
    assert memory.recall("query")[0].score_detail.weight == 1.0


@pytest.mark.parametrize(("ttl", "seconds"), [("24h", 86_400), ("7d", 604_800), (90, 90), (timedelta(minutes=2), 120)])
def test_a_time_to_live_ends_at_its_last_instant(planted, clock, ttl, seconds):
    memory = planted({"text": 0.9}, profile="mememory")
    stored = memory.remember("text", ttl=ttl).memory
    assert stored.expires_at == clock() + timedelta(seconds=seconds)
    clock.advance(seconds=seconds - 0.001)
    assert len(memory.recall("query")) == 1
    clock.advance(seconds=0.001)
    assert len(memory.recall("query")) == 0


def test_an_expired_memory_supersedes_nothing_any_more(planted, clock):
    memory = planted({"old": 0.9, "new": 0.8}, profile="mememory")
    old = memory.remember("old", project="p").memory
    memory.remember("new", supersedes=old.id, ttl="1h", project="p")
    assert [hit.memory.content for hit in memory.recall("query", project="p")] == ["new"]
    clock.advance(hours=1)
    hits = memory.recall("query", project="p")
    assert [hit.memory.content for hit in hits] == ["old"]
    assert hits[0].score == pytest.approx(0.9 * 0.1 * math.exp(-0.005 / 24), abs=1e-6)


def test_superseding_is_one_transaction(planted):
    memory = planted({}, profile="mememory")
    old = memory.remember("old", key="taken").memory
    with pytest.raises(ConflictError):
        memory.remember("new", supersedes=old.id, key="taken")
    assert memory.get(old.id) == old
    assert memory.stats().memories == 1


def test_every_contradiction_is_reported_most_similar_first(planted):
    rivals = {f"rival {number:02}": 0.76 + number / 100 for number in range(20)}
    memory = planted({**rivals, "new": 1.0}, profile="mememory")
    for text in rivals:
        memory.remember(text)
    receipt = memory.remember("new")
    assert [rival.memory.content for rival in receipt.contradictions] == list(rivals)[::-1]
    lines = receipt.warning.splitlines()[4:]
    for line, rival in zip(lines[:5], receipt.contradictions, strict=False):
        memory_id, percent = rival.memory.short_id, f"{rival.similarity:.0%}"
        assert line == f"[{memory_id}] (similarity: {percent}) {rival.memory.content}"
    assert lines[0].endswith("(similarity: 95%) rival 19")


def test_a_memory_without_contradictions_has_no_warning(planted):
    memory = planted({"far": 0.2, "new": 1.0}, profile="mememory")
    memory.remember("far")
    assert memory.remember("new").warning is None


def test_bootstrap_memories_start_a_context(planted):
    memory = planted({"close": 0.9}, profile="mememory")
    memory.remember("house rules", kind="bootstrap")
    memory.remember("close")
    assert [hit.memory.content for hit in memory.context("query").hits] == ["house rules", "close"]


def test_the_tools_of_the_page_are_there(planted):
    memory = planted({}, profile="mememory")
    for tool in ("remember", "recall", "update", "forget", "list", "stats", "help"):
        assert tool in memory.help()
        assert callable(getattr(memory, tool))


def test_without_a_query_vector_words_decide_among_all_memories(planted):
    memory = planted(profile="mememory")
    memory.remember_many([{"content": text} for text in (*(f"note {number}" for number in range(20)), "the vault key")])
    assert memory.recall("query vault", limit=1, deadline_ms=0)[0].memory.content == "the vault key"
