"""Entity tags, conditions and idempotency keys."""

from __future__ import annotations

import socket
from typing import Any

import httpx
import pytest

import servers
from salience.engine import Engine


@pytest.fixture
def id(standing: httpx.Client) -> str:
    found: str = standing.post("/v1/memories", json={"content": "Alice likes tea", "duplicate": True}).json()["memory"][
        "id"
    ]
    return found


def test_the_tag_is_the_version(standing: httpx.Client, id: str) -> None:
    answers = [
        standing.get(f"/v1/memory/{id}"),
        standing.patch(f"/v1/memory/{id}", json={"weight": 0.5}),
        standing.delete(f"/v1/memory/{id}"),
        standing.post(f"/v1/memory/{id}/restore", json={}),
    ]
    assert [answer.headers["etag"] for answer in answers] == ['"1"', '"2"', '"3"', '"4"']


@pytest.mark.parametrize(
    ("condition", "status"),
    [
        ('"1"', 200),
        ('"2"', 412),
        ('"7", "1"', 200),
        ('"7" ,"8"', 412),
        ('W/"1"', 412),
        ('W/"1", "1"', 200),
        ("*", 200),
        ('"of-another-server"', 412),
        ("1", 422),
        ('"1', 422),
        (", ".join(f'"{n}"' for n in range(1, 20)), 422),
    ],
)
@pytest.mark.parametrize("method", ["PATCH", "DELETE"])
def test_a_change_is_made_only_where_its_condition_holds(
    method: str, condition: str, status: int, standing: httpx.Client, id: str
) -> None:
    body: dict[str, Any] = {"json": {"weight": 0.5}} if method == "PATCH" else {}
    answer = standing.request(method, f"/v1/memory/{id}", headers={"if-match": condition}, **body)
    assert answer.status_code == status
    versions = standing.get(f"/v1/memory/{id}/history").json()["versions"]
    assert len(versions) == (2 if status == 200 else 1)


def test_a_condition_of_the_header_and_another_of_the_body_are_refused(standing: httpx.Client, id: str) -> None:
    for condition, status in (('"1"', 200), ('"2"', 422), ('"1", "2"', 422)):
        body = {"weight": 0.5, "if_version": 1 if status == 200 else 3}
        answer = standing.patch(f"/v1/memory/{id}", json=body, headers={"if-match": condition})
        assert answer.status_code == status


def test_a_condition_that_a_verb_cannot_hold_is_refused(standing: httpx.Client, id: str) -> None:
    answer = standing.post(f"/v1/memory/{id}/restore", headers={"if-match": '"1"'}, json={"version": 1})
    assert (answer.status_code, answer.json()["field"]) == (422, "If-Match")


@pytest.mark.parametrize(
    ("condition", "status"),
    [('"1"', 304), ('W/"1"', 304), ('"2", "1"', 304), ("*", 304), ('"2"', 200), ("nonsense", 200)],
)
def test_a_memory_that_is_known_is_not_sent_again(condition: str, status: int, standing: httpx.Client, id: str) -> None:
    answer = standing.get(f"/v1/memory/{id}", headers={"if-none-match": condition})
    assert (answer.status_code, answer.headers["etag"], bool(answer.content)) == (status, '"1"', status == 200)


def test_a_retry_after_a_lost_response_writes_nothing(engine: Engine) -> None:
    body = b'{"content": "Alice likes tea"}'
    head = b"POST /v1/memories HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    head += b"Idempotency-Key: once\r\nContent-Length: %d\r\n\r\n" % len(body)
    with servers.live(engine) as url, servers.client(url) as client:
        with socket.create_connection((client.base_url.host, client.base_url.port or 80)) as connection:
            connection.sendall(head + body)
            connection.recv(1)  # it is stored, and the rest of the answer is lost
        again = client.post("/v1/memories", content=body, headers=KEYED)
    assert again.status_code == 200
    assert again.json()["status"] == "unchanged"
    assert engine.stats().memories == 1


KEYED = {"idempotency-key": "once", "content-type": "application/json"}


def test_changes_under_a_key_are_made_once(standing: httpx.Client, id: str) -> None:
    asked: list[tuple[str, str, dict[str, Any]]] = [
        ("PATCH", f"/v1/memory/{id}", {"json": {"weight": 0.5}, "headers": {"idempotency-key": "a"}}),
        ("DELETE", f"/v1/memory/{id}", {"headers": {"idempotency-key": "b"}}),
        ("POST", f"/v1/memory/{id}/restore", {"headers": {"idempotency-key": "c"}}),
    ]
    for method, path, given in asked:
        first, second = (standing.request(method, path, **given) for _ in range(2))
        assert first.json()["memory"]["version"] == second.json()["memory"]["version"]
    assert standing.get(f"/v1/memory/{id}").headers["etag"] == '"4"'


def test_each_of_many_has_a_key_by_its_place_unless_it_has_its_own(standing: httpx.Client) -> None:
    drafts = [{"content": "x"}, {"content": "y", "key": "own"}, {"content": "z", "key": None}]
    messages = [{"role": "user", "content": "hello"}, {"role": "user", "content": "hello"}]
    arguments = [
        ("/v1/memories", {"drafts": drafts}, ["many/0", "own", "many/2"]),
        ("/v1/ingest", {"messages": messages, "session_id": "s"}, ["many/0", "many/1"]),
    ]
    for path, body, keys in arguments:
        where = {"user_id": path.strip("/").replace("/", " ")}
        first, second = (standing.post(path, json={**body, **where}, headers={"idempotency-key": "many"}) for _ in "ab")
        assert [receipt["memory"]["key"] for receipt in first.json()["receipts"]] == keys
        assert {receipt["status"] for receipt in second.json()["receipts"]} == {"unchanged"}
        assert (first.status_code, second.status_code) == (201, 200)


def test_a_key_of_the_header_and_another_of_the_body_are_refused(standing: httpx.Client) -> None:
    answer = standing.post("/v1/memories", json={"content": "x", "key": "a"}, headers={"idempotency-key": "b"})
    assert (answer.status_code, answer.json()["field"]) == (422, "Idempotency-Key")
    same = standing.post("/v1/memories", json={"content": "x", "key": "a"}, headers={"idempotency-key": "a"})
    assert same.status_code == 201


def test_a_key_is_passed_over_by_verbs_that_write_nothing(standing: httpx.Client) -> None:
    assert standing.post("/v1/recall", json={"query": "tea"}, headers={"idempotency-key": "b"}).status_code == 200
