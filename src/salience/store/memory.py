"""A store in dictionaries: the executable specification of the contract, obvious rather than fast."""

from __future__ import annotations

import threading
from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final

import numpy as np

from salience.batch import Batch, Floats, Rows, Vectors32, cosines
from salience.checks import Frozen
from salience.errors import ConflictError, StoreError
from salience.ports import Add, Change, Near, Need, Revise, Stored, Touch
from salience.records import Filter, Memory, Receipt, Scope
from salience.store.memory_columns import Candidates, batch
from salience.store.memory_context import cosine_to
from salience.store.values import already, later, means, merged, own_metadata, own_vector, revised, stale

_Place = tuple[str, str]


@dataclass(frozen=True, slots=True)
class _State:
    """All that is stored; what the tables hold never changes, it is replaced.

    Attributes:
        rows: (tenant, id) -> the memory as it stands.
        versions: (tenant, id) -> the versions before it, oldest first.
        keys: (tenant, home, idempotency key) -> id; None where a key was given up.
        clocks: (tenant, session key) -> turns so far.
    """

    rows: MutableMapping[_Place, Stored] = field(default_factory=dict)
    versions: MutableMapping[_Place, tuple[Stored, ...]] = field(default_factory=dict)
    keys: MutableMapping[tuple[str, str, str], str | None] = field(default_factory=dict)
    clocks: MutableMapping[_Place, int] = field(default_factory=dict)

    def draft(self) -> _State:
        """Return a state that shows this one, and keeps to itself what is written to it."""
        return _State(*(ChainMap({}, getattr(self, table.name)) for table in fields(self)))

    def accept(self, draft: _State) -> None:
        """Take over what was written to a draft of this state."""
        for table in fields(self):
            getattr(self, table.name).update(getattr(draft, table.name).maps[0])

    def of(self, tenant: str) -> list[Stored]:
        """Return the memories of a tenant, forgotten ones too, by id."""
        return [self.rows[place] for place in sorted(place for place in self.rows if place[0] == tenant)]

    def live(self, tenant: str) -> list[Stored]:
        """Return the live memories of a tenant, by id."""
        return [stored for stored in self.of(tenant) if stored.memory.forgotten_at is None]


