"""Bad input: one class of the error tree, a message with field, value and remedy, and nothing half-written."""

from __future__ import annotations

import math
import re
from datetime import datetime

import numpy as np
import pytest

import salience
from salience import Draft, InputError, NotFoundError, ProfileError
from tests.contract.doubles import PlantedEmbedder


def nested(depth: int) -> list:
    return [nested(depth - 1)] if depth else []


BAD_DRAFTS = [
    ({"content": ""}, "content is empty"),
    ({"content": " \n\t"}, "content is empty"),
    ({"content": "x" * 65_537}, "content has 65,537 bytes"),
    ({"content": "é" * 32_769}, "content has 65,538 bytes"),
    ({"content": "a\0b"}, "content has a NUL byte"),
    ({"content": "a\ud800b"}, "content has a lone surrogate"),
    ({"content": b"bytes"}, "content has the type bytes"),
    ({"importance": 1.01}, "importance is 1.01"),
    ({"importance": -0.01}, "importance is -0.01"),
    ({"importance": math.nan}, "importance is nan"),
    ({"importance": "high"}, "importance is 'high'"),
    ({"importance": True}, "importance is True"),
    ({"weight": 0.0}, "weight is 0.0"),
    ({"weight": 1.5}, "weight is 1.5"),
    ({"weight": math.nan}, "weight is nan"),
    ({"ttl": 0}, "ttl is 0"),
    ({"ttl": -5}, "ttl is -5"),
    ({"ttl": math.nan}, "ttl is nan"),
    ({"ttl": math.inf}, "ttl is inf"),
    ({"ttl": "soon"}, "ttl is 'soon'"),
    ({"ttl": "9999999999d"}, "ttl is '9999999999d'"),
    ({"tier": "eternal"}, "tier 'eternal' is unknown"),
    ({"memory_type": "eternal"}, "tier 'eternal' is unknown"),
    ({"kind": ""}, "kind is empty"),
    ({"kind": "k" * 257}, "kind has 257 characters"),
    ({"tags": "ops"}, "tags has the type str"),
    ({"tags": ["ok", ""]}, r"tags\[1\] is empty"),
    ({"entities": [1]}, r"entities\[0\] has the type int"),
    ({"metadata": {"x": math.nan}}, "metadata.x has the type float"),
    ({"metadata": {"x": object()}}, "metadata.x has the type object"),
    ({"metadata": {"x": 2**70}}, "metadata.x has the type int"),
    ({"metadata": {"x": nested(40)}}, r"metadata.x(\[0\])+ is nested too deeply"),
    ({"importance": 10**5000}, "importance is a number of more than 120 digits"),
    ({"ttl": 10**5000}, "ttl is a number of more than 120 digits"),
    ({"created_at": "9999-12-31T23:59:59-01:00"}, "created_at is '9999-12-31T23:59:59-01:00'"),
    ({"metadata": ["x"]}, "metadata has the type list"),
    ({"created_at": 5}, "created_at is 5"),
    ({"created_at": "someday"}, "created_at is 'someday'"),
    ({"fact_key": " "}, "fact_key is empty"),
    ({"key": ""}, "key is empty"),
    ({"user_id": ""}, "user_id is empty"),
    ({"user_id": 7}, "user_id has the type int"),
    ({"user_id": "a\x1fb"}, "user_id has a control character"),
    ({"tags": ["two\nlines"]}, r"tags\[0\] has a control character"),
    ({"user_id": salience.ANY}, "user_id is salience.ANY"),
    ({"environment": None}, "environment has the type NoneType"),
    ({"scope": "project"}, "scope is 'project'"),
    ({"scope": "global", "project": "p"}, "scope is 'global'"),
    ({"scope": "galaxy"}, "scope 'galaxy' is unknown"),
    ({"user": "alice"}, "keyword 'user' is unknown"),
    ({"metadata": {str(key): key for key in range(10_000)}}, "metadata has 117,781 bytes"),
    ({"metadata": {"x": "y" * 65_536}}, "metadata has 65,544 bytes"),
    ({"tags": [f"tag{place}" for place in range(1001)]}, "tags has 1,001 names"),
    ({"tags": [f"{place:0250d}" for place in range(132)]}, "tags has 33,000 bytes"),
    ({"entities": [f"name{place}" for place in range(1001)]}, "entities has 1,001 names"),
    ({"entities": [f"{place:0250d}" for place in range(132)]}, "entities has 33,000 bytes"),
    *(({name: "*"}, rf"{name} is ('\*'|salience.ANY)") for name in ("environment", "user_id", "project", "agent_id")),
]


