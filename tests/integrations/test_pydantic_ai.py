"""Pydantic AI: the contract of the harness's memory stores, in our words, and agents with function models.

The harness's sdist has no tests; the cases follow those of its repository over its own stores.
"""

from __future__ import annotations

import anyio
import pytest
from pydantic_ai import Agent
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.models.test import TestModel
from pydantic_ai_harness.memory import (
    InMemoryStore,
    Memory,
    MemoryConflictError,
    MemoryOperation,
    MemoryOperationConflictError,
    MemoryStore,
    MetadataMemoryStore,
    SearchableMemoryStore,
)

import salience
from salience.errors import InputError
from salience.integrations.pydantic_ai import KEPT, SalienceMemoryStore, SalienceToolset


class Sync:
    """The methods of a store as functions, each in an event loop of its own."""

    def __init__(self, store):
        self.store = store

    def __getattr__(self, name):
        def call(*args, **options):
            async def main():
                return await getattr(self.store, name)(*args, **options)

            return anyio.run(main)

        return call


@pytest.fixture
def store(memory):
    return Sync(SalienceMemoryStore(memory, user_id="alice"))


# The contract, which the harness's own store passes too

CONTRACT = []


def contract(check):
    CONTRACT.append(check)
    return check


@pytest.mark.parametrize("number", range(7))
def test_contract(number, store):
    CONTRACT[number](store)


def test_the_contract_is_that_of_the_harness():
    assert len(CONTRACT) == 7
    for check in CONTRACT:
        check(Sync(InMemoryStore()))


@contract
def compare_and_set(store):
    created = store.write("notes/main.md", "one", expected_version=None)
    assert (created.replayed, created.existed) == (False, False)
    file = store.read("notes/main.md", max_chars=1000)
    assert (file.content, file.version, file.operation_id, file.metadata) == ("one", created.version, None, None)
    updated = store.write("notes/main.md", "two", expected_version=file.version)
    assert updated.existed
    assert updated.version not in (None, created.version)
    for expected in (created.version, None, "other"):
        with pytest.raises(MemoryConflictError):
            store.write("notes/main.md", "stale", expected_version=expected)
        with pytest.raises(MemoryConflictError):
            store.delete("notes/main.md", expected_version=expected)
    deleted = store.delete("notes/main.md", expected_version=updated.version)
    assert (deleted.version, deleted.existed, deleted.replayed) == (None, True, False)
    assert store.read("notes/main.md", max_chars=1000) is None
    with pytest.raises(MemoryConflictError):
        store.write("notes/main.md", "stale", expected_version=updated.version)


@contract
def versions_do_not_repeat(store):
    seen = set()
    for _ in range(3):
        created = store.write("main.md", "same", expected_version=None)
        seen.add(created.version)
        store.delete("main.md", expected_version=created.version)
    assert len(seen) == 3


@contract
def bounds_of_reads_and_listings(store):
    created = store.write("a.md", "0123456789", expected_version=None)
    for path in ("c.md", "b.md", "sub/d.md"):
        store.write(path, path, expected_version=None)
    for limit, content, truncated in ((4, "0123", True), (10, "0123456789", False)):
        file = store.read("a.md", max_chars=limit)
        assert (file.content, file.version, file.truncated) == (content, created.version, truncated)
    assert store.list_paths(limit=2) == ["a.md", "b.md"]
    assert store.list_paths("sub/", limit=10) == store.list_paths("su", limit=10) == ["sub/d.md"]
    assert store.list_paths("missing/", limit=10) == []
    with pytest.raises(ValueError, match="max_chars"):
        store.read("a.md", max_chars=0)
    with pytest.raises(ValueError, match="limit"):
        store.list_paths(limit=0)


@contract
def operations_are_done_once(store):
    write = MemoryOperation(id="run-1:call-1", fingerprint="write:notes/main.md:one")
    assert store.get_operation(write) is None
    first = store.write("notes/main.md", "one", expected_version=None, operation=write)
    again = store.write("notes/main.md", "one", expected_version=None, operation=write)
    assert (again.version, again.replayed, again.existed) == (first.version, True, False)
    assert store.get_operation(write) == again
    assert store.read("notes/main.md", max_chars=10).operation_id == write.id
    with pytest.raises(MemoryOperationConflictError):
        store.get_operation(MemoryOperation(id=write.id, fingerprint="different"))

    second = store.write("notes/main.md", "two", expected_version=first.version)
    assert store.read("notes/main.md", max_chars=10).operation_id is None
    assert store.get_operation(write) == again
    delete = MemoryOperation(id="run-1:call-2", fingerprint="delete:notes/main.md")
    assert not store.delete("notes/main.md", expected_version=second.version, operation=delete).replayed
    replayed = store.delete("notes/main.md", expected_version=second.version, operation=delete)
    assert (replayed.replayed, replayed.existed, replayed.version) == (True, True, None)
    with pytest.raises(MemoryOperationConflictError):
        store.get_operation(MemoryOperation(id=delete.id, fingerprint="different"))
    assert store.get_operation(write) == again

    missing = MemoryOperation(id="run-1:call-3", fingerprint="delete:missing.md")
    for is_replayed in (False, True):
        deleted = store.delete("missing.md", expected_version=None, operation=missing)
        assert (deleted.replayed, deleted.existed) == (is_replayed, False)


