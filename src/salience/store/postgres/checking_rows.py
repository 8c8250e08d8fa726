"""Whether each row can be read, and holds what its other columns make; read a page at a time, but for the texts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Connection, RowMapping, Table, bindparam, literal, select, tuple_, update
from sqlalchemy.exc import IntegrityError

from salience.errors import DamagedError
from salience.records import Finding
from salience.records.ids import short_id
from salience.store.postgres.keys import indexed
from salience.store.rows import RECORD, to_memory, to_terms
from salience.store.schema import memories, versions

PAGE: Final = 2_000
"""Rows that are read at a time."""
TABLES: Final = (memories, versions)
_CHECKS: Final = {
    "home": ("names", "its home is not that of its scope."),
    "short_id": ("names", "its short id is not that of its id."),
    "search_keys": ("search keys", "its search keys are not those of its row."),
    "number": ("search keys", "the number by which they name it is not that of its id."),
    "length": ("search keys", "its length in terms is not that of its row."),
}
"""Column -> what is looked at, and what is told where it is not what the other columns make of it."""
_BACKUP: Final = "Bring the database back from a backup of the server."


@dataclass(frozen=True, slots=True)
class Wrong:
    """A row with something wrong.

    Attributes:
        table: its table.
        key: its primary key.
        version: its version.
        right: columns that do not hold what the other columns make -> what they should hold.
        problem: what else is wrong, which nothing here mends; None where nothing is.
    """

    table: Table
    key: tuple[Any, ...]
    version: int
    right: Mapping[str, Any]
    problem: str | None

    def findings(self) -> Iterator[Finding]:
        """Return what is told of it."""
        for column in self.right:
            check, told = _CHECKS[column]
            yield Finding(check, self.key[1], f"version {self.version}: {told}")
        if self.problem is not None:
            yield Finding("rows", self.key[1], f"version {self.version}: {self.problem} {_BACKUP}")


def wrong(connection: Connection, among: Sequence[Wrong] | None = None) -> Iterator[Wrong]:
    """Yield the rows with something wrong, of all tenants that the transaction may see; `among` some, or all."""
    for table in TABLES:
        keys = None if among is None else [row.key for row in among if row.table is table]
        for row in _rows(connection, table, keys):
            found = _looked_at(table, row)
            if found.right or found.problem:
                yield found


def mend(connection: Connection, rows: Iterable[Wrong]) -> None:
    """Write what the other columns make; a home where another memory has the key is left as it is."""
    for row in rows:
        for column, value in row.right.items():
            key = [one == part for one, part in zip(row.table.primary_key, row.key, strict=True)]
            try:
                with connection.begin_nested():
                    connection.execute(update(row.table).where(*key).values({column: value}))
            except IntegrityError:
                continue


def _rows(connection: Connection, table: Table, keys: Sequence[tuple[Any, ...]] | None) -> Iterator[RowMapping]:
    """Yield the rows of a table in the order of its key, or those of some keys, without their texts."""
    names = [name for name in (*RECORD, "home", "terms") if name != "content"]
    names += ["short_id", "search_keys", "number", "length"] if table is memories else []
    asked = select(*(table.c[name] for name in dict.fromkeys(names)), literal("").label("content"))
    key = tuple_(*table.primary_key)
    if keys is not None:
        for start in range(0, len(keys), PAGE):
            yield from connection.execute(asked.where(key.in_(keys[start : start + PAGE]))).mappings()
        return
    order = asked.order_by(*table.primary_key).limit(PAGE)
    page = connection.execute(order).mappings().all()
    while page:
        yield from page
        last = [bindparam(None, page[-1][column.name], column.type) for column in table.primary_key]
        page = connection.execute(order.where(key > tuple_(*last))).mappings().all()


def _looked_at(table: Table, row: RowMapping) -> Wrong:
    key = tuple(row[column.name] for column in table.primary_key)
    try:
        memory = to_memory(row)
    except DamagedError as error:
        return Wrong(table, key, row["version"], {}, f"it cannot be read: its column {error.column!r} is damaged.")
    right: dict[str, Any] = {"home": memory.scope.home_key}
    if table is memories:
        right |= {"short_id": short_id(memory.id), **indexed(memory, to_terms(row["terms"]))}
    differing = {name: value for name, value in right.items() if row[name] != value}
    return Wrong(table, key, memory.version, differing, None)
