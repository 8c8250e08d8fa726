"""A memory as a row of the tables, and back."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from functools import lru_cache
from itertools import accumulate, pairwise
from operator import itemgetter
from typing import Any, Final

import numpy as np
from sqlalchemy import RowMapping

from salience.batch import Vectors32
from salience.errors import DamagedError
from salience.ports import Stored
from salience.records import TIERS, Memory, Scope
from salience.records.checks import Frozen, frozen
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
HELD: Final = (*RECORD, "home", "terms", "distinctions", "vector")
"""The same with what is derived from the memory, in the order of `held`."""
_ENDS: Final = accumulate(map(len, (_COORDINATES, _PLAIN, _INSTANTS, _LISTS)), initial=0)
_HOME, _AS_IS, _MOMENTS, _NAMES = (slice(*ends) for ends in pairwise(_ENDS))
"""Where the coordinates of a `RECORD` stand, its plain values, instants and lists."""
_FIELDS: Final = ("scope", *_PLAIN, *_INSTANTS, *_LISTS, "metadata")
"""What these make of a `Memory`."""
_decoded: Final = json.JSONDecoder().raw_decode
_moment: Final = lru_cache(maxsize=1024)(instant)
_count: Final = lru_cache(maxsize=1024)(microseconds)
"""Most memories have one instant several times over."""
_RECORD_OF: Final = itemgetter(*RECORD)
_NOTHING: Final = Frozen()
_FLOAT32: Final = np.dtype("<f4")
EARLIEST, LATEST = -62_135_596_800_000_000, 253_402_300_799_999_999
"""The first and the last microsecond of the years 1 to 9999."""
DAMAGED: Final = "store: a memory in it cannot be read, the file is damaged. To see which one: salience doctor"
_UNREADABLE: Final = (ArithmeticError, LookupError, RecursionError, TypeError, ValueError)
"""What is raised where a value is none that was ever written."""


@contextmanager
def readable() -> Iterator[None]:
    """Raise as `StoreError` what goes wrong while rows are read that hold what was never written."""
    try:
        yield
    except _UNREADABLE:
        raise DamagedError(DAMAGED) from None  # their own words may quote the row


def of_memory(memory: Memory) -> dict[str, Any]:
    """Return the values of `RECORD` and those derived from them."""
    return dict(zip(HELD, _record(memory), strict=False))


def of_stored(stored: Stored, dimension: int) -> dict[str, Any]:
    """Return the values of `STORED` and those derived from the memory.

    Raises:
        InputError: a vector of another length.
    """
    return dict(zip(HELD, held(stored, dimension), strict=True))


def held(
    stored: Stored, dimension: int, derived: tuple[tuple[str, ...], tuple[str, ...]] | None = None
) -> tuple[Any, ...]:
    """Return the values of `HELD`, or raise as `of_stored` does; a bulk of memories spends its time here.

    Args:
        stored: the memory.
        dimension: length of a vector.
        derived: its terms and distinctions, where they were asked for already.
    """
    vector = None if stored.vector is None else of_vector(fitting(stored.vector, dimension))
    terms, distinctions = derived or (stored.terms, stored.distinctions)
    return (*_record(stored.memory), of_terms(terms), of_distinctions(distinctions), vector)


def _record(memory: Memory) -> tuple[Any, ...]:
    """Return the values of `RECORD`, and the home; each is named, which takes a fifth of the time of a loop."""
    home = memory.scope
    return (
        home.tenant, home.environment, home.project, home.user_id, home.agent_id, home.session_id,
        memory.id, memory.content, memory.content_hash, memory.kind, memory.importance, memory.weight, memory.tier,
        memory.fact_key, memory.supersedes, memory.key, memory.speaker, memory.access_count, memory.version,
        memory.change, memory.turn, memory.changed_by, memory.reason, memory.follows, memory.reflection,
        _count(memory.created_at), _count(memory.updated_at), _count(memory.tier_since), _count(memory.changed_at),
        None if memory.accessed_at is None else _count(memory.accessed_at),
        None if memory.expires_at is None else _count(memory.expires_at),
        None if memory.forgotten_at is None else _count(memory.forgotten_at),
        _names(memory.tags), _names(memory.entities), _names(memory.sources),
        _json(dict(memory.metadata)) if memory.metadata else "{}",
        home.home_key,
    )  # fmt: skip


def of_vector(vector: Vectors32 | None) -> bytes | None:
    """Return float32[d] as bytes, little endian."""
    return None if vector is None else vector.astype(_FLOAT32, copy=False).tobytes()


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
    """Return the memory whose `RECORD` columns are in `row`, or raise as `of_record` does."""
    return of_record(_RECORD_OF(row))


def of_record(values: Sequence[Any]) -> Memory:
    """Return the memory whose `RECORD` columns these are, in that order.

    Raises:
        DamagedError: a value that no memory has; names the row and the column.
    """
    types = tuple(map(type, values))
    texts = "".join([value for value in values if type(value) is str])
    if types not in _SOUND or not (texts.isascii() or _is_utf8(texts)):
        if (column := fault(values)) is not None:
            raise damaged(values, column)
        _SOUND.add(types)
    try:
        parsed = (
            _home(*values[_HOME]),
            *values[_AS_IS],
            *[None if moment is None else _moment(moment) for moment in values[_MOMENTS]],
            *[() if items == "[]" else _listed(items) for items in values[_NAMES]],
            _NOTHING if values[-1] == "{}" else frozen({**_read(values[-1])}),
        )
        memory = Memory(**dict(zip(_FIELDS, parsed, strict=True)))
    except _UNREADABLE:  # their own words may quote the row
        raise damaged(values, fault(values) or "metadata") from None
    if not (memory.tier in TIERS and 0 <= memory.importance <= 1 and 0 <= memory.weight <= 1):
        raise damaged(values, fault(values) or "tier")
    return memory


def damaged(values: Sequence[Any], column: str) -> DamagedError:
    """Return the error for a row of `RECORD` with a value in a column that no memory has; it shows no other value."""
    named = dict(zip(RECORD, values, strict=False))
    found, version = named["id"] if is_text(named["id"]) else None, named["version"]
    which = "of an id that cannot be read" if found is None else repr(found)
    at = f" (version {version})" if isinstance(version, int) else ""
    message = f"store: memory {which}{at} cannot be read: its column {column!r} is damaged. Run: salience doctor"
    return DamagedError(message, found, column)


def fault(values: Sequence[Any]) -> str | None:
    """Return the first column of a row of `RECORD` that holds a value that no memory has; None where all are sound."""
    pairs = zip(RECORD, values, strict=False)
    return next((name for name, value in pairs if not _CHECKS[name](value)), None)


def is_text(value: object) -> bool:
    """Return whether a value is text that came from UTF-8."""
    return isinstance(value, str) and (value.isascii() or _is_utf8(value))


def _is_utf8(text: str) -> bool:
    """Return whether a text came from UTF-8; other bytes come as lone surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_list(value: object) -> bool:
    try:
        return is_text(value) and isinstance(_listed(str(value)), tuple)
    except ValueError:
        return False


