"""The health of a store: what is stored against what is derived from it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby, islice, pairwise
from typing import Final

import numpy as np

from salience import keywords
from salience.batch import Vectors32
from salience.errors import DamagedError, EmbedderError, StoreError
from salience.ports import Derive, Services, Stored
from salience.records import DoctorReport, Finding, Memory
from salience.records.ids import cycles, short_id
from salience.remember import derive
from salience.steps import embed, scan
from salience.text import content_hash

Progress = Callable[[int], None]
"""Called with the number of memories read so far."""
PAGE: Final = 100
"""Memories that are looked at, and mended, at a time."""
SAME: Final = 0.999
"""Least cosine of two vectors that one model made of one text: on another machine, or beside other texts, they differ
a little."""
UNIT: Final = 1e-3
"""Most by which the length of a stored vector may differ from 1."""
_MENDED: Final = "To make it anew: salience doctor --repair"
_BACKUP: Final = "Put a backup in the place of the store: salience reinstate FILE"


def doctor(
    services: Services, *, repair: bool = False, deep: bool = False, progress: Progress | None = None
) -> DoctorReport:
    """Check the whole store, mend what is derived if `repair` asks for it, and return what was wrong.

    The store's own books come first, for all tenants; then every memory and version of this tenant. What people wrote
    is never changed: a text that is not what its hash says can only be told of.

    Args:
        services: the ports.
        repair: whether to mend what can be made anew from the texts.
        deep: whether to embed every text, and hold the stored vectors against that.
        progress: called with the number of memories read so far.

    Raises:
        EmbedderError: the embedder failed at a deep check.
        StoreError: the store is closed, or cannot be written where something is to be mended.
    """
    books = services.store.check(repair=repair)
    seen, told = _Seen(_dimension(services)), progress or (lambda _: None)
    for page in _pages(services, seen):
        _examine(services, seen, page, repair, deep)
        told(seen.memories)
    return DoctorReport(seen.memories, seen.versions, seen.pending, (*books, *seen.findings))


@dataclass(slots=True)
class _Seen:
    """What was read so far, and what is wrong with it.

    Attributes:
        dimension: length of the vectors of the store.
        memories, versions, pending: how many memories, older versions, and memories without a vector were read.
        ids: of all memories.
        sources: reflection -> what it sums up.
        supersedes: live memory -> the one that it supersedes.
        findings: what is wrong.
    """

    dimension: int
    memories: int = 0
    versions: int = 0
    pending: int = 0
    ids: set[str] = field(default_factory=set)
    sources: dict[str, tuple[str, ...]] = field(default_factory=dict)
    supersedes: dict[str, str] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Fault:
    """What is wrong with one version of a memory, and the change that mends it; None where nothing does."""

    check: str
    memory: Memory
    problem: str
    change: Derive | None = None

    @property
    def remedy(self) -> str:
        """What is to be done about it."""
        return _BACKUP if self.change is None else _MENDED

    @property
    def name(self) -> tuple[str, str, int]:
        """By what it is known again."""
        return self.check, self.memory.id, self.memory.version

    def finding(self, repaired: bool) -> Finding:
        """Return it as it is told."""
        told = f"version {self.memory.version}: {self.problem}"
        return Finding(self.check, self.memory.id, told if repaired else f"{told} {self.remedy}", repaired)


def _dimension(services: Services) -> int:
    """Return the length of the vectors of the store, which may be another model's than the configured."""
    pinned = services.store.pinned()
    return services.embedder.dimension if pinned is None else pinned.dimension


def _pages(services: Services, seen: _Seen) -> Iterator[list[list[Stored]]]:
    """Yield the versions of every memory of the tenant, oldest first, some memories at a time.

    A row that nothing can read ends it, which is noted; so are reflections of what was not met.
    """
    everything, _ = keywords.scope(services.tenant, keywords.EVERYWHERE)
    passed: list[DamagedError] = []  # which the store's own books have told of
    rows = scan(services, everything, forgotten=True, versions=True, passed=passed)
    held = groupby(rows, key=lambda stored: stored.memory.id)
    each = (list(versions) for _, versions in held)
    try:
        while page := list(islice(each, PAGE)):
            yield page
    except (ArithmeticError, LookupError, StoreError, TypeError, ValueError) as error:
        what = f"reading ended after {seen.memories} memories with {type(error).__name__}. {_BACKUP}"
        seen.findings.append(Finding("rows", None, what))
    else:
        _trace(seen)


def _examine(services: Services, seen: _Seen, page: Sequence[list[Stored]], repair: bool, deep: bool) -> None:
    """Look at some memories, each with its versions, mend what can be, and note it all."""
    for versions in page:
        memory = versions[-1].memory
        seen.ids.add(memory.id)
        seen.memories += 1
        seen.versions += len(versions) - 1
        seen.pending += versions[-1].vector is None
        if memory.sources and memory.forgotten_at is None:
            seen.sources[memory.id] = memory.sources
        if memory.supersedes is not None and memory.forgotten_at is None:
            seen.supersedes[memory.id] = memory.supersedes
        seen.findings += _numbered([stored.memory for stored in versions])
    held = [stored for versions in page for stored in versions]
    faults = _faults(services, held, seen.dimension, deep)
    changes, reason = _changes(services, faults) if repair else ([], None)
    left = {fault.name for fault in faults}
    if changes:
        services.store.apply(changes)
        left = {fault.name for fault in _faults(services, _again(services, faults), seen.dimension, deep)}
    for fault in faults:
        is_left = fault.name in left
        if reason and is_left and fault.check == "vectors":
            fault = replace(fault, problem=f"{fault.problem} It stays so: {reason}")
        seen.findings.append(fault.finding(repaired=not is_left))


