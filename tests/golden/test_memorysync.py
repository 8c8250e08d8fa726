"""What MemorySync's page states, with the numbers that the profile gives where the page is silent."""

from __future__ import annotations

import math
from datetime import timedelta

import pytest

from salience import InputError


@pytest.mark.parametrize(
    ("query", "intent", "words", "weights"),
    [
        ("query the deploy key", "default", (), (0.70, 0.20, 0.10)),
        ("query what does the user prefer", "preference", ("prefer",), (0.50, 0.10, 0.40)),
        ("query her favourite colour", "preference", ("favourite",), (0.50, 0.10, 0.40)),
        ("query what happened recently", "time", ("happened", "recently"), (0.30, 0.60, 0.10)),
        ("query the latest release", "time", ("latest",), (0.30, 0.60, 0.10)),
        ("query what is due this week", "time", ("this week",), (0.30, 0.60, 0.10)),
    ],
)
def test_the_weights_follow_the_intent(planted, query, intent, words, weights):
    memory = planted({"text": 0.9}, profile="memorysync")
    memory.remember("text")
    answer = memory.recall(query)
    assert (answer.intent.name, answer.intent.words) == (intent, words)
    detail = {part.signal: part.weight for part in answer[0].score_detail.parts}
    assert (detail["similarity"], detail["recency"], detail["importance"]) == weights


PREFERENCE = "prefer favourite favorite like likes love hate want rather".split()
TIME = [*"recent latest last now current today yesterday newest happened".split(), "this week"]


@pytest.mark.parametrize(
    ("word", "intent", "weights"),
    [(word, "preference", (0.50, 0.10, 0.40)) for word in PREFERENCE]
    + [(word, "time", (0.30, 0.60, 0.10)) for word in TIME],
)
def test_every_listed_word_gives_its_intent_away(planted, word, intent, weights):
    memory = planted({"text": 0.9}, profile="memorysync")
    memory.remember("text")
    answer = memory.recall(f"query {word.upper()} deploy key")
    assert (answer.intent.name, answer.intent.words) == (intent, (word,))
    detail = {part.signal: part.weight for part in answer[0].score_detail.parts}
    assert (detail["similarity"], detail["recency"], detail["importance"]) == weights


@pytest.mark.parametrize(
    ("query", "intent"),
    [
        ("query what does she like now", "preference"),
        ("query what is she like now, today", "time"),
        ("query the lasting likeness of nowhere", "default"),
    ],
)
def test_the_intent_with_more_words_wins_and_of_as_many_the_one_listed_first(planted, query, intent):
    assert planted({}, profile="memorysync").recall(query).intent.name == intent


def test_similarity_dominates_recency_moderates_and_intent_turns_it_round(planted, clock):
    memory = planted({"relevant": 0.9, "fresh": 0.5, "important": 0.5}, profile="memorysync")
    memory.remember("relevant", importance=0.2, created_at=clock() - timedelta(days=29))
    memory.remember("fresh", importance=0.2)
    memory.remember("important", importance=1.0, created_at=clock() - timedelta(days=29))
    first = {
        query: memory.recall(query, dry_run=True)[0].memory.content
        for query in ("query x", "query what happened recently", "query what does she prefer")
    }
    assert first == {
        "query x": "relevant",
        "query what happened recently": "fresh",
        "query what does she prefer": "important",
    }


def test_recency_counts_from_the_last_update_and_halves_in_30_days(planted, clock):
    memory = planted({"text": 0.9}, profile="memorysync")
    stored = memory.remember("text").memory
    clock.advance(days=30)
    assert memory.recall("query", dry_run=True)[0].score_detail.recency == pytest.approx(0.5)
    memory.update(stored.id, importance=0.7)
    assert memory.recall("query", dry_run=True)[0].score_detail.recency == 1.0


@pytest.mark.parametrize(
    ("idle_days", "factor"),
    [(0, 1.0), (30, 1.0), (31, math.exp(-0.01)), (60, math.exp(-0.3)), (99.4, 0.5), (1000, 0.5)],
)
def test_staleness(planted, clock, idle_days, factor):
    memory = planted({"text": 1.0}, profile="memorysync")
    memory.remember("text", importance=1.0, created_at=clock() - timedelta(days=idle_days))
    hit = memory.recall("query", dry_run=True)[0]
    assert hit.score_detail.staleness == pytest.approx(factor, abs=1e-3 if factor == 0.5 else 1e-12)
    assert hit.score == pytest.approx(
        (0.7 + 0.2 * 0.5 ** (idle_days / 30) + 0.1) * hit.score_detail.staleness, abs=1e-6
    )


