"""A memory as a row of the tables, and back."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from datetime import datetime
from functools import lru_cache
from operator import index
from typing import Any, Final

import numpy as np
from sqlalchemy import RowMapping

from salience.batch import Tokens, Vectors32, packed, unpacked
from salience.errors import DamagedError
from salience.ports import Interval, Stored
from salience.records import ANY, TIERS, LoggedHit, LoggedRecall, Memory, Relation, Scope, ScoreDetail
from salience.records.checks import Frozen, frozen
from salience.store.schema import memories
from salience.store.values import EPOCH, MICROSECOND, fitting, fitting_tokens, microseconds

Row = RowMapping | Mapping[str, Any]
_COORDINATES: Final = tuple(item.name for item in fields(Scope))
_INSTANTS: Final = (
    "created_at", "updated_at", "tier_since", "changed_at", "accessed_at", "expires_at", "forgotten_at",
)  # fmt: skip
_LISTS: Final = ("tags", "entities", "sources")
_PLAIN: Final = tuple(
    item.name
    for item in fields(Memory)
    if item.name not in ("scope", "metadata", "relations", "replaced_by", *_INSTANTS, *_LISTS)
)
RECORD: Final = (*_COORDINATES, *_PLAIN, *_INSTANTS, *_LISTS, "metadata", "relations")
"""Columns that make up a `Memory`."""
STORED: Final = (*RECORD, "terms", "distinctions", "event_start", "event_end", "vector", "tokens")
"""Columns that make up a `Stored`, but for its activations."""
_KINDS: Final[Mapping[str, str]] = {
    **dict.fromkeys((*_COORDINATES, *_PLAIN), "text"),
    **dict.fromkeys(_INSTANTS, "instant"),
    **dict.fromkeys(_LISTS, "list"),
    "metadata": "object",
    "relations": "relations",
    "tier": "tier",
    **dict.fromkeys(("importance", "weight"), "share"),
    **dict.fromkeys(("access_count", "version", "turn"), "number"),
}
"""Column of `RECORD` -> kind of its values."""
_REQUIRED: Final = frozenset(column.name for column in memories.c if not column.nullable)
UNREADABLE: Final = (ArithmeticError, LookupError, RecursionError, TypeError, ValueError)
"""Errors of reading a value that no code has written."""
_json: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=datetime.isoformat).encode
_scope: Final = lru_cache(maxsize=1024)(Scope)  # many memories share one


@contextmanager
def readable() -> Iterator[None]:
    """Raise errors of reading damaged rows as `DamagedError`."""
    try:
        yield
    except UNREADABLE:  # the error may quote the row
        message = "store: a memory in it cannot be read, the file is damaged. To see which one: salience doctor"
        raise DamagedError(message) from None


def of_memory(memory: Memory) -> dict[str, Any]:
    """Return the values of `RECORD`, and the home."""
    row = {name: getattr(memory.scope, name) for name in _COORDINATES}
    row |= {name: getattr(memory, name) for name in _PLAIN}
    for name in _INSTANTS:
        moment = getattr(memory, name)
        row[name] = None if moment is None else microseconds(moment)
    row |= {name: _json(list(getattr(memory, name))) for name in _LISTS}
    return row | {
        "metadata": _json(dict(memory.metadata)),
        "relations": of_relations(memory.relations),
        "home": memory.scope.home_key,
    }


def of_relations(relations: Sequence[Relation] | None) -> str | None:
    """Return relations as JSON; None while they are not decided."""
    return None if relations is None else _json([relation.as_dict() for relation in relations])


def relations_at(value: str | None, moment: int) -> str | None:
    """Return the column `relations` as it was at an instant, in microseconds: without what was decided later."""
    if value is None or '"at"' not in value:
        return value
    with readable():
        relations = [Relation(**one) for one in json.loads(value)]
    return of_relations([one for one in relations if one.at is None or microseconds(one.at) <= moment])


def of_stored(stored: Stored, dimension: int) -> dict[str, Any]:
    """Return the values of `STORED`, and the home.

    Raises:
        InputError: a vector of another length, or token vectors of another form.
    """
    vector = None if stored.vector is None else of_vector(fitting(stored.vector, dimension))
    return of_memory(stored.memory) | {
        "terms": " ".join(stored.terms),
        "distinctions": "\n".join(stored.distinctions),
        **of_event(stored.event),
        "vector": vector,
        "tokens": None if vector is None else of_tokens(stored.tokens),
    }


def of_event(event: Interval | None) -> dict[str, int | None]:
    """Return the columns of the time that a text states."""
    start, end = (None, None) if event is None else map(microseconds, event)
    return {"event_start": start, "event_end": end}


def of_vector(vector: Vectors32 | None) -> bytes | None:
    """Return float32[d] as bytes, little endian."""
    return None if vector is None else vector.astype("<f4", copy=False).tobytes()


def of_tokens(tokens: Tokens | None) -> bytes | None:
    """Return token vectors as bytes; raise as `fitting_tokens`."""
    return None if tokens is None else packed(fitting_tokens(tokens))


_TRACED: Final = ("profile", "limit", "min_score", "now", "as_of", "confident", "count")
"""Fields of a logged recall that its trace has as they are."""


def of_logged(entry: LoggedRecall) -> dict[str, Any]:
    """Return an entry of the recall log as a row."""
    hits = [
        {"id": hit.id, "score": hit.score, "confidence": hit.confidence, "score_detail": hit.score_detail.as_dict()}
        for hit in entry.hits
    ]
    trace = {name: getattr(entry, name) for name in _TRACED} | {
        "filter": dict(entry.filter),
        "hits": hits,
        "timings": dict(entry.timings),
    }
    return dict.fromkeys(_COORDINATES) | {
        "tenant": entry.scope.tenant,
        **entry.scope.as_dict(),
        "id": entry.id,
        "at": microseconds(entry.at),
        "expires_at": microseconds(entry.expires_at),
        "question": entry.question,
        "cited": "\n".join(sorted(entry.cited)),
        "trace": _json(trace),
    }


def to_logged(row: Row) -> LoggedRecall:
    """Return the entry of the recall log in a row.

    Raises:
        DamagedError: a value that no entry has.
    """
    with readable():
        trace = json.loads(row["trace"])
        for name in ("now", "as_of"):
            trace[name] = None if trace[name] is None else datetime.fromisoformat(trace[name])
        trace |= {name: frozen(trace[name]) for name in ("filter", "timings")}
        trace["hits"] = tuple(
            LoggedHit(**{**hit, "score_detail": ScoreDetail.from_dict(hit["score_detail"])}) for hit in trace["hits"]
        )
        coordinates: list[Any] = [ANY if row[name] == ANY.value else row[name] for name in _COORDINATES]
        own = {name: row[name] for name in ("id", "question")}
        return LoggedRecall(
            at=_instant(row["at"]), expires_at=_instant(row["expires_at"]), scope=Scope(*coordinates), **own, **trace
        )


def to_terms(joined: str) -> tuple[str, ...]:
    """Return the terms of a row."""
    return tuple(joined.split(" ")) if joined else ()


def to_memory(row: Row) -> Memory:
    """Return the memory whose `RECORD` columns are in `row`; raise as `to_memories`."""
    return to_memories([[row[name] for name in RECORD]])[0]


def to_memories(rows: Sequence[Sequence[Any]]) -> list[Memory]:
    """Return the memories in rows of the columns `RECORD`.

    Raises:
        DamagedError: a value that no memory has; names the row and the column.
    """
    if not rows:
        return []
    columns: dict[str, Sequence[Any]] = dict(zip(RECORD, zip(*rows, strict=True), strict=True))
    column = "tenant"
    try:
        for column, values in columns.items():
            given = values if column in _REQUIRED else [value for value in values if value is not None]
            if len(given) == len(values):
                columns[column] = _READERS[_KINDS[column]](given)
            elif given:
                read = iter(_READERS[_KINDS[column]](given))
                columns[column] = [None if value is None else next(read) for value in values]
        column = "tenant"
        scopes = list(map(_scope, *map(columns.pop, _COORDINATES)))
        names = tuple(columns)
        return [
            Memory(scope=scope, **dict(zip(names, values, strict=True)))
            for scope, *values in zip(scopes, *columns.values(), strict=True)
        ]
    except UNREADABLE:  # the error may quote the row
        if len(rows) > 1:
            return [memory for row in rows for memory in to_memories([row])]
        raise damaged(dict(zip(RECORD, rows[0], strict=True)), column) from None


def _texts(values: Sequence[str]) -> Sequence[str]:
    "".join(values).encode()  # fails for another type, and for bytes that were not UTF-8
    return values


def _shares(values: Sequence[float]) -> Sequence[float]:
    if not all(0 <= value <= 1 for value in values):
        raise ValueError("not from 0 to 1")
    return values


def _tiers(values: Sequence[str]) -> Sequence[str]:
    if not set(values).issubset(TIERS):
        raise ValueError("no tier")
    return values


_READERS: Final[Mapping[str, Callable[[Sequence[Any]], Sequence[Any]]]] = {
    "text": _texts,
    "instant": lambda values: [_instant(value) for value in values],  # fails outside the years 1 to 9999
    "list": lambda values: [() if value == "[]" else tuple(_parsed(value, list)) for value in values],
    "object": lambda values: [Frozen() if value == "{}" else frozen(_parsed(value, dict)) for value in values],
    "relations": lambda values: [
        () if value == "[]" else tuple(Relation(**one) for one in json.loads(value)) for value in values
    ],
    "number": lambda values: list(map(index, values)),
    "share": _shares,
    "tier": _tiers,
}
"""Kind of a column -> function from its values in rows to those of memories."""


def _parsed(value: Any, kind: Any) -> Any:
    """Return a JSON object, or a JSON list of texts."""
    if not is_text(value):
        raise ValueError("no text")
    found = json.loads(value)
    if type(found) is not kind or (kind is list and not all(isinstance(item, str) for item in found)):
        raise ValueError("another type")
    return found


def to_stored(row: Row, activations: Mapping[str, int]) -> Stored:
    """Return the memory with its derived data in `row`, whose columns are those of `STORED`.

    Raises:
        DamagedError: a value that no memory has; names the row and the column.
    """
    memory = to_memory(row)
    for column in ("terms", "distinctions"):
        if not isinstance(row[column], str):
            raise damaged(row, column)
    column = "vector"
    try:
        vector = None if row["vector"] is None else np.frombuffer(row["vector"], "<f4")
        column = "tokens"
        tokens = None if row["tokens"] is None else unpacked(row["tokens"])
    except UNREADABLE:
        raise damaged(row, column) from None
    try:
        event = None if row["event_start"] is None else (_instant(row["event_start"]), _instant(row["event_end"]))
    except UNREADABLE:
        raise damaged(row, "event_start") from None
    distinctions = tuple(row["distinctions"].split("\n")) if row["distinctions"] else ()
    return Stored(memory, vector, to_terms(row["terms"]), Frozen(activations), distinctions, tokens, event)


def _instant(value: Any) -> datetime:
    return EPOCH + index(value) * MICROSECOND


def damaged(row: Row, column: str) -> DamagedError:
    """Return the error for a row with a damaged column; it shows no value but the id and the version."""
    found, version = row["id"] if is_text(row["id"]) else None, row["version"]
    which = "of an id that cannot be read" if found is None else repr(found)
    at = f" (version {version})" if isinstance(version, int) else ""
    message = f"store: memory {which}{at} cannot be read: its column {column!r} is damaged. Run: salience doctor"
    return DamagedError(message, found, column)


def is_text(value: object) -> bool:
    """Return whether a value is text that came from UTF-8; other bytes come as lone surrogates."""
    if not isinstance(value, str):
        return False
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
