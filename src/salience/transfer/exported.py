"""The memory, the vector and the activations that a line of an export holds."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping, Sequence
from dataclasses import fields
from functools import lru_cache
from itertools import chain
from operator import itemgetter
from typing import Any, Final

import numpy as np

from salience import checks
from salience.batch import Vectors32
from salience.errors import InputError, Words
from salience.lines import COORDINATES
from salience.records import CHANGES, TIERS, Draft, Memory, Scope, memory_of
from salience.text import content_hash
from salience.transfer.files import INSTANTS

ID: Final = re.compile("[0-9a-f]{32}")
UNIT_SLACK: Final = 1e-3
"""How far from 1 the length of an imported vector may be."""
SURE: Final = UNIT_SLACK / 2
"""How far from 1 a length may be for no rounding to bring it beyond the slack."""
MOST: Final = 2**62
"""Highest count."""
KNOWN: Final = 10_000
"""Most names, and most scopes, that a reader keeps."""
DRAFTED: Final = (
    "content", "kind", "importance", "weight", "tags", "entities", "fact_key", "supersedes", "tier", "key", "speaker",
    "metadata",
)  # fmt: skip
"""Fields of a memory that are as its draft gave them."""
SAID: Final = ("changed_by", "reason", "follows", "reflection")
"""Fields of a memory that are names or null, and that no draft has."""
OPTIONAL: Final = {
    "fact_key", "supersedes", "key", "speaker", "accessed_at", "expires_at", "forgotten_at", "turn", "sources", *SAID,
}  # fmt: skip
"""Fields of a memory that may be null."""
LISTS: Final = ("tags", "entities", "sources")
"""Fields of a memory that are lists of names."""
FIELDS: Final = frozenset(item.name for item in fields(Memory))
_named: Final = itemgetter("fact_key", "supersedes", "key", "speaker", *SAID)
_plain: Final = itemgetter("id", "tier", "change", "scope", "importance", "weight", "version", "access_count", "turn")
_lists: Final = itemgetter(*LISTS)
_needed: Final = itemgetter("content_hash", "created_at", "updated_at", "tier_since", "changed_at")
_instant: Final = lru_cache(maxsize=1024)(lambda value: checks.instant("instant", value))


class Reader:
    """Reads memories of an export: one that is as an export writes it at once, any other check by check.

    Both give the same memory; only the checks say what is wrong with one. Names and scopes, which memories share, are
    checked once.

    Args:
        tenant: where the memories are to live.
        content_limit: longest content, bytes in UTF-8.
    """

    def __init__(self, tenant: str, content_limit: int) -> None:
        self._tenant = tenant
        self._limit = content_limit
        self._names: set[str] = set()
        self._scopes: dict[tuple[tuple[str, Any], ...], Scope] = {}

    def memory(self, data: object) -> Memory:
        """Return the memory that a JSON value is.

        Raises:
            InputError: the first of its fields that is not as it has to be.
        """
        if not isinstance(data, dict):
            raise InputError("memory", Words(type(data).__name__), "Give a JSON object.")
        try:
            if (whole := _whole(data)) is not None and _has_plain_values(whole):
                return self._at_once(whole)
        except (InputError, TypeError):  # something that no export has, which the checks tell by its field
            pass
        return checked(data, self._tenant, self._limit)

    def _at_once(self, whole: dict[str, Any]) -> Memory:
        """Return the memory of an object with every field, of which `_has_plain_values` holds; it is used up."""
        self._check_names(whole)
        for name in INSTANTS:
            if whole[name] is not None:
                whole[name] = _instant(whole[name])
        for name in LISTS:
            whole[name] = tuple(dict.fromkeys(whole[name])) if whole[name] else ()
        whole["scope"] = self._scope(whole["scope"])
        whole["content_hash"] = content_hash(checks.text("content", whole["content"], self._limit))
        whole["metadata"] = checks.metadata("metadata", whole["metadata"])
        return memory_of(whole)

    def _check_names(self, data: Mapping[str, Any]) -> None:
        """Raise an `InputError` if anything that has to be a name is none."""
        names = [data["kind"], *chain.from_iterable(_lists(data))]
        names += [name for name in _named(data) if name is not None]
        if self._names.issuperset(names):
            return
        if len(self._names) >= KNOWN:
            self._names.clear()
        self._names.update(checks.name("name", name) for name in names)

    def _scope(self, value: Mapping[str, Any]) -> Scope:
        key = tuple(value.items())
        if key not in self._scopes:
            if len(self._scopes) >= KNOWN:
                self._scopes.clear()
            self._scopes[key] = _scope(self._tenant, value)
        return self._scopes[key]


def _whole(data: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return a copy of an object with every field; None where it has others, or leaves out one that needs a value."""
    if not data.keys() <= FIELDS:
        return None
    lacking = _lacking(tuple(data))
    return None if lacking is None else {**lacking, **data}


@lru_cache(maxsize=64)
def _lacking(names: tuple[str, ...]) -> Mapping[str, Any] | None:
    """Return the fields that are not among some names, without a value; None where one of them has to have one."""
    lacking = FIELDS.difference(names)
    return {name: [] if name == "sources" else None for name in lacking} if lacking <= OPTIONAL else None


