"""Statements about versions, earlier instants and what is derived; built here and run elsewhere. No I/O."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from sqlalchemy import CompoundSelect, Delete, Select, Update, delete, exists, func, literal, select, tuple_, update
from sqlalchemy.sql.expression import TextClause, text

from salience.records import Scope
from salience.store.rows import STORED
from salience.store.schema import activations, laid_by, leases, memories, sessions, touches, versions
from salience.store.sql import Conditions, visible

COUNTERS: Final = ("accessed_at", "access_count", "importance")
"""Columns that a touch changes."""
_KEPT: Final = frozenset(column.name for column in versions.c)


def stood(tenant: str, names: Sequence[str], instant: int, ids: Sequence[str] | None = None) -> CompoundSelect[Any]:
    """Return columns of a tenant's memories, forgotten ones too, in the version that held at an instant.

    A version is the one that held if it is the last that was made by then. Columns that versions have not are null.
    """
    own: Conditions = [memories.c.tenant == tenant, memories.c.changed_at <= instant]
    newer = versions.alias()
    is_current = exists(
        select(1).where(memories.c.tenant == tenant, memories.c.id == versions.c.id, memories.c.changed_at <= instant)
    )
    last = (
        select(func.max(newer.c.version))
        .where(newer.c.tenant == tenant, newer.c.id == versions.c.id, newer.c.changed_at <= instant)
        .scalar_subquery()
    )
    older: Conditions = [versions.c.tenant == tenant, versions.c.version == last, ~is_current]
    if ids is not None:
        own.append(memories.c.id.in_(ids))
        older.append(versions.c.id.in_(ids))
    then = [versions.c[name] if name in _KEPT else literal(0).label(name) for name in names]
    return select(*(memories.c[name] for name in names)).where(*own).union_all(select(*then).where(*older))


def touched_since(tenant: str, instant: int, ids: Sequence[str] | None = None) -> Select[Any]:
    """Return the recall counters as they were before each touch after an instant, in the order of the touches."""
    some = [] if ids is None else [touches.c.id.in_(ids)]
    columns = (touches.c.id, touches.c.version, *(touches.c[name] for name in COUNTERS))
    after = select(*columns).where(touches.c.tenant == tenant, touches.c.at > instant, *some)
    return after.order_by(touches.c.at, touches.c.seq)


def note_touches() -> TextClause:
    """Return the statement that notes the counters of live memories before a touch."""
    return text(
        "INSERT INTO touches (tenant, id, seq, at, version, accessed_at, access_count, importance) "
        "SELECT m.tenant, m.id, :seq, :at, m.version, m.accessed_at, m.access_count, m.importance FROM memories AS m "
        "WHERE m.tenant = :tenant AND m.id = :id AND m.forgotten_at IS NULL "
        "ON CONFLICT (tenant, id, seq, at) DO NOTHING"
    )


def meant(scope: Scope, id: str, short: bool) -> Select[Any]:
    """Return the ids of the memories, forgotten or not, visible in `scope`, that a whole or a short id means."""
    column = memories.c.short_id if short else memories.c.id
    return select(memories.c.id).where(*visible(scope), column == id)


def unembedded(after: tuple[str, str, int], limit: int) -> list[Select[Any]]:
    """Return, of memories and of versions, the keys of those without a vector after a key, in order."""
    return [
        select(table.c.tenant, table.c.id, table.c.version)
        .where(table.c.vector.is_(None), _after(table, after))
        .order_by(table.c.tenant, table.c.id, table.c.version)
        .limit(limit)
        for table in (memories, versions)
    ]


def not_laid_by(after: tuple[str, str, int], limit: int, known: bool) -> list[Select[Any]]:
    """Return, of memories and of versions, the keys of those for which no vector is laid by, in order.

    What is laid by counts only where its model is `known` to be the one asked for.
    """
    found = []
    for table in (memories, versions):
        is_there = exists(
            select(1).where(
                laid_by.c.tenant == table.c.tenant,
                laid_by.c.id == table.c.id,
                laid_by.c.version == table.c.version,
                laid_by.c.content_hash == table.c.content_hash,
            )
        )
        columns = (table.c.tenant, table.c.id, table.c.version)
        found.append(
            select(*columns)
            .where(_after(table, after), *([~is_there] if known else []))
            .order_by(*columns)
            .limit(limit)
        )
    return found


def _after(table: Any, after: tuple[str, str, int]) -> Any:
    key = (table.c.tenant, table.c.id, table.c.version)
    return tuple_(*key) > tuple_(*map(literal, after))


def version_of(table: Any, tenant: str, id: str, version: int) -> Select[Any]:
    """Return a memory (or an older version) at a number."""
    columns = [table.c[name] for name in STORED]
    return select(*columns).where(table.c.tenant == tenant, table.c.id == id, table.c.version == version)


def rederive(table: Any, tenant: str, id: str, version: int, content_hash: str) -> Update:
    """Return the statement that puts anew what is derived from a version that still has a text."""
    same = (table.c.tenant == tenant, table.c.id == id, table.c.version == version)
    return update(table).where(*same, table.c.content_hash == content_hash)


def lay_by() -> TextClause:
    """Return the statement that lays a vector by for a version that still has a text."""
    return text(
        "INSERT INTO laid_by (tenant, id, version, content_hash, vector) "
        "SELECT :tenant, :id, :version, :content_hash, :vector WHERE EXISTS "
        "(SELECT 1 FROM memories WHERE tenant = :tenant AND id = :id) "
        "ON CONFLICT (tenant, id, version) DO UPDATE SET content_hash = excluded.content_hash, vector = excluded.vector"
    )


def drop_laid_by() -> Delete:
    """Return the statement that drops every vector laid by."""
    return delete(laid_by)


def adopt(table: Any) -> Update:
    """Return the statement that puts the vectors laid by in the place of all others; null where there is none."""
    fits = (
        select(laid_by.c.vector)
        .where(
            laid_by.c.tenant == table.c.tenant,
            laid_by.c.id == table.c.id,
            laid_by.c.version == table.c.version,
            laid_by.c.content_hash == table.c.content_hash,
        )
        .scalar_subquery()
    )
    return update(table).values(vector=fits)


def in_sessions(tenant: str, ids: Sequence[str]) -> Select[Any]:
    """Return the distinct sessions of some memories, by their coordinates."""
    columns = (memories.c.environment, memories.c.user_id, memories.c.session_id)
    with_one = (memories.c.tenant == tenant, memories.c.id.in_(ids), memories.c.session_id.is_not(None))
    return select(*columns).where(*with_one).distinct()


def of_session(tenant: str, environment: str, user_id: str | None, session_id: str) -> Select[Any]:
    """Return a memory of a session, if one is left."""
    user = memories.c.user_id.is_(None) if user_id is None else memories.c.user_id == user_id
    same = (memories.c.tenant == tenant, memories.c.environment == environment, memories.c.session_id == session_id)
    return select(memories.c.id).where(*same, user).limit(1)


def drop_session(tenant: str, session_key: str) -> list[Delete]:
    """Return the statements that drop a session's clock and activations."""
    return [
        delete(table).where(table.c.tenant == tenant, table.c.session_key == session_key)
        for table in (sessions, activations)
    ]


