"""SalienceStore: items of LangGraph as memories; the suites of LangGraph itself run in test_suites.py."""

from __future__ import annotations

import asyncio
import importlib
import sys
from datetime import UTC, datetime, timedelta

import pytest

import salience
import servers
from salience import InputError, MissingExtraError

pytest.importorskip("langgraph")

from langgraph.graph import START, StateGraph
from langgraph.runtime import Runtime
from langgraph.store.base import GetOp, PutOp
from typing_extensions import TypedDict

from salience.integrations import langgraph
from salience.integrations.langgraph import SalienceStore
from salience.server.auth import create_key
from salience.store.keyring import MemoryKeyring

ALICE, BOB = ("alice", "memories"), ("bob", "memories")


@pytest.fixture
def store(memory):
    return SalienceStore(memory, user_at=0)


def found(items):
    return [(item.namespace, item.key) for item in items]


class State(TypedDict):
    text: str
    answer: str


def remembering_graph(store):
    async def node(state: State, runtime: Runtime) -> dict:
        namespace = (runtime.context["user_id"], "memories")
        known = await runtime.store.asearch(namespace, query=state["text"], limit=1)
        await runtime.store.aput(namespace, state["text"], {"text": state["text"]})
        return {"answer": known[0].value["text"] if known else ""}

    builder = StateGraph(State, context_schema=dict)
    return builder.add_node("node", node).add_edge(START, "node").compile(store=store)


def test_a_graph_finds_what_an_earlier_run_stored_for_the_same_user(store):
    graph = remembering_graph(store)

    def said(user, text):
        return asyncio.run(graph.ainvoke({"text": text}, context={"user_id": user}))["answer"]

    assert said("alice", "I drink green tea") == ""
    assert said("alice", "Which tea do I drink?") == "I drink green tea"
    assert said("bob", "Which tea do I drink?") == ""
    assert store.list_namespaces() == [ALICE, BOB]


def test_a_put_makes_a_version_and_an_equal_put_none(store, memory):
    for text in ("tea", "tea", "coffee"):
        store.put(ALICE, "drink", {"text": text, "tags": ["a", {"b": None}]})
    item = store.get(ALICE, "drink")
    assert item.value == {"text": "coffee", "tags": ["a", {"b": None}]}
    assert item.updated_at > item.created_at
    [stored] = memory.list(user_id="alice", project="langgraph").memories
    assert [version.memory.content.split("\n")[0] for version in memory.history(stored.id)] == [
        "text: tea",
        "text: coffee",
    ]


def test_a_deleted_item_is_forgotten_and_can_be_put_again(store, memory):
    store.put(ALICE, "drink", {"text": "tea"})
    store.delete(ALICE, "drink")
    assert store.get(ALICE, "drink") is None
    assert store.search(ALICE) == []
    store.put(ALICE, "drink", {"text": "tea"})
    assert store.get(ALICE, "drink").value == {"text": "tea"}
    assert len(memory.list(user_id="alice", project="langgraph").memories) == 1


def test_users_and_recalls_outside_of_langgraph_do_not_see_each_other(store, memory):
    store.put(ALICE, "drink", {"text": "Alice drinks tea"})
    store.put(BOB, "drink", {"text": "Bob drinks tea"})
    assert found(store.search(BOB, query="tea")) == [(BOB, "drink")]
    assert {space for space, _ in found(store.search((), query="tea"))} == {ALICE, BOB}
    assert [hit.memory.content for hit in memory.recall("tea", user_id="bob", project="langgraph")] == [
        "Bob drinks tea"
    ]
    assert not memory.recall("tea", user_id="bob")
    assert memory.erase(user_id="alice", project="langgraph") == 1
    assert store.list_namespaces() == [BOB]


def test_without_user_at_the_project_keeps_items_out_of_other_recalls(memory):
    SalienceStore(memory).put(ALICE, "drink", {"text": "Alice drinks tea"})
    assert not memory.recall("tea", user_id="bob")
    SalienceStore(memory, project=None).put(ALICE, "drink", {"text": "Alice drinks tea"})
    assert len(memory.recall("tea", user_id="bob")) == 1


PAIRS = [
    (("a", "b"), ("a/b",)),
    (("a", "b"), ("a%2Fb",)),
    (("a",), ("A",)),
    (("a",), ("a\n",)),
    (("*",), ("a",)),
    (("é" * 100,), ("é" * 101,)),
    (("x" * 300,), ("x" * 301,)),
]


def test_no_two_namespaces_or_keys_are_mixed_up(memory):
    store = SalienceStore(memory)
    spaces = {namespace for pair in PAIRS for namespace in pair}
    store.batch([PutOp(space, key, {"of": [*space, key]}) for space in spaces for key in ("k", ":", "k:", "k#1")])
    assert set(store.list_namespaces()) == spaces
    for space in spaces:
        assert store.get(space, "k:").value == {"of": [*space, "k:"]}
        below = {other for other in spaces if other[: len(space)] == space}
        assert {item.namespace for item in store.search(space, limit=100)} == below


