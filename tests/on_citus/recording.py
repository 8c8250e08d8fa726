"""Records what a store says to PostgreSQL, and tells what of it a Citus cluster would not answer from one shard.

```python
with recording() as record:
    ...
assert not record.faults()
```
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from types import FrameType
from typing import Any, Final
from unittest.mock import patch

import psycopg
from sqlalchemy import Engine, event

from on_citus.statements import Read, parsed, read
from salience.store.postgres import connection as connections

MULTI_SHARD: Final[Mapping[str, str]] = {
    "sql_store.unembedded": "it lists what has no vector yet in the order of all tenants",
    "sql_store._set_aside": "it drops what was laid by for a model that nobody goes on with, whosever it is",
    "sql_store.adopt_all": "it drops what was laid by once it is in use, whosever it is",
    "store.list_tenants": "it lists the tenants, so that each is changed by statements of its own",
}
"""Functions of the store whose statements are about all tenants -> why; maintenance runs them as the operator."""
CHECKS: Final = ("checking", "integrity")
"""Modules that look at, or fill, tables as a whole, at the wish of whoever looks after the server."""
STORE: Final = "salience.store."
_LEVELS: Final = ("read committed", "repeatable read")


@dataclass(frozen=True, slots=True)
class Bounds:
    """Whose rows a transaction is about: those of a tenant, or, where it sets an empty one, those of all."""

    tenant: str | None = None
    is_operator: bool = False


@dataclass(frozen=True, slots=True)
class Said:
    """A statement as it was sent.

    Attributes:
        statement: its text, with the parameters of psycopg in it.
        parameters: one mapping or sequence, or a list of them.
        origin: function that sent it, with its module.
        bounds: of its transaction.
    """

    statement: str
    parameters: Any
    origin: str
    bounds: Bounds

    def faults(self) -> Iterator[str]:
        """Yield what is wrong with it, in words, without any value."""
        found = statement_read(self.statement)
        for fault in found.faults:
            yield f"{self.origin}: {fault}: {self.statement}"
        if found.unbound and not self._may_be_unbound():
            yield f"{self.origin}: {', '.join(found.unbound)} is bound to no tenant: {self.statement}"
        if self.bounds.is_operator or not found.tenants:
            return
        for parameters in self.parameters if isinstance(self.parameters, list) else [self.parameters]:
            if any(value.of(parameters) != self.bounds.tenant for value in found.tenants):
                yield f"{self.origin}: a tenant is not the one of the transaction: {self.statement}"

    def is_multi_shard(self) -> bool:
        """Return whether it is bound to no tenant somewhere."""
        return bool(statement_read(self.statement).unbound)

    def _may_be_unbound(self) -> bool:
        return self.bounds.is_operator and (self.origin in MULTI_SHARD or self.origin.partition(".")[0] in CHECKS)


@dataclass(slots=True)
class Record:
    """What was said, in order."""

    said: list[Said] = field(default_factory=list)
    turns: list[str] = field(default_factory=list)

    def faults(self) -> list[str]:
        """Return what is wrong, each fault once."""
        of_statements = [fault for each in self.said for fault in each.faults()]
        return list(dict.fromkeys([*self.turns, *of_statements]))

    def multi_shard(self) -> set[str]:
        """Return the functions whose statements were bound to no tenant somewhere."""
        return {each.origin for each in self.said if each.is_multi_shard()}


@cache
def statement_read(statement: str) -> Read:
    """Return what a statement says of tenants."""
    return read(statement)


@contextmanager
def recording() -> Iterator[Record]:
    """Record what every store on PostgreSQL in this process says, from openings of connections on."""
    record, bounds = Record(), dict[int, Bounds]()
    run, send_with_next = connections.run, connections.send_with_next

    def note(connection: psycopg.Connection[Any], statements: connections.Statements) -> None:
        found = bounds.get(id(connection), Bounds())
        for text in (statements,) if isinstance(statements, str) else statements:
            if text.lstrip().startswith(("SELECT", "WITH")):  # a query that is sent with BEGIN
                record.said.append(Said(text, {}, "connection.run", found))
            else:
                found = after(text, found, record.turns)
        bounds[id(connection)] = found

    def turn(connection: psycopg.Connection[Any], statements: connections.Statements) -> psycopg.Cursor[Any]:
        note(connection, statements)
        return run(connection, statements)

    def later(connection: connections.PostgresConnection, first: tuple[str, ...], *more: Any) -> None:
        note(connection, first)
        send_with_next(connection, first, *more)

    def say(_: object, cursor: Any, statement: str, parameters: Any, __: object, ___: bool) -> None:
        below = bounds.get(id(cursor.connection), Bounds())
        origin = _origin()
        if origin is not None:
            record.said.append(Said(statement, parameters, origin, below))

    event.listen(Engine, "before_cursor_execute", say)
    try:
        with patch.multiple(connections, run=turn, send_with_next=later):
            yield record
    finally:
        event.remove(Engine, "before_cursor_execute", say)


def after(text: str, bounds: Bounds, faults: list[str]) -> Bounds:
    """Return whose rows a transaction is about after a turn; what a cluster refuses of it is added to `faults`."""
    trees = parsed(text)
    begins = any("BEGIN" in tree.get("TransactionStmt", {}).get("kind", "") for tree in trees)
    for tree in trees:
        if "TransactionStmt" in tree:
            bounds = Bounds()
            faults += [f"the isolation is {level!r}" for level in _levels(tree) if level not in _LEVELS]
        elif "VariableSetStmt" in tree:
            bounds = _set(tree["VariableSetStmt"], bounds, faults)
        elif "SelectStmt" not in tree:
            faults.append(f"a turn has {next(iter(tree))}")
    if begins and len(trees) > 1:
        faults.append("a turn begins a transaction and sets something by one query, which workers get as a whole")
    return bounds


def _levels(tree: Any) -> list[str]:
    options = [option["DefElem"] for option in tree["TransactionStmt"].get("options", ())]
    chosen = [option["arg"] for option in options if option["defname"] == "transaction_isolation"]
    return [level["A_Const"]["sval"]["sval"] for level in chosen]


def _set(node: Any, bounds: Bounds, faults: list[str]) -> Bounds:
    name = node.get("name", "")
    if not node.get("is_local"):
        faults.append(f"{name} is set for longer than a transaction")
    values = [value.get("A_Const", {}).get("sval", {}).get("sval", "") for value in node.get("args", ())]
    if name == "salience.tenant":
        return Bounds(values[0] or None, not values[0])
    return bounds


def _origin() -> str | None:
    """Return the innermost function of a store that runs at present, as `module.name`."""
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        module = str(frame.f_globals.get("__name__", ""))
        if module.startswith(STORE) and ".migrations" not in module:
            return f"{module.rpartition('.')[2]}.{frame.f_code.co_qualname.partition('.<')[0]}"
        frame = frame.f_back
    return None
