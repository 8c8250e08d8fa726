"""A memory as a row of the tables, and back."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from typing import Any, Final

import numpy as np
from sqlalchemy import RowMapping

from salience.batch import Vectors32
from salience.checks import Frozen, frozen
from salience.errors import StoreError
from salience.ports import Stored
from salience.records import TIERS, Memory, Scope
from salience.store.values import instant, microseconds, own_vector

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
DAMAGED: Final = "store: a memory in it cannot be read, the file is damaged. To see which one: salience doctor"
_UNREADABLE: Final = (ArithmeticError, LookupError, TypeError, ValueError)
"""What is raised where a value is none that was ever written."""


@contextmanager
def readable() -> Iterator[None]:
    """Raise as `StoreError` what goes wrong while rows are read that hold what was never written."""
    try:
        yield
    except _UNREADABLE:
        raise StoreError(DAMAGED) from None  # their own words may quote the row


def of_memory(memory: Memory) -> dict[str, Any]:
    """Return the values of `RECORD` and those derived from them."""
    moments = {name: getattr(memory, name) for name in _INSTANTS}
    return {
        **{name: getattr(memory.scope, name) for name in _COORDINATES},
        **{name: getattr(memory, name) for name in _PLAIN},
        **{name: None if moment is None else microseconds(moment) for name, moment in moments.items()},
        **{name: _json(list(getattr(memory, name))) for name in _LISTS},
        "metadata": _json(dict(memory.metadata)),
        "home": memory.scope.home_key,
    }


def of_stored(stored: Stored, dimension: int) -> dict[str, Any]:
    """Return the values of `STORED` and those derived from the memory.

    Raises:
        InputError: a vector of another length.
    """
    return {
        **of_memory(stored.memory),
        "terms": of_terms(stored.terms),
        "distinctions": of_distinctions(stored.distinctions),
        "vector": of_vector(own_vector(stored.vector, dimension)),
    }


def of_vector(vector: Vectors32 | None) -> bytes | None:
    """Return float32[d] as bytes, little endian."""
    return None if vector is None else vector.astype("<f4").tobytes()


def of_terms(terms: tuple[str, ...]) -> str:
    """Return the terms joined by a space."""
    return " ".join(terms)


def to_terms(joined: str) -> tuple[str, ...]:
    """Return the terms of a row."""
    return _split(joined, " ")


def of_distinctions(distinctions: tuple[str, ...]) -> str:
    """Return the distinctions, a line each; none holds a line end, since they are in normal form."""
    return "\n".join(distinctions)


def to_memory(row: Row) -> Memory:
    """Return the memory whose `RECORD` columns are in `row`.

    Raises:
        StoreError: a value that no memory has; the file is damaged.
    """
    try:
        values: dict[str, Any] = {name: row[name] for name in _PLAIN}
        values |= {name: None if row[name] is None else instant(row[name]) for name in _INSTANTS}
        values |= {name: tuple(json.loads(row[name])) for name in _LISTS}
        scope = Scope(**{name: row[name] for name in _COORDINATES})
        memory = Memory(scope=scope, metadata=frozen(json.loads(row["metadata"])), **values)
    except _UNREADABLE:  # their own words may quote the row
        raise StoreError(DAMAGED) from None
    if memory.tier not in TIERS or not isinstance(memory.content, str):
        raise StoreError(DAMAGED)
    return memory


def to_stored(row: Row, activations: Mapping[str, int]) -> Stored:
    """Return the memory with what is derived from it in `row`, whose columns are those of `STORED`.

    Raises:
        StoreError: a value that no memory has; the file is damaged.
    """
    try:
        vector = None if row["vector"] is None else np.frombuffer(row["vector"], "<f4")
    except _UNREADABLE:
        raise StoreError(DAMAGED) from None
    terms, distinctions = to_terms(row["terms"]), _split(row["distinctions"], "\n")
    return Stored(to_memory(row), vector, terms, Frozen(activations), distinctions)


def _split(joined: str, sign: str) -> tuple[str, ...]:
    return tuple(joined.split(sign)) if joined else ()


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
