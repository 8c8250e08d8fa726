"""The mark of a store that holds part of a copy: it is not to be taken for a whole one."""

from __future__ import annotations

import json
import secrets
import shlex
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Final

from sqlalchemy import Connection

from salience.errors import StoreError
from salience.ports import Change, Lease
from salience.store.meta import Meta, keep
from salience.store.schema import meta as meta_table
from salience.store.write import tenant_of

COPYING: Final = "copying"
"""The name in `meta` that has a value while a copy is not whole."""


@dataclass(frozen=True, slots=True)
class Mark:
    """A copy that is under way or was cut off.

    Attributes:
        source: where it comes from, as messages name it.
        chosen: the tenants that were asked for, sorted; None: all.
        tenants: those whose memories are not whole; None: all that the store holds.
        run: of the process that is at it, so that another one that takes over stops it.
    """

    source: str
    chosen: tuple[str, ...] | None
    tenants: tuple[str, ...] | None
    run: str

    @classmethod
    def of(cls, meta: Meta) -> Mark | None:
        """Return the mark of a store; None where it has none.

        Raises:
            StoreError: it cannot be read.
        """
        told = meta.values.get(COPYING)
        if not told:
            return None
        try:
            held = json.loads(told)
            return cls(held["source"], _names(held["chosen"]), _names(held["tenants"]), held["run"])
        except (KeyError, TypeError, ValueError):
            raise StoreError("store: its mark of an unfinished copy is damaged. Copy into another store.") from None

    def set(self, connection: Connection) -> None:
        """Write it."""
        keep(connection, {COPYING: json.dumps(asdict(self), ensure_ascii=False)})

    def covers(self, tenant: str) -> bool:
        """Return whether the memories of a tenant are not whole."""
        return self.tenants is None or tenant in self.tenants

    def command(self, where: str) -> str:
        """Return what brings the copy into the store `where` to its end."""
        options = [part for tenant in self.chosen or () for part in ("--tenant", tenant)]
        return shlex.join(["salience", "copy", self.source, where, *options])


def _names(given: Iterable[str] | None) -> tuple[str, ...] | None:
    return None if given is None else tuple(given)


def new_run() -> str:
    """Return a text that no other process has as its run."""
    return secrets.token_hex(8)


def unset(connection: Connection) -> None:
    """Take the mark away."""
    connection.execute(meta_table.delete().where(meta_table.c.name == COPYING))


def refuse_half(meta: Meta, where: str, tenants: Iterable[str] | None) -> None:
    """Raise unless the memories of some tenants, or of all for None, are whole.

    Raises:
        StoreError: a copy of them into this store was cut off, or is under way.
    """
    if not meta.values.get(COPYING):
        return
    mark = Mark.of(meta)
    if mark is None or not (tenants is None or any(map(mark.covers, tenants))):
        return
    raise StoreError(
        f"store: {where} holds part of a copy of {mark.source}, which is under way or was cut off. "
        f"Run it to its end: {mark.command(where)}"
    )


def refuse_changes(meta: Meta, where: str, changes: Iterable[Change]) -> None:
    """Raise if some changes are about memories that are not whole, as `refuse_half` does.

    A lease is about none; what is about the store as a whole is about all of them.
    """
    if not meta.values.get(COPYING):
        return
    about = {tenant_of(change) for change in changes if not isinstance(change, Lease)}
    refuse_half(meta, where, None if "" in about else about)
