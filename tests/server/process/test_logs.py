"""Every line is JSON, says what an operator has to know, and holds nothing that a user wrote."""

from __future__ import annotations

import io
import json
import logging
import sqlite3
import threading

import anyio
import pytest
import structlog

from salience.server import logs
from salience.server.metrics import Metrics
from salience.server.server import Streams
from salience.server.telemetry import RequestTelemetry, Traces
from salience.store.sqlite import SQLiteStore

pytestmark = pytest.mark.slow

SECRET = "zebra-7c1f-quagga"
CALL = {"accept": "application/json, text/event-stream"}


def test_a_request_is_one_log_line(logged, started):
    client = started()
    answer = client.get("/v1/stats?user_id=alice", headers={"x-request-id": "trace-me"})
    line = logged.requests()[-1]
    assert answer.headers["x-request-id"] == "trace-me"
    assert {name: value for name, value in line.items() if name not in ("timestamp", "ms")} == {
        "level": "info", "event": "request", "request_id": "trace-me", "method": "GET", "route": "/v1/stats",
        "verb": "stats", "status": 200, "surface": "rest", "tenant": "default", "key": "local",
    }  # fmt: skip
    assert line["ms"] > 0


def test_a_path_is_logged_as_its_template(logged, started):
    client = started()
    client.get("/v1/memory/00000000/history")
    client.get(f"/v1/{SECRET}")
    client.request(SECRET.upper(), "/v1/stats")
    found = logged.requests(3)
    assert [line["route"] for line in found] == ["/v1/memory/{id}/history", "-", "/v1/stats"]
    assert [line["method"] for line in found] == ["GET", "GET", "-"]
    assert found[0]["error"] == "not-found"


def test_a_call_over_mcp_tells_its_verb_and_how_it_ended(logged, started):
    call = {"name": "forget", "arguments": {"id": "00000000"}}
    arguments = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
    started().post("/mcp", json=arguments, headers=CALL)
    line = logged.requests()[-1]
    assert (line["surface"], line["route"], line["verb"]) == ("mcp", "/mcp", "forget")
    assert (line["status"], line["error"]) == (200, "not-found")


def test_a_call_over_mcp_that_comes_to_no_verb_tells_who_asked(logged, started):
    started().post("/mcp", json={"jsonrpc": "2.0", "id": 1, "method": "tools/list"}, headers=CALL)
    line = logged.requests()[-1]
    assert (line["verb"], line["tenant"], line["key"]) == ("none", "default", "local")


def test_one_who_leaves_before_the_answer_is_no_failure_of_the_server(logged):
    async def left(*_):
        return None

    answering = RequestTelemetry(Streams(left), "/mcp", Metrics(), Traces(None))
    anyio.run(answering, {"type": "http", "method": "POST", "path": "/v1/recall", "headers": []}, left, left)
    assert [(line["status"], line["level"]) for line in logged.requests()] == [(499, "info")]


def test_probes_are_logged_for_debugging_alone(logged, started):
    client = started()
    for path in ("/healthz", "/readyz", "/metrics"):
        assert client.get(path).status_code == 200
    found = logged.requests(3)
    assert [(line["route"], line["level"]) for line in found] == [
        ("/healthz", "debug"), ("/readyz", "debug"), ("/metrics", "debug"),
    ]  # fmt: skip


def session(client):
    """Ask for much, with a secret wherever a user may write something."""
    result = {
        "user_id": SECRET,
        "project": SECRET,
        "session_id": SECRET,
        "tags": [SECRET],
        "metadata": {SECRET: SECRET},
    }
    made = client.post("/v1/memories", json={"content": f"The {SECRET} sleeps", "key": SECRET, **result}).json()
    id = made["memory"]["id"]
    where = {"user_id": SECRET, "project": SECRET}
    drafts = [{"content": f"{SECRET} {number}", **where} for number in range(3)]
    client.post("/v1/memories", json={"drafts": drafts}, headers={"idempotency-key": f"{SECRET}-2"})
    client.post("/v1/ingest", json={"messages": [{"role": "user", "content": SECRET}], "session_id": SECRET, **where})
    client.patch(f"/v1/memory/{id}", json={"content": f"The {SECRET} wakes", "reason": SECRET, **where})
    for path in ("recall", "graphrag", "context"):
        assert client.post(f"/v1/{path}", json={"query": f"query {SECRET}", **where}).status_code == 200
    client.post("/v1/explain", json={"query": f"query {SECRET}", "memory_id": id, **where})
    client.get("/v1/memories", params=where)
    client.get("/v1/export", params=where)
    client.post("/v1/import", content=json.dumps({"content": SECRET}) + f"\n{{{SECRET}\n", headers={
        "content-type": "application/x-ndjson"})  # fmt: skip
    client.post(f"/v1/sessions/{SECRET}/end", json=where)
    client.request("DELETE", f"/v1/memory/{id}", params=where)
    # what is wrong
    client.post(
        "/v1/memories", content=f'{{"content": "{SECRET}'.encode(), headers={"content-type": "application/json"}
    )
    client.post("/v1/memories", json={"content": SECRET, "kind": f"{SECRET}\x00"})
    client.post("/v1/memories", json={SECRET: SECRET})
    client.post("/v1/recall", json={"query": SECRET, "limit": SECRET})
    client.post("/v1/recall", json={"query": SECRET, "profile": SECRET})
    client.get(f"/v1/{SECRET}", params={SECRET: SECRET}, headers={SECRET: SECRET, "authorization": f"Bearer {SECRET}"})
    client.get(f"/v1/memory/{SECRET}")
    for arguments in ({"query": SECRET}, {"query": SECRET, SECRET: SECRET}, {"limit": SECRET}, SECRET):
        call = {"name": "recall", "arguments": arguments}
        given = {"jsonrpc": "2.0", "id": SECRET, "method": "tools/call", "params": call}
        client.post("/mcp", json=given, headers=CALL)
    for body in (SECRET, json.dumps({"jsonrpc": "2.0", "id": 1, "method": SECRET, "params": {SECRET: SECRET}})):
        client.post("/mcp", content=body, headers={"content-type": "application/json", **CALL})


