"""Statements about versions, earlier instants and what is derived; built here and run elsewhere. No I/O."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    CompoundSelect,
    Delete,
    Select,
    Text,
    Update,
    bindparam,
    delete,
    exists,
    func,
    literal,
    select,
    tuple_,
    update,
)
from sqlalchemy.sql.expression import TextClause, text

from salience.records import Scope
from salience.store.columns import VECTOR
from salience.store.rows import STORED
from salience.store.schema import activations, laid_by, leases, memories, sessions, touches, versions
from salience.store.sql import Conditions, visible

COUNTERS: Final = ("accessed_at", "access_count", "importance")
"""Columns that a touch changes."""
_KEPT: Final = frozenset(column.name for column in versions.c)


def stood(
    tenant: str, names: Sequence[str], instant: int, ids: Sequence[str] | None = None, seen: Scope | None = None
) -> CompoundSelect[Any]:
    """Return columns of a tenant's memories, forgotten ones too, in the version that held at an instant.

    A version is the one that held if it is the last that was made by then. Columns that versions have not are 0.
    `ids` and `seen` leave out all others: those of other ids, and those that are not visible in a scope.
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
    if seen is not None:
        own += visible(seen)
        older += visible(seen, versions)
    then = [versions.c[name] if name in _KEPT else literal(0).label(name) for name in names]
    return select(*(memories.c[name] for name in names)).where(*own).union_all(select(*then).where(*older))


def touched_since(tenant: str, instant: int, ids: Sequence[str] | None = None) -> Select[Any]:
    """Return the recall counters as they were before each touch after an instant, in the order of the touches.

    Within a version, counters only grow: they tell the order of touches of one transaction.
    """
    some = [] if ids is None else [touches.c.id.in_(ids)]
    columns = (touches.c.id, touches.c.version, *(touches.c[name] for name in COUNTERS))
    after = select(*columns).where(touches.c.tenant == tenant, touches.c.at > instant, *some)
    return after.order_by(
        touches.c.seq, touches.c.access_count, touches.c.importance, touches.c.accessed_at.nulls_first()
    )


@cache
def note_touches() -> TextClause:
    """Return the statement that notes the counters of the live ones among `ids` before a touch."""
    statement = text(
        "INSERT INTO touches (tenant, id, seq, at, version, accessed_at, access_count, importance) "
        "SELECT m.tenant, m.id, :seq, :at, m.version, m.accessed_at, m.access_count, m.importance "
        "FROM memories AS m WHERE m.tenant = :tenant AND m.id IN :ids AND m.forgotten_at IS NULL "
        "ON CONFLICT (tenant, id, version, seq, at) DO NOTHING"
    )
    return statement.bindparams(bindparam("ids", expanding=True))


def meant(scope: Scope, id: str, short: bool) -> Select[Any]:
    """Return the ids of the memories, forgotten or not, visible in `scope`, that a whole or a short id means."""
    column = memories.c.short_id if short else memories.c.id
    return select(memories.c.id).where(*visible(scope), column == id)


Asked = tuple[Select[Any], dict[str, Any]]
"""A statement with its values."""


def said(tenant: str, ids: Sequence[str]) -> Select[Any]:
    """Return the distinct content hashes of the older versions of some memories, with their ids."""
    of = (versions.c.tenant == tenant, versions.c.id.in_(ids))
    return select(versions.c.id, versions.c.content_hash).where(*of).distinct()


def unembedded(after: tuple[str, str, int], limit: int, tenant: str | None = None) -> list[Asked]:
    """Return the statements for the keys of memories and of versions without a vector, after a key, in order."""
    return [(statement, _from(after, limit, tenant)) for statement in _unembedded(tenant is not None)]


@cache
def _unembedded(of_one_tenant: bool) -> tuple[Select[Any], ...]:
    return tuple(_keys(table, of_one_tenant).where(table.c.vector.is_(None)) for table in (memories, versions))


