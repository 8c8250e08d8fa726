"""Instants, vectors, receipts and errors that all stores share."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Final, Literal

import numpy as np

from salience.batch import Tokens, Vectors32
from salience.errors import ConflictError, InputError, LeaseError, StaleError, StoreError, Words
from salience.ports import Add, Answered, Change, Derive, Erase, Prune, Revise
from salience.records import ANY, Memory, Receipt, Scope
from salience.records.checks import Frozen, frozen
from salience.records.ids import short_id
from salience.text import normalise

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND: Final = timedelta(microseconds=1)
MICROSECONDS: Final = 1e6
"""Microseconds in a second."""


def microseconds(instant: datetime) -> int:
    """Return an aware instant as whole microseconds since 1970 in UTC; nothing is rounded."""
    return (instant - EPOCH) // MICROSECOND


def instant(count: int) -> datetime:
    """Return the instant, in UTC, that lies `count` microseconds after 1970."""
    return EPOCH + count * MICROSECOND


def means(names: Collection[str], speaker: str) -> bool:
    """Return whether a name, in normal form, is the speaker's whole name or its first word."""
    whole = normalise(speaker)
    return whole in names or whole.partition(" ")[0] in names


def fitting(vector: Vectors32, dimension: int) -> Vectors32:
    """Return a vector, or raise `InputError` if it is not float32[dimension]."""
    if vector.shape != (dimension,) or vector.dtype != np.float32:
        given = Words(f"{vector.dtype}{list(vector.shape)}")
        raise InputError("vector", given, f"Give float32[{dimension}], the dimension that the store was opened with.")
    return vector


def own_vector(vector: Vectors32 | None, dimension: int) -> Vectors32 | None:
    """Return a read-only copy of float32[dimension], or None for None; raise as `fitting`."""
    if vector is None:
        return None
    copy = fitting(vector, dimension).copy()
    copy.flags.writeable = False
    return copy


def fitting_tokens(tokens: Tokens) -> Tokens:
    """Return token vectors, or raise `InputError` if they are not int8[t, k] with k from 1 to 65,535."""
    if tokens.dtype != np.int8 or tokens.ndim != 2 or not 0 < tokens.shape[1] < 1 << 16:
        given = Words(f"{tokens.dtype}{list(tokens.shape)}")
        raise InputError("tokens", given, "Give int8[t, k], the unit vectors of t tokens times 127.")
    return tokens


def own_metadata(memory: Memory) -> Memory:
    """Return `memory` with immutable metadata."""
    return memory if isinstance(memory.metadata, Frozen) else replace(memory, metadata=frozen(memory.metadata))


def already(stored: Memory, given: Memory, had_content: bool = False) -> Receipt:
    """Return the receipt for adding `given` if `stored` has its idempotency key or its id.

    `had_content` says whether an older version of `stored` has the content of `given`.

    Raises:
        ConflictError: the content of `given` is neither that of `stored` nor an earlier one under the key; or `given`
            is a later version of the same memory.
    """
    if stored.id == given.id and stored.version < given.version:
        raise ConflictError(
            f"id: {given.id!r} is here at version {stored.version}, before version {given.version} of the one given. "
            "Add it to another store, or update the memory that is here."
        )
    if stored.content_hash == given.content_hash or (had_content and stored.id != given.id):
        return Receipt(stored, "unchanged")
    if stored.id == given.id:
        raise ConflictError(
            f"id: {given.id!r} already stands for a memory with other content. Store it under a new id."
        )
    raise ConflictError(
        f"key: {given.key!r} already stands for memory {stored.short_id} with other content. "
        "Use a new key, or update that memory."
    )


def stale(given: Memory, current: int | None) -> StaleError:
    """Return the error for revising a memory to `given` from version `current`; None: it does not exist."""
    state = "is not there" if current is None else f"is at version {current}"
    return StaleError(f"id: memory {given.short_id} {state}, not at {given.version - 1}. Read it again and retry.")


