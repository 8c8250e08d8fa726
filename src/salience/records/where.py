"""Conditions on metadata, such as `{"plan": "pro", "seats": {"$gte": 5}}`, with the operators of LangGraph's stores."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
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
"""Maximum number of keys, and of values of `$in`."""
LARGEST: Final = 2**53
"""Largest number, positive or negative: up to it, a number in JSON is exact everywhere."""
KEY_PATTERN: Final = r'^[^\s\x00-\x1f\x7f-\x9f"\\$][^\x00-\x1f\x7f-\x9f"\\]*$'
"""Keys that every store can look up."""
_VALUES: Final = [
    {"type": "string", "pattern": r"^[^\x00]*$"},
    {"type": "number", "minimum": -LARGEST, "maximum": LARGEST},
    {"type": "boolean"},
    {"type": "null"},
]
_OPERANDS: Final[Mapping[str, Any]] = {
    "$eq": {"anyOf": _VALUES},
    "$ne": {"anyOf": _VALUES},
    "$in": {"type": "array", "maxItems": LIMIT, "items": {"anyOf": _VALUES}},
    **{one: {"anyOf": _VALUES[:2]} for one in ORDERED},
}
SCHEMA: Final[Mapping[str, Any]] = {
    "type": "object",
    "maxProperties": LIMIT,
    "propertyNames": {"maxLength": checks.NAME_LIMIT, "pattern": KEY_PATTERN},
    "additionalProperties": {
        "anyOf": [
            *_VALUES,
            {"type": "object", "minProperties": 1, "properties": _OPERANDS, "additionalProperties": False},
        ]
    },
}
"""The JSON Schema of conditions."""


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition on one value of the metadata.

    Attributes:
        key: of the value.
        operator: one of `OPERATORS`.
        operand: text, a number, true, false or None; for `$in` a tuple of these.
    """

    key: str
    operator: str
    operand: Any

    def accepts(self, metadata: Mapping[str, Any]) -> bool:
        """Return whether metadata meets the condition. A missing value is None; values of two types are not equal."""
        found = metadata.get(self.key)
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
    return tuple(
        Condition(key, each, operand)
        for key, wanted in where.items()
        for each, operand in (wanted.items() if isinstance(wanted, Mapping) else [("$eq", wanted)])
    )


def checked(where: object) -> checks.Frozen:
    """Return an immutable copy of a mapping of keys to values or operators.

    Raises:
        InputError: another value, an unknown operator, too many keys, or a key that no store can look up.
    """
    found = checks.metadata("where", where)
    if len(found) > LIMIT:
        raise InputError("where", Words(f"{len(found):,} keys"), f"Give up to {LIMIT}.", f"has {len(found):,} keys")
    for key, wanted in found.items():
        name = f"where.{key}"
        if key in OPERATORS:
            raise InputError(name, Words("an operator"), "Put it below a key.", "is an operator without a key")
        if not re.fullmatch(KEY_PATTERN[1:-1], key):
            remedy = "Use keys without quotes and backslashes, and without a space or $ at the start."
            raise InputError(name, key, remedy, "is no key to look up")
        if isinstance(wanted, Mapping) and not wanted:
            raise InputError(name, Words("an empty object"), "Give a value, or an operator such as $gte.")
    for condition in conditions(found):
        _check(f"where.{condition.key}", condition)
    return found


def _check(name: str, condition: Condition) -> None:
    each, operand = condition.operator, condition.operand
    if each not in OPERATORS:
        raise unknown(name, each, OPERATORS)
    if each == "$in":
        if not isinstance(operand, tuple) or len(operand) > LIMIT:
            raise InputError(f"{name}.$in", operand, f"Give a list of up to {LIMIT} values.")
        for place, one in enumerate(operand):
            _check_value(f"{name}.$in[{place}]", one)
        return
    path = name if each == "$eq" else f"{name}.{each}"
    _check_value(path, operand)
    if each in ORDERED and kind_of(operand) not in ("text", "number"):
        raise InputError(path, operand, "Give text or a number.")


def _check_value(name: str, value: Any) -> None:
    kind = kind_of(value)
    if kind == "other":
        raise wrong_type(name, value, "Give text, a number, true, false or null; a list goes with $in.")
    if kind == "number" and abs(value) > LARGEST:
        raise InputError(name, value, f"Give a number from -{LARGEST:,} to {LARGEST:,}.")
