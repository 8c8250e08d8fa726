"""Telemetry of requests and verbs: a log line, metrics and an OpenTelemetry span each, none with user text.

Only the route of a URL is recorded. Spans are sent with OTLP over HTTP.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Final

import structlog
from opentelemetry.trace import NoOpTracerProvider, SpanKind, Status, StatusCode, TracerProvider
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from starlette.types import ASGIApp, Message, Receive, Scope, Send

import salience
from salience.batch import Tokens, Vectors32
from salience.errors import SalienceError
from salience.models.cache import Wrapped
from salience.ports import Embedder
from salience.records import Grant, Recall
from salience.server.metrics import NO_VERB, Metrics
from salience.wire.errors import problem_of

Attributes = Mapping[str, str | int]
FLUSH_TIMEOUT: Final = 3.0
"""Timeout for the remaining spans when the server ends, seconds."""
PROBES: Final = ("/healthz", "/readyz", "/metrics")
"""Paths that are not counted, and logged at the level `debug` only."""
UNKNOWN: Final = "-"
CLIENT_GONE: Final = 499
"""Status of a request whose client disconnected before the response, as in nginx; never sent."""
METHODS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
"""Methods that are logged by name; clients can send any other."""
_PATH: Final = "/v1/traces"
_PROPAGATED: Final = (b"traceparent", b"tracestate")
_UNRECORDED: Final[Mapping[str, Any]] = {"record_exception": False, "set_status_on_exception": False}
"""OpenTelemetry records no exception: its message may quote user text."""
_ATTRIBUTES: Final = {
    "http.request.method": "method",
    "http.route": "route",
    "http.response.status_code": "status",
    **{f"salience.{name}": name for name in ("request_id", "verb", "surface", "tenant", "key")},
}
"""Attribute of a span -> fact of a request; named by OpenTelemetry's conventions where these have a name."""
_log: Any = structlog.get_logger()


class Traces:
    """Creates spans. A thread sends them in batches; if the collector is down, they are dropped.

    `endpoint` is the collector's URL, such as `http://localhost:4318`, with or without `/v1/traces`; None: no traces.
    """

    def __init__(self, endpoint: str | None) -> None:
        self._shutdown: Callable[[], None] | None = None
        provider: TracerProvider = NoOpTracerProvider()
        if endpoint is not None:
            # slow to load
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
            from opentelemetry.sdk.resources import OTELResourceDetector, Resource
            from opentelemetry.sdk.trace import TracerProvider as SdkProvider
            from opentelemetry.sdk.trace.export import BatchSpanProcessor

            url = endpoint if endpoint.endswith(_PATH) else endpoint.rstrip("/") + _PATH
            resource = Resource({"service.name": "salience", "service.version": salience.__version__})
            provider = SdkProvider(resource=resource.merge(OTELResourceDetector().detect()), shutdown_on_exit=False)
            provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(url)))
            self._shutdown = provider.shutdown
        self._tracer = provider.get_tracer("salience", salience.__version__)
        self._propagator = TraceContextTextMapPropagator()

    @contextmanager
    def request(self, headers: Iterable[tuple[bytes, bytes]]) -> Iterator[Callable[[str, Attributes], None]]:
        """Trace a request, as a child of the trace in its headers; yields a function that sets name and attributes."""
        carrier = {name.decode("ascii"): value.decode("latin-1") for name, value in headers if name in _PROPAGATED}
        parent = self._propagator.extract(carrier)
        with self._tracer.start_as_current_span("request", parent, SpanKind.SERVER, **_UNRECORDED) as span:

            def finish(name: str, attributes: Attributes) -> None:
                span.update_name(name)
                span.set_attributes(dict(attributes))
                if int(attributes.get("http.response.status_code", 0)) >= 500:
                    span.set_status(Status(StatusCode.ERROR))

            yield finish

    def add_steps(self, outcome: object) -> None:
        """Add consecutive spans for the steps of a recall that has just ended."""
        for one in outcome if isinstance(outcome, list) else [outcome]:
            if isinstance(one, Recall):
                steps = {step: int(milliseconds * 1e6) for step, milliseconds in one.timings.items()}
                at = time.time_ns() - sum(steps.values())
                for step, length in steps.items():
                    self._tracer.start_span(f"recall.{step}", start_time=at).end(at + length)
                    at += length

    @contextmanager
    def embedding(self, name: str, texts: int) -> Iterator[None]:
        """Trace a call of an embedder."""
        attributes: Attributes = {"salience.embedder": name, "salience.texts": texts}
        with self._tracer.start_as_current_span("embedder", attributes=attributes, **_UNRECORDED) as span:
            try:
                yield
            except Exception as error:
                span.set_status(Status(StatusCode.ERROR, type(error).__name__))
                raise

    def close(self) -> None:
        """Send the remaining spans, for at most `FLUSH_TIMEOUT` seconds."""
        if self._shutdown is not None:
            last = threading.Thread(target=self._shutdown, name="salience-traces", daemon=True)
            last.start()
            last.join(FLUSH_TIMEOUT)


@dataclass(slots=True)
class RequestRecord:
    """Facts about a request; its verbs add to them, from any thread."""

    surface: str
    began: float = field(default_factory=time.perf_counter)
    verb: str = NO_VERB
    status: int = 500
    grant: Grant | None = None
    error: BaseException | None = None