@pytest.mark.parametrize(("arguments", "message"), BAD_DRAFTS)
def test_remember_refuses_and_stores_nothing(planted, arguments, message):
    memory = planted()
    with pytest.raises(InputError, match=rf"^{message}.*\. [A-Z]") as caught:
        memory.remember(**{"content": "fine", **arguments})
    assert caught.value.remedy.endswith(".")
    assert memory.stats(user_id=salience.ANY, project=salience.ANY).memories == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"query": ""}, "query is empty"),
        ({"query": "x" * 4097}, "query has 4,097 characters"),
        ({"query": "a\udfffb"}, "query has a lone surrogate"),
        ({"limit": -1}, "limit is -1"),
        ({"limit": 1001}, "limit is 1001"),
        ({"limit": 2.5}, "limit is 2.5"),
        ({"limit": True}, "limit is True"),
        ({"min_score": math.nan}, "min_score is nan"),
        ({"min_score": -0.1}, "min_score is -0.1"),
        ({"profile": "best"}, "profile 'best' is unknown"),
        ({"tiers": ["eternal"]}, "tiers 'eternal' is unknown"),
        ({"tags": "ops"}, "tags has the type str"),
        ({"since": "2026-13-01"}, "since is '2026-13-01'"),
        ({"since": "2026-02-01T00:00+00:00", "until": "2026-01-01T00:00+00:00"}, "since 2026-02-01T00:00:00"),
        ({"now": "soon"}, "now is 'soon'"),
        ({"deadline_ms": -1}, "deadline_ms is -1"),
        ({"weights": {"cosine": 1.0}}, "weights 'cosine' is unknown"),
        ({"weights": {"similarity": math.nan}}, "weights.similarity is nan"),
        ({"scope": "galaxy"}, "scope 'galaxy' is unknown"),
        *(({name: "*"}, rf"{name} is '\*'") for name in ("environment", "user_id", "project", "agent_id")),
        ({"environment": ""}, "environment is empty"),
    ],
)
def test_recall_refuses(planted, arguments, message):
    with pytest.raises(InputError, match=rf"^{message}.*\. [A-Z]"):
        planted().recall(**{"query": "query", **arguments})


RANKING = {
    **dict.fromkeys(("recall", "graph_recall", "context"), ("query",)),
    "recall_many": (["query"],),
    "explain": ("query", "0" * 32),
}
"""Arguments of each verb that ranks."""


@pytest.mark.parametrize("profile", [0, 1, [], {}, False, "a\0.toml"])
def test_a_profile_of_another_type_is_refused(planted, profile):
    with pytest.raises(InputError, match=r"^profile (has the type|.* cannot be read)"):
        planted().recall("query", profile=profile)


@pytest.mark.parametrize("weights", ["x", 0, [], ["similarity"], {"similarity": "a"}, {"similarity": None}])
def test_weights_of_another_type_are_refused(planted, weights):
    with pytest.raises(InputError, match=r"^weights"):
        planted().recall("query", weights=weights)


def test_every_ranking_verb_checks_its_profile_and_weights(planted):
    memory = planted()
    for verb, arguments in RANKING.items():
        with pytest.raises(InputError, match=r"^profile has the type"):
            getattr(memory, verb)(*arguments, profile=0)
    for verb in ("recall", "recall_many", "explain"):
        with pytest.raises(InputError, match=r"^weights"):
            getattr(memory, verb)(*RANKING[verb], weights=0)


