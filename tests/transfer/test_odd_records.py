"""Exports with odd records: every record in is a memory, was there already, is reported, or is left out on purpose."""

from __future__ import annotations

import gzip
import io
import json
import os
import struct
import zipfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pytest
from other_systems import WordEmbedder, at, read, saved

import salience
from salience import ANY, ImportLineError, InputError
from salience.lines import as_draft
from salience.transfer.importers.records import Problem, Record

HIDDEN: Final = {"is_visually_hidden_from_conversation": True}


@dataclass(frozen=True)
class Counts:
    """Records of a sample: `read` in all; `left_out` are messages that nobody said, and empty notes."""

    read: int
    memories: int
    reported: int
    unchanged: int = 0
    left_out: int = 0


def node(id: str, text: Any, parent: str | None = "root", **more: Any) -> dict[str, Any]:
    parts = text if text is None or isinstance(text, list) else [text]
    message = {"id": id, "author": {"role": "user"}, "content": {"content_type": "text", "parts": parts}, **more}
    return {"id": id, "parent": parent, "message": message}


def chat(id: str, *nodes: Any, **more: Any) -> dict[str, Any]:
    mapping = {"root": {"id": "root", "message": None, "parent": None}, **{one["id"]: one for one in nodes}}
    return {"conversation_id": id, "title": None, "mapping": mapping, "current_node": None, **more}


def chats() -> tuple[list[Any], list[Any]]:
    """Return two lists of conversations, of 16 messages and three that are none."""
    first = [
        chat("times", node("t1", "Seconds as text", create_time=str(at(0).timestamp())), node("t2", "ISO text"),
             update_time=at(3).isoformat()),
        chat("bare", node("b1", "No time"), node("b2", "Later", create_time=at(5).timestamp())),
        chat("odd", node("o1", None), node("o2", "No author", author=None), node("o3", [None, "One part"]),
             node("o4", "Hidden", metadata=HIDDEN), {"id": "o5", "message": 7}, node("o6", "x", create_time="soon"),
             node("o7", [], content=None), node("o8", [{"content_type": "image"}])),
        {"conversation_id": "null", "mapping": None},
    ]  # fmt: skip
    second = [
        chat("again", node("t1", "Seconds as text"), node("t2", "Another text"), create_time=at(9).timestamp()),
        None,
        chat("times", node("n1", "Same conversation"), node("n2", "Its last message")),
        "no conversation",
    ]
    return first, second


def chatgpt_folder(folder: Path) -> Path:
    first, second = chats()
    saved(folder, "conversations-000.json", first)
    saved(folder, "conversations-001.json", second)
    saved(folder, "user.json", {"email": "ann@example.org"})
    saved(folder, "chat.html", "<html>")
    return folder


def zipped(folder: Path) -> Path:
    path = folder.parent / f"{folder.name}.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for one in sorted(folder.rglob("*")):
            archive.write(one, f"export/{one.relative_to(folder)}")
        archive.writestr("__MACOSX/export/._conversations-000.json", b"\0\5\x16\7")
    return path


NOTES: Final = {
    "Folded": "---\ntitle: >-\n  A title\n  on two lines\n---\nBody",
    "Lists": "---\ntags: [[film, opera], [space], null]\nup: [[Travel]]\naliases: null\n---\nBody",
    "Quotes": '---\ntitle: "Ann\'s \\"notes\\""\ntags: \'film\'\n---\nBody',
    "Alice": "---\nbirthday: 1990-07-01\ncolour: '#fff'\naddress:\n  city: Oslo\n  floor: 2\n---\n",
    "Rules": "---\nJust text between rules\n---\nBody",
    "Colon": "---\ntitle: Foo: bar\n---\nBody",
    "Template": "---\ncreated: {{date}}\n---\nBody",
    "Bomb": "---\na: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\n---\nBody",
    "Deep": f"---\na: {'[' * 600}\n---\nBody",
    "Escape": '---\na: "\\UFFFFFFFF"\n---\nBody',
    "20260306": "A day without hyphens",
    "202603061230 Call": "A time",
    "12345678": "No day",
    "Empty": "",
}


def vault(folder: Path) -> Path:
    for name, text in NOTES.items():
        (folder / f"{name}.md").write_text(text, encoding="utf-8")
        os.utime(folder / f"{name}.md", (at(0).timestamp(),) * 2)
    (folder / "Latin.md").write_bytes("Café".encode("latin-1"))
    return folder


def memory(number: int, **more: Any) -> dict[str, Any]:
    return {
        "id": f"m{number}",
        "memory": f"Fact {number}",
        "user_id": "ann",
        "created_at": at(number).isoformat(),
        **more,
    }


