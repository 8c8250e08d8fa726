"""Statements for PostgreSQL alone, built here and run elsewhere; every value is a parameter. No I/O."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Select, func, literal, select, union

from salience.records import Scope
from salience.store.schema import memories, touches
from salience.store.sql import ARENA, visible

_ARENA = [memories.c[name] for name in ARENA]


def at_least(scope: Scope, count: int) -> Select[Any]:
    """Return how many live memories are visible in `scope`, counted no further than `count`."""
    some = select(literal(1)).select_from(memories).where(*visible(scope), memories.c.forgotten_at.is_(None))
    return select(func.count()).select_from(some.limit(count).subquery())


def live(scope: Scope) -> Select[Any]:
    """Return the arena's columns of the live memories visible in `scope`."""
    return select(*_ARENA).where(*visible(scope), memories.c.forgotten_at.is_(None))


def newer(scope: Scope, sequence: int) -> Select[Any]:
    """Return the arena's columns of the memories visible in `scope`, forgotten ones too, that changed since."""
    changed = union(
        select(memories.c.id).where(memories.c.tenant == scope.tenant, memories.c.seq > sequence),
        select(touches.c.id).where(touches.c.tenant == scope.tenant, touches.c.seq > sequence),
    )
    return select(*_ARENA).where(*visible(scope), memories.c.id.in_(changed))
