"""What a client does when its server, or the way to it, fails: one write each time, and a word to the caller."""

from __future__ import annotations

import json

import httpx
import pytest
from faults import CUT, LATE, LOST, UNSENT, problem

from salience import (
    BusyError,
    ConflictError,
    InputError,
    LimitError,
    NotFoundError,
    PinnedError,
    ServerError,
    UnsettledError,
)
from salience.client import calls

pytestmark = pytest.mark.slow

BUSY = (503, "busy")


def fault_of(kind: object) -> object:
    """Return a fault anew: an answer can be read once."""
    return problem(*kind) if isinstance(kind, tuple) else kind


FAULTS = [
    pytest.param([LOST], id="lost"),
    pytest.param([CUT, LATE], id="cut off, then late"),
    pytest.param([UNSENT, UNSENT, UNSENT], id="refused"),
    pytest.param([BUSY, LOST], id="busy, then lost"),
    pytest.param([LOST, BUSY], id="lost, then busy"),
]


@pytest.mark.parametrize("faults", FAULTS)
def test_retried_writes_are_done_once(engine, through, where, faults):
    memory, network = through()
    one, two = "text", "other"
    befall = lambda: setattr(network, "faults", [fault_of(fault) for fault in faults])  # noqa: E731

    befall()
    first = memory.remember(one, **where)
    befall()
    many = memory.remember_many([{"content": two}, {"content": "third", "key": "mine"}], **where)
    befall()
    turns = memory.ingest([{"role": "user", "content": "said"}], session_id="s", **where)
    assert [receipt.status for receipt in (first, many[0], *turns)] == ["created"] * 3
    assert [first.memory.key, many[0].memory.key, many[1].memory.key] == [None, None, "mine"]
    assert [item.content for item in engine.list(**where).memories] == [one, two, "third", "said"]

    befall()
    assert memory.update(first.memory.id, importance=0.9, **where).memory.version == 2
    befall()
    assert memory.forget(first.memory.id, reason="done", **where).status == "forgotten"
    befall()
    back = memory.restore(first.memory.id, **where)
    assert (back.status, back.memory.version, back.memory.importance) == ("restored", 4, 0.9)
    assert [item.memory.change for item in engine.history(first.memory.id, **where)] == [
        "create", "update", "forget", "restore",
    ]  # fmt: skip


def test_the_receipt_of_a_retry_warns_of_the_lost_response(through, where):
    memory, _ = through(None, LOST)
    old = memory.remember("text", **where).memory
    new = memory.remember("other", supersedes=old.id, **where)
    assert (new.status, new.superseded, new.warning) == ("superseded", old.id, calls.LOST)


def test_receipts_with_the_callers_key_equal_the_engines(through, where):
    memory, network = through(LOST)
    again = memory.remember("text", key="mine", **where)
    assert (again.status, again.memory.key) == ("unchanged", "mine")
    assert len(network.requests) == 2
    with pytest.raises(ConflictError):
        memory.remember("other", key="mine", **where)


@pytest.mark.parametrize("fault", [LOST, CUT, LATE, (500, "unsettled")])
def test_a_write_is_unsettled_if_all_responses_are_lost(through, where, fault):
    memory, network = through(*[fault_of(fault) for _ in range(3)], retries=2)
    with pytest.raises(UnsettledError, match=r"remember: .* may have been done. .* your own idempotency key"):
        memory.remember("text", **where)
    assert len({json.loads(request.content)["key"] for request in network.requests}) == 1


@pytest.mark.parametrize("fault", [LOST, CUT, LATE])
def test_a_read_is_a_server_error_if_all_responses_are_lost(through, where, fault):
    memory, network = through(fault, fault, fault, retries=2)
    with pytest.raises(ServerError, match=r"^127.0.0.1:\d+ did not answer \(\w+\). Check the URL") as caught:
        memory.recall("a secret question", **where)
    assert len(network.requests) == 3
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("verb", ["erase", "consolidate", "reflect", "end_session", "upkeep", "import_"])
def test_writes_without_keys_are_not_retried_but_dry_runs_are(through, where, verb, tmp_path):
    path = tmp_path / "lines.ndjson"
    path.write_text('{"content": "imported"}\n')
    memory, network = through(LOST)
    arguments = {"end_session": {"session_id": "s"}, "import_": {"file": path}}.get(verb, {})
    scope = {} if verb == "upkeep" else where
    with pytest.raises(UnsettledError, match=rf"^{verb}: .* its report describes the second call"):
        getattr(memory, verb)(**arguments, **scope)
    assert len(network.requests) == 1
    if verb in ("erase", "consolidate", "reflect", "upkeep"):
        network.faults = [LOST]
        getattr(memory, verb)(dry_run=True, **scope)
        assert len(network.requests) == 3