def mem0_lines(folder: Path) -> Path:
    lines = [
        memory(1, categories=["hobby", "travel"]),
        memory(2, categories="hobby, travel"),
        memory(3, metadata={"category": "hobby"}, categories=None),
        memory(4, memory=None),
        memory(1, memory="Another text"),
        memory(1),
    ]
    text = "\n".join([*map(json.dumps, lines), "", "{broken}", json.dumps(memory(5))[:-20]])
    return saved(folder, "mem0.jsonl", text)


def point(number: int, **more: Any) -> dict[str, Any]:
    payload = {"data": f"Fact {number}", "hash": "h", "user_id": "ann", "created_at": at(number).isoformat(), **more}
    return {"id": f"p{number}", "payload": payload, "vector": None}


def qdrant(folder: Path) -> Path:
    camel = {"id": "p3", "payload": {"data": "Fact 3", "userId": "ann", "createdAt": at(3).isoformat()}}
    page = {"points": [point(1, categories=["hobby"]), camel, {"id": "p4", "payload": None}], "next_page_offset": "p5"}
    saved(folder, "page1.json", {"result": page, "status": "ok", "time": 0.01})
    saved(folder, "page2.json", [[point(5), point(6)], None])
    saved(folder, "page3.jsonl", "\n".join(map(json.dumps, [point(7), point(8, data="")])))
    return folder


def logged(uuid: str, text: Any, type: str = "user", **more: Any) -> dict[str, Any]:
    message = {"role": type, "content": text, **more.pop("message", {})}
    return {"type": type, "uuid": uuid, "sessionId": "s", "timestamp": at(0).isoformat(), "message": message, **more}


def claude_code(folder: Path) -> Path:
    lines = [
        logged("a", "Fix the bug"),
        logged("b", "[Request interrupted by user]"),
        logged("c", [{"type": "text", "text": "[Request interrupted by user for tool use]"}]),
        logged("d", [{"type": "text", "text": "Stop"}, {"type": "text", "text": "[Request interrupted by user]"}]),
        logged("e", [{"type": "text", "text": "API Error: 529"}], "assistant", isApiErrorMessage=True),
        logged("f", "No response requested.", "assistant", message={"model": "<synthetic>"}),
    ]
    first, second = folder / "shop" / "one.jsonl", folder / "shop" / "two.jsonl"
    first.parent.mkdir()
    whole = json.dumps(logged("g", "Émile"), ensure_ascii=False).encode()
    first.write_bytes(
        "".join(f"{json.dumps(line)}\n" for line in lines).encode() + whole[: whole.index("É".encode()) + 1]
    )
    second.write_text(json.dumps(logged("h", "Thanks")) + "\n" + json.dumps(logged("i", "Cut", nested={"a": {}}))[:-1])
    return folder


def graph(folder: Path) -> Path:
    entity = {"type": "entity", "name": "Ann", "entityType": "person", "observations": ["Sings"]}
    works = {"type": "relation", "from": "Ann", "to": "Acme", "relationType": "works_at"}
    one, two, three = json.dumps(entity), json.dumps(works), json.dumps({**entity, "name": "Bo"})
    return saved(folder, "memory.json", f"{one}{two}\n{three} {{torn\n{two.replace('Acme', 'Oslo')}\n{one[:30]}")


ODD: Final[dict[str, tuple[str, Callable[[Path], Path], Counts]]] = {
    "ChatGPT, a folder": ("chatgpt", chatgpt_folder, Counts(19, 7, 8, 1, 3)),
    "ChatGPT, a ZIP": ("chatgpt", lambda folder: zipped(chatgpt_folder(folder)), Counts(19, 7, 8, 1, 3)),
    "notes": ("obsidian", vault, Counts(15, 13, 1, 0, 1)),
    "notes, a ZIP": ("markdown", lambda folder: zipped(vault(folder)), Counts(15, 13, 1, 0, 1)),
    "mem0, lines": ("mem0", mem0_lines, Counts(8, 3, 4, 1)),
    "mem0, Qdrant": ("mem0", qdrant, Counts(7, 5, 2)),
    "Claude Code": ("claude-code", claude_code, Counts(9, 3, 2, 0, 4)),
    "MCP memory": ("mcp-server-memory", graph, Counts(6, 4, 2)),
}