@contract
def metadata_belongs_to_one_write(store):
    created = store.write_with_metadata("a.md", "one", expected_version=None, metadata={"by": "Zoë"})
    assert store.read("a.md", max_chars=10).metadata == {"by": "Zoë"}
    updated = store.write_with_metadata("a.md", "two", expected_version=created.version, metadata={"at": "noon"})
    assert store.read("a.md", max_chars=10).metadata == {"at": "noon"}
    updated = store.write("a.md", "three", expected_version=updated.version)
    assert store.read("a.md", max_chars=10).metadata is None
    with pytest.raises(TypeError, match="strings"):
        store.write_with_metadata("a.md", "four", expected_version=updated.version, metadata={"n": 1})
    with pytest.raises(ValueError, match="NUL"):
        store.write_with_metadata("a.md", "four", expected_version=updated.version, metadata={"n": "\0"})
    assert store.read("a.md", max_chars=10).content == "three"


@contract
def unsafe_paths(store):
    for path in ("../escape.md", "/absolute.md", "a//b.md", "a/../../b.md", "a b.md", "a/./b", ""):
        with pytest.raises(ValueError, match="path"):
            store.read(path, max_chars=1000)
        with pytest.raises(ValueError, match="path"):
            store.write(path, "text", expected_version=None)


@contract
def search_stays_below_its_prefix_and_within_its_bounds(store):
    for path, content in (
        ("a/main/tea.md", "Alice drinks jasmine tea; tea in the morning"),
        ("a/main/other.md", "The bridge opens at noon"),
        ("a/main/deep/tea.md", "tea tea tea"),
        ("b/main/tea.md", "tea tea tea"),
    ):
        store.write(path, content, expected_version=None)

    def search(prefix="a/main/", query="jasmine tea", limit=10, max_files=10, max_chars=80, max_file_chars=1000):
        return store.search(
            prefix, query, limit=limit, max_files=max_files, max_chars=max_chars, max_file_chars=max_file_chars
        )

    found = search()
    assert [match.path for match in found.matches] == ["a/main/tea.md"]
    assert (found.scanned, found.truncated) == (2, False)
    assert "tea" in found.matches[0].snippet
    assert len("tea.md") + len(found.matches[0].snippet) <= 80
    assert (search(max_files=1).scanned, search(max_files=1).truncated) == (1, True)
    tiny = search(max_chars=1)
    assert (tiny.matches, tiny.truncated) == ([], True)
    short = search(max_chars=18).matches[0].snippet
    assert (short[:3], short[-3:], len(short)) == ("...", "...", 12)
    for nothing in ({"query": " "}, {"limit": 0}, {"max_files": 0}, {"max_chars": 0}):
        empty = search(**nothing)
        assert (empty.matches, empty.scanned, empty.truncated) == ([], 0, False)


def test_concurrent_writes_of_one_version(store):
    created = store.write("main.md", "initial", expected_version=None)
    outcomes = []

    async def write(content, expected, path):
        try:
            await store.store.write(path, content, expected_version=expected)
        except MemoryConflictError:
            outcomes.append("conflict")
        else:
            outcomes.append("written")

    async def main():
        async with anyio.create_task_group() as group:
            for number in range(3):
                group.start_soon(write, f"text {number}", created.version, "main.md")
                group.start_soon(write, f"text {number}", None, "new.md")

    anyio.run(main)
    assert sorted(outcomes) == ["conflict"] * 4 + ["written"] * 2


# What memories add


def test_it_implements_the_protocols(store):
    for protocol in (MemoryStore, MetadataMemoryStore, SearchableMemoryStore):
        assert isinstance(store.store, protocol)


def test_files_are_recalled_and_keep_their_versions(memory, store):
    created = store.write("main/MEMORY.md", "Alice drinks jasmine tea", expected_version=None)
    store.write("main/MEMORY.md", "Alice drinks green tea", expected_version=created.version)
    found = memory.recall("What does Alice drink?", user_id="alice")[0].memory
    assert (found.content, found.metadata["path"]) == ("Alice drinks green tea", "main/MEMORY.md")
    assert [version.memory.content for version in memory.history(found.id, user_id="alice")] == [
        "Alice drinks jasmine tea",
        "Alice drinks green tea",
    ]


