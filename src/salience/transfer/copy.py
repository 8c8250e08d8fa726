"""Copy the memories of one store into another: read a page, write what is not there, read it back and compare."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import groupby, pairwise
from typing import Final

from salience import keywords
from salience.batch import packed
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
    `chosen` are the tenants to copy, None for all; `progress` is called after each page.

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
        everything = keywords.scope(tenant, keywords.EVERYWHERE)[0]
        rows, digests = Counter[str](), {name: sha256() for name in ("memories", "versions")}
        for page in _pages(source.store, everything):
            new = _write(target, everything, page)
            written, present, done = written + new, present + len(page) - new, done + len(page)
            for versions in page:
                for stored in versions:
                    name = "memories" if stored is versions[-1] else "versions"
                    rows[name] += 1
                    digests[name].update(repr(_identity(stored)).encode())
            if progress is not None:
                progress(done, total)
        copied[tenant] = {name: Copied(rows[name], digest.hexdigest()) for name, digest in digests.items()}
    return CopyReport(source.name, target.name, copied, written, present)


def _identity(stored: Stored) -> tuple[str, int, str, bytes | None, bytes | None]:
    """Return the values that both stores must agree on."""
    memory, vector, tokens = stored.memory, stored.vector, stored.tokens
    return (
        memory.id,
        memory.version,
        memory.content_hash,
        None if vector is None else vector.astype("<f4").tobytes(),
        None if tokens is None else packed(tokens),
    )


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
    add = Add(versions[-1], tuple(versions[:-1]))
    if not there:
        return [add]
    ours = [(stored.memory.version, stored.memory.content_hash) for stored in versions]
    known = [(stored.memory.version, stored.memory.content_hash) for stored in there]
    if known[-1] not in ours:
        return [] if ours[-1] in known else [add]  # the store refuses it with the reason
    return [
        Revise(
            after.memory,
            vector=after.vector,
            terms=after.terms,
            sets_importance=True,
            distinctions=after.distinctions,
            event=after.event,
            unembeds=after.vector is None and before.memory.content_hash != after.memory.content_hash,
            tokens=after.tokens,
        )
        for before, after in pairwise(versions[ours.index(known[-1]) :])
    ]


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
