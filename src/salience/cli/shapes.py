"""Values of the API as JSON values, under the API's names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime
from enum import Enum
from typing import Any

from salience.records import Memory, Scope, ScoreDetail


def values(value: object) -> Any:
    """Return `value` as JSON values: records by the names of their fields, instants in ISO 8601.

    A memory has its `short_id` and `status` besides.
    """
    match value:
        case None | bool() | int() | float() | str():
            return value
        case datetime():
            return value.isoformat()
        case Enum():
            return value.value
        case Scope() | ScoreDetail():
            return value.as_dict()
        case Memory():
            return {"id": value.id, "short_id": value.short_id, "status": value.status, **_record(value)}
        case Mapping():
            return {str(key): values(item) for key, item in value.items()}
        case _ if is_dataclass(value):
            return _record(value)
        case Iterable():
            return [values(item) for item in value]
    raise TypeError(f"no JSON form of {type(value).__name__}")


def _record(value: Any) -> dict[str, Any]:
    return {item.name: values(getattr(value, item.name)) for item in fields(value)}
