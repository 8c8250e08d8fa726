"""Doctor: check what is stored against what is derived from it, and repair what can be derived again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby, islice
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
"""Memories checked and repaired at a time."""
SAME_COSINE: Final = 0.999
"""Least cosine of two vectors of one text by one model; machine and batch size cause small differences."""
UNIT_TOLERANCE: Final = 1e-3
"""Largest allowed difference of a stored vector's length from 1."""
REPAIR: Final = "To make it anew: salience doctor --repair"
BACKUP: Final = "Put a backup in the place of the store: salience reinstate FILE"


def doctor(
    services: Services, *, repair: bool = False, deep: bool = False, progress: Progress | None = None
) -> DoctorReport:
    """Check the whole store and return the problems found; repair derived data on request.

    The tables of all tenants are checked first, then every memory and version of this tenant. Texts are never changed:
    a text that does not match its hash is only reported.
    A `deep` check embeds every text and compares the stored vector. `progress` is called after each page.

    Raises:
        EmbedderError: the embedder failed during a deep check.
        StoreError: the store is closed, or cannot be written during a repair.
    """
    findings = list(services.store.check(repair=repair))
    pinned = services.store.pinned()
    dimension = services.embedder.dimension if pinned is None else pinned.dimension
    seen = _Seen()
    for page in _pages(services, seen, findings):
        for versions in page:
            seen.add(versions)
        findings += _check_page(services, [stored for versions in page for stored in versions], dimension, repair, deep)
        if progress is not None:
            progress(seen.memories)
    return DoctorReport(seen.memories, seen.versions, seen.pending, tuple(findings))


@dataclass(slots=True)
class _Seen:
    """Counts and links of the memories read so far.

    Attributes:
        memories, versions, pending: numbers of memories, older versions, and memories without a vector.
        ids: of all memories.
        sources: live reflection -> ids of the memories that it sums up.
        supersedes: live memory -> id of the one that it supersedes.
    """

    memories: int = 0
    versions: int = 0
    pending: int = 0
    ids: set[str] = field(default_factory=set)
    sources: dict[str, tuple[str, ...]] = field(default_factory=dict)
    supersedes: dict[str, str] = field(default_factory=dict)

    def add(self, versions: Sequence[Stored]) -> None:
        """Count one memory."""
        memory = versions[-1].memory
        self.ids.add(memory.id)
        self.memories += 1
        self.versions += len(versions) - 1
        self.pending += versions[-1].vector is None
        if memory.forgotten_at is None:
            if memory.sources:
                self.sources[memory.id] = memory.sources
            if memory.supersedes is not None:
                self.supersedes[memory.id] = memory.supersedes


@dataclass(frozen=True, slots=True)
class _Fault:
    """A problem of one version of a memory, and the change that repairs it; None: only a backup helps."""

    check: str
    memory: Memory
    problem: str
    change: Derive | None = None

    @property
    def key(self) -> tuple[str, str, int]:
        """Identity of the fault, to find out after a repair whether it is still there."""
        return self.check, self.memory.id, self.memory.version


def _pages(services: Services, seen: _Seen, findings: list[Finding]) -> Iterator[list[list[Stored]]]:
    """Yield pages of memories, each with its versions, oldest first; note unreadable rows and broken links."""
    everything, _ = keywords.scope(services.tenant, keywords.EVERYWHERE)
    skipped: list[DamagedError] = []  # `Store.check` has reported them
    rows = scan(services, everything, forgotten=True, versions=True, passed=skipped)
    memories = (list(versions) for _, versions in groupby(rows, key=lambda stored: stored.memory.id))
    try:
        while page := list(islice(memories, PAGE)):
            yield page
    except (ArithmeticError, LookupError, StoreError, TypeError, ValueError) as error:
        problem = f"reading ended after {seen.memories} memories with {type(error).__name__}. {BACKUP}"
        findings.append(Finding("rows", None, problem))
    else:
        findings += _link_problems(seen)


def _check_page(
    services: Services, stored: Sequence[Stored], dimension: int, repair: bool, deep: bool
) -> list[Finding]:
    """Return the problems of some versions, after a repair if asked."""
    faults = _faults(services, stored, dimension, deep)
    changes, reason = _repairs(services, faults) if repair else ([], None)
    left = {fault.key for fault in faults}
    if changes:
        services.store.apply(changes)
        everything, _ = keywords.scope(services.tenant, keywords.EVERYWHERE)
        wanted = {fault.key[1:] for fault in faults}
        again = [one for id_ in sorted({id_ for id_, _ in wanted}) for one in services.store.history(everything, id_)]
        again = [one for one in again if (one.memory.id, one.memory.version) in wanted]  # others may be gone by now
        left = {fault.key for fault in _faults(services, again, dimension, deep)}
    found = []
    for fault in faults:
        is_left, problem = fault.key in left, f"version {fault.memory.version}: {fault.problem}"
        if reason and is_left and fault.check == "vectors":
            problem = f"{problem} It was not repaired: {reason}"
        if is_left:
            problem = f"{problem} {BACKUP if fault.change is None else REPAIR}"
        found.append(Finding(fault.check, fault.memory.id, problem, not is_left))
    return found


