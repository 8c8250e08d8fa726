"""Prometheus metrics: the table of metrics, their values, and the page at `/metrics`."""

from __future__ import annotations

import hmac
import math
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, Literal

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead
from prometheus_client.values import ValueClass
from pydantic import SecretStr
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from salience.errors import LeaseError, LimitError
from salience.records import Context, Recall, UpkeepReport
from salience.server.auth import bearer_token

_REQUEST: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_STEP: Final = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
NO_VERB: Final = "none"
"""Verb label of requests that were refused before the verb was known."""
PATH: Final = "/metrics"
_DIRECTORY: Final = "PROMETHEUS_MULTIPROC_DIR"
"""prometheus_client reads this variable at its first import."""


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric; no label contains the text of a user.

    Attributes:
        buckets: upper bounds of a histogram, seconds.
        multiprocess_mode: of a gauge: how the values of several processes are combined.
    """

    kind: Literal["counter", "gauge", "histogram"]
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()
    multiprocess_mode: Literal["livesum", "mostrecent"] | None = None


@dataclass(frozen=True, slots=True)
class Latency:
    """How long a step took: number of times, and the mean, the median and the 95th percentile in seconds.

    The last two are interpolated between the bounds of the histogram.
    """

    step: str
    count: int
    mean: float
    median: float
    p95: float


_KINDS: Final[Mapping[str, Any]] = {"counter": Counter, "gauge": Gauge, "histogram": Histogram}


METRICS: Final[Mapping[str, Metric]] = {
    "salience_requests_total": Metric("counter", "Requests answered, by HTTP status.", ("surface", "verb", "status")),
    "salience_request_seconds": Metric("histogram", "How long a request took.", ("surface", "verb"), _REQUEST),
    "salience_requests_in_progress": Metric("gauge", "Requests in progress.", multiprocess_mode="livesum"),
    "salience_recall_step_seconds": Metric("histogram", "How long a step of a recall took.", ("step",), _STEP),
    "salience_degraded_total": Metric("counter", "Recalls without a step, by step.", ("step",)),
    "salience_embedded_texts_total": Metric("counter", "Texts given to the embedder.", ("outcome",)),
    "salience_embed_seconds": Metric("histogram", "How long a call of the embedder took.", (), _REQUEST),
    "salience_pending_memories": Metric(
        "gauge", "Memories without a vector, as the last upkeep found them.", multiprocess_mode="mostrecent"
    ),
    "salience_pool_connections": Metric(
        "gauge", "Connections to PostgreSQL, by state.", ("state",), multiprocess_mode="livesum"
    ),
    "salience_upkeep_passes_total": Metric("counter", "Passes of upkeep, by outcome.", ("outcome",)),
    "salience_upkeep_changes_total": Metric("counter", "Memories or versions that upkeep changed.", ("change",)),
    "salience_rate_limited_total": Metric("counter", "Requests rejected by the rate limit of a key."),
}
"""All metrics by name. The dashboard in `deploy/grafana` reads them."""


class Metrics:
    """The metrics of one process; safe to share between threads. With several processes, a scrape sums them."""

    def __init__(self) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry()
        self.connections: Callable[[], Mapping[str, int]] = dict
        """Returns the number of connections of the pool by state; read at the end of each request."""
        self._metrics: dict[str, Any] = {}
        for name, one in METRICS.items():
            options = {"buckets": one.buckets, "multiprocess_mode": one.multiprocess_mode}
            given = {key: value for key, value in options.items() if value}
            self._metrics[name] = _KINDS[one.kind](name, one.help, one.labels, registry=self.registry, **given)

    def in_progress(self, change: int) -> None:
        """Count a request that begins (1) or ends (-1)."""
        self._metrics["salience_requests_in_progress"].inc(change)
        if change < 0:
            self._record_pool()

    def _record_pool(self) -> None:
        for state, count in self.connections().items():
            self._metrics["salience_pool_connections"].labels(state).set(count)

    def request(self, surface: str, verb: str, status: int, seconds: float) -> None:
        """Count a request."""
        self._metrics["salience_requests_total"].labels(surface, verb, str(status)).inc()
        self._metrics["salience_request_seconds"].labels(surface, verb).observe(seconds)

    def outcome(self, outcome: object) -> None:
        """Count the result or error of a verb."""
        match outcome:
            case list():
                for one in outcome:
                    self.outcome(one)
            case Recall():
                for step, milliseconds in outcome.timings.items():
                    self._metrics["salience_recall_step_seconds"].labels(step).observe(milliseconds / 1e3)
                self._degraded(outcome)
            case Context():
                self._degraded(outcome)
            case UpkeepReport(dry_run=False):
                self.upkeep(outcome)
            case LimitError() if outcome.retry_after is not None:
                self._metrics["salience_rate_limited_total"].inc()

    def _degraded(self, outcome: Recall | Context) -> None:
        for step in outcome.degraded:
            self._metrics["salience_degraded_total"].labels(step).inc()

    def embedded(self, outcome: str, texts: int, seconds: float) -> None:
        """Count a call of the embedder."""
        self._metrics["salience_embedded_texts_total"].labels(outcome).inc(texts)
        self._metrics["salience_embed_seconds"].observe(seconds)

    def upkeep(self, report: UpkeepReport) -> None:
        """Count a pass of upkeep."""
        self._metrics["salience_upkeep_passes_total"].labels("partial" if report.warning else "done").inc()
        self._metrics["salience_pending_memories"].set(report.pending)
        for change, count in changes(report).items():
            self._metrics["salience_upkeep_changes_total"].labels(change).inc(count)

    def upkeep_failed(self, error: Exception) -> None:
        """Count a pass of upkeep that failed, or that another process does."""
        outcome = "elsewhere" if isinstance(error, LeaseError) else "failed"
        self._metrics["salience_upkeep_passes_total"].labels(outcome).inc()

    def exposition(self) -> bytes:
        """Return the metrics of this process, or of all worker processes, as text."""
        self._record_pool()
        return generate_latest(self._everything())

    def latencies(self) -> list[Latency]:
        """Return the latency of each step of a recall, of this process or of all, in the order of their first run."""
        sums, buckets = dict[str, float](), dict[str, list[tuple[float, float]]]()
        for family in self._everything().collect():
            for sample in family.samples if family.name == "salience_recall_step_seconds" else ():
                step = sample.labels["step"]
                if sample.name.endswith("_sum"):
                    sums[step] = sample.value
                elif sample.name.endswith("_bucket"):
                    buckets.setdefault(step, []).append((float(sample.labels["le"]), sample.value))
        found = []
        for step, bounds in buckets.items():
            bounds.sort()
            if count := int(bounds[-1][1]):
                quantiles = (quantile(bounds, share) for share in (0.5, 0.95))
                found.append(Latency(step, count, sums[step] / count, *quantiles))
        return found

    def _everything(self) -> CollectorRegistry:
        if not getattr(ValueClass, "_multiprocess", False):
            return self.registry
        together = CollectorRegistry()
        MultiProcessCollector(together)  # type: ignore[no-untyped-call]
        return together


def quantile(bounds: Sequence[tuple[float, float]], share: float) -> float:
    """Return a quantile from (upper bound, cumulative count), as `histogram_quantile` of Prometheus estimates it."""
    wanted, low, below = share * bounds[-1][1], 0.0, 0.0
    for high, count in bounds:
        if count >= wanted and count > below:
            return low if math.isinf(high) else low + (high - low) * (wanted - below) / (count - below)
        low, below = high, count
    return low


def changes(report: UpkeepReport) -> dict[str, int]:
    """Return the number of changes of a pass of upkeep, by kind."""
    return {
        "embedded": report.embedded,
        "expired": len(report.expired),
        "promoted": sum(map(len, report.promoted.values())),
        "pruned": report.pruned,
    }


@contextmanager
def shared_directory() -> Iterator[None]:
    """Share the metrics of processes started within the block, in a temporary directory."""
    with tempfile.TemporaryDirectory(prefix="salience-metrics-", ignore_cleanup_errors=True) as directory:
        os.environ[_DIRECTORY] = directory
        try:
            yield
        finally:
            del os.environ[_DIRECTORY]


def forget_process(pid: int) -> None:
    """Remove the gauges of an ended process from the sums; its counters stay."""
    mark_process_dead(pid)  # type: ignore[no-untyped-call]


def route(metrics: Metrics, is_open: Callable[[], bool], token: SecretStr | None) -> Route:
    """Return the page at `/metrics`.

    The page is open while callers need no key. After that it requires the metrics token, because it covers all tenants;
    without a token in the settings it is not found.
    """

    def page(request: Request) -> Response:
        if not is_open():
            expected = b"" if token is None else token.get_secret_value().encode("utf-8", "surrogatepass")
            if not expected:  # anyone could guess the empty token
                raise HTTPException(404)
            given = bearer_token(request.headers.get("authorization"))
            if given is None or not hmac.compare_digest(given.encode("utf-8", "surrogatepass"), expected):
                raise HTTPException(401, headers={"WWW-Authenticate": "Bearer"})
        return Response(metrics.exposition(), media_type="text/plain; version=0.0.4; charset=utf-8")

    return Route(PATH, page)