def _is_object(value: object) -> bool:
    try:
        return is_text(value) and isinstance(_read(str(value)), dict)
    except ValueError:
        return False


_CHECKS: Final[Mapping[str, Callable[[Any], bool]]] = {
    **dict.fromkeys((*_COORDINATES, *_PLAIN), lambda value: value is None or is_text(value)),
    **dict.fromkeys(("tenant", "environment", "id", "content", "content_hash", "kind", "change"), is_text),
    "tier": lambda value: value in TIERS,
    **dict.fromkeys(("importance", "weight"), lambda value: isinstance(value, (int, float)) and 0 <= value <= 1),
    **dict.fromkeys(("access_count", "version"), lambda value: isinstance(value, int)),
    "turn": lambda value: value is None or isinstance(value, int),
    **dict.fromkeys(_INSTANTS, lambda value: value is None or (isinstance(value, int) and EARLIEST <= value <= LATEST)),
    **dict.fromkeys(
        ("created_at", "updated_at", "tier_since", "changed_at"),
        lambda value: isinstance(value, int) and EARLIEST <= value <= LATEST,
    ),
    **dict.fromkeys(_LISTS, _is_list),
    "metadata": _is_object,
}
"""Column -> whether a memory can have a value there."""
_SOUND: Final = set[tuple[type, ...]]()
"""Types of the columns of rows that were found to be sound."""


@lru_cache(maxsize=1024)
def _home(*coordinates: str | None) -> Scope:
    """Return the scope of these coordinates, which many memories share."""
    return Scope(*coordinates)  # type: ignore[arg-type]


def _listed(text: str) -> tuple[str, ...]:
    """Return the texts of a list in JSON."""
    items = _read(text)
    if type(items) is not list or not all(isinstance(item, str) for item in items):
        raise ValueError
    return tuple(items)


def _read(text: str) -> Any:
    """Return what a text in JSON says; there is nothing around it in what was written."""
    try:
        value, end = _decoded(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if end != len(text):
        raise ValueError(end)
    return value


def to_stored(row: Row, activations: Mapping[str, int]) -> Stored:
    """Return the memory with what is derived from it in `row`, whose columns are those of `STORED`.

    Raises:
        DamagedError: a value that no memory has; names the row and the column.
    """
    memory = to_memory(row)
    for column in ("terms", "distinctions"):
        if not isinstance(row[column], str):
            raise damaged(_RECORD_OF(row), column)
    try:
        vector = None if row["vector"] is None else np.frombuffer(row["vector"], "<f4")
    except _UNREADABLE:
        raise damaged(_RECORD_OF(row), "vector") from None
    terms, distinctions = to_terms(row["terms"]), _split(row["distinctions"], "\n")
    return Stored(memory, vector, terms, Frozen(activations), distinctions)


def _split(joined: str, sign: str) -> tuple[str, ...]:
    return tuple(joined.split(sign)) if joined else ()


_json: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


@lru_cache(maxsize=1024)
def _names(names: tuple[str, ...]) -> str:
    """Return names in JSON; memories share most of them."""
    return _json([*names])
