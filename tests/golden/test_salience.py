"""The default profile: channels and what the query names, added up; the time it names and the confidence, factors."""

from __future__ import annotations

import math
from datetime import timedelta

import numpy as np
import pytest

import salience
from salience.rank import profiles
from salience.records import ANY

SIMILARITY, CONTEXT_SIMILARITY, LATE_INTERACTION, CONTEXT_LEXICAL = 0.3, 0.2, 0.4, 0.3
SPEAKER = 0.2
# of a memory without a session, whose context is itself, and without token vectors
DENSE = SIMILARITY + CONTEXT_SIMILARITY + LATE_INTERACTION
K1, B = 0.9, 0.4
NEUTRAL = 0.975  # of the score, for a memory of importance 0.5
DATE = 3  # terms of "1 May 2026", which every memory stored at the stopped clock is indexed with


def idf(documents, held):
    return math.log(1 + (documents - held + 0.5) / (held + 0.5))


def bm25(frequencies, length, average, documents, held):
    """Return the sum over query terms of idf x tf / (tf + k1 (1 - b + b length / average)), written out."""
    pace = K1 * (1 - B + B * length / average)
    return sum(idf(documents, held[term]) * count / (count + pace) for term, count in frequencies.items())


COSINES = {"vault key": 0.4, "vault vault lamp door": 0.8, "key chain holder board wall": 0.2, "lamp": 0.6}


def plant(planted):
    memory = planted(COSINES)
    for text in COSINES:
        memory.remember(text, kind="bootstrap")  # a kind that replaces nothing
    return memory


def contents(hits):
    return [hit.memory.content for hit in hits]


def test_the_sum_of_planted_cosines_and_known_bm25(planted):
    lengths = [2 * (terms + DATE) for terms in (2, 4, 5, 1)]  # a window holds the own text twice
    average = sum(lengths) / 4
    held = {"vault": 2, "key": 2}
    rows = [{"vault": 2, "key": 2}, {"vault": 4}, {"key": 2}, {}]
    telling = 2 * idf(4, 2) + idf(4, 0)  # nobody holds the word "query"
    lexical = [bm25(row, length, average, 4, held) / telling for row, length in zip(rows, lengths, strict=True)]
    assert lexical[0] == pytest.approx(2 * math.log(2) * (2 / 2.84) / (2 * math.log(2) + math.log(10)), abs=1e-12)
    expected = {
        text: (DENSE * cosine + CONTEXT_LEXICAL * share) * NEUTRAL
        for (text, cosine), share in zip(COSINES.items(), lexical, strict=True)
    }
    hits = plant(planted).recall("query: the vault key", min_score=0)
    assert {hit.memory.content: hit.score for hit in hits} == pytest.approx(expected, abs=1e-6)
    assert contents(hits) == sorted(expected, key=expected.__getitem__, reverse=True)
    parts = {hit.memory.content: hit.score_detail for hit in hits}
    for (text, cosine), share in zip(COSINES.items(), lexical, strict=True):
        assert parts[text].similarity == parts[text].context_similarity == pytest.approx(cosine, abs=1e-6)
        assert parts[text].context_lexical == pytest.approx(share, abs=1e-9)
    weights = {part.signal: (part.weight, part.combine) for part in hits[0].score_detail.parts}
    assert weights == {
        "similarity": (SIMILARITY, "sum"), "context_similarity": (CONTEXT_SIMILARITY, "sum"),
        "late_interaction": (LATE_INTERACTION, "sum"), "context_lexical": (CONTEXT_LEXICAL, "sum"),
        "speaker": (SPEAKER, "sum"),
        "period": (0.0, "sum"),
        "importance": (1.0, "product"), "time": (1.0, "product"), "weight": (0.5, "product"),
        "statement": (1.0, "product"), "same_thing": (1.0, "product"),
        "answer_kind": (1.0, "product"),
    }  # fmt: skip


def test_a_score_does_not_depend_on_what_else_is_found(planted):
    memory = planted({"best": 0.8, "half": 0.4, "opposite": -0.5})
    for text in ("half", "opposite"):
        memory.remember(text)
    before = {hit.memory.content: hit.score for hit in memory.recall("query", min_score=0, dry_run=True)}
    assert before == {"half": pytest.approx(DENSE * 0.4 * NEUTRAL, abs=1e-6), "opposite": 0.0}
    memory.remember("best")
    assert before.items() <= {hit.memory.content: hit.score for hit in memory.recall("query", min_score=0)}.items()


