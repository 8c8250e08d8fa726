"""The profile `precise`: meaning and words, and a cut-off that rises with the number of memories."""

from __future__ import annotations

import math

import pytest

from salience.rank import profiles

DENSE = 0.6
NEUTRAL = 0.975  # of the score, for a memory of importance 0.5


@pytest.fixture
def precise(planted):
    return lambda cosines=None, **options: planted(cosines, profile="precise", **options)


def contents(hits):
    return [hit.memory.content for hit in hits]


def test_hits_have_a_confidence(precise):
    memory = precise({"The vault key is under the lamp": 0.95})
    memory.remember("The vault key is under the lamp")
    (hit,) = found = memory.recall("query: where is the vault key?", dry_run=True)
    model = profiles.load("precise").confidence
    total = model.intercept + 0.95 * model.weights["match"] + model.weights["rank"]
    held, unknown = 2 * math.log(1 + 0.5 / 1.5), math.log(1 + 1.5 / 0.5)  # the IDF of vault and key, and of query
    total += model.weights["words"] * held / (held + unknown) + model.weights["asked"] * 3 / 6
    assert hit.confidence == pytest.approx(1 / (1 + math.exp(-total)), abs=1e-6)
    assert (hit.weak, found.confident) == (hit.confidence < model.confident_from, not hit.weak)


def test_a_name_in_common_changes_the_confidence(precise):
    memory = precise({"met Benedikt in Oslo": 0.95})
    memory.remember("met Benedikt in Oslo")
    named, unnamed = (memory.recall(text, dry_run=True)[0] for text in ("query: where is Benedikt?", "query"))
    assert named.score_detail.entity == 1.0
    odds = [hit.confidence / (1 - hit.confidence) for hit in (named, unnamed)]
    weights = profiles.load("precise").confidence.weights
    held, unknown = math.log(1 + 0.5 / 1.5), math.log(1 + 1.5 / 0.5)  # the IDF of the name, and of query
    by_words = weights["words"] * held / (held + unknown) + weights["asked"] * (2 - 1) / 6
    assert math.log(odds[0] / odds[1]) == pytest.approx(weights["entity"] * 0.15 + by_words)


def test_nothing_is_returned_where_nothing_fits(precise):
    memory = precise({"The vault key is under the lamp": 0.05})
    memory.remember("The vault key is under the lamp")
    memory.remember("Bread is bought on Fridays")
    assert contents(memory.recall("query: who won the race?", dry_run=True)) == []
    assert len(memory.recall("query: who won the race?", dry_run=True, min_score=0)) == 2
    assert contents(memory.recall("query: where is the vault key?")) == ["The vault key is under the lamp"]


def test_the_score_to_reach_grows_with_the_number_of_memories(precise):
    texts = {f"word{number} stands alone": 0.3 for number in range(40)}
    memory = precise(texts)
    found = []
    for number, text in enumerate(texts, 1):
        memory.remember(text)
        found.append(len(memory.recall("query", limit=1, dry_run=True)))
        reach = min(0.12 * number**0.22, 0.48)
        assert found[-1] == (reach <= DENSE * 0.3 * NEUTRAL)
    assert found[0] == 1
    assert found[-1] == 0


def test_what_lies_far_behind_the_best_is_not_returned(precise):
    memory = precise({"best": 0.9, "second": 0.5, "third": 0.3})
    for text in ("best", "second", "third"):
        memory.remember(text)
    assert contents(memory.recall("query", dry_run=True)) == ["best", "second"]
    assert contents(memory.recall("query", min_score=0.15)) == ["best", "second", "third"]


def test_a_question_about_what_somebody_never_spoke_of_has_no_answer(precise):
    turns = {f"small talk {number}": 0.05 for number in range(30)}
    memory = precise(turns)
    memory.ingest(
        [{"speaker": "Ann" if number % 2 else "Bob", "content": text} for number, text in enumerate(turns)],
        session_id="s",
    )
    answer = memory.recall("query: which car does Ann drive?", dry_run=True)
    assert contents(answer) == []
    best = memory.recall("query: which car does Ann drive?", min_score=0)[0]
    assert best.score > 0.12 * 30**0.22  # for being Ann's, and for nothing else
    result = memory.explain("query: which car does Ann drive?", best.memory.id)
    assert (result.stage, result.rank) == ("cut_off", 1)
    assert "fits the query except by its speaker" in result.reason
