"""A store in dictionaries: the executable specification of the contract, obvious rather than fast."""

from __future__ import annotations

import copy
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Self

import numpy as np

from salience.batch import Batch, Floats, Rows, Vectors32, cosines
from salience.errors import DamagedError, InputError, StoreError, Words
from salience.ports import Add, Adopt, Answered, Change, Model, Near, Need, Stored
from salience.records import Filter, Finding, Memory, OutOfScope, Receipt, Scope
from salience.store.memory_changes import MAKE, Making
from salience.store.memory_columns import Candidates, batch
from salience.store.memory_context import cosine_to
from salience.store.memory_state import State
from salience.store.pins import Handle
from salience.store.values import carries_vectors, count_changed, counted, derives_vectors, means


@dataclass(slots=True)
class _Shared:
    """What the handles on a store have in common; there is no state once it is closed."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    state: State | None = field(default_factory=State)


class MemoryStore:
    """Memories of one process, gone with it.

    Args:
        embedder: name of the embedder that the vectors come from.
        dimension: their length.
        fingerprint: as in `Model`.
    """

    def __init__(self, embedder: str, dimension: int, fingerprint: Callable[[], Vectors32] | None = None) -> None:
        self._handle = Handle(Model(embedder, dimension, fingerprint), ":memory:")
        self._shared = _Shared()

    def apply(self, changes: Sequence[Change], *, counted: bool = False) -> list[Receipt]:
        """Make all changes or none; return a receipt for each `Add` and `Revise`, in order.

        Raises:
            ConflictError: an idempotency key or id that stands for other content; `StaleError` for a stale revision.
            PinnedError: vectors of another model than the store is pinned to.
            StoreError: the store is closed, or the count of memories or versions is not what the changes make it.
        """
        brings = carries_vectors(changes) or derives_vectors(changes)
        if brings or any(isinstance(change, Adopt) for change in changes):
            self._handle.own()  # before the lock: it may ask a provider
        with self._opened() as state:
            draft = state.draft()
            self._pin(draft, changes)
            made = [MAKE[type(change)](Making(draft, self._handle), change) for change in changes]
            receipts = [receipt for receipt in made if receipt is not None]
            if counted:
                _check_counts(state, draft, changes, receipts)
            draft.settle()
        return receipts

    def gather(self, need: Need) -> Batch:
        """Return the candidates as columns, rows ordered by id."""
        with self._opened() as state:
            live = state.live(need.scope.tenant, need.as_of)
            clock = state.clocks.get((need.scope.tenant, need.scope.session_key or ""), 0)
            pin = state.pins.get("pinned")
        if need.vector is not None or need.near is not None:
            self._handle.admit(pin)
        visible = [stored for stored in live if need.scope.sees(stored.memory.scope)]
        wanted = [stored for stored in visible if need.filter.accepts(stored.memory)]
        matrix = _matrix(wanted, self._handle.model.dimension if pin is None else pin.dimension)
        cosine = np.array([cosine_to(need, stored) for stored in wanted], np.float64)
        rows = _picked(wanted, matrix, cosine, need)
        known = Candidates([wanted[row] for row in rows], cosine[rows], matrix[rows], live, visible, need, clock)
        beyond = float(np.delete(cosine, rows).max(initial=-1.0))
        return replace(batch(known), complete=len(rows) == len(wanted), beyond=beyond)

    def fetch(self, scope: Scope, ids: Sequence[str], *, as_of: datetime | None = None) -> list[Memory]:
        """Return the live memories of these ids (whole or short) visible in `scope`, as asked."""
        with self._opened() as state:
            visible = [stored.memory for stored in state.live(scope.tenant, as_of) if scope.sees(stored.memory.scope)]
        by_id = {memory.id: memory for memory in visible}
        return [by_id[found] for asked in ids if (found := _meant(visible, asked)) is not None]

    def speakers(self, scope: Scope, names: Sequence[str], *, as_of: datetime | None = None) -> list[str]:
        """Return who said live memories visible in `scope` and is meant by one of some names, sorted and distinct."""
        with self._opened() as state:
            visible = [stored.memory for stored in state.live(scope.tenant, as_of) if scope.sees(stored.memory.scope)]
        return sorted({memory.speaker for memory in visible if memory.speaker and means(names, memory.speaker)})

    def keyed(self, home: Scope, keys: Sequence[str]) -> list[Memory]:
        """Return the memories, forgotten ones too, that live at `home` under these idempotency keys, in any order."""
        with self._opened() as state:
            places = [(home.tenant, home.home_key, key) for key in dict.fromkeys(keys)]
            return [state.rows[home.tenant, state.keys[place]].memory for place in places if place in state.keys]

    def answered(self, home: Scope, key: str) -> Answered | None:
        """Return what was answered to a request from `home` under an idempotency key; None if none is known."""
        with self._opened() as state:
            return state.requests.get((home.tenant, home.home_key, key))

    def scan(
        self,
        scope: Scope,
        after: str = "",
        limit: int = 100,
        filter: Filter = Filter(),
        *,
        forgotten: bool = False,
        versions: bool = False,
        passed: list[DamagedError] | None = None,
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

    def history(self, scope: Scope, id: str) -> list[Stored]:
        """Return the versions of the memory of an id (whole or short), live or not, visible in `scope`."""
        with self._opened() as state:
            visible = [stored.memory for stored in state.of(scope.tenant) if scope.sees(stored.memory.scope)]
            found = _meant(visible, id)
            return [] if found is None else list(state.all_of((scope.tenant, found)))

    def out_of_scope(self, scope: Scope, limit: int = 5) -> list[OutOfScope]:
        """Return how many live memories each place has that `scope.widened()` shows and `scope` does not."""
        wide = scope.widened()
        with self._opened() as state:
            homes = [stored.memory.scope for stored in state.live(scope.tenant, None)]
        counts = Counter(replace(home, session_id=None) for home in homes if wide.sees(home) and not scope.sees(home))
        ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0].home_key))
        return [OutOfScope(home, count) for home, count in ordered[:limit]]

    def unembedded(self, after: tuple[str, str, int] = ("", "", 0), limit: int = 100) -> list[Stored]:
        """Return up to `limit` versions of all tenants without a vector of this handle's model, in order."""
        with self._opened() as state:
            pin, laid_by = state.pins.get("pinned"), state.pins.get("laid_by")
        is_home = pin is None or self._handle.matches(pin)  # outside the lock: it may ask a provider
        is_known = laid_by is not None and self._handle.matches(laid_by)
        with self._opened() as state:
            vectors = dict(state.laid_by) if is_known else {}
            held = [(place, one) for place in sorted(state.rows) for one in state.all_of(place)]
        lacking = []
        for place, stored in held:
            name = (*place, stored.memory.version)
            laid = vectors[name][0] == stored.memory.content_hash if name in vectors else False
            if name > after and not (stored.vector is not None if is_home else laid):
                lacking.append(stored)
        return lacking[:limit]

    def under(self, model: Model) -> Self:
        """Return a handle on this store for an engine that embeds with `model`."""
        made = copy.copy(self)
        made._handle = Handle(model, ":memory:")
        return made

    def tenants(self) -> dict[str, int]:
        """Return the number of memories of each tenant that has some, forgotten ones included."""
        with self._opened() as state:
            return dict(Counter(tenant for tenant, _ in state.rows))

    def pinned(self) -> Model | None:
        """Return the model that the store is pinned to, with any known fingerprint; None before its first memory."""
        with self._opened() as state:
            pin = state.pins.get("pinned")
        return None if pin is None else pin.model()

    def check(self, *, repair: bool = False) -> list[Finding]:
        """Return nothing: dictionaries have no books that could be wrong."""
        with self._opened():
            return []

    def backup(self, path: str, progress: Callable[[int, int], None] | None = None, *, overwrite: bool = False) -> None:
        """Refuse: there is no file.

        Raises:
            InputError: always.
        """
        raise InputError(
            "file",
            Words("a copy of a store in memory"),
            "Use export, or connect to a file.",
            "cannot hold a store in memory",
        )

    def close(self) -> None:
        """Let go of everything; further calls raise `StoreError`."""
        with self._shared.lock:
            self._shared.state = None

    @contextmanager
    def _opened(self) -> Iterator[State]:
        with self._shared.lock:
            if self._shared.state is None:
                raise StoreError("store: it is closed. Connect again.")
            yield self._shared.state

    def _pin(self, draft: State, changes: Sequence[Change]) -> None:
        """Pin the store at its first memory, and to a fingerprint at its first vector; refuse vectors of others."""
        pin = draft.pins.get("pinned")
        vectors = carries_vectors(changes)
        if vectors:
            self._handle.admit(pin)
        brings = vectors or derives_vectors(changes)
        is_first = pin is None and any(isinstance(change, Add) for change in changes)
        is_bare = pin is not None and pin.fingerprint is None and self._handle.owns(pin)
        if is_first or (brings and is_bare):
            draft.pins["pinned"] = self._handle.own() if brings else self._handle.bare()


def _check_counts(state: State, draft: State, changes: Sequence[Change], receipts: Sequence[Receipt]) -> None:
    counted(state.counts(), draft.counts(), count_changed(changes, receipts))


def _meant(visible: Sequence[Memory], asked: str) -> str | None:
    """Return the id of the one visible memory that a whole or short id means; None for none, or several."""
    fits = {memory.id for memory in visible if asked in (memory.id, memory.short_id)}
    return min(fits) if len(fits) == 1 else None


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
        picked |= {row for row, stored in enumerate(wanted) if stored.vector is None}
    return np.array(sorted(picked), np.intp)


def _near(matrix: Vectors32, near: Near) -> set[int]:
    return {row for vector in near.vectors for row in np.flatnonzero(cosines(matrix, vector) > near.above).tolist()}


def _matrix(wanted: list[Stored], dimension: int) -> Vectors32:
    """Return a row for each memory, zeros for one without a vector."""
    zeros = np.zeros(dimension, np.float32)
    vectors = [zeros if stored.vector is None else stored.vector for stored in wanted]
    return np.array(vectors, np.float32).reshape(-1, dimension)