@pytest.mark.parametrize("name", ODD)
def test_every_record_is_accounted_for(name, tmp_path):
    source, sample, counts = ODD[name]
    (tmp_path / "in").mkdir()
    path = sample(tmp_path / "in")
    with salience.connect(":memory:", embedder=WordEmbedder()) as engine:
        planned = engine.import_(path, source=source, dry_run=True)
        report = engine.import_(path, source=source)
        assert (report.written, report.unchanged, len(report.skipped)) == (
            counts.memories,
            counts.unchanged,
            counts.reported,
        )
        assert (planned.written, planned.unchanged, planned.skipped) == (
            report.written,
            report.unchanged,
            report.skipped,
        )
        assert counts.read == counts.memories + counts.unchanged + counts.reported + counts.left_out
        assert engine.stats(user_id=ANY).memories == counts.memories
        again = engine.import_(path, source=source)
        assert (again.written, again.unchanged) == (0, counts.memories + counts.unchanged)
        assert again.skipped == report.skipped
    for number, reason in report.skipped:
        assert reason.startswith(f"record {number}")
        assert all(secret not in reason for secret in ("Fact", "Body", "Émile", "NoneType"))
        if Path(path).is_dir() or path.suffix == ".zip":
            assert reason.startswith(f"record {number} of ")


@pytest.mark.parametrize("name", ["ChatGPT, a ZIP", "notes", "mem0, lines"])
def test_an_import_that_stops_stores_nothing(name, tmp_path):
    source, sample, _ = ODD[name]
    (tmp_path / "in").mkdir()
    with salience.connect(":memory:", embedder=WordEmbedder()) as engine:
        with pytest.raises(ImportLineError):
            engine.import_(sample(tmp_path / "in"), source=source, on_error="stop")
        assert engine.stats(user_id=ANY).memories == 0


def test_a_session_that_is_still_written_never_stops_a_folder(tmp_path):
    with salience.connect(":memory:", embedder=WordEmbedder()) as engine:
        report = engine.import_(claude_code(tmp_path), source="claude-code", on_error="stop")
        assert report.written == 3
        assert [reason.partition(": ")[0] for _, reason in report.skipped] == [
            "record 7 of shop/one.jsonl",
            "record 2 of shop/two.jsonl",
        ]


def by_key(source: str, path: Path) -> dict[str, Any]:
    return {item.draft["key"]: as_draft(item.draft) for item in read(source, path) if isinstance(item, Record)}


def test_times_of_chatgpt_are_found_where_the_creation_is_missing(tmp_path):
    found = by_key("chatgpt", chatgpt_folder(tmp_path))
    assert found["chatgpt:t1"].created_at == at(9)  # of the second file: its conversation's
    assert [found[f"chatgpt:b{number}"].created_at for number in (1, 2)] == [at(5), at(5)]
    first, _ = chats()
    items = read("chatgpt", saved(tmp_path, "one.json", [{**first[0], "update_time": at(3).timestamp()}]))
    assert [item.draft["created_at"] for item in items] == [at(0), at(0)]
    items = read(
        "chatgpt", saved(tmp_path, "two.json", [chat("c", node("a", "Hi"), update_time=str(at(3).timestamp()))])
    )
    assert [item.draft["created_at"] for item in items] == [at(3)]


def test_a_node_that_is_null_hides_no_message_before_it(tmp_path):
    broken = chat("c", node("a", "Before"), node("c", "After", parent="b"), current_node="c")
    broken["mapping"]["b"] = None
    items = read("chatgpt", saved(tmp_path, "conversations.json", [broken]))
    assert [item.draft["content"] for item in items if isinstance(item, Record)] == ["Before", "After"]
    assert [item.reason for item in items if isinstance(item, Problem)] == ["message b: message is missing"]


def test_problems_of_chatgpt_are_named_in_plain_words(tmp_path):
    problems = [item for item in read("chatgpt", chatgpt_folder(tmp_path)) if isinstance(item, Problem)]
    assert [(one.number, one.reason) for one in problems] == [
        (3, "message o1: parts is missing"),
        (3, "message o2: author is missing"),
        (3, "message o5: message is a number instead of an object"),
        (3, "message o6: create_time is no time"),
        (4, "mapping is missing"),
        (2, "record is missing"),
        (4, "record is a text instead of an object"),
    ]


@pytest.mark.parametrize("source", ["chatgpt", "claude", "letta", "langgraph", "mcp-memory-service", "zep"])
def test_the_export_of_another_system_is_named_as_such(source, tmp_path):
    path = saved(tmp_path, "mem0.json", [{"id": "m", "memory": "Fact"}])
    with pytest.raises(
        InputError, match=r"^file is no (ChatGPT|Claude|Letta|LangGraph|mcp-|Graphiti or Zep).* export\."
    ):
        read(source, path)


def test_an_export_that_is_cut_off_is_read_up_to_there(tmp_path):
    first, _ = chats()
    path = saved(tmp_path, "conversations.json", json.dumps(first)[:-200])
    items = read("chatgpt", path)
    assert sum(isinstance(item, Record) for item in items) == 4
    assert items[-1].reason == "file ends inside this record"


