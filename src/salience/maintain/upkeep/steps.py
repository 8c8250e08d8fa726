"""Steps of upkeep besides tiers: what ran out goes out of sight, and old versions are dropped where a setting asks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby, islice, pairwise, takewhile
from typing import Final

from salience.maintain.upkeep.tiers import UPKEEP
from salience.ports import Prune, Revise, Services
from salience.records import Memory, Scope
from salience.remember.reflections import stale
from salience.steps import retry_stale, scan

CHUNK: Final = 1000
"""Versions that are dropped in one transaction."""


@dataclass(frozen=True, slots=True)
class Expired:
    """Ids of memories whose time ran out, and of the reflections of them that are stale for it."""

    ids: tuple[str, ...] = ()
    outdated: tuple[str, ...] = ()


def expire(services: Services, scope: Scope, *, dry_run: bool = False) -> Expired:
    """Put the visible memories whose time ran out, and the reflections of them, out of sight, all or none.

    All their versions are kept: `restore` brings them back.
    """

    def attempt() -> Expired:
        now = services.clock()
        over = [stored.memory for stored in scan(services, scope) if _is_over(stored.memory, now)]
        gone = [
            memory.changed("expire", now, by=UPKEEP, reason="its time ran out", forgotten_at=now) for memory in over
        ]
        outdated = stale(services, over, now, by=UPKEEP, reason="the time of a source ran out")
        if not dry_run:
            services.store.apply([*map(Revise, gone), *outdated], counted=True)
        return Expired(tuple(memory.id for memory in over), tuple(change.memory.id for change in outdated))

    return retry_stale(attempt)


def _is_over(memory: Memory, now: datetime) -> bool:
    return memory.expires_at is not None and memory.expires_at <= now


def prune(services: Services, scope: Scope, *, dry_run: bool = False) -> int:
    """Drop what `keep_versions`, `keep_touches` and `keep_requests` say is kept no longer; return how many versions.

    Without a setting, nothing is dropped.
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
    """Yield the id and number of each version that ended before `bound` and may go."""
    held = (stored.memory for stored in scan(services, scope, forgotten=True, versions=True))
    for found, versions in groupby(held, key=lambda memory: memory.id):
        yield from ((found, version.version) for version in ended_before(list(versions), bound))


def ended_before(versions: Sequence[Memory], bound: datetime) -> list[Memory]:
    """Return those of the versions of one memory, oldest first and the current one last, that ended before `bound`.

    The last live one stays, and what came after it: it is what `restore` brings back.
    """
    last_live = max((place for place, memory in enumerate(versions) if memory.status == "live"), default=0)
    ended = takewhile(lambda pair: pair[1].changed_at < bound, list(pairwise(versions))[:last_live])
    return [older for older, _ in ended]
