"""Columns of memories with the recall counters as they now stand, which a file keeps apart from the rows."""

from __future__ import annotations

from typing import Any, Final

from sqlalchemy import BigInteger, ColumnElement, and_, func
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement

from salience.store.schema import counters, memories

COUNTED: Final = tuple(column.name for column in counters.c if not column.primary_key)
"""The counters that are kept apart."""


def as_counted(name: str) -> ColumnElement[Any]:
    """Return a column of the memories, under its name."""
    column = memories.c[name]
    return _Counted(column).label(name) if name in COUNTED else column


JOINED: Final = memories.outerjoin(
    counters, and_(counters.c.tenant == memories.c.tenant, counters.c.id == memories.c.id)
)
"""The memories of a file with their counters, where they have any apart."""


def joined(name: str) -> ColumnElement[Any]:
    """Return the same column of `JOINED`, for statements on a file that are run often: one look tells all counters."""
    column = memories.c[name]
    return func.coalesce(counters.c[name], column).label(name) if name in COUNTED else column


def of_file(name: str, memory: str, counter: str) -> str:
    """Return the same as text, given the names under which a memory and its counters, if any, are joined."""
    return f"coalesce({counter}.{name}, {memory}.{name})" if name in COUNTED else f"{memory}.{name}"


class _Counted(FunctionElement[int]):
    """A counter as it now stands; argument: its column in the memory's row."""

    type = BigInteger()
    inherit_cache = True


@compiles(_Counted)
def _in_the_row(element: _Counted, compiler: SQLCompiler, **options: Any) -> str:
    return compiler.process(element.clauses, **options)


@compiles(_Counted, "sqlite")
def _in_a_file(element: _Counted, compiler: SQLCompiler, **options: Any) -> str:
    (column,) = element.clauses
    apart = f"SELECT c.{column.name} FROM counters AS c WHERE c.tenant = memories.tenant AND c.id = memories.id"  # noqa: S608
    return f"coalesce(({apart}), {compiler.process(column, **options)})"
