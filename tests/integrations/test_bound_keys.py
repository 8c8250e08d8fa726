"""With a key that is bound to a user, adapters need no `user_id`: the server adds it."""

from __future__ import annotations

import anyio
import pytest
from agent_framework import Message
from llama_index.core.base.llms.types import ChatMessage

import salience
import servers
from salience.integrations.agent_framework import SalienceHistoryProvider
from salience.integrations.anthropic import SalienceMemoryTool
from salience.integrations.llama_index import SalienceChatStore
from salience.integrations.openai_agents import SalienceSession
from salience.integrations.pydantic_ai import SalienceMemoryStore
from salience.server import auth as access
from salience.store.keyring import MemoryKeyring

pytestmark = pytest.mark.slow


@pytest.fixture
def clients(local):
    """Yield clients of two users, each with a key of its own."""
    keyring = MemoryKeyring()
    tokens = []
    for user in ("alice", "bob"):
        token, key = access.create_key(
            "default", ["read", "write"], {"user_id": user}, None, None, local.services.clock()
        )
        keyring.add(key)
        tokens.append(token)
    with (
        servers.live(local, keyring) as url,
        salience.connect(url, api_key=tokens[0]) as alice,
        salience.connect(url, api_key=tokens[1]) as bob,
    ):
        yield alice, bob


def test_files(clients):
    alice, bob = map(SalienceMemoryTool, clients)
    create = {"command": "create", "path": "/memories/a.txt", "file_text": "one"}
    for tool in (alice, bob):
        assert tool.call(create) == "File created successfully at: /memories/a.txt"
        tool.call({"command": "str_replace", "path": "/memories/a.txt", "old_str": "one", "new_str": "two"})
        assert tool.call({"command": "view", "path": "/memories/a.txt"}).endswith("\ttwo")
    bob.call({"command": "delete", "path": "/memories/a.txt"})
    assert alice.call({"command": "view", "path": "/memories/a.txt"}).endswith("\ttwo")


def test_sessions(clients):
    async def main():
        alice, bob = (SalienceSession(client, "s1") for client in clients)
        await alice.add_items([{"role": "user", "content": "one"}])
        return await alice.get_items(), await bob.get_items()

    assert anyio.run(main) == ([{"role": "user", "content": "one"}], [])


def test_stores(clients):
    async def main():
        alice, bob = map(SalienceMemoryStore, clients)
        await alice.write("main/MEMORY.md", "one", expected_version=None)
        return await alice.list_paths(limit=10), await bob.list_paths(limit=10)

    assert anyio.run(main) == (["main/MEMORY.md"], [])


def test_histories_of_the_agent_framework(clients):
    async def main():
        alice, bob = map(SalienceHistoryProvider, clients)
        await alice.save_messages("s1", [Message("user", ["one"])])
        return [[message.text for message in await one.get_messages("s1")] for one in (alice, bob)]

    assert anyio.run(main) == [["one"], []]


def test_chats_of_llama_index(clients):
    async def main():
        alice, bob = map(SalienceChatStore, clients)
        await alice.add_message("s1", ChatMessage(role="user", content="one"))
        return [[message.content for message in await one.get_messages("s1")] for one in (alice, bob)]

    assert anyio.run(main) == [["one"], []]
