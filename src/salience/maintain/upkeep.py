"""Upkeep: embed pending memories, expire, promote, prune and finish erasures; one pass, or passes on a schedule.

A pass holds a lease, so one process at a time does the upkeep of a tenant.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import chain, groupby, islice, pairwise
from typing import Final, Protocol, TypeVar

from salience.errors import LeaseError, SalienceError
from salience.maintain.leases import leased
from salience.maintain.tiers import UPPER, consolidate
from salience.pending import Embedded, embed_pending
from salience.ports import Derive, Prune, Services
from salience.rank import profiles
from salience.records import ANY, ConsolidateReport, Scope, UpkeepReport
from salience.remember.conflicts import neighbours
from salience.remember.facts import stored_facts
from salience.remember.write import hidden, related
from salience.steps import retry_stale, scan, scan_pages

LEASE_TIME: Final = timedelta(minutes=2)
"""Duration of the lease without a renewal. After a killed pass, the next one starts when the lease has ended."""
RELATED: Final = 500
"""Memories whose relations are decided in one transaction."""
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
class PassResult:
    """The report of a pass, and whether the embedder answered, if it was called."""

    report: UpkeepReport
    answers: bool


def upkeep(services: Services, *, dry_run: bool = False) -> UpkeepReport:
    """Run one pass over all scopes of the tenant and return what it did.

    Every step consists of whole transactions, so a pass can be interrupted at any time. A failed step is named in the
    warning of the report; the other steps still run.
    With `dry_run`, nothing is written, and no embedder is called; the report assumes that it answers.

    Raises:
        LeaseError: another process does the upkeep, or took over because this one did not renew the lease in time.
        StoreError: the lease could not be written; nothing was done.
    """
    return run_pass(services, dry_run=dry_run).report


def run_pass(services: Services, *, dry_run: bool = False, only_embed: bool = False) -> PassResult:
    """Run all steps, or only embed pending memories; see `upkeep`."""
    if dry_run:
        return _run(services, lambda: None, dry_run=True, only_embed=only_embed)
    with leased(services, f"upkeep:{services.tenant}", LEASE_TIME, services.tenant) as renewal:

        def renew() -> None:
            services.store.apply([renewal()])

        return _run(services, renew, dry_run=False, only_embed=only_embed)


def _run(services: Services, renew: Callable[[], None], *, dry_run: bool, only_embed: bool) -> PassResult:
    everywhere = Scope(services.tenant, ANY, ANY, ANY, ANY)
    messages: list[str] = []

    def run(name: str, step: Callable[[], Result], default: Result) -> Result:
        """Return the result of a step; if it fails, note why and return `default`."""
        renew()
        try:
            return step()
        except LeaseError:
            raise
        except SalienceError as error:
            messages.append(f"{name}: {error}")
            return default

    expired, moved, pruned = Expired(), ConsolidateReport(0, dict.fromkeys(UPPER, ())), 0
    embedded = run("embed", lambda: embed_pending(services, dry_run=dry_run, before=renew), Embedded(0, 0))
    if embedded.warning:
        messages.append(f"embed: {embedded.warning}")
    if not only_embed:
        run("relate", lambda: relate_undecided(services, everywhere, dry_run=dry_run), 0)
        expired = run("expire", lambda: expire(services, dry_run=dry_run), expired)
        without = expired.stale
        moved = run("consolidate", lambda: consolidate(services, everywhere, dry_run=dry_run, without=without), moved)
        pruned = run("prune", lambda: prune(services, everywhere, dry_run=dry_run), 0)
        if not (dry_run or run("erase", services.store.finish_erasures, True)):
            messages.append("erase: the log still holds bytes of erased texts, because another process reads it.")
    report = UpkeepReport(
        embedded=embedded.embedded,
        pending=embedded.pending,
        expired=expired.ids,
        promoted=moved.promoted,
        pruned=pruned,
        warning="\n".join(messages) or None,
        dry_run=dry_run,
    )
    return PassResult(report, embedded.answers)


def relate_undecided(services: Services, scope: Scope, *, dry_run: bool = False) -> int:
    """Decide the relations of visible memories that were imported or pending when they were written; return how many.

    The conflict threshold of the default profile does not matter: only the nearest are compared.
    """
    profile, done = profiles.load("salience"), 0
    for page in scan_pages(services, scope, size=RELATED):
        undecided = [one for one in page if one.memory.relations is None and one.vector is not None]
        done += len(undecided)
        if not undecided or dry_run:
            continue
        near = neighbours(services, profile, undecided, services.clock())
        near = [
            [pair for pair in each if pair[1].id != one.memory.id] for one, each in zip(undecided, near, strict=True)
        ]
        facts = stored_facts(services, [one.memory for one in undecided])
        made, later = related(services, undecided, near, facts, [False] * len(undecided))
        changes = [Derive.of(item.memory, relations=item.memory.relations) for item in made]
        services.store.apply([*changes, *later])
    return done


def expire(services: Services, *, dry_run: bool = False) -> Expired:
    """Hide the memories of the tenant whose time to live is over, and reflections of them, all or none.

    No verb but `history` and `restore` finds them from `expires_at` on; this writes the version that says so, and keeps
    the others.
    """

    def attempt() -> Expired:
        now = services.clock()
        expired = services.store.due(services.tenant, now)
        changes = hidden(services, expired, now)
        if changes and not dry_run:
            services.store.apply(changes, counted=True)
        ids = [change.memory.id for change in changes]
        return Expired(tuple(ids[: len(expired)]), tuple(ids[len(expired) :]))

    return retry_stale(attempt)


def prune(services: Services, scope: Scope, *, dry_run: bool = False) -> int:
    """Drop what the settings `keep_versions`, `keep_touches`, `keep_requests` and `recall_log` limit.

    Returns how many versions were dropped.

    A setting that is None keeps everything.
    """
    now, tenant, dropped = services.clock(), services.tenant, 0
    changes: Iterator[Prune] = iter(())
    if services.keep_versions is not None:
        numbers = _old_versions(services, scope, now - services.keep_versions)
        changes = (Prune(tenant, chunk) for chunk in iter(lambda: tuple(islice(numbers, CHUNK)), ()))
    others = [Prune(tenant, now=now)]
    if services.keep_touches is not None:
        others.append(Prune(tenant, touches_before=now - services.keep_touches))
    if services.keep_requests is not None:
        others.append(Prune(tenant, requests_before=now - services.keep_requests))
    for change in chain(changes, others):
        dropped += len(change.versions)
        if not dry_run:
            services.store.apply([change], counted=True)
    return dropped


def _old_versions(services: Services, scope: Scope, bound: datetime) -> Iterator[tuple[str, int]]:
    """Yield the id and number of each version that ended before `bound`; the last live one and later ones are kept."""
    memories = (stored.memory for stored in scan(services, scope, forgotten=True, versions=True))
    for id_, group in groupby(memories, key=lambda memory: memory.id):
        versions = list(group)
        last_live = max((place for place, memory in enumerate(versions) if memory.status == "live"), default=0)
        for older, newer in list(pairwise(versions))[:last_live]:
            if newer.changed_at >= bound:
                break
            yield id_, older.version


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
            passed = run_pass(current(), only_embed=not is_due)
            on_report(passed.report)
            failures = 0 if passed.answers else failures + 1
        except SalienceError as error:
            on_error(error)
        due = pace.after(due) if is_due else due
        pause = max(0.0, due - pace.monotonic())
        pause = min(pause, pace.retry(failures)) if failures else pause
