"""One batch ranked under every profile gives what `Engine.recall` gives under each."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
from formats import LOCOMO, both_locomo, precisionmembench, written

import salience
from salience.evaluate import sample
from salience.evaluate.datasets import Question, conversations
from salience.evaluate.run import Terms, ask, contenders, gathered, narrowed, union
from salience.evaluate.stores import ConversationStore, opened
from salience.rank import profiles
from salience.records import Scope
from tests.contract.doubles import PlantedEmbedder
from tests.contract.memories import need

NOW = datetime(2026, 5, 1, tzinfo=UTC)


@pytest.fixture(scope="module")
def store():
    """The sample in a store: scopes, facts, supersession, expiry, near-duplicates, recalls."""
    with salience.connect(":memory:", clock=sample.now) as engine:
        refs = {id: ref for ref, id in sample.store(engine).items()}
        yield ConversationStore("sample", engine, engine.services, refs, {}, sample.now())


@pytest.mark.parametrize(("limit", "min_score"), [(1, None), (3, 0.2), (10, None)])
def test_all_profiles_return_what_a_recall_under_each_returns(store, limit, min_score):
    everyone = {name: profiles.load(name) for name in profiles.NAMES}
    returned = 0
    for arguments in sample.questions():
        question = Question(arguments.question, "", "", (), scope=arguments.scope)
        answers = ask(store, question, Terms(everyone, limit, min_score))
        for name in profiles.NAMES:
            recalled = store.engine.recall(
                arguments.question,
                profile=name,
                limit=limit,
                min_score=min_score,
                dry_run=True,
                **{key: value for key, value in arguments.scope.as_dict().items() if key != "tenant"},
            )
            assert answers[name][0] == tuple(hit.memory.id for hit in recalled), (name, arguments.question)
            returned += len(recalled)
    assert returned > 50 * limit * (0.5 if min_score is None else 0.2)


def test_a_profile_of_candidates_ranks_only_these(store):
    terms = Terms({"mememory": profiles.load("mememory"), "cmm": profiles.load("cmm")}, 5)
    found = gathered(store, Question("What does Elena play?", "", "", (), scope=Scope(user_id="elena")), terms)
    one = found["mememory"]
    assert len(one.batch) > 15
    assert len(narrowed(one.batch, 15)) == 15
    assert not narrowed(one.batch, 15).complete
    assert narrowed(found["cmm"].batch, None) is found["cmm"].batch


def test_the_store_is_read_once_for_all_that_embed_the_same_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (held,) = conversations(written(tmp_path / "a.json", LOCOMO))
    embedder = PlantedEmbedder()
    terms = Terms({**contenders(["mememory", "memorysync", "cmm", "bm25", "cosine"])}, 5)
    with opened(held, embedder, None) as store:
        calls = []
        gather = type(store.services.store).gather
        monkeypatch.setattr(
            type(store.services.store), "gather", lambda self, need: calls.append(need) or gather(self, need)
        )
        embedder.texts.clear()
        answers = ask(store, held.questions[0], terms)
    assert len(calls) == 1
    assert embedder.texts == [held.questions[0].question]
    assert set(answers) == set(terms.contenders)
    for answer in answers.values():
        assert set(answer[1]) == {"need", "embed", "gather", "rank"}
        assert all(lap >= 0 for lap in answer[1].values())


def test_a_union_holds_what_any_need_asks_for_and_all_memories():
    one = need(Scope(), columns=frozenset({"cosine"}), candidates=15, entities=True, names=("ana",))
    other = need(Scope(), columns=frozenset({"weight"}), terms=("kite",), vectors=True)
    both = union([one, other])
    assert both.columns == {"cosine", "weight"}
    assert (both.terms, both.names, both.parts) == (("kite",), ("ana",), {"entities", "vectors"})
    assert both.candidates is None


def test_planted_turns_are_known_by_their_refs_and_sessions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    first, _ = conversations(both_locomo(tmp_path))
    (tmp_path / "stores").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "stores"))
    with opened(first, PlantedEmbedder(), None) as store:
        assert set(store.refs.values()) == {"D1:1", "D1:2", "D1:3", "D2:1", "D2:2"}
        assert set(store.sessions.values()) == {"kites/session_1", "kites/session_2"}
        assert store.end == datetime(2023, 6, 1, 9, 0, 2, tzinfo=UTC)
        (memory,) = (m for m in store.engine.list().memories if store.refs[m.id] == "D2:1")
        assert (memory.content, memory.speaker, memory.scope.session_id) == (
            "The brown goat is called Hazel.",
            "Bo",
            "kites/session_2",
        )
        assert len(list((tmp_path / "stores").iterdir())) == 1
    assert list((tmp_path / "stores").iterdir()) == []


def test_planted_beliefs_supersede_and_live_in_their_scopes(tmp_path: Path):
    (held,) = conversations(precisionmembench(tmp_path))
    with opened(held, PlantedEmbedder(), None) as store:
        ids = {ref: id for id, ref in store.refs.items()}
        new = store.engine.get(ids["new-editor"], user_id="test-user", project="domain:code")
        assert new.supersedes == ids["old-editor"]
        assert store.engine.get(ids["short"], user_id="test-user").content == "Prefers short answers."


def test_bm25_returns_only_what_holds_a_term(tmp_path: Path):
    (held,) = conversations(written(tmp_path / "a.json", LOCOMO))
    with opened(held, PlantedEmbedder(), None) as store:
        answers = ask(store, Question("goats", "", "", ()), Terms(contenders(["bm25", "cosine"]), 20))
        assert {store.refs[id] for id in answers["bm25"][0]} == {"D1:2", "D2:1"}
        assert len(answers["cosine"][0]) == 5


def test_vectors_of_the_query_are_made_anew_and_those_of_memories_kept(tmp_path: Path):
    (held,) = conversations(written(tmp_path / "a.json", LOCOMO))
    embedder = PlantedEmbedder()
    for _ in range(2):
        with opened(held, embedder, tmp_path / "vectors") as store:
            ask(store, Question("goats", "", "", ()), Terms(contenders(["cosine"]), 20))
    assert embedder.texts.count("The brown goat is called Hazel.") == 1
    assert embedder.texts.count("goats") == 2
    assert np.load(next((tmp_path / "vectors").glob("*.npz")))["arr_0"].shape[1] == 64