PAGES: Final = "/ui"
"""Path of the dashboard."""
CURRENT: Final[ContextVar[RequestRecord | None]] = ContextVar("salience_request", default=None)


@dataclass(frozen=True, slots=True)
class VerbTelemetry:
    """Observes the verbs of a gate.

    With a `surface`, counts each verb as a request of it, because the HTTP status of MCP does not show the outcome.
    Without one, `RequestTelemetry` counts the HTTP requests instead.
    """

    metrics: Metrics
    traces: Traces
    surface: str | None = None

    def observe(self, verb: str, grant: Grant, seconds: float, outcome: object) -> None:
        """Record a verb: the caller, the duration, and the result or the error."""
        error = outcome if isinstance(outcome, BaseException) else None
        record = CURRENT.get()
        if record is not None:
            record.verb, record.grant, record.error = verb, grant, error
        if self.surface is not None:
            status = problem_of(error).status if isinstance(error, SalienceError) else 200 if error is None else 500
            self.metrics.request(self.surface, verb, status, seconds)
        self.metrics.outcome(outcome)
        self.traces.add_steps(outcome)


@dataclass(frozen=True, slots=True)
class RequestTelemetry:
    """ASGI middleware that records each request; below the path `mcp`, verbs are counted instead of requests.

    `app` sets `request_id`, `grant` and `verb` in the `state` of the scope, if known.
    """

    app: ASGIApp
    mcp: str
    metrics: Metrics
    traces: Traces

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer and record a request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        if scope["path"] in PROBES:
            await self.app(scope, receive, send)
            _log.debug("request", route=scope["path"])
            return
        is_mcp = scope["path"] == self.mcp or scope["path"].startswith(f"{self.mcp}/")
        is_page = scope["path"] == PAGES or scope["path"].startswith(f"{PAGES}/")
        record = RequestRecord("mcp" if is_mcp else "ui" if is_page else "rest")
        is_answered = False

        async def recording(message: Message) -> None:
            nonlocal is_answered
            is_answered = True
            if message["type"] == "http.response.start":
                record.status = int(message["status"])
            await send(message)

        token = CURRENT.set(record)
        self.metrics.in_progress(1)
        try:
            with self.traces.request(scope["headers"]) as finish:
                try:
                    await self.app(scope, receive, recording)
                    record.status = record.status if is_answered else CLIENT_GONE
                finally:
                    facts = self._facts(scope, record)
                    attributes = {name: facts[fact] for name, fact in _ATTRIBUTES.items()}
                    finish(f"{facts['method']} {facts['route']}", attributes)
        finally:
            CURRENT.reset(token)
            self.metrics.in_progress(-1)
            facts, seconds = self._facts(scope, record), time.perf_counter() - record.began
            if record.surface != "mcp" or (record.verb == NO_VERB and record.status >= 400):
                self.metrics.request(record.surface, facts["verb"], record.status, seconds)
            if isinstance(record.error, SalienceError):
                problem = problem_of(record.error)
                facts["error"] = problem.code
                facts |= {"detail": str(record.error)} if problem.status >= 500 else {}  # these quote no user text
            elif record.error is not None:
                facts["error"] = type(record.error).__name__
            (_log.info if record.status < 500 else _log.error)("request", ms=round(seconds * 1e3, 2), **facts)

    def _facts(self, scope: Scope, record: RequestRecord) -> dict[str, Any]:
        """Return the fields of the log line and the span."""
        state = scope.get("state", {})
        grant = record.grant or state.get("grant")
        return {
            "request_id": state.get("request_id", UNKNOWN),
            "method": scope["method"] if scope["method"] in METHODS else UNKNOWN,
            "route": getattr(scope.get("route"), "path", self.mcp if record.surface == "mcp" else UNKNOWN),
            "verb": state.get("verb", NO_VERB) if record.verb == NO_VERB else record.verb,
            "status": record.status,
            "surface": record.surface,
            "tenant": grant.tenant if grant else UNKNOWN,
            "key": grant.name if grant else UNKNOWN,
        }


class MeasuredEmbedder(Wrapped):
    """An embedder with metrics and traces. It sits below the query cache, so it counts only computed vectors."""

    def __init__(self, embedder: Embedder, metrics: Metrics, traces: Traces) -> None:
        super().__init__(embedder)
        self._metrics = metrics
        self._traces = traces

    def embed(self, texts: Sequence[str], /) -> Vectors32:
        """Return the vectors of the embedder."""
        with self._measured(len(texts)):
            return self._embedder.embed(texts)

    def embed_tokens(self, texts: Sequence[str], /) -> tuple[Vectors32, Sequence[Tokens]]:
        """Return the vectors and token vectors of the embedder."""
        with self._measured(len(texts)):
            return super().embed_tokens(texts)

    @contextmanager
    def _measured(self, texts: int) -> Iterator[None]:
        began, outcome = time.perf_counter(), "failed"
        try:
            with self._traces.embedding(self.name, texts):
                yield
            outcome = "embedded"
        finally:
            self._metrics.embedded(outcome, texts, time.perf_counter() - began)
