"""A store whose touches are written together: within a process, nobody can tell."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from salience.access_log.queue import Touches
from salience.batch import Batch
from salience.errors import DamagedError
from salience.ports import Add, Answered, Change, Lease, Model, Need, Store, Stored, Touch
from salience.records import Filter, Finding, Memory, OutOfScope, Receipt, Scope


class TouchedStore:
    """A store that lets touches wait, and has them written before anything that could tell so.

    Recalls whose ranking reads no counter wait for nothing: on what `fetch` and `keyed` return, the touches that wait
    are counted in. A process that is killed takes with it the touches of its last `LINGER` seconds.

    Args:
        store: the store.
        touches: what waits, shared by all who have the store open in this process.
        through: the handle that touches are written through; None for `store`.
    """

    def __init__(self, store: Store, touches: Touches, through: Store | None = None) -> None:
        self.store = store
        self._touches = touches
        self._through = store if through is None else through

    def __getattr__(self, name: str) -> Any:
        """Return what the store has beside its port, such as `connections`."""
        if name == "store":  # while a copy is being made, there is none yet
            raise AttributeError(name)
        return getattr(self.store, name)

    def apply(self, changes: Sequence[Change], *, counted: bool = False) -> list[Receipt]:
        """Make all changes in one transaction or none; touches alone are made soon.

        Raises:
            StoreError: as the store does; for touches, why earlier ones could not be written. They are tried again.
        """
        touches = [change for change in changes if isinstance(change, Touch)]
        if counted or not touches or len(touches) < len(changes):
            if self._touches and any(map(self._meets, changes)):
                self._touches.settle()
            return self.store.apply(changes, counted=counted)
        self.store.apply([])  # raises where it is closed
        for touch in touches:
            self._touches.add(self._through, touch)
        failure = self._touches.failure()
        if failure is not None:
            raise failure
        return []

    def _meets(self, change: Change) -> bool:
        """Return whether a change has to find, or could show, what a touch that waits has done."""
        if isinstance(change, Add):
            memory, home = change.stored.memory, change.stored.memory.scope
            is_new = memory.key is None and not self._touches.holds(home.tenant, memory.id)
            takes_turn = home.session_key is not None and self._touches.moves_on(home.tenant, home.session_key)
            return not is_new or takes_turn or bool(change.stored.activations)
        return not isinstance(change, Lease | Answered)

    def gather(self, need: Need) -> Batch:
        """Return the candidates as columns, rows ordered by id."""
        if need.as_of is not None or self._touches.moves(need.columns):
            self._touches.settle()
        return self.store.gather(need)

    def fetch(self, scope: Scope, ids: Sequence[str], *, as_of: datetime | None = None) -> list[Memory]:
        """Return the live memories of these ids (whole or short) visible in `scope`, as asked, absent ones left out."""
        if as_of is not None:
            self._touches.settle()
            return self.store.fetch(scope, ids, as_of=as_of)
        return self._touches.shown(lambda: self.store.fetch(scope, ids))

    def speakers(self, scope: Scope, names: Sequence[str], *, as_of: datetime | None = None) -> list[str]:
        """Return who said live memories visible in `scope` and is meant by one of some names, sorted and distinct."""
        return self.store.speakers(scope, names, as_of=as_of)

    def keyed(self, home: Scope, keys: Sequence[str]) -> list[Memory]:
        """Return the memories, forgotten ones too, that live at `home` under these idempotency keys, in any order."""
        return self._touches.shown(lambda: self.store.keyed(home, keys))

    def answered(self, home: Scope, key: str) -> Answered | None:
        """Return what was answered to a request from `home` under an idempotency key; None if none is known."""
        return self.store.answered(home, key)

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
        self._touches.settle()
        more = {} if passed is None else {"passed": passed}
        return self.store.scan(scope, after, limit, filter, forgotten=forgotten, versions=versions, **more)

    def history(self, scope: Scope, id: str) -> list[Stored]:
        """Return the versions of the memory of an id (whole or short), live or not, visible in `scope`."""
        self._touches.settle()
        return self.store.history(scope, id)

    def out_of_scope(self, scope: Scope, limit: int = 5) -> list[OutOfScope]:
        """Return how many live memories each place has that `scope.widened()` shows and `scope` does not."""
        return self.store.out_of_scope(scope, limit)

    def unembedded(self, after: tuple[str, str, int] = ("", "", 0), limit: int = 100) -> list[Stored]:
        """Return up to `limit` versions without a vector of this handle's model, for their texts and not the counts."""
        return self.store.unembedded(after, limit)

    def under(self, model: Model) -> TouchedStore:
        """Return a handle on this store for an engine that embeds with `model`."""
        return TouchedStore(self.store.under(model), self._touches, self._through)

    def tenants(self) -> dict[str, int]:
        """Return the number of memories of each tenant that has some, forgotten ones included."""
        return self.store.tenants()

    def pinned(self) -> Model | None:
        """Return the model that the store is pinned to, with any known fingerprint; None before its first memory."""
        return self.store.pinned()

    def check(self, *, repair: bool = False) -> list[Finding]:
        """Return what is wrong with the store's own books, mended where `repair` asks for it and it can be done."""
        self._touches.settle()
        return self.store.check(repair=repair)

    def backup(self, path: str, progress: Callable[[int, int], None] | None = None, *, overwrite: bool = False) -> None:
        """Write a copy of the store, as it stands at one instant, to a new file, while others read and write."""
        self._touches.settle()
        self.store.backup(path, progress, overwrite=overwrite)

    def settle(self) -> bool:
        """Write the touches that wait, and return whether they are written."""
        return self._touches.settle()

    def close(self) -> None:
        """Write what waits, and release the file or connection; further calls raise `StoreError`."""
        self._touches.settle()
        self._touches.leave(self._through)
        self.store.close()