def test_terms_that_nobody_holds_count_as_not_found(planted):
    memory = planted({"vault": 0.0})
    memory.remember("vault")
    memory.remember("lamp")
    for query, unknown in (("query: vault", 1), ("query: vault unheard", 2)):
        hit = memory.recall(query, min_score=0, dry_run=True)[0]
        share = idf(2, 1) / (idf(2, 1) + unknown * idf(2, 0))
        assert hit.memory.content == "vault"
        assert hit.score_detail.context_lexical == pytest.approx(2 / (2 + 0.9) * share, abs=1e-9)


def test_an_exact_term_that_the_cosine_misses_is_found(planted):
    texts = {f"error while paying, case {number}": 0.1 - number / 200 for number in range(12)}
    memory = planted({**texts, "ERR-4711 appeared": 0.0})
    for text in (*texts, "ERR-4711 appeared"):
        memory.remember(text)
    hits = memory.recall("query: what about ERR-4711?", limit=13)
    assert hits[0].memory.content == "ERR-4711 appeared"
    assert hits[0].score_detail.similarity == 0.0
    assert hits.exact


def test_the_old_rank_400_by_cosine_is_found_where_it_belongs(planted):
    nearer = {f"filler {number} of no use": 0.5 for number in range(400)}
    memory = planted({**nearer, "the zanzibar ledger": 0.3}, dimension=512, query="zanzibar")
    memory.remember_many([{"content": text} for text in (*nearer, "the zanzibar ledger")])
    hits = memory.recall("zanzibar ledger?", limit=5)
    assert hits[0].memory.content == "the zanzibar ledger"
    assert hits.exact
    listed = memory.recall("zanzibar ledger?", limit=5, profile="mememory")
    assert "the zanzibar ledger" not in contents(listed)  # not among the 15 nearest


def test_a_paraphrase_without_a_common_term_is_found(planted):
    texts = [f"the vault {number} is somewhere" for number in range(3)]
    memory = planted({**dict.fromkeys(texts, 0.1), "where the safe stands": 0.9})
    for text in (*texts, "where the safe stands"):
        memory.remember(text)
    assert "where the safe stands" in contents(memory.recall("query: vault", limit=4))


def talk(memory, *turns, **where):
    return memory.ingest([{"speaker": speaker, "content": text} for speaker, text in turns], session_id="s", **where)


def test_a_turn_is_read_with_those_beside_it(planted):
    memory = planted({"Where did you go?": 0.9, "To Lisbon.": 0.3, "Nice!": 0.0})
    talk(memory, ("Ann", "Where did you go?"), ("Bob", "To Lisbon."), ("Ann", "Nice!"))
    parts = {hit.memory.content: hit.score_detail for hit in memory.recall("query: Lisbon", min_score=0)}
    assert parts["To Lisbon."].context_similarity == pytest.approx((0.9 + 0.3 + 0.0) / 3, abs=1e-6)
    assert parts["Where did you go?"].context_similarity == pytest.approx((0.9 + 0.3) / 2, abs=1e-6)
    assert parts["To Lisbon."].context_lexical > parts["Nice!"].context_lexical > 0


def test_a_named_speaker_ranks_first(planted):
    texts = {"I paint": 0.5, "I sing": 0.5}
    memory = planted(texts)
    talk(memory, ("Ann", "I paint"), ("Bob", "I sing"))
    hits = memory.recall("query: what does Bob do?", min_score=0)
    assert contents(hits) == ["I sing", "I paint"]
    assert [hit.score_detail.speaker for hit in hits] == [1.0, 0.0]
    assert memory.recall("query: what does Carol do?", min_score=0)[0].score_detail.speaker == 0.0


def test_i_is_the_user_and_you_the_assistant(planted):
    memory = planted({"tea": 0.5, "coffee": 0.5})
    talk(memory, ("user", "tea"), ("assistant", "coffee"))
    assert contents(memory.recall("query: what do I drink?", min_score=0)) == ["tea", "coffee"]
    assert contents(memory.recall("query: what did you name?", min_score=0)) == ["coffee", "tea"]


