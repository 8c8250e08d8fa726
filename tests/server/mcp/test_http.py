"""MCP over HTTP: who is let in, from where, and both eras of the protocol."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager

import anyio
import httpx
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from starlette.applications import Starlette
from starlette.routing import Route

from mcp_servers import TABS, grant, site, text_of
from salience.errors import BusyError
from salience.server.auth import Authenticator, create_key
from salience.server.gate import Gate
from salience.server.mcp import http
from salience.server.rest.app import Options
from salience.server.shares import Threads
from salience.store.keyring import MemoryKeyring
from servers import served
from waiting import PATIENCE

pytestmark = [pytest.mark.anyio, pytest.mark.slow]
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
}
ACCEPT = {"Accept": "application/json, text/event-stream"}


@pytest.fixture
def bare(engine):
    """A function from options to the URL of MCP without another application around it."""

    def bare(door=None, **options):
        endpoint = http.Endpoint(Gate(engine), door or Authenticator([], grant), **options)
        made = Starlette(routes=[Route(http.PATH, endpoint)], lifespan=lambda _: endpoint.running())
        return served(made)

    return bare


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_memories_persist_between_sessions(engine, mode):
    with site(engine) as url:
        async with Client(url, mode=mode) as client:
            await client.call_tool("remember", {"content": TABS})
        async with Client(url, mode=mode) as client:
            assert TABS in text_of(await client.call_tool("recall", {"query": "query"}))
            assert len((await client.list_prompts()).prompts) == 4
            assert (await client.read_resource("salience://bootstrap")).contents


async def test_any_worker_answers_any_request(engine, bare):
    with bare() as one, bare() as other, httpx.Client(headers=ACCEPT, timeout=PATIENCE) as client:
        client.post(f"{one}/mcp", json=INITIALIZE).raise_for_status()
        arguments = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
        answer = client.post(f"{other}/mcp", json=arguments, headers={"MCP-Protocol-Version": "2025-06-18"})
    assert answer.headers["content-type"] == "application/json"
    assert "mcp-session-id" not in answer.headers
    assert len(answer.json()["result"]["tools"]) == 7


async def test_many_at_once_are_answered(engine):
    answers = []

    async def recall(client):
        answers.append(await client.call_tool("recall", {"query": "query"}))

    engine.remember(TABS)
    with site(engine, threads=Threads(2)) as url:
        async with Client(url) as client, anyio.create_task_group() as tasks:
            for _ in range(20):
                tasks.start_soon(recall, client)
    assert [answer.is_error for answer in answers] == [False] * 20


@pytest.fixture
def keyring():
    return MemoryKeyring()


@pytest.fixture
def key(engine, keyring):
    """A function from rights and a bound to the token of a new key and its prefix."""

    def key(*rights, **bound):
        token, kept = create_key("default", rights or ("read", "write"), bound, None, None, engine.services.clock())
        keyring.add(kept)
        return token, kept.prefix

    return key


@asynccontextmanager
async def shown(url, token):
    headers = {"Authorization": f"Bearer {token}"}
    async with (
        httpx.AsyncClient(headers=headers, timeout=PATIENCE) as sending,
        Client(streamable_http_client(url, http_client=sending)) as client,
    ):
        yield client


async def test_keys_carry_rights_and_bounds(engine, keyring, key):
    engine.remember(TABS, project="parcel")
    token, _ = key("read", project="parcel")
    with site(engine, keyring) as url:
        async with shown(url, token) as client:
            assert TABS in text_of(await client.call_tool("list", {}))
            assert (await client.call_tool("remember", {"content": "x"})).is_error
            assert "remember" not in {tool.name for tool in (await client.list_tools()).tools}


@pytest.mark.parametrize("authorization", [None, "Bearer sal_000000000000_" + "0" * 64, "Basic abc", "Bearer"])
async def test_invalid_keys_are_refused(engine, keyring, authorization):
    headers = {**ACCEPT, **({"Authorization": authorization} if authorization else {})}
    with site(engine, keyring) as url:
        answer = httpx.post(url, json=INITIALIZE, headers=headers, timeout=PATIENCE)
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == "Bearer"
    assert answer.json()["type"] == "urn:salience:problem:access"


async def test_refusals_name_the_resource_metadata(engine, keyring, bare):
    metadata = "https://memory.example.org/.well-known/oauth-protected-resource"
    with bare(Authenticator([]), metadata_url=metadata) as url:
        answer = httpx.post(f"{url}/mcp", json=INITIALIZE, headers=ACCEPT, timeout=PATIENCE)
    assert answer.headers["www-authenticate"] == f'Bearer resource_metadata="{metadata}"'


async def test_a_busy_store_is_a_503(bare):
    def busy(_):
        raise BusyError("The store is busy.")

    with bare(Authenticator([busy])) as url:
        answer = httpx.post(
            f"{url}/mcp", json=INITIALIZE, headers={**ACCEPT, "Authorization": "Bearer x"}, timeout=PATIENCE
        )
    assert (answer.status_code, answer.json()["type"]) == (503, "urn:salience:problem:busy")


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT"])
async def test_get_and_delete_are_not_allowed(engine, method):
    with site(engine) as url:
        answer = httpx.request(method, url, headers=ACCEPT, timeout=PATIENCE)
    assert answer.status_code == 405
    assert answer.headers["allow"] == "POST"


@pytest.mark.parametrize("era", ["2025-06-18", "2026-07-28"])
@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example"}, 403),
        ({"Host": "evil.example", "Origin": "http://evil.example"}, 403),
        ({"Host": "127.0.0.1.evil.example"}, 403),
        ({"Host": "memory.example.org"}, 200),
        ({"Host": "memory.example.org:8484"}, 200),
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "https://app.example.org"}, 200),
        ({"Origin": "http://localhost:6274"}, 403),
        ({"Origin": "null"}, 403),
    ],
)
async def test_hosts_and_origins_are_checked(engine, era, headers, status):
    options = Options(hosts=("memory.example.org",), origins=("https://app.example.org",))
    with site(engine, options=options) as url:
        answer = httpx.post(url, json=_asked(era), headers={**ACCEPT, **_standing(era), **headers}, timeout=PATIENCE)
    assert answer.status_code == status, answer.text


def _asked(era):
    if era < "2026":
        return INITIALIZE
    meta = {"protocolVersion": era, "clientInfo": {"name": "t", "version": "1"}, "clientCapabilities": {}}
    named = {f"io.modelcontextprotocol/{name}": value for name, value in meta.items()}
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": named}}


def _standing(era):
    return {} if era < "2026" else {"MCP-Protocol-Version": era, "Mcp-Method": "tools/list"}


async def test_bodies_above_the_limit_are_refused(bare):
    with bare(body_limit=2000) as url:
        answer = httpx.post(f"{url}/mcp", json={**INITIALIZE, "more": "x" * 3000}, headers=ACCEPT, timeout=PATIENCE)
    assert answer.status_code == 413


@pytest.mark.parametrize("body", [b"SECRET", b"[]", b'{"jsonrpc": "2.0"}', b"[" * 100_000])
async def test_invalid_messages_are_refused(engine, body, caplog):
    with site(engine) as url:
        answer = httpx.post(url, content=body, headers={**ACCEPT, "Content-Type": "application/json"}, timeout=PATIENCE)
    assert answer.status_code == 400
    assert "SECRET" not in caplog.text
    assert json.loads(answer.text)["error"]["code"] in (-32700, -32600, -32602)
