"""Whether a statement is one that a Citus cluster answers from the shard of one tenant, read off its syntax tree.

Citus sends a statement to one shard where it finds the tenant of every table in it, at every level, to be equal to a
value. The rules besides were seen on a real cluster: see `docs/how-to/citus.md`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import pgparse

from salience.store.schema import metadata

Node = Mapping[str, Any]
"""A node of PostgreSQL's own syntax tree, as libpg_query gives it."""
TENANT: Final = "tenant"
SPREAD: Final = frozenset(table.name for table in metadata.tables.values() if TENANT in table.primary_key.c)
"""Tables that are spread by tenant."""
VOLATILE: Final = frozenset(
    ("now", "clock_timestamp", "statement_timestamp", "timeofday", "random", "gen_random_uuid", "uuidv7", "nextval",
     "setval", "txid_current", "pg_current_xact_id")
)  # fmt: skip
"""Functions that a write on a cluster may not call."""
ROUTED: Final = ("SelectStmt", "InsertStmt", "UpdateStmt", "DeleteStmt")
_NUMBER: Final = re.compile(r"\$\d+")
_PLACE: Final = re.compile(r"%(?:\((\w+)\)s|(s)|(%))")


@dataclass(frozen=True, slots=True)
class Value:
    """What a tenant is said to be equal to: a parameter by name (or by its place, from 0), or a constant."""

    parameter: str | int | None = None
    constant: str | None = None

    def of(self, parameters: Any) -> Any:
        """Return the value under some parameters."""
        return self.constant if self.parameter is None else parameters[self.parameter]


@dataclass(frozen=True, slots=True)
class Read:
    """What a statement says of tenants.

    Attributes:
        unbound: its tables whose tenant is not said, as they are named in it.
        tenants: the values that tenants are equal to.
        faults: what a cluster refuses besides, in words.
    """

    unbound: tuple[str, ...]
    tenants: tuple[Value, ...]
    faults: tuple[str, ...]


def read(statement: str) -> Read:
    """Return what a statement, with the parameters of psycopg in it or with numbers, says of tenants."""
    numbered, names = _numbered(_NUMBER.sub("%s", statement))
    reader = _Reader(names)
    for tree in parsed(numbered):
        reader.statement(tree)
    return Read(tuple(reader.unbound), tuple(reader.tenants), tuple(reader.faults))


def parsed(statements: str) -> list[Node]:
    """Return the syntax trees of statements."""
    return [tree["stmt"] for tree in pgparse.parse(statements)]


def _numbered(statement: str) -> tuple[str, list[str | int]]:
    """Return a statement with numbers in the place of psycopg's signs, and what parameter each number is."""
    names: list[str | int] = []

    def number(match: re.Match[str]) -> str:
        name, place, sign = match.groups()
        if sign:
            return "%"
        named = name or sum(isinstance(known, int) for known in names)
        if named not in names or place:
            names.append(named)
        return f"${names.index(named) + 1}"

    return _PLACE.sub(number, statement), names


@dataclass(slots=True)
class _Level:
    """The tables of one query, without those of the queries in it.

    Attributes:
        tables: name in the query -> table; those that are spread.
        others: how many others there are.
        values: name in the query -> what its tenant is equal to.
        same: pairs of names whose tenants are equal.
    """

    tables: dict[str, str] = field(default_factory=dict)
    others: int = 0
    values: dict[str, list[Value]] = field(default_factory=dict)
    same: list[tuple[str, str]] = field(default_factory=list)

    def bound(self) -> dict[str, list[Value]]:
        """Return what the tenant of each name is equal to, by others that it is equal to as well."""
        found = {name: list(values) for name, values in self.values.items()}
        for _ in self.same:
            for one, other in (*self.same, *((other, one) for one, other in self.same)):
                if one in found:
                    found.setdefault(other, found[one])
        return found


