"""Each verb over HTTP: it does what the engine's does, and answers what the document says."""

from __future__ import annotations

import threading
from typing import Any

import httpx
import pytest
from jsonschema import Draft202012Validator

import salience
import servers
from salience.engine import Engine
from salience.server import gate
from salience.server.rest.parsing import STREAMED, argument_names, is_in_query
from salience.store.sqlite import SQLiteStore
from salience.verbs import VERBS
from servers import document
from tests.contract.doubles import PlantedEmbedder, StoppedClock

WHERE = {"user_id": "alice"}
CALLS: dict[str, dict[str, Any]] = {
    "remember": {
        "content": "Alice lives in Porto",
        "importance": 0.8,
        "tags": ["home"],
        "ttl": "7d",
        "metadata": {"a": [1]},
    },
    "remember_many": {"drafts": [{"content": "Alice sings"}, {"content": "Bob sings", "project": "choir"}]},
    "ingest": {
        "session_id": "s2",
        "messages": [{"role": "user", "content": "Good morning", "more": {"is": "left out"}}],
    },
    "list": {"limit": 1, "tags": ["lang"]},
    "facets": {"fields": ["tag", "entity"], "top": 5, "statuses": ["live", "forgotten"]},
    "sessions": {"users": ["alice"], "limit": 5},
    "get": {"id": "{id}"},
    "update": {"id": "{id}", "importance": 0.9, "ttl": "2w", "reason": "said twice"},
    "forget": {"id": "{id}", "reason": "no longer so"},
    "history": {"id": "{id}"},
    "dismiss": {"id": "{id}", "other_id": "{other}", "reason": "both hold"},
    "review": {"limit": 5},
    "changes": {"limit": 2, "since": "2020-01-01T00:00:00Z", "change": "create"},
    "activity": {"until": "2030-01-01T00:00:00Z", "since": "2020-01-01T00:00:00Z"},
    "restore": {"id": "{id}", "version": 1},
    "recall": {"query": "query Alice", "limit": 5, "weights": {"similarity": 0.7}, "profile": "zeromemory"},
    "recall_many": {"queries": ["query Alice", "query Bob"], "limit": 5, "profile": "zeromemory"},
    "graph_recall": {"query": "query Alice", "max_hops": 1, "graph_weight": 0.5},
    "context": {"query": "query Alice", "budget_tokens": 100},
    "explain": {"query": "query Alice", "memory_id": "{id}"},
    "scores": {"query": "query Alice", "limit": 1},
    "decay": {"ids": ["{id}"], "profile": "memorysync", "days": 7, "steps": 8},
    "profiles": {},
    "reflect": {"dry_run": True},
    "consolidate": {},
    "end_session": {"session_id": "s1"},
    "stats": {},
    "recalls": {"query": "Alice", "limit": 5},
    "help": {"topic": "scope"},
    "erase": {"dry_run": True},
    "upkeep": {"dry_run": True},
}
"""A request of each verb that answers an object; `{id}` is the id of a memory."""
ANYWHERE = ("help", "upkeep", "profiles")
TIMED = ("recall", "graph_recall", "context")


def stored(engine: Engine) -> tuple[str, str]:
    """Return the ids of an older memory and of a newer one in an engine."""
    older = engine.remember("Bob likes tea", user_id="alice", created_at="2026-01-01T00:00:00Z").memory.id
    return older, engine.remember("Alice prefers Python", user_id="alice", session_id="s1", tags=["lang"]).memory.id


def sent(client: httpx.Client, verb: str, given: dict[str, Any], **more: Any) -> httpx.Response:
    """Return the answer to the request of a verb: its arguments where the table has them."""
    spoken = VERBS[verb]
    in_path, _ = argument_names(spoken)
    rest = {name: value for name, value in given.items() if name not in in_path}
    place = {"params": rest} if is_in_query(spoken) else {"json": rest}
    return client.request(spoken.method, spoken.path.format(**given), **place, **more)


def schema_of(method: str, path: str, status: int) -> dict[str, Any]:
    """Return the schema of an answer, as the document has it."""
    content = document()["paths"][path][method.lower()]["responses"][str(status)]["content"]
    return {**content["application/json"]["schema"], "components": document()["components"]}


def test_there_is_a_request_of_each_verb() -> None:
    assert {*CALLS, *STREAMED} == {*VERBS}


@pytest.mark.parametrize("verb", CALLS)
def test_a_verb_answers_what_the_engine_does_and_what_the_document_says(
    verb: str, engine: Engine, http: httpx.Client, clock: StoppedClock
) -> None:
    there = salience.connect(":memory:", embedder=PlantedEmbedder(), clock=clock)
    here = {**CALLS[verb], **({} if verb in ANYWHERE else WHERE)}
    ids, others = ({"{other}": older, "{id}": id} for older, id in (stored(engine), stored(there)))
    id, other = ids["{id}"], others["{id}"]
    if verb == "restore":
        engine.forget(id, **WHERE)
        there.forget(other, **WHERE)
    response = sent(http, verb, filled(here, ids))
    expected = getattr(there, verb)(**filled(here, others))
    there.close()
    found = VERBS[verb].to_json(VERBS[verb].from_json(response.json()))
    assert response.is_success
    assert bare(found) == bare(VERBS[verb].to_json(expected))
    schema = schema_of(VERBS[verb].method, VERBS[verb].path, response.status_code)
    Draft202012Validator(schema).validate(response.json())


