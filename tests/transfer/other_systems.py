"""Exports of other systems, written by the tests: one function for each source, with as many records as are asked for.

Record `i` tells of the person and the hobby of that number, so that a question has one answer.
"""

from __future__ import annotations

import hashlib
import json
import re
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import IO, Any, Final

import numpy as np

from salience.batch import Vectors32
from salience.transfer.importers import records
from salience.transfer.importers.records import Item

START: Final = datetime(2024, 3, 1, 9, 30, tzinfo=UTC)


@dataclass(frozen=True)
class Sample:
    """An export, and what an import must make of it.

    Attributes:
        path: the file or folder.
        count: memories.
        kinds: of these memories.
        created_at: text of a memory -> its instant.
        broken: numbers of records that cannot be imported.
        where: coordinates under which all is found.
    """

    path: Path
    count: int
    kinds: Mapping[str, int]
    created_at: Mapping[str, datetime]
    broken: tuple[int, ...] = ()
    where: Mapping[str, str] | None = None


class WordEmbedder:
    """An embedder that adds up a random vector for each word, so that texts with the same words are near."""

    name, dimension = "words", 128

    def __init__(self) -> None:
        self.texts: list[str] = []

    def embed(self, texts: Sequence[str], /) -> Vectors32:
        self.texts += texts
        rows = [np.sum([_of_word(word) for word in re.findall(r"\w+", text.lower()) or [""]], axis=0) for text in texts]
        rows = [row / np.linalg.norm(row) for row in rows]
        return np.array(rows, np.float32).reshape(len(texts), self.dimension)


@cache
def _of_word(word: str) -> Vectors32:
    seed = int.from_bytes(hashlib.sha256(word.encode()).digest()[:8], "big")
    return np.random.default_rng(seed).normal(size=WordEmbedder.dimension).astype(np.float32)


def fact(number: int) -> str:
    return f"Person{number} collects stamps of series {number * 7 + 100000}"


def question(number: int) -> str:
    return f"Who collects stamps of series {number * 7 + 100000}?"


def at(number: int) -> datetime:
    return START + timedelta(hours=number)


def iso(number: int) -> str:
    return at(number).isoformat()


def read(source: str, file: Path | IO[bytes]) -> list[Item]:
    with records(source, file) as items:
        return list(items)


def saved(folder: Path, name: str, value: Any) -> Path:
    path = folder / name
    path.write_text(value if isinstance(value, str) else json.dumps(value, indent=1), "utf-8")
    return path


def mem0(folder: Path, count: int) -> Sample:
    items: list[Any] = []
    for number in range(count):
        item = {"id": f"id-{number}", "memory": fact(number), "hash": "h", "metadata": {"n": number}, "user_id": "ann"}
        shapes = at(number).isoformat(), int(at(number).timestamp() * 1000), at(number).astimezone().isoformat()
        items.append({**item, "created_at": shapes[number % 3], "updated_at": None, "categories": ["hobby"]})
    items += [{"id": "broken", "memory": None}, "no object", {"id": "late", "memory": "x", "created_at": "tomorrow"}]
    broken = count + 1, count + 2, count + 3
    path = saved(folder, "mem0.json", {"results": items, "relations": []})
    return Sample(path, count, {"fact": count}, {fact(n): at(n) for n in range(count)}, broken, {"user_id": "ann"})


def graphiti(folder: Path, count: int) -> Sample:
    nodes = [{"uuid": f"node-{n}", "name": f"Person{n}", "labels": ["Entity"], "summary": ""} for n in range(count)]
    edges: list[Any] = []
    for number in range(count - 2):
        times = {"created_at": at(number).isoformat(), "valid_at": None, "invalid_at": None, "expired_at": None}
        ends = {"source_node_uuid": f"node-{number}", "target_node_uuid": "stamps", "group_id": ""}
        edges.append(
            {"uuid": f"edge-{number}", "name": "COLLECTS", "fact": fact(number), "episodes": [], **ends, **times}
        )
    edges[7] |= {"valid_at": "2023-01-01T00:00:00Z", "invalid_at": "2024-01-01T00:00:00Z"}
    episode = {"uuid": "episode", "name": "chat", "source": "message", "content": "ann: hello", "valid_at": iso(0)}
    summary = {"uuid": "sum", "name": "Ann", "summary": "collects stamps", "labels": ["Entity", "Person"]}
    edges += [{"uuid": "broken", "fact": "  "}, {"uuid": "x", "group_id": "", "created_at": iso(0)}, ["no object"]]
    value = {"edges": edges, "episodes": [episode], "nodes": [*nodes, {**summary, "created_at": iso(1)}]}
    path = saved(folder, "graph.json", value)
    known = {fact(n): at(n) for n in range(count - 2)} | {"ann: hello": at(0), "Ann: collects stamps": at(1)}
    broken = 2 * count + 1, 2 * count + 3
    return Sample(path, count, {"context": 1, "fact": count - 2, "turn": 1}, known, broken)


