"""Who may call: the names of the server, the origins of pages, and what each answer carries."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio.to_thread
import httpx
import pytest
from starlette.responses import PlainTextResponse
from starlette.testclient import TestClient

import servers
from salience.engine import Engine
from salience.server.rest.app import HEAD_LIMIT, Options, RequestGuard
from salience.server.shares import Threads
from waiting import PATIENCE

PAGE = "https://app.example.org"


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200),
        ("LOCALHOST:8484", 200),
        ("127.0.0.1:1", 200),
        ("[::1]:8484", 200),
        ("memory.example.org", 200),
        ("memory.example.org:443", 200),
        ("memory.example.org.:443", 200),
        ("evil.example", 403),
        ("memory.example.org.evil.example", 403),
        ("evil.example:127.0.0.1", 403),
        ("127.0.0.1.evil.example", 403),
        ("", 403),
    ],
)
def test_unknown_hosts_are_refused(host: str, status: int, standing: httpx.Client) -> None:
    answer = standing.get("/v1/stats", headers={"host": host})
    assert answer.status_code == status
    assert answer.is_success or "SALIENCE_SERVER_HOSTS" in answer.json()["detail"]


def test_any_host_can_be_accepted(engine: Engine) -> None:
    with servers.live(engine, hosts=("*",)) as url:
        assert httpx.get(f"{url}/v1/stats", headers={"host": "any.example"}, timeout=PATIENCE).status_code == 200


@pytest.mark.parametrize("header", ["X-Forwarded-For", "Forwarded", "X-Real-IP", "Via"])
def test_proxies_are_refused_while_no_key_exists(header: str, engine: Engine) -> None:
    for is_open, status in ((True, 403), (False, 200)):
        with servers.live(engine, is_open=lambda is_open=is_open: is_open) as url:
            answer = httpx.get(f"{url}/v1/stats", headers={header: "203.0.113.9"}, timeout=PATIENCE)
            assert answer.status_code == status
            assert httpx.get(f"{url}/v1/stats", timeout=PATIENCE).status_code == 200


@pytest.mark.parametrize("path", ["/v1/recall", "/healthz"])
@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"X-Padding": "x" * (HEAD_LIMIT // 2)}, 200),
        ({"X-Padding": "x" * HEAD_LIMIT}, 431),
        ({f"X-{number}": "x" * 1000 for number in range(70)}, 431),
        ({"Content-Length": "2"}, 200),
        ({"Content-Length": "2", "Transfer-Encoding": "chunked"}, 400),
    ],
)
def test_a_long_head_and_two_lengths_of_a_body_are_refused(path: str, headers: dict[str, str], status: int) -> None:
    client = TestClient(RequestGuard(PlainTextResponse("reached"), Options()), base_url="http://localhost")
    answer = client.post(path, content=b"{}", headers=headers)
    assert answer.status_code == status
    assert (answer.text == "reached") == (status == 200)


def test_two_authorization_headers_are_refused(standing: httpx.Client) -> None:
    for shown in (("Bearer sal_one", "Bearer sal_two"), ("Bearer sal_one", "Bearer sal_one"), ("", "Basic x")):
        answer = standing.get("/v1/stats", headers=[("Authorization", one) for one in shown])
        assert answer.status_code == 400
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.json()["detail"] == "Authorization: given twice. Send one header."
        assert answer.json()["status"] == 400
    assert standing.get("/v1/stats", headers=[("Authorization", "Bearer sal_one")]).status_code == 200


def test_probes_accept_any_host(standing: httpx.Client) -> None:
    foreign = {"host": "10.0.0.7:8484", "origin": "https://evil.example"}
    assert [standing.get(path, headers=foreign).status_code for path in ("/healthz", "/readyz")] == [200, 200]


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://localhost:3000", PAGE])
def test_foreign_origins_are_refused(origin: str, standing: httpx.Client) -> None:
    answers = [
        standing.post("/v1/memories", json={"content": "x"}, headers={"origin": origin}),
        standing.options("/v1/memories", headers={"origin": origin, "access-control-request-method": "POST"}),
    ]
    for answer in answers:
        assert (answer.status_code, answer.headers["content-type"]) == (403, "application/problem+json")
        assert not [name for name in answer.headers if name.startswith("access-control")]
    assert standing.get("/v1/stats").json()["memories"] == 0


def test_configured_origins_are_accepted(engine: Engine) -> None:
    with servers.live(engine, origins=(PAGE,)) as url, servers.client(url) as client:
        arguments = {
            "access-control-request-method": "PATCH",
            "access-control-request-headers": "authorization,if-match",
        }
        before = client.options("/v1/memory/x", headers={"origin": PAGE, **arguments})
        answer = client.get("/v1/stats", headers={"origin": PAGE})
        wrong = client.get("/v1/nothing", headers={"origin": PAGE})
        foreign = client.options("/v1/stats", headers={"origin": "https://evil.example", **arguments})
    assert "PATCH" in before.headers["access-control-allow-methods"]
    assert "if-match" in before.headers["access-control-allow-headers"]
    assert "ETag" in answer.headers["access-control-expose-headers"]
    assert {one.headers["access-control-allow-origin"] for one in (before, answer, wrong)} == {PAGE}
    assert (foreign.status_code, "access-control-allow-origin" in foreign.headers) == (403, False)


@pytest.mark.parametrize("path", ["/v1/stats", "/v1/nothing", "/healthz", "/openapi.json"])
def test_every_response_has_a_request_id_and_is_not_cached(path: str, standing: httpx.Client) -> None:
    answer = standing.get(path)
    assert re.fullmatch("[0-9a-f]{32}", answer.headers["x-request-id"])
    assert (answer.headers["cache-control"], answer.headers["x-content-type-options"]) == ("no-store", "nosniff")


@pytest.mark.parametrize(
    ("given", "is_kept"), [("trace-1:a.B_2", True), ("a b", False), ("x" * 65, False), ("", False)]
)
def test_valid_request_ids_of_callers_are_used(given: str, is_kept: bool, standing: httpx.Client) -> None:
    assert (standing.get("/v1/stats", headers={"x-request-id": given}).headers["x-request-id"] == given) == is_kept


def test_the_number_of_threads_is_limited(engine: Engine) -> None:
    seen: list[float] = []

    @asynccontextmanager
    async def lifespan(_: object) -> AsyncIterator[None]:
        seen.append(anyio.to_thread.current_default_thread_limiter().total_tokens)
        yield
        seen.append(0)

    with servers.live(engine, threads=Threads(total=8, per_caller=3), lifespan=lifespan):
        assert seen == [3]
    assert seen == [3, 0]


def test_there_is_no_page_with_scripts_from_elsewhere(standing: httpx.Client) -> None:
    assert standing.get("/redoc").status_code == 404
