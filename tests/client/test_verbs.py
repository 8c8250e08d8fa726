"""The verbs of a client are those of an engine: the same names, signatures and texts; and what is sent for each."""

from __future__ import annotations

import inspect
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from salience import ANY, Draft, InputError, NotFoundError, ProfileError, Scope
from salience.async_engine import AsyncEngine
from salience.client import AsyncClient, Client, calls
from salience.engine import Engine
from salience.rank import profiles
from salience.records import UNSET
from salience.verbs import ALL, VERBS

OWN = {"of"}
"""Methods of an engine that are no verbs: the tenant comes with the key."""


def public(kind: type) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_") and callable(getattr(kind, name))}


def test_clients_have_exactly_the_verbs():
    verbs = {*ALL, "close"}
    assert public(Client) == public(AsyncClient) == public(AsyncEngine) == verbs
    assert public(Engine) - OWN == verbs


@pytest.mark.parametrize("name", ALL)
def test_signatures_and_docstrings_are_the_engines(name):
    for kind in (Client, AsyncClient, AsyncEngine):
        assert inspect.signature(getattr(kind, name)) == inspect.signature(getattr(Engine, name))
        assert getattr(kind, name).__doc__ == getattr(Engine, name).__doc__
        assert inspect.iscoroutinefunction(getattr(kind, name)) == (kind is not Client)


@pytest.mark.parametrize("name", [name for name in VERBS if name not in ("export", "import_")])
def test_every_argument_of_a_verb_can_be_sent(name):
    taken = set(inspect.signature(getattr(Engine, name)).parameters) - {"self", "progress"}
    assert taken == set(VERBS[name].request.model_fields)


def call(verb: str, *args: object, **keywords: object) -> calls.Call:
    return calls.call(ALL[verb], ALL[verb].bind(args, keywords))


def sent(verb: str, *args: object, **keywords: object) -> dict:
    """Return the arguments of a call as they are sent, without the key that is made for it."""
    made = call(verb, *args, **keywords)
    result = json.loads(made.body) if made.body is not None else dict(made.query)
    assert made.generated_key == (verb in ("remember", "forget"))
    return {name: value for name, value in result.items() if name != "key"}


def test_python_values_are_converted_to_json():
    at = datetime(2026, 5, 1, 12, tzinfo=UTC)
    assert sent(
        "remember", "text", ttl=timedelta(hours=1), created_at=at, tags=iter("ab"), importance=np.float32(0.5)
    ) == {
        "content": "text",
        "ttl": 3600.0,
        "created_at": "2026-05-01T12:00:00+00:00",
        "tags": ["a", "b"],
        "importance": 0.5,
    }
    assert sent("recall", "query", project=ANY, since=at, limit=np.int64(3), tags=("a",)) == {
        "query": "query", "project": "*", "since": at.isoformat(), "limit": 3, "tags": ["a"],
    }  # fmt: skip
    assert sent("forget", "abc", user_id="u", reason=None) == {"user_id": "u"}


def test_defaults_are_not_sent():
    assert sent("recall", "query", limit=None, tags=(), dry_run=False) == {"query": "query"}
    made = call("update", "id", ttl=None, fact_key=None, content=UNSET, key="k")
    assert json.loads(made.body) == {"ttl": None, "fact_key": None, "key": "k"}


@pytest.mark.parametrize(("id", "path"), [("?x=1#y", "%3Fx%3D1%23y"), ("é", "%C3%A9"), ("%2F", "%252F")])
def test_ids_are_one_path_segment(id, path):
    assert call("get", id).path == f"/v1/memory/{path}"


def test_dot_segments_are_refused():
    for id in ("..", ".", "a/b", "../stats"):
        with pytest.raises(NotFoundError):
            call("get", id)
    with pytest.raises(InputError, match=r"session_id is '\.\.'"):
        call("end_session", "..")


def test_session_names_can_contain_slashes(through, engine, where):
    memory, _ = through()
    memory.remember("text", session_id="chat/7 ?#", **where)
    assert memory.end_session("chat/7 ?#", **where).session_id == "chat/7 ?#"


