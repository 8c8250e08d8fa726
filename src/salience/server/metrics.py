"""What is counted: one table, and the meter that counts. Prometheus reads it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics

from salience.errors import LeaseError, LimitError
from salience.records import Recall, UpkeepReport

_REQUEST: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_STEP: Final = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
NO_VERB: Final = "none"
"""The verb of a request that came to none: its key, path or form was refused."""


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric.

    Attributes:
        kind: how it behaves.
        help: what it tells.
        labels: what tells its series apart; none of them comes from what a user wrote.
        buckets: of a histogram, upper ends in seconds.
        together: of a gauge, what the figures of several processes make.
    """

    kind: Literal["counter", "gauge", "histogram"]
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()
    together: Literal["livesum", "mostrecent"] = "livesum"


METRICS: Final[Mapping[str, Metric]] = {
    "salience_requests_total": Metric("counter", "Requests answered, by HTTP status.", ("surface", "verb", "status")),
    "salience_request_seconds": Metric("histogram", "How long a request took.", ("surface", "verb"), _REQUEST),
    "salience_requests_in_progress": Metric("gauge", "Requests that are worked on."),
    "salience_recall_step_seconds": Metric("histogram", "How long a step of a recall took.", ("step",), _STEP),
    "salience_degraded_total": Metric("counter", "Recalls that did without a step, by the step.", ("step",)),
    "salience_embedded_texts_total": Metric("counter", "Texts given to the embedder.", ("outcome",)),
    "salience_embed_seconds": Metric("histogram", "How long a call of the embedder took.", (), _REQUEST),
    "salience_pending_memories": Metric(
        "gauge", "Memories without a vector, as the last upkeep found them.", together="mostrecent"
    ),
    "salience_pool_connections": Metric("gauge", "Connections to PostgreSQL, in use and idle.", ("state",)),
    "salience_upkeep_passes_total": Metric("counter", "Passes of upkeep, by how they ended.", ("outcome",)),
    "salience_upkeep_changes_total": Metric("counter", "Memories or versions that upkeep changed.", ("change",)),
    "salience_rate_limited_total": Metric("counter", "Requests turned away by the rate of a key."),
}
"""Every metric by its name. The dashboard in `deploy/grafana` reads these."""


class Meter:
    """Counts. Safe to share between threads; with several processes, each counts for itself, and a scrape adds up.

    Attributes:
        registry: holds the metrics of this process.
    """

    def __init__(self) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry()
        self._metrics = {name: _made(name, metric, self.registry) for name, metric in METRICS.items()}
        self._connections: Callable[[], Mapping[str, int]] = dict

    def watch(self, connections: Callable[[], Mapping[str, int]]) -> None:
        """From now on, note at the end of each request how many connections stand, by their state."""
        self._connections = connections

    def begun(self) -> None:
        """A request has come in."""
        self._metrics["salience_requests_in_progress"].inc()

    def ended(self) -> None:
        """A request is answered, or nobody waits for it any more."""
        self._metrics["salience_requests_in_progress"].dec()
        self.pool()

    def pool(self) -> None:
        """Note how many connections stand."""
        for state, count in self._connections().items():
            self._metrics["salience_pool_connections"].labels(state).set(count)

    def answered(self, surface: str, verb: str, status: int, seconds: float) -> None:
        """A request was answered."""
        self._metrics["salience_requests_total"].labels(surface, verb, str(status)).inc()
        self._metrics["salience_request_seconds"].labels(surface, verb).observe(seconds)

    def came_of(self, outcome: object) -> None:
        """A verb ended with a result or an error."""
        match outcome:
            case list():
                for one in outcome:
                    self.came_of(one)
            case Recall():
                for step, milliseconds in outcome.timings.items():
                    self._metrics["salience_recall_step_seconds"].labels(step).observe(milliseconds / 1e3)
                for step in outcome.degraded:
                    self._metrics["salience_degraded_total"].labels(step).inc()
            case UpkeepReport(dry_run=False):
                self.kept(outcome)
            case LimitError() if outcome.retry_after is not None:
                self._metrics["salience_rate_limited_total"].inc()

    def embedded(self, outcome: str, texts: int, seconds: float) -> None:
        """The embedder was given some texts."""
        self._metrics["salience_embedded_texts_total"].labels(outcome).inc(texts)
        self._metrics["salience_embed_seconds"].observe(seconds)

    def kept(self, report: UpkeepReport) -> None:
        """A pass of upkeep was done, or done but for some steps."""
        self._passed("partial" if report.warning else "done")
        self._metrics["salience_pending_memories"].set(report.pending)
        for change, count in changes(report).items():
            self._metrics["salience_upkeep_changes_total"].labels(change).inc(count)

    def not_kept(self, error: Exception) -> None:
        """A pass of upkeep was not done: another process is at it, or the services failed."""
        self._passed("elsewhere" if isinstance(error, LeaseError) else "failed")

    def _passed(self, outcome: str) -> None:
        self._metrics["salience_upkeep_passes_total"].labels(outcome).inc()


def changes(report: UpkeepReport) -> dict[str, int]:
    """Return how much a pass of upkeep changed, by what it did."""
    promoted = sum(map(len, report.promoted.values()))
    return {
        "embedded": report.embedded,
        "expired": len(report.expired),
        "promoted": promoted,
        "pruned": report.pruned,
    }


def _made(name: str, metric: Metric, registry: CollectorRegistry) -> Any:
    match metric.kind:
        case "counter":
            return Counter(name, metric.help, metric.labels, registry=registry)
        case "gauge":
            return Gauge(name, metric.help, metric.labels, registry=registry, multiprocess_mode=metric.together)
        case "histogram":
            return Histogram(name, metric.help, metric.labels, buckets=metric.buckets, registry=registry)
