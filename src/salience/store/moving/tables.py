"""What is copied: the tables of memories and what belongs to them, their keys, statements, and a checksum of rows."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from operator import itemgetter
from typing import Any, Final

from sqlalchemy import Column, ColumnElement, Delete, Double, Select, Table, bindparam, delete, func, select, tuple_

from salience.records import Copied
from salience.store import schema
from salience.store.rows import readable

Row = tuple[Any, ...]
"""The values of a row, in the order of `Moved.names`."""
Key = tuple[Any, ...]
"""The values of a row's key, without the tenant."""
PAGE: Final = 1_000
"""Rows read or written at a time."""
_ENCODE: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
_NONE: Final = b"\xff" * 8
"""Stands for the length of a vector that is not there."""


@dataclass(frozen=True)
class Moved:
    """A table that is copied, with the columns that both databases have.

    Attributes:
        table: as the schema has it.
        names: of its columns.
        keys: places of the key's columns among them; the tenant, which comes first in it, is left out.
    """

    table: Table
    names: tuple[str, ...] = field(init=False)
    keys: tuple[int, ...] = field(init=False)

    def __post_init__(self) -> None:
        of_both = tuple(column.name for column in self.table.c if column.info != schema.SERVER)
        object.__setattr__(self, "names", of_both)
        own = [column.name for column in self.table.primary_key if column.name != "tenant"]
        object.__setattr__(self, "keys", tuple(map(of_both.index, own)))

    @property
    def name(self) -> str:
        """Name of the table."""
        return self.table.name

    @cached_property
    def columns(self) -> tuple[Column[Any], ...]:
        """The columns of `names`."""
        return tuple(self.table.c[name] for name in self.names)

    @cached_property
    def vector(self) -> int | None:
        """Place of the vector; None where there is none."""
        return self.names.index("vector") if "vector" in self.names else None

    @cached_property
    def sequence(self) -> int | None:
        """Place of the change sequence; None where there is none."""
        return self.names.index("seq") if "seq" in self.names else None

    @cached_property
    def doubles(self) -> tuple[int, ...]:
        """Places of numbers that are not whole."""
        return tuple(place for place, column in enumerate(self.columns) if isinstance(column.type, Double))

    def key(self, row: Row) -> Key:
        """Return the key of a row."""
        return tuple(row[place] for place in self.keys)

    def values(self, rows: Iterable[Row]) -> list[dict[str, Any]]:
        """Return rows as parameters of a statement."""
        return [dict(zip(self.names, row, strict=True)) for row in rows]

    def page(self, tenant: str, after: Key | None, limit: int = PAGE) -> Select[Any]:
        """Return the next rows of a tenant behind a key, in the order of keys."""
        return _behind(select(*self.columns), self._key_columns, tenant, after, limit)

    def counts(self, tenants: Sequence[str] | None) -> Select[Any]:
        """Return how many rows each tenant has; of some tenants, or of all."""
        tenant = self.table.c.tenant
        some = () if tenants is None else (tenant.in_(tenants),)
        return select(tenant, func.count()).where(*some).group_by(tenant)

    def remove(self) -> Delete:
        """Return the statement that deletes the row of a key, whose parameters are those of `of_key`."""
        own = [column == bindparam(f"of_{column.name}") for column in self._key_columns]
        return delete(self.table).where(self.table.c.tenant == bindparam("of_tenant"), *own)

    def of_key(self, row: Row) -> dict[str, Any]:
        """Return the parameters that name a row by its key."""
        names = ("tenant", *(self.names[place] for place in self.keys))
        return {f"of_{name}": row[self.names.index(name)] for name in names}

    @cached_property
    def _key_columns(self) -> tuple[Column[Any], ...]:
        return tuple(self.columns[place] for place in self.keys)


def _behind(asked: Select[Any], key: Sequence[Column[Any]], tenant: str, after: Key | None, limit: int) -> Select[Any]:
    asked = asked.where(key[0].table.c.tenant == tenant).order_by(*key).limit(limit)
    if after is None:
        return asked
    values: list[ColumnElement[Any]] = [
        bindparam(f"after_{column.name}", value, type_=column.type) for column, value in zip(key, after, strict=True)
    ]
    return asked.where(key[0] > values[0] if len(key) == 1 else tuple_(*key) > tuple_(*values))


TABLES: Final = tuple(
    Moved(table)
    for table in (
        schema.memories, schema.versions, schema.touches, schema.laid_by, schema.sessions, schema.activations,
    )
)  # fmt: skip
"""What is copied, those that others refer to first.

Leases, requests and the keys of a server are not: they belong to processes, to clients and to the one server.
"""
MEMORIES: Final = TABLES[0]


def names(tenant: str, after: Key | None) -> Select[Any]:
    """Return the next ids of a tenant's memories behind one, with the home and the idempotency key of each."""
    own = schema.memories.c
    return _behind(select(own.id, own.home, own.key), [own.id], tenant, after, PAGE)


def holds(tenant: str) -> Select[Any]:
    """Return a row if a tenant has memories."""
    return select(schema.memories.c.tenant).where(schema.memories.c.tenant == tenant).limit(1)


class Sum:
    """Rows counted, and put into a checksum that is the same for the same rows in whichever database.

    It is the SHA-256 of the rows in the order of their keys. Each is a JSON list of its values, in the order of
    `Moved.names` and without the vector; a line end; and, in a table that has vectors, the vector's length in bytes as
    eight bytes, little endian (all ones for none), and the vector: float32, little endian.
    """

    def __init__(self, moved: Moved) -> None:
        self._moved = moved
        self._hash = hashlib.sha256()
        self.rows = 0
        self.latest = 0
        """Greatest change sequence of the rows."""

    def take(self, page: Sequence[Row]) -> None:
        """Add the next rows.

        Raises:
            StoreError: a value that no row has.
        """
        with readable():
            self._hash.update(b"".join(_told(self._moved, page)))
        self.rows += len(page)
        if self._moved.sequence is not None and page:
            self.latest = max(self.latest, *map(itemgetter(self._moved.sequence), page))

    def copied(self) -> Copied:
        """Return how many rows there were, and their checksum."""
        return Copied(self.rows, self._hash.hexdigest())


def _told(moved: Moved, page: Sequence[Row]) -> Iterator[bytes]:
    at = moved.vector
    for row in page:
        plain = row if at is None else row[:at] + row[at + 1 :]
        told = _ENCODE(plain)
        if "-0.0" in told:  # zero, which SQLite keeps without a sign
            whole = [0.0 if place in moved.doubles and row[place] == 0 else row[place] for place in range(len(row))]
            told = _ENCODE([value for place, value in enumerate(whole) if place != at])
        yield told.encode()
        yield b"\n"
        if at is not None:
            vector = row[at]
            yield _NONE if vector is None else len(vector).to_bytes(8, "little") + vector
