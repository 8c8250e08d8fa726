"""Keys over HTTP: what they allow, and that one that does not hold allows nothing."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import httpx
import pytest

import servers
from salience.engine import Engine
from salience.server import auth as access
from salience.store.keyring import MemoryKeyring
from tests.contract.doubles import StoppedClock
from waiting import PATIENCE


class KeyedServer:
    """A server whose memories are behind keys."""

    def __init__(self, url: str, keyring: MemoryKeyring, clock: StoppedClock) -> None:
        self.url = url
        self.keyring = keyring
        self.clock = clock

    def key(self, *rights: str, tenant: str = "acme", hours: float | None = None, **bound: str) -> dict[str, str]:
        """Return the header of a new key."""
        now = self.clock()
        ends = None if hours is None else now + timedelta(hours=hours)
        token, key = access.create_key(tenant, rights, bound, ends, None, now)
        self.keyring.add(key)
        return {"authorization": f"Bearer {token}"}

    def ask(self, key: dict[str, str], method: str, path: str, **given: Any) -> httpx.Response:
        """Return the answer to a request under a key."""
        return httpx.request(
            method, self.url + path, headers={**key, **given.pop("headers", {})}, **given, timeout=PATIENCE
        )


@pytest.fixture
def server(engine: Engine, clock: StoppedClock) -> Iterator[KeyedServer]:
    keyring = MemoryKeyring()
    with servers.live(engine, keyring) as url:
        yield KeyedServer(url, keyring, clock)


def test_invalid_keys_get_the_same_response(server: KeyedServer) -> None:
    good = server.key("admin")["authorization"]
    ended = server.key("admin", hours=1)
    revoked = server.key("admin")
    server.clock.advance(hours=2)
    server.keyring.revoke(revoked["authorization"].split("_")[1], server.clock())
    shown = [
        {},
        ended,
        revoked,
        *({"authorization": value} for value in ("", "Basic x", "Bearer", good[:-1], good + "0")),
    ]
    answers = [server.ask(key, "GET", "/v1/stats") for key in shown]
    assert {answer.status_code for answer in answers} == {401}
    assert {answer.headers["www-authenticate"] for answer in answers} == {"Bearer"}
    assert len({answer.json()["detail"] for answer in answers}) == 1
    assert server.ask({"authorization": good}, "GET", "/v1/stats").status_code == 200


def test_a_revoked_key_fails_at_once(server: KeyedServer) -> None:
    key = server.key("read")
    assert server.ask(key, "GET", "/v1/stats").status_code == 200
    server.keyring.revoke(key["authorization"].split("_")[1], server.clock())
    assert server.ask(key, "GET", "/v1/stats").status_code == 401


OPEN = {"/healthz", "/readyz", "/openapi.json"}


@pytest.mark.parametrize("path", ["/v1/memories", "/v1/export", "/v1/profiles", "/v1/help", *sorted(OPEN)])
def test_only_health_and_openapi_need_no_key(path: str, server: KeyedServer) -> None:
    assert server.ask({}, "GET", path).status_code == (200 if path in OPEN else 401)


def test_an_import_without_the_right_is_refused_before_reading_the_body(server: KeyedServer) -> None:
    def long() -> Iterator[bytes]:
        for _ in range(3_000):
            sizes.append(100_000)
            yield b"x" * 100_000

    sizes: list[int] = []

    lines = {"content-type": "application/x-ndjson"}
    for key, status in (({}, 401), (server.key("read", "write"), 403)):
        with httpx.Client(timeout=PATIENCE) as client:
            request = client.build_request("POST", f"{server.url}/v1/import", content=long(), headers={**key, **lines})
            answer = client.send(request)
        assert (answer.status_code, answer.headers["connection"]) == (status, "close")
    assert sum(sizes) < 100_000_000  # of 600 MB


def test_read_only_keys_change_nothing(server: KeyedServer, engine: Engine) -> None:
    writes, reads = server.key("write"), server.key("read")
    id = server.ask(writes, "POST", "/v1/memories", json={"content": "tea"}).json()["memory"]["id"]
    refused = [
        server.ask(reads, "POST", "/v1/memories", json={"content": "x"}),
        server.ask(reads, "PATCH", f"/v1/memory/{id}", json={"weight": 0.5}),
        server.ask(reads, "DELETE", f"/v1/memory/{id}"),
        server.ask(writes, "GET", f"/v1/memory/{id}"),
        server.ask(writes, "GET", "/v1/export"),
        server.ask(writes, "GET", "/v1/profiles"),
        server.ask(writes, "POST", "/v1/upkeep"),
    ]
    assert {(answer.status_code, answer.json()["type"]) for answer in refused} == {
        (403, "urn:salience:problem:forbidden")
    }
    assert server.ask(reads, "POST", "/v1/recall", json={"query": "tea"}).json()["hits"]
    assert engine.of("acme").get(id).access_count == 0
    assert server.ask(reads, "GET", f"/v1/memory/{id}").headers["etag"] == '"1"'


def test_bound_keys_see_and_change_their_own_memories(server: KeyedServer) -> None:
    admin, alice = server.key("admin"), server.key("read", "write", user_id="alice")
    for user in ("alice", "bob"):
        server.ask(admin, "POST", "/v1/memories", json={"content": f"of {user}", "user_id": user})
    theirs = server.ask(admin, "GET", "/v1/memories", params={"user_id": "bob"}).json()["memories"][0]["id"]
    for params in ({}, {"user_id": "alice"}, {"user_id": "*"}):
        seen = server.ask(alice, "GET", "/v1/memories", params=params).json()["memories"]
        assert [memory["content"] for memory in seen] == ["of alice"]
    assert server.ask(alice, "GET", "/v1/memories", params={"user_id": "bob"}).status_code == 403
    assert server.ask(alice, "GET", f"/v1/memory/{theirs}").status_code == 404
    assert "of bob" not in server.ask(alice, "GET", "/v1/export").text


def test_memories_of_other_tenants_get_the_response_of_missing_ones(server: KeyedServer) -> None:
    ours, theirs = server.key("admin"), server.key("admin", tenant="other")
    id = server.ask(theirs, "POST", "/v1/memories", json={"content": "theirs"}).json()["memory"]["id"]
    for asked in (id, "0" * 32):
        answer = server.ask(ours, "GET", f"/v1/memory/{asked}")
        seen = {name: value for name, value in answer.json().items() if name != "instance"}
        assert str(seen).replace(asked, "ID") == str(
            {
                "type": "urn:salience:problem:not-found",
                "title": "No such memory is visible",
                "status": 404,
                "detail": "id: no memory 'ID' is visible in this scope. Check the id and the scope keywords.",
                "id": "ID",
            }
        )
    assert "theirs" not in server.ask(ours, "GET", "/v1/export").text


def test_an_invalid_if_match_reveals_nothing(server: KeyedServer) -> None:
    ours, theirs = server.key("admin"), server.key("admin", tenant="other")
    id = server.ask(theirs, "POST", "/v1/memories", json={"content": "theirs"}).json()["memory"]["id"]
    answers = [
        server.ask(ours, "DELETE", f"/v1/memory/{arguments}", headers={"if-match": condition})
        for arguments in (id, "0" * 32)
        for condition in ('"1"', '"2"', '"1", "2"', "*", 'W/"1"')
    ]
    statuses = [answer.status_code for answer in answers]
    assert statuses[:5] == statuses[5:] == [404, 404, 404, 404, 412]


def test_the_body_of_an_unauthenticated_request_is_not_read(engine: Engine) -> None:
    with servers.live(engine, MemoryKeyring()) as url:
        port = int(url.rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as sent:
            head = "POST /v1/memories HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            sent.sendall(f"{head}Content-Length: 4000000\r\n\r\n".encode())  # and none of it follows
            assert sent.recv(1000).startswith(b"HTTP/1.1 401 ")
