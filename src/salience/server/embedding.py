"""An embedder whose work is counted and traced."""

from __future__ import annotations

import time
from collections.abc import Sequence

from salience.batch import Vectors32
from salience.models.cache import Wrapped
from salience.ports import Embedder
from salience.server.metrics import Meter
from salience.server.traces import Traces


class Measured(Wrapped):
    """An embedder that goes by the name, dimension and calibration of another one, which does the work.

    It stands below the memory of query vectors, so that what is counted was really embedded.
    """

    def __init__(self, embedder: Embedder, meter: Meter, traces: Traces) -> None:
        super().__init__(embedder)
        self._meter = meter
        self._traces = traces

    def embed(self, texts: Sequence[str], /) -> Vectors32:
        """Return what the embedder returns; raises what it raises."""
        began, outcome = time.perf_counter(), "failed"
        try:
            with self._traces.embedding(self.name, len(texts)):
                vectors = self._embedder.embed(texts)
            outcome = "embedded"
        finally:
            self._meter.embedded(outcome, len(texts), time.perf_counter() - began)
        return vectors
