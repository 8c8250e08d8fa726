"""mem0: the JSON of `get_all`, of a search, or of a platform export with the fields of a memory.

Sources: https://docs.mem0.ai/api-reference/memory/get-memories and `mem0/memory/main.py` of the package mem0ai 2.2.1
(open source). A page is a list of memories, or an object with them under `results` or `memories`. The TypeScript
package writes the same fields in camel case.

A memory is a fact of its user, agent and app (as the project); the run is the session. Categories become tags. A memory
is hidden after the day of `expiration_date`.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import IO, Any

from salience.errors import InputError, Words
from salience.text import content_hash
from salience.transfer.importers.records import (
    Item,
    Record,
    converted,
    instant,
    json_of,
    key,
    name,
    names,
    original,
    required,
)


def read(file: IO[bytes] | Path) -> Iterator[Item]:
    """Yield the memories of an export.

    Raises:
        InputError: the file is not JSON, or has no list of memories.
    """
    found = json_of(file)
    if isinstance(found, dict):
        found = next((found[name] for name in ("results", "memories") if isinstance(found.get(name), list)), None)
    if not isinstance(found, list):
        remedy = "Save the result of get_all, or an export with the fields id, memory, user_id and created_at."
        raise InputError("file", Words("other JSON"), remedy, "has no list of memories")
    return converted(enumerate(found, start=1), _record)


def _record(number: int, item: dict[str, Any]) -> Record:
    def get(field: str) -> Any:
        first, *rest = field.split("_")
        return item[field] if field in item else item.get(first + "".join(map(str.capitalize, rest)))

    content = required(item, "memory", "data")
    created = instant("created_at", get("created_at"))
    day = get("expiration_date")
    expires = instant("expiration_date", day)
    if expires is not None and isinstance(day, str) and len(day.strip()) == len("2026-01-31"):
        expires += timedelta(days=1)
    coordinates = {"user_id": "user_id", "agent_id": "agent_id", "run_id": "session_id", "app_id": "project"}
    draft = {
        "content": content,
        "created_at": created or instant("updated_at", get("updated_at")),
        "tags": names(get("categories")),
        "speaker": name(get("actor_id")),
        "metadata": original(item),
        "key": key("mem0", name(item.get("id")) or content_hash(content)),
        **{ours: name(get(theirs)) for theirs, ours in coordinates.items()},
    }
    return Record(number, draft, ended=expires)
