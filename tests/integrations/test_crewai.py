"""CrewAI's unified memory on our storage: what one crew learns is in the prompt of the next."""

from __future__ import annotations

import asyncio
import copy
import warnings
from datetime import datetime, timedelta
from typing import Any

import pytest

from salience.errors import InputError

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    pytest.importorskip("crewai", reason="CrewAI needs mcp<2; `make test-all` tests it in an environment of its own")
    from crewai import Agent, BaseLLM, Crew, Task
    from crewai.memory.storage.backend import StorageBackend
    from crewai.memory.types import MemoryRecord
    from crewai.memory.unified_memory import Memory as CrewMemory

    from salience.integrations.crewai import SalienceStorage, crew_memory

TEA = "Alice only drinks green tea, never coffee."
FIELDS: dict[str, Any] = {"scope": "/", "categories": [], "importance": 0.5}
"""What CrewAI would otherwise ask a model for."""
NOON = datetime(2024, 5, 1, 12)  # noqa: DTZ001 - CrewAI's times are naive


class Parrot(BaseLLM):
    """A model that keeps its prompts and gives the same answer to each."""

    prompts: list[str] = []  # noqa: RUF012 - pydantic copies it

    def call(self, messages: Any, *_: Any, **__: Any) -> str:
        self.prompts.append(str(messages))
        return "Thought: I can answer.\nFinal Answer: Noted."


@pytest.fixture(autouse=True)
def _own_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("CREWAI_STORAGE_DIR", str(tmp_path / "crewai"))


def record(content: str, scope: str = "/", **fields: Any) -> MemoryRecord:
    return MemoryRecord(content=content, scope=scope, **fields)


def search(storage: SalienceStorage, query: str, **options: Any) -> list[tuple[str, float]]:
    return [(found.content, score) for found, score in storage.search(storage.embed([query])[0], **options)]


def texts(storage: SalienceStorage, query: str, **options: Any) -> list[str]:
    return [content for content, _ in search(storage, query, **options)]


def shallow(memory: CrewMemory, query: str) -> list[str]:
    return [match.record.content for match in memory.recall(query, depth="shallow")]


def run(memory: CrewMemory, task: str) -> str:
    """Run a crew and return the prompt of its task."""
    model = Parrot(model="parrot")
    agent = Agent(role="waiter", goal="Serve.", backstory="A waiter.", llm=model)
    task = Task(description=task, expected_output="An answer.", agent=agent)
    Crew(agents=[agent], tasks=[task], memory=memory).kickoff()
    memory.close()
    return agent.llm.prompts[0]


def test_the_storage_implements_the_protocol(local):
    storage: StorageBackend = SalienceStorage(local)
    assert isinstance(storage, StorageBackend)
    assert copy.deepcopy(storage) is storage


def test_a_crew_remembers_what_an_earlier_one_learned(memory):
    assert TEA in run(crew_memory(memory, user_id="alice", llm=Parrot(model="parrot")), TEA)
    assert TEA in run(
        crew_memory(memory, user_id="alice", llm=Parrot(model="parrot")), "Does Alice drink tea or coffee?"
    )
    assert TEA not in run(
        crew_memory(memory, user_id="bob", llm=Parrot(model="parrot")), "Does Alice drink tea or coffee?"
    )


def test_remember_recall_update_and_forget(memory):
    crew = crew_memory(memory, user_id="alice", llm=Parrot(model="parrot"), root_scope="/crew/cafe")
    kept = crew.remember(TEA, **{**FIELDS, "categories": ["drinks"], "metadata": {"table": 4}, "scope": "/guests"})
    assert kept is not None
    assert (kept.scope, kept.categories) == ("/crew/cafe/guests", ["drinks"])
    crew.remember("The parcel left Oslo on Tuesday.", **FIELDS)
    assert shallow(crew, "tea or coffee?")[0] == TEA
    assert crew.recall("tea or coffee?", scope="/guests")[0].record.id == kept.id
    assert crew.recall("tea or coffee?", scope="/kitchen") == []
    assert shallow(crew_memory(memory, user_id="bob", llm=Parrot(model="parrot")), "tea or coffee?") == []

    crew.update(kept.id, content="Alice drinks black tea now.")
    (stored,) = memory.list(user_id="alice", fact_keys=[f"crewai:{kept.id}"]).memories
    assert (stored.content, stored.version) == ("Alice drinks black tea now.", 2)
    assert shallow(crew, "black tea")[0] == "Alice drinks black tea now."
    assert crew.forget(record_ids=[kept.id]) == 1
    assert "black tea" not in str(shallow(crew, "black tea"))
    assert [version.memory.change for version in memory.history(stored.id)] == ["create", "update", "forget"]


def test_records_come_back_as_they_were(memory):
    storage = SalienceStorage(memory, user_id="alice")
    original = record(
        TEA,
        "/crew/a b/ü",
        categories=["drinks", " "],
        metadata={"list": [1, {"x": None}]},
        importance=0.25,
        source="s1",
        private=True,
        created_at=NOON,
    )
    storage.save([original])
    storage.save([original])
    storage.save([])
    found = storage.get_record(original.id)
    assert found is not None
    assert found.model_dump(exclude={"last_accessed"}) == original.model_dump(exclude={"last_accessed"})
    assert storage.count() == 1
    assert storage.get_record("other") is None
    other = record("New.")
    storage.update(other)
    assert storage.count() == 2
    assert SalienceStorage(memory, user_id="bob").get_record(original.id) is None
    assert SalienceStorage(memory).list_records() == []


