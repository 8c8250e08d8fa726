"""Exports for other systems: mem0's JSON and Markdown notes, which an import reads back."""

from __future__ import annotations

import io
import json

import pytest
from other_systems import WordEmbedder

import salience
from salience import ANY, InputError
from salience.records import Scope

KEPT = ("content", "created_at", "tags", "scope")


@pytest.fixture
def full():
    with salience.connect(":memory:", embedder=WordEmbedder()) as engine:
        engine.remember(
            "Ann plays the cello", user_id="ann", tags=["music", "a: b"], created_at="2024-05-01T08:00:00+00:00"
        )
        old = engine.remember('Ann lives in "Oslo"\n\n---\nand likes it', user_id="ann", kind="note", weight=0.7).memory
        engine.remember("Ann lives in Rome", user_id="ann", supersedes=old.id, importance=0.25)
        engine.ingest([{"speaker": "Bo", "content": "hello"}], session_id="s 1", user_id="bo")
        engine.forget(engine.remember("forgotten", user_id="ann").memory.id, user_id="ann")
        changed = engine.remember("older text", project="p", agent_id="a", ttl="1000d").memory
        engine.update(changed.id, content="newer text \u2028 of a project", project="p", agent_id="a")
        yield engine


def everything(engine):
    found = engine.services.store.scan(Scope("default", ANY, ANY, ANY, ANY), limit=100)
    return sorted((stored.memory for stored in found), key=lambda memory: memory.content)


def moved(path, source):
    other = salience.connect(":memory:", embedder=WordEmbedder())
    assert other.import_(path, source=source).written == 5
    assert other.import_(path, source=source).unchanged == 5
    return other


def test_mem0_reads_and_is_read_back(full, tmp_path):
    path, seen = tmp_path / "mem0.json", []
    assert full.export(path, format="mem0", progress=seen.append).written == seen[-1] == 5
    items = json.loads(path.read_text("utf-8"))["results"]
    cello = next(item for item in items if "cello" in item["memory"])
    assert (cello["user_id"], cello["categories"]) == ("ann", ["music", "a: b"])
    assert cello["created_at"] == "2024-05-01T08:00:00+00:00"
    with moved(path, "mem0") as other:
        before, after = everything(full), everything(other)
        assert [[getattr(one, field) for field in KEPT] for one in after] == [
            [getattr(one, field) for field in KEPT] for one in before
        ]
    with pytest.raises(InputError, match="exists"):
        full.export(path, format="mem0")
    assert full.export(path, format="mem0", overwrite=True, user_id="bo").written == 2


def test_an_empty_mem0_export_is_json():
    with salience.connect(":memory:", embedder=WordEmbedder()) as engine:
        file = io.StringIO()
        assert engine.export(file, format="mem0").written == 0
        assert json.loads(file.getvalue()) == {"results": []}


def test_notes_are_readable_and_read_back_exactly(full, tmp_path):
    folder = tmp_path / "notes"
    assert full.export(folder, format="markdown").written == 5
    names = sorted(path.name for path in folder.iterdir())
    assert len(names) == 5
    assert names[0].startswith("ann-lives-in-oslo-and-likes-")
    assert "\n\nAnn plays the cello\n" in next(folder.glob("ann-plays-*")).read_text("utf-8")
    with moved(folder, "markdown") as other:
        fields = (*KEPT, "kind", "importance", "entities", "speaker", "turn")
        for before, after in zip(everything(full), everything(other), strict=True):
            assert [getattr(after, field) for field in fields] == [getattr(before, field) for field in fields]
            assert after.weight == pytest.approx(before.weight)
        rome = next(memory for memory in everything(other) if "Rome" in memory.content)
        assert "Oslo" in other.get(rome.supersedes).content
        expiring = [memory.expires_at for memory in everything(other) if memory.expires_at]
        assert expiring == [memory.expires_at for memory in everything(full) if memory.expires_at]
    assert [path.name for path in tmp_path.iterdir()] == ["notes"]


def test_a_folder_is_new_or_empty_and_complete(full, tmp_path):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.md").write_text("mine")
    with pytest.raises(InputError, match="Name a new folder"):
        full.export(tmp_path / "full", format="markdown", overwrite=True)
    (tmp_path / "empty").mkdir()
    assert full.export(tmp_path / "empty", format="markdown").written == 5
    with pytest.raises(InputError, match="cannot be created"):
        full.export(tmp_path / "no" / "folder", format="markdown")

    def fail(_):
        raise RuntimeError("stop")

    with pytest.raises(RuntimeError):
        full.export(tmp_path / "broken", format="markdown", progress=fail)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty", "full"]


def test_notes_can_be_one_document(full):
    file = io.StringIO()
    assert full.export(file, format="markdown", user_id="bo").written == 2  # and the one that all users share
    assert file.getvalue().startswith('---\nfrom: "salience"\n')
    with pytest.raises(InputError, match="Give the path of a new folder"):
        full.export(io.BytesIO(), format="markdown")


def test_a_changed_front_matter_is_a_problem(tmp_path):
    (tmp_path / "note.md").write_text('---\nfrom: "salience"\nid: x\n---\ntext')
    with salience.connect(":memory:", embedder=WordEmbedder()) as engine:
        report = engine.import_(tmp_path, source="markdown", on_error="skip")
        assert (report.written, len(report.skipped)) == (0, 1)


def test_formats_are_listed():
    with (
        salience.connect(":memory:", embedder=WordEmbedder()) as engine,
        pytest.raises(InputError, match=r"format 'xml' is unknown\. Choose one of: jsonl, markdown, mem0"),
    ):
        engine.export(io.StringIO(), format="xml")