def embedded_for(memory, question, **where):
    """Return the texts that a question embeds."""
    texts = memory.services.embedder._embedder.texts
    before = len(texts)
    memory.recall(question, dry_run=True, **where)
    return texts[before:]


def test_a_query_about_a_speaker_is_embedded_in_the_first_person_too(planted):
    memory = planted()
    talk(memory, ("Ann Lee", "I paint"), ("Bob", "I sing"))
    for arguments, own in (
        ("What did Ann's friend paint for Bob?", "What did my friend paint for I?"),
        ("What did Ann Lee paint?", "What did I paint?"),
        ("what did ann sketch?", "what did I sketch?"),
    ):
        assert embedded_for(memory, arguments) == [arguments, own]
    for arguments in ("What did Carol paint?", "What of Annabel?"):
        assert embedded_for(memory, arguments) == [arguments]
    assert embedded_for(memory, "And what did Ann Lee do?", profile="mememory") == ["And what did Ann Lee do?"]


def test_turns_match_the_first_person_and_facts_the_third(planted):
    class Voices:
        name, dimension = "voices", 2

        def embed(self, texts):
            first = [[1.0, 0.0] if "I" in text.split() else [0.0, 1.0] for text in texts]
            return np.array(first, np.float32)

    memory = salience.connect(":memory:", embedder=Voices())
    talk(memory, ("Ann", "I paint"), ("Bob", "nothing here"))
    memory.remember("Ann paints")
    memory.remember("I am a fact")
    similar = {hit.memory.content: hit.score_detail.similarity for hit in memory.recall("Does Ann paint?", min_score=0)}
    assert similar == {"I paint": 1.0, "nothing here": 0.0, "Ann paints": 1.0, "I am a fact": 0.0}


@pytest.mark.parametrize(
    ("question", "own", "similarity"),
    [
        ("query: what does Alice drink?", 0.6, 0.8**0.5),
        pytest.param("query: what does Alice drink?", -1.0, 0.6, id="no mean of opposites"),
        pytest.param("query: was trinkt die Alice heute zum Frühstück?", 0.6, 0.6, id="no first person in German"),
    ],
)
def test_a_question_that_names_the_user_is_in_the_middle_of_both_persons(planted, question, own, similarity):
    first = "query: what does I drink?"
    memory = planted({"tea": 0.6, first: own}, axes={"tea": 1, first: 1})
    memory.remember("tea", user_id="alice")
    (hit,) = memory.recall(question, user_id="alice", min_score=0)
    assert hit.score_detail.similarity == pytest.approx(similarity)


def test_a_speaker_whom_the_caller_cannot_see_is_no_speaker(planted):
    memory = planted()
    talk(memory, ("Ann", "I paint"), user_id="bob")
    assert embedded_for(memory, "What did Ann paint?", user_id="carol") == ["What did Ann paint?"]
    assert embedded_for(memory, "When did Ann paint?", user_id=ANY) == ["When did Ann paint?", "When did I paint?"]


def test_an_entity_that_is_a_speaker_counts_as_the_speaker(planted):
    memory = planted({"I paint": 0.5, "Ann and Bob met": 0.5})
    talk(memory, ("Ann", "I paint"))
    memory.remember("Ann and Bob met", entities=["Ann", "Bob"])
    found = memory.recall("query: Ann?", min_score=0, profile="precise")
    parts = {hit.memory.content: hit.score_detail for hit in found}
    assert (parts["I paint"].speaker, parts["I paint"].entity) == (1.0, 0.0)
    assert (parts["Ann and Bob met"].speaker, parts["Ann and Bob met"].entity) == (1.0, 0.0)
    about_bob = memory.recall("query: and Bob?", min_score=0, profile="precise")[0].score_detail
    assert (about_bob.speaker, about_bob.entity) == (0.0, 1.0)  # who never speaks


