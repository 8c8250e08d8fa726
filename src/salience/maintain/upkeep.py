"""Upkeep: embed pending memories, expire, promote and prune; one pass, or passes on a schedule.

A pass holds a lease, so one process at a time does the upkeep of a tenant.
"""

from __future__ import annotations

import os
import platform
import random
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import groupby, islice, pairwise, takewhile
from typing import Final, Protocol, TypeVar

from salience.errors import LeaseError, SalienceError, StoreError
from salience.maintain.tiers import REACHED, UPKEEP, consolidate
from salience.pending import Embedded, embed_pending
from salience.ports import Lease, Prune, Revise, Services
from salience.records import ANY, ConsolidateReport, Memory, Scope, UpkeepReport
from salience.remember import stale
from salience.steps import retry_stale, scan

HELD: Final = timedelta(minutes=2)
"""How long the lease lasts without a renewal: the wait after a pass that was killed."""
CHUNK: Final = 1000
"""Versions dropped in one transaction."""
FIRST_RETRY: Final = 1.0
"""Seconds until a failed embedder is called again; doubled after each further failure."""
LAST_RETRY: Final = 600.0
"""Most seconds between two retries."""
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Expired:
    """Ids of expired memories, and of the reflections that became stale with them."""

    ids: tuple[str, ...] = ()
    stale: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Passed:
    """The report of a pass, and whether the embedder answered, if it was called."""

    report: UpkeepReport
    answers: bool


def upkeep(services: Services, *, dry_run: bool = False) -> UpkeepReport:
    """Run one pass over all scopes of the tenant and return what it did.

    Every step consists of whole transactions, so a pass can be interrupted at any time. A failed step is named in the
    warning of the report; the other steps still run.

    Args:
        services: the ports.
        dry_run: write nothing and call no embedder; the report assumes that it answers.

    Raises:
        LeaseError: another process does the upkeep, or took over because this one did not renew the lease in time.
        StoreError: the lease could not be written; nothing was done.
    """
    return whole_pass(services, dry_run=dry_run).report


def whole_pass(services: Services, *, dry_run: bool = False) -> Passed:
    """Run all steps; see `upkeep`."""
    if dry_run:
        return _run(services, _Steps(lambda: None), dry_run=True)
    with leased(services) as renew:
        return _run(services, _Steps(renew), dry_run=False)


def embedding_pass(services: Services) -> Passed:
    """Embed pending memories and skip the other steps; raises as `upkeep`."""
    with leased(services) as renew:
        return _run(services, _Steps(renew), dry_run=False, only_embed=True)


@contextmanager
def leased(services: Services) -> Iterator[Callable[[], None]]:
    """Hold the lease of the tenant's upkeep, and yield a function that renews it.

    Raises:
        LeaseError: another process holds the lease, or has taken it over.
    """
    name = f"upkeep:{services.tenant}"
    holder = f"{platform.node()}:{os.getpid()}:{secrets.token_hex(4)}"

    def renew() -> None:
        now = services.clock()
        services.store.apply([Lease(name, holder, now, now + HELD)])

    renew()
    try:
        yield renew
    finally:
        with suppress(LeaseError, StoreError):  # another process holds it by now, or it ends by itself
            services.store.apply([Lease.given_back(name, holder, services.clock())])


@dataclass(eq=False)
class _Steps:
    """Runs the steps of one pass and collects the messages of failed ones."""

    renew: Callable[[], None]
    messages: list[str] = field(default_factory=list)

    def run(self, name: str, step: Callable[[], Result], default: Result) -> Result:
        """Return the result of a step; if it fails, note why and return `default`."""
        self.renew()
        try:
            return step()
        except LeaseError:
            raise
        except SalienceError as error:
            self.messages.append(f"{name}: {error}")
            return default


def _run(services: Services, steps: _Steps, *, dry_run: bool, only_embed: bool = False) -> Passed:
    everywhere = Scope(services.tenant, ANY, ANY, ANY, ANY)
    expired, moved, pruned = Expired(), ConsolidateReport(0, dict.fromkeys(REACHED, ())), 0
    embedded = steps.run("embed", lambda: embed_pending(services, dry_run=dry_run, before=steps.renew), Embedded(0, 0))
    if embedded.warning:
        steps.messages.append(f"embed: {embedded.warning}")
    if not only_embed:
        expired = steps.run("expire", lambda: expire(services, everywhere, dry_run=dry_run), expired)
        moved = steps.run(
            "consolidate",
            lambda: consolidate(services, everywhere, dry_run=dry_run, without=expired.stale),
            moved,
        )
        pruned = steps.run("prune", lambda: prune(services, everywhere, dry_run=dry_run), 0)
    report = UpkeepReport(
        embedded=embedded.embedded,
        pending=embedded.pending,
        expired=expired.ids,
        promoted=moved.promoted,
        pruned=pruned,
        warning="\n".join(steps.messages) or None,
        dry_run=dry_run,
    )
    return Passed(report, embedded.answers)


