"""The review of problems, the log of changes and the activity of each day."""

from __future__ import annotations

from datetime import timedelta

import pytest
from reflections import AXES, COSINES, store

import salience
from salience.errors import EmbedderError, InputError, NotFoundError
from salience.maintain import review as reviews
from salience.records import ANY
from tests.contract.doubles import PlantedEmbedder

pytestmark = pytest.mark.every_store

LIMITS = [f"The request limit is {number} a minute" for number in (30, 40, 50)]
DAY = timedelta(days=1)


def alike(planted, *texts, **options):
    return planted(dict.fromkeys(texts, 0.9), axes=dict.fromkeys(texts, 1), **options)


def pairs(page):
    return [(item.kind, item.memory.content, item.other and item.other.content) for item in page.items]


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        (LIMITS[0], LIMITS[1]),
        (LIMITS[0], "The request limit is now 40 a minute"),
        ("The office closes at six", "the office closes at six!"),
    ],
)
def test_a_pair_is_shown_once_as_the_receipt_tells_it(planted, older, newer):
    memory = alike(planted, older, newer)
    memory.remember(older)
    (told,) = memory.remember(newer).contradictions
    page = memory.review()
    (item,) = page.items
    assert (item.kind, item.other, item.score, item.reasons) == (told.label, told.memory, told.similarity, told.because)
    assert item.memory.content == newer
    assert (page.cursor, page.examined) == (None, 2)


def test_memories_that_are_related_or_out_of_date_are_no_problem(planted, clock):
    texts, cities = ["Ana drinks tea", "Ben drinks tea"], ["I live in Berlin", "I live in Rome"]
    axes = dict.fromkeys(texts, 1) | dict.fromkeys(cities, 2) | dict.fromkeys(LIMITS, 3)
    memory = planted(dict.fromkeys((*texts, *LIMITS), 0.9) | dict.fromkeys(cities, 0.1), axes=axes)
    memory.remember(texts[0])
    assert memory.remember(texts[1]).contradictions[0].label == "related"
    first = memory.remember(LIMITS[0]).memory
    memory.remember(LIMITS[1], supersedes=first.id)
    memory.remember(LIMITS[2], ttl="1h")
    assert ("update", LIMITS[2], LIMITS[1]) in pairs(memory.review())
    clock.advance(seconds=7200)
    memory.remember("I live in Berlin", fact_key="home")
    memory.remember("I live in Rome", fact_key="home")
    assert memory.review().items == ()
    memory.forget(memory.list().memories[-1].id)
    assert memory.review().items == ()


def test_relations_are_listed_until_someone_confirms_or_dismisses_them(planted, clock):
    memory = planted()
    berlin = memory.remember("I live in Berlin").memory
    rome = memory.remember("I live in Rome").memory
    (relation,) = rome.relations
    assert memory.review().items == ()
    for page in (
        memory.review(kinds=["relation"]),
        *(memory.review(id=one.id, kinds=["relation"]) for one in (berlin, rome)),
    ):
        (item,) = page.items
        assert (item.kind, item.memory.id, item.other.id) == ("relation", rome.id, berlin.id)
        assert (item.score, item.reasons) == (relation.probability, (relation.reason,))
    memory.dismiss(rome.id, berlin.id)
    assert memory.review(kinds=["relation"]).items == ()
    memory.dismiss(rome.id, berlin.id, undo=True)
    assert len(memory.review(kinds=["relation"]).items) == 1
    memory.update(rome.id, supersedes=berlin.id)
    assert memory.review(kinds=["relation"]).items == ()
    memory.update(rome.id, supersedes=None, ttl="1h")
    clock.advance(seconds=7200)
    assert memory.review(kinds=["relation"]).items == ()


def test_a_review_has_the_problems_of_the_kinds_that_are_asked_for(planted):
    memory = alike(planted, *LIMITS)
    for text in LIMITS[:2]:
        memory.remember(text)
    assert [one.kind for one in memory.review(kinds=["update", "pending"]).items] == ["update"]
    assert memory.review(kinds=["duplicate"]).items == ()
    with pytest.raises(InputError, match="kinds"):
        memory.review(kinds=["updates"])


def test_turns_and_reflections_are_in_no_pair_of_their_own(planted):
    memory = alike(planted, *LIMITS)
    turns = [{"role": "user", "content": text} for text in LIMITS[:2]]
    memory.ingest(turns, session_id="s")
    assert memory.review().items == ()
    memory.remember(LIMITS[2])
    assert len(memory.review().items) == 2  # as at the write, older turns count