def filled(given: dict[str, Any], ids: dict[str, str]) -> dict[str, Any]:
    """Return arguments with the ids that they name."""
    return {
        name: [ids.get(str(one), one) for one in value] if isinstance(value, list) else ids.get(str(value), value)
        for name, value in given.items()
    }


def bare(told: Any) -> Any:
    """Return what was told without what differs between two stores: ids and timings."""
    if isinstance(told, dict):
        return {
            name: bare(value)
            for name, value in told.items()
            if name not in ("id", "short_id", "timings", "cursor", "follows", "by", "text", "salience_dismissed")
        }
    return [bare(item) for item in told] if isinstance(told, list) else told


def test_new_memories_have_status_201_and_known_ones_200(http: httpx.Client) -> None:
    statuses = [sent(http, "remember", {"content": "x", "key": "k"}).status_code for _ in range(2)]
    many = {"drafts": [{"content": "x", "key": "k"}, {"content": "y", "key": "l"}]}
    statuses += [sent(http, "remember_many", many).status_code for _ in range(2)]
    assert statuses == [201, 200, 201, 200]


def test_a_new_memory_is_found_at_its_location(http: httpx.Client) -> None:
    response = sent(http, "remember", {"content": "x"})
    assert http.get(response.headers["location"]).json() == response.json()["memory"]


def test_the_paths_of_one_memory_have_an_alias_beside_the_list(http: httpx.Client) -> None:
    made = sent(http, "remember", {"content": "x"}).json()["memory"]
    assert http.get(f"/v1/memories/{made['id']}").json() == http.get(f"/v1/memory/{made['id']}").json() == made
    assert http.patch(f"/v1/memories/{made['id']}", json={"content": "y"}).json()["status"] == "updated"
    assert len(http.get(f"/v1/memories/{made['id']}/history").json()["versions"]) == 2
    assert http.delete(f"/v1/memories/{made['id']}").json()["memory"]["forgotten_at"] is not None
    told = document()["paths"]["/v1/memory/{id}"]["get"]["description"]
    assert "`/v1/memories/{id}` is an alias of this path." in told


def test_pages_are_linked(http: httpx.Client) -> None:
    sent(http, "remember_many", {"drafts": [{"content": f"number {n}", "tags": ["a&b"]} for n in range(5)]})
    response = http.get("/v1/memories", params={"limit": 2, "tags": ["a&b"]})
    found = response.json()["memories"]
    while "next" in response.links:
        response = http.get(response.links["next"]["url"])
        found += response.json()["memories"]
    assert [memory["content"] for memory in found] == [f"number {n}" for n in range(5)]


def test_every_value_of_a_coordinate_is_asked_for_by_a_star(http: httpx.Client) -> None:
    for user in ("alice", "bob"):
        sent(http, "remember", {"content": f"of {user}", "user_id": user})
    assert sent(http, "stats", {"user_id": "*"}).json()["memories"] == 2


def test_profiles_are_listed(http: httpx.Client) -> None:
    found = http.get("/v1/profiles").json()
    Draft202012Validator(schema_of("GET", "/v1/profiles", 200)).validate(found)
    assert [one["name"] for one in found["profiles"]] == list(salience.rank.profiles.NAMES)


def test_a_profile_of_ones_own_ranks(http: httpx.Client) -> None:
    sent(http, "remember", {"content": "tea"})
    toml = http.get("/v1/profiles").json()["profiles"][4]["toml"].replace('name = "zeromemory"', 'name = "mine"')
    assert sent(http, "recall", {"query": "tea", "profile": {"toml": toml}}).json()["profile"] == "mine"


def test_a_server_tells_that_it_is_there_and_ready(http: httpx.Client) -> None:
    assert [http.get(path).json() for path in ("/healthz", "/readyz")] == [{"status": "ok"}] * 2


def test_a_server_is_ready_but_degraded_while_some_tenants_are_cut_off(
    http: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SQLiteStore, "is_degraded", True, raising=False)
    assert [http.get(path).json()["status"] for path in ("/healthz", "/readyz")] == ["ok", "degraded"]


def test_a_server_whose_store_does_not_answer_says_soon_that_it_is_not_ready(
    http: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    over = threading.Event()
    monkeypatch.setattr(gate, "READY_SECONDS", 0.1)
    monkeypatch.setattr(SQLiteStore, "pinned", lambda _: over.wait(60))
    assert http.get("/readyz").status_code == 503
    assert not over.is_set()
    over.set()


def test_a_server_whose_store_is_closed_is_alive_and_not_ready(clock: StoppedClock, tmp_path: Any) -> None:
    closed = salience.connect(tmp_path / "a.db", embedder=PlantedEmbedder(), clock=clock)
    closed.close()
    with servers.live(closed) as url, servers.client(url) as client:
        assert client.get("/healthz").status_code == 200
        response = client.get("/readyz")
    assert (response.status_code, response.json()["type"]) == (503, "urn:salience:problem:store")
    assert response.headers["retry-after"] == "1"
    assert response.json()["detail"] == "store: not available. See the server's log."
