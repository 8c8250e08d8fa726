"""Telemetry of requests and verbs: a log line, metrics and a span each. Only the route of a URL is recorded."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Final

import structlog
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from salience.batch import Vectors32
from salience.errors import SalienceError
from salience.models.cache import Wrapped
from salience.ports import Embedder
from salience.records import Grant
from salience.server.metrics import NO_VERB, Metrics
from salience.server.traces import Traces
from salience.wire.errors import problem_of

PROBES: Final = ("/healthz", "/readyz", "/metrics")
"""Paths that are not counted, and logged at the level `debug` only."""
UNKNOWN: Final = "-"
CLIENT_GONE: Final = 499
"""Status of a request whose client disconnected before the response, as in nginx; never sent."""
METHODS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
"""Methods that are logged by name; clients can send any other."""
_log: Any = structlog.get_logger()


@dataclass(slots=True)
class RequestRecord:
    """Facts about a request; its verbs add to them, from any thread."""

    surface: str
    began: float = field(default_factory=time.perf_counter)
    verb: str = NO_VERB
    status: int = 500
    grant: Grant | None = None
    error: BaseException | None = None


CURRENT: Final[ContextVar[RequestRecord | None]] = ContextVar("salience_request", default=None)


class VerbTelemetry:
    """Observes the verbs of a gate.

    Args:
        metrics, traces: where to record.
        surface: counts each verb as a request of this surface; None if HTTP requests are counted instead. (The HTTP
            status of MCP does not show the outcome.)
    """

    def __init__(self, metrics: Metrics, traces: Traces, surface: str | None = None) -> None:
        self._metrics = metrics
        self._traces = traces
        self._surface = surface

    def observe(self, verb: str, grant: Grant, seconds: float, outcome: object) -> None:
        """Record a verb: the caller, the duration, and the result or the error."""
        record = CURRENT.get()
        if record is not None:
            record.verb, record.grant = verb, grant
            record.error = outcome if isinstance(outcome, BaseException) else None
        if self._surface is not None:
            known = isinstance(outcome, SalienceError)
            status = problem_of(outcome).status if known else 500 if isinstance(outcome, BaseException) else 200  # type: ignore[arg-type]
            self._metrics.request(self._surface, verb, status, seconds)
        self._metrics.outcome(outcome)
        self._traces.add_steps(outcome)


class RequestTelemetry:
    """ASGI middleware that records each request.

    Args:
        app: sets `request_id`, `grant` and `verb` in the `state` of the scope, if known.
        mcp: path of MCP, where verbs are counted instead of requests.
        metrics, traces: where to record.
    """

    def __init__(self, app: ASGIApp, mcp: str, metrics: Metrics, traces: Traces) -> None:
        self._app = app
        self._mcp = mcp
        self._metrics = metrics
        self._traces = traces

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer and record a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if scope["path"] in PROBES:
            await self._app(scope, receive, send)
            _log.debug("request", route=scope["path"])
            return
        is_mcp = scope["path"] == self._mcp or scope["path"].startswith(f"{self._mcp}/")
        record = RequestRecord("mcp" if is_mcp else "rest")
        is_answered = False

        async def recording(message: Message) -> None:
            nonlocal is_answered
            is_answered = True
            if message["type"] == "http.response.start":
                record.status = int(message["status"])
            await send(message)

        token = CURRENT.set(record)
        self._metrics.request_started()
        try:
            with self._traces.request(scope["headers"]) as finish:
                try:
                    await self._app(scope, receive, recording)
                    record.status = record.status if is_answered else CLIENT_GONE
                finally:
                    facts = self._facts(scope, record)
                    finish(f"{facts['method']} {facts['route']}", _attributes(facts))
        finally:
            CURRENT.reset(token)
            self._metrics.request_ended()
            self._record(record, self._facts(scope, record))

    def _facts(self, scope: Scope, record: RequestRecord) -> dict[str, Any]:
        """Return the fields of the log line and the span."""
        state = scope.get("state", {})
        grant = record.grant or state.get("grant")
        return {
            "request_id": state.get("request_id", UNKNOWN),
            "method": scope["method"] if scope["method"] in METHODS else UNKNOWN,
            "route": getattr(scope.get("route"), "path", self._mcp if record.surface == "mcp" else UNKNOWN),
            "verb": state.get("verb", NO_VERB) if record.verb == NO_VERB else record.verb,
            "status": record.status,
            "surface": record.surface,
            "tenant": grant.tenant if grant else UNKNOWN,
            "key": grant.name if grant else UNKNOWN,
        }

    def _record(self, record: RequestRecord, facts: dict[str, Any]) -> None:
        seconds = time.perf_counter() - record.began
        if record.surface == "rest" or (record.verb == NO_VERB and record.status >= 400):
            self._metrics.request(record.surface, facts["verb"], record.status, seconds)
        log = _log.info if record.status < 500 else _log.error
        log("request", ms=round(seconds * 1e3, 2), **facts, **_error_fields(record.error))


def _attributes(facts: dict[str, Any]) -> dict[str, str | int]:
    """Return the facts of a request under the names of OpenTelemetry's conventions, or our own."""
    return {
        "http.request.method": facts["method"],
        "http.route": facts["route"],
        "http.response.status_code": facts["status"],
        **{f"salience.{name}": facts[name] for name in ("request_id", "verb", "surface", "tenant", "key")},
    }


def _error_fields(error: BaseException | None) -> dict[str, Any]:
    """Return the code of an error, and the message of a server error, which quotes no user text."""
    if not isinstance(error, SalienceError):
        return {} if error is None else {"error": type(error).__name__}
    problem = problem_of(error)
    return {"error": problem.code, **({"detail": str(error)} if problem.status >= 500 else {})}


class MeasuredEmbedder(Wrapped):
    """An embedder with metrics and traces. It sits below the query cache, so it counts only computed vectors."""

    def __init__(self, embedder: Embedder, metrics: Metrics, traces: Traces) -> None:
        super().__init__(embedder)
        self._metrics = metrics
        self._traces = traces

    def embed(self, texts: Sequence[str], /) -> Vectors32:
        """Return the vectors of the embedder."""
        began, outcome = time.perf_counter(), "failed"
        try:
            with self._traces.embedding(self.name, len(texts)):
                vectors = self._embedder.embed(texts)
            outcome = "embedded"
        finally:
            self._metrics.embedded(outcome, len(texts), time.perf_counter() - began)
        return vectors