def _has_plain_values(data: Mapping[str, Any]) -> bool:
    """Whether what is no name, text or JSON of its own is of the types and in the ranges of an export."""
    own, tier, change, scope, importance, weight, version, access_count, turn = _plain(data)
    return (
        type(own) is str
        and ID.fullmatch(own) is not None
        and tier in TIERS
        and change in CHANGES
        and type(scope) is dict
        and type(importance) is float
        and 0.0 <= importance <= 1.0
        and type(weight) is float
        and 0.1 <= weight <= 1.0
        and _is_count(version, 1)
        and _is_count(access_count, 0)
        and (turn is None or _is_count(turn, 1))
        and all(type(value) is list for value in _lists(data))
        and None not in _needed(data)
    )


def _is_count(value: object, least: int) -> bool:
    return type(value) is int and least <= value <= MOST


def checked(data: Mapping[str, Any], tenant: str, content_limit: int) -> Memory:
    """Return the memory of a JSON object, check by check.

    Raises:
        InputError: the first of its fields that is not as it has to be.
    """
    for name in data:
        checks.choice("memory", name, FIELDS)
    for name in sorted(FIELDS - {name for name in data if data[name] is not None} - OPTIONAL):
        raise InputError(f"memory.{name}", None, "Set it; take the line from an export.")
    given: dict[str, Any] = {name: data.get(name) for name in DRAFTED}
    drafted = Draft(**given)
    checks.text("content", drafted.content, content_limit)
    same_fields: dict[str, Any] = {name: getattr(drafted, name) for name in DRAFTED}
    same_fields |= {name: checks.name(name, data[name]) for name in SAID if data.get(name) is not None}
    instants: dict[str, Any] = {
        name: checks.instant(name, data[name]) for name in INSTANTS if data.get(name) is not None
    }
    return Memory(
        **{**same_fields, **instants, "entities": tuple(drafted.entities or ())},
        id=_id(data["id"]),
        scope=_scope(tenant, data["scope"]),
        content_hash=content_hash(drafted.content),
        access_count=checks.whole("access_count", data["access_count"], 0, MOST),
        version=checks.whole("version", data["version"], 1, MOST),
        change=checks.choice("change", data["change"], CHANGES),
        sources=checks.names("sources", data.get("sources") or ()),
        turn=None if data.get("turn") is None else checks.whole("turn", data["turn"], 1, MOST),
    )


def _scope(tenant: str, value: object) -> Scope:
    if not isinstance(value, dict):
        raise InputError("memory.scope", value, "Give a JSON object of coordinates.")
    for name in value:
        checks.choice("memory.scope", name, COORDINATES)
    return Scope(tenant, **value).as_home()


def _id(value: object) -> str:
    if not isinstance(value, str) or not ID.fullmatch(value):
        raise InputError("id", value, "Give 32 hexadecimal digits, as an export writes them.")
    return value


def activations(value: object) -> dict[str, int]:
    """Return the turns by session key of a JSON value, or raise an `InputError`."""
    if not isinstance(value, dict):
        raise InputError("activations", Words(type(value).__name__), "Give a JSON object of session keys and turns.")
    return {
        checks.text("activations", session): checks.whole(f"activations.{session}", turn, 0, MOST)
        for session, turn in value.items()
    }


def vector(value: object, dimension: int) -> Vectors32 | None:
    """Return the vector of a JSON value, None of null, or raise an `InputError`."""
    if value is None:
        return None
    try:
        found = np.frombuffer(base64.b64decode(str(value), validate=True), "<f4").astype(np.float32)
    except ValueError:
        raise InputError("vector", Words("text that is not base64 of float32"), "Take it from an export.") from None
    if found.shape != (dimension,):
        raise InputError("vector", Words(f"{len(found)} numbers"), f"Give {dimension} numbers, as the embedder does.")
    if not np.isfinite(found).all() or abs(float(np.linalg.norm(found)) - 1) > UNIT_SLACK:
        raise InputError("vector", Words("numbers that are no unit vector"), "Take it from an export.")
    return found


def sure_vectors(values: Sequence[object], dimension: int) -> list[Vectors32 | None]:
    """Return for each JSON value what `vector` would, or None where there is none or any doubt of it."""
    written = [_bytes(value, dimension * 4) for value in values]
    whole = b"".join(item for item in written if item is not None)
    rows = np.frombuffer(whole, "<f4").astype(np.float32).reshape(-1, dimension)
    lengths = np.sqrt(np.einsum("nd,nd->n", rows, rows, dtype=np.float64))
    sure = zip(rows, (np.abs(lengths - 1) <= SURE).tolist(), strict=True)
    read = iter([row if is_unit else None for row, is_unit in sure])
    return [None if item is None else next(read) for item in written]


def _bytes(value: object, length: int) -> bytes | None:
    """Return what a JSON value holds in base64 if it is of this length."""
    if type(value) is not str:
        return None
    try:
        found = binascii.a2b_base64(value, strict_mode=True)
    except ValueError:
        return None
    return found if len(found) == length else None