def answered_already(change: Answered) -> StaleError:
    """Return the error for a second answer under an idempotency key."""
    return StaleError(
        f"key: a request under {change.key!r} was answered meanwhile. Read that answer, or use a new key."
    )


def carries_vectors(changes: Iterable[Change]) -> bool:
    """Return whether changes add vectors to search at once; those of `Derive` may be for a later model."""
    return any(
        (isinstance(change, Add) and any(one.vector is not None for one in (change.stored, *change.history)))
        or (isinstance(change, Revise) and change.vector is not None)
        for change in changes
    )


def derives_vectors(changes: Iterable[Change]) -> bool:
    """Return whether changes add vectors or token vectors to stored versions."""
    return any(
        isinstance(change, Derive) and (change.vector is not None or change.tokens is not None) for change in changes
    )


def is_session_of(session_key: str, whose: Scope) -> bool:
    """Return whether `Erase.sessions` includes a session, given by its `Scope.session_key`."""
    environment, user_id, session_id = session_key.split("\x1f")
    return (
        (
            whose.environment in (ANY, environment) or not environment
        )  # a session across all environments belongs to none
        and whose.user_id in (ANY, user_id or None)
        and whose.session_id in (None, session_id)
    )


def missing(id: str) -> StaleError:
    """Return the error for erasing a missing memory."""
    return StaleError(f"id: memory {short_id(id)} is not there any more. Read what there is to erase, and retry.")


def held_by(name: str, holder: str, until: datetime) -> LeaseError:
    """Return the error for a lease that another holder has."""
    when = until.isoformat(timespec="seconds")
    return LeaseError(f"{name}: {holder} is at it, until {when} at the latest. Wait until it is done.")


def count_changed(changes: Sequence[Change], receipts: Iterable[Receipt]) -> tuple[int, int | None]:
    """Return by how much changes raise the numbers of memories and of older versions, according to their receipts.

    None for the versions if a change drops some, which may be gone already.
    """
    statuses = iter(receipts)
    memories, versions = 0, 0
    for change in changes:
        if isinstance(change, Add) and next(statuses).status == "created":
            memories, versions = memories + 1, versions + len(change.history)
        elif isinstance(change, Revise):
            next(statuses)
            versions += 1
        elif isinstance(change, Erase):
            memories -= len(set(change.ids))
    unknown = any(isinstance(change, Erase | Prune) for change in changes)
    return memories, None if unknown else versions


def check_counts(before: tuple[int, int], after: tuple[int, int], changed: tuple[int, int | None]) -> None:
    """Raise `StoreError` unless the numbers of memories and of older versions changed as expected."""
    expected = (before[0] + changed[0], after[1] if changed[1] is None else before[1] + changed[1])
    if after != expected:
        raise StoreError(
            f"store: {after[0]} memories and {after[1]} older versions would be left of {before[0]} and {before[1]}, "
            f"where {expected[0]} and {expected[1]} are due; nothing was written. Run: salience doctor"
        )


def later(one: datetime | None, other: datetime | None) -> datetime | None:
    """Return the later of two instants; either may be None."""
    return max((moment for moment in (one, other) if moment is not None), default=None)


def merged(change: Revise, importance: float, accessed_at: datetime | None, access_count: int) -> Memory:
    """Return the memory that a revision stores over one with these counters, so that no concurrent touch is lost.

    Recall counters never decrease; importance changes only if the revision sets it.
    """
    given = own_metadata(change.memory)
    return replace(
        given,
        importance=given.importance if change.sets_importance else importance,
        accessed_at=later(given.accessed_at, accessed_at),
        access_count=max(given.access_count, access_count),
    )


def revised(memory: Memory) -> Receipt:
    """Return the receipt of a revision."""
    statuses: dict[str, Literal["forgotten", "restored"]] = {"forget": "forgotten", "restore": "restored"}
    return Receipt(memory, statuses.get(memory.change, "updated"))