def test_pages_go_from_the_newest_memory_to_the_oldest(planted, monkeypatch):
    memory = alike(planted, *LIMITS, "fill")
    for text in LIMITS:
        memory.remember(text)
    whole = memory.review()
    assert pairs(whole) == [
        ("update", LIMITS[2], LIMITS[1]),
        ("update", LIMITS[2], LIMITS[0]),
        ("update", LIMITS[1], LIMITS[0]),
    ]
    first = memory.review(limit=1)  # all problems of a memory are on one page
    assert (first.items, first.examined) == (whole.items[:2], 1)
    second = memory.review(limit=1, cursor=first.cursor)
    assert (second.items, second.examined) == (whole.items[2:], 1)
    last = memory.review(limit=1, cursor=second.cursor)
    assert (last.items, last.cursor, last.examined) == ((), None, 1)
    monkeypatch.setattr(reviews, "EXAMINED", 2)
    monkeypatch.setattr(reviews, "CHUNK", 1)
    page = memory.review()
    assert (page.items, page.examined) == (whole.items, 2)
    rest = memory.review(cursor=page.cursor)
    assert (rest.items, rest.cursor) == ((), None)
    with pytest.raises(InputError):
        memory.review(cursor="later")


def test_a_dismissed_pair_is_not_shown_until_it_is_undone(planted):
    memory = alike(planted, *LIMITS)
    for text in LIMITS[:2]:
        memory.remember(text)
    (item,) = memory.review().items
    made = memory.dismiss(item.memory.id, item.other.short_id, reason="both hold")
    assert (made.status, made.memory.version, made.memory.reason) == ("updated", 2, "both hold")
    assert made.memory.updated_at == item.memory.updated_at
    assert memory.review().items == ()
    assert memory.dismiss(item.memory.id, item.other.id).status == "unchanged"
    memory.restore(item.memory.id, 1)
    assert len(memory.review().items) == 1
    memory.dismiss(item.other.id, item.memory.id)  # either memory may hold the note
    assert memory.review().items == ()
    assert memory.dismiss(item.other.id, item.memory.id, undo=True).memory.metadata == {}
    assert len(memory.review().items) == 1


def test_a_dismissed_memory_still_repeats_its_text_and_keeps_its_metadata(planted):
    memory = alike(planted, *LIMITS)
    memory.remember(LIMITS[0])
    newer = memory.remember(LIMITS[1], metadata={"source": 1}).memory
    memory.dismiss(newer.id, memory.list().memories[0].id)
    assert memory.get(newer.id).metadata["source"] == 1
    assert memory.remember(LIMITS[1], metadata={"source": 1}).status == "unchanged"


def test_an_update_of_the_metadata_keeps_a_dismissal_unless_it_names_it(planted):
    memory = alike(planted, *LIMITS)
    for text in LIMITS[:2]:
        memory.remember(text)
    (item,) = memory.review().items
    memory.dismiss(item.memory.id, item.other.id)
    made = memory.update(item.memory.id, metadata={"source": 1}).memory
    assert made.metadata == {"source": 1, "salience_dismissed": (item.other.id,)}
    assert memory.review().items == ()
    assert memory.update(item.memory.id, metadata={}).memory.metadata.keys() == {"salience_dismissed"}
    assert memory.update(item.memory.id, metadata={"salience_dismissed": []}).memory.metadata.keys() == {
        "salience_dismissed"
    }
    assert len(memory.review().items) == 1


def test_dismiss_needs_two_visible_memories(planted):
    memory = alike(planted, *LIMITS)
    own, other = (
        memory.remember(text, user_id=user).memory for text, user in zip(LIMITS[:2], ("ann", "bob"), strict=True)
    )
    for given in ((own.id,), (own.id, own.id)):
        with pytest.raises(InputError, match="other_id"):
            memory.dismiss(*given, user_id="ann")
    for given in ((own.id, other.id), (other.id, own.id)):
        with pytest.raises(NotFoundError):
            memory.dismiss(*given, user_id="ann")


def test_pairs_are_of_memories_that_the_caller_and_the_newer_one_see(planted):
    engine = alike(planted, *LIMITS)
    first, second = engine.of("first"), engine.of("second")
    for memory, user in ((first, "ann"), (first, "bob"), (second, "ann")):
        memory.remember(LIMITS[0], user_id=user)
    first.remember(LIMITS[1], user_id="ann")
    expected = [("update", LIMITS[1], LIMITS[0])]
    for where in ({"user_id": "ann"}, {"user_id": ANY}):
        page = first.review(**where)
        assert pairs(page) == expected
        assert {item.other.scope.user_id for item in page.items} == {"ann"}
    assert first.review(user_id="bob").items == second.review(user_id=ANY).items == first.review().items == ()
    first.remember(LIMITS[2])  # shared with all: it sees no memory of a user
    assert first.review().items == ()
    assert {item.memory.scope.user_id for item in first.review(user_id=ANY).items} == {"ann"}


def test_stale_reflections_and_pending_memories_are_shown(planted, target, clock):
    memory = planted(COSINES, axes=AXES)
    first, *_ = store(memory)
    memory.reflect(user_id="ana")
    memory.update(first.id, content="Ana drinks black tea at breakfast", user_id="ana")
    stale = [item for item in memory.review(user_id="ana").items if item.kind == "stale"]
    assert [(item.memory.kind, item.other, item.reasons) for item in stale] == [
        ("reflection", None, ("a source was changed",))
    ]
    assert memory.review(user_id="ben").items == ()
    made = memory.dismiss(stale[0].memory.id, user_id="ana")
    assert (made.memory.status, made.memory.change) == ("stale", "stale")
    assert "stale" not in [item.kind for item in memory.review(user_id="ana").items]
    memory.dismiss(stale[0].memory.id, undo=True, user_id="ana")
    assert "stale" in [item.kind for item in memory.review(user_id="ana").items]


