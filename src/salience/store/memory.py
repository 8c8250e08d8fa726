"""A store in dictionaries: the executable specification of the contract, obvious rather than fast."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np

from salience.batch import (
    COLUMNS,
    Batch,
    Codes,
    Column,
    Entities,
    Floats,
    Lexicon,
    Postings,
    Ragged,
    Rows,
    Vectors,
    Vectors32,
    cosines,
)
from salience.errors import ConflictError, StoreError
from salience.ports import Add, Change, Need, Revise, Stored, Touch
from salience.records import TIERS, Filter, Memory, Receipt, Scope
from salience.store.values import (
    MICROSECONDS,
    already,
    microseconds,
    own_vector,
    revised,
    stale,
    with_counters,
)
from salience.text import normalise

_Place = tuple[str, str]


@dataclass(frozen=True, slots=True)
class _State:
    """All that is stored. A published state never changes; a transaction works on a copy.

    Attributes:
        rows: (tenant, id) -> the memory as it stands.
        versions: (tenant, id) -> the versions before it, oldest first.
        keys: (tenant, home, idempotency key) -> id.
        clocks: (tenant, session key) -> turns so far.
    """

    rows: dict[_Place, Stored] = field(default_factory=dict)
    versions: dict[_Place, tuple[Stored, ...]] = field(default_factory=dict)
    keys: dict[tuple[str, str, str], str] = field(default_factory=dict)
    clocks: dict[_Place, int] = field(default_factory=dict)

    def copy(self) -> _State:
        return _State(dict(self.rows), dict(self.versions), dict(self.keys), dict(self.clocks))

    def live(self, scope: Scope) -> list[Stored]:
        """Return the live memories of the scope's tenant, by id."""
        places = sorted(place for place in self.rows if place[0] == scope.tenant)
        return [self.rows[place] for place in places if self.rows[place].memory.forgotten_at is None]


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
        with self._lock:
            state = self._opened().copy()
            receipts = [_MAKE[type(change)](state, change, self.dimension) for change in changes]
            self._state = state
        return [receipt for receipt in receipts if receipt is not None]

    def gather(self, need: Need) -> Batch:
        """Return the candidates as columns, rows ordered by id."""
        state = self._opened()
        live = state.live(need.scope)
        visible = [stored for stored in live if need.scope.sees(stored.memory.scope)]
        wanted = [stored for stored in visible if need.filter.accepts(stored.memory)]
        cosine = _cosines(wanted, need.vector, self.dimension)
        rows = _picked(wanted, cosine, need)
        batch = [wanted[row] for row in rows]
        return Batch(
            np.array([stored.memory.id for stored in batch], dtype=object),
            {name: _column(name, batch, cosine[rows], live, need, state) for name in sorted(need.columns)},
            _vectors(batch, self.dimension) if need.vectors else None,
            _lexicon(batch, visible, need.terms) if need.terms else None,
            _entities(batch, visible, need.names) if need.entities else None,
            complete=len(batch) == len(wanted),
        )

    def fetch(self, scope: Scope, ids: Sequence[str]) -> list[Memory]:
        """Return the live memories of these ids (whole or short) visible in `scope`, as asked."""
        visible = [stored.memory for stored in self._opened().live(scope) if scope.sees(stored.memory.scope)]
        fits = [[memory for memory in visible if asked in (memory.id, memory.short_id)] for asked in ids]
        return [memories[0] for memories in fits if len(memories) == 1]

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
        state = self._opened()
        places = [
            place
            for place, stored in sorted(state.rows.items())
            if scope.sees(stored.memory.scope)
            and place[1] > after
            and filter.accepts(stored.memory)
            and (forgotten or stored.memory.forgotten_at is None)
        ][:limit]
        older = state.versions if versions else {}
        return [stored for place in places for stored in (*older.get(place, ()), state.rows[place])]

    def close(self) -> None:
        """Let go of everything; further calls raise `StoreError`."""
        with self._lock:
            self._state = None

    def _opened(self) -> _State:
        if self._state is None:
            raise StoreError("store: it is closed. Connect again.")
        return self._state


