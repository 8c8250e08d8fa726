"""precisionMemBench: what a search returns, and above all what it does not."""

from __future__ import annotations

import importlib.util

import pytest
from tiers import BELIEFS, CASES, PROJECTS, answer, seeded, session_turns

from salience.evaluate.datasets import precisionmembench as bench

pytestmark = pytest.mark.slow

LEAST = {"minilm": (56, 0.84), "static": (56, 0.8)}
"""Embedder -> cases of 77 that must pass, and the mean precision of those with something to find."""
LEARNT = "b-ci-parallel-decision"


@pytest.fixture(scope="module", params=sorted(LEAST))
def embedder(request):
    if request.param == "static" and importlib.util.find_spec("wordllama") is None:
        pytest.skip("the extra `static` is not installed")
    return request.param


@pytest.fixture(scope="module")
def answers(embedder):
    with seeded(":memory:", embedder) as memory:
        return {case.name: answer(memory, case) for case in CASES}


def of_category(answers, category):
    return [found for found in answers.values() if found.case.category == category]


def test_most_cases_pass_and_little_else_is_returned(answers, embedder):
    passed = [name for name, found in answers.items() if not found.failures]
    asked = [found for found in answers.values() if found.wanted]
    precision = [len(found.wanted & set(found.relevant)) / max(1, len(found.relevant)) for found in asked]
    recall = [len(found.wanted & set(found.relevant)) / len(found.wanted) for found in asked]
    least, mean = LEAST[embedder]
    assert (len(CASES), len(asked)) == (77, 43)
    assert len(passed) >= least
    assert sum(precision) / len(asked) >= mean
    assert sum(recall) / len(asked) >= 0.85


def test_nobody_reads_what_another_user_holds(answers):
    for found in answers.values():
        user = found.case.scope.user_id
        held = [*found.relevant, *found.pinned, *found.questions]
        assert all(BELIEFS[name]["user_id"] == user for name in held)
        assert not any("Haskell" in text for text in found.persona)
    (stranger,) = [found for found in answers.values() if found.case.scope.user_id == "brand-new-user"]
    assert [stranger.relevant, stranger.pinned, stranger.questions, stranger.persona] == [[], [], [], []]


def test_nothing_of_another_domain_is_returned(answers):
    for name, found in answers.items():
        for belief in (*found.relevant, *found.pinned, *found.questions):
            assert set(BELIEFS[belief]["scope"]) & set(PROJECTS[name])


def test_what_was_superseded_is_never_returned(answers):
    superseded = {name for name, belief in BELIEFS.items() if belief["superseded_by"]}
    assert len(superseded) == 4
    assert not any(superseded & {*found.relevant, *found.pinned} for found in answers.values())


def test_what_is_resolved_is_never_returned(answers):
    resolved = {name for name, belief in BELIEFS.items() if belief["resolved_at"]}
    assert len(resolved) == 2
    for found in answers.values():
        assert not resolved & {*found.relevant, *found.pinned, *found.questions}


def test_an_alias_finds_its_belief(answers):
    missed = [
        (found.case.query, name)
        for found in of_category(answers, "Alias resolution")
        for name in found.wanted
        if name not in found.relevant
    ]
    assert len(missed) <= 3


def test_budgets_are_kept(answers):
    for found in answers.values():
        if found.case.budget is not None:
            assert len(found.relevant) <= max(0, found.case.budget - len(found.pinned))
    assert answers["budget-zero-graceful-empty"].relevant == []
    assert answers["budget-one-pinned-wins-over-relevant"].relevant == []


def test_a_blank_query_finds_nothing(answers):
    blank = [found for found in answers.values() if not found.case.query.strip()]
    assert len(blank) == 4
    assert all(found.relevant == [] for found in blank)


def test_asking_again_gives_the_same_order(answers, embedder, tmp_path):
    with seeded(str(tmp_path / "agent.db"), embedder) as memory:
        for case in CASES:
            assert answer(memory, case).relevant == answers[case.name].relevant


def test_a_long_session_drags_no_noise_along(embedder):
    turns = list(session_turns())
    assert len(turns) == 12
    with seeded(":memory:", embedder) as memory:
        for turn in turns:
            for ref, aliases in turn.renames:
                memory.rename(ref, aliases)
            found = memory.search(turn.query, bench.USER, ["domain:code"])
            wanted = turn.expect["relevantBeliefs"]["shouldOnlyInclude"]
            noise = turn.expect.get("noiseCheck", {}).get("mustNotSurface", ())
            assert not set(noise) & set(found), turn.name
            assert len(set(found) - set(wanted)) <= 1, turn.name
            for belief in turn.creates:
                memory.add(belief)
        assert LEARNT in memory.ids
        assert LEARNT in memory.search("how do we run our parallel tests?", bench.USER, ["domain:code"])
