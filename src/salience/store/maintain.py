"""Changes that keep a store in order: what is derived, what is deleted, leases, and another model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Final

from sqlalchemy import Connection

from salience.errors import PinnedError
from salience.ports import Add, Adopt, Answered, Change, Derive, Erase, Lease, Prune, Revise, Touch
from salience.records import Receipt, Scope
from salience.store import rows, sql, sql_history, sql_requests
from salience.store.meta import LAID_BY, Meta, keep, new_epoch, of_pin
from salience.store.pins import Pin
from salience.store.schema import memories, versions
from salience.store.values import answered_already, held_by, instant, is_session_of, microseconds, missing, own_vector
from salience.store.write import Transaction, add_all, revise_all, tenant_of, touch_all

_TABLES: Final = (memories, versions)


def derive_all(transaction: Transaction, _: str, changes: Sequence[Derive]) -> list[Receipt]:
    """Put anew what is derived, or lay vectors by for a model that is not adopted yet; return no receipts."""
    meta = Meta.read(transaction.connection)  # anew: a change before in this transaction may have pinned another model
    pin = meta.pin()
    vectors = [change for change in changes if change.vector is not None]
    is_home = pin is None or not vectors or transaction.handle.matches(pin)  # only vectors need a provider to answer
    if not is_home:
        _lay_by(transaction, meta.pin(LAID_BY), vectors)
    for change in changes:
        _derive(transaction, change, is_home)
    return []


def _derive(transaction: Transaction, change: Derive, is_home: bool) -> None:
    values: dict[str, Any] = {}
    if change.vector is not None and is_home:
        values["vector"] = rows.of_vector(own_vector(change.vector, transaction.dimension))
    if change.terms is not None:
        values["terms"] = rows.of_terms(change.terms)
    if change.distinctions is not None:
        values["distinctions"] = rows.of_distinctions(change.distinctions)
    if not values:
        return
    named = (change.tenant, change.id, change.version)
    current = transaction.connection.execute(sql_history.version_of(memories, *named)).mappings().one_or_none()
    table = versions if current is None else memories
    if current is not None:
        if current["vector"] is not None or values.keys() != {"vector"}:  # an arena sees a first vector, and no more
            transaction.void(change.tenant)
        values["seq"] = transaction.sequence(change.tenant)
        if change.terms is not None:
            values |= transaction.indexed(rows.to_memory(current), change.terms)
    transaction.connection.execute(sql_history.rederive(table, *named, change.content_hash).values(values))


def _lay_by(transaction: Transaction, pin: Pin | None, changes: Sequence[Derive]) -> None:
    """Lay the vectors by; those that are there stay only if their model, that of `pin`, is the same."""
    if changes and (pin is None or not transaction.handle.matches(pin)):
        with transaction.of_all():
            transaction.connection.execute(sql_history.drop_laid_by())
        keep(transaction.connection, of_pin(transaction.handle.own(), LAID_BY))
    values = [
        {
            "tenant": change.tenant,
            "id": change.id,
            "version": change.version,
            "content_hash": change.content_hash,
            "vector": rows.of_vector(own_vector(change.vector, transaction.dimension)),
        }
        for change in changes
    ]
    for table in _TABLES if values else ():
        transaction.connection.execute(sql_history.lay_by(table), values)


def erase_all(transaction: Transaction, tenant: str, changes: Sequence[Erase]) -> list[Receipt]:
    """Delete memories with all that belongs to them; return no receipts."""
    for change in changes:
        for chunk in sql.chunks(change.ids):
            _erase(transaction.connection, tenant, chunk)
        if change.sessions is not None:
            _end_sessions(transaction.connection, tenant, change.sessions)
    transaction.void(tenant)
    return []


def _erase(connection: Connection, tenant: str, ids: Sequence[str]) -> None:
    held = {row["id"] for row in connection.execute(sql.of_ids(tenant, ids)).mappings()}
    for gone in (erased for erased in ids if erased not in held):
        raise missing(gone)
    ended = [_session_key(tenant, *row) for row in connection.execute(sql_history.in_sessions(tenant, ids))]
    connection.execute(sql_history.erase_touches(tenant, ids))
    connection.execute(sql_history.erase(tenant, ids))
    connection.execute(sql_requests.drop(tenant, ids))
    _end(connection, tenant, ended)


def _end_sessions(connection: Connection, tenant: str, whose: Scope) -> None:
    known = connection.execute(sql_history.session_keys(tenant)).scalars().all()
    _end(connection, tenant, [key for key in known if is_session_of(key, whose)])


def _end(connection: Connection, tenant: str, session_keys: Sequence[str]) -> None:
    """Drop the clocks and the activations of sessions, but for those that a memory is in; one pass for many of them."""
    for keys in sql.chunks(session_keys):
        names = list({key.rpartition("\x1f")[2] for key in keys})
        left = {_session_key(tenant, *row) for row in connection.execute(sql_history.sessions_left(tenant, names))}
        for statement in sql_history.drop_sessions(tenant, [key for key in keys if key not in left]):
            connection.execute(statement)


def _session_key(tenant: str, environment: str, user_id: str | None, session_id: str) -> str:
    return str(Scope(tenant, environment, user_id=user_id, session_id=session_id).session_key)


def answer_all(transaction: Transaction, _: str, changes: Sequence[Answered]) -> list[Receipt]:
    """Note what was answered under idempotency keys; return no receipts."""
    for change in changes:
        if transaction.connection.execute(sql_requests.note(), sql_requests.of(change)).one_or_none() is None:
            raise answered_already(change)
    return []


def prune_all(transaction: Transaction, tenant: str, changes: Sequence[Prune]) -> list[Receipt]:
    """Drop older versions, and what is kept of touches and requests; return no receipts."""
    for change in changes:
        numbers: dict[str, list[int]] = {}
        for named, version in change.versions:
            numbers.setdefault(named, []).append(version)
        for named, dropped in numbers.items():
            transaction.connection.execute(sql_history.prune(tenant, named, dropped))
        if change.touches_before is not None:
            _prune_touches(transaction, tenant, microseconds(change.touches_before))
        if change.requests_before is not None:
            before = microseconds(change.requests_before)
            transaction.connection.execute(sql_requests.prune(tenant, before))
    return []


def _prune_touches(transaction: Transaction, tenant: str, before: int) -> None:
    """Drop what is kept of touches before an instant, which tells other processes what was touched.

    A file says up to where it is gone, for those who have not read so far; on a server, what they read before is void.
    """
    connection = transaction.connection
    last = connection.execute(sql_history.last_noted(tenant, before)).scalar()
    if last is None:
        return
    connection.execute(sql_history.prune_touches(tenant, before))
    transaction.pruned(tenant, last)


def lease_all(transaction: Transaction, _: str, changes: Sequence[Lease]) -> list[Receipt]:
    """Give leases to those who ask; return no receipts."""
    for change in changes:
        values = {"name": change.name, "holder": change.holder}
        instants = {"until": microseconds(change.until), "now": microseconds(change.now)}
        taken = transaction.connection.execute(sql_history.take_lease(), {**values, **instants}).one_or_none()
        if taken is None:
            held = transaction.connection.execute(sql_history.lease(change.name)).one()
            raise held_by(change.name, held.holder, instant(held.until))
    return []


def adopt_all(transaction: Transaction, _: str, __: Sequence[Adopt]) -> list[Receipt]:
    """Pin the store to the handle's model, with the vectors laid by for it; return no receipts."""
    connection, meta = transaction.connection, Meta.read(transaction.connection)
    pin, laid_by = meta.pin(), meta.pin(LAID_BY)
    if pin is not None and transaction.handle.matches(pin):
        return []
    if laid_by is not None and not transaction.handle.matches(laid_by):
        raise PinnedError("store: the vectors that were laid by are of another model. Run reembed again.")
    for tenant in transaction.tenants():
        for table in _TABLES:
            connection.execute(sql_history.adopt(table, tenant))
    connection.execute(sql_history.drop_laid_by())
    pins = {**of_pin(transaction.handle.own()), **of_pin(None, LAID_BY)}
    keep(connection, {**pins, "epoch": new_epoch()})
    return []


WRITERS: Final[Mapping[type, Callable[[Transaction, str, Any], list[Receipt]]]] = {
    Add: add_all,
    Revise: revise_all,
    Touch: touch_all,
    Derive: derive_all,
    Erase: erase_all,
    Answered: answer_all,
    Prune: prune_all,
    Lease: lease_all,
    Adopt: adopt_all,
}
"""What makes a run of changes of a kind."""


def runs(changes: Sequence[Change]) -> Iterator[tuple[type, str, list[Change]]]:
    """Return changes in their order, those of one kind and one tenant that follow each other together."""
    for (kind, tenant), run in groupby(changes, lambda change: (type(change), tenant_of(change))):
        yield kind, tenant, list(run)


def make(transaction: Transaction, kind: type, tenant: str, changes: Sequence[Change]) -> list[Receipt]:
    """Make a run of changes; return a receipt for each `Add` and `Revise`."""
    return WRITERS[kind](transaction, tenant, changes)
