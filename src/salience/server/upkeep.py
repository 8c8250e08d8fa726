"""Passes of upkeep beside the requests, for every tenant that is served, in a thread of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

import structlog

from salience.engine import Engine
from salience.errors import LeaseError, SalienceError
from salience.maintain.upkeep import Pace, keep
from salience.ports import Keyring, Services
from salience.records import UpkeepReport
from salience.server.metrics import Meter, changes

PATIENCE: Final = 5.0
"""Seconds for which the end of a pass is waited for; what it had done by then stands."""


class Rounds:
    """Whose turn it is: one tenant after the other, the engine's own first.

    Attributes:
        tenants: those of this round.
    """

    def __init__(self, engine: Engine, keyring: Keyring) -> None:
        self.tenants: Sequence[str] = (engine.services.tenant,)
        self._engine = engine
        self._keyring = keyring
        self._left = list(self.tenants)

    def next(self) -> Services:
        """Return the ports of the next tenant, as they are now; `StoreError` if the keys cannot be read."""
        if not self._left:
            held = {key.tenant for key in self._keyring.list()} - {self._engine.services.tenant}
            self.tenants = (self._engine.services.tenant, *sorted(held))
            self._left = list(self.tenants)
        return self._engine.of(self._left.pop(0)).services


@dataclass(frozen=True, slots=True)
class Shared(Pace):
    """A pace at which each tenant of a round gets its pass in the time `every`."""

    tenants: Callable[[], int] = lambda: 1

    def after(self, due: float) -> float:
        """Return when the pass of the next tenant is."""
        return Pace(self.every / self.tenants(), self.monotonic).after(due)


class Keeper:
    """Does upkeep from `start` to `stop`.

    Of several processes on one store, the one that holds the lease does a pass; the others leave it to that one.

    Args:
        engine: whose store it is.
        keyring: tells which tenants there are.
        every: how often each tenant is seen to; None: never.
        meter: counts.
    """

    def __init__(self, engine: Engine, keyring: Keyring, every: timedelta | None, meter: Meter) -> None:
        self._rounds = Rounds(engine, keyring)
        self._every = every
        self._meter = meter
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="salience-upkeep", daemon=True)

    def start(self) -> None:
        """Begin, with a pass at once."""
        if self._every is not None:
            self._thread.start()

    def stop(self) -> None:
        """End, after the step that is under way if that is soon."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(PATIENCE)

    def _keep(self) -> None:
        assert self._every is not None  # noqa: S101 - `start` sees to it
        pace = Shared(self._every, tenants=lambda: len(self._rounds.tenants))
        keep(self._rounds.next, pace, self._stop, self._done, self._failed)

    def _done(self, report: UpkeepReport) -> None:
        self._meter.kept(report)
        done = changes(report)
        log: Any = structlog.get_logger()
        told = log.warning if report.warning else log.info if any(done.values()) else log.debug
        told("upkeep", **done, pending=report.pending, **({"detail": report.warning} if report.warning else {}))

    def _failed(self, error: SalienceError) -> None:
        self._meter.not_kept(error)
        log: Any = structlog.get_logger()
        if self._stop.is_set():
            return
        (log.debug if isinstance(error, LeaseError) else log.warning)("upkeep", detail=str(error))
