"""Providers of the Microsoft Agent Framework: a session's history, and memories across sessions."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from typing import Any

import anyio
import pytest

from salience.errors import InputError

agent_framework = pytest.importorskip("agent_framework")
from agent_framework import Agent, AgentSession, BaseChatClient, ChatResponse, Content, Message  # noqa: E402

from salience.integrations.agent_framework import SalienceContextProvider, SalienceHistoryProvider  # noqa: E402

TEA = "I only drink green tea, never coffee."


class Parrot(BaseChatClient):
    """A model that keeps the prompts that it gets and gives the same answer to each."""

    def __init__(self) -> None:
        super().__init__()
        self.prompts: list[list[str]] = []

    def _inner_get_response(
        self, *, messages: Sequence[Message], stream: bool, options: Mapping[str, Any], **kwargs: Any
    ) -> Awaitable[ChatResponse]:
        async def answer() -> ChatResponse:
            self.prompts.append([message.text for message in messages])
            return ChatResponse(messages=[Message("assistant", ["Understood."])])

        return answer()


def run(agent: Agent, text: str, session: AgentSession) -> None:
    async def main() -> None:
        await agent.run(text, session=session)

    anyio.run(main)


def loaded(provider: SalienceHistoryProvider, session_id: str) -> list[Message]:
    return anyio.run(provider.get_messages, session_id)


def test_a_memory_of_one_session_is_in_the_prompt_of_the_next(memory):
    model = Parrot()
    agent = Agent(model, context_providers=[SalienceContextProvider(memory, user_id="alice")])
    run(agent, TEA, AgentSession(session_id="one"))
    run(agent, "What does she drink in the morning, tea or coffee?", AgentSession(session_id="two"))
    assert TEA in "".join(model.prompts[1])
    assert TEA not in model.prompts[1][-1]
    stored = memory.list(user_id="alice").memories
    assert [(turn.speaker, turn.scope.session_id) for turn in stored] == [
        ("user", "one"), ("assistant", "one"), ("user", "two"), ("assistant", "two"),
    ]  # fmt: skip


def test_users_do_not_see_each_other(memory):
    model = Parrot()
    users = {"a1": "alice", "b1": "bob", "a2": "alice"}
    agent = Agent(model, context_providers=[SalienceContextProvider(memory, user_id=users.__getitem__)])
    run(agent, TEA, AgentSession(session_id="a1"))
    run(agent, "Tea or coffee?", AgentSession(session_id="b1"))
    assert model.prompts[1] == ["Tea or coffee?"]
    run(agent, "Tea or coffee?", AgentSession(session_id="a2"))
    assert TEA in "".join(model.prompts[2])


def test_the_history_of_a_session_survives_the_process(memory):
    model = Parrot()
    run(
        Agent(model, context_providers=[SalienceHistoryProvider(memory, user_id="alice")]),
        TEA,
        AgentSession(session_id="s"),
    )
    again = Agent(model, context_providers=[SalienceHistoryProvider(memory, user_id="alice")])
    run(again, "And today?", AgentSession(session_id="s"))
    assert model.prompts[1] == [TEA, "Understood.", "And today?"]
    run(again, "Anything?", AgentSession(session_id="other"))
    assert model.prompts[2] == ["Anything?"]


def test_history_belongs_to_its_user_agent_and_project(local):
    where = {"user_id": "alice", "agent_id": "cook", "project": "kitchen"}
    own = SalienceHistoryProvider(local, **where)
    anyio.run(own.save_messages, "s", [Message("user", ["Salt?"])])
    for name in where:
        assert loaded(SalienceHistoryProvider(local, **{**where, name: "other"}), "s") == []
    shared = SalienceHistoryProvider(local)
    anyio.run(shared.save_messages, "s", [Message("user", ["Shared with every user."])])
    assert [message.text for message in loaded(own, "s")] == ["Salt?"]
    assert [message.text for message in loaded(shared, "s")] == ["Shared with every user."]


def test_messages_come_back_as_they_were(memory):
    provider = SalienceHistoryProvider(memory, user_id="alice")
    messages = [
        Message("user", ["One text, with its white space. \n"], author_name="Al", message_id="m1"),
        Message("user", [" \n"]),
        Message("user", []),
        Message("user", ["a\0b"]),
        Message("user", ["one", "two"], additional_properties={"nested": {"list": [1, None, "ü"]}}),
        Message("assistant", [Content.from_function_call("c1", "search", arguments='{"q": "tea"}')]),
        Message("tool", [Content.from_function_result("c1", result="green " * 15_000)]),
        Message("user", ["Look:", Content.from_data(b"\x00\xff" * 25_000, media_type="image/png")]),
        Message("user", ["word " * 15_000]),
    ]
    anyio.run(provider.save_messages, "s", messages)
    assert [message.to_dict() for message in loaded(provider, "s")] == [message.to_dict() for message in messages]


def test_a_retry_stores_nothing_twice(memory):
    provider = SalienceHistoryProvider(memory, user_id="alice")
    messages = [Message("user", ["ok"]), Message("user", ["ok"])]
    anyio.run(provider.save_messages, "s", messages)
    anyio.run(provider.save_messages, "s", messages)
    assert [message.text for message in loaded(provider, "s")] == ["ok", "ok"]


def test_two_providers_of_an_agent_store_each_message_once(local):
    providers = [SalienceContextProvider(local, user_id="alice"), SalienceHistoryProvider(local, user_id="alice")]
    run(Agent(Parrot(), context_providers=providers), TEA, AgentSession(session_id="s"))
    assert len(local.list(user_id="alice").memories) == 2


def test_nothing_is_stored_without_store(local):
    provider = SalienceContextProvider(local, user_id="alice", store=False)
    run(Agent(Parrot(), context_providers=[provider]), TEA, AgentSession(session_id="s"))
    assert local.list(user_id="alice").memories == ()


def test_a_history_needs_a_session(local):
    with pytest.raises(InputError, match="session_id is missing"):
        loaded(SalienceHistoryProvider(local), None)
