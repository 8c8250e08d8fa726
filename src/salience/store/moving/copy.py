"""A copy of a store: claim the target, bring the rows, compare both sides, take the mark away.

Each page is a transaction of its own, and rows that are there already are compared and left as they are: so a copy that
was cut off goes on where it was, whatever changed in the source meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from sqlalchemy import Connection, Select, bindparam, update
from sqlalchemy.exc import IntegrityError

from salience.errors import InputError, StoreError, Words
from salience.records import Copied, CopyReport
from salience.store.meta import Meta
from salience.store.moving.claim import Claim, Origin, check_chosen, check_run, check_whole, claim
from salience.store.moving.mark import unset
from salience.store.moving.merge import Batch, batches, compared
from salience.store.moving.side import Reading, Side, T, Work
from salience.store.moving.tables import MEMORIES, PAGE, TABLES, Key, Moved, Row, Sum, names
from salience.store.rows import readable

Progress = Callable[[str, int, int], None]
"""Called with what is being done (one of `STEPS`), the rows done, and the rows in all."""
STEPS = ("copying", "comparing")
Sums = Mapping[str, Copied]
"""Table -> a tenant's rows of it."""


def copy(source: Side, target: Side, chosen: Sequence[str] | None, told: Progress) -> CopyReport:
    """Copy some tenants of a store, or all for None, into another, compare the two, and return what was done.

    The source may be written to meanwhile: it is read as it stood when this began.

    Raises:
        InputError: the two are one store, a tenant is in neither, or the target holds memories of another origin.
        PinnedError: the target is pinned to another model or language.
        ConflictError: another process took the copy over.
        StoreError: a store cannot be read or written, or they are not the same in the end; the target is still marked.
    """
    if source.where == target.where:
        raise InputError("target", Words(target.where), "Name another store.", f"{target.where} is the source itself")
    with source.snapshot() as read:
        meta = read(None, Meta.read)
        check_whole(meta, source.where)
        counts = read(None, partial(_counts, chosen))
        wanted = None if chosen is None else tuple(sorted(set(chosen)))
        origin = Origin(source.where, meta, tuple(sorted(counts)), wanted)
        claimed = target.write(None, partial(_claimed, target, origin), is_alone=True)
        copying = _Copying(source, target, claimed, read, told, sum(counts.values()))
        sums = {tenant: copying.bring(tenant) for tenant in claimed.tenants}
    for tenant in claimed.tenants:
        copying.compare(tenant, sums[tenant])
    target.write(None, copying.finish, is_alone=True)
    target.finish()
    return copying.report({tenant: found for tenant, found in sums.items() if tenant in counts})


def _claimed(target: Side, origin: Origin, connection: Connection) -> Claim:
    made = claim(connection, target, origin)
    check_chosen(origin.chosen, made.tenants, origin.where)
    return made


def _counts(chosen: Sequence[str] | None, connection: Connection) -> dict[str, int]:
    """Return how many rows each tenant has in all tables."""
    found: dict[str, int] = {}
    for moved in TABLES:
        for tenant, count in connection.execute(moved.counts(chosen)):
            found[tenant] = found.get(tenant, 0) + count
    return found