def test_the_search_finds_by_meaning(store):
    store.write("main/pets.md", "Zoe's dog is called Rex", expected_version=None)
    store.write("main/bridge.md", "The bridge opens at noon", expected_version=None)
    found = store.search("main/", "pet of Zoe", limit=5, max_files=10, max_chars=200, max_file_chars=1000)
    assert [match.path for match in found.matches] == ["main/pets.md"]


def test_old_operations_are_dropped_in_order(store):
    operations = [MemoryOperation(id=f"call-{number}", fingerprint="x") for number in range(KEPT + 2)]
    version = None
    for number, operation in enumerate(operations):
        version = store.write("a.md", f"text {number}", expected_version=version, operation=operation).version
    assert [store.get_operation(operation) is None for operation in operations] == [True] * 2 + [False] * KEPT


def test_users_do_not_see_each_other(memory, store):
    store.write("main/MEMORY.md", "Alice's secret", expected_version=None)
    other = Sync(SalienceMemoryStore(memory, user_id="bob"))
    assert other.read("main/MEMORY.md", max_chars=10) is None
    assert other.list_paths(limit=10) == []
    found = other.search("main/", "secret", limit=5, max_files=10, max_chars=200, max_file_chars=1000)
    assert (found.matches, found.scanned) == ([], 0)
    other.write("main/MEMORY.md", "Bob's", expected_version=None)
    assert store.read("main/MEMORY.md", max_chars=100).content == "Alice's secret"
    with pytest.raises(InputError, match="user_id"):
        SalienceMemoryStore(memory, user_id=salience.ANY)


# Agents


def scripted(*responses):
    """Return a model that gives each response in turn, and the list of requests that it gets."""
    queue, requests = list(responses), []

    def respond(messages, info):
        requests.append((messages, info))
        part = queue.pop(0)
        return ModelResponse(parts=[TextPart(part) if isinstance(part, str) else part])

    return FunctionModel(respond), requests


def run(agent, prompt, **options):
    """Run the agent in an event loop of its own; `run_sync` leaves one open."""

    async def main():
        return await agent.run(prompt, **options)

    return anyio.run(main).output


def results(requests):
    return [part.content for part in requests[-1][0][-1].parts if part.part_kind == "tool-return"]


def test_the_memory_capability_writes_in_one_run_and_reads_in_the_next(memory):
    def say(user, *responses):
        model, requests = scripted(*responses)
        store = SalienceMemoryStore(memory, user_id=user)
        agent = Agent(model, capabilities=[Memory(store=store, injection_errors="raise")])
        assert run(agent, "Hello") == responses[-1]
        return requests

    requests = say("alice", ToolCallPart("write_memory", {"content": "Alice drinks tea"}), "Noted.")
    assert results(requests)[0]["status"] == "created"
    assert "Alice drinks tea" in str(say("alice", "Tea.")[0][0])
    assert "Alice drinks tea" not in str(say("bob", "?")[0][0])
    requests = say("alice", ToolCallPart("search_memory", {"query": "tea"}), "Tea.")
    assert results(requests)[0]["matches"][0]["file"] == "MEMORY.md"


def test_the_toolset_writes_in_one_run_and_reads_in_the_next(memory):
    toolset = SalienceToolset(memory, user_id=lambda ctx: ctx.deps, limit=3)

    def say(user, prompt, *responses):
        model, requests = scripted(*responses)
        assert run(Agent(model, deps_type=str, toolsets=[toolset]), prompt, deps=user) == responses[-1]
        return requests

    requests = say("alice", "I drink tea", ToolCallPart("remember", {"content": "Alice drinks tea"}), "Noted.")
    assert results(requests)[0].startswith("created: ")
    question = ToolCallPart("recall", {"query": "What does Alice drink?"})
    requests = say("alice", "What do I drink?", question, "Tea.")
    assert "Alice drinks tea" in results(requests)[0]
    assert "Alice drinks tea" in requests[0][1].instructions
    requests = say("bob", ["What do I drink?"], question, "?")
    assert results(requests) == ["There are no memories."]
    assert not requests[0][1].instructions


def test_an_invalid_call_is_retried_by_the_model(local):
    model, requests = scripted(
        ToolCallPart("remember", {"content": " "}), ToolCallPart("remember", {"content": "text"}), "Done."
    )
    run(Agent(model, toolsets=[SalienceToolset(local, with_instructions=False)]), "Remember something.")
    assert "content is empty" in str(requests[1][0][-1].parts[0].content)
    assert [one.content for one in local.list().memories] == ["text"]


def test_a_long_prompt_ends_no_run(memory):
    model, _ = scripted("Noted.")
    assert run(Agent(model, toolsets=[SalienceToolset(memory)]), "tea and milk " * 8000) == "Noted."


def test_the_test_model_calls_every_tool(local):
    agent = Agent(TestModel(), toolsets=[SalienceToolset(local, user_id="alice")])
    assert set(run(agent, "Hello").split('"')) >= {"remember", "recall"}
    assert len(local.list(user_id="alice").memories) == 1