@pytest.mark.parametrize("cursor", ["nonsense", "0" * 31, "0" * 33, "G" * 32, "'; --"])
def test_a_cursor_that_no_page_has_is_refused(planted, cursor):
    memory = planted()
    memory.remember("text")
    with pytest.raises(InputError, match=r"^cursor "):
        memory.list(cursor=cursor)
    assert memory.list(cursor="0" * 32).memories == memory.list().memories


def test_an_unknown_profile_lists_the_known_ones(planted):
    with pytest.raises(ProfileError, match="salience, precise, mememory, memlayer, zeromemory, memorysync, cmm"):
        planted().recall("query", profile="best")
    with pytest.raises(ProfileError, match="mememory"):
        planted(profile="best")


@pytest.mark.parametrize(
    ("value", "problem"),
    [(None, "is missing"), ("", "is empty"), (5000, "is 5000"), ("foo", "is 'foo'"), (10**200, "is a number of more")],
)
def test_an_error_says_what_is_wrong_then_what_to_do(value, problem):
    error = InputError("limit", value, "Give a whole number.")
    assert error.problem.startswith(problem)
    assert str(error) == f"limit {error.problem}. Give a whole number."
    assert str(error.at("drafts[3].limit")) == f"drafts[3].limit {error.problem}. Give a whole number."
    assert len(str(InputError("limit", "x" * 10_000, "Give less."))) < 200
    assert str(InputError("limit", 3, "Give less.", "is too much")) == "limit is too much. Give less."


@pytest.mark.parametrize("verb", ["get", "forget", "update", "supersede"])
def test_not_there_and_not_yours_look_the_same(planted, verb):
    memory = planted()
    hidden = memory.remember("bob's", user_id="bob").memory.id
    absent = "0" * 32
    messages = []
    for id in (hidden, absent, "nonsense"):
        calls = {
            "get": lambda id=id: memory.get(id, user_id="alice"),
            "forget": lambda id=id: memory.forget(id, user_id="alice"),
            "update": lambda id=id: memory.update(id, weight=0.5, user_id="alice"),
            "supersede": lambda id=id: memory.remember("new", supersedes=id, user_id="alice"),
        }
        with pytest.raises(NotFoundError) as caught:
            calls[verb]()
        messages.append(str(caught.value).replace(id, "ID"))
    assert len(set(messages)) == 1
    assert messages[0].startswith("supersedes: " if verb == "supersede" else "id: ")
    assert memory.get(hidden, user_id="bob").version == 1


@pytest.mark.parametrize("verb", ["list", "facets", "decay"])
def test_a_condition_on_ids_refuses_a_text_that_no_id_can_be(planted, verb):
    memory = planted()
    for wrong in ("nope", "0" * 31, "A" * 32):
        with pytest.raises(InputError, match=f"ids has '{wrong}', which is no id. Give the whole id of a memory"):
            getattr(memory, verb)(ids=["0" * 32, wrong])
    getattr(memory, verb)(ids=["0" * 32, "0" * 8])  # of no memory, which is no error


def test_a_call_with_wrong_arguments_names_the_verb_and_its_help(planted):
    memory = planted()
    for call in (lambda: memory.recall("tea", "alice"), lambda: memory.recall(), lambda: memory.recall("x", query="y")):
        with pytest.raises(TypeError, match=r"^recall\(\): .* See help\(salience\.Verbs\.recall\)\.$"):
            call()


@pytest.mark.parametrize("verb", ["list", "facets"])
def test_linked_to_refuses_a_short_id_which_no_relation_has(planted, verb):
    memory = planted()
    with pytest.raises(InputError, match="linked_to has '00000000', which is no whole id"):
        getattr(memory, verb)(linked_to=["0" * 8])
    getattr(memory, verb)(linked_to=["0" * 32])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({}, "update names nothing to change"),
        ({"content": " "}, "content is empty"),
        ({"content": "x" * 65_537}, "content has 65,537 bytes"),
        ({"importance": 2}, "importance is 2"),
        ({"ttl": -1}, "ttl is -1"),
        ({"tier": "eternal"}, "tier 'eternal' is unknown"),
        ({"metadata": {"x": "y" * 65_536}}, "metadata has 65,544 bytes"),
        ({"tags": [f"tag{place}" for place in range(1001)]}, "tags has 1,001 names"),
        ({"entities": [f"{place:0250d}" for place in range(132)]}, "entities has 33,000 bytes"),
    ],
)
def test_update_refuses_and_changes_nothing(planted, changes, message):
    memory = planted()
    stored = memory.remember("text").memory
    with pytest.raises(InputError, match=rf"^{message}\. [A-Z]"):
        memory.update(stored.id, **changes)
    assert memory.get(stored.id) == stored