def erase(tenant: str, ids: Sequence[str]) -> Delete:
    """Return the statement that deletes memories; what belongs to them goes with them."""
    return delete(memories).where(memories.c.tenant == tenant, memories.c.id.in_(ids))


def prune(tenant: str, id: str, numbers: Sequence[int]) -> Delete:
    """Return the statement that drops older versions of a memory."""
    return delete(versions).where(versions.c.tenant == tenant, versions.c.id == id, versions.c.version.in_(numbers))


def prune_touches(tenant: str, instant: int) -> Delete:
    """Return the statement that drops what is kept of touches before an instant."""
    return delete(touches).where(touches.c.tenant == tenant, touches.c.at < instant)


def lease(name: str) -> Select[Any]:
    """Return who holds a lease, and until when."""
    return select(leases.c.holder, leases.c.until).where(leases.c.name == name)


def take_lease() -> TextClause:
    """Return the statement that gives a lease to a holder."""
    return text(
        "INSERT INTO leases (name, holder, until) VALUES (:name, :holder, :until) "
        "ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, until = excluded.until"
    )


def counts() -> Select[Any]:
    """Return how many memories and how many older versions there are."""
    held, older = (select(func.count()).select_from(table).scalar_subquery() for table in (memories, versions))
    return select(held, older)
