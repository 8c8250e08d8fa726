"""Spans that go to a collector: OpenTelemetry, OTLP over HTTP."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import SpanKind, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

import salience
from salience.records import Recall
from salience.server.traces import Ended, Headers, Told

_PATH: Final = "/v1/traces"
_CARRIED: Final = (b"traceparent", b"tracestate")
PATIENCE: Final = 3.0
"""Seconds that what was not sent yet has when the server ends."""


class Otlp:
    """Spans are sent in batches by a thread of their own; where the collector is away, they are dropped.

    Args:
        endpoint: of the collector, such as `http://localhost:4318`; the path of traces is added where it is missing.
    """

    def __init__(self, endpoint: str) -> None:
        whole = endpoint if endpoint.endswith(_PATH) else endpoint.rstrip("/") + _PATH
        named = Resource({"service.name": "salience", "service.version": salience.__version__})
        self._provider = TracerProvider(resource=named.merge(OTELResourceDetector().detect()), shutdown_on_exit=False)
        self._provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(whole)))
        self._tracer = self._provider.get_tracer("salience", salience.__version__)
        self._propagator = TraceContextTextMapPropagator()

    @contextmanager
    def request(self, headers: Headers) -> Iterator[Ended]:
        """Return the span of a request, which continues the trace that its headers name."""
        carrier = {name.decode("ascii"): value.decode("latin-1") for name, value in headers if name in _CARRIED}
        before = self._propagator.extract(carrier)
        with self._tracer.start_as_current_span(
            "request", before, SpanKind.SERVER, record_exception=False, set_status_on_exception=False
        ) as span:

            def ended(name: str, told: Told) -> None:
                span.update_name(name)
                span.set_attributes(dict(told))
                if int(told.get("http.response.status_code", 0)) >= 500:
                    span.set_status(Status(StatusCode.ERROR))

            yield ended

    def came_of(self, outcome: object) -> None:
        """Add a span for each step of a recall that has just ended, one after the other up to now; so for several."""
        for one in outcome if isinstance(outcome, list) else [outcome]:
            if isinstance(one, Recall):
                self._stepped(one)

    def _stepped(self, found: Recall) -> None:
        steps = {step: int(milliseconds * 1e6) for step, milliseconds in found.timings.items()}
        at = time.time_ns() - sum(steps.values())
        for step, length in steps.items():
            self._tracer.start_span(f"recall.{step}", start_time=at).end(at + length)
            at += length

    @contextmanager
    def embedding(self, name: str, texts: int) -> Iterator[None]:
        """Return the span of a call of an embedder."""
        told: Told = {"salience.embedder": name, "salience.texts": texts}
        with self._tracer.start_as_current_span(
            "embedder", attributes=told, record_exception=False, set_status_on_exception=False
        ) as span:
            try:
                yield
            except Exception as error:
                span.set_status(Status(StatusCode.ERROR, type(error).__name__))  # its message may quote a text
                raise

    def close(self) -> None:
        """Send what was not sent yet, for `PATIENCE` seconds at most."""
        last = threading.Thread(target=self._provider.shutdown, name="salience-traces", daemon=True)
        last.start()
        last.join(PATIENCE)
