"""`memory.json` of the MCP reference server: one memory for each observation of an entity, and for each relation.

Each line is an entity (`name`, `entityType`, `observations`) or a relation (`from`, `to`, `relationType`), see
https://github.com/modelcontextprotocol/servers/blob/main/src/memory/index.ts. The answer of its tool `read_graph`, one
object with `entities` and `relations`, is read too. Servers that write at the same time leave several objects in a
line. The format has no times.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from salience.records import checks
from salience.text import content_hash
from salience.transfer.importers.records import (
    File,
    Item,
    Problem,
    Record,
    checked,
    each,
    json_items,
    known,
    name,
    names,
    original,
)


def read(file: File) -> Iterator[Item]:
    """Yield a memory for each observation and relation, and for each entity without observations."""
    items = json_items(file, "entities", "relations")
    return each(known(items, "mcp-server-memory", "observations", "relationType", "entityType"), _records)


def _records(number: int, item: dict[str, Any]) -> Iterator[Item]:
    if "relationType" in item:
        yield _relation(number, item)
        return
    entity, kind = checks.text("name", item.get("name")), name(item.get("entityType"))
    observations = checked("observations", item.get("observations"), list)
    about = original({**item, "observations": []})["original"]
    for observation in observations:
        if not isinstance(observation, str) or not observation.strip():
            yield Problem(number, "an observation that is no text", "Give each observation as text.")
            continue
        spoken = _spaced(entity)
        content = observation if spoken.lower() in observation.lower() else f"{spoken}: {observation}"
        record = {**about, "observations": [observation]} if isinstance(about, dict) else item
        yield _fact(number, content, [entity], kind, (entity, content_hash(observation)[:16]), record)
    if not observations:
        content = f"{_spaced(entity)}: {_spaced(kind)}" if kind else _spaced(entity)
        yield _fact(number, content, [entity], kind, (entity,), item)


def _relation(number: int, item: dict[str, Any]) -> Record:
    ends = [checks.text(field, item.get(field)) for field in ("from", "to")]
    kind = checks.text("relationType", item["relationType"])
    content = " ".join(_spaced(part) for part in (ends[0], kind, ends[1]))
    return _fact(number, content, ends, kind, (ends[0], kind, ends[1]), item)


def _fact(
    number: int, content: str, about: list[str], tag: str | None, id: tuple[str, ...], record: dict[str, Any]
) -> Record:
    draft = {"content": content, "tags": names([tag]), "key": ":".join(id), "metadata": original(record)}
    return Record(number, draft, entities=tuple(names([_spaced(one) for one in about])))


def _spaced(text: str) -> str:
    """Return a name such as `works_at` or `John_Smith` in words, as a question would name it."""
    return text.replace("_", " ").strip() or text