def test_items_of_a_scope_are_not_changed_from_within_another(memory):
    shared, hers = SalienceStore(memory), SalienceStore(memory, user_id="alice")
    shared.put(ALICE, "drink", {"text": "water"})
    assert hers.get(ALICE, "drink") is None
    assert hers.search(ALICE) == hers.search(ALICE, query="water") == hers.list_namespaces() == []
    hers.put(ALICE, "drink", {"text": "tea"})
    assert shared.get(ALICE, "drink").value == {"text": "water"}
    hers.delete(ALICE, "drink")
    assert [item.value for item in shared.search((), query="tea")] == [{"text": "water"}]


def test_a_profile_ranks_instead_of_the_cosine(memory):
    for profile in (None, "salience"):
        store = SalienceStore(memory, profile=profile)
        store.put(ALICE, "tea", {"text": "Alice drinks tea"})
        store.put(ALICE, "code", {"text": "The door code is 4711"})
        assert found(store.search(ALICE, query="What is the code of the door?"))[0] == (ALICE, "code")
    cosine = SalienceStore(memory).search(ALICE, query="Alice drinks tea")[0]
    assert cosine.score == pytest.approx(1.0, abs=1e-3)


def test_each_field_is_searched_and_surplus_texts_go_with_a_new_value(memory):
    store = SalienceStore(memory, fields=["notes[*].text"])
    store.put(ALICE, "n", {"notes": [{"text": "Alice drinks tea"}, {"text": "The door code is 4711"}]})
    store.put(ALICE, "m", {"notes": []})
    for query in ("Alice drinks tea", "The door code is 4711"):
        [best, other] = store.search(ALICE, query=query)
        assert (best.key, other.key, other.score) == ("n", "m", None)
        assert best.score == pytest.approx(1.0, abs=1e-3)
        assert best.value["notes"][0] == {"text": "Alice drinks tea"}
    store.put(ALICE, "n", {"notes": [{"text": "Bob drives a truck"}]})
    assert store.search(ALICE, query="The door code is 4711")[0].score < 0.9
    store.put(ALICE, "n", {"notes": [{"text": "x"}, {"text": "y"}]}, index=False)
    assert [item.score for item in store.search(ALICE, query="x")] == [None, None]
    assert len(memory.list(project="langgraph").memories) == 2


FILTERS = [
    ({"n": 2}, "b"),
    ({"n": {"$eq": 2}}, "b"),
    ({"n": {"$ne": 2}}, "acd"),
    ({"n": {"$gt": 1}}, "bc"),
    ({"n": {"$gte": 2, "$lt": 3}}, "b"),
    ({"n": {"$lte": 2}}, "ab"),
    ({"day": {"$gt": "2026-05-01"}}, "d"),
    ({"in": {"deep": {"$gt": 0}}}, "d"),
    ({"in.deep": 1}, "d"),
    ({"in": {"list": [1, 2]}}, "d"),
    ({"n": 1, "in": {}}, ""),
]
"""A filter, and the keys of the items that pass it."""


def test_filters(memory):
    store = SalienceStore(memory)
    for key, n in zip("abc", (1, 2, 3), strict=True):
        store.put(ALICE, key, {"n": n, "text": "tea"})
    store.put(ALICE, "d", {"n": "2", "day": "2026-05-02", "in": {"deep": 1, "list": [1, 2]}})
    for filter, keys in FILTERS:
        assert "".join(sorted(item.key for item in store.search(ALICE, filter=filter))) == keys
        assert "".join(sorted(item.key for item in store.search(ALICE, query="tea", filter=filter))) == keys


def test_an_unknown_operator_is_refused(memory):
    store = SalienceStore(memory)
    store.put(ALICE, "a", {"n": 1})
    with pytest.raises(InputError, match=r"filter is '\$in'. .*\$eq"):
        store.search(ALICE, filter={"n": {"$in": [1]}})


def test_pages_of_searches_and_namespaces(memory):
    store = SalienceStore(memory)
    for number in range(7):
        store.put(("users", f"u{number}", "notes"), "k", {"n": number})
    assert [item.value["n"] for item in store.search(("users",), limit=3, offset=5)] == [5, 6]
    pages = [store.search(("users",), query="3", limit=3, offset=offset) for offset in (0, 3, 6)]
    assert {item.value["n"] for page in pages for item in page} == {*range(7)}
    assert store.list_namespaces(prefix=("users", "*"), limit=2, offset=1) == [
        ("users", "u1", "notes"),
        ("users", "u2", "notes"),
    ]
    assert store.list_namespaces(suffix=("u3", "notes")) == [("users", "u3", "notes")]
    assert store.list_namespaces(prefix=("users",), max_depth=1) == [("users",)]


class Clock:
    """The time of the store's module."""

    def __init__(self):
        self.at = datetime.now(UTC)

    def now(self, _):
        return self.at


