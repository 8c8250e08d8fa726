"""Changes: the values that a store applies in a transaction."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Self

from salience.batch import Embedding, Tokens, Vectors32
from salience.records import Coordinate, LoggedRecall, Memory, Relation, Scope

Interval = tuple[datetime, datetime]
"""The time from the first instant to before the second, in UTC."""


@dataclass(frozen=True, slots=True, eq=False)
class Stored:
    """A memory with its derived data.

    Attributes:
        memory: the record.
        vector: float32[d] of length 1; zeros if the model knows no word of the text; None while the memory is pending.
        terms: terms of the text in order, with repetitions.
        activations: session key -> turn at which a recall in that session last returned the memory.
        distinctions: details that tell the text from similar ones, each `kind:value` with a kind of `batch.KINDS`;
            empty: unknown.
        tokens: token vectors of the model of `vector`; None if they are unknown. Not stored without `vector`.
        event: the time that the text states of what it tells: for "I met Ann yesterday" the day before `created_at`;
            None without one.
    """

    memory: Memory
    vector: Vectors32 | None
    terms: tuple[str, ...]
    activations: Mapping[str, int]
    distinctions: tuple[str, ...] = ()
    tokens: Tokens | None = None
    event: Interval | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Add:
    """Store a new memory.

    If its idempotency key exists in its home, or its id in its tenant, nothing is stored: the receipt is `unchanged` if
    the content is the same, else `ConflictError` is raised, as for a memory that is a later version than the stored
    one. Under a key, the content may also be that of an older version, since a retry may come after a change. A memory
    in a session without a `turn` gets the session's next turn.

    Attributes:
        stored: the memory.
        history: its older versions, oldest first, if it comes from another store.
    """

    stored: Stored
    history: tuple[Stored, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Revise:
    """Make the next version of a memory current; the previous version is kept.

    Recall counters never decrease. Importance, which recalls raise too, changes only with `sets_importance`.

    Attributes:
        memory: the new version; `memory.version - 1` must be the current one, else `StaleError`.
        vector, terms, distinctions: None if the content is unchanged.
        event: taken with `distinctions`.
        sets_importance: whether to take `memory.importance`.
        unembeds: whether the content is new and has no vector yet; the old vector and tokens are dropped.
        tokens: token vectors of the model of `vector`. They replace the old ones whenever `vector` is given.
    """

    memory: Memory
    vector: Vectors32 | None = None
    terms: tuple[str, ...] | None = None
    sets_importance: bool = False
    distinctions: tuple[str, ...] | None = None
    unembeds: bool = False
    tokens: Tokens | None = None
    event: Interval | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Touch:
    """Record that a recall returned memories. It changes counters and makes no version; unknown ids are skipped.

    Attributes:
        scope: of the recall; its `session_key`, if any, advances by one turn.
        ids: the memories.
        accessed_at: the new last access, unless the stored one is later; None changes nothing.
        access_count, importance: increments; importance stops at 1.
        activate: whether to note the session's new turn on each memory.
        at: instant of the recall, by which earlier counters stay known to `as_of`; None keeps no record.
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
        columns = {
            "accessed_at": self.accessed_at is not None,
            "access_count": self.access_count != 0,
            "importance": self.importance != 0,
            "turns_since_activation": self.scope.session_id is not None,
        }
        return frozenset([name for name, changes in columns.items() if changes])

    @property
    def counts(self) -> bool:
        """Whether a recall counter may change."""
        return self.accessed_at is not None or bool(self.access_count or self.importance)


def touched(memory: Memory, touches: Iterable[Touch]) -> Memory:
    """Return a live memory after touches, applied in order."""
    count, importance, last = memory.access_count, memory.importance, memory.accessed_at
    for touch in touches:  # one by one, for the same rounding as in the store
        count += touch.access_count
        importance = min(1.0, importance + touch.importance)
        if touch.accessed_at is not None and (last is None or touch.accessed_at > last):
            last = touch.accessed_at.astimezone(UTC)
    return replace(memory, access_count=count, importance=importance, accessed_at=last)