def zep(folder: Path, count: int) -> Sample:
    lines: list[Any] = []
    half = count // 2
    for number in range(half):
        edge = {
            "uuid": f"e{number}",
            "name": "COLLECTS",
            "fact": fact(number),
            "created_at": iso(number),
            "user_uuid": "u",
        }
        lines.append({**edge, "source_node_name": f"Person{number}", "target_node_name": "stamps"})
    for number in range(half, count):
        sender = {"role": "user", "name": "Ann", "thread_uuid": f"thread-{number % 9}", "user_uuid": "u"}
        lines.append({"uuid": f"m{number}", "content": fact(number), "created_at": iso(number), **sender})
    text = "\n".join([*map(json.dumps, lines), "{broken", '{"uuid": "x", "fact": 5}'])
    times = {fact(number): at(number) for number in range(count)}
    kinds = {"fact": half, "turn": count - half}
    return Sample(saved(folder, "zep.jsonl", text), count, kinds, times, (count + 1, count + 2), {"user_id": "u"})


def mempalace(folder: Path, count: int) -> Sample:
    rooms: dict[Path, list[str]] = {}
    for number in range(count):
        page = folder / f"wing {number % 3}" / f"room-{number % 10}.md"
        page.parent.mkdir(exist_ok=True)
        drawer = f"## drawer_{number}\n\n> {fact(number)}\n> \n> ## more\n\n| Field | Value |\n|-------|-------|\n"
        rooms.setdefault(page, [f"# {page.parent.name} / {page.stem}\n\n"]).append(
            drawer + f"| Source | unknown |\n| Filed | {iso(number)} |\n| Added by | mempalace |\n\n---\n\n"
        )
    for page, parts in rooms.items():
        page.write_text("".join(parts))
    (folder / "index.md").write_text("# Palace Export\n")
    (folder / "zz").mkdir()
    (folder / "zz" / "odd.md").write_text("# zz / odd\n\n## drawer_empty\n\n---\n\n")
    times = {f"{fact(number)}\n\n## more": at(number) for number in range(count)}
    return Sample(folder, count, {"context": count}, times, (1,))


def letta(folder: Path, count: int) -> Sample:
    blocks = [
        {"id": "block-0", "label": "human", "value": "The user is Ann."},
        {"id": "block-1", "label": "x", "value": ""},
    ]
    messages: list[Any] = [{"id": "message-0", "role": "system", "content": [{"type": "text", "text": "You are"}]}]
    for number in range(count - 1):
        user = json.dumps({"type": "user_message", "message": fact(number), "time": "now"})
        call = {"name": "send_message", "arguments": json.dumps({"message": fact(number)})}
        spoken = [
            {"role": "user", "content": [{"type": "text", "text": user}]},
            {"role": "assistant", "content": [], "tool_calls": [{"id": "c", "type": "function", "function": call}]},
            {"role": "assistant", "content": [{"type": "text", "text": fact(number)}]},
        ][number % 3]
        messages.append({"id": f"message-{number + 1}", "created_at": iso(number), **spoken})
    messages += [{"role": "tool", "content": "ok"}, {"role": "user", "content": '{"type": "login"}'}]
    messages += [{"id": "broken"}, {"role": "user", "content": "x", "created_at": "never"}]
    agent = {"id": "agent-0", "name": "helper", "block_ids": ["block-0", "block-1"], "messages": messages}
    path = saved(folder, "helper.af", {"agents": [agent], "blocks": blocks, "tools": []})
    times = {fact(number): at(number) for number in range(count - 1)}
    kinds = {"context": 1, "turn": count - 1}
    return Sample(path, count, kinds, times, (count + 5, count + 6), {"agent_id": "helper"})


def mcp_memory_service(folder: Path, count: int) -> Sample:
    path = folder / "memories.db"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(
            "CREATE TABLE memories (id INTEGER PRIMARY KEY, content_hash TEXT, content TEXT, tags TEXT,"
            " memory_type TEXT, metadata TEXT, created_at REAL, deleted_at REAL, superseded_by TEXT)"
        )
        for number in range(count):
            row = f"hash-{number}", fact(number), "hobby,stamps", "note", '{"n": 1}', at(number).timestamp(), None, None
            connection.execute(INSERT, row)
        connection.execute(INSERT, ("gone", "deleted", "", None, None, 1.0, 2.0, None))
        connection.execute(INSERT, ("broken", " ", "", None, "{", 1.0, None, None))
        connection.execute("UPDATE memories SET superseded_by = 'hash-9' WHERE content_hash = 'hash-8'")
    times = {fact(number): at(number) for number in range(count)}
    return Sample(path, count, {"note": count}, times, (count + 1,))


INSERT: Final = (
    "INSERT INTO memories (content_hash, content, tags, memory_type, metadata, created_at, deleted_at, superseded_by)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
)
SAMPLES: Final[Mapping[str, Callable[[Path, int], Sample]]] = {
    "graphiti": graphiti,
    "letta": letta,
    "mcp-memory-service": mcp_memory_service,
    "mem0": mem0,
    "mempalace": mempalace,
    "zep": zep,
}
