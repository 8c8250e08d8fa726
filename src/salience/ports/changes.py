"""What is stored, and how it changes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from salience.batch import Vectors32
from salience.records import Memory, Scope

Distinguish = Callable[[str, str | None], tuple[str, ...]]
"""From a text and its speaker to `Stored.distinctions`."""


@dataclass(frozen=True, slots=True, eq=False)
class Stored:
    """A memory with what is derived from it.

    Attributes:
        memory: the record.
        vector: float32[d] of length 1; None while no vector is known.
        terms: terms of the text in order, with repetitions.
        activations: session key -> turn at which a recall in that session last returned the memory.
        distinctions: what tells the text from others, each `kind:value` with a kind of `batch.KINDS`; none: unknown.
    """

    memory: Memory
    vector: Vectors32 | None
    terms: tuple[str, ...]
    activations: Mapping[str, int]
    distinctions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Add:
    """Store a new memory.

    A memory whose idempotency key is taken in its home, or whose id is taken in its tenant, is left as it is
    (`unchanged`) when the content is the same, and refused with `ConflictError` when it is not, or when it is a later
    version of what is there. Under a key, the content may also be that of an older version that is kept: a retry may
    come after a change. A memory in a session without a `turn` gets the session's next one.

    Attributes:
        stored: the memory.
        history: its older versions, oldest first, where it comes from another store; kept as its versions here.
    """

    stored: Stored
    history: tuple[Stored, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Revise:
    """Put the next version in the place of a memory; the version before it is kept.

    The recall counters are never stepped back, and importance, which recalls raise too, is left as it stands unless
    the change is meant to set it.

    Attributes:
        memory: the new version; `memory.version - 1` must be the current one, else `StaleError`.
        sets_importance: whether `memory.importance` is to be taken.
        vector, terms, distinctions: None where the content is as before.
        unembeds: whether the content is new and its vector still to come: there is none until it is derived.
    """

    memory: Memory
    vector: Vectors32 | None = None
    terms: tuple[str, ...] | None = None
    sets_importance: bool = False
    distinctions: tuple[str, ...] | None = None
    unembeds: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Touch:
    """Record that a recall returned memories; counters, not versions. Ids that are gone are passed over.

    Attributes:
        scope: whose recall; its `session_key` (if any) moves on by one turn.
        accessed_at: None leaves it, and so does an instant before the one that is there.
        access_count, importance: added; importance stops at 1.
        activate: note the session's new turn on each memory.
        at: when the recall was, so that the counters of the time before it stay known; None: nobody asks back.
    """

    scope: Scope
    ids: tuple[str, ...]
    accessed_at: datetime | None = None
    access_count: int = 0
    importance: float = 0.0
    activate: bool = False
    at: datetime | None = None

    @property
    def columns(self) -> frozenset[str]:
        """The columns of `batch.COLUMNS` that may change."""
        changed = {
            "accessed_at": self.accessed_at is not None,
            "access_count": self.access_count != 0,
            "importance": self.importance != 0,
            "turns_since_activation": self.scope.session_id is not None,
        }
        return frozenset(name for name, is_changed in changed.items() if is_changed)

    @property
    def counts(self) -> bool:
        """Whether a recall counter may change."""
        return self.accessed_at is not None or bool(self.access_count or self.importance)


def touched(memory: Memory, touches: Iterable[Touch]) -> Memory:
    """Return a live memory as it stands after touches of it, each of which counts, in their order."""
    count, importance, last = memory.access_count, memory.importance, memory.accessed_at
    for touch in touches:  # one by one, so that it is the same sum
        count += touch.access_count
        importance = min(1.0, importance + touch.importance)
        if touch.accessed_at is not None and (last is None or touch.accessed_at > last):
            last = touch.accessed_at.astimezone(UTC)
    return replace(memory, access_count=count, importance=importance, accessed_at=last)


@dataclass(frozen=True, slots=True, eq=False)
class Derive:
    """Put anew what is derived from the text of one version of a memory; no new version comes of it.

    A version that is gone, or has another text by now, is passed over. Under a handle of another model than the store
    is pinned to, the vector is laid by for the day on which that model is adopted.

    Attributes:
        tenant, id, version: the version, current or older.
        content_hash: of the text that it was derived from.
        vector, terms, distinctions: None leaves what is there.
    """

    tenant: str
    id: str
    version: int
    content_hash: str
    vector: Vectors32 | None = None
    terms: tuple[str, ...] | None = None
    distinctions: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Erase:
    """Delete memories for good, with versions, vectors, terms, counters, requests, and sessions that have none left.

    The only change that deletes memories. `StaleError` if one of the ids is not there.

    Attributes:
        tenant, ids: of the memories.
        sessions: whose sessions go too where no memory is in them, such as those in which a user only asked: its
            environment, user and session, of which `ANY`, and no session, stand for every one. None: nobody's.
    """

    tenant: str
    ids: tuple[str, ...]
    sessions: Scope | None = None


@dataclass(frozen=True, slots=True)
class Answered:
    """Note which version of a memory a request under an idempotency key made, so that a retry is told the same.

    `StaleError` if the key has its answer in that home already: read that one. Goes where the memory is erased.

    Attributes:
        home: where the request was made from; the session is no part of it.
        key: distinct within the home.
        verb: what was asked for.
        id, version: the memory, and the version that came of it.
        at: when.
    """

    home: Scope
    key: str
    verb: str
    id: str
    version: int
    at: datetime


@dataclass(frozen=True, slots=True)
class Prune:
    """Drop older versions (never a current one), and what is kept of touches and requests before an instant.

    Versions, each an id and a number, that are gone are passed over. A state `as_of` before the instant has its
    counters.
    """

    tenant: str
    versions: tuple[tuple[str, int], ...] = ()
    touches_before: datetime | None = None
    requests_before: datetime | None = None


@dataclass(frozen=True, slots=True)
class Lease:
    """Take, prolong or (with `until` not after `now`) give back a piece of work that one holder at a time may do.

    `LeaseError` if another holder has it until after `now`.
    """

    name: str
    holder: str
    now: datetime
    until: datetime

    @classmethod
    def given_back(cls, name: str, holder: str, now: datetime) -> Lease:
        """Return what gives a lease back, whatever the clock says later: one that steps back holds it no longer."""
        return cls(name, holder, now, datetime.fromtimestamp(0, UTC))


@dataclass(frozen=True, slots=True)
class Adopt:
    """Pin the store to the model of this handle, with the vectors that were laid by for it in place of the others.

    A version for which none was laid by has no vector then. Handles of the former model go on without vectors.
    """


Change = Add | Revise | Touch | Derive | Erase | Answered | Prune | Lease | Adopt