def test_an_alias_is_found_by_name(planted):
    memory = planted({"Deploys to a cluster on EKS": 0.2, "Frontend has eleven pages": 0.2})
    memory.remember("Deploys to a cluster on EKS", entities=["Kubernetes", "k8s"])
    memory.remember("Frontend has eleven pages", entities=["React"])
    hits = memory.recall("query: what about K8S?", min_score=0)
    assert contents(hits)[0] == "Deploys to a cluster on EKS"
    assert [hit.score_detail.context_lexical > 0 for hit in hits] == [True, False]
    assert [hit.score_detail.entity for hit in memory.recall("query: what about K8S?", profile="precise")] == [1.0]


def test_an_entity_that_all_name_tells_little(planted):
    memory = planted()
    for number in range(4):
        memory.remember(f"text {number}", entities=["Alice"] if number else ["Alice", "Bob"])
    found = memory.recall("alice or bob?", min_score=0, profile="precise")
    entity = {hit.memory.content: hit.score_detail.entity for hit in found}
    assert entity == {"text 0": 1.0, "text 1": 0.25, "text 2": 0.25, "text 3": 0.25}


def test_the_weight_is_a_gentle_factor(planted):
    memory = planted({"sure": 0.8, "unsure": 0.8})
    memory.remember("sure", importance=0.5)
    memory.remember("unsure", importance=0.5, weight=0.25)
    scores = {hit.memory.content: hit.score for hit in memory.recall("query")}
    whole = DENSE * 0.8 * NEUTRAL
    assert scores == {"sure": pytest.approx(whole, abs=1e-6), "unsure": pytest.approx(whole / 2, abs=1e-6)}


def test_importance_counts_gently(planted):
    memory = planted({"vital": 0.5, "trivial": 0.5})
    for text, importance in (("trivial", 0.0), ("vital", 1.0)):
        memory.remember(text, importance=importance)
    hits = memory.recall("query")
    assert contents(hits) == ["vital", "trivial"]
    assert hits[1].score == pytest.approx(0.95 * hits[0].score, abs=1e-9)


def test_age_does_not_move_a_score_unless_the_query_asks_for_time(planted, clock):
    memory = planted({"old": 0.8, "new": 0.8}, axes={"old": 1, "new": 2})
    memory.remember("old", kind="bootstrap")  # a kind that replaces nothing
    clock.advance(days=1000)
    memory.remember("new", kind="bootstrap")
    hits = memory.recall("query", dry_run=True)
    assert hits[0].score == hits[1].score == pytest.approx(DENSE * 0.8 * NEUTRAL, abs=1e-6)
    latest = memory.recall("query: the latest?", dry_run=True)
    assert contents(latest) == ["new", "old"]
    assert [hit.score_detail.time for hit in latest] == [1.0, 0.75]
    assert latest.intent.time.order == "latest"
    assert contents(memory.recall("query: the very first?", dry_run=True)) == ["old", "new"]


def test_outside_the_window_is_weaker_and_not_gone(planted, clock):
    memory = planted({"in May": 0.6, "in June": 0.6, "in autumn": 0.6})
    for text, month in (("in May", 5), ("in June", 6), ("in autumn", 10)):
        memory.remember(text, created_at=clock().replace(year=2025, month=month, day=10))
    hits = memory.recall("query: what was in May 2025?", dry_run=True, min_score=0)
    time = {hit.memory.content: hit.score_detail.time for hit in hits}
    days = 10 - 1 + 0.5  # from the end of May to noon of 10 June
    assert time["in May"] == 1.0
    assert time["in June"] == pytest.approx(0.75 + 0.25 * math.exp(-days / (31 + 7)), abs=1e-9)
    assert 0.75 < time["in autumn"] < time["in June"]
    assert hits.intent.time.words == ("in May 2025",)
    only = memory.recall("query: what was in May 2025?", since="2025-10-01T00:00:00Z", min_score=0)
    assert contents(only) == ["in autumn"]