@dataclass(frozen=True, slots=True, eq=False)
class Derive:
    """Replace derived data of one version of a memory; no new version is made.

    A version that no longer exists, or has another text, is skipped. Under a handle of another model than the store's,
    the vector and tokens are stored aside until that model is adopted (see `Adopt`).

    Attributes:
        tenant, id, version: the version, current or older.
        content_hash: of the text that the data was derived from.
        vector, terms, distinctions: None changes nothing.
        tokens: token vectors. They replace the old ones whenever `vector` is given. Without `vector`, they belong to
            the stored vector of this handle's model, and are skipped if there is none; None then changes nothing.
        event: taken with `distinctions`.
        relations: to older memories; they replace those of the version.
    """

    tenant: str
    id: str
    version: int
    content_hash: str
    vector: Vectors32 | None = None
    terms: tuple[str, ...] | None = None
    distinctions: tuple[str, ...] | None = None
    tokens: Tokens | None = None
    event: Interval | None = None
    relations: tuple[Relation, ...] | None = None

    @classmethod
    def of(cls, memory: Memory, embedding: Embedding | None = None, **data: Any) -> Self:
        """Return the change that gives a version an embedding, or the data in other attributes."""
        if embedding is not None:
            data |= {"vector": embedding.vector, "tokens": embedding.tokens}
        return cls(memory.scope.tenant, memory.id, memory.version, memory.content_hash, **data)


@dataclass(frozen=True, slots=True)
class LogRecall:
    """Add an entry to the recall log, unless one of the memories that it cites does not exist."""

    entry: LoggedRecall

    @property
    def scope(self) -> Scope:
        """The scope of the recall."""
        return self.entry.scope

    @property
    def columns(self) -> frozenset[str]:
        """The columns of `batch.COLUMNS` that may change: none."""
        return frozenset()


@dataclass(frozen=True, slots=True)
class Erase:
    """Delete memories permanently, with versions, vectors, terms, counters, requests and sessions that become empty.

    Entries of the recall log that cite one of the memories are deleted too. No other change deletes memories.
    `StaleError` if one of the ids does not exist.

    Attributes:
        tenant, ids: of the memories.
        sessions: also delete empty sessions of this environment, user and session, for example those in which a user
            only asked questions; `ANY`, or no session, matches all. None: delete no such sessions.
        recalls: also delete the entries of the recall log whose scope has these coordinates; `ANY` stands for any one
            name: neither None nor every value. None: no such entries.
    """

    tenant: str
    ids: tuple[str, ...]
    sessions: Scope | None = None
    recalls: Mapping[str, Coordinate] | None = None


@dataclass(frozen=True, slots=True)
class Answered:
    """Record the version that a request under an idempotency key created, so that a retry gets the same answer.

    `StaleError` if the key already has an answer in that home. The record is deleted when the memory is erased.

    Attributes:
        home: scope of the request, without the session.
        key: unique within the home.
        verb: the request: `update`, `forget` or `restore`.
        id, version: the memory and its new version.
        at: instant of the request.
    """

    home: Scope
    key: str
    verb: str
    id: str
    version: int
    at: datetime


@dataclass(frozen=True, slots=True)
class Prune:
    """Drop older versions (never a current one), records of touches and requests before an instant, and log entries.

    Versions, each an id and a number, that no longer exist are skipped. A state `as_of` an instant before
    `touches_before` has the counters of `touches_before`. Entries of the recall log that expire by `now` are deleted.
    """

    tenant: str
    versions: tuple[tuple[str, int], ...] = ()
    touches_before: datetime | None = None
    requests_before: datetime | None = None
    now: datetime | None = None


@dataclass(frozen=True, slots=True)
class Lease:
    """Acquire, extend or (with `until` not after `now`) release a lease on work that one holder does at a time.

    `LeaseError` if another holder has it until after `now`. `tenant` is that of the work, which the name ends in; it is
    empty for work on the whole store.
    """

    name: str
    holder: str
    now: datetime
    until: datetime
    tenant: str = ""

    @classmethod
    def given_back(cls, name: str, holder: str, now: datetime, tenant: str = "") -> Lease:
        """Return the change that releases a lease, even if the clock is set back later."""
        return cls(name, holder, now, datetime.fromtimestamp(0, UTC), tenant)


@dataclass(frozen=True, slots=True)
class Adopt:
    """Pin the store to this handle's model, with the vectors and tokens that `Derive` stored aside for it.

    A version without such a vector becomes pending, and no tokens of the former model stay. Handles of that model then
    work without vectors.
    """


Change = Add | Revise | Touch | LogRecall | Derive | Erase | Answered | Prune | Lease | Adopt