def not_laid_by(after: tuple[str, str, int], limit: int, known: bool, tenant: str | None = None) -> list[Asked]:
    """Return the statements for the keys of memories and of versions that no vector was prepared for, in order.

    Prepared vectors count only where their model is `known` to be the one asked for.
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
        statement = _keys(table, tenant is not None).where(*([~is_there] if known else []))
        found.append((statement, _from(after, limit, tenant)))
    return found


def _keys(table: Any, of_one_tenant: bool) -> Select[Any]:
    """Return the keys of a table after a key, in order; the values are those of `_from`."""
    key = (table.c.tenant, table.c.id, table.c.version)
    after = (bindparam("tenant", type_=Text), bindparam("id", type_=Text), bindparam("version", type_=BigInteger))
    some = [table.c.tenant == bindparam("of_tenant", type_=Text)] if of_one_tenant else []
    later = tuple_(*key) > tuple_(*after)
    return select(*key).where(*some, later).order_by(*key).limit(bindparam("limit", type_=BigInteger))


def _from(after: tuple[str, str, int], limit: int, tenant: str | None) -> dict[str, Any]:
    of = {} if tenant is None else {"of_tenant": tenant}
    return {"tenant": after[0], "id": after[1], "version": after[2], "limit": limit, **of}


def version_of(table: Any, tenant: str, id: str, version: int) -> Select[Any]:
    """Return a memory (or an older version) at a number."""
    columns = [table.c[name] for name in STORED]
    return select(*columns).where(table.c.tenant == tenant, table.c.id == id, table.c.version == version)


def rederive(table: Any, tenant: str, id: str, version: int, content_hash: str) -> Update:
    """Return the statement that puts anew what is derived from a version that still has a text."""
    same = (table.c.tenant == tenant, table.c.id == id, table.c.version == version)
    return update(table).where(*same, table.c.content_hash == content_hash)


def lay_by(table: Any) -> TextClause:
    """Return the statement that lays a vector by for a memory (or an older version) that still has a text."""
    statement = text(  # the table is one of the schema
        "INSERT INTO laid_by (tenant, id, version, content_hash, vector) "  # noqa: S608
        f"SELECT v.tenant, v.id, v.version, v.content_hash, :vector FROM {table.name} AS v "
        "WHERE v.tenant = :tenant AND v.id = :id AND v.version = :version AND v.content_hash = :content_hash "
        "ON CONFLICT (tenant, id, version) DO UPDATE SET content_hash = excluded.content_hash, vector = excluded.vector"
    )
    return statement.bindparams(bindparam("vector", type_=VECTOR()))


def drop_laid_by() -> Delete:
    """Return the statement that drops every vector laid by."""
    return delete(laid_by)


def adopt(table: Any, tenant: str | None = None) -> Update:
    """Return the statement that puts the vectors laid by in the place of all others; null where there is none.

    Those of one tenant, if one is given.
    """
    fits = (
        select(laid_by.c.vector)
        .where(
            laid_by.c.tenant == (table.c.tenant if tenant is None else tenant),
            laid_by.c.id == table.c.id,
            laid_by.c.version == table.c.version,
            laid_by.c.content_hash == table.c.content_hash,
        )
        .scalar_subquery()
    )
    change = update(table).values(vector=fits)
    return change if tenant is None else change.where(table.c.tenant == tenant)


def in_sessions(tenant: str, ids: Sequence[str]) -> Select[Any]:
    """Return the distinct sessions of some memories, by their coordinates."""
    columns = (memories.c.environment, memories.c.user_id, memories.c.session_id)
    with_one = (memories.c.tenant == tenant, memories.c.id.in_(ids), memories.c.session_id.is_not(None))
    return select(*columns).where(*with_one).distinct()


def sessions_left(tenant: str, session_ids: Sequence[str]) -> Select[Any]:
    """Return the distinct sessions of these names, by their coordinates, in which a memory is."""
    columns = (memories.c.environment, memories.c.user_id, memories.c.session_id)
    return select(*columns).where(memories.c.tenant == tenant, memories.c.session_id.in_(session_ids)).distinct()


def session_keys(tenant: str) -> Select[Any]:
    """Return the keys of a tenant's sessions."""
    return select(sessions.c.session_key).where(sessions.c.tenant == tenant)


def drop_sessions(tenant: str, session_keys: Sequence[str]) -> list[Delete]:
    """Return the statements that drop the clocks and activations of sessions."""
    return [
        delete(table).where(table.c.tenant == tenant, table.c.session_key.in_(session_keys))
        for table in (sessions, activations)
    ]


def erase(tenant: str, ids: Sequence[str]) -> Delete:
    """Return the statement that deletes memories; what belongs to them goes with them."""
    return delete(memories).where(memories.c.tenant == tenant, memories.c.id.in_(ids))


def prune(tenant: str, id: str, numbers: Sequence[int]) -> Delete:
    """Return the statement that drops older versions of a memory."""
    return delete(versions).where(versions.c.tenant == tenant, versions.c.id == id, versions.c.version.in_(numbers))


def erase_touches(tenant: str, ids: Sequence[str]) -> Delete:
    """Return the statement that deletes what is kept of touches of memories; in a file nothing else does."""
    return delete(touches).where(touches.c.tenant == tenant, touches.c.id.in_(ids))


def last_noted(tenant: str, instant: int) -> Select[Any]:
    """Return the last change sequence of which something is kept of touches before an instant; null for none."""
    return select(func.max(touches.c.seq)).where(touches.c.tenant == tenant, touches.c.at < instant)


def prune_touches(tenant: str, instant: int) -> Delete:
    """Return the statement that drops what is kept of touches before an instant."""
    return delete(touches).where(touches.c.tenant == tenant, touches.c.at < instant)


def lease(name: str) -> Select[Any]:
    """Return who holds a lease, and until when."""
    return select(leases.c.holder, leases.c.until).where(leases.c.name == name)


def take_lease() -> TextClause:
    """Return the statement that gives a lease to a holder, and returns it, unless another has it until after `now`."""
    return text(
        "INSERT INTO leases (name, holder, until) VALUES (:name, :holder, :until) "
        "ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, until = excluded.until "
        "WHERE leases.holder = excluded.holder OR leases.until <= :now RETURNING name"
    )


def counts(tenants: Sequence[str] | None = None) -> Select[Any]:
    """Return how many memories and how many older versions there are, in all or of some tenants."""
    of = [] if tenants is None else [tenants]
    held, older = (
        select(func.count()).select_from(table).where(*(table.c.tenant.in_(some) for some in of)).scalar_subquery()
        for table in (memories, versions)
    )
    return select(held, older)