class MemoryStore:
    """Memories of one process, gone with it.

    Args:
        embedder: name of the embedder that the vectors come from.
        dimension: their length.
    """

    def __init__(self, embedder: str, dimension: int) -> None:
        self.embedder = embedder
        self.dimension = dimension
        self._lock = threading.Lock()
        self._state: _State | None = _State()

    def apply(self, changes: Sequence[Change]) -> list[Receipt]:
        """Make all changes or none; return a receipt for each `Add` and `Revise`, in order.

        Raises:
            ConflictError: an idempotency key or id that stands for other content; `StaleError` for a stale revision.
            StoreError: the store is closed.
        """
        with self._opened() as state:
            draft = state.draft()
            receipts = [_MAKE[type(change)](draft, change, self.dimension) for change in changes]
            state.accept(draft)
        return [receipt for receipt in receipts if receipt is not None]

    def gather(self, need: Need) -> Batch:
        """Return the candidates as columns, rows ordered by id."""
        with self._opened() as state:
            live = state.live(need.scope.tenant)
            clock = state.clocks.get((need.scope.tenant, need.scope.session_key or ""), 0)
        visible = [stored for stored in live if need.scope.sees(stored.memory.scope)]
        wanted = [stored for stored in visible if need.filter.accepts(stored.memory)]
        matrix = _matrix(wanted, self.dimension)
        cosine = np.array([cosine_to(need, stored) for stored in wanted], np.float64)
        rows = _picked(wanted, matrix, cosine, need)
        known = Candidates([wanted[row] for row in rows], cosine[rows], matrix[rows], live, visible, need, clock)
        return batch(known, complete=len(rows) == len(wanted))

    def fetch(self, scope: Scope, ids: Sequence[str]) -> list[Memory]:
        """Return the live memories of these ids (whole or short) visible in `scope`, as asked."""
        with self._opened() as state:
            visible = [stored.memory for stored in state.live(scope.tenant) if scope.sees(stored.memory.scope)]
        fits: dict[str, set[str]] = {asked: set() for asked in ids}
        for memory in visible:
            for name in fits.keys() & {memory.id, memory.short_id}:
                fits[name].add(memory.id)
        by_id = {memory.id: memory for memory in visible}
        return [by_id[min(fits[asked])] for asked in ids if len(fits[asked]) == 1]

    def speakers(self, scope: Scope, names: Sequence[str]) -> list[str]:
        """Return who said live memories visible in `scope` and is meant by one of some names, sorted and distinct."""
        with self._opened() as state:
            visible = [stored.memory for stored in state.live(scope.tenant) if scope.sees(stored.memory.scope)]
        return sorted({memory.speaker for memory in visible if memory.speaker and means(names, memory.speaker)})

    def keyed(self, home: Scope, keys: Sequence[str]) -> list[Memory]:
        """Return the memories, forgotten ones too, that live at `home` under these idempotency keys, in any order."""
        with self._opened() as state:
            holders = [state.keys.get((home.tenant, home.home_key, key)) for key in dict.fromkeys(keys)]
            return [state.rows[home.tenant, holder].memory for holder in holders if holder is not None]

    def scan(
        self,
        scope: Scope,
        after: str = "",
        limit: int = 100,
        filter: Filter = Filter(),
        *,
        forgotten: bool = False,
        versions: bool = False,
    ) -> list[Stored]:
        """Return up to `limit` visible memories whose id is greater than `after`, in the order of ids."""
        with self._opened() as state:
            page = [
                stored
                for stored in state.of(scope.tenant)
                if stored.memory.id > after
                and scope.sees(stored.memory.scope)
                and filter.accepts(stored.memory)
                and (forgotten or stored.memory.forgotten_at is None)
            ][:limit]
            older = state.versions if versions else {}
            return [item for stored in page for item in (*older.get((scope.tenant, stored.memory.id), ()), stored)]

    def close(self) -> None:
        """Let go of everything; further calls raise `StoreError`."""
        with self._lock:
            self._state = None

    @contextmanager
    def _opened(self) -> Iterator[_State]:
        with self._lock:
            if self._state is None:
                raise StoreError("store: it is closed. Connect again.")
            yield self._state


def _add(state: _State, change: Add, dimension: int) -> Receipt:
    memory = change.stored.memory
    tenant, home = memory.scope.tenant, memory.scope.home_key
    taken = state.keys.get((tenant, home, memory.key)) if memory.key is not None else None
    present = state.rows.get((tenant, memory.id if taken is None else taken))
    if present is not None:
        return already(present.memory, memory)
    for session, turn in change.stored.activations.items():
        state.clocks[tenant, session] = max(turn, state.clocks.get((tenant, session), 0))
    memory = _in_turn(state, own_metadata(memory))
    vector = own_vector(change.stored.vector, dimension)
    activations = Frozen(change.stored.activations)
    state.rows[tenant, memory.id] = replace(change.stored, memory=memory, vector=vector, activations=activations)
    state.versions[tenant, memory.id] = tuple(_as_version(older, dimension) for older in change.history)
    if memory.key is not None:
        state.keys[tenant, home, memory.key] = memory.id
    return Receipt(memory, "created")


def _as_version(stored: Stored, dimension: int) -> Stored:
    vector = own_vector(stored.vector, dimension)
    return replace(stored, memory=own_metadata(stored.memory), vector=vector, activations=Frozen())


