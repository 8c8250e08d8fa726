"""The sample that ships with the package."""

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from salience import compose
from salience.engine import Engine
from salience.evaluate import sample
from salience.records import ANY, Scope

PROFILES = ("salience", "mememory", "memlayer", "zeromemory", "memorysync", "cmm")


def test_every_line_is_a_draft_with_a_name_of_its_own() -> None:
    memories = sample.memories()
    assert len(memories) == 85
    assert len({memory.ref for memory in memories}) == len(memories)
    assert len({memory.draft.content for memory in memories}) == len(memories)


def test_the_sample_holds_what_it_is_to_show() -> None:
    memories = sample.memories()
    kinds = Counter(memory.draft.kind for memory in memories)
    scopes = [memory.draft.scope or Scope() for memory in memories]
    assert kinds["bootstrap"] == 3
    assert kinds["turn"] == 15
    assert min(kinds[kind] for kind in ("fact", "rule", "decision", "feedback", "context")) >= 3
    assert {scope.user_id for scope in scopes} == {None, "mira", "elena"}
    assert {scope.project for scope in scopes} == {None, "parcel", "atlas"}
    assert sum(scope == Scope() for scope in scopes) >= 4
    assert max(Counter(memory.draft.fact_key for memory in memories if memory.draft.fact_key).values()) == 2
    assert sum(memory.supersedes is not None for memory in memories) == 1
    assert any(memory.draft.ttl and memory.draft.created_at + memory.draft.ttl < sample.now() for memory in memories)
    assert {memory.draft.tier for memory in memories} == {"working", "episodic", "semantic"}


def test_every_memory_lies_between_january_and_april_2026_and_before_its_last_recall() -> None:
    for memory in sample.memories():
        text = memory.draft.created_at
        assert text is not None
        assert (text.year, text.month in range(1, 5)) == (2026, True)
        assert (memory.recalled > 0) == (memory.recalled_at is not None)
        assert memory.recalled_at is None or text < memory.recalled_at < sample.now()


@pytest.fixture(scope="module")
def stored() -> tuple[Engine, dict[str, str]]:
    engine = compose.connect(":memory:", clock=sample.now)
    return engine, {id: ref for ref, id in sample.store(engine).items()}


def test_few_memories_of_the_sample_are_marked_as_replaced(stored: tuple[Engine, dict[str, str]]) -> None:
    """Three are; a store of long notes without updates is where a model of updates marks too much."""
    engine, refs = stored
    everywhere: dict[str, Any] = dict.fromkeys(("project", "user_id", "agent_id"), ANY)
    listed = engine.list(limit=200, **everywhere).memories
    marked = {refs[memory.id] for memory in listed if memory.replaced_by is not None}
    assert marked >= {"store-mongo", "theme-dark", "refund-wrong"}
    assert len(marked) <= 13


@pytest.fixture(scope="module")
def answers(stored: tuple[Engine, dict[str, str]]) -> dict[str, dict[str, list[str]]]:
    engine, refs = stored
    return {
        arguments.question: {
            profile: [refs[hit.memory.id] for hit in _recall(engine, arguments.question, arguments.scope, profile)]
            for profile in PROFILES
        }
        for arguments in sample.questions()
    }


def _recall(engine: Engine, question: str, scope: Scope, profile: str) -> list:
    where = {name: value for name, value in (("user_id", scope.user_id), ("project", scope.project)) if value}
    return list(engine.recall(question, profile=profile, limit=5, dry_run=True, **where))


def test_profiles_part_on_every_question(answers: dict[str, dict[str, list[str]]]) -> None:
    for question, by_profile in answers.items():
        assert len({tuple(found[:4]) for found in by_profile.values()}) >= 4, question


@pytest.mark.parametrize(
    ("start", "first"),
    [
        ("Which theme", {"salience": "theme-light", "zeromemory": "theme-dark", "cmm": "theme-dark"}),
        ("In which database", {"salience": "store-postgres", "zeromemory": "bootstrap-parcel"}),
        ("Can we deploy", {"salience": "friday-rule", "mememory": "friday-smooth", "memorysync": "friday-smooth"}),
        ("What happened", {"memorysync": "outage-apr", "mememory": "outage-apr", "cmm": "outage-feb"}),
        ("What does LBL", {"salience": "err-4097", "mememory": "err-4790", "zeromemory": "err-4079"}),
        ("How are dates", {"mememory": "dates-parcel", "memlayer": "dates-global", "memorysync": "dates-global"}),
        ("Who comes", {"cmm": "dinner-saturday", "mememory": "dinner-sunday"}),
        ("How long", {"salience": "refund-correction", "zeromemory": "refund-correction", "cmm": "refund-correction"}),
        ("How long", {"mememory": "refund-wrong", "memlayer": "refund-wrong", "memorysync": "refund-wrong"}),
        (
            "Which cello",
            {"memorysync": "elena-strings", "mememory": "elena-strings-bought", "memlayer": "elena-strings-bought"},
        ),
    ],
)
def test_the_first_answers_are_those_that_the_reason_tells_of(
    answers: dict[str, dict[str, list[str]]], start: str, first: dict[str, str]
) -> None:
    (found,) = (by_profile for question, by_profile in answers.items() if question.startswith(start))
    assert {profile: found[profile][0] for profile in first} == first


def test_near_duplicates_fold_and_a_name_leads_on(stored: tuple[Engine, dict[str, str]]) -> None:
    engine, refs = stored
    swims = _recall(engine, "When does Elena go swimming?", Scope(user_id="elena"), "memorysync")[0]
    assert {refs[swims.memory.id], *(refs[id] for id in swims.absorbed)} == {"swim-1", "swim-2", "swim-3"}
    guests = _recall(engine, "Who comes to dinner on Saturday?", Scope(user_id="elena"), "cmm")
    (walnuts,) = (hit for hit in guests if refs[hit.memory.id] == "ilse-walnuts")
    assert walnuts.via is not None
    assert (refs[walnuts.via.id], walnuts.via.link) == ("dinner-saturday", "entity")


def test_the_sample_is_stored_with_its_counts_of_recalls(stored: tuple[Engine, dict[str, str]]) -> None:
    engine, refs = stored
    ids = {ref: id for id, ref in refs.items()}
    for memory in sample.memories():
        if memory.recalled:
            scope = replace(memory.draft.scope or Scope(), session_id=None)
            (kept,) = engine.services.store.fetch(scope, [ids[memory.ref]])
            assert (kept.access_count, kept.accessed_at) == (memory.recalled, memory.recalled_at)