def test_an_event_bounds_the_window(planted, clock):
    result = {"we rented a flat": 0.5, "the move to Porto was today": 0.5, "we rent a house": 0.5}
    memory = planted(result)
    for text in result:
        memory.remember(text)
        clock.advance(days=60)
    before = memory.recall("query: where before the move?", dry_run=True, min_score=0)
    assert (before.intent.time.relation, before.intent.time.anchor) == ("before", "the move")
    time = {hit.memory.content: hit.score_detail.time for hit in before}
    assert time["we rented a flat"] == time["the move to Porto was today"] == 1.0
    assert time["we rent a house"] == pytest.approx(0.75 + 0.25 * math.exp(-60 / 7), abs=1e-9)
    after = memory.recall("query: where after the move?", dry_run=True, min_score=0)
    assert {hit.memory.content for hit in after if hit.score_detail.time == 1.0} == set(list(result)[1:])


def test_only_the_newest_belief_is_shown(planted):
    memory = planted({"first": 0.9, "second": 0.5})
    first = memory.remember("first", kind="x").memory
    memory.remember("second", supersedes=first.id)
    assert contents(memory.recall("query")) == ["second"]
    assert contents(memory.recall("query", kinds=["x"])) == []  # a filter brings no old belief back
    assert contents(memory.recall("query", kinds=["x"], profile="mememory")) == ["first"]  # its page's law
    assert memory.get(first.id).weight == 0.1


def test_of_one_fact_only_the_newest_is_shown(planted, clock):
    memory = planted({"dark": 0.9, "light": 0.5})
    memory.remember("dark", fact_key="user.theme", tags=["x"])
    clock.advance(days=1)
    memory.remember("light", fact_key="user.theme")
    assert contents(memory.recall("query")) == ["light"]
    assert contents(memory.recall("query", tags=["x"])) == []


def test_a_fact_read_from_a_plain_sentence_is_replaced(planted, clock):
    memory = planted({"I live in Hamburg": 0.8, "I live in Lisbon": 0.6})
    older = memory.remember("I live in Hamburg", user_id="u").memory
    clock.advance(days=1)
    newer = memory.remember("I live in Lisbon", user_id="u").memory
    assert older.fact_key == newer.fact_key == "user.residence"
    assert [(one.id, one.kind, one.by) for one in newer.relations] == [(older.id, "replaces", "fact")]
    hits = memory.recall("query", user_id="u", dry_run=True)
    assert contents(hits) == ["I live in Lisbon", "I live in Hamburg"]  # nobody said that the older one is over
    assert [hit.memory.replaced_by and hit.memory.replaced_by.id for hit in hits] == [None, newer.id]
    assert memory.get(older.id, user_id="u") == older


UPDATES = [
    ("The budget for the trip is 500 euros", "The budget for the trip is 700 euros", "query: budget trip"),
    ("The sprint ends on March 29", "The sprint ends on April 12", "query: when does the sprint end?"),
    ("The summer party is in Hamburg", "The summer party is in Lisbon", "query: where is the summer party?"),
]


@pytest.mark.parametrize(("older", "newer", "query"), UPDATES)
def test_a_later_value_of_the_same_thing_comes_first(planted, clock, older, newer, query):
    memory = planted({older: 0.8, newer: 0.6}, axes={older: 1, newer: 1})
    memory.remember(older)
    clock.advance(days=3)
    second = memory.remember(newer).memory
    hits = memory.recall(query, dry_run=True)
    assert contents(hits) == [newer, older]
    assert hits[0].via.link == "update"
    assert hits[0].score == hits[0].score_detail.recompute() == pytest.approx(1.01 * hits[1].score, abs=1e-9)
    assert second.created_at - timedelta(days=3) == hits[1].memory.created_at


def test_an_update_keeps_its_own_factors(planted, clock):
    old, new = "The rent of the office is 2000 euros", "The rent of the office is 2400 euros"
    memory = planted({old: 0.8, new: 0.6}, axes={old: 1, new: 1})
    memory.remember(old, created_at="2026-01-10T00:00:00Z")
    memory.remember(new, created_at="2026-04-10T00:00:00Z", weight=0.25)
    assert contents(memory.recall("query: the rent of the office", dry_run=True)) == [old, new]  # in doubt
    memory.remember("The rent of the office is 2600 euros", created_at="2026-04-11T00:00:00Z")
    in_time = memory.recall("query: the rent of the office in January 2026", dry_run=True, min_score=0)
    assert contents(in_time)[0] == old


