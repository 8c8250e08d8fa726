"""What is noted of a verb: whose it was, how it ended, how long its steps took."""

from __future__ import annotations

import time
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Final

from salience.errors import SalienceError
from salience.records import Grant
from salience.server.metrics import NO_VERB, Meter
from salience.server.traces import Traces
from salience.wire.errors import problem_of

FAILED: Final = 500


@dataclass(slots=True)
class Note:
    """What is known of a request so far; the verbs that it asks for add to it, on whatever thread they run."""

    surface: str
    began: float = field(default_factory=time.perf_counter)
    verb: str = NO_VERB
    status: int = FAILED
    grant: Grant | None = None
    error: BaseException | None = None


NOTE: Final[ContextVar[Note | None]] = ContextVar("salience_request", default=None)
"""Of the request that is under way."""


class Watcher:
    """Notes the verbs of a surface.

    Args:
        meter: counts.
        traces: where spans go.
        counts: the surface for which each verb counts as a request, since one of HTTP says nothing of how it ended;
            None: its requests are counted as such.
    """

    def __init__(self, meter: Meter, traces: Traces, counts: str | None = None) -> None:
        self._meter = meter
        self._traces = traces
        self._counts = counts

    def asked(self, verb: str, grant: Grant, seconds: float, outcome: object) -> None:
        """Take notice of a verb: who asked, how long it took, and the result or the error that it ended with."""
        note = NOTE.get()
        if note is not None:
            note.verb, note.grant = verb, grant
            note.error = outcome if isinstance(outcome, BaseException) else None
        if self._counts is not None:
            self._meter.answered(self._counts, verb, status_of(outcome), seconds)
        self._meter.came_of(outcome)
        self._traces.came_of(outcome)


def status_of(outcome: object) -> int:
    """Return the status that an outcome has over HTTP, or would have."""
    if isinstance(outcome, SalienceError):
        return problem_of(outcome).status
    return FAILED if isinstance(outcome, BaseException) else 200
