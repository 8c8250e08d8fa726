"""A user's way: the server is entered in a client's configuration, one session remembers, and the next recalls."""

from __future__ import annotations

import json
import subprocess

import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from mcp_servers import COMMAND, TABS, surroundings, text_of

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


async def test_what_one_session_remembers_the_next_recalls(tmp_path):
    env = surroundings(tmp_path)
    install = [COMMAND, "mcp", "install", "--client", "claude-code", "--yes"]
    subprocess.run(install, env=env, check=True, capture_output=True, timeout=120)
    entry = json.loads((tmp_path / ".claude.json").read_text())["mcpServers"]["salience"]
    assert entry.pop("type") == "stdio"
    started = StdioServerParameters(**entry, env=env)
    async with Client(stdio_client(started)) as client:
        assert not (await client.call_tool("remember", {"content": TABS})).is_error
    async with Client(stdio_client(started), mode="legacy") as client:
        assert TABS in text_of(await client.call_tool("recall", {"query": "What does Alice prefer?"}))