@pytest.mark.parametrize(
    ("drafts", "message"),
    [
        (["text"], r"drafts\[0\].draft has the type str"),
        ([{"content": "good"}, {"content": "x", "colour": 1}], r"drafts\[1\].colour is an unknown field"),
        ([Draft(content="good"), {"content": " "}], r"drafts\[1\].content is empty"),
        ([{"content": "x", "metadata": {"x": "y" * 65_536}}], r"drafts\[0\].metadata has 65,544 bytes"),
    ],
)
def test_remember_many_refuses_by_place(planted, drafts, message):
    memory = planted()
    with pytest.raises(InputError, match=rf"^{message}\. [A-Z]"):
        memory.remember_many(drafts)
    assert memory.stats().memories == 0


def test_one_bad_draft_in_a_batch_stores_none(planted):
    memory = planted()
    hidden = memory.remember("hidden", user_id="bob").memory.id
    with pytest.raises(NotFoundError):
        memory.remember_many([Draft(content="good"), Draft(content="bad", supersedes=hidden)])
    with pytest.raises(InputError, match=r"^messages\[1\].content is empty"):
        memory.ingest([{"role": "user", "content": "good"}, {"role": "user", "content": ""}], session_id="s")
    assert memory.stats().memories == 0


@pytest.mark.parametrize(
    ("messages", "session", "message"),
    [
        ([{"content": "x"}], None, "session_id is missing"),
        ([{"speaker": "", "content": "x"}], "s", r"messages\[0\].speaker is empty"),
        ([{"content": "x", "timestamp": "noon"}], "s", r"messages\[0\].timestamp is 'noon'"),
        ([{"role": "user"}], "s", r"messages\[0\].content is empty"),
        (["text"], "s", r"messages\[0\] has the type str"),
        ("text", "s", "messages has the type str"),
        ({"content": "x"}, "s", "messages has the type dict"),
        ([{"role": "user", "content": {"text": "x"}}], "s", r"messages\[0\].content has the type dict"),
        (
            [{"content": "x", "metadata": {"x": "y" * 65_536}}],
            "s",
            r"messages\[0\].metadata has 65,544 bytes",
        ),
    ],
)
def test_ingest_refuses(planted, messages, session, message):
    memory = planted()
    with pytest.raises(InputError, match=rf"^{message}\. [A-Z]"):
        memory.ingest(messages, session_id=session)
    assert memory.stats().memories == 0


class Nonsense(PlantedEmbedder):
    """An embedder that returns `answer`."""

    answer: object = None

    def embed(self, texts, /):
        return self.answer


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (np.zeros((1, 3)), r"shape \(1, 3\)"),
        (np.full((1, 64), np.nan), "NaN or infinity"),
        (np.full((1, 64), np.inf), "NaN or infinity"),
        (np.zeros((1, 64)), "a vector of zeros"),
        (np.ones((2, 64)), r"shape \(2, 64\)"),
        ([[1.0], [1.0, 2.0]], "failed with ValueError"),
        ("vectors", "failed with ValueError"),
        (None, "shape"),
    ],
)
def test_an_embedders_nonsense_is_kept_out_and_its_memory_kept(target, answer, message):
    embedder = Nonsense()
    with salience.connect(target, embedder=embedder) as memory:
        embedder.answer = np.eye(1, 64)
        memory.remember("the vault key")
        embedder.answer = answer
        receipt = memory.remember("the vault door")
        assert receipt.status == "pending"
        assert re.search(message, receipt.warning)
        answered = memory.recall("vault door")
        assert answered.degraded == ("embedding",)
        assert [hit.memory.content for hit in answered] == ["the vault door", "the vault key"]


