"""mem0: the JSON of `get_all`, of a search, or of a platform export, and the points of its collection in Qdrant.

Sources: https://docs.mem0.ai/api-reference/memory/get-memories and `mem0/memory/main.py` of the package mem0ai 2.2.1
(open source). A page is a list of memories, or an object with them under `results` or `memories`; memories may also be
lines. The TypeScript package writes the same fields in camel case. In Qdrant, a memory is the `payload` of a point,
with its text in `data` (`mem0/vector_stores/qdrant.py`); `scroll` answers with points and an offset, over HTTP
(https://api.qdrant.tech/api-reference/points/scroll-points) in an object, in Python in a pair.

A memory is a fact of its user, agent and app (as the project); the run is the session. Categories become tags. A memory
is hidden after the day of `expiration_date`.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from salience.errors import InputError
from salience.text import content_hash
from salience.transfer.importers.records import (
    File,
    Item,
    Record,
    each,
    instant,
    json_items,
    known,
    name,
    names,
    original,
    required,
)


def read(file: File) -> Iterator[Item]:
    """Yield the memories of an export; raises `InputError` if the file has none."""
    items = _without_pairs(json_items(file, "results", "memories", "points", "result.points"))
    return each(known(items, "mem0", "memory", "data", "payload"), _record)


def _without_pairs(items: Iterator[tuple[int, Any]]) -> Iterator[tuple[int, Any]]:
    """Yield items, and instead of a list and an offset the items of the list."""
    is_offset = False
    for number, item in items:
        if isinstance(item, list):
            yield from enumerate(item, start=1)
            is_offset = True
        elif not is_offset or isinstance(item, (dict, InputError)):
            yield number, item


def _record(number: int, item: dict[str, Any]) -> Record:
    if isinstance(item.get("payload"), dict):
        item = {**item["payload"], "id": item.get("id")}
    metadata: Any = item.get("metadata")

    def get(field: str) -> Any:
        first, *rest = field.split("_")
        return item[field] if field in item else item.get(first + "".join(map(str.capitalize, rest)))

    content = required(item, "memory", "data")
    created = instant("created_at", get("created_at"))
    day = get("expiration_date")
    expires = instant("expiration_date", day)
    if expires is not None and isinstance(day, str) and len(day.strip()) == len("2026-01-31"):
        expires += timedelta(days=1)
    owners = [one for one in (item, metadata) if isinstance(one, dict)]
    written = [owner.get(field) for owner in owners for field in ("categories", "category")]
    categories = [one.split(",") if isinstance(one, str) else one for one in written]
    coordinates = {"user_id": "user_id", "agent_id": "agent_id", "run_id": "session_id", "app_id": "project"}
    draft = {
        "content": content,
        "created_at": created or instant("updated_at", get("updated_at")),
        "tags": names([tag for one in categories if isinstance(one, list) for tag in one]),
        "speaker": name(get("actor_id")),
        "metadata": original(item),
        "key": name(item.get("id")) or content_hash(content),
        **{ours: name(get(theirs)) for theirs, ours in coordinates.items()},
    }
    return Record(number, draft, ended=expires)