def test_an_unrelated_memory_is_no_update(planted, clock):
    apart = {"Ann's budget is 500 euros": 0.9, "Bob's garden has 700 roses": 0.7}  # a cosine of 0.63 between them
    memory = planted(apart)
    for text in apart:
        memory.remember(text)
        clock.advance(days=1)
    assert contents(memory.recall("query: the budget of Ann?", dry_run=True))[0] == "Ann's budget is 500 euros"


def test_two_people_have_two_budgets(planted):
    turns = {"My budget is 500 euros": 0.9, "My budget is 700 euros": 0.5}
    memory = planted(turns, axes=dict.fromkeys(turns, 1))
    talk(memory, *zip(("Ann", "Bob"), turns, strict=True), user_id="u")
    hits = memory.recall("query: budget?", user_id="u", min_score=0)
    assert contents(hits)[0] == "My budget is 500 euros"


MODEL = profiles.load("salience").confidence


def confidence(match, late, rank, period=0.0, **others):
    """Return the confidence of a hit with a late interaction, inside the window or not, and with other features."""
    weights = MODEL.weights
    total = MODEL.intercept + weights["match"] * match + weights["rank"] / rank
    total += weights.get("late_interaction", 0.0) * LATE_INTERACTION * late + weights["period"] * period
    total += sum(weights[name] * value for name, value in others.items())
    return 1 / (1 + math.exp(-total))


def test_confidence_is_the_logistic_of_match_late_interaction_and_rank(planted):
    hits = plant(planted).recall("query: the vault key", min_score=0, dry_run=True)
    terms = {"vault key": {"vault", "key"}, "vault vault lamp door": {"vault"}, "lamp": set()}
    telling = 2 * idf(4, 2) + idf(4, 0)  # nobody holds the word "query"
    best = [hit.score for hit in hits[:2]]
    for rank, hit in enumerate(hits, 1):
        text = hit.memory.content
        covered = len(terms.get(text, {"key"})) * idf(4, 2) / telling
        margin = (hit.score - best[rank == 1]) / best[0]
        expected = confidence(
            max(covered, COSINES[text]), COSINES[text], rank, words=covered, margin=margin, asked=3 / 6
        )
        assert hit.confidence == pytest.approx(expected, abs=1e-6)
        assert hit.weak == (hit.confidence < MODEL.confident_from)


def test_the_confidence_of_a_hit_does_not_depend_on_the_limit(planted):
    memory = planted(COSINES)
    for text in COSINES:
        memory.remember(text)
    found = [[hit.confidence for hit in memory.recall("query: vault", limit=limit, dry_run=True)] for limit in (1, 4)]
    assert found[0] == found[1][:1]


def test_an_update_has_the_confidence_of_the_older_memory_which_loses_its_own(planted, clock):
    old, new = "My budget is 300 euros", "My budget is 500 euros"
    memory = planted({old: 0.9, new: 0.5}, axes={old: 1, new: 1})
    for day, text in ((1, old), (20, new)):
        memory.remember(text, created_at=clock().replace(month=4, day=day))
    first, second = memory.recall("query: what is my budget?", dry_run=True)
    assert (first.memory.content, first.via.link) == (new, "update")
    assert second.memory.replaced_by.id == first.memory.id
    (early,) = memory.recall("query: what is my budget?", dry_run=True, as_of=clock(), limit=1)
    assert early.confidence == first.confidence  # under any limit
    assert second.confidence < MODEL.possible_from < MODEL.confident_from < first.confidence


def test_weak_hits_are_marked_and_not_hidden(planted):
    texts = {"near": 0.95, "far": 0.3, "none": 0.0}
    memory = planted(texts)
    for text in texts:
        memory.remember(text)
    found = memory.recall("query", dry_run=True)
    assert [(hit.memory.content, hit.weak) for hit in found] == [("near", False), ("far", True)]
    assert [hit.score for hit in found] == pytest.approx([DENSE * 0.95 * NEUTRAL, DENSE * 0.3 * NEUTRAL], abs=1e-6)
    assert found[1].confidence < MODEL.confident_from < found[0].confidence
    assert found.confident
    assert contents(memory.recall("query", min_score=0, dry_run=True)) == ["near", "far", "none"]
    memory.forget(found[0].memory.id)
    left = memory.recall("query", dry_run=True)
    assert contents(left) == ["far"]
    assert not left.confident