def test_pending_memories_are_shown_until_they_have_a_vector(target, clock):
    class Down(PlantedEmbedder):
        down = True

        def embed(self, texts, /):
            if self.down:
                raise EmbedderError("down")
            return super().embed(texts)

    embedder = Down()
    with salience.connect(target, embedder=embedder, clock=clock) as memory:
        made = memory.remember("The limit is 30").memory
        (item,) = memory.review().items
        assert (item.kind, item.memory.id, item.other, item.score) == ("pending", made.id, None, None)
        embedder.down = False
        memory.upkeep()
        assert memory.review().items == ()


def test_changes_are_the_versions_newest_first(planted, clock):
    memory = planted()
    first = memory.remember("one", user_id="ann", ttl="1h").memory
    clock.advance(seconds=60)
    second = memory.remember("two", user_id="ann", agent_id="bot").memory
    clock.advance(seconds=60)
    start = clock()
    memory.update(second.id, content="three", reason="so", user_id="ann", agent_id="bot")
    clock.advance(seconds=7200)
    memory.upkeep()
    memory.remember("other", user_id="bob")
    where = {"user_id": "ann", "agent_id": "bot"}
    page = memory.changes(**where)
    told = [(one.memory.content, one.memory.version, one.memory.change) for one in page.changes]
    assert told == [("one", 2, "expire"), ("three", 2, "update"), ("two", 1, "create"), ("one", 1, "create")]
    assert page.cursor is None
    assert page.changes[1].changed == memory.history(second.id)[-1].changed
    assert page.changes[2].until == page.changes[1].memory.changed_at
    assert [one.memory.id for one in memory.changes(changed_by="upkeep", **where).changes] == [first.id]
    assert [one.memory.reason for one in memory.changes(change="update", **where).changes] == ["so"]
    assert [one.memory.version for one in memory.changes(since=start, **where).changes] == [2, 2]
    assert len(memory.changes(until=start, **where).changes) == 2
    pages, cursor = [], None
    while True:
        part = memory.changes(limit=1, cursor=cursor, **where)
        pages += part.changes
        if (cursor := part.cursor) is None:
            break
    assert tuple(pages) == page.changes
    assert [one.memory.content for one in memory.changes(user_id="bob").changes] == ["other"]
    assert memory.changes().changes == ()
    for wrong in ({"cursor": "x"}, {"change": "none"}, {"limit": 0}):
        with pytest.raises(InputError):
            memory.changes(**wrong)


def test_changes_name_no_field_that_only_recalls_changed(planted):
    memory = planted({"tea": 0.9}, profile="zeromemory")
    made = memory.remember("tea", importance=0.5).memory
    memory.recall("query", min_score=0)
    memory.update(made.id, tags=["x"])
    memory.recall("query", min_score=0)
    assert memory.changes(change="update").changes[0].changed == memory.history(made.id)[1].changed


def test_tenants_see_their_own_changes_and_activity(planted):
    engine = planted()
    engine.of("first").remember("one", user_id="ann")
    engine.of("first").remember("two", user_id="bob")
    assert [one.memory.content for one in engine.of("first").changes(user_id="ann").changes] == ["one"]
    assert sum(day.created for day in engine.of("first").activity(user_id=ANY)) == 2
    assert sum(day.created for day in engine.of("first").activity(user_id="ann")) == 1
    assert engine.of("second").changes(user_id=ANY).changes == engine.of("second").activity(user_id=ANY) == ()


def test_activity_counts_each_day(planted, clock):
    memory = planted({"tea": 0.9, "cup": 0.8})
    tea, cup = (memory.remember(text).memory for text in ("tea", "cup"))
    memory.remember("an old text", created_at=clock() - 10 * DAY)
    clock.advance(days=1)
    memory.update(tea.id, tags=["x"])
    memory.recall("query", min_score=0)
    clock.advance(days=2)
    memory.forget(cup.id)
    days = memory.activity()
    assert [(day.created, day.changed, day.forgotten, day.recalled, day.dated) for day in days] == [
        (0, 0, 0, 0, 1), (3, 0, 0, 0, 2), (0, 1, 0, 3, 0), (0, 0, 1, 0, 0),
    ]  # fmt: skip
    assert [day.day for day in days[:2]] == [(tea.created_at - back * DAY).date().isoformat() for back in (10, 0)]
    assert memory.activity(since=clock() - DAY) == days[-1:]
    assert memory.activity(until=tea.created_at + DAY) == days[:2]
    assert memory.activity(until="0001-02-01") == ()
