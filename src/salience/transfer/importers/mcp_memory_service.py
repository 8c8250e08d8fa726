"""mcp-memory-service: its JSON export, or its SQLite file.

Source: `sync/exporter.py`, `storage/mixins/migrations.py` and `storage/migrations/011_memory_evolution_p1.sql` of the
package mcp-memory-service 12.4.0. The export is an object with the list `memories`; the file has the table `memories`,
whose tags are separated by commas. Deleted memories are left out. `superseded_by` has the hash of a newer memory.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from salience.errors import InputError
from salience.text import content_hash
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
    names,
    original,
    required,
)


def read(file: File) -> Iterator[Item]:
    """Yield the memories of an export, or of a database; raises `InputError` if the file is neither."""
    if is_database(file):
        return _rows(file)
    found = list(known(json_items(file, "memories"), "mcp-memory-service", "content"))
    replaced: dict[str, list[str]] = {}
    for _, item in found:
        metadata = item.get("metadata") if isinstance(item, dict) else None
        if isinstance(metadata, dict) and isinstance(metadata.get("superseded_by"), str):
            replaced.setdefault(metadata["superseded_by"], []).append(str(item.get("content_hash")))
    return each(found, lambda number, item: _record(number, item, replaced))


def _rows(file: File) -> Iterator[Item]:
    with database(file) as connection:
        columns = {row["name"] for row in connection.execute("PRAGMA table_info(memories)")}
        if "content_hash" not in columns:
            raise InputError("file", None, "Give the database of mcp-memory-service.", "has no table of its memories")
        replaced: dict[str, list[str]] = {}
        if "superseded_by" in columns:
            query = "SELECT superseded_by, content_hash FROM memories WHERE superseded_by <> ''"
            for newer, older in connection.execute(query):
                replaced.setdefault(newer, []).append(older)
        live = "SELECT * FROM memories WHERE deleted_at IS NULL ORDER BY id"
        rows = connection.execute(live if "deleted_at" in columns else "SELECT * FROM memories ORDER BY id")
        yield from each(enumerate(map(_item, rows), start=1), lambda number, item: _record(number, item, replaced))


def _item(row: sqlite3.Row) -> dict[str, Any]:
    item = {field: row[field] for field in row.keys() if not isinstance(row[field], bytes)}  # noqa: SIM118
    with suppress(ValueError):  # else it stays a text
        item["metadata"] = json.loads(item.get("metadata") or "{}")
    return item


def _record(number: int, item: dict[str, Any], replaced: dict[str, list[str]]) -> Record:
    content = required(item, "content")
    identity = name(item.get("content_hash")) or content_hash(content)
    tags = item.get("tags") or ()
    older = replaced.get(identity, ())
    draft = {
        "content": content,
        "kind": name(item.get("memory_type")) or "fact",
        "tags": names(tags.split(",") if isinstance(tags, str) else tags),
        "created_at": instant("created_at", item.get("created_at") or item.get("created_at_iso")),
        "metadata": original({field: value for field, value in item.items() if field != "embedding"}),
        "key": identity,
    }
    return Record(number, draft, supersedes=older[0] if older else None)
