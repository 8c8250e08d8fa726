"""The story of upkeep: take the lease, embed what is pending, expire, consolidate, prune, give the lease back."""

from __future__ import annotations

import os
import platform
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final, TypeVar

from salience.errors import LeaseError, SalienceError, StoreError
from salience.maintain.upkeep.steps import Expired, expire, prune
from salience.maintain.upkeep.tiers import REACHED, consolidate
from salience.pending import Embedded, embed_pending
from salience.ports import Lease, Services
from salience.records import ANY, ConsolidateReport, Scope, UpkeepReport

HELD: Final = timedelta(minutes=2)
"""How long the lease is held without a sign of life: so long a pass that was killed keeps the next one waiting."""
Made = TypeVar("Made")
Renew = Callable[[], None]


@dataclass(frozen=True, slots=True)
class Passed:
    """What a pass did, and whether the embedder answered, so far as it was asked."""

    report: UpkeepReport
    answers: bool


def upkeep(services: Services, *, dry_run: bool = False) -> UpkeepReport:
    """Do all that is due, for every scope of the tenant, and return what was done.

    Each step is made of whole transactions, so that a pass may be cut short anywhere. A step that fails is named in
    the report's warning and keeps none of the others from being done.

    Args:
        services: the ports.
        dry_run: write nothing and ask no embedder; it is taken to answer.

    Raises:
        LeaseError: another process is at it, or took over after this one gave no sign of life for `HELD`.
        StoreError: the lease could not be written; nothing was done.
    """
    return whole_pass(services, dry_run=dry_run).report


def whole_pass(services: Services, *, dry_run: bool = False) -> Passed:
    """Do as `upkeep` does."""
    if dry_run:
        return _passed(services, _Steps(lambda: None), dry_run=True)
    with leased(services) as renew:
        return _passed(services, _Steps(renew), dry_run=False)


def embedding_pass(services: Services) -> Passed:
    """Do only the embedding, and raise as `upkeep` does."""
    with leased(services) as renew:
        steps = _Steps(renew)
        return _reported(steps, _embedded(services, steps, dry_run=False), dry_run=False)


@contextmanager
def leased(services: Services) -> Iterator[Renew]:
    """Hold the lease of the tenant's upkeep; yield what prolongs it.

    Raises:
        LeaseError: another process has it, or has taken it over.
    """
    name = f"upkeep:{services.tenant}"
    holder = f"{platform.node()}:{os.getpid()}:{secrets.token_hex(4)}"

    def hold() -> None:
        now = services.clock()
        services.store.apply([Lease(name, holder, now, now + HELD)])

    hold()
    try:
        yield hold
    finally:
        with suppress(LeaseError, StoreError):  # another process has it by now, or it ends by itself
            services.store.apply([Lease.given_back(name, holder, services.clock())])


@dataclass(eq=False)
class _Steps:
    """The steps of one pass, and what was said of those that failed."""

    renew: Renew
    said: list[str] = field(default_factory=list)

    def take(self, name: str, step: Callable[[], Made], otherwise: Made) -> Made:
        """Return what a step returns; where it fails, note why and return `otherwise`."""
        self.renew()
        try:
            return step()
        except LeaseError:
            raise
        except SalienceError as error:
            self.said.append(f"{name}: {error}")
            return otherwise


def _passed(services: Services, steps: _Steps, *, dry_run: bool) -> Passed:
    everywhere = Scope(services.tenant, ANY, ANY, ANY, ANY)
    embedded = _embedded(services, steps, dry_run)
    expired = steps.take("expire", lambda: expire(services, everywhere, dry_run=dry_run), Expired())
    moved = steps.take(
        "consolidate",
        lambda: consolidate(services, everywhere, dry_run=dry_run, without=expired.outdated),
        ConsolidateReport(0, dict.fromkeys(REACHED, ())),
    )
    pruned = steps.take("prune", lambda: prune(services, everywhere, dry_run=dry_run), 0)
    return _reported(steps, embedded, expired, moved, pruned, dry_run=dry_run)


def _embedded(services: Services, steps: _Steps, dry_run: bool) -> Embedded:
    made = steps.take("embed", lambda: embed_pending(services, dry_run=dry_run, before=steps.renew), Embedded(0, 0))
    steps.said += [f"embed: {made.warning}"] if made.warning else []
    return made


def _reported(
    steps: _Steps,
    embedded: Embedded,
    expired: Expired = Expired(),
    moved: ConsolidateReport | None = None,
    pruned: int = 0,
    *,
    dry_run: bool,
) -> Passed:
    report = UpkeepReport(
        embedded=embedded.embedded,
        pending=embedded.pending,
        expired=expired.ids,
        promoted=dict.fromkeys(REACHED, ()) if moved is None else moved.promoted,
        pruned=pruned,
        warning="\n".join(steps.said) or None,
        dry_run=dry_run,
    )
    return Passed(report, embedded.answers)