def test_no_line_of_a_session_holds_what_was_written(logged, started):
    session(started())
    assert logged.requests(26)
    assert SECRET not in logged.getvalue()


def test_nor_where_the_embedder_is_away(logged, started, monkeypatch):
    monkeypatch.setenv("SALIENCE_OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    monkeypatch.setenv("SALIENCE_OPENAI_RETRIES", "0")
    client = started(embedder="openai")
    session(client)
    client.post("/v1/upkeep", json={})
    assert {line["status"] for line in logged.requests(27)} >= {200, 201, 404, 422}
    assert SECRET not in logged.getvalue()


@pytest.mark.parametrize("error", [sqlite3.OperationalError(f"near {SECRET}"), RuntimeError(SECRET)])
def test_nor_where_the_store_or_the_code_fails(logged, started, monkeypatch, error):
    def fail(*_, **__):
        raise error

    client = started()
    for verb in ("apply", "gather", "browse"):
        monkeypatch.setattr(SQLiteStore, verb, fail)
    assert client.post("/v1/memories", json={"content": SECRET}).status_code >= 500
    assert client.get("/v1/memories").status_code >= 500
    client.post("/v1/recall", json={"query": f"query {SECRET}"})
    assert [line["level"] for line in logged.requests(2)][:2] == ["error", "error"]
    assert SECRET not in logged.getvalue()


def test_an_exception_is_logged_by_class_and_frames(logged):
    def inner():
        raise KeyError(SECRET)

    try:
        try:
            inner()
        except KeyError as error:
            raise ValueError(SECRET) from error
    except ValueError:
        structlog.get_logger().exception("failed")
    outer, cause = logged.lines()[-1]["exception"]
    assert (outer["type"], cause["type"]) == ("builtins.ValueError", "builtins.KeyError")
    assert cause["frames"][-1].endswith(" inner")
    assert SECRET not in logged.getvalue()


def test_exceptions_of_a_group_are_logged_one_by_one(logged):
    structlog.get_logger().error("failed", exc_info=ExceptionGroup(SECRET, [OSError(SECRET), KeyError(SECRET)]))
    assert [one["type"] for one in logged.lines()[-1]["exception"]] == [
        "builtins.ExceptionGroup", "builtins.OSError", "builtins.KeyError",
    ]  # fmt: skip
    assert SECRET not in logged.getvalue()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_messages_of_libraries_are_logged_by_template_or_place(logged):
    library = logging.getLogger("library")
    library.warning("so many: %s", SECRET)
    library.warning(f"text: {SECRET}")  # as careless libraries have it
    try:
        raise RuntimeError(SECRET)
    except RuntimeError:
        library.exception("failed")
    first, second, third = logged.lines()[-3:]
    assert (first["event"], first["logger"]) == ("so many: %s", "library")
    assert second["place"].startswith("test_logs.py:")
    assert third["exception"][0]["type"] == "builtins.RuntimeError"
    assert SECRET not in logged.getvalue()


def test_a_thread_that_dies_leaves_a_line(logged):
    hook = threading.excepthook
    hook(threading.ExceptHookArgs((RuntimeError, RuntimeError(SECRET), None, threading.current_thread())))
    assert logged.lines()[-1]["exception"][0]["type"] == "builtins.RuntimeError"
    assert SECRET not in logged.getvalue()


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.usefixtures("logged")
def test_on_a_terminal_lines_are_made_for_reading():
    out = Terminal()
    logs.configure("info", out)
    log = structlog.get_logger()
    log.info("serving", url="http://127.0.0.1:8484")
    log.error("failed", exc_info=RuntimeError(SECRET))
    log.debug("left out")
    assert "serving" in out.getvalue()
    assert "http://127.0.0.1:8484" in out.getvalue()
    assert not out.getvalue().startswith("{")
    assert "RuntimeError" in out.getvalue()
    assert SECRET not in out.getvalue()
    assert "left out" not in out.getvalue()


def test_what_is_served_goes_on_when_nobody_reads_the_lines(started):
    out = io.StringIO()
    logs.configure("debug", out)
    client = started()
    out.close()
    assert client.get("/v1/stats").status_code == 200