@pytest.mark.parametrize("reads", ["get", "search", "query"])
def test_reads_refresh_the_time_to_live_and_expired_items_are_gone(memory, monkeypatch, reads):
    clock = Clock()
    monkeypatch.setattr(langgraph, "datetime", clock)
    store = SalienceStore(memory, ttl={"default_ttl": 60, "refresh_on_read": False})
    store.put(ALICE, "a", {"text": "tea"})
    store.put(ALICE, "b", {"text": "tea"})
    store.put(ALICE, "c", {"text": "tea"}, ttl=None)
    put_at = store.get(ALICE, "a").updated_at
    refreshing = {
        "get": lambda: store.get(ALICE, "a", refresh_ttl=True),
        "search": lambda: store.search(ALICE, limit=1, refresh_ttl=True),
        "query": lambda: store.search(ALICE, query="tea", limit=1, filter={"n": None}, refresh_ttl=True),
    }[reads]
    clock.at += timedelta(minutes=1)
    refreshing()
    refreshing()
    clock.at += timedelta(minutes=60)  # the time to live of `a` runs anew, for a tenth longer
    assert {item.key for item in store.search(ALICE)} == {"a", "c"}
    assert store.get(ALICE, "b") is None
    assert store.get(ALICE, "a").updated_at == put_at
    [first, *_] = memory.list(project="langgraph").memories
    assert first.version == 2
    clock.at += timedelta(minutes=6)
    assert {item.key for item in store.search(ALICE)} == {"c"}
    store.put(ALICE, "a", {"text": "tea"}, ttl=None)
    assert store.get(ALICE, "a").value == {"text": "tea"}


def test_values_that_json_cannot_hold_are_refused_and_a_batch_then_stores_nothing(memory):
    store = SalienceStore(memory)
    with pytest.raises(InputError, match="metadata"):
        store.batch([PutOp(ALICE, "a", {"n": 1}), PutOp(ALICE, "b", {"at": datetime.now(UTC)})])
    with pytest.raises(InputError, match=r"65,536 bytes") as refused:
        store.put(ALICE, "a", {"text": "secret" * 20_000})
    assert "secret" not in str(refused.value)
    assert store.get(ALICE, "a") is None


def test_two_stores_share_their_items_and_an_equal_key_stored_twice_is_mended(memory):
    one, other = SalienceStore(memory), SalienceStore(memory)
    one.put(ALICE, "a", {"text": "tea"})
    [stored] = memory.list(project="langgraph").memories
    copy = {**stored.metadata["langgraph"], "value": {"text": "cocoa"}}
    fields = {"fact_key": stored.fact_key, "tags": stored.tags, "metadata": {"langgraph": copy}}
    memory.remember("cocoa", project="langgraph", **fields)  # as another process that was as fast would
    assert other.get(ALICE, "a").value == {"text": "cocoa"}
    other.put(ALICE, "a", {"text": "milk"})
    assert len(memory.list(project="langgraph").memories) == 1
    assert [item.value for item in one.batch([GetOp(ALICE, "a")])] == [{"text": "milk"}]


def test_memories_with_other_metadata_are_no_items(memory):
    memory.remember("tea", tags=["langgraph"], project="langgraph")
    memory.remember("coffee", tags=["langgraph"], project="langgraph", metadata={"langgraph": "x"})
    store = SalienceStore(memory)
    assert store.search((), query="tea") == store.search(()) == store.list_namespaces() == []


def test_without_langgraph_the_import_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "langgraph.store.base", None)
    monkeypatch.delitem(sys.modules, langgraph.__name__)
    with pytest.raises(MissingExtraError, match=r'pip install .*\[langgraph\]"'):
        importlib.import_module(langgraph.__name__)


@pytest.mark.slow
def test_a_key_that_is_bound_to_a_user_sees_the_items_of_that_user_alone(target):
    given = {"tenant": "default", "rights": ["read", "write"], "bound": {"user_id": "alice"}}
    token, key = create_key(**given, expires_at=None, note=None, now=datetime.now(UTC))
    keyring = MemoryKeyring()
    keyring.add(key)
    with salience.connect(target) as engine, servers.live(engine, keyring) as url:
        SalienceStore(engine, user_at=0).put(BOB, "drink", {"text": "coffee"})
        with salience.connect(url, api_key=token) as client:
            for store in (SalienceStore(client), SalienceStore(client, user_at=0)):
                store.put(ALICE, "drink", {"text": "tea"})
                store.put(ALICE, "drink", {"text": "green tea"})
                assert store.get(ALICE, "drink").value == {"text": "green tea"}
                assert found(store.search((), query="tea")) == found(store.search(())) == [(ALICE, "drink")]
            with pytest.raises(salience.ForbiddenError):
                store.get(BOB, "drink")
        assert len(engine.list(user_id="alice", project="langgraph").memories) == 1