def test_the_mark_does_not_depend_on_the_number_of_memories(planted):
    texts = {f"text {number}": 0.94 if number % 2 else 0.95 for number in range(40)}
    memory = planted(texts)
    for text in texts:
        memory.remember(text, kind="bootstrap")  # a kind that replaces nothing
        hits = memory.recall("query", dry_run=True)
        best = [hit.score for hit in hits[:2]]
        for rank, hit in enumerate(hits, 1):
            cosine, margin = texts[hit.memory.content], (hit.score - best[rank == 1]) / best[0] if hits[1:] else 0.0
            expected = confidence(cosine, cosine, rank, margin=margin, asked=1 / 6)
            assert hit.confidence == pytest.approx(expected, abs=1e-6)


def test_a_name_alone_makes_no_answer_strong(planted):
    memory = planted({"I sing": 0.1, "I paint": 0.95})
    talk(memory, ("Ann", "I sing"))
    memory.ingest([{"speaker": "Ann", "content": "I paint"}], session_id="another")
    found = memory.recall("query: what does Ann do?", dry_run=True)
    assert [(hit.memory.content, hit.weak) for hit in found] == [("I paint", False), ("I sing", True)]
    assert found[1].score > SPEAKER * NEUTRAL


def days(memory, clock, **texts):
    for day, text in texts.items():
        memory.remember(text, created_at=clock().replace(month=4, day=int(day[1:])))


def test_a_question_that_is_only_a_time_returns_what_lies_in_it(planted, clock):
    memory = planted({"wrote to Ben": 0.0, "sowed beans": 0.1, "paid the rent": 0.9})
    days(memory, clock, d13="wrote to Ben", d15="sowed beans", d20="paid the rent")  # asked on 1 May 2026, a Friday
    for arguments in (
        "What happened between 13 and 15 April 2026?",
        "what did I do from April 13 to April 15, 2026",
        "what did we talk about in the week of 13 April 2026?",
    ):
        found = memory.recall(arguments, dry_run=True)
        assert found.intent.name == "period", arguments
        assert {hit.memory.content for hit in found if not hit.weak} == {"sowed beans", "wrote to Ben"}, arguments
        assert [hit.score_detail.period for hit in found][:2] == [1.0, 1.0]
        assert found[0].score == pytest.approx(found[0].score_detail.recompute(), abs=1e-9)
        assert found.confident
    empty = memory.recall("what happened on 2 April 2026?", dry_run=True, min_score=0)
    assert not empty.confident
    assert len(empty) == 3  # the closest, marked


@pytest.mark.parametrize(
    ("asked", "is_period"),
    [
        ("what did I do yesterday?", True),
        ("Yesterday?", True),
        ("what's new since Monday?", True),
        ("tell me everything that happened in April", True),
        ("what did Ann and I talk about last week?", True),
        ("what happened recently?", True),
        ("what did we decide last week?", True),
        ("what happened two sessions ago?", False),  # there is none
        ("what did Ann paint in April?", False),
        ("what did Carol do last week?", False),  # who never speaks here
        ("what happens next week?", True),
        ("what happened before the move?", False),
        ("what happened?", False),
    ],
)
def test_what_is_only_a_time(planted, asked, is_period):
    memory = planted()
    talk(memory, ("Ann", "I paint"), ("Bob", "I sing"))
    assert (memory.recall(asked, dry_run=True).intent.name in ("period", "empty_period")) == is_period


def test_recently_is_a_window_and_no_order(planted, clock):
    memory = planted({"older": 0.8, "newer": 0.5, "long ago": 0.9}, axes={"older": 1, "newer": 2, "long ago": 3})
    for text, ago in (("long ago", 400), ("older", 20), ("newer", 2)):
        memory.remember(text, created_at=clock() - timedelta(days=ago))
    found = memory.recall("query: what was bought lately?", dry_run=True)
    assert found.intent.time.order is None
    parts = {hit.memory.content: hit.score_detail.time for hit in found}
    assert parts["older"] == parts["newer"] == 1.0
    assert parts["long ago"] < 1.0


