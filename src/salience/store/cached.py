"""The arenas of a file's tenants, each brought up to date when it is asked for, and put in order beside the readers."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final

from sqlalchemy import Connection

from salience.errors import StoreError
from salience.ports import Touch
from salience.records import Memory, Scope
from salience.store import filling, sql
from salience.store.arena import Arena
from salience.store.direct import Direct
from salience.store.meta import Meta
from salience.store.past import stood
from salience.store.places import Place
from salience.store.reading import in_order
from salience.store.recent import Recent
from salience.store.recounted import countable, recounted
from salience.store.rows import of_record
from salience.store.values import microseconds

TOLD: Final = 16
"""How many transactions of touches are known at most, until they are met."""
LATE: Final = 1024
"""How many touches wait at most to be counted in an arena, until somebody asks for what they moved."""
_UNREAD = -1
"""As a `PRAGMA data_version`: none that SQLite has told."""


@dataclass(frozen=True, slots=True)
class Cached:
    """An arena, the `PRAGMA data_version` and the `meta` under which it was read, and memories fetched under these.

    Attributes:
        late: the last touches until then, which are not counted in the arena yet; most recalls read no counter.
    """

    arena: Arena
    data_version: int
    meta: Meta
    recent: Recent = field(default_factory=Recent)
    late: Sequence[Touch] = ()

    def goes_on(self, meta: Meta, dimension: int) -> bool:
        """Return whether what changed since is all that is to be read; where nothing was read yet, all is."""
        is_known = bool(self.arena.sequence) and self.arena.sequence >= meta.pruned
        return is_known and self.meta.epoch == meta.epoch and self.arena.dimension == dimension


class Arenas:
    """Arenas by tenant. It is called under the lock of the connection that reads.

    Args:
        reader: of the file.
        place: where vectors are to lie.
    """

    def __init__(self, reader: Direct, place: Place) -> None:
        self._reader = reader
        self._place = place
        self._cached: dict[str, Cached] = {}
        self._past: dict[tuple[str, int], Arena] = {}
        self._packing: set[str] = set()
        self._ends: dict[str, Callable[[], None]] = {}
        self._packed: dict[str, tuple[Arena, Arena]] = {}
        self._own: dict[int, Sequence[Touch]] = {}
        self._reached = (_UNREAD, 0)

    def current(self, tenant: str, dimension: Callable[[Meta], int], counted: bool = False) -> Cached:
        """Return the tenant's arena as of the reader's transaction.

        Args:
            tenant: whose memories.
            dimension: tells the length of a vector.
            counted: whether its counters are to be as of then too.
        """
        known = self._known(tenant, counted)
        if known is not None:
            return known
        cached, data_version = self._cached.get(tenant), self._version()
        meta = Meta(dict(self._reader.asked(sql.META)))
        self.forget()  # no more than one of the past, and none that was read before a change, is kept
        if cached is not None and cached.goes_on(meta, dimension(meta)):
            (arena, late), recent = self._gone_on(tenant, cached, meta, counted), cached.recent
            if arena.views is not cached.arena.views:
                cached.arena.views.clear()
        else:
            self.forget(tenant)
            self._own.clear()  # of an epoch that is over
            arena, late = filling.filled(self._reader, tenant, dimension(meta), self._place, meta.sequence), ()
            recent = Recent()
        self._cached[tenant] = cached = Cached(arena, data_version, meta, recent, late)
        self._pack(tenant, cached)
        return cached

    def latest(self, tenant: str, dimension: Callable[[Meta], int], counted: bool = False) -> Cached:
        """Return the same outside a transaction; one is begun where something was written since the arena was read."""
        known = self._known(tenant, counted)
        if known is not None:
            return known
        with self._reader.begun(writes=False):
            return self.current(tenant, dimension, counted)

    def _known(self, tenant: str, counted: bool) -> Cached | None:
        """Return the tenant's arena if it is at hand as it is asked for, and nothing was written since."""
        known = self.unchanged(tenant)
        return None if known is None or (counted and known.late) else known

    def told(self, sequence: int, touches: Sequence[Touch]) -> None:
        """Be told of touches that are all that a change sequence stands for; this needs no lock."""
        self._own[sequence] = touches
        for former in list(self._own)[:-TOLD]:
            self._own.pop(former, None)

    def untold(self, sequences: Sequence[int]) -> None:
        """Let go of what was told of change sequences that came to nothing, and of what was made of it."""
        for sequence in sequences:
            self._own.pop(sequence, None)
            self.forget(*[tenant for tenant, cached in self._cached.items() if cached.meta.sequence >= sequence])

    def _gone_on(self, tenant: str, cached: Cached, meta: Meta, counted: bool) -> tuple[Arena, Sequence[Touch]]:
        """Return the arena with what was written since, and the touches that are still to be counted in it."""
        met = self._met(tenant, cached, meta)
        late = [*cached.late, *(met or ())]
        if met is not None:
            cached.recent.touched(met)
        if met is not None and (not late or (len(late) <= LATE and not counted)):
            return cached.arena, late
        sequence = cached.meta.sequence if met is None else meta.sequence
        arena = recounted(cached.arena, late, sequence) if late else None
        if arena is None or met is None:
            arena = filling.refreshed(self._reader, tenant, arena or cached.arena, cached.recent, meta.sequence)
        return arena, ()

    def _met(self, tenant: str, cached: Cached, meta: Meta) -> list[Touch] | None:
        """Return the touches that were told since the arena was read; None where anything else was written as well."""
        if cached.data_version == _UNREAD:
            return None
        met = list[Touch]()
        for sequence in range(cached.meta.sequence + 1, meta.sequence + 1):
            touches = countable(tenant, self._own.get(sequence))
            if touches is None:
                return None
            met += touches
        return met

    def unchanged(self, tenant: str) -> Cached | None:
        """Return the tenant's arena if it is at hand and nothing was written since; this needs no transaction."""
        self._adopt(tenant)
        cached = self._cached.get(tenant)
        return cached if cached is not None and cached.data_version == self._version() else None

    def fetched(self, scope: Scope, ids: Sequence[str]) -> list[Memory]:
        """Return the live memories of these whole ids visible in `scope`, as asked, absent ones left out.

        All are of one state: where another is written while some are read, all are read of that.
        """
        self._adopt(scope.tenant)
        cached = self._cached.get(scope.tenant)
        if cached is None:
            return in_order(ids, self._read(scope, ids))
        held = cached.recent.of(ids)
        missing = [asked for asked in ids if asked not in held]
        read = list(map(of_record, self._read(scope, missing))) if missing else []
        if cached.data_version != self._version():
            return in_order(ids, self._read(scope, ids))
        cached.recent.keep(read)
        held |= {memory.id: memory for memory in read}
        found = (held[asked] for asked in ids if asked in held)
        return [memory for memory in found if scope.sees(memory.scope)]

    def _read(self, scope: Scope, ids: Sequence[str]) -> list[tuple[Any, ...]]:
        return self._reader.found(*sql.among(scope, ids))

    def reached(self) -> int:
        """Return the change sequence of the last write that a read from now on sees."""
        version = self._version()
        if version != self._reached[0]:
            self._reached = version, Meta(dict(self._reader.asked(sql.META))).sequence
        return self._reached[1]

    def _version(self) -> int:
        ((version,),) = self._reader.asked("PRAGMA data_version")
        return int(version)

    def then(self, reader: Connection, tenant: str, as_of: datetime) -> Arena:
        """Return the arena of the tenant's memories as they stood; `current` was asked in the same transaction."""
        key = (tenant, microseconds(as_of))
        if key not in self._past:
            rows = [tuple(row[name] for name in sql.ARENA) for row in stood(reader, tenant, sql.ARENA, as_of)]
            self.forget()
            self._past[key] = Arena.empty(self._cached[tenant].arena.dimension).refresh(rows)
        return self._past[key]

    def forget(self, *tenants: str) -> None:
        """Let go of the arenas of some tenants, and of those of the past, at once: each has views, and they have it."""
        gone = [self._cached.pop(tenant).arena for tenant in tenants if tenant in self._cached]
        for arena in (*gone, *self._past.values()):
            arena.views.clear()
        self._past.clear()

    def clear(self) -> None:
        """Let go of all, once nothing is under way beside."""
        for end in self._ends.values():
            end()
        self._packed.clear()
        self.forget(*self._cached)

    def _pack(self, tenant: str, cached: Cached) -> None:
        """Have an arena that is loose packed beside its readers, one at a time for each tenant."""
        if not cached.arena.is_loose or tenant in self._packing or tenant in self._packed:
            return

        def work() -> None:
            with suppress(StoreError, MemoryError):  # no room at present: it stays as it is
                self._packed[tenant] = (cached.arena, cached.arena.packed())
            self._packing.discard(tenant)

        self._packing.add(tenant)
        self._ends[tenant] = beside(work)

    def _adopt(self, tenant: str) -> None:
        """Go on from an arena that was packed, if it is still of what is cached; what changed since is read again."""
        cached, (loose, packed) = self._cached.get(tenant), self._packed.pop(tenant, (None, None))
        if cached is None or packed is None or packed.numbers is not cached.arena.numbers:  # it was filled anew since
            return
        cached.arena.views.clear()
        if loose is cached.arena:
            self._cached[tenant] = replace(cached, arena=packed)
        else:
            self._cached[tenant] = replace(cached, arena=packed, data_version=_UNREAD, late=())


def beside(work: Callable[[], None]) -> Callable[[], None]:
    """Have some work done, and return what waits for its end."""
    thread = threading.Thread(target=work, name="salience-packing", daemon=True)
    thread.start()
    return thread.join