def _faults(services: Services, stored: Sequence[Stored], dimension: int, deep: bool) -> list[_Fault]:
    fresh = _embedded(services, stored, deep)
    faults: list[_Fault] = []
    for item, vector in zip(stored, fresh, strict=True):
        memory = item.memory
        if content_hash(memory.content) != memory.content_hash:
            faults.append(_Fault("content", memory, "its text is not the one that was stored."))
            continue
        right, change = derive(services, memory), Derive.of(memory)
        if item.terms != right.terms:
            repaired = replace(change, terms=right.terms)
            faults.append(_Fault("terms", memory, "its terms are not those of its text.", repaired))
        repaired = replace(change, distinctions=right.distinctions, event=right.event)
        if item.distinctions != right.distinctions:
            faults.append(_Fault("distinctions", memory, "its distinctions are not those of its text.", repaired))
        elif item.event != right.event:
            faults.append(_Fault("event", memory, "its event time is not that of its text.", repaired))
        problem = _vector_problem(item.vector, dimension, vector)
        if problem is not None:
            faults.append(_Fault("vectors", memory, problem, change))
    return faults


def _vector_problem(vector: Vectors32 | None, dimension: int, fresh: Vectors32 | None) -> str | None:
    if vector is None or vector.shape != (dimension,):  # `Store.check` reports wrong lengths
        return None
    if fresh is not None and not vector.any() and not fresh.any():  # the model knows no word of the text
        return None
    if not np.isfinite(vector).all():
        return "its vector holds NaN or infinity."
    if abs(float(np.linalg.norm(vector.astype(np.float64))) - 1.0) > UNIT_TOLERANCE:
        return "its vector is not of length 1."
    if fresh is not None and float(vector.astype(np.float64) @ fresh) < SAME_COSINE:
        return "its vector is not the one that the model makes of its text."
    return None


def _embedded(services: Services, stored: Sequence[Stored], deep: bool) -> Sequence[Vectors32 | None]:
    """Return a new vector of each text, without `deep` only where the stored one is zeros.

    None for the others, and for all if the store is pinned to another model.
    """
    pinned = services.store.pinned()
    if pinned is None or (pinned.name, pinned.dimension) != (services.embedder.name, services.embedder.dimension):
        return [None] * len(stored)
    has_zeros = services.embedder.gives_zeros
    checked = [item for item in stored if deep or (has_zeros and item.vector is not None and not item.vector.any())]
    texts = list(dict.fromkeys(item.memory.content for item in checked))
    fresh = dict(zip(texts, embed(services, texts), strict=True))
    return [fresh[text].vector if (text := item.memory.content) in fresh else None for item in stored]


def _repairs(services: Services, faults: Iterable[_Fault]) -> tuple[list[Derive], str | None]:
    """Return the changes that repair the faults, and why vectors cannot be repaired, if they cannot."""
    changes = [(fault, fault.change) for fault in faults if fault.change is not None]
    derived = [change for fault, change in changes if fault.check != "vectors"]
    lacking = [fault.memory for fault, _ in changes if fault.check == "vectors"]
    pinned = services.store.pinned()
    if lacking and pinned is not None and pinned.name != services.embedder.name:
        return derived, f"the store is of embedder {pinned.name!r}. Open it with that one."
    try:
        embedded = embed(services, [memory.content for memory in lacking])
    except EmbedderError as error:
        return derived, str(error)
    return [*derived, *map(Derive.of, lacking, embedded)], None


def _link_problems(seen: _Seen) -> list[Finding]:
    """Return reflections whose sources do not exist, and cycles of `supersedes`."""
    found = []
    for cycle in cycles(seen.supersedes):
        names = ", ".join(map(short_id, cycle))
        problem = f"supersedes forms a cycle ({names}). Forget the memory that is out of date: salience forget ID"
        found.append(Finding("supersedes", min(cycle), problem))
    for reflection, sources in seen.sources.items():
        gone = [source for source in sources if source not in seen.ids]
        if gone:
            problem = f"{len(gone)} of the {len(sources)} memories that it sums up do not exist. Run: salience reflect"
            found.append(Finding("sources", reflection, problem))
    return found