class _Reader:
    """Reads a statement's tree.

    Args:
        names: what parameter each number is.
    """

    def __init__(self, names: Sequence[str | int]) -> None:
        self.unbound: list[str] = []
        self.tenants: list[Value] = []
        self.faults: list[str] = []
        self._names = names

    def statement(self, tree: Node) -> None:
        """Read a statement; one that meets no table of the store may be any."""
        ((kind, node),) = tree.items()
        if not any(name in metadata.tables for name in _named(node)):
            return
        if kind not in ROUTED:
            self.faults.append(f"{kind} is not for a hot path")
            return
        self._calls(node, writes=kind != "SelectStmt")
        self._query(kind, node, frozenset())

    def _calls(self, node: Node, writes: bool) -> None:
        for name in _called(node):
            if writes and name in VOLATILE:
                self.faults.append(f"{name}() is volatile, which a write may not be")
            if name in ("set_config", "current_setting"):
                self.faults.append(f"{name}() does not route, and sets nothing on a worker")

    def _query(self, kind: str, node: Node, known: frozenset[str]) -> _Level:
        """Read a query and those in it; `known` are the names of the WITH queries around it."""
        known = self._with(node, known)
        if node.get("op", "SETOP_NONE") != "SETOP_NONE":
            for side in ("larg", "rarg"):
                self._query("SelectStmt", node[side], known)
            return _Level()
        level = _Level()
        if "relation" in node:
            _enter(level, node["relation"], known)
        for item in (*node.get("fromClause", ()), *node.get("usingClause", ())):
            self._item(level, item, known)
        self._conditions(level, node.get("whereClause"), level.tables)
        if kind == "InsertStmt":
            self._insert(node, known)
            level.tables.clear()  # what it inserts into is bound by its values
        if kind in ("InsertStmt", "UpdateStmt"):
            self._assigned(node)
        self._settle(level)
        for inner in _inner(node, skip=("withClause", "selectStmt") if kind == "InsertStmt" else ("withClause",)):
            self._query("SelectStmt", inner, known)
        return level

    def _with(self, node: Node, known: frozenset[str]) -> frozenset[str]:
        tables = [each["CommonTableExpr"] for each in node.get("withClause", {}).get("ctes", ())]
        known |= {table["ctename"] for table in tables}
        for table in tables:
            ((kind, query),) = table["ctequery"].items()
            self._query(kind, query, known)
        return known

    def _item(self, level: _Level, item: Node, known: frozenset[str]) -> set[str]:
        """Enter what stands in a FROM; return the names of the spread tables in it."""
        if "RangeVar" in item:
            return _enter(level, item["RangeVar"], known)
        if "JoinExpr" not in item:
            level.others += 1
            return set()
        join = item["JoinExpr"]
        left, right = (self._item(level, join[side], known) for side in ("larg", "rarg"))
        by_kind = {"JOIN_INNER": left | right, "JOIN_LEFT": right, "JOIN_RIGHT": left}
        self._conditions(level, join.get("quals"), by_kind.get(join["jointype"], set()))
        return left | right

    def _conditions(self, level: _Level, condition: Node | None, reached: Collection[str]) -> None:
        """Note what a condition says of the tenants of the tables that it can leave rows of out."""
        for left, right in _equalities(condition):
            names = [_tenant_of(level, side) for side in (left, right)]
            values = [self._value(side) for side in (left, right)]
            if names[0] and names[1]:
                level.same.append((names[0], names[1]))
            for name, value in zip(names, reversed(values), strict=True):
                if name in reached and value is not None:
                    level.values.setdefault(str(name), []).append(value)

    def _value(self, node: Node) -> Value | None:
        """Return a parameter or constant, cast or not; None for anything else."""
        while wrapped := node.get("TypeCast") or node.get("CollateClause"):
            node = wrapped["arg"]
        if "ParamRef" in node:
            return Value(parameter=self._names[node["ParamRef"]["number"] - 1])
        if "A_Const" in node:
            return Value(constant=node["A_Const"].get("sval", {}).get("sval"))
        return None

    def _settle(self, level: _Level) -> None:
        bound = level.bound()
        for name, table in level.tables.items():
            if name not in bound:
                self.unbound.append(table if name == table else f"{table} AS {name}")
            self.tenants += bound.get(name, ())

    def _insert(self, node: Node, known: frozenset[str]) -> None:
        """Read where the tenant of the rows that are inserted comes from."""
        table = node["relation"]["relname"]
        source = node["selectStmt"]["SelectStmt"]
        columns = [column["ResTarget"]["name"] for column in node.get("cols", ())]
        if table not in SPREAD:
            self._query("SelectStmt", source, known)
            return
        if TENANT not in columns:
            self.unbound.append(table)
            return
        place = columns.index(TENANT)
        if "valuesLists" in source:
            values = [self._value(row["List"]["items"][place]) for row in source["valuesLists"]]
            self.tenants += [value for value in values if value is not None]
            self.unbound += [table for value in values if value is None]
            return
        level = self._query("SelectStmt", source, known)
        chosen = source["targetList"][place]["ResTarget"]["val"] if "targetList" in source else {}
        if _tenant_of(level, chosen) is None:
            self.faults.append(f"what {table} is given takes the tenant from no table")
        if node.get("returningList") and "alias" not in node["relation"]:
            self.faults.append(f"{table} is given rows of a query, has RETURNING, and no alias")

    def _assigned(self, node: Node) -> None:
        conflict = node.get("onConflictClause", {})
        for target in (*node.get("targetList", ()), *conflict.get("targetList", ())):
            if target["ResTarget"].get("name") == TENANT and node["relation"]["relname"] in SPREAD:
                self.faults.append(f"the tenant of {node['relation']['relname']} is updated")


