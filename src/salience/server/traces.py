"""Traces: OpenTelemetry spans, sent with OTLP over HTTP. No span contains user text."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from opentelemetry.trace import NoOpTracerProvider, SpanKind, Status, StatusCode, TracerProvider
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

import salience
from salience.records import Recall

Attributes = Mapping[str, str | int]
FLUSH_TIMEOUT: Final = 3.0
"""Timeout for the remaining spans when the server ends, seconds."""
_PATH: Final = "/v1/traces"
_PROPAGATED: Final = (b"traceparent", b"tracestate")


class Traces:
    """Creates spans. A thread sends them in batches; if the collector is down, they are dropped.

    Args:
        endpoint: of the collector, such as `http://localhost:4318`, with or without `/v1/traces`; None for no traces.
    """

    def __init__(self, endpoint: str | None) -> None:
        self._shutdown: Callable[[], None] | None = None
        provider: TracerProvider = NoOpTracerProvider()
        if endpoint is not None:
            provider, self._shutdown = _otlp(endpoint)
        self._tracer = provider.get_tracer("salience", salience.__version__)
        self._propagator = TraceContextTextMapPropagator()

    @contextmanager
    def request(self, headers: Iterable[tuple[bytes, bytes]]) -> Iterator[Callable[[str, Attributes], None]]:
        """Trace a request, as a child of the trace in its headers; yields a function that sets name and attributes."""
        carrier = {name.decode("ascii"): value.decode("latin-1") for name, value in headers if name in _PROPAGATED}
        parent = self._propagator.extract(carrier)
        with self._tracer.start_as_current_span(
            "request", parent, SpanKind.SERVER, record_exception=False, set_status_on_exception=False
        ) as span:

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
        with self._tracer.start_as_current_span(
            "embedder", attributes=attributes, record_exception=False, set_status_on_exception=False
        ) as span:
            try:
                yield
            except Exception as error:
                span.set_status(Status(StatusCode.ERROR, type(error).__name__))  # the message may quote a text
                raise

    def close(self) -> None:
        """Send the remaining spans, for at most `FLUSH_TIMEOUT` seconds."""
        if self._shutdown is not None:
            last = threading.Thread(target=self._shutdown, name="salience-traces", daemon=True)
            last.start()
            last.join(FLUSH_TIMEOUT)


def _otlp(endpoint: str) -> tuple[TracerProvider, Callable[[], None]]:
    """Return a provider that sends spans to a collector, and its shutdown."""
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # slow to load
    from opentelemetry.sdk.resources import OTELResourceDetector, Resource
    from opentelemetry.sdk.trace import TracerProvider as SdkProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    url = endpoint if endpoint.endswith(_PATH) else endpoint.rstrip("/") + _PATH
    resource = Resource({"service.name": "salience", "service.version": salience.__version__})
    provider = SdkProvider(resource=resource.merge(OTELResourceDetector().detect()), shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(url)))
    return provider, provider.shutdown
