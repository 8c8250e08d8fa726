"""Statements that fill an arena, built here and run elsewhere: whole columns at a time, each as one list in JSON.

SQLite makes such a list in one step, which needs no Python, so that another thread can work on what was read before.
"""

from __future__ import annotations

from functools import cache
from typing import Final

from sqlalchemy import TextClause, text

from salience.store.sql import ARENA

MEASURED: Final = ("importance", "weight")
"""Numbers that JSON might round: they come with the vectors."""
LISTED: Final = (
    *(name for name in ARENA if name not in ("seq", "forgotten_at", "vector", *MEASURED)),
    "has_vector",
    "rowid",
)
"""Columns that come as lists."""
_OTHERWISE: Final = {"has_vector": "m.vector IS NOT NULL"}
_AMONG: Final = (
    "FROM json_each(:rowids) AS asked CROSS JOIN memories AS m ON m.rowid = asked.value AND m.tenant = :tenant "
)
"""The outer loop is over the list: rows come in its order."""


@cache
def written() -> TextClause:
    """Return how many memories a tenant has, forgotten ones too, and all row ids."""
    return text("SELECT count(*), json_group_array(rowid) FROM memories WHERE tenant = :tenant")


@cache
def lists() -> TextClause:
    """Return the columns `LISTED` of the live memories among some `rowids`, each one list in JSON."""
    columns = ", ".join(f"json_group_array({_OTHERWISE.get(name, f'm.{name}')})" for name in LISTED)
    return text(f"SELECT {columns} {_AMONG} WHERE m.forgotten_at IS NULL")


@cache
def vectors() -> TextClause:
    """Return the vector and the columns `MEASURED` of the memories of some `rowids`, in this order."""
    return text(f"SELECT m.vector, {', '.join(f'm.{name}' for name in MEASURED)} {_AMONG}")