def test_a_recall_refreshes_last_recalled(planted, clock):
    memory = planted({"text": 1.0}, profile="memorysync")
    stored = memory.remember("text").memory
    clock.advance(days=60)
    assert memory.recall("query")[0].score_detail.staleness < 0.75
    assert memory.recall("query")[0].score_detail.staleness == 1.0
    after = memory.get(stored.id)
    assert (after.accessed_at, after.access_count, after.importance) == (clock(), 0, stored.importance)


def test_less_important_than_a_tenth_is_not_retrieved(planted):
    memory = planted({"at": 0.5, "below": 0.9}, profile="memorysync")
    memory.remember("at", importance=0.1)
    memory.remember("below", importance=0.0999)
    assert [hit.memory.content for hit in memory.recall("query")] == ["at"]


def test_of_one_fact_only_the_newest_survives_however_similar_the_older_is(planted, clock):
    memory = planted({"dark theme": 0.99, "light theme": 0.3, "other fact": 0.4}, profile="memorysync")
    memory.remember("dark theme", fact_key="user.theme", user_id="alice")
    clock.advance(days=1)
    memory.remember("light theme", fact_key="user.theme", user_id="alice")
    memory.remember("other fact", fact_key="user.editor", user_id="alice")
    contents = [hit.memory.content for hit in memory.recall("query", user_id="alice")]
    assert contents == ["other fact", "light theme"]


def test_of_one_fact_updated_at_the_same_instant_the_one_stored_last_survives(planted):
    memory = planted({"dark theme": 0.9, "light theme": 0.3, "no theme": 0.2}, profile="memorysync")
    for text in ("dark theme", "light theme", "no theme"):
        memory.remember(text, fact_key="user.theme")
    assert [hit.memory.content for hit in memory.recall("query")] == ["no theme"]


@pytest.mark.parametrize(
    "newer",
    [{"importance": 0.0999}, {"project": "other"}, {"environment": "staging"}, {"ttl": "12h"}],
    ids=["unimportant", "of another project", "of another environment", "expired"],
)
def test_what_was_filtered_before_does_not_suppress_the_older_of_a_fact(planted, clock, newer):
    memory = planted({"old": 0.5, "new": 0.9}, profile="memorysync")
    memory.remember("old", fact_key="user.theme")
    clock.advance(days=1)
    memory.remember("new", fact_key="user.theme", **newer)
    clock.advance(days=1)
    assert [hit.memory.content for hit in memory.recall("query")] == ["old"]


def test_what_a_fact_suppressed_absorbs_nothing(planted, clock):
    cosines = {"old": 0.9, "copy of old": 0.899, "new": 0.3}
    memory = planted(cosines, profile="memorysync", axes={"old": 1, "copy of old": 1, "new": 2})
    memory.remember("old", fact_key="user.theme")
    memory.remember("copy of old")
    clock.advance(days=1)
    memory.remember("new", fact_key="user.theme")
    hits = memory.recall("query")
    assert [(hit.memory.content, hit.absorbed) for hit in hits] == [("copy of old", ()), ("new", ())]


def test_memories_without_a_fact_key_do_not_suppress_each_other(planted):
    memory = planted({"one": 0.9, "two": 0.8}, profile="memorysync")
    for text in ("one", "two"):
        memory.remember(text)
    assert len(memory.recall("query")) == 2


def test_updating_the_older_one_makes_it_the_newest(planted, clock):
    memory = planted({"dark theme": 0.9, "light theme": 0.3}, profile="memorysync")
    dark = memory.remember("dark theme", fact_key="user.theme").memory
    clock.advance(days=1)
    memory.remember("light theme", fact_key="user.theme")
    clock.advance(days=1)
    memory.update(dark.id, importance=0.6)
    assert [hit.memory.content for hit in memory.recall("query")] == ["dark theme"]


def test_one_users_fact_does_not_suppress_anothers(planted):
    from salience import ANY

    memory = planted({"dark": 0.9, "light": 0.8}, profile="memorysync")
    memory.remember("dark", fact_key="user.theme", user_id="alice")
    memory.remember("light", fact_key="user.theme", user_id="bob")
    assert len(memory.recall("query", user_id=ANY)) == 2


def test_near_duplicates_collapse_into_the_higher_ranked_one(planted):
    memory = planted({"best": 0.9, "copy": 0.899, "different": 0.5}, profile="memorysync", axes={"best": 1, "copy": 1})
    ids = {text: memory.remember(text).memory.id for text in ("best", "copy", "different")}
    hits = memory.recall("query")
    assert [hit.memory.content for hit in hits] == ["best", "different"]
    assert hits[0].absorbed == (ids["copy"],)
    assert hits[1].absorbed == ()


