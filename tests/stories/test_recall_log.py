"""The recall log: what is kept of a question, for how long, who sees it, and how it is deleted."""

from __future__ import annotations

import io
import json
import logging
from datetime import timedelta
from pathlib import Path

import pytest

import salience
from salience import ANY, InputError
from salience.compose import copy as copy_store
from salience.engine import warm
from salience.errors import ForbiddenError
from salience.records import Erased, Grant, Scope
from salience.verbs import VERBS
from tests.contract.doubles import PlantedEmbedder

COSINES = {"tea is green": 0.9, "coffee is black": 0.5}


@pytest.fixture
def memory(planted, monkeypatch):
    monkeypatch.setenv("SALIENCE_RECALL_LOG", "30d")
    made = planted(COSINES)
    for text in COSINES:
        made.remember(text, user_id="alice", tags=["drink"])
    return made


def gate_of(engines):
    return pytest.importorskip("salience.server.gate", exc_type=ImportError).Gate(engines)


def questions(memory, **where):
    return [entry.question for entry in memory.recalls(**where).recalls]


@pytest.mark.every_store
def test_the_log_is_off_by_default(planted):
    memory = planted(COSINES)
    memory.remember("tea is green")
    assert memory.recall("query")
    assert memory.recalls(user_id=ANY) == salience.records.RecallLogPage(())
    assert memory.services.store.recalls(Scope(user_id=ANY), memory.services.clock()) == []


@pytest.mark.every_surface
def test_an_entry_has_the_question_and_a_trace_of_the_answer(memory, clock):
    asked = {"limit": 5, "tags": ["drink"], "since": "2020-01-01T00:00:00Z", "min_score": 0.0}
    answer = memory.recall("query", user_id="alice", session_id="monday", **asked)
    (entry,) = memory.recalls(user_id="alice").recalls
    assert (entry.question, entry.profile, entry.limit, entry.min_score) == ("query", "salience", 5, 0.0)
    assert entry.scope.as_dict() == {"environment": "default", "user_id": "alice", "session_id": "monday"}
    assert entry.filter == {"tags": ("drink",), "since": "2020-01-01T00:00:00+00:00"}
    assert (entry.at, entry.expires_at, entry.now, entry.as_of) == (clock(), clock() + timedelta(days=30), None, None)
    assert (entry.count, entry.confident) == (len(answer), answer.confident)
    found = [(hit.memory.id, hit.score, hit.confidence, hit.score_detail) for hit in answer]
    assert [(hit.id, hit.score, hit.confidence, hit.score_detail) for hit in entry.hits] == found
    assert len(found) == 2
    assert entry.timings.keys() >= {"embed", "gather", "rank", "fetch"}
    assert "tea is green" not in repr(entry)


@pytest.mark.every_surface
def test_every_verb_that_recalls_is_logged_and_dry_runs_are_not(memory, clock):
    then = clock()
    clock.advance(hours=1)
    memory.recall("one", user_id="alice")
    memory.recall_many(["two", "three"], user_id="alice")
    memory.graph_recall("four", user_id="alice")
    packed = memory.context("query", user_id="alice")
    memory.recall("six", user_id="alice", as_of=then)
    memory.recall("a dry run", user_id="alice", dry_run=True)
    memory.context("a dry run", user_id="alice", dry_run=True)
    memory.explain("explained", packed.hits[0].memory.id, user_id="alice")
    log = memory.recalls(user_id="alice").recalls
    assert [entry.question for entry in log] == ["six", "query", "four", "three", "two", "one"]
    assert [entry.as_of for entry in log[:2]] == [then, None]
    assert packed.hits
    assert [hit.id for hit in log[1].hits] == [hit.memory.id for hit in packed.hits]


@pytest.mark.every_surface
def test_the_log_is_read_page_by_page_and_searched(memory):
    for text in ("Which tea?", "Which milk?", "Is it TEA?"):
        memory.recall(text, user_id="alice", session_id=text[:2])
    page = memory.recalls(user_id="alice", limit=2)
    assert [entry.question for entry in page.recalls] == ["Is it TEA?", "Which milk?"]
    rest = memory.recalls(user_id="alice", limit=2, cursor=page.cursor)
    assert ([entry.question for entry in rest.recalls], rest.cursor) == (["Which tea?"], None)
    assert questions(memory, query="tea", user_id="alice") == ["Is it TEA?", "Which tea?"]
    assert questions(memory, session_id="Is", user_id="alice") == ["Is it TEA?"]
    assert memory.recalls(id=rest.recalls[0].id, user_id="alice").recalls == rest.recalls
    for wrong in ({"cursor": "x"}, {"limit": 0}, {"query": ""}, {"memory_id": "x"}):
        with pytest.raises(InputError):
            memory.recalls(**wrong)