def expire(services: Services, scope: Scope, *, dry_run: bool = False) -> Expired:
    """Hide the visible memories whose time to live is over, and reflections of them, all or none.

    Their versions are kept; `restore` brings them back.
    """

    def attempt() -> Expired:
        now = services.clock()
        memories = (stored.memory for stored in scan(services, scope))
        over = [memory for memory in memories if memory.expires_at is not None and memory.expires_at <= now]
        gone = [
            Revise(memory.changed("expire", now, by=UPKEEP, reason="its time ran out", forgotten_at=now))
            for memory in over
        ]
        outdated = stale(services, over, now, by=UPKEEP, reason="the time of a source ran out")
        if not dry_run:
            services.store.apply([*gone, *outdated], counted=True)
        return Expired(tuple(memory.id for memory in over), tuple(change.memory.id for change in outdated))

    return retry_stale(attempt)


def prune(services: Services, scope: Scope, *, dry_run: bool = False) -> int:
    """Drop what the settings `keep_versions`, `keep_touches` and `keep_requests` limit; return how many versions.

    A setting that is None keeps everything.
    """
    now = services.clock()
    dropped = 0
    if services.keep_versions is not None:
        numbers = _old_versions(services, scope, now - services.keep_versions)
        while chunk := tuple(islice(numbers, CHUNK)):
            dropped += len(chunk)
            if not dry_run:
                services.store.apply([Prune(services.tenant, chunk)], counted=True)
    if services.keep_touches is not None and not dry_run:
        services.store.apply([Prune(services.tenant, touches_before=now - services.keep_touches)], counted=True)
    if services.keep_requests is not None and not dry_run:
        services.store.apply([Prune(services.tenant, requests_before=now - services.keep_requests)], counted=True)
    return dropped


def _old_versions(services: Services, scope: Scope, bound: datetime) -> Iterator[tuple[str, int]]:
    """Yield the id and number of each version that may be dropped."""
    memories = (stored.memory for stored in scan(services, scope, forgotten=True, versions=True))
    for id_, versions in groupby(memories, key=lambda memory: memory.id):
        yield from ((id_, version.version) for version in _ended_before(list(versions), bound))


def _ended_before(versions: Sequence[Memory], bound: datetime) -> list[Memory]:
    """Return the versions of one memory that ended before `bound`; the last live one and later ones are kept."""
    last_live = max((place for place, memory in enumerate(versions) if memory.status == "live"), default=0)
    ended = takewhile(lambda pair: pair[1].changed_at < bound, list(pairwise(versions))[:last_live])
    return [older for older, _ in ended]


class Stop(Protocol):
    """Ends the schedule: a `threading.Event`, or an object that waits like one."""

    def wait(self, timeout: float, /) -> bool:
        """Wait for at most `timeout` seconds, and return whether to stop."""
        ...


@dataclass(frozen=True, slots=True)
class Pace:
    """When passes are due.

    Attributes:
        every: time between the starts of two passes; a long pass skips the starts that it overruns.
        monotonic: returns seconds on a monotonic clock.
        jitter: returns a random number from 0 to 1, so that processes do not call a provider all at once.
    """

    every: timedelta
    monotonic: Callable[[], float] = time.monotonic
    jitter: Callable[[], float] = random.random

    def after(self, due: float) -> float:
        """Return when the next pass is due: a multiple of `every` after the pass at `due`, not before now."""
        seconds = self.every.total_seconds()
        return due + seconds * (max(0.0, self.monotonic() - due) // seconds + 1)

    def retry(self, failures: int) -> float:
        """Return the seconds until the next retry after consecutive failures, [1, 600]."""
        doubled = FIRST_RETRY * 2.0 ** min(failures - 1, 16)
        return min(doubled * (1 + self.jitter() / 4), LAST_RETRY)


def keep(
    current: Callable[[], Services],
    pace: Pace,
    stop: Stop,
    on_report: Callable[[UpkeepReport], None],
    on_error: Callable[[SalienceError], None],
) -> None:
    """Run a pass at once and then at its pace, until `stop` ends it.

    While the embedder fails, pending memories are retried between the passes: after 1 s, 2 s, and so on up to 10
    minutes. Errors do not end the loop.

    Args:
        current: returns the ports of the next pass.
        pace: when passes are due.
        stop: waits between passes.
        on_report: called with the report of each pass.
        on_error: called with the error of a pass, including `LeaseError` if another process does it.
    """
    due, failures, pause = pace.monotonic(), 0, 0.0
    while not stop.wait(pause):
        is_due = pace.monotonic() >= due
        try:
            passed = (whole_pass if is_due else embedding_pass)(current())
            on_report(passed.report)
            failures = 0 if passed.answers else failures + 1
        except SalienceError as error:
            on_error(error)
        due = pace.after(due) if is_due else due
        pause = max(0.0, due - pace.monotonic())
        pause = min(pause, pace.retry(failures)) if failures else pause
