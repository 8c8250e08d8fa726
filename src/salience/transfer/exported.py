"""The memory, the vector and the activations that a line of an export holds."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, Final

import numpy as np
from pybase64 import b64decode  # five times as quick as the one of Python

from salience.batch import Vectors32
from salience.errors import InputError, Words, wrong_type
from salience.records import CHANGES, Draft, Memory, checks
from salience.records.ids import ID
from salience.text import content_hash
from salience.transfer.files import INSTANTS
from salience.transfer.paged import MOST, SAID, Known, scope, sure_memories

UNIT_SLACK: Final = 1e-3
"""How far from 1 the length of an imported vector may be."""
SURE: Final = UNIT_SLACK / 2
"""How far from 1 a length may be for no rounding to bring it beyond the slack."""
DRAFTED: Final = (
    "content", "kind", "importance", "weight", "tags", "entities", "fact_key", "supersedes", "tier", "key", "speaker",
    "metadata",
)  # fmt: skip
"""Fields of a memory that are as its draft gave them."""
OPTIONAL: Final = {
    "fact_key", "supersedes", "key", "speaker", "accessed_at", "expires_at", "forgotten_at", "turn", "sources", *SAID,
}  # fmt: skip
"""Fields of a memory that may be null."""
FIELDS: Final = frozenset(item.name for item in fields(Memory))


class Reader:
    """Reads memories of an export: those that are as an export writes them at once, any other check by check.

    Both give the same memory; only the checks say what is wrong with one.

    Args:
        tenant: where the memories are to live.
        content_limit: longest content, bytes in UTF-8.
    """

    def __init__(self, tenant: str, content_limit: int) -> None:
        self._tenant = tenant
        self._limit = content_limit
        self._known = Known(tenant)

    def sure(self, page: Sequence[object]) -> list[Memory | None]:
        """Return the memory that each JSON value is, or None where the checks have to tell."""
        return sure_memories(page, self._known, self._limit)

    def memory(self, data: object) -> Memory:
        """Return the memory that a JSON value is, or raise as `checked` does."""
        (sure,) = self.sure([data])
        return self.checked(data) if sure is None else sure

    def checked(self, data: object) -> Memory:
        """Return the memory that a JSON value is, check by check.

        Raises:
            InputError: the first of its fields that is not as it has to be.
        """
        if not isinstance(data, dict):
            raise wrong_type("memory", data, "Give a JSON object.")
        return checked(data, self._tenant, self._limit)


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
        scope=scope(tenant, data["scope"]),
        content_hash=content_hash(drafted.content),
        access_count=checks.whole("access_count", data["access_count"], 0, MOST),
        version=checks.whole("version", data["version"], 1, MOST),
        change=checks.choice("change", data["change"], CHANGES),
        sources=checks.names("sources", data.get("sources") or ()),
        turn=None if data.get("turn") is None else checks.whole("turn", data["turn"], 1, MOST),
    )


def _id(value: object) -> str:
    if not isinstance(value, str) or not ID.fullmatch(value):
        raise InputError("id", value, "Give 32 hexadecimal digits, as an export writes them.")
    return value


def activations(value: object) -> dict[str, int]:
    """Return the turns by session key of a JSON value, or raise an `InputError`."""
    if not isinstance(value, dict):
        raise wrong_type("activations", value, "Give a JSON object of session keys and turns.")
    if not value:  # as with most
        return {}
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
        raise InputError(
            "vector", Words("text that is not base64 of float32"), "Take it from an export.", "is no base64"
        ) from None
    if found.shape != (dimension,):
        raise InputError(
            "vector",
            Words(f"{len(found)} numbers"),
            f"Give {dimension}, as the embedder does.",
            f"has {len(found)} numbers",
        )
    if not np.isfinite(found).all() or abs(float(np.linalg.norm(found)) - 1) > UNIT_SLACK:
        raise InputError(
            "vector", Words("numbers that are no unit vector"), "Take it from an export.", "is no unit vector"
        )
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
        found = b64decode(value, validate=True)
    except ValueError:
        return None
    return found if len(found) == length else None
