"""Conditions on metadata, such as `{"plan": "pro", "seats": {"$gte": 5}}`, with the operators of LangGraph's stores."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from salience.errors import InputError, Words, unknown, wrong_type
from salience.records import checks

Kind = Literal["text", "number", "boolean", "nothing", "other"]
ORDERED: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "$gt": operator.gt, "$gte": operator.ge, "$lt": operator.lt, "$lte": operator.le,
}  # fmt: skip
"""Operators that compare two texts or two numbers."""
OPERATORS: Final = ("$eq", "$ne", "$in", *ORDERED)
LIMIT: Final = 100
"""Maximum number of conditions, and of values of `$in`."""


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition on one value of the metadata.

    Attributes:
        path: the keys that lead to the value.
        operator: one of `OPERATORS`.
        operand: text, a number, true, false or None; for `$in` a tuple of these.
    """

    path: tuple[str, ...]
    operator: str
    operand: Any

    def accepts(self, metadata: Mapping[str, Any]) -> bool:
        """Return whether metadata meets the condition. A missing value is None; values of two types are not equal."""
        found: Any = metadata
        for key in self.path:
            found = found.get(key) if isinstance(found, Mapping) else None
        match self.operator:
            case "$eq":
                return _equal(found, self.operand)
            case "$ne":
                return not _equal(found, self.operand)
            case "$in":
                return any(_equal(found, one) for one in self.operand)
        kind = kind_of(found)
        is_ordered = kind in ("text", "number") and kind == kind_of(self.operand)
        return is_ordered and ORDERED[self.operator](found, self.operand)


def kind_of(value: object) -> Kind:
    """Return the type of a JSON value; `other` for lists and mappings."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "boolean"
    return "text" if isinstance(value, str) else "number" if isinstance(value, int | float) else "other"


def _equal(found: Any, wanted: Any) -> bool:
    return kind_of(found) == kind_of(wanted) and bool(found == wanted)


def conditions(where: Mapping[str, Any]) -> tuple[Condition, ...]:
    """Return the conditions of a checked mapping; all must hold."""
    return tuple(_conditions("where", where, ()))


def checked(where: object) -> checks.Frozen:
    """Return an immutable copy of a mapping of keys to values or operators.

    Raises:
        InputError: another value, an unknown operator, too many conditions, or a key that no store can look up.
    """
    frozen = checks.metadata("where", where)
    if (count := len(conditions(frozen))) > LIMIT:
        raise InputError("where", Words(f"{count:,} conditions"), f"Give up to {LIMIT}.", f"has {count:,} conditions")
    return frozen


def _conditions(field: str, where: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[Condition]:
    for key, wanted in where.items():
        name, here = f"{field}.{key}", (*path, key)
        if key.startswith("$"):
            remedy = f"Put it below a key, such as {{'seats': {{'{OPERATORS[3]}': 5}}}}."
            raise InputError(name, Words("an operator"), remedy, "is an operator without a key")
        if {*key} & {*'"\\'}:
            raise InputError(name, key, "Use keys without quotes and backslashes.", "has a quote or a backslash")
        if not isinstance(wanted, Mapping):
            yield Condition(here, "$eq", _scalar(name, wanted))
        elif not any(inner.startswith("$") for inner in wanted):
            if not wanted:
                raise InputError(name, Words("an empty object"), "Give a value, or an operator such as $gte.")
            yield from _conditions(name, wanted, here)
        else:
            for each, operand in wanted.items():
                yield _condition(name, here, each, operand)


def _condition(name: str, path: tuple[str, ...], each: str, operand: Any) -> Condition:
    if each not in OPERATORS:
        raise unknown(name, each, OPERATORS)
    if each == "$in":
        if not isinstance(operand, list | tuple) or len(operand) > LIMIT:
            raise InputError(f"{name}.$in", operand, f"Give a list of up to {LIMIT} values.")
        return Condition(path, each, tuple(_scalar(f"{name}.$in[{n}]", one) for n, one in enumerate(operand)))
    if each in ORDERED and kind_of(operand) not in ("text", "number"):
        raise InputError(f"{name}.{each}", operand, "Give text or a number.")
    return Condition(path, each, _scalar(f"{name}.{each}", operand))


def _scalar(name: str, value: Any) -> Any:
    if kind_of(value) == "other":
        raise wrong_type(name, value, "Give text, a number, true, false or null; lists go with $in.")
    return value
