"""The posting table: under which search keys each live memory is found.

It is a table of its own, and no index over a list in the row, since PostgreSQL looks nothing up by what a list holds
while row-level security stands before the rows: the operators of lists are not "leakproof", those of numbers are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Final

from sqlalchemy import Connection
from sqlalchemy.sql.expression import TextClause, text

from salience.ports import Add, Change, Derive, Erase, Revise

Posted = frozenset[tuple[int, int]]
"""Pairs of a search key and the number of a memory."""
_POST: Final = (
    "INSERT INTO postings (tenant, key, number, environment, project, user_id, agent_id) "
    "SELECT m.tenant, k.key, m.number, hashtext(m.environment), hashtext(m.project), hashtext(m.user_id), "
    "hashtext(m.agent_id) FROM memories AS m, unnest(m.search_keys) AS k (key) "
    "WHERE m.tenant = :tenant AND m.forgotten_at IS NULL{some} ON CONFLICT (tenant, key, number) DO NOTHING"
)


def changed(changes: Iterable[Change]) -> dict[str, set[str]]:
    """Return, by tenant, the ids of the memories whose words some changes may change."""
    ids: dict[str, set[str]] = {}
    for change in changes:
        if isinstance(change, Add):
            memory = change.stored.memory
            ids.setdefault(memory.scope.tenant, set()).add(memory.id)
        elif isinstance(change, Revise):
            ids.setdefault(change.memory.scope.tenant, set()).add(change.memory.id)
        elif isinstance(change, Derive) and change.terms is not None:
            ids.setdefault(change.tenant, set()).add(change.id)
        elif isinstance(change, Erase):
            ids.setdefault(change.tenant, set()).update(change.ids)
    return ids


def due(connection: Connection, tenant: str, ids: Iterable[str]) -> Posted:
    """Return what is to be posted of the live ones among some memories, as their rows stand."""
    rows = connection.execute(_keys(), {"tenant": tenant, "ids": sorted(ids)})
    return frozenset((key, row.number) for row in rows for key in row.search_keys or ())


def repost(connection: Connection, tenant: str, ids: Iterable[str], before: Posted) -> None:
    """Post what is due of some memories now, where `before` is what was due before they were changed."""
    if gone := before - due(connection, tenant, ids) if before else frozenset():
        keys, numbers = zip(*sorted(gone), strict=True)
        connection.execute(_unpost(), {"tenant": tenant, "keys": list(keys), "numbers": list(numbers)})
    connection.execute(_post(), {"tenant": tenant, "ids": sorted(ids)})


def post_all(connection: Connection, tenant: str) -> None:
    """Post what is due of every memory of a tenant; what is posted already stays."""
    connection.execute(_post_all(), {"tenant": tenant})


def existing(changes: Sequence[Change]) -> Mapping[str, set[str]]:
    """Return, by tenant, the ids that `changed` returns without those of memories that only come."""
    return changed(change for change in changes if not isinstance(change, Add))


@cache
def _keys() -> TextClause:
    return text(
        "SELECT number, search_keys FROM memories "
        "WHERE tenant = :tenant AND id = ANY(CAST(:ids AS text[])) AND forgotten_at IS NULL"
    )


@cache
def _post() -> TextClause:
    return text(_POST.format(some=" AND m.id = ANY(CAST(:ids AS text[]))"))


@cache
def _post_all() -> TextClause:
    return text(_POST.format(some=""))


@cache
def _unpost() -> TextClause:
    return text(
        "DELETE FROM postings AS p "
        "USING unnest(CAST(:keys AS bigint[]), CAST(:numbers AS bigint[])) AS gone (key, number) "
        "WHERE p.tenant = :tenant AND p.key = gone.key AND p.number = gone.number"
    )
