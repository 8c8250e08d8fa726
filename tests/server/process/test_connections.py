"""How many connections a server holds, and how slow they may be, before anybody is authenticated."""

from __future__ import annotations

import socket
import time
from contextlib import ExitStack
from datetime import UTC, datetime
from urllib.parse import urlsplit

import httpx
import pytest

from salience import compose
from salience.server.auth import create_key
from salience.server.server import ConnectionLimits
from waiting import PATIENCE

pytestmark = pytest.mark.slow

SLOW = 40
"""Connections of each sort."""
JSON = {"Content-Type": "application/json"}
WHOLE = b'{"query": "What does Alice drink?"}'


def _host(url):
    parts = urlsplit(url)
    return parts.hostname, parts.port


def _head(*lines):
    return "\r\n".join(["POST /v1/recall HTTP/1.1", "Host: localhost", *lines, ""]).encode()


def _read_to_end(connection):
    """Return what comes until the server closes; it fails where the server does not."""
    connection.settimeout(PATIENCE)
    found = b""
    try:
        while chunk := connection.recv(65_536):
            found += chunk
    except ConnectionResetError:
        pass
    return found


def _status(answer):
    return int(answer.split(b" ", 2)[1])


@pytest.fixture
def key(tmp_path):
    """Return the key of a store, which the servers of these tests serve."""
    ring = compose.keyring(str(tmp_path / "agent.db"))
    token, made_key = create_key("default", ("read", "write"), {}, None, None, datetime.now(UTC))
    ring.add(made_key)
    ring.close()
    return token


@pytest.fixture
def serve(running, tmp_path, key):
    """Return a function from settings to the address of a server."""

    def start(**settings):
        env = {f"SALIENCE_SERVER_{name.upper()}": str(value) for name, value in settings.items()}
        return running(str(tmp_path / "agent.db"), **env).url

    return start


@pytest.fixture
def opened():
    """Return a function from a URL, and the address to come from, to a connection; all are closed in the end."""
    with ExitStack() as stack:

        def connect(url, source="127.0.0.1"):
            made_one = socket.create_connection(_host(url), PATIENCE, (source, 0))
            return stack.enter_context(made_one)

        yield connect


def _asks(url, key):
    answer = httpx.post(
        f"{url}/v1/recall", content=WHOLE, headers={"Authorization": f"Bearer {key}", **JSON}, timeout=PATIENCE
    )
    return answer.status_code


def test_requests_that_do_not_arrive_are_refused_while_others_are_answered(serve, opened, key):
    url = serve(request_timeout=2)
    shown = f"Authorization: Bearer {key}"
    typed = "Content-Type: application/json"
    begun = {
        "nothing": (b"", {408}),
        "half a head": (_head()[:-2], {408}),
        "half a head with a key": (_head(shown), {408}),
        "half a body": (_head(typed, f"Content-Length: {len(WHOLE)}", "") + WHOLE[:9], {401}),
        "half a body with a key": (_head(shown, typed, f"Content-Length: {len(WHOLE)}", "") + WHOLE[:9], {408}),
        "chunks without an end": (_head(shown, typed, "Transfer-Encoding: chunked", "") + b"2\r\n{}\r\n", {408}),
    }
    waiting = {}
    for name, (sent, _) in begun.items():
        waiting[name] = [opened(url) for _ in range(SLOW)]
        for one in waiting[name]:
            one.sendall(sent)
    assert _asks(url, key) == 200
    for name, (_, statuses) in begun.items():
        assert {_status(_read_to_end(one)) for one in waiting[name]} == statuses, name
    assert _asks(url, key) == 200


def test_a_head_that_trickles_in_gets_no_more_time(serve, opened):
    url = serve(request_timeout=2)
    slow = opened(url)
    slow.sendall(_head()[:-2])
    slow.settimeout(0.2)
    sent = 0
    while True:
        try:
            answer = slow.recv(65_536)
            break
        except TimeoutError:
            sent += 1
            assert sent < 5 * PATIENCE, "it goes on for ever"
            slow.sendall(b"X-More: 1\r\n")
    assert _status(answer) == 408


def test_the_rest_of_a_connection_that_was_answered_is_waited_for_no_longer(serve, opened, key):
    url = serve(request_timeout=2)
    one = opened(url)
    whole = _head(f"Authorization: Bearer {key}", "Content-Type: application/json", f"Content-Length: {len(WHOLE)}", "")
    one.sendall(whole + WHOLE + whole[:20])
    answers = _read_to_end(one)
    assert _status(answers) == 200
    assert answers.count(b"HTTP/1.1 ") <= 2


def test_no_more_connections_of_one_address_are_taken_than_allowed(serve, opened, key):
    url = serve(connections_per_address=5)
    held = [opened(url) for _ in range(5)]
    _answers(held)
    refused = _read_to_end(opened(url))
    assert _status(refused) == 429
    assert b"Retry-After: 1" in refused
    assert b"from one address at a time" in refused
    assert b"urn:salience:problem:limit" in refused
    _answers([opened(url, source="127.0.0.2")])
    held.pop().close()
    assert _served_soon(url, key)


def test_no_more_connections_are_taken_than_allowed(serve, opened, key):
    url = serve(connections=6, connections_per_address=5)
    held = [opened(url, source=f"127.0.0.{number}") for number in (2, 2, 2, 3, 3, 3)]
    _answers(held)
    assert _status(_read_to_end(opened(url, source="127.0.0.4"))) == 429
    for one in held:
        one.close()
    assert _served_soon(url, key)


def test_answers_that_nobody_reads_are_cut_off(serve, opened, key):
    url = serve(request_timeout=1, connections_per_address=1)
    lazy = opened(url)
    arguments = 300
    lazy.sendall(b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n" * arguments)
    assert _status(lazy.recv(1000)) == 200
    assert _status(_read_to_end(opened(url))) == 429  # the answers hold the one connection
    end = time.monotonic() + PATIENCE
    while _asks(url, key) == 429:
        assert time.monotonic() < end, "it waits for ever"
    assert _read_to_end(lazy).count(b"HTTP/1.1 200") < arguments - 1


def _answers(held):
    """Have every one of several connections answered, and kept."""
    for one in held:
        one.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
    for one in held:
        assert _status(one.recv(65_536)) == 200
    for one in held:  # the next head has begun, so that the server waits for the rest of it
        one.sendall(b"GET")


def _served_soon(url, key):
    """Return whether a server answers again; it learns of a connection that was closed when it looks at it."""
    return any(_asks(url, key) == 200 for _ in range(100))


def test_connections_are_counted_by_address():
    bounds = ConnectionLimits(total=3, per_address=2, seconds=1.0)
    assert [bounds.acquire("a"), bounds.acquire("a")] == [None, None]
    assert "from one address" in str(bounds.acquire("a"))
    assert bounds.acquire("b") is None
    assert "accepts 3 at a time" in str(bounds.acquire("c"))
    bounds.release("a")
    assert bounds.acquire("c") is None
    for one in ("a", "b", "c"):
        bounds.release(one)
    assert [bounds.acquire(one) for one in ("a", "a", "b")] == [None, None, None]
