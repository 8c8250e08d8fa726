"""The keys that a memory is found by in the index of words: each a number for a tenant and a text of a kind.

The tenant is part of the number, so that the posting lists of tenants lie apart in one index over all of them. Two
texts share a number by a chance of 2^-64; what is found is read from the rows, so that none is taken for another by it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import Any, Final, Literal

from salience.records import Memory
from salience.text import normalise

Kind = Literal["term", "tag", "entity", "kind", "session", "id"]


_JSON: Final = json.JSONEncoder(ensure_ascii=False).encode


def key(tenant: str, kind: Kind, text: str) -> int:
    """Return the key of a text, in [-2^63, 2^63)."""
    told = _JSON([tenant, kind, text]).encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(told, digest_size=8).digest(), "big", signed=True)


def keys(tenant: str, kind: Kind, texts: Iterable[str]) -> list[int]:
    """Return the keys of texts, in order."""
    return [key(tenant, kind, text) for text in texts]


def indexed(memory: Memory, terms: Sequence[str]) -> dict[str, Any]:
    """Return the columns by which PostgreSQL finds a memory: its keys, its number in their lists, and its length."""
    tenant = memory.scope.tenant
    return {"search_keys": search_keys(memory, terms), "number": number(tenant, memory.id), "length": len(terms)}


def number(tenant: str, id: str) -> int:
    """Return the number by which the posting table names a memory, in [-2^63, 2^63)."""
    return key(tenant, "id", id)


def search_keys(memory: Memory, terms: Sequence[str]) -> list[int]:
    """Return the distinct keys of a memory, ascending: of its terms, tags, entities, kind and session."""
    tenant, session = memory.scope.tenant, memory.scope.session_id
    found = {
        *keys(tenant, "term", set(terms)),
        *keys(tenant, "tag", memory.tags),
        *keys(tenant, "entity", map(normalise, memory.entities)),
        key(tenant, "kind", memory.kind),
        *(() if session is None else (key(tenant, "session", session),)),
    }
    return sorted(found)