def _in_turn(state: _State, memory: Memory) -> Memory:
    """Return `memory` with its place in its session, and move the session's clock to it."""
    session = memory.scope.session_key
    if session is None:
        return memory
    clock = state.clocks.get((memory.scope.tenant, session), 0)
    turn = clock + 1 if memory.turn is None else memory.turn
    state.clocks[memory.scope.tenant, session] = max(turn, clock)
    return replace(memory, turn=turn)


def _revise(state: _State, change: Revise, dimension: int) -> Receipt:
    given = change.memory
    place = (given.scope.tenant, given.id)
    current = state.rows.get(place)
    if current is None or current.memory.version != given.version - 1:
        raise stale(given, None if current is None else current.memory.version)
    standing = current.memory
    memory = merged(change, standing.importance, standing.accessed_at, standing.access_count)
    _move_key(state, current.memory, memory)
    vector = current.vector if change.vector is None else own_vector(change.vector, dimension)
    terms = current.terms if change.terms is None else change.terms
    distinctions = current.distinctions if change.distinctions is None else change.distinctions
    state.versions[place] = (*state.versions.get(place, ()), _as_version(current, dimension))
    state.rows[place] = Stored(memory, vector, terms, current.activations, distinctions)
    return revised(memory)


def _move_key(state: _State, old: Memory, new: Memory) -> None:
    if old.key is not None:
        state.keys[old.scope.tenant, old.scope.home_key, old.key] = None
    if new.key is not None:
        place = (new.scope.tenant, new.scope.home_key, new.key)
        if state.keys.get(place) is not None:
            raise ConflictError(f"key: {new.key!r} is taken by another memory there. Use a new key.")
        state.keys[place] = new.id


def _touch(state: _State, change: Touch, _: int) -> None:
    tenant, session = change.scope.tenant, change.scope.session_key
    activations = {}
    if session is not None:
        state.clocks[tenant, session] = turn = state.clocks.get((tenant, session), 0) + 1
        activations = {session: turn} if change.activate else {}
    for place in dict.fromkeys((tenant, touched) for touched in change.ids):
        stored = state.rows.get(place)
        if stored is not None and stored.memory.forgotten_at is None:
            memory = _touched(stored.memory, change)
            state.rows[place] = replace(
                stored, memory=memory, activations=Frozen({**stored.activations, **activations})
            )


def _touched(memory: Memory, change: Touch) -> Memory:
    return replace(
        memory,
        accessed_at=later(memory.accessed_at, change.accessed_at),
        access_count=memory.access_count + change.access_count,
        importance=min(1.0, memory.importance + change.importance),
    )


_MAKE: Final[Mapping[type, Callable[[_State, Any, int], Receipt | None]]] = {
    Add: _add,
    Revise: _revise,
    Touch: _touch,
}


def _picked(wanted: list[Stored], matrix: Vectors32, cosine: Floats, need: Need) -> Rows:
    """Return the rows that `need` asks for: named, near or among the nearest; all if it asks for none of these."""
    if need.ids is None and need.near is None and need.candidates is None:
        return np.arange(len(wanted))
    picked: set[int] = set()
    if need.ids is not None:
        picked |= {row for row, stored in enumerate(wanted) if stored.memory.id in need.ids}
    if need.near is not None:
        picked |= {row for row in _near(matrix, need.near) if wanted[row].vector is not None}
    if need.candidates is not None:
        picked |= set(sorted(range(len(wanted)), key=lambda row: (-cosine[row], row))[: need.candidates])
    return np.array(sorted(picked), np.intp)


def _near(matrix: Vectors32, near: Near) -> set[int]:
    return {row for vector in near.vectors for row in np.flatnonzero(cosines(matrix, vector) > near.above).tolist()}


def _matrix(wanted: list[Stored], dimension: int) -> Vectors32:
    """Return a row for each memory, zeros for one without a vector."""
    zeros = np.zeros(dimension, np.float32)
    vectors = [zeros if stored.vector is None else stored.vector for stored in wanted]
    return np.array(vectors, np.float32).reshape(-1, dimension)
