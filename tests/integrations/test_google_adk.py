"""The memory service of ADK: events and memories of an app's users, searched, kept apart and deleted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from salience.errors import InputError, NotFoundError

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:.*EXPERIMENTAL.*:UserWarning"),
]
pytest.importorskip("google.adk")
from google.adk.agents import LlmAgent  # noqa: E402
from google.adk.events.event import Event  # noqa: E402
from google.adk.memory.base_memory_service import BaseMemoryService  # noqa: E402
from google.adk.memory.memory_entry import MemoryEntry  # noqa: E402
from google.adk.models.base_llm import BaseLlm  # noqa: E402
from google.adk.models.llm_request import LlmRequest  # noqa: E402
from google.adk.models.llm_response import LlmResponse  # noqa: E402
from google.adk.runners import Runner  # noqa: E402
from google.adk.sessions import InMemorySessionService, Session  # noqa: E402
from google.adk.tools import load_memory, preload_memory  # noqa: E402
from google.genai import types  # noqa: E402

from salience.integrations.google_adk import SalienceMemoryService  # noqa: E402

ALICE = {"app_name": "shop", "user_id": "alice"}
TEA = "I only drink green tea, never coffee."


def content(*parts: str | types.Part, role: str = "user") -> types.Content:
    return types.Content(role=role, parts=[types.Part(text=part) if isinstance(part, str) else part for part in parts])


def event(id: str, *parts: str | types.Part, author: str = "user", timestamp: float = 1_700_000_000.0) -> Event:
    return Event(id=id, invocation_id="i", author=author, timestamp=timestamp, content=content(*parts))


def session(*events: Event, id: str = "s1", app_name: str = "shop", user_id: str = "alice") -> Session:
    return Session(id=id, app_name=app_name, user_id=user_id, events=list(events))


def add(service: SalienceMemoryService, *events: Event, **where: str) -> None:
    asyncio.run(service.add_session_to_memory(session(*events, **where)))


def found(
    service: SalienceMemoryService, query: str, app_name: str = "shop", user_id: str = "alice"
) -> list[MemoryEntry]:
    answer = asyncio.run(service.search_memory(app_name=app_name, user_id=user_id, query=query))
    return answer.memories


def texts(entries: list[MemoryEntry]) -> list[str | None]:
    return [entry.content.parts[0].text for entry in entries]  # type: ignore[index]


def test_the_service_has_every_method_of_the_interface(local):
    service = SalienceMemoryService(local)
    assert isinstance(service, BaseMemoryService)
    public = {name for name in vars(BaseMemoryService) if not name.startswith("_")}
    assert public <= set(vars(SalienceMemoryService))


def test_a_session_is_found_with_author_time_and_session(memory):
    service = SalienceMemoryService(memory)
    add(service, event("e1", TEA), event("e2", "Noted.", author="waiter"))
    best = found(service, "Does she drink coffee?")[0]
    assert (texts([best]), best.author, best.content.role) == ([TEA], "user", "user")
    assert best.timestamp == "2023-11-14T22:13:20+00:00"
    assert best.custom_metadata["adk_event"] == "e1"
    assert 0 <= best.custom_metadata["confidence"] <= 1
    stored = memory.list(project="shop", user_id="alice").memories
    assert [(turn.kind, turn.speaker, turn.scope.session_id) for turn in stored] == [
        ("turn", "user", "s1"), ("turn", "waiter", "s1"),
    ]  # fmt: skip


def test_an_event_whose_text_changed_is_stored_beside_the_former(local):
    service = SalienceMemoryService(local)
    add(service, event("e1", TEA))
    asyncio.run(service.add_events_to_memory(**ALICE, events=[event("e1", "Changed.")], session_id="s1"))
    assert [turn.content for turn in local.list(project="shop", user_id="alice").memories] == [TEA, "Changed."]


def test_a_memory_with_a_known_id_replaces_the_former(local):
    service = SalienceMemoryService(local)
    for text in ("Alice drinks green tea.", "Alice drinks black tea."):
        asyncio.run(service.add_memory(**ALICE, memories=[MemoryEntry(id="m1", content=content(text))]))
    assert texts(found(service, "Which tea does Alice drink?")) == ["Alice drinks black tea."]
    assert len(local.list(project="shop", user_id="alice").memories) == 2  # the former one is kept


def test_a_session_that_is_added_again_adds_its_new_events_only(local):
    service = SalienceMemoryService(local)
    add(service, event("e1", TEA))
    add(service, event("e1", TEA), event("e2", "And a biscuit."))
    assert [turn.content for turn in local.list(project="shop", user_id="alice").memories] == [TEA, "And a biscuit."]


def test_events_of_one_id_in_two_sessions_are_two(local):
    service = SalienceMemoryService(local)
    add(service, event("e1", TEA))
    add(service, event("e1", "And a biscuit."), id="s2")
    assert len(local.list(project="shop", user_id="alice").memories) == 2


def test_events_without_text_are_left_out(local):
    service = SalienceMemoryService(local)
    call = types.Part(function_call=types.FunctionCall(name="search", args={}))
    empty = Event(invocation_id="i", author="user")
    add(service, event("e1", call), event("e2", types.Part(text="Hmm, tea?", thought=True)), event("e3", " \n"), empty)
    assert local.list(project="shop", user_id="alice").memories == ()
    add(service, event("e4", call, "Both", "parts"))
    assert local.list(project="shop", user_id="alice").memories[0].content == "Both\nparts"


def test_a_delta_of_events_keeps_the_metadata(memory):
    service = SalienceMemoryService(memory)
    delta = [event("e1", TEA)]
    for session_id in ("s1", "s1", None):
        asyncio.run(
            service.add_events_to_memory(
                **ALICE, events=delta, session_id=session_id, custom_metadata={"channel": "web"}
            )
        )
    asyncio.run(service.add_events_to_memory(**ALICE, events=[]))
    stored = memory.list(project="shop", user_id="alice").memories
    assert [turn.scope.session_id for turn in stored] == ["s1", "adk:no-session"]
    assert stored[0].metadata["channel"] == "web"


def test_memories_are_stored_as_facts(memory):
    service = SalienceMemoryService(memory)
    entry = MemoryEntry(
        id="m1",
        content=content(TEA),
        author="user",
        timestamp="2024-05-01T10:00:00",
        custom_metadata={"source": "form"},
    )
    for _ in range(2):
        asyncio.run(service.add_memory(**ALICE, memories=[entry], custom_metadata={"ttl": "30d", "batch": 7}))
    (stored,) = memory.list(project="shop", user_id="alice", statuses=["expired"]).memories
    assert (stored.kind, dict(stored.metadata)) == ("fact", {"source": "form", "batch": 7})
    assert stored.expires_at.isoformat() == "2024-05-31T10:00:00+00:00"
    with pytest.raises(InputError, match="memories is missing"):
        asyncio.run(service.add_memory(**ALICE, memories=[MemoryEntry(content=content(" "))]))


def test_users_and_apps_do_not_see_each_other(memory):
    service = SalienceMemoryService(memory)
    add(service, event("e1", TEA))
    add(service, event("e2", "Bob takes coffee, no tea."), user_id="bob")
    assert texts(found(service, "tea or coffee?", user_id="bob")) == ["Bob takes coffee, no tea."]
    assert found(service, "tea or coffee?", user_id="carol") == []
    assert found(service, "tea or coffee?", app_name="bank") == []
    add(service, event("e3", TEA), app_name="a/b", user_id="c")
    assert found(service, "tea or coffee?", app_name="a", user_id="b/c") == []
    for user in ("", "*"):
        with pytest.raises(InputError, match="user_id"):
            found(service, "tea?", user_id=user)
        with pytest.raises(InputError, match="app_name"):
            found(service, "tea?", app_name=user)


def test_memories_that_all_users_share_are_found_but_not_deleted(local):
    service = SalienceMemoryService(local)
    shared = local.remember("The shop sells tea from nine to five.", project="shop").memory
    assert [entry.id for entry in found(service, "When is tea sold?")] == [shared.id]
    with pytest.raises(NotFoundError):
        asyncio.run(service.delete_memory(**ALICE, memory_id=shared.id))
    assert local.get(shared.id).status == "live"


def test_a_deleted_memory_does_not_return_with_its_session(memory):
    service = SalienceMemoryService(memory)
    add(service, event("e1", TEA))
    (entry,) = found(service, "tea?")
    with pytest.raises(NotFoundError):
        asyncio.run(service.delete_memory(app_name="shop", user_id="bob", memory_id=entry.id))
    asyncio.run(service.delete_memory(**ALICE))
    asyncio.run(service.delete_memory(**ALICE, memory_id=entry.id))
    add(service, event("e1", TEA))
    assert found(service, "tea?") == []
    assert [version.memory.change for version in memory.history(entry.id, user_id="alice")] == ["create", "forget"]


def test_weak_memories_can_be_left_out(local):
    add(SalienceMemoryService(local), event("e1", "The parcel left Oslo on Tuesday."))
    query = "Who travels on Tuesday?"
    assert [entry.custom_metadata["weak"] for entry in found(SalienceMemoryService(local), query)] == [True]
    assert found(SalienceMemoryService(local, weak=False), query) == []
    assert found(SalienceMemoryService(local), " ") == []


class Script(BaseLlm):
    """A model that gives scripted answers and keeps its requests."""

    model: str = "script"
    answers: list[types.Part]
    requests: list[str]

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        self.requests.append(str([one.model_dump() for one in llm_request.contents]))
        yield LlmResponse(content=types.Content(role="model", parts=[self.answers.pop(0)]))


async def run(service: Any, model: Script, tool: Any, text: str, user_id: str = "alice") -> None:
    sessions = InMemorySessionService()
    agent = LlmAgent(name="waiter", model=model, tools=[tool])
    runner = Runner(app_name="shop", agent=agent, session_service=sessions, memory_service=service)
    started = await sessions.create_session(app_name="shop", user_id=user_id)
    async for _ in runner.run_async(user_id=user_id, session_id=started.id, new_message=content(text)):
        pass
    ended = await sessions.get_session(app_name="shop", user_id=user_id, session_id=started.id)
    await service.add_session_to_memory(ended)


def test_an_agent_remembers_across_sessions(memory):
    service = SalienceMemoryService(memory)
    model = Script(answers=[types.Part(text=answer) for answer in ("Noted.", "Tea.", "No idea.")], requests=[])
    asyncio.run(run(service, model, preload_memory, TEA))
    asyncio.run(run(service, model, preload_memory, "What do I drink, tea or coffee?"))
    asyncio.run(run(service, model, preload_memory, "Do I drink tea or coffee?", user_id="bob"))
    assert [TEA in request for request in model.requests] == [True, True, False]


def test_an_agent_searches_its_memory_with_the_tool(local):
    service = SalienceMemoryService(local)
    call = types.Part(function_call=types.FunctionCall(name="load_memory", args={"query": "tea or coffee"}))
    model = Script(answers=[types.Part(text="Noted."), call, types.Part(text="Tea.")], requests=[])
    asyncio.run(run(service, model, load_memory, TEA))
    asyncio.run(run(service, model, load_memory, "What do I drink?"))
    assert [TEA in request for request in model.requests] == [True, False, True]