@pytest.mark.parametrize("verb", ["erase", "upkeep"])
def test_writes_without_keys_are_retried_if_nothing_was_done(through, where, verb):
    memory, network = through(UNSENT, problem(*BUSY), problem(429, "limit", retry_after=2.0))
    getattr(memory, verb)(**({} if verb == "upkeep" else where))
    assert len(network.requests) == 4


def test_delays_grow_and_respect_retry_after(through, where, waits):
    asking = problem(*BUSY)
    asking.headers["Retry-After"] = "7"
    memory, _ = through(problem(*BUSY), problem(*BUSY), asking)
    memory.stats(**where)
    assert 0.1 <= waits[0] <= 0.3
    assert 0.2 <= waits[1] <= 0.4
    assert waits[2] == 7


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        ((404, "not-found", {"id": "x"}), NotFoundError),
        ((422, "input", {"field": "limit", "value": "-1", "remedy": "Give more."}), InputError),
        ((413, "limit"), LimitError),
        ((503, "pinned"), PinnedError),
        ((500, "error"), Exception),
        ((418, "teapot"), ServerError),
    ],
)
def test_permanent_errors_are_not_retried(through, where, fault, error):
    status, code, *more = fault
    memory, network = through(problem(status, code, **(more[0] if more else {})))
    with pytest.raises(error):
        memory.stats(**where)
    assert len(network.requests) == 1


def test_temporary_errors_are_raised_after_the_last_attempt(through, where):
    memory, network = through(*[problem(*BUSY) for _ in range(3)], retries=2)
    with pytest.raises(BusyError, match="it failed"):
        memory.remember("text", **where)
    assert len(network.requests) == 3
    assert memory.stats(**where).memories == 0


@pytest.mark.parametrize("retries", [0, 1])
def test_an_unreachable_server_is_an_error(through, retries):
    memory, network = through(UNSENT, UNSENT, retries=retries)
    with pytest.raises(ServerError, match="did not answer \\(ConnectError\\)"):
        memory.remember("text")
    assert len(network.requests) == retries + 1


HTML = ("text/html; charset=utf-8", b"<html>Sign in</html>")
OTHERS = [
    pytest.param(200, *HTML, "text/html, not a Salience response", id="a page"),
    pytest.param(200, "application/json", b"[]", "cut off", id="a list"),
    pytest.param(200, "application/json", b'{"memories": 3, "by_ki', "cut off", id="half an object"),
    pytest.param(200, "application/json", b'{"memories": 3}', "unknown form. Use the same version", id="other fields"),
    pytest.param(404, *HTML, "status 404. This is not a response of a Salience server", id="not there"),
    pytest.param(302, *HTML, "a redirect: use the URL that it points to", id="elsewhere"),
    pytest.param(502, *HTML, "status 502. This is not", id="a proxy without its server"),
    pytest.param(204, "", b"", "status 204", id="nothing"),
]


@pytest.mark.parametrize(("status", "media", "content", "message"), OTHERS)
def test_responses_of_other_servers_are_errors(through, where, status, media, content, message):
    def answer() -> httpx.Response:
        headers = {"Content-Type": media, "Location": "https://elsewhere.example/v1/stats"}
        return httpx.Response(status, content=content, headers=headers)

    memory, network = through(answer(), answer(), retries=1)
    with pytest.raises(ServerError, match=message):
        memory.stats(**where)
    assert {request.url.host for request in network.requests} == {"127.0.0.1"}


def test_a_write_with_a_truncated_response_is_retried(engine, through, where):
    half = httpx.Response(201, content=b'{"memory": {"id"', headers={"Content-Type": "application/json"})
    memory, _ = through(half)
    assert memory.remember("text", **where).status == "created"
    assert engine.stats(**where).memories == 1


def test_a_deadline_ends_the_retries(through, where, monkeypatch):
    memory, network = through(*[problem(*BUSY) for _ in range(9)], retries=9)
    from salience.client import client

    monkeypatch.setattr(client, "GRACE", 0.0)
    with pytest.raises(BusyError):
        memory.recall("query", deadline_ms=0, **where)
    assert len(network.requests) == 1


def test_a_closed_client_is_an_error(through, where):
    memory, _ = through()
    memory.close()
    with pytest.raises(ServerError, match=r"this client is closed\. Connect again\."):
        memory.stats(**where)
