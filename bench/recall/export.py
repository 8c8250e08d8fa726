"""A corpus as an export file of Salience, with its vectors."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from bench.recall.corpus import Block, Entry
from bench.recall.lookup import Lookup
from salience.text import content_hash

BEGIN: Final = datetime(2024, 1, 1, tzinfo=UTC)
"""When the first memory was stored; each of the others follows half a minute after the one before."""
PACE: Final = timedelta(seconds=30)


def write(path: Path, blocks: Iterable[Block]) -> None:
    """Write the memories of all blocks to a file."""
    with path.open("w", encoding="utf-8") as file:
        file.writelines(lines(blocks))


def lines(blocks: Iterable[Block]) -> Iterator[str]:
    """Yield the file's lines."""
    header = {"format": "salience", "version": 1, "embedder": Lookup.name, "dimension": Lookup.dimension}
    yield json.dumps(header) + "\n"
    for block in blocks:
        for entry, vector in zip(block.entries(), block.vectors.astype("<f4"), strict=True):
            yield json.dumps(record(entry) | {"vector": b64encode(vector.tobytes()).decode("ascii")}) + "\n"


def id_of(row: int) -> str:
    """Return the id of a row's memory."""
    return f"{row:032x}"


def row_of(id: str) -> int:
    """Return the row of a memory's id; a number that no corpus has where it is no row's."""
    return int(id, 16)


def record(entry: Entry) -> dict[str, Any]:
    """Return a line without its vector."""
    at = (BEGIN + entry.row * PACE).isoformat()
    scope = {"environment": "default", "project": entry.project, "user_id": entry.user, "session_id": entry.session}
    memory = {
        "id": id_of(entry.row),
        "scope": {name: value for name, value in scope.items() if value is not None},
        "content": entry.text,
        "content_hash": content_hash(entry.text),
        "kind": "turn" if entry.session else "fact",
        "importance": 0.5,
        "weight": 1.0,
        "tier": "episodic",
        "tags": entry.tags,
        "entities": [entry.speaker] if entry.speaker else [],
        "metadata": {},
        "speaker": entry.speaker,
        "turn": entry.turn if entry.session else None,
        "access_count": 0,
        "version": 1,
        "change": "create",
        **dict.fromkeys(("created_at", "updated_at", "tier_since", "changed_at"), at),
    }
    return {"memory": memory, "activations": {}}
