"""Records as JSON values, back again, and the JSON Schema of each: all three read off the records' own annotations."""

from __future__ import annotations

import types
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import datetime, timedelta
from enum import Enum
from functools import cache
from typing import Any, Final, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from salience.errors import InputError, Words, wrong_type
from salience.records import ANY, Memory, Part, Scope, ScoreDetail, Via
from salience.records.checks import frozen
from salience.records.ids import ONCE

T = TypeVar("T")


def values(value: object) -> Any:
    """Return `value` as JSON values: records by the names of their fields, instants in ISO 8601, lengths in seconds.

    A memory has its `short_id` and `status` besides, and its key unless a client made that one for a single call.

    Raises:
        InputError: something that has no form in JSON.
    """
    match value:
        case None | bool() | int() | float() | str():
            return value
        case datetime():
            return value.isoformat()
        case timedelta():
            return value.total_seconds()
        case Enum():
            return value.value
        case Scope() | ScoreDetail():
            return value.as_dict()
        case Memory():
            told = {"id": value.id, "short_id": value.short_id, "status": value.status, **_record(value)}
            return told | {"key": None} if value.key is not None and value.key.startswith(ONCE) else told
        case Mapping():
            return {str(key): values(item) for key, item in value.items()}
        case _ if is_dataclass(value):
            return _record(value)
        case Iterable():
            return [values(item) for item in value]
    raise wrong_type("value", value, "Give text, numbers, true, false, null, lists or mappings.")


def _record(value: Any) -> dict[str, Any]:
    return {item.name: values(getattr(value, item.name)) for item in fields(value)}


def read(kind: type[T], told: Any) -> T:
    """Return the record of a kind that `values` told; what it does not know, it leaves out.

    Raises:
        InputError: something else; names where.
    """
    try:
        found: T = _read(kind, told, kind.__name__)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise InputError(
            kind.__name__, Words(type(error).__name__), "Give what a server of this version says.", "cannot be read"
        ) from None
    return found


def _read(kind: Any, told: Any, path: str) -> Any:
    origin, inner = get_origin(kind), get_args(kind)
    if kind is Any or kind in (str, bool, int, type(None)) or origin is Literal:
        return told
    if kind is float:
        return float(told)
    if kind is datetime:
        return datetime.fromisoformat(told)
    if kind is Scope:
        named: dict[str, Any] = {name: ANY if value == ANY.value else value for name, value in told.items()}
        return Scope(**named)
    if kind is ScoreDetail:
        return _score_detail(told)
    if origin in (Union, types.UnionType):
        return None if told is None else _read(_present(inner), told, path)
    if origin is tuple and inner[-1] is not Ellipsis:
        return tuple(_read(one, item, path) for one, item in zip(inner, told, strict=True))
    if origin is list:
        return [_read(inner[0], item, path) for item in told]
    if origin in (tuple, Sequence):
        return tuple(_read(inner[0], item, path) for item in told)
    if origin is Mapping:
        return frozen({key: _read(inner[1], item, path) for key, item in told.items()})
    return _read_record(kind, told)


def _read_record(kind: Any, told: Mapping[str, Any]) -> Any:
    hints = _hints(kind)
    return kind(**{name: _read(hint, told[name], name) for name, hint in hints.items() if name in told})


def _score_detail(told: Mapping[str, Any]) -> ScoreDetail:
    parts = tuple(Part(signal=name, **part) for name, part in told["parts"].items())
    return ScoreDetail(parts, told["final"], None if told["via"] is None else Via(**told["via"]))


@cache
def _hints(kind: Any) -> dict[str, Any]:
    hints = get_type_hints(kind)
    return {item.name: hints[item.name] for item in fields(kind) if item.init}


def _present(kinds: Sequence[Any]) -> Any:
    """Return the one kind of a union that is not null."""
    (kind,) = (kind for kind in kinds if kind is not type(None))
    return kind


_PLAIN: Final[Mapping[Any, Mapping[str, Any]]] = {
    str: {"type": "string"},
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number"},
    type(None): {"type": "null"},
    datetime: {"type": "string", "format": "date-time"},
    Any: {},
}


class Schemas:
    """JSON Schemas of records, each once, under its name.

    Args:
        prefix: what a reference to one of them starts with: `#/$defs/`, `#/components/schemas/`.
    """

    def __init__(self, prefix: str = "#/$defs/") -> None:
        self.named: dict[str, dict[str, Any]] = {}
        self._prefix = prefix

    def of(self, kind: Any) -> dict[str, Any]:
        """Return the schema of what `values` tells of a kind; records go into `named`, and are referred to."""
        origin, inner = get_origin(kind), get_args(kind)
        if kind in _PLAIN:
            return dict(_PLAIN[kind])
        if origin is Literal:
            return {"enum": list(inner)}
        if origin in (Union, types.UnionType):
            return {"anyOf": [self.of(one) for one in inner]}
        if origin is tuple and inner[-1] is not Ellipsis:
            items = {"anyOf": [self.of(one) for one in inner]}  # not one by one, which few readers understand
            return {"type": "array", "items": items, "minItems": len(inner), "maxItems": len(inner)}
        if origin in (tuple, Sequence, list):
            return {"type": "array", "items": self.of(inner[0])}
        if origin is Mapping:
            return {"type": "object", "additionalProperties": self.of(inner[1])}
        return self._record(kind)

    def _record(self, kind: Any) -> dict[str, Any]:
        if kind.__name__ not in self.named:
            self.named[kind.__name__] = {}  # against a kind that holds itself
            made = _SPECIAL.get(kind, Schemas._fields)(self, kind)
            self.named[kind.__name__] = {"description": _first_line(kind), **made}
        return {"$ref": self._prefix + kind.__name__}

    def _fields(self, kind: Any) -> dict[str, Any]:
        properties = {name: self.of(hint) for name, hint in _hints(kind).items()}
        if kind is Memory:
            status = get_type_hints(Memory.status.fget)["return"]  # type: ignore[attr-defined]
            properties |= {"short_id": self.of(str), "status": self.of(status)}
        return _object(properties)

    def _scope(self, kind: Any) -> dict[str, Any]:
        coordinates = {item.name: dict(_PLAIN[str]) for item in fields(kind) if item.name != "tenant"}
        return {"type": "object", "properties": coordinates, "additionalProperties": False}

    def _parts(self, _: Any) -> dict[str, Any]:
        part = {name: self.of(hint) for name, hint in _hints(Part).items() if name != "signal"}
        parts = {"type": "object", "additionalProperties": _object(part)}
        return _object({"parts": parts, "final": self.of(float), "via": self.of(Via | None)})


_SPECIAL: Final = {Scope: Schemas._scope, ScoreDetail: Schemas._parts}
"""Records that are told otherwise than by their fields."""


def _object(properties: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": dict(properties), "required": list(properties)}


def _first_line(kind: Any) -> str:
    return str(kind.__doc__ or kind.__name__).strip().splitlines()[0]
