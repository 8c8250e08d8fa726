"""All that the store in dictionaries holds, and how it stood at an earlier instant."""

from __future__ import annotations

from collections.abc import MutableMapping
from dataclasses import dataclass, field, fields, replace
from datetime import datetime

from salience.batch import Vectors32
from salience.ports import Answered, Stored
from salience.records import Memory
from salience.records.checks import Frozen
from salience.store.layers import Layer
from salience.store.pins import Pin

Place = tuple[str, str]
"""Tenant and id."""


@dataclass(frozen=True, slots=True)
class Before:
    """The recall counters of a memory in one of its versions, as they were before a touch `at` an instant."""

    at: datetime
    version: int
    accessed_at: datetime | None
    access_count: int
    importance: float


@dataclass(frozen=True, slots=True)
class State:
    """All that is stored; what the tables hold never changes, it is replaced.

    Attributes:
        rows: (tenant, id) -> the memory as it stands.
        versions: (tenant, id) -> the versions before it, oldest first.
        touches: (tenant, id) -> its counters before each touch, oldest first.
        keys: (tenant, home, idempotency key) -> id.
        clocks: (tenant, session key) -> turns so far.
        requests: (tenant, home, idempotency key) -> what was answered.
        leases: name -> holder, and until when.
        laid_by: (tenant, id, version) -> content hash and vector, of the model of the pin `laid_by`.
        pins: `pinned` and `laid_by` -> the models of the vectors in the rows, and of those laid by.
    """

    rows: MutableMapping[Place, Stored] = field(default_factory=dict)
    versions: MutableMapping[Place, tuple[Stored, ...]] = field(default_factory=dict)
    touches: MutableMapping[Place, tuple[Before, ...]] = field(default_factory=dict)
    keys: MutableMapping[tuple[str, str, str], str] = field(default_factory=dict)
    clocks: MutableMapping[Place, int] = field(default_factory=dict)
    requests: MutableMapping[tuple[str, str, str], Answered] = field(default_factory=dict)
    leases: MutableMapping[str, tuple[str, datetime]] = field(default_factory=dict)
    laid_by: MutableMapping[tuple[str, str, int], tuple[str, Vectors32]] = field(default_factory=dict)
    pins: MutableMapping[str, Pin] = field(default_factory=dict)

    def draft(self) -> State:
        """Return a state that shows this one, and keeps to itself what is written to it."""
        return State(*(Layer(getattr(self, table.name)) for table in fields(self)))

    def settle(self) -> None:
        """Write a draft to the state that it shows."""
        for table in fields(self):
            getattr(self, table.name).settle()

    def of(self, tenant: str) -> list[Stored]:
        """Return the memories of a tenant, forgotten ones too, by id."""
        return [self.rows[place] for place in sorted(place for place in self.rows if place[0] == tenant)]

    def live(self, tenant: str, as_of: datetime | None = None) -> list[Stored]:
        """Return the live memories of a tenant, by id, as they stand or as they stood."""
        held = self.of(tenant)
        if as_of is not None:
            held = [then for now in held if (then := self.then((tenant, now.memory.id), as_of)) is not None]
        return [stored for stored in held if stored.memory.forgotten_at is None]

    def all_of(self, place: Place) -> tuple[Stored, ...]:
        """Return the versions of a memory, oldest first, the current one last; none if it is not there."""
        return (*self.versions.get(place, ()), self.rows[place]) if place in self.rows else ()

    def then(self, place: Place, as_of: datetime) -> Stored | None:
        """Return a memory as it stood at an instant; None where it was not stored yet."""
        known = [stored for stored in self.all_of(place) if stored.memory.changed_at <= as_of]
        if not known:
            return None
        stored = replace(known[-1], activations=Frozen())
        for before in self.touches.get(place, ()):
            if before.version == stored.memory.version and before.at > as_of:
                return replace(stored, memory=_with(before, stored))
        return stored

    def counts(self) -> tuple[int, int]:
        """Return how many memories and how many older versions there are."""
        return len(self.rows), sum(map(len, self.versions.values()))


def _with(before: Before, stored: Stored) -> Memory:
    return replace(
        stored.memory,
        accessed_at=before.accessed_at,
        access_count=before.access_count,
        importance=before.importance,
    )
