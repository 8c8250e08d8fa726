"""Whatever goes wrong is a problem of RFC 9457 that says what to do, and nothing of what was sent."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any, Final

import httpx
import pytest
from jsonschema import Draft202012Validator
from pydantic_core import to_json

import salience
import servers
from salience.engine import Engine
from salience.errors import BusyError, EmbedderError, LimitError, SalienceError
from salience.wire import errors as problems
from tests.contract.doubles import PlantedEmbedder, StoppedClock

ID = "0" * 32
JSON = {"content-type": "application/json"}
LATIN: Final = {"content-type": "application/json; charset=latin-1"}
LONG: Final = {"idempotency-key": "k" * 201}
SPACED: Final = {"idempotency-key": "a b"}
RECALL: Final = ("POST", "/v1/recall")
REMEMBER: Final = ("POST", "/v1/memories")
WRONG: dict[str, tuple[tuple[str, str], dict[str, Any], int, str | None]] = {
    "no such path": (("GET", "/v1/nothing"), {}, 404, None),
    "no such method": (("PUT", "/v1/memories"), {}, 405, None),
    "no JSON": (RECALL, {"content": b'{"query": ', "headers": JSON}, 400, None),
    "no UTF-8": (RECALL, {"content": b'{"query": "\xff"}', "headers": JSON}, 400, None),
    "not a number": (RECALL, {"content": b'{"min_score": NaN}', "headers": JSON}, 400, None),
    "endless": (RECALL, {"content": b'{"min_score": -Infinity}', "headers": JSON}, 400, None),
    "too large": (RECALL, {"content": b'{"query": "x", "min_score": 1e999}', "headers": JSON}, 422, "min_score"),
    "half a character": (RECALL, {"content": b'{"query": "\\ud800"}', "headers": JSON}, 400, None),
    "too deep": (RECALL, {"content": b"[" * 9999, "headers": JSON}, 400, None),
    "no object": (RECALL, {"json": ["secret"]}, 422, "body"),
    "no type": (RECALL, {"content": b"{}"}, 415, None),
    "a form": (RECALL, {"data": {"query": "secret"}}, 415, None),
    "other signs": (RECALL, {"content": b"{}", "headers": LATIN}, 415, None),
    "nothing": (RECALL, {}, 422, "query"),
    "a wrong type": (RECALL, {"json": {"query": {"secret": 1}}}, 422, "query"),
    "a truth for a number": (RECALL, {"json": {"query": "x", "limit": True}}, 422, "limit"),
    "an unknown name": (RECALL, {"json": {"query": "x", "limits": 1}}, 422, "limits"),
    "out of range": (RECALL, {"json": {"query": "x", "min_score": -1}}, 422, "min_score"),
    "in a list": (REMEMBER, {"json": {"drafts": [{"content": "x"}, {"content": 1}]}}, 422, "drafts[1].content"),
    "unknown in a list": (REMEMBER, {"json": {"drafts": [{"content": "x", "kint": 1}]}}, 422, "drafts[0].kint"),
    "two kinds of request": (REMEMBER, {"json": {"content": "x", "drafts": []}}, 422, "drafts"),
    "one of several forms": (RECALL, {"json": {"query": "x", "profile": {"toml": 1}}}, 422, "profile.toml"),
    "a profile by its path": (RECALL, {"json": {"query": "x", "profile": "/etc/a.toml"}}, 422, "profile"),
    "in the query and the body": (("POST", "/v1/recall?limit=1"), {"json": {"query": "x"}}, 422, "query"),
    "in the path and the body": (("PATCH", f"/v1/memory/{ID}"), {"json": {"id": ID}}, 422, "id"),
    "a body beside a query": (("DELETE", f"/v1/memory/{ID}"), {"json": {"reason": "secret"}}, 422, "body"),
    "twice": (("GET", "/v1/memories?limit=1&limit=2"), {}, 422, "limit"),
    "no number": (("GET", "/v1/memories?limit=1_0"), {}, 422, "limit"),
    "an unknown parameter": (("GET", "/v1/memories?limits=1"), {}, 422, "limits"),
    "no memory": (("GET", f"/v1/memory/{ID}"), {}, 404, None),
    "no id": (("GET", "/v1/memory/nobody"), {}, 404, None),
    "no level of scope": (("GET", f"/v1/memory/{ID}?scope=null"), {}, 422, "scope"),
    "no topic": (("GET", "/v1/help?topic="), {}, 422, "topic"),
    "a space in a header": (REMEMBER, {"json": {"content": "x"}, "headers": SPACED}, 422, "Idempotency-Key"),
    "no name in a header": (REMEMBER, {"json": {"content": "x"}, "headers": LONG}, 422, "Idempotency-Key"),
}


def is_problem(response: httpx.Response, status: int) -> dict[str, Any]:
    """Return the problem that an answer tells, which is held against the schema of problems."""
    assert (response.status_code, response.headers["content-type"]) == (status, problems.MEDIA_TYPE), response.text
    result: dict[str, Any] = response.json()
    Draft202012Validator(problems.schema()).validate(result)
    assert result["status"] == status
    assert result["instance"] == f"urn:salience:request:{response.headers['x-request-id']}"
    return result


@pytest.mark.parametrize("case", WRONG)
def test_input_errors_name_the_field_but_not_the_value(case: str, standing: httpx.Client) -> None:
    arguments, given, status, field = WRONG[case]
    result = is_problem(standing.request(*arguments, **given), status)
    assert result.get("field") == field
    assert "secret" not in str(result)


@pytest.mark.parametrize(
    ("method", "path", "body", "told"),
    [
        ("POST", "/v1/recall", {"query": "x", "limitt": 1}, "limitt is an unknown field. Did you mean limit? Known"),
        ("POST", "/v1/recall", {"query": "x", "zzz": 1}, "zzz is an unknown field. Known fields: "),
        ("GET", "/v1/memories?limitt=1", None, "limitt is an unknown field. Did you mean limit? Known fields: "),
        ("POST", "/v1/recall", {"query": "x", "limit": "5"}, "limit is text. Give a whole number."),
        ("POST", "/v1/recall", {"query": "x", "limit": 5000}, "limit is 5000. Give a whole number from 0 to 1000."),
        ("POST", "/v1/recall", {"query": " "}, "query is empty. Give some text."),
        ("POST", "/v1/recall", {"limit": 5}, "query is missing. Give a value."),
    ],
)
def test_problems_state_the_problem_and_the_remedy(
    method: str, path: str, body: Any, told: str, standing: httpx.Client
) -> None:
    found = is_problem(standing.request(method, path, json=body), 422)
    assert found["detail"].startswith(told)
    assert found["detail"] == f"{found['field']} {found['problem']}. {found['remedy']}"


def test_allow_lists_all_methods_of_a_path(standing: httpx.Client) -> None:
    allowed = [standing.put(path).headers["allow"] for path in ("/v1/memories", f"/v1/memory/{ID}", "/v1/recall")]
    assert allowed == ["GET, POST", "DELETE, GET, PATCH", "POST"]


def test_missing_memories_are_404_for_every_verb(http: httpx.Client) -> None:
    found = [
        http.patch(f"/v1/memory/{ID}", json={"weight": 0.5}),
        http.delete(f"/v1/memory/{ID}"),
        http.get(f"/v1/memory/{ID}/history"),
        http.post(f"/v1/memory/{ID}/restore"),
        http.post("/v1/explain", json={"query": "x", "memory_id": ID}),
    ]
    assert {is_problem(response, 404)["type"] for response in found} == {"urn:salience:problem:not-found"}


def test_an_idempotency_key_with_other_content_is_a_conflict(http: httpx.Client) -> None:
    first, second = (http.post("/v1/memories", json={"content": one, "key": "k"}) for one in ("x", "y"))
    assert first.status_code == 201
    assert is_problem(second, 409)["type"] == "urn:salience:problem:conflict"


def chunked(size: int) -> Any:
    """Yield a body of at least so many bytes whose length is not told beforehand."""
    yield b'{"query": "'
    for _ in range(size // 1000):
        yield b"x" * 1000
    yield b'"}'


def test_bodies_above_the_limit_are_refused_without_content_length(engine: Engine) -> None:
    with servers.live(engine, body_limit=10_000) as url, servers.client(url) as client:
        for content in (b"x" * 10_001, chunked(20_000)):
            result = is_problem(client.post("/v1/recall", content=content, headers=JSON), 413)
            assert "10,000" in result["detail"]
        assert client.post("/v1/recall", content=chunked(4_000), headers=JSON).status_code == 200


@pytest.fixture(scope="module")
def large() -> Iterator[tuple[Engine, list[str]]]:
    """An engine with 60 memories of 60 KB, the last with 100 versions of that size; and their ids."""
    drafts = [{"content": f"memory {place}", "metadata": {"x": "y" * 60_000}} for place in range(60)]
    with closing(salience.connect(":memory:", embedder=PlantedEmbedder(), clock=StoppedClock())) as engine:
        held = [receipt.memory.id for receipt in engine.remember_many(drafts)]
        for place in range(100):
            engine.update(held[-1], importance=place / 100)
        yield engine, held


ANSWERS: dict[str, tuple[Any, str]] = {
    "recall": (lambda http, _: http.post("/v1/recall", json={"query": "memory", "limit": 60, "min_score": 0}), "limit"),
    "recall_many": (
        lambda http, _: http.post("/v1/recall", json={"queries": ["memory", "x"] * 4, "limit": 10, "min_score": 0}),
        "fewer questions",
    ),
    "graph_recall": (lambda http, _: http.post("/v1/graphrag", json={"query": "memory", "limit": 60}), "limit"),
    "context": (
        lambda http, _: http.post("/v1/context", json={"query": "memory", "limit": 60, "min_score": 0}),
        "limit",
    ),
    "list": (lambda http, _: http.get("/v1/memories", params={"limit": 60}), "limit"),
    "history": (lambda http, ids: http.get(f"/v1/memory/{ids[-1]}/history"), "Export"),
    "changes": (lambda http, _: http.get("/v1/changes", params={"limit": 60}), "limit"),
}


@pytest.mark.parametrize("verb", ANSWERS)
def test_responses_above_the_limit_are_refused_before_they_are_built(
    verb: str, large: tuple[Engine, list[str]], monkeypatch: Any
) -> None:
    engine, held = large
    ask, remedy = ANSWERS[verb]
    built: list[int] = []
    monkeypatch.setattr("salience.verbs.to_json", lambda result: built.append(1) or to_json(result))
    limits = servers.Limits(answer=2_000_000)
    with servers.live(engine, limits=limits) as url, servers.client(url) as client:
        result = is_problem(ask(client, held), 413)
        assert "2,000,000 bytes" in result["detail"]
        assert remedy in result["detail"]
        assert not built
        assert client.get("/v1/memories", params={"limit": 20}).status_code == 200
    with servers.live(engine) as url, servers.client(url) as client:
        assert ask(client, held).status_code == 200


def test_an_export_may_be_larger_than_the_limit_of_a_response(large: tuple[Engine, list[str]]) -> None:
    with servers.live(large[0], limits=servers.Limits(answer=2_000_000)) as url, servers.client(url) as client:
        assert client.get("/v1/export").content.count(b"yyyy") > 60


def test_the_response_limit_bounds_reads_of_the_store(large: tuple[Engine, list[str]]) -> None:
    engine, _ = large

    class Counting:
        read = 0

        def __getattr__(self, name: str) -> Any:
            return getattr(engine.services.store, name)

        def fetch(self, *given: Any, **options: Any) -> Any:
            found = engine.services.store.fetch(*given, **options)
            self.read += len(found)
            return found

    store = Counting()
    services = replace(engine.services, store=store, answer_limit=2_000_000)
    with pytest.raises(LimitError, match="fewer questions"):
        Engine(services).recall_many(["memory", "x"] * 4, limit=20, min_score=0.0, dry_run=True)
    assert store.read <= 60


def test_rate_limited_requests_get_retry_after(engine: Engine) -> None:
    def admit(name: str) -> None:
        raise LimitError(f"{name}: slower", retry_after=2.5)

    with servers.live(engine, check_rate=admit) as url, servers.client(url) as client:
        response = client.get("/v1/stats")
    assert is_problem(response, 429)["retry_after"] == 2.5
    assert response.headers["retry-after"] == "3"


class Failing(PlantedEmbedder):
    """An embedder that raises what it is told to."""

    error: Exception | None = None

    def embed(self, texts: Any, /) -> Any:
        if self.error is not None:
            raise self.error
        return super().embed(texts)


FAILED: dict[str, tuple[SalienceError, int]] = {
    "the store is busy": (BusyError("store: busy. Try again."), 503),
    "a class without a line of its own": (type("Odd", (EmbedderError,), {})("embedder: odd. Wait."), 502),
}


@pytest.mark.parametrize("case", FAILED)
def test_errors_of_providers_and_stores_have_their_status(case: str, engine: Engine, monkeypatch: Any) -> None:
    error, status = FAILED[case]
    monkeypatch.setattr(type(engine), "stats", raising(error))
    with servers.live(engine) as url, servers.client(url) as client:
        response = client.get("/v1/stats")
    assert is_problem(response, status)["detail"] == str(error)
    assert ("retry-after" in response.headers) == (status == 503)


def test_unexpected_errors_show_only_the_request_id(
    engine: Engine, monkeypatch: Any, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(type(engine), "stats", raising(RuntimeError("a secret that a user wrote")))
    with (
        caplog.at_level(logging.DEBUG),
        servers.live(engine) as url,
        servers.client(url) as client,
    ):
        result = is_problem(client.get("/v1/stats", headers={"x-request-id": "mine"}), 500)
        assert client.get("/v1/help").status_code == 200
    assert result == {
        "type": "about:blank",
        "title": "Internal Server Error",
        "status": 500,
        "detail": "The server failed. Its log has more under the request id mine.",
        "instance": "urn:salience:request:mine",
    }
    (record,) = (record for record in caplog.records if record.name == "salience.server.rest")
    assert "request mine: RuntimeError" in record.getMessage()
    assert "secret" not in caplog.text


def raising(error: Exception) -> Any:
    """Return a verb that raises an error."""

    def verb(self: object, **where: object) -> None:
        raise error

    return verb


def test_a_memory_is_created_pending_if_the_embedder_fails(clock: StoppedClock) -> None:
    embedder = Failing()
    with (
        closing(salience.connect(":memory:", embedder=embedder, clock=clock)) as engine,
        servers.live(engine) as url,
        servers.client(url) as client,
    ):
        engine.remember("the first one pins the model")
        embedder.error = EmbedderError("embedder: down. Wait.")
        response = client.post("/v1/memories", json={"content": "x"})
    assert (response.status_code, response.json()["status"]) == (201, "pending")
