"""A memory as a row of the tables, and back."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from datetime import datetime
from functools import lru_cache
from typing import Any, Final

import numpy as np
from sqlalchemy import RowMapping

from salience.batch import Vectors32
from salience.errors import DamagedError
from salience.ports import Stored
from salience.records import TIERS, Memory, Scope
from salience.records.checks import Frozen, frozen
from salience.store.schema import memories
from salience.store.values import fitting, instant, microseconds

Row = RowMapping | Mapping[str, Any]
_COORDINATES: Final = tuple(item.name for item in fields(Scope))
_INSTANTS: Final = (
    "created_at", "updated_at", "tier_since", "changed_at", "accessed_at", "expires_at", "forgotten_at",
)  # fmt: skip
_LISTS: Final = ("tags", "entities", "sources")
_PLAIN: Final = tuple(
    item.name for item in fields(Memory) if item.name not in ("scope", "metadata", *_INSTANTS, *_LISTS)
)
RECORD: Final = (*_COORDINATES, *_PLAIN, *_INSTANTS, *_LISTS, "metadata")
"""Columns that make up a `Memory`."""
STORED: Final = (*RECORD, "terms", "distinctions", "vector")
"""Columns that make up a `Stored`, but for its activations."""
_REQUIRED: Final = frozenset(column.name for column in memories.c if not column.nullable)
EARLIEST, LATEST = -62_135_596_800_000_000, 253_402_300_799_999_999
"""The first and the last microsecond of the years 1 to 9999."""
_UNREADABLE: Final = (ArithmeticError, LookupError, RecursionError, TypeError, ValueError)
"""Errors of reading a value that no code has written."""
_json: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
_scope: Final = lru_cache(maxsize=1024)(Scope)  # many memories share one


@contextmanager
def readable() -> Iterator[None]:
    """Raise errors of reading damaged rows as `DamagedError`."""
    try:
        yield
    except _UNREADABLE:  # the error may quote the row
        message = "store: a memory in it cannot be read, the file is damaged. To see which one: salience doctor"
        raise DamagedError(message) from None


def of_memory(memory: Memory) -> dict[str, Any]:
    """Return the values of `RECORD`, and the home."""
    row = {name: getattr(memory.scope, name) for name in _COORDINATES}
    row |= {name: getattr(memory, name) for name in _PLAIN}
    for name in _INSTANTS:
        moment = getattr(memory, name)
        row[name] = None if moment is None else microseconds(moment)
    row |= {name: _json(list(getattr(memory, name))) for name in _LISTS}
    return row | {"metadata": _json(dict(memory.metadata)), "home": memory.scope.home_key}


def of_stored(stored: Stored, dimension: int) -> dict[str, Any]:
    """Return the values of `STORED`, and the home.

    Raises:
        InputError: a vector of another length.
    """
    vector = None if stored.vector is None else of_vector(fitting(stored.vector, dimension))
    terms, distinctions = " ".join(stored.terms), "\n".join(stored.distinctions)
    return of_memory(stored.memory) | {"terms": terms, "distinctions": distinctions, "vector": vector}


def of_vector(vector: Vectors32 | None) -> bytes | None:
    """Return float32[d] as bytes, little endian."""
    return None if vector is None else vector.astype("<f4", copy=False).tobytes()


def to_terms(joined: str) -> tuple[str, ...]:
    """Return the terms of a row."""
    return tuple(joined.split(" ")) if joined else ()


def to_memory(row: Row) -> Memory:
    """Return the memory whose `RECORD` columns are in `row`.

    Raises:
        DamagedError: a value that no memory has; names the row and the column.
    """
    values: dict[str, Any] = {}
    for name, parse in _PARSERS.items():
        value = row[name]
        if value is None and name not in _REQUIRED:
            values[name] = None
            continue
        try:
            values[name] = parse(value)
        except _UNREADABLE:  # the error may quote the row
            raise damaged(row, name) from None
    try:
        return Memory(scope=_scope(*(values.pop(name) for name in _COORDINATES)), **values)
    except _UNREADABLE:
        raise damaged(row, "tenant") from None


def to_stored(row: Row, activations: Mapping[str, int]) -> Stored:
    """Return the memory with its derived data in `row`, whose columns are those of `STORED`.

    Raises:
        DamagedError: a value that no memory has; names the row and the column.
    """
    memory = to_memory(row)
    for column in ("terms", "distinctions"):
        if not isinstance(row[column], str):
            raise damaged(row, column)
    try:
        vector = None if row["vector"] is None else np.frombuffer(row["vector"], "<f4")
    except _UNREADABLE:
        raise damaged(row, "vector") from None
    distinctions = tuple(row["distinctions"].split("\n")) if row["distinctions"] else ()
    return Stored(memory, vector, to_terms(row["terms"]), Frozen(activations), distinctions)


def damaged(row: Row, column: str) -> DamagedError:
    """Return the error for a row with a damaged column; it shows no value but the id and the version."""
    found, version = row["id"] if is_text(row["id"]) else None, row["version"]
    which = "of an id that cannot be read" if found is None else repr(found)
    at = f" (version {version})" if isinstance(version, int) else ""
    message = f"store: memory {which}{at} cannot be read: its column {column!r} is damaged. Run: salience doctor"
    return DamagedError(message, found, column)


def is_text(value: object) -> bool:
    """Return whether a value is text that came from UTF-8; other bytes come as lone surrogates."""
    try:
        _text(value)
    except ValueError:
        return False
    return True


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError("no text")
    if not value.isascii():
        value.encode()
    return value


def _tier(value: Any) -> str:
    if value not in TIERS:
        raise ValueError("no tier")
    return str(value)


def _share(value: Any) -> float:
    if not isinstance(value, (int, float)) or not 0 <= value <= 1:
        raise ValueError("no share")
    return value


def _whole(value: Any) -> int:
    if not isinstance(value, int):
        raise ValueError("no whole number")
    return value


def _instant(value: Any) -> datetime:
    if not EARLIEST <= _whole(value) <= LATEST:
        raise ValueError("no instant")
    return instant(value)


def _list(value: Any) -> tuple[str, ...]:
    if value == "[]":
        return ()
    items = json.loads(_text(value))
    if type(items) is not list or not all(isinstance(item, str) for item in items):
        raise ValueError("no list of texts")
    return tuple(items)


def _object(value: Any) -> Any:
    return frozen({**json.loads(_text(value))})


_PARSERS: Final[Mapping[str, Callable[[Any], Any]]] = {
    **dict.fromkeys((*_COORDINATES, *_PLAIN), _text),
    "tier": _tier,
    **dict.fromkeys(("importance", "weight"), _share),
    **dict.fromkeys(("access_count", "version", "turn"), _whole),
    **dict.fromkeys(_INSTANTS, _instant),
    **dict.fromkeys(_LISTS, _list),
    "metadata": _object,
}
"""Column of `RECORD` -> function that checks and converts its value."""
