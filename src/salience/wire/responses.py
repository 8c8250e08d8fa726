"""Responses: converts records to JSON and back, and makes their JSON Schemas, from the annotations of the records."""

from __future__ import annotations

import types
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import datetime, timedelta
from enum import Enum
from functools import cache
from typing import Any, Final, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from salience.errors import InputError, Words, wrong_type
from salience.records import ANY, Erased, Memory, Part, Recall, Scope, ScoreDetail, Verdict, Via
from salience.records.checks import frozen
from salience.records.ids import ONCE

T = TypeVar("T")


def to_json(value: object) -> Any:
    """Return a record as JSON values: field names as keys, times in ISO 8601, durations in seconds.

    A memory also has `short_id` and `status`, and a recall its `verdict`. The key of a memory is null if a client
    generated it for one call. Raises `InputError` for values without a JSON form.
    """
    match value:
        case Erased():
            return {"erased": int(value), "recalls": value.recalls, "pending": value.pending}
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
            found = {"id": value.id, "short_id": value.short_id, "status": value.status, **_record(value)}
            return found | {"key": None} if value.key is not None and value.key.startswith(ONCE) else found
        case Recall():
            return {**_record(value), "verdict": value.verdict}
        case Mapping():
            return {str(key): to_json(item) for key, item in value.items()}
        case _ if is_dataclass(value):
            return _record(value)
        case Iterable():
            return [to_json(item) for item in value]
    raise wrong_type("value", value, "Give text, numbers, true, false, null, lists or mappings.")


def _record(value: Any) -> dict[str, Any]:
    return {item.name: to_json(getattr(value, item.name)) for item in fields(value) if item.init}


def from_json(kind: type[T], data: Any) -> T:
    """Return the record that `to_json` wrote, ignoring unknown fields; raise `InputError` for other data."""
    try:
        return cast("T", _read(kind, data))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        remedy = "Use the same version of Salience on both sides."
        raise InputError(kind.__name__, Words(type(error).__name__), remedy, "cannot be read") from None


def _read(kind: Any, data: Any) -> Any:
    origin, inner = get_origin(kind), get_args(kind)
    if kind is Any or kind in (str, bool, int, type(None)) or origin is Literal:
        return data
    if kind is float:
        return float(data)
    if kind is datetime:
        return datetime.fromisoformat(data)
    if kind is Scope:
        named: dict[str, Any] = {name: ANY if value == ANY.value else value for name, value in data.items()}
        return Scope(**named)
    if kind is Erased:
        return Erased(data["erased"], data.get("recalls", 0), data.get("pending", False))
    if kind is ScoreDetail:
        return ScoreDetail.from_dict(data)
    if origin in (Union, types.UnionType):
        (present,) = (one for one in inner if one is not type(None))
        return None if data is None else _read(present, data)
    if origin is tuple and inner[-1] is not Ellipsis:
        return tuple(_read(one, item) for one, item in zip(inner, data, strict=True))
    if origin is list:
        return [_read(inner[0], item) for item in data]
    if origin in (tuple, Sequence):
        return tuple(_read(inner[0], item) for item in data)
    if origin is Mapping:
        return frozen({key: _read(inner[1], item) for key, item in data.items()})
    return kind(**{name: _read(hint, data[name]) for name, hint in _hints(kind).items() if name in data})


@cache
def _hints(kind: Any) -> dict[str, Any]:
    hints = get_type_hints(kind)
    return {item.name: hints[item.name] for item in fields(kind) if item.init}


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
    """JSON Schemas of records, by name; `prefix` begins references: `#/$defs/` or `#/components/schemas/`."""

    def __init__(self, prefix: str = "#/$defs/") -> None:
        self.named: dict[str, dict[str, Any]] = {}
        self._prefix = prefix

    def of(self, kind: Any) -> dict[str, Any]:
        """Return the schema of `to_json` for a type; adds records to `named` and references them."""
        origin, inner = get_origin(kind), get_args(kind)
        if kind in _PLAIN:
            return dict(_PLAIN[kind])
        if origin is Literal:
            return {"type": "string", "enum": list(inner)}
        if origin in (Union, types.UnionType):
            return {"anyOf": [self.of(one) for one in inner]}
        if origin is tuple and inner[-1] is not Ellipsis:
            items = {"anyOf": [self.of(one) for one in inner]}  # many readers do not know `prefixItems`
            return {"type": "array", "items": items, "minItems": len(inner), "maxItems": len(inner)}
        if origin in (tuple, Sequence, list):
            return {"type": "array", "items": self.of(inner[0])}
        if origin is Mapping:
            return {"type": "object", "additionalProperties": self.of(inner[1])}
        if kind.__name__ not in self.named:
            self.named[kind.__name__] = {}  # ends the recursion of a type that contains itself
            summary = str(kind.__doc__ or kind.__name__).strip().splitlines()[0]
            self.named[kind.__name__] = {"description": summary, **self._record(kind)}
        return {"$ref": self._prefix + kind.__name__}

    def _record(self, kind: Any) -> dict[str, Any]:
        if kind is Scope:
            coordinates = {item.name: dict(_PLAIN[str]) for item in fields(kind) if item.name != "tenant"}
            return {"type": "object", "properties": coordinates, "additionalProperties": False}
        if kind is Erased:
            return _object({"erased": self.of(int), "recalls": self.of(int), "pending": self.of(bool)})
        if kind is ScoreDetail:
            part = {name: self.of(hint) for name, hint in _hints(Part).items() if name != "signal"}
            parts = {"type": "object", "additionalProperties": _object(part)}
            return _object({"parts": parts, "final": self.of(float), "via": self.of(Via | None)})
        properties = {name: self.of(hint) for name, hint in _hints(kind).items()}
        if kind is Memory:
            status = get_type_hints(Memory.status.fget)["return"]  # type: ignore[attr-defined]
            properties |= {"short_id": self.of(str), "status": self.of(status)}
        if kind is Recall:
            properties |= {"verdict": self.of(Verdict)}
        return _object(properties)


def _object(properties: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": dict(properties), "required": list(properties)}
