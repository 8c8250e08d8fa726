"""Upkeep in a background thread, for every tenant."""

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
from salience.server.metrics import Metrics, changes

STOP_TIMEOUT: Final = 5.0
"""Time for the current step to finish when the server ends, seconds."""
_log: Any = structlog.get_logger()


class TenantRounds:
    """Cycles through the tenants, the engine's own first; `tenants` has those of the current round.

    If the user of the database may not see other tenants (`sees_all`), the engine's own is the only one.
    """

    def __init__(self, engine: Engine, keyring: Keyring) -> None:
        self.tenants: Sequence[str] = (engine.services.tenant,)
        self._engine = engine
        self._keyring = keyring
        self._left = list(self.tenants)
        self.sees_all = engine.services.store.sees_all

    def next(self) -> Services:
        """Return the services of the next tenant; raises `StoreError` if the keys cannot be read."""
        if not self._left:
            own = self._engine.services.tenant
            self._left = [own]  # next, if the keys of all tenants cannot be read
            keys = self._keyring.list() if self.sees_all else ()
            self.tenants = (own, *sorted({key.tenant for key in keys} - {own}))
            self._left = list(self.tenants)
        return self._engine.of(self._left.pop(0)).services


@dataclass(frozen=True, slots=True)
class SharedPace(Pace):
    """A pace that gives each of several tenants one pass per `every`."""

    tenants: Callable[[], int] = lambda: 1

    def after(self, due: float) -> float:
        """Return when the pass of the next tenant is due."""
        return Pace(self.every / self.tenants(), self.monotonic).after(due)


class UpkeepThread:
    """Runs upkeep in a thread, for every tenant. With several processes, the lease holder does the pass.

    `every` is the interval for each tenant; None for never.
    """

    def __init__(self, engine: Engine, keyring: Keyring, every: timedelta | None, metrics: Metrics) -> None:
        self._metrics = metrics
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        if every is not None:
            rounds = TenantRounds(engine, keyring)
            if not rounds.sees_all:
                detail = f"only for tenant {rounds.tenants[0]!r}: the database user may not see the others. Run: "
                _log.warning("upkeep", detail=detail + "GRANT salience_operator TO the user")
            args = (rounds.next, SharedPace(every, tenants=lambda: len(rounds.tenants)), self._stop)
            self._thread = threading.Thread(
                target=keep, args=(*args, self._done, self._failed), name="salience-upkeep", daemon=True
            )

    def start(self) -> None:
        """Start with an immediate pass."""
        if self._thread is not None:
            self._thread.start()

    def stop(self) -> None:
        """Stop after the current step, or after `STOP_TIMEOUT`; finished steps are stored."""
        self._stop.set()
        if self._thread is not None and self._thread.is_alive():
            self._thread.join(STOP_TIMEOUT)

    def _done(self, report: UpkeepReport) -> None:
        self._metrics.upkeep(report)
        counts = changes(report)
        log = _log.warning if report.warning else _log.info if any(counts.values()) else _log.debug
        log("upkeep", **counts, pending=report.pending, **({"detail": report.warning} if report.warning else {}))

    def _failed(self, error: SalienceError) -> None:
        self._metrics.upkeep_failed(error)
        if not self._stop.is_set():
            (_log.debug if isinstance(error, LeaseError) else _log.warning)("upkeep", detail=str(error))