def _faults(services: Services, held: Sequence[Stored], dimension: int, deep: bool) -> list[_Fault]:
    """Return what is wrong with some versions, each by itself."""
    fresh = _embedded(services, held) if deep else [None] * len(held)
    return [
        fault
        for stored, vector in zip(held, fresh, strict=True)
        for fault in _text(stored.memory) or (*_derived(services, stored), *_vector(stored, dimension, vector))
    ]


def _text(memory: Memory) -> list[_Fault]:
    if content_hash(memory.content) == memory.content_hash:
        return []
    return [_Fault("content", memory, "its text is not the one that was stored.")]


def _derived(services: Services, stored: Stored) -> list[_Fault]:
    """Return what is wrong with the terms and distinctions of a version, as they are read from its text now."""
    memory, right = stored.memory, derive(services, stored.memory)
    faults = []
    if stored.terms != right.terms:
        change = replace(_change(memory), terms=right.terms)
        faults.append(_Fault("terms", memory, "its terms are not those of its text.", change))
    if stored.distinctions != right.distinctions:
        change = replace(_change(memory), distinctions=right.distinctions)
        faults.append(_Fault("distinctions", memory, "what tells it from others is not what its text says.", change))
    return faults


def _vector(stored: Stored, dimension: int, fresh: Vectors32 | None) -> list[_Fault]:
    """Return what is wrong with the vector of a version; `fresh` is the one that the model makes of its text."""
    vector = stored.vector
    if vector is None or vector.shape != (dimension,):  # of the latter, the store's own books tell
        return []
    problem = None
    if not np.isfinite(vector).all():
        problem = "its vector holds NaN or infinity."
    elif abs(float(np.linalg.norm(vector.astype(np.float64))) - 1.0) > UNIT:
        problem = "its vector is not of length 1."
    elif fresh is not None and float(vector.astype(np.float64) @ fresh) < SAME:
        problem = "its vector is not the one that the model makes of its text."
    return [] if problem is None else [_Fault("vectors", stored.memory, problem, _change(stored.memory))]


def _change(memory: Memory) -> Derive:
    return Derive(memory.scope.tenant, memory.id, memory.version, memory.content_hash)


def _embedded(services: Services, held: Sequence[Stored]) -> list[Vectors32 | None]:
    """Return the vector that the model makes of each text, where it is by its name the one of the store."""
    pinned = services.store.pinned()
    if pinned is None or (pinned.name, pinned.dimension) != (services.embedder.name, services.embedder.dimension):
        return [None] * len(held)
    texts = list(dict.fromkeys(stored.memory.content for stored in held))
    vectors = dict(zip(texts, embed(services, texts), strict=True))
    return [vectors[stored.memory.content] for stored in held]


def _changes(services: Services, faults: Iterable[_Fault]) -> tuple[list[Derive], str | None]:
    """Return the changes that mend what can be mended, and why vectors cannot be, if they cannot."""
    changes = [(fault, fault.change) for fault in faults if fault.change is not None]
    derived = [change for fault, change in changes if fault.check != "vectors"]
    lacking = [fault.memory for fault, _ in changes if fault.check == "vectors"]
    pinned = services.store.pinned()
    if lacking and pinned is not None and pinned.name != services.embedder.name:
        return derived, f"the store is of embedder {pinned.name!r}. Open it with that one."
    try:
        vectors = embed(services, [memory.content for memory in lacking])
    except EmbedderError as error:
        return derived, str(error)
    embedded = [replace(_change(memory), vector=vector) for memory, vector in zip(lacking, vectors, strict=True)]
    return [*derived, *embedded], None


def _again(services: Services, faults: Iterable[_Fault]) -> list[Stored]:
    """Return the faulty versions as they stand by now; one that is gone has no fault any more."""
    everything, _ = keywords.scope(services.tenant, keywords.EVERYWHERE)
    wanted = {fault.name[1:] for fault in faults}
    held = [
        stored for named in sorted({name for name, _ in wanted}) for stored in services.store.history(everything, named)
    ]
    return [stored for stored in held if (stored.memory.id, stored.memory.version) in wanted]


def _numbered(versions: Sequence[Memory]) -> list[Finding]:
    """Return what is wrong with the order of a memory's versions; the oldest may have been dropped by upkeep."""
    found = []
    for older, newer in pairwise(versions):
        if newer.version != older.version + 1:
            told = f"version {newer.version} follows on version {older.version}: what was between is gone. {_BACKUP}"
            found.append(Finding("versions", newer.id, told))
        if newer.changed_at < older.changed_at:
            told = f"version {newer.version} is older than version {older.version}. {_BACKUP}"
            found.append(Finding("versions", newer.id, told))
    return found


def _trace(seen: _Seen) -> None:
    """Note links that cannot be: reflections of memories that do not exist, and memories that supersede themselves."""
    for cycle in cycles(seen.supersedes):
        said = ", ".join(map(short_id, cycle))
        problem = f"supersedes forms a cycle ({said}). Forget the memory that is out of date: salience forget ID"
        seen.findings.append(Finding("supersedes", min(cycle), problem))
    for reflection, sources in seen.sources.items():
        gone = [source for source in sources if source not in seen.ids]
        if gone:
            told = f"{len(gone)} of the {len(sources)} memories that it sums up are not there. Run: salience reflect"
            seen.findings.append(Finding("sources", reflection, told))