@pytest.mark.parametrize(
    ("verb", "arguments", "message"),
    [
        ("recall", {"query": "q", "weights": {"similarity": float("inf")}}, "weights.similarity is inf"),
        (
            "update",
            {"id": "x", "metadata": {"x": datetime(2026, 1, 1, tzinfo=UTC)}},
            "metadata.x has the type datetime",
        ),
        ("update", {"id": "x", "reason": b"why"}, "reason has the type bytes"),
        ("list", {"cursor": "a\ud800"}, "cursor has a lone surrogate"),
        ("erase", {"ids": [object()]}, r"ids\[0\] has the type object"),
        ("restore", {"id": "x", "version": 2**70}, "version is 1180591620717411303424"),
        ("remember", {"content": "text", "colour": "red"}, "keyword 'colour' is unknown"),
        (
            "remember_many",
            {"drafts": [{"content": "text", "colour": "red"}]},
            r"drafts\[0\].colour is an unknown field",
        ),
        ("ingest", {"messages": []}, "session_id is missing"),
    ],
)
def test_invalid_arguments_are_refused_before_sending(verb, arguments, message):
    with pytest.raises(InputError, match=rf"^{message}.*\. [A-Z]"):
        call(verb, **arguments)


def test_a_missing_argument_is_a_type_error_as_with_an_engine():
    with pytest.raises(TypeError, match="query"):
        call("recall")


@pytest.mark.parametrize("name", sorted(ALL.keys() - VERBS.keys()))
def test_local_verbs_are_refused(through, name):
    memory, network = through()
    argument = {"backup": ("file.db",)}.get(name, ())
    with pytest.raises(
        InputError, match=f"{name} is not available over HTTP. Connect to the file or database of the store instead."
    ):
        getattr(memory, name)(*argument)
    assert network.requests == []


HOMES = [
    pytest.param([None, None], id="all of the call"),
    pytest.param([None, Scope()], id="one of nobody"),
    pytest.param([Scope(user_id="bob"), Scope(project="q", session_id="s")], id="none of the call"),
    pytest.param([Scope(environment="staging", agent_id="a"), None], id="one elsewhere"),
]


@pytest.mark.parametrize("homes", HOMES)
def test_drafts_are_stored_in_the_same_scopes_as_by_an_engine(engine, through, homes):
    memory, _ = through()
    drafts = [Draft(content=f"text {place}", scope=home, ttl="1d") for place, home in enumerate(homes)]
    where = {"project": "p", "user_id": "alice", "session_id": "t"}
    here, there = engine.remember_many(drafts, **where), memory.remember_many(drafts, **where)
    assert [receipt.memory.scope for receipt in there] == [receipt.memory.scope for receipt in here]
    assert [receipt.memory.expires_at for receipt in there] == [receipt.memory.expires_at for receipt in here]
    engine.erase([receipt.memory.id for receipt in (*here, *there)], user_id=ANY, project=ANY, agent_id=ANY,
                 environment=ANY)  # fmt: skip


MINE = 'name = "mine"\nsummary = "Importance."\ncombine = "sum"\nstages = ["score", "trim"]\n[signal.importance]\n'


def test_profiles_are_sent_by_name_or_as_toml(through, where, tmp_path: Path):
    path = tmp_path / "mine.toml"
    path.write_text(MINE)
    memory, network = through(profile="cmm")
    assert memory.profile.name == "cmm"
    memory.remember("text", **where)
    for chosen, name in ((None, "cmm"), ("memlayer", "memlayer"), (path, "mine"), (profiles.load("cmm"), "cmm")):
        assert memory.recall("query", profile=chosen, **where).profile == name
    assert memory.recall("query", profile=profiles.load(path), **where).profile == "mine"
    assert len(memory.context("query", **where).hits) == 1
    assert [found.profile for found in memory.recall_many(["query"] * 2, **where)] == ["cmm"] * 2
    bodies = [json.loads(request.content).get("profile") for request in network.requests]
    assert bodies == [None, "cmm", "memlayer", {"toml": MINE}, "cmm", {"toml": MINE}, "cmm", "cmm"]
    assert memory.graph_recall("query", **where).profile == "zeromemory"


def test_the_servers_profile_is_the_default(through, where):
    memory, _ = through()
    assert memory.profile is None
    assert memory.recall("query", **where).profile == "zeromemory"


def test_modified_profiles_are_refused(through):
    memory, network = through()
    changed = profiles.load("cmm").with_weights({"similarity": 0.5})
    with pytest.raises(InputError, match="profile was changed after it was read"):
        memory.recall("query", profile=changed)
    assert profiles.load("cmm").for_graph(0.3, 2).toml is None
    with pytest.raises(ProfileError):
        memory.recall("query", profile="best")
    assert network.requests == []


def test_connections_are_reused(through, where):
    memory, network = through()
    for _ in range(3):
        memory.stats(**where)
    pool = network._sync._pool if not hasattr(memory, "_portal") else network._async._pool
    assert len(pool.connections) == 1