def _add(state: _State, change: Add, dimension: int) -> Receipt:
    memory = change.stored.memory
    tenant, home = memory.scope.tenant, memory.scope.home_key
    taken = state.keys.get((tenant, home, memory.key)) if memory.key is not None else None
    present = state.rows.get((tenant, memory.id if taken is None else taken))
    if present is not None:
        return already(present.memory, memory)
    for session, turn in change.stored.activations.items():
        state.clocks[tenant, session] = max(turn, state.clocks.get((tenant, session), 0))
    memory = _in_turn(state, memory)
    vector = own_vector(change.stored.vector, dimension)
    state.rows[tenant, memory.id] = Stored(memory, vector, change.stored.terms, dict(change.stored.activations))
    state.versions[tenant, memory.id] = tuple(_as_version(older, dimension) for older in change.history)
    if memory.key is not None:
        state.keys[tenant, home, memory.key] = memory.id
    return Receipt(memory, "created")


def _as_version(stored: Stored, dimension: int) -> Stored:
    return replace(stored, vector=own_vector(stored.vector, dimension), activations={})


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
    memory = with_counters(given, current.memory.accessed_at, current.memory.access_count)
    _move_key(state, current.memory, memory)
    vector = current.vector if change.vector is None else own_vector(change.vector, dimension)
    terms = current.terms if change.terms is None else change.terms
    state.versions[place] = (*state.versions.get(place, ()), _as_version(current, dimension))
    state.rows[place] = Stored(memory, vector, terms, current.activations)
    return revised(memory)


def _move_key(state: _State, old: Memory, new: Memory) -> None:
    if old.key is not None:
        del state.keys[old.scope.tenant, old.scope.home_key, old.key]
    if new.key is not None:
        holder = state.keys.setdefault((new.scope.tenant, new.scope.home_key, new.key), new.id)
        if holder != new.id:
            raise ConflictError(f"key: {new.key!r} is taken by another memory there. Use a new key.")


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
            state.rows[place] = replace(stored, memory=memory, activations={**stored.activations, **activations})


def _touched(memory: Memory, change: Touch) -> Memory:
    return replace(
        memory,
        accessed_at=memory.accessed_at if change.accessed_at is None else change.accessed_at,
        access_count=memory.access_count + change.access_count,
        importance=min(1.0, memory.importance + change.importance),
    )


_MAKE: Final[Mapping[type, Callable[[_State, Any, int], Receipt | None]]] = {
    Add: _add,
    Revise: _revise,
    Touch: _touch,
}


def _picked(wanted: list[Stored], cosine: Floats, need: Need) -> Rows:
    """Return the rows that `need` asks for: named, near or among the nearest; all if it asks for none of these."""
    if need.ids is None and need.near is None and need.candidates is None:
        return np.arange(len(wanted))
    picked: set[int] = set()
    if need.ids is not None:
        picked |= {row for row, stored in enumerate(wanted) if stored.memory.id in need.ids}
    if need.near is not None:
        picked |= {
            row for row, stored in enumerate(wanted) if _is_near(stored.vector, need.near.vectors, need.near.above)
        }
    if need.candidates is not None:
        picked |= set(sorted(range(len(wanted)), key=lambda row: (-cosine[row], row))[: need.candidates])
    return np.array(sorted(picked), np.intp)


def _is_near(vector: Vectors32 | None, others: Vectors32, above: float) -> bool:
    return vector is not None and bool((cosines(vector[None, :], others) > above).any())


def _matrix(batch: list[Stored], dimension: int) -> Vectors32:
    """Return a row for each memory, zeros for one without a vector."""
    matrix = np.zeros((len(batch), dimension), np.float32)
    for row, stored in enumerate(batch):
        if stored.vector is not None:
            matrix[row] = stored.vector
    return matrix


