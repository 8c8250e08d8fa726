"""Who sees what: what a caller may not see has no part in any answer of theirs."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest

import salience
from salience import ANY, NotFoundError
from salience.engine import Engine
from salience.records import Scope
from tests.contract.doubles import PlantedEmbedder

EVERYWHERE = {"environment": ANY, "project": ANY, "user_id": ANY, "agent_id": ANY}
COSINES = {"ours: vault key": 0.9, "theirs: the vault key": 0.89}
OURS, THEIRS = COSINES


@pytest.fixture(params=["one file", "one store"])
def tenants(request, tmp_path, monkeypatch, clock):
    """Return two engines of different tenants that share what memories are kept in."""
    embedder = PlantedEmbedder(COSINES, axes=dict.fromkeys(COSINES, 1))
    engines = []
    for tenant in ("ours", "theirs"):
        monkeypatch.setenv("SALIENCE_TENANT", tenant)
        if request.param == "one file":
            engines.append(salience.connect(tmp_path / "shared.db", embedder=embedder, clock=clock))
        else:
            first = (
                engines[0].services
                if engines
                else salience.connect(":memory:", embedder=embedder, clock=clock).services
            )
            engines.append(Engine(replace(first, tenant=tenant)))
    assert [engine.services.tenant for engine in engines] == ["ours", "theirs"]
    yield engines
    for engine in engines:
        engine.close()


@pytest.mark.parametrize("where", [{}, EVERYWHERE], ids=["by default", "everywhere"])
def test_two_tenants_see_nothing_of_each_other(tenants, where):
    ours, theirs = tenants
    stored = ours.remember(OURS, entities=["Atlas"], kind="bootstrap", tier="working", session_id="s").memory
    written = io.StringIO()
    assert len(theirs.recall("query vault key", dry_run=True, **where)) == 0
    assert len(theirs.graph_recall("query Atlas", dry_run=True, **where)) == 0
    assert theirs.context("query vault key", dry_run=True, **where).text == ""
    assert theirs.list(**where).memories == ()
    assert (theirs.stats(**where).memories, theirs.stats(**where).sessions) == (0, 0)
    assert theirs.export(written, **where).written == 0
    assert stored.id not in written.getvalue()
    assert theirs.end_session("s", **where).promoted == ()
    for verb in (theirs.get, theirs.forget, lambda id, **where: theirs.update(id, importance=0.1, **where)):
        for name in (stored.id, stored.short_id):
            with pytest.raises(NotFoundError):
                verb(name, **where)
    assert theirs.remember(THEIRS).contradictions == ()
    with pytest.raises(NotFoundError):
        theirs.remember("text", supersedes=stored.id)
    assert ours.get(stored.id) == stored
    assert [memory.content for memory in ours.list(**where).memories] == [OURS]
    assert [memory.content for memory in theirs.list(**where).memories] == [THEIRS]


def test_a_tenants_scores_are_those_of_a_store_of_its_own(tenants, clock):
    ours, theirs = tenants
    for engine, text in ((ours, OURS), (theirs, THEIRS)):
        engine.remember(text, entities=["Atlas"], fact_key="vault.key", key="one key")
        for number in range(3):
            engine.remember(f"vault {text} {number}", entities=[])
    with salience.connect(":memory:", embedder=ours.services.embedder, clock=clock) as alone:
        alone.remember(OURS, entities=["Atlas"], fact_key="vault.key", key="one key")
        for number in range(3):
            alone.remember(f"vault {OURS} {number}", entities=[])
        for profile in salience.rank.profiles.NAMES:
            found, expected = (
                [(hit.memory.content, hit.score) for hit in engine.recall("query vault Atlas", profile=profile)]
                for engine in (ours, alone)
            )
            assert found == expected


def test_the_same_id_in_two_tenants_is_two_memories(tenants):
    ours, theirs = tenants
    stored = ours.remember(OURS, key="key").memory
    written = io.StringIO()
    ours.export(written)
    assert theirs.import_(io.StringIO(written.getvalue())).written == 1
    assert theirs.get(stored.id).scope.tenant == "theirs"
    theirs.recall("query", profile="cmm", session_id="s")
    assert ours.recall("query", profile="cmm", session_id="s", dry_run=True)[0].score_detail.priming == 1.0
    theirs.update(stored.id, importance=0.9)
    theirs.forget(stored.id)
    assert ours.get(stored.id) == stored
    assert theirs.stats().memories == 0


@pytest.mark.parametrize("where", [{}, EVERYWHERE], ids=["by default", "everywhere"])
def test_a_scope_sees_no_other_tenant(where):
    assert Scope("ours", **where).sees(Scope("ours"))
    assert not Scope("ours", **where).sees(Scope("theirs"))


def test_turns_and_priming_of_a_session_belong_to_a_tenant(tenants):
    ours, theirs = tenants
    ours.remember(OURS)
    theirs.remember(THEIRS)
    theirs.ingest([{"role": "user", "content": "a turn"}], session_id="s")
    ours.recall("query", profile="cmm", session_id="s")
    theirs.recall("query", profile="cmm", session_id="s")
    hit = ours.recall("query", profile="cmm", session_id="s", dry_run=True)[0]
    assert hit.score_detail.priming == pytest.approx(1.3)
    assert ours.ingest([{"role": "user", "content": "a turn"}], session_id="s")[0].memory.turn == 2


@pytest.mark.parametrize("hidden", [{"project": "other"}, {"user_id": "bob"}, {"agent_id": "b"}, {"environment": "e"}])
def test_what_is_hidden_takes_no_place_among_the_candidates(planted, hidden):
    texts = {f"hidden {number}": 0.9 for number in range(20)}
    memory = planted({**texts, "seen": 0.1}, profile="mememory")
    for text in texts:
        memory.remember(text, **hidden)
    memory.remember("seen")
    assert [hit.memory.content for hit in memory.recall("query", limit=1)] == ["seen"]


def test_a_project_sees_its_own_and_the_general_memories(planted):
    memory = planted({"general": 0.9, "p": 0.8, "q": 0.7})
    memory.remember("general")
    for project in ("p", "q"):
        memory.remember(project, project=project)

    def seen(**where):
        return {hit.memory.content for hit in memory.recall("query", dry_run=True, **where)}

    assert seen() == {"general"}
    assert seen(project="p") == {"general", "p"}
    assert seen(project=ANY) == {"general", "p", "q"}


@pytest.mark.parametrize("profile", salience.rank.profiles.NAMES)
def test_a_session_hides_nothing_and_filters_on_request(planted, profile):
    memory = planted({"in s": 0.9, "in t": 0.8, "in none": 0.75}, profile=profile)
    memory.remember("in s", session_id="s")
    memory.remember("in t", session_id="t")
    memory.remember("in none")
    assert len(memory.recall("query", session_id="s", dry_run=True)) == 3
    filtered = memory.recall("query", session_id="s", sessions=["t"], dry_run=True)
    assert [hit.memory.content for hit in filtered] == ["in t"]