class Failing(PlantedEmbedder):
    """An embedder whose own error quotes the text."""

    def embed(self, texts, /):
        raise ConnectionError(f"could not send {texts}")


def test_an_embedders_own_error_is_of_our_tree_and_quotes_nothing(target):
    text = "the launch code is 0000"
    with salience.connect(target, embedder=Failing()) as memory:
        receipt = memory.remember(text)
        assert receipt.status == "pending"
        assert "'planted' failed with ConnectionError" in receipt.warning
        assert text not in receipt.warning
        found = memory.recall("launch code", deadline_ms=1000)
        assert found.degraded == ("embedding",)
        assert [hit.memory.content for hit in found] == [text]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"embedder": "best"}, "embedder 'best' is unknown"),
        ({"embedder": object()}, "embedder"),
        ({"target": "mysql://bob:s3cret@host/db"}, r"target is 'mysql://\.\.\.'"),
        ({"target": "sqlite://x.db"}, r"target is 'sqlite://\.\.\.'"),
        ({"target": ""}, "target is empty"),
        ({"target": "a\0b"}, "target is "),
        ({"target": 5}, "target has the type int"),
        ({"target": b"bytes"}, "target has the type bytes"),
        ({"target": ":memory:", "api_key": "sk-secret"}, r"api_key is not for a local store"),
    ],
)
def test_connect_refuses(arguments, message):
    with pytest.raises(InputError, match=rf"^{message}"):
        salience.connect(**{"target": ":memory:", **arguments})


def test_a_clock_without_a_zone_is_refused_before_anything_is_stored(target):
    memory = salience.connect(target, embedder=PlantedEmbedder(), clock=lambda: datetime(2026, 1, 1))  # noqa: DTZ001
    with memory, pytest.raises(InputError, match=r"^clock 2026-01-01T00:00:00 has no time zone"):
        memory.remember("text")


def test_numbers_of_numpy_are_numbers(planted):
    memory = planted({"text": 0.9})
    memory.remember("text", importance=np.float32(0.5), weight=np.float64(0.5))
    assert len(memory.recall("query", limit=np.int64(3))) == 1


def test_an_error_never_shows_the_content(planted):
    memory = planted()
    secret = "the launch code is 0000"
    for content in (secret + "\0", secret * 4000, secret + "\ud800"):
        with pytest.raises(InputError) as caught:
            memory.remember(content)
        assert "launch" not in str(caught.value)


def test_a_memory_over_the_limits_of_today_is_read_exported_and_changed(tmp_path, monkeypatch):
    monkeypatch.setattr("salience.records.checks.METADATA_LIMIT", 10**6)
    monkeypatch.setattr("salience.records.checks.LABELS_LIMIT", 10**6)
    large = {"metadata": {"x": "y" * 70_000}, "tags": [f"t{place}" for place in range(1100)], "entities": ["Ann"] * 2}
    with salience.connect(tmp_path / "agent.db", embedder=PlantedEmbedder()) as memory:
        stored = memory.remember("text", **large).memory
    monkeypatch.undo()
    with salience.connect(tmp_path / "agent.db", embedder=PlantedEmbedder()) as memory:
        assert memory.recall("text", min_score=0.0)[0].memory.metadata == {"x": "y" * 70_000}
        assert memory.export(tmp_path / "all.ndjson").written == 1
        changed = memory.update(stored.id, importance=0.9).memory
        assert (changed.tags, changed.metadata, changed.entities) == (stored.tags, stored.metadata, stored.entities)


def test_entities_that_are_read_from_a_text_keep_within_the_limits(planted):
    memory = planted()
    text = ". ".join(f"We met Name{chr(97 + place % 26)}{'x' * (place // 26)} in town" for place in range(1300))
    found = memory.remember(text).memory.entities
    assert 500 < len(found) <= 1000
    assert sum(map(len, found)) <= 32_768
