"""MemPalace: the Markdown folder that `export` writes, or an SQLite file of a palace.

Source: `exporter.py`, `knowledge_graph.py`, `repair.py` and `backends/sqlite_exact.py` of the package mempalace 3.11.0.
The files are `chroma.sqlite3` (the drawers), the database of the backend sqlite_exact (the same), and
`knowledge_graph.sqlite3` (triples with `valid_from` and `valid_to`).

A drawer is a context with its wing and room as tags; a triple is a fact of its subject and object. Closets, which index
the drawers, are left out.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterator
from itertools import groupby
from typing import Any, Final

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
    name,
    names,
    original,
    required,
)

_FIELD: Final = re.compile(r"\| (Source|Filed|Added by) \| (.*) \|")
_FIELDS: Final = {"Source": "source_file", "Filed": "filed_at", "Added by": "added_by"}
_CHROMA: Final = """
SELECT embeddings.embedding_id AS id, data.key, data.string_value, data.int_value, data.float_value
FROM embeddings JOIN segments ON segments.id = embeddings.segment_id
JOIN collections ON collections.id = segments.collection JOIN embedding_metadata AS data ON data.id = embeddings.id
WHERE collections.name NOT LIKE '%closets' ORDER BY embeddings.id
"""
_EXACT: Final = """
SELECT documents.* FROM documents JOIN collections ON collections.id = documents.collection_id
WHERE collections.name NOT LIKE '%closets' ORDER BY documents.rowid
"""
_TRIPLES: Final = """
SELECT triples.*, coalesce(subjects.name, subject) AS subject_name, coalesce(objects.name, object) AS object_name
FROM triples
LEFT JOIN entities AS subjects ON subjects.id = subject
LEFT JOIN entities AS objects ON objects.id = object
ORDER BY triples.rowid
"""


def read(file: File) -> Iterator[Item]:
    """Yield the drawers or triples of a database, or the drawers of a page that `export` wrote.

    Raises:
        InputError: a database without their tables, or a file without drawers.
    """
    if is_database(file):
        return _rows(file)
    return each(enumerate(_drawers(file), start=1), _drawer)


def _rows(file: File) -> Iterator[Item]:
    with database(file) as connection:
        tables = {row["name"] for row in connection.execute("SELECT name FROM sqlite_master")}
        if "triples" in tables:
            yield from each(enumerate(map(dict, connection.execute(_TRIPLES)), start=1), _triple)
        elif {"embeddings", "embedding_metadata"} <= tables:
            yield from each(enumerate(_of_chroma(connection.execute(_CHROMA)), start=1), _drawer)
        elif {"documents", "collections"} <= tables:
            yield from each(enumerate(map(_of_exact, connection.execute(_EXACT)), start=1), _drawer)
        else:
            remedy = "Give chroma.sqlite3 or knowledge_graph.sqlite3 of a palace, or a folder that export wrote."
            raise InputError("file", None, remedy, "has no drawers and no triples")


def _of_chroma(rows: sqlite3.Cursor) -> Iterator[dict[str, Any]]:
    for identity, values in groupby(rows, key=lambda row: row["id"]):
        item = {"id": identity}
        for row in values:
            value = next(
                (row[f"{kind}_value"] for kind in ("string", "int", "float") if row[f"{kind}_value"] is not None), None
            )
            item["content" if row["key"] == "chroma:document" else row["key"]] = value
        yield item


def _of_exact(row: sqlite3.Row) -> dict[str, Any]:
    try:
        metadata = json.loads(row["metadata_json"])
    except ValueError:
        metadata = {}
    return {**(metadata if isinstance(metadata, dict) else {}), "id": row["id"], "content": row["document"]}


def _drawers(file: File) -> Iterator[Any]:
    """Yield the drawers of a Markdown file, whose contents are quoted."""
    place: list[str] = []
    drawer: dict[str, Any] = {}
    with file.open() as stream:
        for line in stream:
            text = line.decode("utf-8", "replace").rstrip("\r\n")
            if text.startswith("# ") and not place:
                place = text[2:].split(" / ", 1)
            elif text.startswith("## "):
                drawer = {
                    "id": text[3:].strip(),
                    "wing": place[0] if place else None,
                    "room": place[-1] if place else None,
                }
            elif text.startswith("> ") and drawer:
                drawer["content"] = f"{drawer['content']}\n{text[2:]}" if "content" in drawer else text[2:]
            elif (field := _FIELD.fullmatch(text)) and field[2] != "unknown":
                drawer[_FIELDS[field[1]]] = field[2]
            elif text == "---" and drawer:
                yield drawer
                drawer = {}
        if drawer or not place:
            yield drawer or "a file without drawers"


def _drawer(number: int, item: dict[str, Any]) -> Record:
    content = required(item, "content")
    draft = {
        "content": content,
        "kind": "context",
        "tags": names([item.get("wing"), item.get("room")]),
        "created_at": instant("filed_at", item.get("filed_at")),
        "metadata": original(item),
        "key": name(item.get("id")) or content_hash(content),
    }
    return Record(number, draft)


def _triple(number: int, item: dict[str, Any]) -> Record:
    ends = required(item, "subject_name"), required(item, "object_name")
    content = f"{ends[0]} {required(item, 'predicate').replace('_', ' ')} {ends[1]}"
    created = instant("extracted_at", item.get("extracted_at"))
    began, ended = instant("valid_from", item.get("valid_from")), instant("valid_to", item.get("valid_to"))
    confidence = item.get("confidence")
    draft = {
        "content": content,
        "kind": "fact",
        "weight": min(1.0, max(0.1, confidence)) if isinstance(confidence, (int, float)) else 1.0,
        "entities": names(ends),
        "created_at": created or began,
        "metadata": original(item),
        "key": name(item.get("id")) or content_hash(content),
    }
    return Record(number, draft, ended=ended, began=min((one for one in (began, created) if one), default=None))