def _enter(level: _Level, table: Node, known: frozenset[str]) -> set[str]:
    name = table.get("alias", {}).get("aliasname", table["relname"])
    if table["relname"] in known or table["relname"] not in SPREAD:
        level.others += 1
        return set()
    level.tables[name] = table["relname"]
    return {name}


def _tenant_of(level: _Level, node: Node) -> str | None:
    """Return the name of the table whose tenant a node is; None where it is none."""
    fields = [part.get("String", {}).get("sval") for part in node.get("ColumnRef", {}).get("fields", ())]
    if not fields or fields[-1] != TENANT:
        return None
    if len(fields) > 1:
        return fields[-2] if fields[-2] in level.tables else None
    return next(iter(level.tables)) if len(level.tables) == 1 and not level.others else None


def _equalities(condition: Node | None) -> Iterator[tuple[Node, Node]]:
    """Yield the sides of all equalities that have to hold for a condition to hold."""
    if condition is None:
        return
    if condition.get("BoolExpr", {}).get("boolop") == "AND_EXPR":
        for part in condition["BoolExpr"]["args"]:
            yield from _equalities(part)
    comparison = condition.get("A_Expr", {})
    if comparison.get("name") != [{"String": {"sval": "="}}]:
        return
    if comparison["kind"] == "AEXPR_OP":
        yield comparison["lexpr"], comparison["rexpr"]
    elif comparison["kind"] == "AEXPR_IN" and len(comparison["rexpr"]["List"]["items"]) == 1:
        yield comparison["lexpr"], comparison["rexpr"]["List"]["items"][0]  # PostgreSQL makes an equality of it too


def _inner(node: Any, skip: Collection[str] = ()) -> Iterator[Node]:
    """Yield the queries in a query, each without those in it."""
    if isinstance(node, list):
        for part in node:
            yield from _inner(part)
    elif isinstance(node, dict):
        for key, part in node.items():
            if key in ("SubLink", "RangeSubselect"):
                yield part["subselect" if key == "SubLink" else "subquery"]["SelectStmt"]
                yield from _inner(part.get("testexpr"))
            elif key not in skip:
                yield from _inner(part)


def _named(node: Any) -> Iterator[str]:
    """Yield the names of the tables in a tree, at any depth."""
    if isinstance(node, list):
        for part in node:
            yield from _named(part)
    elif isinstance(node, dict):
        if "relname" in node:
            yield node["relname"]
        for part in node.values():
            yield from _named(part)


def _called(node: Any) -> Iterator[str]:
    """Yield the names of the functions that a tree calls, at any depth."""
    if isinstance(node, list):
        for part in node:
            yield from _called(part)
    elif isinstance(node, dict):
        if "FuncCall" in node:
            yield node["FuncCall"]["funcname"][-1]["String"]["sval"]
        if "SQLValueFunction" in node:
            yield "now"
        for part in node.values():
            yield from _called(part)
