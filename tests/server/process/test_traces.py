"""Spans reach a collector: one a request, continuing the caller's trace, with recall's steps below, and no text."""

from __future__ import annotations

import gzip
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from salience.server import telemetry as traces
from salience.server.app import build_app

pytestmark = pytest.mark.slow

SECRET = "zebra-7c1f-quagga"
TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


class Collector(ThreadingHTTPServer):
    """A double of an OTLP/HTTP collector: keeps what it is sent."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.bodies, self.paths = [], []

    def spans(self):
        return [
            span
            for body in self.bodies
            for resource in ExportTraceServiceRequest.FromString(body).resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        zipped = self.headers.get("content-encoding") == "gzip"
        self.server.bodies.append(gzip.decompress(body) if zipped else body)
        self.server.paths.append(self.path)
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


@pytest.fixture
def collector():
    made = Collector()
    thread = threading.Thread(target=made.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield made
    made.shutdown()
    made.server_close()
    thread.join()


@pytest.fixture
def traced(collector, planned):
    """Return what came of a session: the spans by their names."""

    from servers import client as connected
    from servers import served

    def trace(endpoint, do):
        with (
            build_app(planned(otlp_endpoint=endpoint)) as site,
            served(site.asgi, lifespan="on") as url,
            connected(url) as client,
        ):
            do(client)
        return {span.name: span for span in collector.spans()}

    return trace


def asking(client):
    client.post("/v1/memories", json={"content": f"The {SECRET} sleeps", "user_id": SECRET})
    headers = {"traceparent": f"00-{TRACE}-{PARENT}-01", "baggage": f"text={SECRET}"}
    client.post("/v1/recall", json={"query": f"query {SECRET}", "user_id": SECRET}, headers=headers)
    client.get(f"/v1/memory/{SECRET}?user_id={SECRET}")


def attributes(span):
    return {one.key: one.value.string_value or one.value.int_value for one in span.attributes}


def test_a_request_continues_the_trace_of_its_caller(collector, traced):
    spans = traced(f"http://127.0.0.1:{collector.server_port}", asking)
    recall = spans["POST /v1/recall"]
    assert (recall.trace_id.hex(), recall.parent_span_id.hex()) == (TRACE, PARENT)
    assert recall.kind == recall.SPAN_KIND_SERVER
    assert attributes(recall) | {"salience.request_id": ""} == {
        "http.request.method": "POST", "http.route": "/v1/recall", "http.response.status_code": 200,
        "salience.request_id": "", "salience.verb": "recall", "salience.surface": "rest", "salience.tenant": "default",
        "salience.key": "local",
    }  # fmt: skip
    assert spans["POST /v1/memories"].trace_id.hex() != TRACE
    assert set(collector.paths) == {"/v1/traces"}


def test_steps_of_a_recall_and_embeddings_are_below_it_in_their_order(collector, traced):
    spans = traced(f"http://127.0.0.1:{collector.server_port}/v1/traces", asking)
    recall = spans["POST /v1/recall"]
    steps = [spans[f"recall.{step}"] for step in ("need", "embed", "gather", "rank", "fetch", "touch")]
    assert {step.parent_span_id for step in steps} == {recall.span_id}
    assert [step.start_time_unix_nano for step in steps] == sorted(step.start_time_unix_nano for step in steps)
    assert all(one.end_time_unix_nano == next.start_time_unix_nano for one, next in pairwise(steps))
    own = [span for span in collector.spans() if span.name == "embedder" and span.trace_id == recall.trace_id]
    # the question names the user, so it is embedded in the first person too
    assert [span.parent_span_id for span in own] == [recall.span_id] * 2
    assert [attributes(span) for span in own] == [{"salience.embedder": "planted", "salience.texts": 1}] * 2


def test_an_embedding_that_is_not_waited_for_belongs_to_its_request(collector, traced):
    def hurried(client):
        headers = {"traceparent": f"00-{TRACE}-{PARENT}-01"}
        client.post("/v1/recall", json={"query": "query", "deadline_ms": 60_000}, headers=headers)

    spans = traced(f"http://127.0.0.1:{collector.server_port}", hurried)
    assert spans["embedder"].parent_span_id == spans["POST /v1/recall"].span_id


def test_no_span_holds_what_was_written(collector, traced, monkeypatch):
    spans = traced(f"http://127.0.0.1:{collector.server_port}", asking)
    assert "GET /v1/memory/{id}" in spans
    assert not [body for body in collector.bodies if SECRET.encode() in body]


def test_a_failed_embedder_is_recorded_by_its_error_class(collector):
    sent = traces.Traces(f"http://127.0.0.1:{collector.server_port}")
    with pytest.raises(RuntimeError), sent.embedding("planted", 1):
        raise RuntimeError(SECRET)
    sent.close()
    (span,) = collector.spans()
    assert (span.status.code, span.status.message) == (span.status.STATUS_CODE_ERROR, "RuntimeError")
    assert not span.events


def test_a_collector_that_is_away_keeps_nobody_waiting(traced, monkeypatch):
    monkeypatch.setattr(traces, "FLUSH_TIMEOUT", 0.1)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "0.1")  # nor does it try again while other tests run
    answers = []
    traced("http://127.0.0.1:9", lambda client: answers.append(client.get("/v1/stats").status_code))
    assert answers == [200]


def test_nothing_is_loaded_or_sent_without_an_endpoint(collector, monkeypatch, started):
    client = started()
    asking(client)
    assert collector.bodies == []


def test_the_variable_of_opentelemetry_is_taken_too(collector, traced, monkeypatch):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{collector.server_port}")
    from salience import settings

    assert settings.load().otlp_endpoint == f"http://127.0.0.1:{collector.server_port}"
