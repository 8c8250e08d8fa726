"""The same statement through the engine: what is merely alike is shown, what is said again takes one place."""

from __future__ import annotations

import pytest

BUILDS = [f"Deployed build 77 to {region}" for region in ("eu-west", "eu-east", "us-west", "us-east")]


def contents(hits):
    return [hit.memory.content for hit in hits]


def remembered(planted, texts, profile):
    """Return a memory of texts that have the same vector, so that only their words tell them apart."""
    memory = planted(dict.fromkeys(texts, 0.9), profile=profile, axes=dict.fromkeys(texts, 1))
    for text in texts:
        memory.remember(text)
    return memory


@pytest.mark.parametrize("profile", ["salience", "precise"])
def test_siblings_are_all_returned(planted, profile):
    memory = remembered(planted, BUILDS, profile)
    hits = memory.recall("query build 77", limit=10)
    assert sorted(contents(hits)) == sorted(BUILDS)
    assert not any(hit.absorbed for hit in hits)


@pytest.mark.parametrize("profile", ["salience", "precise"])
def test_what_is_said_again_takes_one_place_and_is_listed(planted, profile):
    memory = remembered(planted, [*BUILDS, "deployed build 77 to us-east."], profile)
    hits = memory.recall("query build 77", limit=10)
    assert len(hits) == 4
    (kept,) = [hit for hit in hits if hit.absorbed]
    assert {kept.memory.content, memory.get(kept.absorbed[0]).content} == {BUILDS[3], "deployed build 77 to us-east."}


def test_explain_names_the_memory_that_makes_the_same_statement(planted):
    memory = remembered(planted, ["Bob paid Ann", "Bob paid Ann."], "salience")
    (hit,) = memory.recall("query Bob")
    kept, gone = hit.memory.id, hit.absorbed[0]
    found = memory.explain("query Bob", gone)
    assert (found.stage, found.by) == ("same_statement", kept)
    assert found.reason == f"It makes the same statement as {kept[-8:]}, which ranks higher and represents both."
    assert found.counterfactual.startswith(f"Forgetting {kept[-8:]} would return it at rank 1")
    memory.forget(kept)
    assert memory.recall("query Bob")[0].memory.id == gone


def test_another_text_collapses_no_more_after_an_update(planted):
    memory = remembered(planted, ["The limit is 30", "The limit is 30."], "salience")
    (hit,) = memory.recall("query limit")
    memory.update(hit.absorbed[0], content="The limit is 40")
    assert len(memory.recall("query limit")) == 2


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("The wifi password is Tulip9", "The wifi password is tulip9"),
        ("She writes C", "She writes C++"),
        ("The offset is +5", "The offset is -5"),
        ("The vote was 👍", "The vote was 👎"),
        ("Nice work", "Nice work 🙃"),
        ("Set `x = 1`", "Set `x  = 1`"),
        ("The parser calls the lexer", "The lexer calls the parser"),
        ("我吃肉", "我不吃肉"),
    ],
)
def test_a_difference_that_may_mean_something_is_stored(planted, first, second):
    memory = remembered(planted, [first, second], "salience")
    assert sorted(item.content for item in memory.list().memories) == sorted([first, second])
    assert sorted(contents(memory.recall(f"query {first}", limit=10, min_score=0))) == sorted([first, second])


def test_a_day_is_part_of_what_is_said_of_it(planted, clock):
    texts = ["I ran 5 km today", "I met Ann yesterday", "I work from home"]
    memory = planted(dict.fromkeys(texts, 0.3))
    first = [memory.remember(text).status for text in texts]
    again = [memory.remember(text).status for text in texts]
    clock.advance(days=1)
    later = [memory.remember(text).status for text in texts]
    assert first == ["created"] * 3
    assert again == ["unchanged"] * 3
    assert later == ["created", "created", "unchanged"]
    hits = memory.recall("query", limit=10, min_score=0)
    assert sorted(contents(hits)) == sorted([*texts, *texts[:2]])