def test_an_entry_has_at_most_twenty_hits(planted, monkeypatch):
    monkeypatch.setenv("SALIENCE_RECALL_LOG", "1h")
    memory = planted({f"fact {number}": 0.9 for number in range(30)}, axes={f"fact {n}": n + 1 for n in range(30)})
    memory.remember_many([{"content": f"fact {number}"} for number in range(30)])
    answer = memory.recall("query", limit=30, min_score=0, profile="cmm")
    (entry,) = memory.recalls().recalls
    assert (entry.count, len(answer)) == (30, 30)
    assert [hit.id for hit in entry.hits] == [hit.memory.id for hit in answer[:20]]


def test_an_answer_of_the_server_has_a_size(memory):
    memory.recall("a long question " * 100, user_id="alice")
    with pytest.raises(salience.errors.LimitError):
        memory.of("default", answer_limit=2000).recalls(user_id="alice")


def test_loading_the_model_is_not_logged(memory):
    warm(memory)
    assert questions(memory, environment=ANY, project=ANY, user_id=ANY, agent_id=ANY) == []


@pytest.mark.every_store
def test_upkeep_deletes_expired_entries_whatever_the_setting_says_now(memory, clock, connect, target, monkeypatch):
    memory.recall("early", user_id="alice")
    clock.advance(days=29)
    memory.recall("late", user_id="alice")
    clock.advance(days=1)
    assert questions(memory, user_id="alice") == ["late"]
    monkeypatch.delenv("SALIENCE_RECALL_LOG")
    other = connect(target, embedder=PlantedEmbedder(COSINES), clock=clock)
    other.upkeep(dry_run=True)
    assert len(memory.services.store.recalls(Scope(user_id=ANY), clock() - timedelta(days=30))) == 2
    other.upkeep()
    assert [
        one.question for one in memory.services.store.recalls(Scope(user_id=ANY), clock() - timedelta(days=30))
    ] == ["late"]


@pytest.mark.every_surface
def test_erasing_a_user_deletes_the_users_entries(memory):
    memory.recall("of alice", user_id="alice")
    memory.recall("of alice in a project", user_id="alice", project="p")
    memory.recall("of anybody", user_id=ANY)
    memory.recall("nothing found", user_id="bob")
    found = memory.erase(user_id="alice", dry_run=True)
    assert (found, found.recalls) == (2, 3)
    assert len(memory.recalls(project=ANY, user_id=ANY).recalls) == 4
    done = memory.erase(user_id="alice")
    assert (done, done.recalls) == (2, 3)
    assert questions(memory, project=ANY, user_id=ANY) == ["nothing found"]
    done = memory.erase(user_id="bob")
    assert (done, done.recalls, questions(memory, user_id=ANY)) == (0, 1, [])


@pytest.mark.parametrize(
    ("where", "erased", "left"),
    [
        ({"scope": "project"}, 1, ["of bob in p", "in every project", "global"]),
        ({"scope": "project", "project": ANY}, 1, ["of bob in p", "in every project", "global"]),
        ({"scope": "project", "project": "q"}, 0, ["of bob in p", "in every project", "in p", "global"]),
        ({"scope": "global"}, 1, ["of bob in p", "in every project", "in q", "in p"]),
        ({"scope": "global", "project": "p"}, 0, ["of bob in p", "in every project", "in q", "in p", "global"]),
        ({"project": "p"}, 1, ["of bob in p", "in every project", "in q", "global"]),
    ],
)
@pytest.mark.every_surface
def test_erasing_a_scope_level_deletes_the_entries_of_the_level_alone(planted, monkeypatch, where, erased, left):
    monkeypatch.setenv("SALIENCE_RECALL_LOG", "30d")
    memory = planted(COSINES)
    memory.remember("tea is green", user_id="alice")
    memory.remember("coffee is black", user_id="alice", project="p")
    scopes = {
        "global": {}, "in p": {"project": "p"}, "in q": {"project": "q"}, "in every project": {"project": ANY},
        "of bob in p": {"user_id": "bob", "project": "p"},
    }  # fmt: skip
    for question, given in scopes.items():
        memory.recall(question, **{"user_id": "alice", "limit": 0, **given})
    dry = memory.erase(user_id="alice", dry_run=True, **where)
    done = memory.erase(user_id="alice", **where)
    assert (done, done.recalls) == (dry, dry.recalls) == (erased, 5 - len(left))
    assert questions(memory, project=ANY, user_id=ANY) == left


@pytest.mark.every_surface
def test_erasing_a_memory_deletes_the_entries_that_cite_it(memory):
    memory.recall("both", user_id="alice", min_score=0)
    (only,) = memory.recall("one", user_id="alice", min_score=0, limit=1)
    memory.recall("none", user_id="bob")
    assert questions(memory, memory_id=only.memory.id, user_id="alice") == ["one", "both"]
    assert questions(memory, memory_id=only.memory.short_id, query="bo", user_id="alice") == ["both"]
    assert questions(memory, memory_id=only.memory.id, user_id="bob") == []
    (other,) = {hit.memory.id for hit in memory.recall("again", user_id="alice", min_score=0)} - {only.memory.id}
    done = memory.erase([other], user_id="alice")
    assert (done, done.recalls) == (1, 2)
    assert questions(memory, user_id=ANY) == ["none", "one"]