def test_properties_become_titles_tags_and_text(tmp_path):
    found = {
        one.metadata["original"]["path"].removesuffix(".md"): one
        for one in by_key("obsidian", vault(tmp_path)).values()
    }
    assert found["Folded"].content == "A title on two lines\n\nBody"
    assert found["Lists"].content == "Lists\n\nup: Travel\n\nBody"
    assert (found["Lists"].tags, found["Lists"].metadata["links"]) == (("film", "opera", "space"), ("Travel",))
    assert found["Quotes"].content == 'Ann\'s "notes"\n\nBody'
    assert found["Alice"].content == "Alice\n\nbirthday: 1990-07-01\ncolour: #fff\naddress: city: Oslo, floor: 2"
    assert found["Alice"].tags == ()
    assert found["Rules"].content == f"Rules\n\n{NOTES['Rules']}"
    assert found["Colon"].content == f"Colon\n\n{NOTES['Colon']}"
    assert found["Bomb"].content == "Bomb\n\na: x, x\n\nBody"
    days = [found[name].created_at.date().isoformat() for name in ("20260306", "202603061230 Call", "12345678")]
    assert days == ["2026-03-06", "2026-03-06", "2024-03-01"]


def test_a_note_with_read_properties_alone_is_a_memory(tmp_path):
    path = tmp_path / "Ann.md"
    path.write_text("---\naliases: [Annie]\ntags: person\n---\n")
    (note,) = read("markdown", path)
    assert note.draft["content"] == "Ann\n\naliases: Annie\ntags: person"


def test_an_import_makes_properties_searchable(tmp_path):
    with salience.connect(":memory:", embedder=WordEmbedder()) as engine:
        engine.import_(vault(tmp_path), source="obsidian")
        assert engine.recall("birthday 1990-07-01", limit=1)[0].memory.content.startswith("Alice")


def test_categories_of_mem0_are_tags(tmp_path):
    found = by_key("mem0", mem0_lines(tmp_path))
    assert [found[f"mem0:m{number}"].tags for number in (2, 3)] == [("hobby", "travel"), ("hobby",)]
    points = by_key("mem0", qdrant(tmp_path))
    assert points["mem0:p1"].tags == ("hobby",)
    assert (points["mem0:p3"].scope.user_id, points["mem0:p3"].created_at) == ("ann", at(3))


def damaged(path: Path, name: str) -> Path:
    """Return a ZIP file in which a member is not as its checksum says."""
    with zipfile.ZipFile(path) as archive:
        start = archive.getinfo(name).header_offset
    data = bytearray(path.read_bytes())
    lengths = struct.unpack_from("<HH", data, start + 26)  # of the name and the extra field, which the data follow
    data[start + 30 + sum(lengths) + 20] ^= 0xFF
    path.write_bytes(data)
    return path


def test_a_damaged_or_foreign_archive_is_named(tmp_path):
    (tmp_path / "in").mkdir()
    path = damaged(zipped(chatgpt_folder(tmp_path / "in")), "export/conversations-000.json")
    with salience.connect(":memory:", embedder=WordEmbedder()) as engine:
        (first, *_) = engine.import_(path, source="chatgpt").skipped
        assert first[1].startswith("record 1 of export/conversations-000.json: file ")
    other = io.BytesIO()
    with zipfile.ZipFile(other, "w") as archive:
        archive.writestr("notes.txt", "Hi")
    other.seek(0)
    with pytest.raises(InputError, match=r"its files are called conversations\*\.json"):
        read("chatgpt", other)
    with pytest.raises(InputError, match=r"cannot be opened"):
        read("chatgpt", io.BytesIO(b"PK\3\4 no archive"))


def test_a_stream_that_cannot_be_rewound_is_read(tmp_path):
    packed = io.BytesIO(gzip.compress(mem0_lines(tmp_path).read_bytes()))

    class Pipe(io.RawIOBase):
        def readable(self):
            return True

        def readinto(self, buffer):
            data = unpacked.read(len(buffer))
            buffer[: len(data)] = data
            return len(data)

    with gzip.open(packed) as unpacked:
        kinds = Counter(type(item).__name__ for item in read("mem0", io.BufferedReader(Pipe())))
    assert kinds == {"Record": 5, "Problem": 3}


def test_notes_in_a_zip_have_the_time_of_their_files(tmp_path):
    (tmp_path / "in").mkdir()
    found = by_key("markdown", zipped(vault(tmp_path / "in")))
    times = {one.created_at for one in found.values()}
    assert datetime(2026, 3, 6, tzinfo=UTC) in times
    assert len(times) == 2
