"""Exports and imports over HTTP: line by line, counted, and never half a file."""

from __future__ import annotations

import io
import json
import zipfile

import httpx
import pytest

import salience
from salience import ImportLineError, InputError, ServerError
from salience.client import client
from tests.contract.doubles import PlantedEmbedder

pytestmark = pytest.mark.slow

LINES = "application/x-ndjson"
HEADER = b'{"format": "salience", "version": 1, "embedder": "planted", "dimension": 64}\n'
LINE = b'{"memory": {"id": "a"}}\n'


@pytest.fixture
def stored(engine, where):
    drafts = [{"content": f"text {number}\u2028\u0085 of {'x' * 3_000}"} for number in range(60)]
    receipts = engine.remember_many(drafts, **where)
    engine.update(receipts[0].memory.id, importance=0.9, **where)
    return where


def test_an_export_equals_the_engines(engine, through, stored, tmp_path):
    memory, _ = through()
    seen: list[int] = []
    assert memory.export(tmp_path / "there.ndjson", progress=seen.append, **stored).written == 60
    engine.export(tmp_path / "here.ndjson", **stored)
    assert (tmp_path / "there.ndjson").read_bytes() == (tmp_path / "here.ndjson").read_bytes()
    assert seen == [1, 1, *range(2, 61)]
    with pytest.raises(InputError, match="Name a new file"):
        memory.export(tmp_path / "there.ndjson")
    assert memory.export(tmp_path / "there.ndjson", overwrite=True, **stored).written == 60


def test_an_import_is_complete_and_counted(through, stored):
    memory, _ = through()
    exported, seen = io.StringIO(), []
    memory.export(exported, **stored)
    lines = exported.getvalue().splitlines(keepends=True)
    with salience.connect(":memory:", embedder=PlantedEmbedder()) as engine:
        assert engine.import_(io.StringIO(exported.getvalue())).written == 60
    assert memory.import_(lines, progress=seen.append).unchanged == 60
    assert seen
    assert seen == sorted(seen)
    assert max(len(chunk) for chunk in client._import_chunks(lines, None)) < 2 * client.CHUNK


def test_an_invalid_line_is_reported_by_number(through, where, tmp_path):
    path = tmp_path / "drafts.ndjson"
    path.write_text('{"content": "one"}\n\n{"content": 2}\n')
    memory, _ = through()
    with pytest.raises(ImportLineError, match=r"^line 3: content has the type int") as caught:
        memory.import_(path, **where)
    assert caught.value.line == 3
    assert memory.stats(**where).memories == 0
    report = memory.import_(path, on_error="skip", **where)
    assert (report.written, [line for line, _ in report.skipped]) == (1, [3])
    with pytest.raises(InputError, match="on_error 'perhaps' is unknown"):
        memory.import_(path, on_error="perhaps")
    with pytest.raises(InputError, match="file is an item of int"):
        memory.import_([1, 2])


BROKEN = [
    pytest.param(HEADER + LINE + LINE[:9], "the connection broke", id="half a line"),
    pytest.param(b"", "the connection broke", id="nothing"),
    pytest.param(LINE, "did not send one export", id="no header"),
    pytest.param(HEADER + LINE + HEADER, "did not send one export", id="two exports"),
    pytest.param(HEADER + b"<html>\n", "did not send lines of JSON", id="a page"),
]


@pytest.mark.parametrize(("content", "message"), BROKEN)
def test_an_incomplete_export_leaves_no_file(through, tmp_path, content, message):
    memory, _ = through(httpx.Response(200, content=content, headers={"Content-Type": LINES}))
    path = tmp_path / "export.ndjson"
    with pytest.raises(ServerError, match=message):
        memory.export(path)
    assert list(tmp_path.iterdir()) == []


def test_a_refused_export_leaves_no_file(through, tmp_path):
    memory, _ = through()
    with pytest.raises(InputError, match=r"^user_id has a control character"):
        memory.export(tmp_path / "export.ndjson", user_id="a\nb")
    refused = {"type": "urn:salience:problem:forbidden", "title": "-", "status": 403, "detail": "not you"}
    answer = httpx.Response(403, content=json.dumps(refused), headers={"Content-Type": "application/problem+json"})
    memory, _ = through(answer)
    with pytest.raises(salience.ForbiddenError, match="not you"):
        memory.export(tmp_path / "export.ndjson")
    assert list(tmp_path.iterdir()) == []


def test_the_export_of_another_system_is_sent_as_it_is(through, where, tmp_path):
    memory, _ = through()
    items = [{"id": f"{where['user_id']}-{n}", "memory": f"a fact\r\nof {n}", "user_id": "x"} for n in range(3)]
    (tmp_path / "mem0.json").write_text(json.dumps([*items, {"id": "broken"}]))
    project = {"project": where["user_id"]}
    with pytest.raises(ImportLineError, match=r"^record 4: ") as caught:
        memory.import_(tmp_path / "mem0.json", source="mem0", on_error="stop", **project)
    assert (caught.value.line, caught.value.unit) == (4, "record")
    for dry_run, counts in ((True, (3, 0)), (False, (3, 0)), (False, (0, 3))):
        with (tmp_path / "mem0.json").open("rb") as file:
            report = memory.import_(file, source="mem0", dry_run=dry_run, **project)
        assert [number for number, _ in report.skipped] == [4]
        assert (report.written, report.unchanged) == counts
        assert report.kinds == ({"fact": 3} if counts[0] else {})
    assert memory.list(user_id="x", **project).memories[0].content == "a fact\r\nof 0"
    with pytest.raises(InputError, match="cannot be sent to a server"):
        memory.import_(tmp_path, source="markdown")
    with pytest.raises(InputError, match="Choose one of: chatgpt"):
        memory.import_(io.StringIO("{}"), source="unknown")


def test_a_zip_file_is_sent_as_it_is_and_its_files_are_named(through, where, tmp_path):
    memory, _ = through()
    project = {"project": where["user_id"]}
    with zipfile.ZipFile(tmp_path / "mem0.zip", "w") as archive:
        archive.writestr(
            "a.json", json.dumps([{"id": f"zip {where['user_id']}", "memory": "a fact", "user_id": "zip"}])
        )
        archive.writestr("b.json", json.dumps([{"id": "broken", "memory": None}]))
    assert memory.import_(tmp_path / "mem0.zip", source="mem0", **project).written == 1
    with pytest.raises(ImportLineError, match=r"^record 1 of b\.json: memory is missing") as caught:
        memory.import_(tmp_path / "mem0.zip", source="mem0", on_error="stop", **project)
    assert caught.value.file == "b.json"


def test_exports_for_other_systems_are_made_here(engine, through, stored, tmp_path):
    memory, _ = through()
    gone = engine.remember("soon forgotten", **stored).memory
    engine.forget(gone.id, **stored)
    assert memory.export(tmp_path / "mem0.json", format="mem0", **stored).written
    engine.export(tmp_path / "own.json", format="mem0", **stored)
    assert json.loads((tmp_path / "mem0.json").read_text()) == json.loads((tmp_path / "own.json").read_text())
    memory.export(tmp_path / "notes", format="markdown", **stored)
    assert len(list((tmp_path / "notes").iterdir())) == 60


def test_an_export_without_a_project_is_refused_rather_than_widened(through, tmp_path):
    memory, network = through()
    with pytest.raises(InputError, match=r"^project cannot be None over HTTP"):
        memory.export(tmp_path / "all.jsonl", project=None)
    assert network.requests == []
