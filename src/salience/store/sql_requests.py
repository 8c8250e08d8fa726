"""Statements about requests under idempotency keys, built here and run elsewhere. No I/O."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from sqlalchemy import ColumnElement, Delete, Select, TextClause, delete, exists, func, select, text

from salience.ports import Answered
from salience.records import Scope
from salience.store.schema import memories, requests
from salience.store.values import instant, microseconds


@cache
def note() -> TextClause:
    """Return the statement that notes the answer of `of`, and returns its key, unless the key has one."""
    return text(
        "INSERT INTO requests (tenant, home, key, verb, id, version, at) "
        "VALUES (:tenant, :home, :key, :verb, :id, :version, :at) "
        "ON CONFLICT (tenant, home, key) DO NOTHING RETURNING key"
    )


def of(answered: Answered) -> dict[str, Any]:
    """Return an answer as values of a row."""
    return {
        "tenant": answered.home.tenant,
        "home": answered.home.home_key,
        "key": answered.key,
        "verb": answered.verb,
        "id": answered.id,
        "version": answered.version,
        "at": microseconds(answered.at),
    }


def under(home: Scope, key: str) -> Select[Any]:
    """Return what was answered from a home under a key."""
    mine = (requests.c.tenant == home.tenant, requests.c.home == home.home_key, requests.c.key == key)
    return select(requests.c.verb, requests.c.id, requests.c.version, requests.c.at).where(*mine)


def to_answered(row: Any, home: Scope, key: str) -> Answered:
    """Return the answer in a row of `under`."""
    return Answered(home, key, row.verb, row.id, row.version, instant(row.at))


def drop(tenant: str, ids: Sequence[str]) -> Delete:
    """Return the statement that drops what was answered about some memories."""
    return delete(requests).where(requests.c.tenant == tenant, requests.c.id.in_(ids))


def _is_stray() -> ColumnElement[bool]:
    of = (memories.c.tenant == requests.c.tenant, memories.c.id == requests.c.id)
    return ~exists(select(1).where(*of))


def strays() -> Select[Any]:
    """Return how many answers are about memories that are not there."""
    return select(func.count()).select_from(requests).where(_is_stray())


def drop_strays() -> Delete:
    """Return the statement that drops them."""
    return delete(requests).where(_is_stray())


def prune(tenant: str, before: int) -> Delete:
    """Return the statement that drops what was answered before an instant."""
    return delete(requests).where(requests.c.tenant == tenant, requests.c.at < before)
