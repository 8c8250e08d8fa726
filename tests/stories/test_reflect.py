"""Reflection: what is summed up, what it carries, and how it stays true to its sources."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from reflections import (
    ANA,
    AXES,
    BOAT,
    COSINES,
    EVERYWHERE,
    MORE,
    TEA,
    counts,
    failing,
    now,
    recalled,
    run,
    store,
    versions,
)

import salience
from salience.engine import Engine
from salience.errors import InputError
from salience.maintain.reflect import reflect
from salience.ports import Clustering
from salience.records import ReflectReport, Scope
from salience.remember import stale
from tests.contract.doubles import PlantedEmbedder


@pytest.fixture
def memory(planted) -> Engine:
    return planted(COSINES, axes=AXES, profile="zeromemory")


# What is summed up


def test_related_memories_get_a_reflection_that_lists_them(memory, clock):
    sources = []
    for text in TEA:
        sources += store(memory, [text])
        clock.advance(hours=1)
    report = run(memory)
    assert (counts(report), report.examined, report.fell_back) == ((1, 0, 0, 0), 3, 0)
    made = memory.get(report.made[0].id, user_id="ana")
    assert made == report.made[0]
    assert (made.kind, made.tier, made.scope, made.status) == ("reflection", "semantic", ANA, "live")
    assert made.sources == tuple(source.id for source in sources)
    assert made.content == TEA[0]
    assert made.metadata == {"medoid": sources[0].id, "subject": "tea"}
    assert made.created_at == sources[0].created_at


def test_sources_stay_and_name_the_reflection(memory, clock):
    sources = store(memory)
    clock.advance(hours=1)
    made = run(memory, ANA).made[0]
    for source in sources:
        assert memory.get(source.id, user_id="ana") == replace(
            source, version=2, change="reflect", changed_at=clock(), changed_by="user:ana", reflection=made.id
        )


def test_a_second_run_writes_nothing(memory, clock):
    store(memory, (*TEA, *BOAT))
    assert counts(run(memory)) == (2, 0, 0, 0)
    before = versions(memory)
    clock.advance(days=1)
    assert counts(run(memory)) == (0, 0, 0, 2)
    assert versions(memory) == before


def test_a_dry_run_reports_and_writes_nothing(memory):
    store(memory)
    before = versions(memory)
    report = run(memory, dry_run=True)
    assert [made.content for made in report.made] == [TEA[0]]
    assert report.dry_run
    assert versions(memory) == before


def test_progress_counts_examined_memories(memory):
    store(memory)
    store(memory, BOAT, user_id="bo")
    seen: list[int] = []
    assert run(memory, progress=seen.append).examined == sum(seen) == 6


def test_an_empty_store_gets_no_reflections(memory):
    assert run(memory) == ReflectReport(examined=0)


@pytest.mark.parametrize("apart", ["user_id", "agent_id", "project", "environment"])
def test_only_memories_of_one_home_are_summed_up(memory, apart):
    for text, place in zip(TEA, ("x", "x", "y"), strict=True):
        store(memory, [text], **{apart: place})
    assert counts(run(memory)) == (0, 0, 0, 0)
    store(memory, [MORE], **{apart: "x"})
    made = run(memory).made[0]
    assert getattr(made.scope, apart) == "x"
    assert len(made.sources) == 3


def test_sessions_of_one_scope_share_a_reflection(memory):
    for number, text in enumerate(TEA):
        memory.ingest([{"content": text, "speaker": "Ana"}], session_id=f"s{number}", user_id="ana")
    made = run(memory).made[0]
    assert (made.scope, made.speaker, made.turn) == (ANA, "Ana", None)


def test_only_callers_who_see_the_sources_see_the_reflection(memory):
    store(memory)
    made = run(memory).made[0]
    assert made.id in recalled(memory, user_id="ana")
    assert recalled(memory, user_id="bo") == recalled(memory) == []


def test_only_memories_visible_to_the_caller_are_examined(memory):
    store(memory)
    store(memory, BOAT, user_id="bo")
    assert run(memory, Scope(user_id="bo")).made[0].scope == Scope(user_id="bo")
    assert run(memory, Scope()).examined == 0


def test_speakers_are_not_mixed(memory):
    for speaker, text in zip(("Ana", "Ana", "Bo"), TEA, strict=True):
        memory.ingest([{"content": text, "speaker": speaker}], session_id="s", user_id="ana")
    assert counts(run(memory)) == (0, 0, 0, 0)


@pytest.mark.parametrize(
    "texts",
    [
        ("Thanks a lot!", "Thanks so much!", "Thanks again, great!"),
        ("Ana is great", "Ana, thanks!", "So happy for you, Ana"),
        ("Is the boat leaking?", "Where is the boat?", "Shall we paint the boat?"),
    ],
)
def test_texts_without_subjects_are_not_summed_up(planted, texts):
    memory = planted(dict.fromkeys(texts, 0.9), axes=dict.fromkeys(texts, 1), profile="zeromemory")
    store(memory, texts)
    assert counts(run(memory)) == (0, 0, 0, 0)


@pytest.mark.parametrize(
    "values", [{"kind": "bootstrap"}, {"kind": "reflection"}, {"ttl": "1h"}, {"weight": 0.1}, {"fact_key": "ana.drink"}]
)
def test_expired_and_excluded_memories_are_left_out(memory, clock, values):
    store(memory, TEA[:2])
    store(memory, TEA[2:], **values)
    if "fact_key" in values:
        store(memory, BOAT[:1], **values)
    clock.advance(hours=2)
    assert counts(run(memory)) == (0, 0, 0, 0)


def test_superseded_memories_are_left_out(memory):
    old = store(memory)[2]
    memory.remember("Tea keeps nobody awake", supersedes=old.id, user_id="ana")
    assert counts(run(memory)) == (0, 0, 0, 0)


def test_pending_memories_are_left_out(memory, monkeypatch):
    store(memory, TEA[:2])
    with monkeypatch.context() as patch:
        patch.setattr(PlantedEmbedder, "embed", failing)
        assert memory.remember(TEA[2], user_id="ana").status == "pending"
    assert counts(run(memory)) == (0, 0, 0, 0)


def test_settings_control_the_groups(memory):
    store(memory)
    wide = replace(memory.services, clustering=Clustering(least=4))
    assert reflect(wide, EVERYWHERE).made == ()
    tight = replace(memory.services, clustering=Clustering(tightness=0.999))
    assert reflect(tight, EVERYWHERE).made == ()
    assert len(run(memory).made) == 1


def test_the_settings_are_read_and_checked(monkeypatch):
    monkeypatch.setenv("SALIENCE_REFLECT_LEAST", "5")
    monkeypatch.setenv("SALIENCE_REFLECT_TIGHTNESS", "0.7")
    with salience.connect(":memory:", embedder=PlantedEmbedder()) as engine:
        assert engine.services.clustering == Clustering(tightness=0.7, least=5)
    monkeypatch.setenv("SALIENCE_REFLECT_GREATEST", "4")
    with pytest.raises(InputError, match=r"reflect_least is 5\. Give at most 4"):
        salience.connect(":memory:", embedder=PlantedEmbedder())


# How it stays true to its sources


Change = Callable[[Engine, str], object]
CHANGES: dict[str, Change] = {
    "forgotten": lambda memory, id: memory.forget(id, user_id="ana"),
    "updated": lambda memory, id: memory.update(id, content=BOAT[0], user_id="ana"),
    "superseded": lambda memory, id: memory.remember("No tea for Ana", supersedes=id, user_id="ana"),
}


@pytest.mark.parametrize("what", CHANGES)
def test_a_changed_source_makes_its_reflection_stale(memory, what):
    sources = store(memory)
    made = run(memory).made[0]
    CHANGES[what](memory, sources[0].id)
    gone = now(memory, made.id)
    assert (gone.status, gone.change, gone.version, gone.content) == ("stale", "stale", 2, made.content)
    assert made.id not in recalled(memory, user_id="ana")


@pytest.mark.parametrize("what", CHANGES)
def test_the_next_run_renews_a_stale_reflection_under_its_id(memory, clock, what):
    sources = store(memory, (*TEA, MORE))
    made = run(memory).made[0]
    CHANGES[what](memory, sources[0].id)
    clock.advance(hours=1)
    report = run(memory, ANA)
    assert counts(report) == (0, 1, 0, 0)
    again = memory.get(made.id, user_id="ana")
    assert again == report.renewed[0]
    assert (again.change, again.version, again.status, again.changed_by) == ("reflect", 3, "live", "user:ana")
    assert again.sources == tuple(source.id for source in sources[1:])
    assert counts(run(memory)) == (0, 0, 0, 1)


def test_a_change_without_a_new_text_keeps_the_reflection(memory):
    sources = store(memory)
    made = run(memory).made[0]
    memory.update(sources[0].id, importance=1.0, user_id="ana")
    assert memory.get(made.id, user_id="ana") == made
    assert counts(run(memory)) == (0, 0, 0, 1)


def test_an_updated_source_renews_the_text(memory):
    sources = store(memory)
    made = run(memory).made[0]
    memory.update(sources[0].id, content=MORE, user_id="ana")
    again = run(memory).renewed[0]
    assert (again.id, again.sources) == (made.id, made.sources)
    assert made.content == TEA[0] != again.content


def test_a_reflection_with_too_few_sources_stays_stale(memory):
    sources = store(memory)
    made = run(memory).made[0]
    memory.forget(sources[0].id, user_id="ana")
    assert counts(run(memory)) == (0, 0, 0, 0)
    assert now(memory, made.id).change == "stale"
    assert [now(memory, source.id).reflection for source in sources] == [made.id, None, None]
    before = versions(memory)
    assert counts(run(memory)) == (0, 0, 0, 0)
    assert versions(memory) == before


def test_a_stale_reflection_returns_with_enough_sources(memory):
    sources = store(memory)
    made = run(memory).made[0]
    memory.forget(sources[0].id, user_id="ana")
    run(memory)
    store(memory, [MORE])
    report = run(memory)
    assert (counts(report), report.renewed[0].id) == ((0, 1, 0, 0), made.id)


def test_a_new_related_memory_renews_the_reflection(memory):
    sources = store(memory)
    made = run(memory).made[0]
    more = store(memory, [MORE])[0]
    assert recalled(memory, user_id="ana").count(made.id) == 1
    again = run(memory).renewed[0]
    assert (again.id, again.version) == (made.id, 2)
    assert again.sources == (*(source.id for source in sources), more.id)
    assert now(memory, more.id).reflection == made.id
    assert [now(memory, source.id).version for source in sources] == [2, 2, 2]


def test_a_reflection_without_a_group_becomes_stale(memory):
    sources = store(memory)
    made = run(memory).made[0]
    strict = replace(memory.services, clustering=Clustering(least=4))
    report = reflect(strict, EVERYWHERE)
    assert (counts(report), report.retired) == ((0, 0, 1, 0), (made.id,))
    assert now(memory, made.id).status == "stale"
    assert {now(memory, source.id).reflection for source in sources} == {None}


def test_a_reflection_expires_with_its_first_source(memory, clock):
    store(memory, TEA[:1], ttl="1h")
    store(memory, (*TEA[1:], MORE))
    made = run(memory).made[0]
    clock.advance(hours=2)
    assert made.id not in recalled(memory, user_id="ana")
    again = run(memory).renewed[0]
    assert (again.id, again.expires_at, len(again.sources)) == (made.id, None, 3)
    assert made.id in recalled(memory, user_id="ana")


def test_a_forgotten_reflection_is_not_made_again_for_the_same_sources(memory):
    sources = store(memory)
    made = run(memory).made[0]
    memory.forget(made.id, user_id="ana")
    before = versions(memory)
    assert counts(run(memory)) == (0, 0, 0, 0)
    assert versions(memory) == before
    store(memory, [MORE])
    another = run(memory).made[0]
    assert another.id != made.id
    assert now(memory, made.id).status == "forgotten"
    assert {now(memory, source.id).reflection for source in sources} == {another.id}


def test_a_restored_reflection_stays_for_the_same_sources(memory):
    sources = store(memory)
    made = run(memory).made[0]
    memory.forget(made.id, user_id="ana")
    memory.restore(made.id, user_id="ana")
    assert counts(run(memory)) == (0, 0, 0, 1)
    store(memory, [MORE])
    run(memory)
    memory.restore(made.id, version=1, user_id="ana")
    assert memory.get(made.id, user_id="ana").sources == tuple(source.id for source in sources)
    again = run(memory).renewed[0]
    assert (again.id, len(again.sources)) == (made.id, 4)
    assert counts(run(memory)) == (0, 0, 0, 1)


def test_a_restored_source_renews_the_reflection(memory):
    sources = store(memory, (*TEA, MORE))
    made = run(memory).made[0]
    memory.forget(sources[0].id, user_id="ana")
    assert len(run(memory).renewed[0].sources) == 3
    memory.restore(sources[0].id, user_id="ana")
    again = run(memory).renewed[0]
    assert (again.id, len(again.sources)) == (made.id, 4)


def test_erased_sources_leave_no_reflection(memory):
    sources = store(memory)
    made = run(memory).made[0]
    assert memory.erase(ids=[sources[0].id], user_id="ana") == 2
    assert memory.services.store.history(EVERYWHERE, made.id) == []
    assert counts(run(memory)) == (0, 0, 0, 0)
    assert {now(memory, source.id).reflection for source in sources[1:]} == {None}


def test_a_reflection_whose_kind_changed_is_no_source(memory):
    store(memory)
    made = run(memory).made[0]
    memory.update(made.id, kind="fact", user_id="ana")
    before = versions(memory)
    assert counts(run(memory)) == (0, 0, 0, 1)
    assert versions(memory) == before


def test_an_edited_reflection_stays_for_the_same_sources(memory):
    store(memory)
    made = run(memory).made[0]
    memory.update(made.id, content="Ana likes tea", user_id="ana")
    assert counts(run(memory)) == (0, 0, 0, 1)
    assert memory.get(made.id, user_id="ana").content == "Ana likes tea"
    store(memory, [MORE])
    assert run(memory).renewed[0].content != "Ana likes tea"


def test_two_groups_keep_their_own_reflections(memory):
    store(memory, (*TEA, *BOAT))
    tea, boat = run(memory).made
    store(memory, [MORE])
    assert [again.id for again in run(memory).renewed] == [tea.id]
    assert memory.get(boat.id, user_id="ana") == boat


def test_stale_leaves_out_reflections_that_are_changed_themselves(memory, clock):
    store(memory)
    made = run(memory).made[0]
    sources = [now(memory, source) for source in made.sources]
    assert [change.memory.id for change in stale(memory.services, sources, clock())] == [made.id]
    assert stale(memory.services, [*sources, made], clock()) == []
