"""Parse and validate the memory, vector and activations in a line of an export."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, Final

import numpy as np
from pybase64 import b64decode

from salience.batch import Tokens, Vectors32, unpacked
from salience.errors import InputError, Words, wrong_type
from salience.lines import COORDINATES
from salience.records import CHANGES, Draft, Memory, Relation, Scope, checks
from salience.records.ids import ID
from salience.text import content_hash
from salience.transfer.files import INSTANTS

MAX_COUNT: Final = 2**62
UNIT_TOLERANCE: Final = 1e-3
"""Largest allowed difference of a vector's length from 1."""
DRAFT_FIELDS: Final = (
    "content", "kind", "importance", "weight", "tags", "entities", "fact_key", "supersedes", "tier", "key", "speaker",
    "metadata",
)  # fmt: skip
"""Fields that `Draft` validates."""
NAME_FIELDS: Final = ("changed_by", "reason", "reflection")
"""Other fields that are a name or null."""
FIELDS: Final = frozenset(item.name for item in fields(Memory) if item.name != "replaced_by")
REQUIRED: Final = FIELDS - {
    "fact_key", "supersedes", "key", "speaker", "accessed_at", "expires_at", "forgotten_at", "turn", "sources",
    "relations", *NAME_FIELDS,
}  # fmt: skip


def parse_memory(data: object, tenant: str, content_limit: int) -> Memory:
    """Return the memory of a JSON object; `content_limit` is in bytes of UTF-8.

    Raises:
        InputError: names the first invalid field.
    """
    if not isinstance(data, dict):
        raise wrong_type("memory", data, "Give a JSON object.")
    for name in data.keys() - FIELDS:
        checks.choice("memory", name, FIELDS)
    for name in sorted(name for name in REQUIRED if data.get(name) is None):
        raise InputError(f"memory.{name}", None, "Set it; take the line from an export.")
    drafted: dict[str, Any] = {name: data.get(name) for name in DRAFT_FIELDS}
    draft = Draft(**drafted)
    relations = parse_relations(data.get("relations"))
    checks.text("content", draft.content, content_limit)
    values: dict[str, Any] = {name: getattr(draft, name) for name in DRAFT_FIELDS}
    values |= {name: checks.name(name, data[name]) for name in NAME_FIELDS if data.get(name) is not None}
    values |= {name: checks.aware(name, data[name]) for name in INSTANTS if data.get(name) is not None}
    return Memory(
        **{**values, "entities": tuple(draft.entities or ())},
        id=_id(data["id"]),
        scope=_scope(tenant, data["scope"]),
        content_hash=content_hash(draft.content),
        access_count=checks.whole("access_count", data["access_count"], 0, MAX_COUNT),
        version=checks.whole("version", data["version"], 1, MAX_COUNT),
        change=checks.choice("change", data["change"], CHANGES),
        sources=checks.names("sources", data.get("sources") or ()),
        relations=relations,
        turn=None if data.get("turn") is None else checks.whole("turn", data["turn"], 1, MAX_COUNT),
    )


def parse_relations(value: object) -> tuple[Relation, ...] | None:
    """Return relations from JSON values; None for null."""
    if value is None:
        return None
    if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
        raise wrong_type("relations", value, "Give a JSON list of objects.")
    known = {item.name for item in fields(Relation)}
    for name in {name for one in value for name in one}:
        checks.choice("relations", name, sorted(known))
    try:
        return tuple(Relation(**one) for one in value)
    except TypeError:  # a missing field
        raise InputError("relations", Words("an object without all fields"), "Take it from an export.") from None


def _id(value: object) -> str:
    if not isinstance(value, str) or not ID.fullmatch(value):
        raise InputError("id", value, "Give 32 hexadecimal digits, as an export writes them.")
    return value


def _scope(tenant: str, value: object) -> Scope:
    if not isinstance(value, dict):
        raise InputError("memory.scope", value, "Give a JSON object of coordinates.")
    for name in value:
        checks.choice("memory.scope", name, COORDINATES)
    return Scope(tenant, **value).as_home()


def parse_activations(value: object) -> Mapping[str, int]:
    """Return session key -> turn, or raise an `InputError`."""
    if not isinstance(value, dict):
        raise wrong_type("activations", value, "Give a JSON object of session keys and turns.")
    return {
        checks.text("activations", session): checks.whole(f"activations.{session}", turn, 0, MAX_COUNT)
        for session, turn in value.items()
    }


def parse_vector(value: object, dimension: int) -> Vectors32 | None:
    """Return float32[dimension] from base64; None for null.

    Raises:
        InputError: not base64, another number of values, or no unit vector.
    """
    if value is None:
        return None
    try:
        vector = np.frombuffer(b64decode(str(value), validate=True), "<f4").astype(np.float32)
    except ValueError:
        no_base64 = Words("text that is not base64 of float32")
        raise InputError("vector", no_base64, "Take it from an export.", "is no base64") from None
    if vector.shape != (dimension,):
        count = f"{len(vector)} numbers"
        raise InputError("vector", Words(count), f"Give {dimension}, as the embedder does.", f"has {count}")
    length = float(np.linalg.norm(vector.astype(np.float64)))
    if not np.isfinite(vector).all() or (length and abs(length - 1) > UNIT_TOLERANCE):  # zeros: a text of unknown words
        no_unit = Words("numbers that are no unit vector")
        raise InputError("vector", no_unit, "Take it from an export.", "is no unit vector")
    return vector


def parse_tokens(value: object) -> Tokens | None:
    """Return token vectors from base64; None for null.

    Raises:
        InputError: not base64, or not a whole number of token vectors.
    """
    if value is None:
        return None
    try:
        return unpacked(b64decode(str(value), validate=True))
    except (IndexError, ValueError):
        no_tokens = Words("text that is not base64 of token vectors")
        raise InputError("tokens", no_tokens, "Take it from an export.", "is no base64 of token vectors") from None
