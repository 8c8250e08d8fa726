"""Memories of an export, read by column: what holds of a whole page is asked once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from itertools import chain
from operator import itemgetter
from types import NoneType
from typing import Any, Final

from salience.errors import InputError
from salience.lines import COORDINATES
from salience.records import CHANGES, TIERS, Memory, Scope, checks, memory_maker
from salience.records.ids import ID
from salience.text import content_hash
from salience.transfer.files import INSTANTS

MOST: Final = 2**62
"""Highest count."""
KNOWN: Final = 10_000
"""Most names, and most scopes, that are kept."""
SAID: Final = ("changed_by", "reason", "follows", "reflection")
"""Fields of a memory that are names or null, and that no draft has."""
LISTS: Final = ("tags", "entities", "sources")
"""Fields of a memory that are lists of names."""
_NAMED: Final = ("fact_key", "supersedes", "key", "speaker", *SAID)
_ORDER: Final = tuple(item.name for item in fields(Memory))
_ARE_FIELDS: Final = frozenset(_ORDER).issuperset
_DICT: Final = frozenset({dict})
_made: Final = memory_maker(_ORDER)
_NEEDED: Final = ("content_hash", "created_at", "updated_at", "tier_since", "changed_at")
_TYPES: Final[Mapping[str, frozenset[type]]] = {
    "id": frozenset({str}),
    "content": frozenset({str}),
    "scope": frozenset({dict}),
    "metadata": frozenset({dict}),
    "importance": frozenset({float}),
    "weight": frozenset({float}),
    "version": frozenset({int}),
    "access_count": frozenset({int}),
    "turn": frozenset({int, NoneType}),
    "tags": frozenset({list}),
    "entities": frozenset({list}),
    "sources": frozenset({list, NoneType}),
}
"""What the values of a field are in an export; a number of another type may be one all the same, after a look."""
_CHOICES: Final = {"tier": frozenset(TIERS), "change": frozenset(CHANGES)}
_RANGES: Final = {
    "importance": (0.0, 1.0), "weight": (0.1, 1.0), "version": (1, MOST), "access_count": (0, MOST), "turn": (1, MOST),
}  # fmt: skip
Columns = dict[str, Sequence[Any]]


class Known:
    """Names and scopes, which memories share: each is checked once.

    Args:
        tenant: of the scopes.
    """

    def __init__(self, tenant: str) -> None:
        self._tenant = tenant
        self._names: set[str] = set()
        self._scopes: dict[tuple[tuple[str, Any], ...], Scope] = {}

    def check(self, names: set[Any]) -> None:
        """Raise an `InputError` if anything that has to be a name is none."""
        if self._names >= names:
            return
        if len(self._names) >= KNOWN:
            self._names.clear()
        self._names.update(checks.name("name", name) for name in names)

    def scope(self, value: Mapping[str, Any]) -> Scope:
        """Return the scope of a JSON object, or raise an `InputError`."""
        key = tuple(value.items())
        known = self._scopes.get(key)
        if known is None:
            if len(self._scopes) >= KNOWN:
                self._scopes.clear()
            known = self._scopes[key] = scope(self._tenant, value)
        return known


def scope(tenant: str, value: object) -> Scope:
    """Return the scope of a JSON value, or raise an `InputError`."""
    if not isinstance(value, dict):
        raise InputError("memory.scope", value, "Give a JSON object of coordinates.")
    for name in value:
        checks.choice("memory.scope", name, COORDINATES)
    return Scope(tenant, **value).as_home()


def sure_memories(page: Sequence[object], known: Known, limit: int) -> list[Memory | None]:
    """Return for each JSON value what `exported.checked` would, or None where there is any doubt of it.

    A page with a doubt is read in halves, so that what is beyond doubt is read at once still.

    Args:
        page: of any length.
        known: names and scopes of earlier pages; grown.
        limit: longest content, bytes in UTF-8.
    """
    try:
        if page and _DICT.issuperset(map(type, page)):
            return [*_memories(page, known, limit)]
    except (_Doubt, InputError, TypeError):  # something that no export has, which the checks tell by its field
        pass
    if len(page) < 2:
        return [None] * len(page)
    half = len(page) // 2
    return sure_memories(page[:half], known, limit) + sure_memories(page[half:], known, limit)


class _Doubt(Exception):  # noqa: N818 - nothing is wrong yet
    """A column is not all as an export writes it."""


def _memories(page: Sequence[Any], known: Known, limit: int) -> list[Memory]:
    """Return the memories of JSON objects, or raise."""
    columns = _columns(page)
    _check(columns)
    known.check(_names(columns))
    columns |= _moments(columns)
    columns |= {name: _lists(columns[name]) for name in LISTS}
    columns["scope"] = [*map(known.scope, columns["scope"])]
    columns["content_hash"] = [content_hash(checks.text("content", text, limit)) for text in columns["content"]]
    if any(map(_may_be_too_much, chain(columns["tags"], columns["entities"]))):
        raise _Doubt
    columns["metadata"] = [checks.metadata("metadata", value) for value in columns["metadata"]]
    return [*map(_made, zip(*map(columns.__getitem__, _ORDER), strict=True))]


def _may_be_too_much(names: Sequence[str]) -> bool:
    """Return whether names may be over a limit of `checks.labels`: no character takes more than four bytes."""
    return len(names) > checks.LABELS_LIMIT or 4 * sum(map(len, names)) > checks.LABELS_SIZE


def _columns(page: Sequence[dict[str, Any]]) -> Columns:
    """Return the values of each field, null where an object leaves it out; raise `_Doubt` for a key that is no field.

    Most often all objects have the same keys, in the same order, and are taken apart at once.
    """
    shapes = set(map(tuple, page))
    if not all(map(_ARE_FIELDS, shapes)):
        raise _Doubt
    names: Sequence[str] = next(iter(shapes))
    if len(shapes) == 1 and len(names) > 1:
        rows: Iterable[tuple[Any, ...]] = map(itemgetter(*names), page)
    else:
        names, rows = _ORDER, (tuple(map(data.get, _ORDER)) for data in page)
    nothing: Columns = dict.fromkeys(_ORDER, (None,) * len(page))
    return nothing | dict(zip(names, zip(*rows, strict=True), strict=True))


def _check(columns: Columns) -> None:
    """Raise `_Doubt` unless the values are of the types and in the ranges of an export."""
    is_sure = (
        all(types.issuperset(map(type, columns[name])) for name, types in _TYPES.items())
        and all(choices.issuperset(columns[name]) for name, choices in _CHOICES.items())
        and all(_is_within(columns[name], *ends) for name, ends in _RANGES.items())
        and all(map(ID.fullmatch, columns["id"]))
        and not any(None in columns[name] for name in _NEEDED)
    )
    if not is_sure:
        raise _Doubt


def _is_within(values: Sequence[float | None], low: float, high: float) -> bool:
    """Return whether all that are no null are in a range; NaN is in none."""
    return all(value is None or low <= value <= high for value in set(values))


def _names(columns: Columns) -> set[Any]:
    """Return what has to be a name."""
    found = set().union(*(columns[name] for name in _NAMED))
    found.discard(None)
    return found.union(columns["kind"], *(chain.from_iterable(filter(None, columns[name])) for name in LISTS))


def _moments(columns: Columns) -> Columns:
    """Return the columns of instants; most memories have one several times over."""
    written = set().union(*(columns[name] for name in INSTANTS))
    moments = {value: None if value is None else checks.instant("instant", value) for value in written}
    return {name: [*map(moments.__getitem__, columns[name])] for name in INSTANTS}


def _lists(values: Iterable[list[str] | None]) -> Sequence[tuple[str, ...]]:
    """Return lists of names without repetitions."""
    return [tuple(dict.fromkeys(value)) if value else () for value in values]