@dataclass(slots=True)
class _Copying:
    """A copy under way.

    Attributes:
        source, target: the two stores.
        claim: what may be written.
        read: reads the source as it stood when the copy began.
        told: takes the progress.
        total: rows of the source.
        done: rows of it that were looked at.
        written, removed, same: rows that were written, deleted, and found to be there already.
    """

    source: Side
    target: Side
    claim: Claim
    read: Reading
    told: Progress
    total: int
    done: int = 0
    compared: int = 0
    written: int = 0
    removed: int = 0
    same: int = 0

    def bring(self, tenant: str) -> Sums:
        """Make a tenant's rows in the target those of the source, and return what they are."""
        self._write(tenant, lambda connection: self.target.settle(connection, tenant, 0))  # known before its rows
        if self.claim.resumed:
            self._make_room(tenant)
        sums = [self._bring(moved, tenant) for moved in TABLES]
        known = self.read(tenant, lambda connection: self.source.sequence(connection, tenant))
        latest = max(known, *(found.latest for found in sums))
        self._write(tenant, lambda connection: self.target.settle(connection, tenant, latest))
        return {moved.name: found.copied() for moved, found in zip(TABLES, sums, strict=True)}

    def _bring(self, moved: Moved, tenant: str) -> Sum:
        total = Sum(moved)
        mine = rows(partial(self._page, partial(moved.page, tenant), self.read, tenant), moved.key, total.take)
        theirs = rows(partial(self._page, partial(moved.page, tenant), self.target.read, tenant), moved.key)
        for batch in batches(compared(mine, theirs, moved.key)):
            if batch.writes:
                self._write(tenant, partial(self._put, moved, batch))
            self.written += len(batch.missing) + len(batch.different)
            self.removed += len(batch.extra)
            self.same += batch.same
            self.done += len(batch.missing) + len(batch.different) + batch.same
            self.told(STEPS[0], self.done, self.total)
        return total

    def _make_room(self, tenant: str) -> None:
        """Delete memories that the source has no more, and let go of idempotency keys that another one may have now."""
        mine = rows(partial(self._page, partial(names, tenant), self.read, tenant), _id)
        theirs = rows(partial(self._page, partial(names, tenant), self.target.read, tenant), _id)
        for batch in batches(compared(mine, theirs, _id)):
            if batch.extra or batch.different:
                self._write(tenant, partial(self._let_go, tenant, batch))
            self.removed += len(batch.extra)

    def _let_go(self, tenant: str, batch: Batch, connection: Connection) -> None:
        self.target.remove(connection, MEMORIES, [(tenant, *row) for row in batch.extra])
        if batch.different:
            connection.execute(_UNKEYED, [{"of_tenant": tenant, "of_id": row[0]} for row in batch.different])

    def _put(self, moved: Moved, batch: Batch, connection: Connection) -> None:
        try:
            self.target.remove(connection, moved, batch.extra)
            self.target.replace(connection, moved, batch.different)
            self.target.insert(connection, moved, batch.missing)
        except IntegrityError:
            raise StoreError(
                f"store: {self.source.where}: rows of {moved.name!r} do not go with its other rows. "
                f"Mend it, then run this again: salience --store {self.source.where} doctor --repair"
            ) from None

    def _write(self, tenant: str, work: Work[T]) -> T:
        """Return what `work` does in a transaction of the target, if this process is still the one at the copy."""

        def checked(connection: Connection) -> T:
            check_run(connection, self.claim)
            return work(connection)

        return self.target.write(tenant, checked)

    def _page(
        self, asked: Callable[[Key | None], Select[Any]], read: Reading, tenant: str, after: Key | None
    ) -> list[Row]:
        with readable():
            return read(tenant, lambda connection: [tuple(row) for row in connection.execute(asked(after))])

    def compare(self, tenant: str, sums: Sums) -> None:
        """Raise unless a tenant's rows in the target are what they are in the source.

        Raises:
            StoreError: they are not.
        """
        for moved in TABLES:
            total = Sum(moved)
            for page in pages(partial(self._page, partial(moved.page, tenant), self.target.read, tenant), moved.key):
                total.take(page)
                self.compared += len(page)
                self.told(STEPS[1], self.compared, self.total)
            if total.copied() != sums[moved.name]:
                raise self._differs(tenant, moved, total.rows, sums[moved.name].rows)

    def _differs(self, tenant: str, moved: Moved, count: int, due: int) -> StoreError:
        what = f"{count} rows where {due} are due" if count != due else f"other rows, though as many ({count})"
        return StoreError(
            f"store: {self.target.where}: of the tenant {tenant!r}, {moved.name!r} has {what}. Something else "
            "wrote to it, or it does not keep what it is given. To write anew what differs, run this again."
        )

    def finish(self, connection: Connection) -> None:
        """Take the mark away: the copy is whole."""
        check_run(connection, self.claim)
        unset(connection)

    def report(self, sums: Mapping[str, Sums]) -> CopyReport:
        """Return what was done."""
        resumed = self.same if self.claim.resumed else None
        return CopyReport(self.source.where, self.target.where, sums, self.written, self.removed, resumed)


_UNKEYED = (
    update(MEMORIES.table)
    .where(MEMORIES.table.c.tenant == bindparam("of_tenant"), MEMORIES.table.c.id == bindparam("of_id"))
    .values(key=None)
)


def _id(row: Row) -> Key:
    return (row[0],)


def pages(page: Callable[[Key | None], Sequence[Row]], key: Callable[[Row], Key]) -> Iterator[Sequence[Row]]:
    """Return the pages of a table, each read behind the key of the last row before it."""
    found = page(None)
    yield found
    while len(found) == PAGE:
        found = page(key(found[-1]))
        yield found


def rows(
    page: Callable[[Key | None], Sequence[Row]],
    key: Callable[[Row], Key],
    seen: Callable[[Sequence[Row]], None] = lambda _: None,
) -> Iterator[Row]:
    """Return the rows of a table's pages; `seen` is called with each page as it is read."""
    for found in pages(page, key):
        seen(found)
        yield from found