def angled(planted, **degrees):
    """Return an engine whose texts all lie in one plane, so many degrees away from the query."""
    cosines = {text: math.cos(math.radians(angle)) for text, angle in degrees.items()}
    return planted(cosines, profile="memorysync", axes=dict.fromkeys(degrees, 1))


def test_a_near_duplicate_goes_to_the_most_similar_of_the_kept(planted):
    memory = angled(planted, ruby=0, amber=30, red=12, yellow=18)  # alike: cosine >= 0.9, 25.8 degrees
    ids = {
        text: memory.remember(text, importance=1.0 if text in ("ruby", "amber") else 0.1).memory.id
        for text in ("ruby", "amber", "red", "yellow")
    }
    hits = memory.recall("query")
    assert [hit.memory.content for hit in hits] == ["ruby", "amber"]
    assert [hit.absorbed for hit in hits] == [(ids["red"],), (ids["yellow"],)]


def test_what_a_hit_absorbed_is_listed_best_first(planted):
    memory = angled(planted, best=0, gamma=15, alpha=5, delta=20, beta=10)
    ids = {text: memory.remember(text).memory.id for text in ("best", "gamma", "alpha", "delta", "beta")}
    hit = memory.recall("query")[0]
    assert hit.absorbed == tuple(ids[text] for text in ("alpha", "beta", "gamma", "delta"))


def test_memories_collapse_into_kept_ones_only(planted):
    memory = angled(planted, best=0, between=20, end=40)
    for text in ("best", "between", "end"):
        memory.remember(text)
    assert [hit.memory.content for hit in memory.recall("query")] == ["best", "end"]


@pytest.mark.parametrize(("cosine", "kept"), [(0.9, 1), (0.8999, 2)])
def test_near_duplicates_collapse_from_the_embedders_paraphrase_threshold(planted, cosine, kept):
    memory = planted({"best": 1.0, "other": cosine}, profile="memorysync")
    assert memory.services.calibration.paraphrase == 0.9
    for text in ("best", "other"):
        memory.remember(text)
    assert len(memory.recall("query")) == kept


def test_staleness_counts_before_near_duplicates_collapse(planted, clock):
    memory = angled(planted, stale=0, fresh=15)
    stale = memory.remember("stale", created_at=clock() - timedelta(days=90)).memory
    memory.remember("fresh")
    hits = memory.recall("query")
    assert [(hit.memory.content, hit.absorbed) for hit in hits] == [("fresh", (stale.id,))]


def test_a_collapsed_memory_is_not_refreshed(planted, clock):
    memory = angled(planted, best=0, copy=5)
    ids = {text: memory.remember(text).memory.id for text in ("best", "copy")}
    clock.advance(days=1)
    memory.recall("query")
    assert memory.get(ids["best"]).accessed_at == clock()
    assert memory.get(ids["copy"]).accessed_at is None


def test_a_memory_shows_importance_status_environment_and_last_recalled(planted, clock):
    memory = planted({"text": 0.9}, profile="memorysync")
    stored = memory.remember("text", importance=0.7, environment="staging").memory
    memory.recall("query", environment="staging")
    shown = memory.get(stored.id, environment="staging")
    assert (shown.importance, shown.status, shown.scope.environment) == (0.7, "live", "staging")
    assert shown.accessed_at == clock()


def test_collapsed_memories_make_room_for_others_within_the_limit(planted):
    copies = {f"copy {letter}": 0.9 for letter in "abcdef"}
    memory = planted({**copies, "second": 0.5}, profile="memorysync", axes=dict.fromkeys(copies, 1) | {"second": 2})
    for text in (*copies, "second"):
        memory.remember(text)
    assert [hit.memory.content for hit in memory.recall("query", limit=2)] == ["copy a", "second"]


def test_top_k_is_at_most_50(planted):
    memory = planted({f"text {n}": 0.5 + n / 1000 for n in range(60)}, profile="memorysync", dimension=128)
    for number in range(60):
        memory.remember(f"text {number}")
    assert len(memory.recall("query", limit=50)) == 50
    with pytest.raises(InputError, match=r"limit is 51\. .* from 0 to 50"):
        memory.recall("query", limit=51)


def test_environment_and_project_filter_first(planted):
    memory = planted({"staging": 0.9, "other": 0.9, "mine": 0.1}, profile="memorysync")
    memory.remember("staging", environment="staging", project="mine")
    memory.remember("other", project="other")
    memory.remember("mine", project="mine")
    assert [hit.memory.content for hit in memory.recall("query", project="mine")] == ["mine"]