def _cosines(batch: list[Stored], query: Vectors32 | None, dimension: int) -> Floats:
    return np.zeros(len(batch)) if query is None else cosines(_matrix(batch, dimension), query)


def _vectors(batch: list[Stored], dimension: int) -> Vectors:
    places = [row if stored.vector is not None else -1 for row, stored in enumerate(batch)]
    return Vectors(_matrix(batch, dimension), np.array(places, np.intp))


_OF_MEMORY: Final[Mapping[str, Callable[[Memory], float]]] = {
    "importance": lambda memory: memory.importance,
    "weight": lambda memory: memory.weight,
    "created_at": lambda memory: microseconds(memory.created_at) / MICROSECONDS,
    "updated_at": lambda memory: microseconds(memory.updated_at) / MICROSECONDS,
    "accessed_at": lambda memory: microseconds(memory.accessed_at or memory.created_at) / MICROSECONDS,
    "expires_at": lambda memory: (
        np.inf if memory.expires_at is None else microseconds(memory.expires_at) / MICROSECONDS
    ),
    "access_count": lambda memory: memory.access_count,
    "tier": lambda memory: TIERS.index(memory.tier),
    "is_global": lambda memory: memory.scope.project is None,
}


def _column(name: str, batch: list[Stored], cosine: Floats, live: list[Stored], need: Need, state: _State) -> Column:
    """Return column `name` of `batch`, a part of the tenant's `live` memories."""
    memories = [stored.memory for stored in batch]
    code = {stored.memory.id: number for number, stored in enumerate(live)}
    if name == "cosine":
        return cosine
    if name == "turns_since_activation":
        values: list[float] = [_turns(stored, need.scope, state) for stored in batch]
    elif name == "code":
        values = [code[memory.id] for memory in memories]
    elif name == "supersedes":
        values = [code.get(memory.supersedes or "", -1) for memory in memories]
    elif name == "fact":
        facts = {(stored.memory.scope.user_id, stored.memory.fact_key): number for number, stored in enumerate(live)}
        values = [-1 if m.fact_key is None else facts[m.scope.user_id, m.fact_key] for m in memories]
    else:
        values = [_OF_MEMORY[name](memory) for memory in memories]
    return np.array(values, COLUMNS[name].dtype)


def _turns(stored: Stored, scope: Scope, state: _State) -> float:
    session = scope.session_key
    if session is None or session not in stored.activations:
        return np.inf
    return state.clocks[scope.tenant, session] - stored.activations[session]


def _lexicon(batch: list[Stored], visible: list[Stored], terms: tuple[str, ...]) -> Lexicon:
    lengths = [len(stored.terms) for stored in visible]
    return Lexicon(
        documents=len(visible),
        average_length=sum(lengths) / len(lengths) if lengths else 0.0,
        document_frequency=np.array([sum(term in stored.terms for stored in visible) for term in terms], np.float64),
        postings=tuple(_postings(batch, term) for term in terms),
        length=np.array([len(stored.terms) for stored in batch], np.float64),
    )


def _postings(batch: list[Stored], term: str) -> Postings:
    frequency = np.array([stored.terms.count(term) for stored in batch], np.float64)
    rows = np.flatnonzero(frequency)
    return Postings(rows, frequency[rows])


def _entities(batch: list[Stored], visible: list[Stored], names: tuple[str, ...]) -> Entities:
    """Return the entities of `batch`; those that some visible memory names are the known ones."""
    codes: dict[str, int] = {}
    for stored in visible:
        for name in stored.memory.entities:
            codes.setdefault(normalise(name), len(codes))
    of_row = [list(dict.fromkeys(codes[normalise(name)] for name in stored.memory.entities)) for stored in batch]
    asked = dict.fromkeys(normalise(name) for name in names)
    of_query: Codes = np.array([codes[name] for name in asked if name in codes], np.int64)
    return Entities(Ragged.of(of_row), of_query)
