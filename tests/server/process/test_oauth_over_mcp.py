"""A client that knows no more than our address: refused, it reads who grants access, gets a token there, and calls."""

import socket
import time

import anyio
import httpx
import httpx2
import pytest
from mcp import ClientSession
from mcp.client.auth.extensions.client_credentials import ClientCredentialsOAuthProvider
from mcp.client.streamable_http import streamable_http_client

from issuers import Issuer
from salience import settings
from salience.server.app import build_app
from salience.server.mcp.http import METADATA, protected_resource
from salience.server.process import ServerConfig
from servers import served
from waiting import PATIENCE

pytestmark = pytest.mark.slow

CALL = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
HEADERS = {"accept": "application/json, text/event-stream"}


class Storage:
    """Keeps what a client was given."""

    def __init__(self):
        self.tokens = self.client = None

    async def get_tokens(self):
        return self.tokens

    async def set_tokens(self, tokens):
        self.tokens = tokens

    async def get_client_info(self):
        return self.client

    async def set_client_info(self, client):
        self.client = client


@pytest.fixture(scope="module")
def issuer():
    with Issuer() as running:
        running.now = time.time
        running.add("first")
        yield running


@pytest.fixture(scope="module")
def served_to(issuer):
    """The address of a server that takes the tokens of the issuer."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        chosen = settings.load(
            url=":memory:", oauth_issuer=issuer.url, oauth_audience=f"{url}/mcp", server_upkeep="forever"
        )
        with build_app(ServerConfig(settings=chosen, embedder="static")) as site, served(site.asgi, listening):
            yield url


def test_who_has_no_token_learns_where_to_get_one(served_to, issuer):
    for headers in ({}, {"authorization": "Bearer nothing"}, {"authorization": "Basic Zm9vOmJhcg=="}):
        answer = httpx.post(f"{served_to}/mcp", json=CALL, headers={**HEADERS, **headers}, timeout=PATIENCE)
        assert answer.status_code == 401
        text = answer.headers["www-authenticate"]
        assert text.startswith("Bearer ")
        url = text.partition('resource_metadata="')[2].rstrip('"')
        for where in (url, served_to + METADATA):
            result = httpx.get(where, timeout=PATIENCE)
            assert (result.status_code, result.json()["resource"]) == (200, f"{served_to}/mcp")
            assert result.json()["authorization_servers"] == [issuer.url]
            assert result.json()["scopes_supported"] == ["salience:read", "salience:write", "salience:admin"]


def test_the_official_client_finds_its_way(served_to, issuer):
    storage = Storage()

    async def way():
        credentials = ClientCredentialsOAuthProvider(
            f"{served_to}/mcp", storage, "robot", "secret", scope="salience:read salience:write", issuer=issuer.url
        )
        async with (
            httpx2.AsyncClient(auth=credentials, timeout=PATIENCE) as client,
            streamable_http_client(f"{served_to}/mcp", http_client=client) as streams,
            ClientSession(*streams[:2]) as session,
        ):
            await session.initialize()
            kept = await session.call_tool("remember", {"content": "The door is green."})
            found = await session.call_tool("recall", {"query": "What colour is the door?"})
            return kept, found

    kept, found = anyio.run(way)
    assert not kept.is_error
    assert kept.structured_content["status"] == "created"
    assert "The door is green." in found.content[0].text
    assert storage.tokens.access_token.count(".") == 2


def test_an_audience_that_is_no_url_has_no_metadata():
    assert protected_resource("salience", "https://id.example.org") == (None, ())
    url, routes = protected_resource("https://memory.example.org/mcp", "https://id.example.org")
    assert url == f"https://memory.example.org{METADATA}/mcp"
    assert [route.path for route in routes] == [f"{METADATA}/mcp", METADATA]


@pytest.mark.parametrize(
    ("claims", "status"),
    [
        ({}, 200),
        ({"aud": "https://other.example.org/mcp"}, 401),
        ({"exp": 1}, 401),
        ({"tenant": None}, 401),
        ({"scope": "openid"}, 401),
    ],
    ids=str,
)
def test_rest_and_mcp_take_the_same_tokens(served_to, issuer, claims, status):
    token = issuer.token("first", **{"aud": f"{served_to}/mcp", **claims})
    shown = {"authorization": f"Bearer {token}"}
    assert (
        httpx.post(f"{served_to}/mcp", json=CALL, headers={**HEADERS, **shown}, timeout=PATIENCE).status_code == status
    )
    answer = httpx.get(f"{served_to}/v1/stats", headers=shown, timeout=PATIENCE)
    assert answer.status_code == status
    assert token not in answer.text


def test_what_a_token_does_not_allow_is_forbidden(served_to, issuer):
    token = issuer.token("first", aud=f"{served_to}/mcp", scope="salience:read", salience_bound={"user_id": "alice"})
    with httpx.Client(base_url=served_to, timeout=PATIENCE, headers={"authorization": f"Bearer {token}"}) as client:
        assert client.post("/v1/memories", json={"content": "x"}).status_code == 403
        assert client.get("/v1/memories", params={"user_id": "bob"}).status_code == 403
        assert client.get("/v1/memories", params={"user_id": "*"}).status_code == 200