def test_scopes_are_paths(local):
    storage = SalienceStorage(local)
    storage.save([record(f"Note {path}", path) for path in ("/", "/a", "/a/b/c", "/ab", "x/y/")])
    assert storage.list_scopes() == ["/a", "/ab", "/x"]
    assert storage.list_scopes("/a/") == ["/a/b"]
    assert storage.list_scopes("/ab") == []
    assert [storage.count(scope) for scope in (None, "/", "/a", "/a/b", "x", "/none")] == [5, 5, 2, 1, 1, 0]
    assert sorted(texts(storage, "Note", scope_prefix="/a")) == ["Note /a", "Note /a/b/c"]
    storage.reset("/a")
    assert storage.list_scopes() == ["/ab", "/x"]
    storage.reset()
    assert storage.count() == 0


def test_listings_and_info(local):
    storage = SalienceStorage(local)
    days = [NOON + timedelta(days=day) for day in (1, 0, 2)]
    storage.save([record(f"Day {day:%d}", "/log", categories=["diary", f"d{day.day}"], created_at=day) for day in days])
    assert [one.content for one in storage.list_records("/log", limit=2)] == ["Day 03", "Day 02"]
    assert [one.content for one in storage.list_records(offset=2)] == ["Day 01"]
    assert storage.list_categories() == {"diary": 3, "d1": 1, "d2": 1, "d3": 1}
    info = storage.get_scope_info("/")
    assert (info.path, info.record_count, info.child_scopes) == ("/", 3, ["/log"])
    assert (info.oldest_record, info.newest_record) == (min(days), max(days))
    assert storage.get_scope_info("/none").record_count == 0


def test_searches_are_filtered(local):
    storage = SalienceStorage(local)
    storage.save(
        [
            record(TEA, categories=["drinks"], metadata={"table": 4}),
            record("Bob only drinks black tea.", categories=["drinks", "bob"], metadata={"table": 5}),
            record("Tea is served at nine.", categories=["hours"]),
        ]
    )
    assert len(texts(storage, "tea")) == 3
    assert texts(storage, "tea", categories=["bob", "hours"]) != texts(storage, "tea", limit=2)
    assert set(texts(storage, "tea", categories=["bob", "hours"])) == {
        "Bob only drinks black tea.", "Tea is served at nine.",
    }  # fmt: skip
    assert texts(storage, "tea", metadata_filter={"table": 4}) == [TEA]
    assert len(texts(storage, "tea", limit=1)) == 1
    assert texts(storage, "tea", limit=0) == []
    scores = [score for _, score in search(storage, TEA)]
    assert scores == sorted(scores, reverse=True)
    assert scores[0] == pytest.approx(1.0, abs=0.02)
    assert texts(storage, TEA, min_score=0.9) == [TEA]


def test_deletes_match_every_condition(local):
    storage = SalienceStorage(local)
    old = NOON
    first, second, third = (
        record("one", "/a", categories=["x"], created_at=old),
        record("two", "/a", metadata={"k": 1}),
        record("three", "/b", categories=["x"]),
    )
    storage.save([first, second, third])
    assert storage.delete(scope_prefix="/b", record_ids=[first.id]) == 0
    assert storage.delete(record_ids=[]) == 0
    assert storage.delete(scope_prefix="/a", metadata_filter={"k": 2}) == 0
    assert storage.delete(categories=["x"], older_than=old + timedelta(days=1)) == 1
    assert asyncio.run(storage.adelete(metadata_filter={"k": 1})) == 1
    assert [one.content for one in storage.list_records()] == ["three"]


def test_memories_that_all_users_share_are_found_but_not_changed(local):
    shared = record("Tea is served at nine.")
    SalienceStorage(local).save([shared])
    storage = SalienceStorage(local, user_id="alice")
    assert texts(storage, "When is tea served?") == [shared.content]
    assert storage.delete() == 0
    assert SalienceStorage(local).count() == 1


def test_another_embedder_is_refused(local):
    storage = SalienceStorage(local)
    with pytest.raises(InputError, match="crew_memory"):
        storage.search([0.5] * 64)
    with pytest.raises(InputError, match="crew_memory"):
        storage.save([record(TEA, embedding=[0.5] * 64)])
    crew = CrewMemory(storage=storage, embedder=lambda texts: [[0.5] * 64 for _ in texts], llm=Parrot(model="parrot"))
    with pytest.raises(InputError, match="crew_memory"):
        crew.remember(TEA, **FIELDS)


def test_async_calls_do_the_same(local):
    storage = SalienceStorage(local)
    asyncio.run(storage.asave([record(TEA)]))
    found = asyncio.run(storage.asearch(storage.embed(["tea or coffee?"])[0], limit=1))
    assert [one.content for one, _ in found] == [TEA]
