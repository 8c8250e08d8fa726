"""Copy the memories of one store into another: read a page, write what is not there, read it back and compare."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import groupby
from typing import Final

from salience import keywords
from salience.errors import InputError, StoreError, shown
from salience.ports import Add, Change, Revise, Store, Stored
from salience.records import Copied, CopyReport, Scope

PAGE: Final = 500
"""Memories copied in one transaction."""
Progress = Callable[[int, int], None]
"""Called with the memories done so far and the memories in all."""


@dataclass(frozen=True, slots=True)
class End:
    """One end of a copy: a store and the name that messages and reports give it."""

    store: Store
    name: str


def copy(source: End, target: End, chosen: Sequence[str] | None = None, progress: Progress | None = None) -> CopyReport:
    """Copy every memory of the source with its versions, vectors and counters, and return the counts by tenant.

    A memory that the target has at the same version is left as it is, so a copy that was cut off continues when it is
    called again. A memory that the target has at an earlier version gets the later ones.

    Args:
        source: the store to read.
        target: the store to write to.
        chosen: the tenants to copy; None: all.
        progress: called after each page.

    Raises:
        InputError: a chosen tenant has no memories in the source.
        ConflictError: the target has another memory under an id or an idempotency key of the source.
        StoreError: the target does not return what was written to it.
    """
    counts = source.store.tenants()
    for tenant in chosen or ():
        if tenant not in counts:
            problem = f"{shown(tenant)} has nothing in {source.name}"
            raise InputError("tenant", tenant, "Without --tenant, all are copied.", problem)
    tenants = sorted(counts if chosen is None else set(chosen))
    total, done, written, present = sum(counts[tenant] for tenant in tenants), 0, 0, 0
    copied: dict[str, dict[str, Copied]] = {}
    for tenant in tenants:
        sums = {"memories": _Sum(), "versions": _Sum()}
        for page in _pages(source.store, _everything(tenant)):
            new = _write(target, _everything(tenant), page)
            written, present, done = written + new, present + len(page) - new, done + len(page)
            for versions in page:
                for stored in versions:
                    sums["memories" if stored is versions[-1] else "versions"].add(stored)
            if progress is not None:
                progress(done, total)
        copied[tenant] = {name: found.copied() for name, found in sums.items()}
    return CopyReport(source.name, target.name, copied, written, present)


class _Sum:
    """Counts rows and computes their checksum."""

    def __init__(self) -> None:
        self._rows, self._digest = 0, sha256()

    def add(self, stored: Stored) -> None:
        self._rows += 1
        self._digest.update(repr(_identity(stored)).encode())

    def copied(self) -> Copied:
        return Copied(self._rows, self._digest.hexdigest())


def _identity(stored: Stored) -> tuple[str, int, str, bytes | None]:
    """Return the values that both stores must agree on."""
    memory, vector = stored.memory, stored.vector
    return memory.id, memory.version, memory.content_hash, None if vector is None else vector.astype("<f4").tobytes()


def _everything(tenant: str) -> Scope:
    return keywords.scope(tenant, keywords.EVERYWHERE)[0]


def _pages(store: Store, scope: Scope) -> Iterator[list[tuple[Stored, ...]]]:
    """Yield pages of memories in the order of ids, each memory as its versions, oldest first."""
    after = ""
    while page := store.scan(scope, after, PAGE, forgotten=True, versions=True):
        yield [tuple(versions) for _, versions in groupby(page, lambda stored: stored.memory.id)]
        after = page[-1].memory.id


def _write(target: End, scope: Scope, page: Sequence[tuple[Stored, ...]]) -> int:
    """Write the versions that the target does not have; return how many memories were written."""
    before = _held(target.store, scope, page)
    changes = {
        versions[-1].memory.id: missing
        for versions in page
        if (missing := _missing(versions, before.get(versions[-1].memory.id, ())))
    }
    if not changes:
        return 0
    target.store.apply([change for missing in changes.values() for change in missing])
    after = _held(target.store, scope, page)
    for versions in page:
        newest = versions[-1].memory
        if newest.id in changes and list(map(_identity, versions)) != list(map(_identity, after.get(newest.id, ()))):
            raise StoreError(
                f"store: {target.name}: memory {newest.short_id} does not read back as it was written. "
                "Check the target: salience doctor; then run the copy again."
            )
    return len(changes)


def _missing(versions: Sequence[Stored], there: Sequence[Stored]) -> list[Change]:
    """Return the changes that bring a memory to the source's version; none where the target has it, or a later one."""
    if not there:
        return [Add(versions[-1], tuple(versions[:-1]))]
    known = [(stored.memory.version, stored.memory.content_hash) for stored in there]
    for place, stored in enumerate(versions):
        if (stored.memory.version, stored.memory.content_hash) == known[-1]:
            return [
                _revision(before, after) for before, after in zip(versions[place:], versions[place + 1 :], strict=False)
            ]
    newest = versions[-1].memory
    is_known = (newest.version, newest.content_hash) in known
    return [] if is_known else [Add(versions[-1], tuple(versions[:-1]))]  # the store refuses it, and says why


def _revision(before: Stored, after: Stored) -> Revise:
    is_same = before.memory.content_hash == after.memory.content_hash
    return Revise(
        after.memory,
        vector=after.vector,
        terms=after.terms,
        sets_importance=True,
        distinctions=after.distinctions,
        unembeds=after.vector is None and not is_same,
    )


def _held(store: Store, scope: Scope, page: Sequence[tuple[Stored, ...]]) -> dict[str, tuple[Stored, ...]]:
    """Return the memories of a store with ids from the first to the last of a page, by id."""
    held: dict[str, tuple[Stored, ...]] = {}
    ids = [versions[-1].memory.id for versions in page]
    wanted = frozenset(ids)
    after = ids[0][:-1]  # sorts before the first id, and after most of those before it
    while after < ids[-1] and (found := store.scan(scope, after, PAGE, forgotten=True, versions=True)):
        for found_id, versions in groupby(found, lambda stored: stored.memory.id):
            if found_id in wanted:
                held[found_id] = tuple(versions)
        after = found[-1].memory.id
    return held