def test_erased_questions_are_not_in_the_file(memory, target):
    memory.recall("XQUESTIONX", user_id="bob")
    assert questions(memory, user_id="bob") == ["XQUESTIONX"]
    memory.erase(user_id="bob")
    folder = Path(target).parent
    assert not [path.name for path in folder.iterdir() if b"XQUESTIONX" in path.read_bytes()]


@pytest.mark.every_store
def test_a_bound_key_sees_its_own_entries_alone(memory):
    """Two users of each of two tenants, and recalls that name no user or any."""
    engines = {tenant: memory.of(tenant) for tenant in ("acme", "other")}
    for tenant, engine in engines.items():
        for user in ("alice", "bob", None, ANY):
            engine.recall(f"{user} of {tenant}", user_id=user)
        engine.recall(f"alice of {tenant} in p", user_id="alice", project="p")
    gate, everything = gate_of(memory), {"environment": "*", "project": "*", "user_id": "*", "agent_id": "*"}

    def seen(tenant, bound, **given):
        grant = Grant(tenant=tenant, rights=("read",), bound=bound, name="somebody")
        asked = VERBS["recalls"].request.model_validate(given)
        return sorted(entry.question for entry in gate.answer(grant, VERBS["recalls"], asked).recalls)

    for tenant in engines:
        assert seen(tenant, {"user_id": "alice"}) == [f"alice of {tenant}"]
        assert seen(tenant, {"user_id": "alice"}, **everything) == [f"alice of {tenant}", f"alice of {tenant} in p"]
        assert seen(tenant, {"user_id": "bob"}, **everything) == [f"bob of {tenant}"]
        assert seen(tenant, {"project": "p"}, **everything) == [f"alice of {tenant} in p"]
        assert seen(tenant, {}) == [f"None of {tenant}"]
        assert len(seen(tenant, {}, **everything)) == 5
        with pytest.raises(ForbiddenError):
            seen(tenant, {"user_id": "alice"}, user_id="bob")
    mine, theirs = (engines[tenant].recalls(user_id="alice").recalls[0].id for tenant in ("acme", "other"))
    assert seen("acme", {}, id=theirs, **everything) == []
    assert seen("acme", {"user_id": "bob"}, id=mine, **everything) == []


@pytest.mark.every_store
def test_recalls_of_read_only_callers_are_logged_and_change_no_counter(memory):
    gate, grant = gate_of(memory), Grant(tenant="default", rights=("read",), name="somebody")
    for verb, given in (
        ("recall", {"query": "asked"}),
        ("recall_many", {"queries": ["one", "two"]}),
        ("graph_recall", {"query": "by the graph"}),
        ("context", {"query": "query"}),
        ("recall", {"query": "a dry run", "dry_run": True}),
    ):
        request = VERBS[verb].request.model_validate({**given, "user_id": "alice"})
        gate.answer(grant, VERBS[verb], request)
    (entry, *_) = log = memory.recalls(user_id="alice").recalls
    assert [one.question for one in log] == ["query", "by the graph", "two", "one", "asked"]
    assert entry.hits
    assert [one.access_count for one in memory.list(user_id="alice").memories] == [0, 0]
    memory.recall("query", user_id="alice")
    assert {one.access_count for one in memory.list(user_id="alice").memories} == {1}


def test_no_log_line_has_a_question(memory, caplog):
    with caplog.at_level(logging.DEBUG):
        memory.recall("XQUESTIONX", user_id="alice")
        memory.recalls(user_id="alice")
        memory.upkeep()
    assert "XQUESTIONX" not in caplog.text


def test_exports_and_copies_have_no_questions_and_backups_have(memory, tmp_path, target):
    memory.recall("XQUESTIONX", user_id="alice")
    exported = io.StringIO()
    memory.export(exported)
    memory.backup(tmp_path / "backup.db")
    copied = tmp_path / "copied.db"
    copy_store(target, str(copied))
    assert "XQUESTIONX" not in exported.getvalue()
    assert b"XQUESTIONX" not in copied.read_bytes()
    assert b"XQUESTIONX" in (tmp_path / "backup.db").read_bytes()


@pytest.mark.parametrize(
    ("given", "kept"),
    [("30d", timedelta(days=30)), ("2w", timedelta(weeks=2)), ("off", None), (3600, timedelta(hours=1))],
)
def test_the_setting_is_a_length_of_time_or_off(given, kept):
    assert salience.settings.load(recall_log=given).recall_log == kept


@pytest.mark.parametrize("given", ["forever", "soon", "", -1, True])
def test_the_log_is_not_kept_forever(given):
    with pytest.raises(InputError, match=r"30d.*or 'off'"):
        salience.settings.load(recall_log=given)


def test_the_effective_setting_is_shown():
    (shown,) = [one.value for one in salience.settings.effective() if one.name == "recall_log"]
    (given,) = [one.value for one in salience.settings.effective(recall_log="30d") if one.name == "recall_log"]
    assert (shown, given) == ("off", "30d")


def test_erased_is_a_number():
    assert (Erased(3, 2) + 1, json.dumps(Erased(3, 2)), f"{Erased(3, 2):,}") == (4, "3", "3")