def test_expired_memories_are_not_returned(planted, clock):
    memory = planted({"gone": 0.9, "there": 0.5})
    memory.remember("gone", ttl="1h")
    memory.remember("there")
    clock.advance(hours=1)
    assert contents(memory.recall("query")) == ["there"]


def test_equal_scores_come_in_the_order_of_storing(planted):
    texts = [f"text {letter}" for letter in "abcdef"]
    memory = planted(dict.fromkeys(texts, 0.5))
    for text in reversed(texts):
        memory.remember(text)
    assert contents(memory.recall("query")) == texts[:0:-1]  # five of the six


def test_a_recall_counts_and_resets_the_clock(planted, clock):
    memory = planted({"text": 0.9})
    stored = memory.remember("text", importance=0.5).memory
    clock.advance(days=1)
    memory.recall("query")
    after = memory.get(stored.id)
    assert (after.access_count, after.accessed_at, after.importance) == (1, clock(), 0.5)


def test_contradictions_are_reported_above_69_per_cent(planted):
    memory = planted({"at": 0.69, "above": 0.6901, "query new": 1.0})
    for text in ("at", "above"):
        memory.remember(text)
    assert contents(memory.remember("query new").contradictions) == ["above"]


def test_weights_can_be_set_for_one_recall(planted):
    memory = plant(planted)
    only = dict.fromkeys([term.label for term in profiles.load("salience").terms if term.combine == "sum"], 0.0)
    hits = memory.recall("query: the vault key", weights={**only, "similarity": 1.0}, min_score=0)
    assert [hit.score for hit in hits] == pytest.approx(
        [0.8 * NEUTRAL, 0.6 * NEUTRAL, 0.4 * NEUTRAL, 0.2 * NEUTRAL], abs=1e-6
    )


def test_another_language_is_left_in_the_third_person(monkeypatch, planted):
    monkeypatch.setenv("SALIENCE_LANGUAGE", "german")
    memory = planted()
    talk(memory, ("Caroline", "Ich habe gemalt"))
    assert embedded_for(memory, "Was hat Caroline gemalt?") == ["Was hat Caroline gemalt?"]


def test_a_repeated_text_takes_one_place(planted):
    arguments = "What is the status of Parcel?"
    answers = [f"Parcel is green, {number} bugs are open." for number in range(3)]
    memory = planted({arguments: 0.9, **dict.fromkeys(answers, 0.6)})
    for answer in answers:
        talk(memory, ("user", arguments), ("assistant", answer))
    hits = memory.recall("query: the status of Parcel", min_score=0)
    assert sorted(contents(hits)) == sorted([arguments, *answers])
    (again,) = [hit for hit in hits if hit.memory.content == arguments]
    assert len(again.absorbed) == 2


def test_the_later_fact_of_another_is_no_update(planted, clock):
    facts = {"Alice's birthday is on 14 March": 0.8, "Bob's birthday is on 2 June": 0.75}
    memory = planted(facts, axes=dict.fromkeys(facts, 1))
    for text in facts:
        memory.remember(text)
        clock.advance(days=1)
    for number in range(10):
        memory.remember(f"Alice has trait {number}")
    hits = memory.recall("query: when is Alice's birthday?", min_score=0)
    assert hits[0].memory.content == "Alice's birthday is on 14 March"


def test_without_a_query_vector_shared_words_are_found(planted):
    memory = planted()
    memory.remember("The vault key is under the lamp")
    memory.remember("Bread is bought on Fridays")
    hits = memory.recall("where on earth might that old vault be hidden?", deadline_ms=0)
    assert hits.degraded == ("embedding",)
    assert contents(hits) == ["The vault key is under the lamp"]


def test_a_fact_of_one_project_does_not_replace_that_of_another(planted, clock):
    texts = ("We use Postgres for billing", "We use MySQL for billing", "We use SQLite for billing")
    memory = planted(dict.fromkeys(texts, 0.9))
    for text, project in zip(texts, ("a", "b", None), strict=True):
        memory.remember(text, project=project)
        clock.advance(days=1)
    assert contents(memory.recall("query", project="a")) == [texts[0], texts[2]]
    assert len(memory.recall("query", project=salience.ANY)) == 3
    assert contents(memory.recall("query")) == [texts[2]]
