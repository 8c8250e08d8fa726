"""A server of memories behind MCP: tools that ask it through a client."""

from __future__ import annotations

import pytest
from mcp import Client

import salience
from mcp_servers import TABS, text_of
from salience.server.mcp.server import server
from salience.server.mcp.tools import TOOLS, RemoteCaller
from servers import live

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


@pytest.mark.parametrize("read_only", [False, True])
async def test_tools_work_on_a_server_as_on_an_engine(engine, read_only):
    id = engine.remember(TABS, project="parcel").memory.id
    with live(engine) as url, salience.connect(url) as memory:
        asker = RemoteCaller(memory, {"project": "parcel"}, read_only)
        async with Client(server(lambda _: asker, tools=TOOLS)) as client:
            tools = {tool.name for tool in (await client.list_tools()).tools}
            recalled = await client.call_tool("recall", {"query": "query", "profile": "zeromemory"})
            everywhere = await client.call_tool("list", {"project": "*"})
            said_so = {"session_id": "monday", "messages": [{"role": "user", "content": "Hello"}]}
            written = await client.call_tool("ingest", said_so)
            refused = await client.call_tool("recall", {"query": "query", "profile": "nonsense"})
            known = (await client.read_resource("salience://bootstrap")).contents[0].text
    assert TABS in text_of(recalled)
    assert TABS in text_of(everywhere)
    assert written.is_error == read_only
    assert ("remember" in tools) != read_only
    assert text_of(refused).startswith("profile 'nonsense' is unknown. Choose one of: ")
    assert "bootstrap" in known
    assert engine.get(id, project="parcel").access_count == (0 if read_only else 1)


async def test_an_unreachable_server_is_an_error_of_each_call():
    with salience.connect("http://127.0.0.1:9", api_key="sal_secret") as memory:
        async with Client(server(lambda _: RemoteCaller(memory), tools=TOOLS)) as client:
            answer = await client.call_tool("help", {})
    assert answer.is_error
    assert "sal_secret" not in text_of(answer)
