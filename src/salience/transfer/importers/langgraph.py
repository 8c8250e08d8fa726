"""Items of a LangGraph store: a dump as JSON, or the file of a `SqliteStore`.

A dump has one `Item.dict()` (`namespace`, `key`, `value`, `created_at`, `updated_at`) per line, in a list, or in the
`items` of an answer of the LangGraph server: https://reference.langchain.com/python/langgraph/store/. `SqliteStore`
keeps the same fields in the table `store`, with the labels of the namespace joined by dots:
https://github.com/langchain-ai/langgraph/blob/main/libs/checkpoint-sqlite/langgraph/store/sqlite/base.py.

LangGraph has no users: applications write them into the namespace. A label after `user`, `agent`, `project`, `session`
or `thread` (or their plurals) becomes that coordinate of the scope. The other labels become the user id, joined by
`/`, without words for a collection such as `memories`; so memories of two users never become visible to each other.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from salience.errors import InputError, Words
from salience.lines import parsed
from salience.records import checks
from salience.transfer.importers.records import (
    File,
    Item,
    Record,
    database,
    each,
    instant,
    is_database,
    json_items,
    known,
    name,
    original,
)

COORDINATES: Final = {
    label: coordinate
    for coordinate, labels in {
        "user_id": ("user", "users", "user_id"),
        "agent_id": ("agent", "agents", "agent_id", "assistant", "assistants", "assistant_id"),
        "project": ("project", "projects", "project_id"),
        "session_id": ("session", "sessions", "session_id", "thread", "threads", "thread_id"),
    }.items()
    for label in labels
}
"""Labels of a namespace that say what the next label is."""
COLLECTIONS: Final = frozenset(
    "collection docs documents facts history knowledge long_term memories memory notes preferences profile profiles "
    "semantic episodic procedural shared store".split()
)
"""Labels that name a collection and no user."""
TEXTS: Final = ("content", "text", "memory", "data")
"""Fields of a value that hold its text, first match wins; langmem nests `content`."""


def read(file: File) -> Iterator[Item]:
    """Yield a memory for each item."""
    items = _rows(file) if is_database(file) else known(json_items(file, "items"), "LangGraph", "namespace")
    return each(items, _record)


def _rows(file: File) -> Iterator[tuple[int, Any]]:
    """Yield the items in a SQLite file; for an invalid one the error, which `each` reports."""
    with database(file) as connection:
        columns = {row["name"] for row in connection.execute("PRAGMA table_info(store)")}
        if not {"prefix", "key", "value"} <= columns:
            raise InputError("file", None, "Give the file of a SqliteStore.", "has no table of a LangGraph store")
        for number, row in enumerate(connection.execute("SELECT * FROM store ORDER BY prefix, key"), start=1):
            item = dict(row)
            item["namespace"] = str(item.pop("prefix")).split(".")
            try:
                item["value"] = parsed(item["value"])
            except (TypeError, ValueError):
                yield number, InputError("value", Words("no JSON"), "Take the row out.", "is not JSON")
            else:
                yield number, item


def _record(number: int, item: dict[str, Any]) -> Record:
    namespace = item.get("namespace")
    if isinstance(namespace, str):
        namespace = namespace.split(".")
    if not isinstance(namespace, list) or not all(isinstance(label, str) and label.strip() for label in namespace):
        raise InputError("namespace", namespace, "Give a list of texts.")
    item_key = checks.text("key", item.get("key"))
    draft = {
        "content": checks.text("value", _text(item.get("value"))),
        "key": ":".join((*namespace, item_key)),
        "created_at": instant("created_at", item.get("created_at")),
        "metadata": original(item),
        **scope(namespace),
    }
    return Record(number, draft, ended=instant("expires_at", item.get("expires_at")))


def scope(namespace: Sequence[str]) -> dict[str, str]:
    """Return the coordinates of the scope that a namespace names."""
    found: dict[str, str] = {}
    others, labels = [], iter(namespace)
    for label in labels:
        coordinate = COORDINATES.get(label.lower())
        following = None if coordinate is None or coordinate in found else next(labels, None)
        if coordinate is not None and following is not None:
            found[coordinate] = following
        elif coordinate is None and label.lower() not in COLLECTIONS:
            others.append(label)
    if others:
        found["user_id"] = "/".join(filter(None, (found.get("user_id"), *others)))
    return {coordinate: clean for coordinate, value in found.items() if (clean := name(value))}


def _text(value: object) -> object:
    """Return the text of a value: a text, one in a field of `TEXTS`, or its fields as lines `field: value`."""
    while isinstance(value, Mapping):
        inner = next((value[field] for field in TEXTS if value.get(field)), None)
        if not isinstance(inner, (str, Mapping)):
            break
        value = inner
    if not isinstance(value, (Mapping, list)):
        return value
    plain = original(value)["original"]
    if not isinstance(plain, Mapping):
        return _shown(plain)
    return "\n".join(f"{field}: {_shown(one)}" for field, one in plain.items() if one not in (None, "", [], {}))


def _shown(value: object) -> str:
    """Return a text as it is, and other values as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
