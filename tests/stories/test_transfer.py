"""Export and import: everything goes round, and a broken line says where and why."""

from __future__ import annotations

import io
import json
import sys
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest

import salience
from salience import ANY, ImportLineError, InputError, temporary
from salience.ports import FINGERPRINTED, Derive
from salience.records import Filter, Scope
from salience.transfer.export import export
from tests.contract.doubles import PlantedEmbedder
from tests.contract.memories import comparable, random_tokens

EVERYWHERE = {"environment": ANY, "project": ANY, "user_id": ANY, "agent_id": ANY}


def everything(memory):
    stored = memory.services.store.scan(salience.records.Scope(**EVERYWHERE), limit=1000, forgotten=True, versions=True)
    return [comparable(item) for item in stored]


@pytest.fixture
def full(planted, clock):
    """A store with every kind of thing to lose."""
    memory = planted({"hi": 0.9}, profile="cmm")
    memory.remember('plain ünïcödé 👍🏽 \u2028 "quoted"', metadata={"deep": [1, None, {"x": 1.5}]}, tags=["a", "b"])
    memory.remember("scoped", user_id="u", project="p", agent_id="a", environment="staging", key="k", ttl="7d")
    old = memory.remember("older", fact_key="f", importance=0.123456789, weight=0.7).memory
    clock.advance(days=1, microseconds=1)
    memory.remember("newer", supersedes=old.id, fact_key="f")
    memory.update(old.id, content="changed")
    memory.forget(memory.remember("forgotten").memory.id)
    memory.ingest([{"speaker": "Ann", "content": "hi"}, {"speaker": "Bo", "content": "hello"}], session_id="s")
    memory.recall("query", session_id="s", min_score=0.0)
    return memory


def test_export_and_import_round_trip(full, tmp_path, clock):
    path = tmp_path / "all.ndjson"
    seen = []
    report = full.export(path, progress=seen.append)
    assert (report.written, seen[-1]) == (7, 7)
    for target in (":memory:", str(tmp_path / "copy.db")):
        with salience.connect(target, embedder=PlantedEmbedder(), clock=clock) as copy:
            counted = []
            assert copy.import_(path, progress=counted.append).written == 7
            assert counted == [7]
            assert everything(copy) == everything(full)
            again = io.StringIO()
            copy.export(again)
            assert again.getvalue() == path.read_text("utf-8")
            assert copy.import_(path).unchanged == 7
            assert everything(copy) == everything(full)
            primed = copy.recall("query", session_id="s", profile="cmm", min_score=0.0, dry_run=True)
            assert [hit.score_detail.priming for hit in primed] == [pytest.approx(1.3)]


def test_history_round_trips_and_can_be_restored(planted, tmp_path, clock):
    memory = planted({"first": 0.9, "second": 0.5})
    id = memory.remember("first", user_id="u", fact_key="f").memory.id
    then = clock()
    clock.advance(days=1)
    memory.update(id, content="second", user_id="u", agent_id="a", reason="it moved")
    memory.remember("another", user_id="u", fact_key="f")
    memory.forget(id, user_id="u", reason="asked to")
    clock.advance(days=1)
    memory.export(tmp_path / "all.ndjson")
    for target in (":memory:", str(tmp_path / "copy.db")):
        with salience.connect(target, embedder=PlantedEmbedder({"first": 0.9, "second": 0.5}), clock=clock) as copy:
            copy.import_(tmp_path / "all.ndjson")
            assert copy.history(id, user_id="u") == memory.history(id, user_id="u")
            was = copy.recall("query", user_id="u", as_of=then, min_score=0.0)
            assert [(hit.memory, hit.score) for hit in was] == [
                (hit.memory, hit.score) for hit in memory.recall("query", user_id="u", as_of=then, min_score=0.0)
            ]
            assert copy.restore(id, user_id="u").memory.content == "second"
            assert copy.restore(id, 1, user_id="u").memory.content == "first"
            assert copy.erase([id], user_id="u") == 1
            assert "first" not in str(everything(copy))


def test_an_import_reuses_exported_vectors(full, tmp_path, clock):
    path = tmp_path / "all.ndjson"
    full.export(path)
    embedder = PlantedEmbedder()
    with salience.connect(":memory:", embedder=embedder, clock=clock) as copy:
        copy.import_(path)
        assert embedder.texts == [FINGERPRINTED]


@pytest.fixture
def with_tokens(full):
    """The same store, in which each version has token vectors of its own."""
    store, scope = full.services.store, salience.records.Scope(**EVERYWHERE)
    versions = [item.memory for item in store.scan(scope, limit=1000, forgotten=True, versions=True)]
    store.apply(
        [
            Derive("default", one.id, one.version, one.content_hash, tokens=random_tokens(number, 2, 64))
            for number, one in enumerate(versions)
        ]
    )
    return full


def test_token_vectors_round_trip(with_tokens, tmp_path, clock):
    path = tmp_path / "all.ndjson"
    with_tokens.export(path)
    with salience.connect(str(tmp_path / "copy.db"), embedder=PlantedEmbedder(), clock=clock) as copy:
        copy.import_(path)
        assert everything(copy) == everything(with_tokens)
        assert len({str(item[-2]) for item in everything(copy)}) == len(everything(copy)) > 7


def test_token_vectors_of_another_embedder_are_not_imported(with_tokens, tmp_path, clock):
    path = tmp_path / "all.ndjson"
    with_tokens.export(path)
    embedder = PlantedEmbedder(dimension=8)
    embedder.name = "another"
    with salience.connect(":memory:", embedder=embedder, clock=clock) as copy:
        copy.import_(path)
        assert {item[-2] for item in everything(copy)} == {None}


def test_an_import_embeds_again_under_another_embedder(full, tmp_path, clock):
    path = tmp_path / "all.ndjson"
    full.export(path)
    embedder = PlantedEmbedder(dimension=8)
    embedder.name = "another"
    with salience.connect(":memory:", embedder=embedder, clock=clock) as copy:
        copy.import_(path)
        assert set(embedder.texts) - {FINGERPRINTED} == {memory.content for memory, *_ in everything(full)}


def test_a_scope_narrows_an_export(full, tmp_path):
    path = tmp_path / "u.ndjson"
    assert full.export(path, environment="staging", user_id="u", project="p", agent_id="a").written == 1


def test_drafts_are_imported_with_their_scopes_and_supersession(planted, clock):
    memory = planted()
    old = memory.remember("old", user_id="u").memory
    lines = [
        {"content": "first", "user_id": "u", "importance": 0.9, "created_at": "2026-01-01T00:00:00Z", "ttl": "365d"},
        {"content": "second", "user_id": "u", "supersedes": old.id},
        {"content": "third", "session_id": "s", "kind": "turn", "speaker": "Ann"},
    ]
    report = memory.import_(io.StringIO("\n".join(map(json.dumps, lines)) + "\n\n"), user_id="v")
    assert report.written == 3
    assert memory.get(old.id, user_id="u").weight == 0.1
    assert [m.content for m in memory.list(user_id="v").memories] == ["third"]
    first = memory.list(user_id="u").memories[1]
    assert (first.importance, first.expires_at - first.created_at) == (0.9, timedelta(days=365))


def vector(values) -> str:
    import base64

    return base64.b64encode(np.array(values, "<f4").tobytes()).decode()


def broken(full, change) -> list[str]:
    stream = io.StringIO()
    full.export(stream)
    lines = stream.getvalue().splitlines()
    record = json.loads(lines[2])
    change(record)
    return [lines[0], lines[1], json.dumps(record), *lines[3:]]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda r: r["memory"].update(content=" "), "content is empty"),
        (lambda r: r["memory"].pop("content"), "memory.content is missing"),
        (lambda r: r["memory"].update(extra=1), "memory 'extra' is unknown"),
        (lambda r: r["memory"].update(id="short"), "id is 'short'"),
        (lambda r: r["memory"].update(created_at="2026-01-01"), "created_at 2026-01-01T00:00:00 has no time zone"),
        (lambda r: r["memory"].update(importance=7), "importance is 7"),
        (lambda r: r["memory"].update(version=0), "version is 0"),
        (lambda r: r["memory"].update(change="magic"), "change 'magic' is unknown"),
        (lambda r: r["memory"].update(scope={"user_id": "*x*", "planet": "b"}), "memory.scope 'planet' is unknown"),
        (lambda r: r["memory"].update(scope=[]), r"memory.scope is \[\]"),
        (lambda r: r.update(vector=vector([1.0, 0.0])), "vector has 2 numbers"),
        (lambda r: r.update(vector=vector([np.nan] * 64)), "vector is no unit vector"),
        (lambda r: r.update(vector=vector([1.0] * 64)), "vector is no unit vector"),
        (lambda r: r.update(vector="###"), "vector is no base64"),
        (lambda r: r.update(tokens="###"), "tokens is no base64"),
        (lambda r: r.update(tokens="BAABAgM="), "tokens is no base64 of token vectors"),
        (lambda r: r.update(activations={"s": "x"}), "activations.s is 'x'"),
        (lambda r: r.update(memory=7), "memory has the type int"),
    ],
)
def test_an_invalid_record_names_its_line_and_reason(full, tmp_path, clock, change, message):
    lines = broken(full, change)
    with salience.connect(str(tmp_path / "copy.db"), embedder=PlantedEmbedder(), clock=clock) as copy:
        with pytest.raises(ImportLineError, match=f"^line 3: .*{message}"):
            copy.import_(io.StringIO("\n".join(lines)))
        assert everything(copy) == []
        report = copy.import_(io.StringIO("\n".join(lines)), on_error="skip")
        assert report.written == 6
        [(number, reason)] = report.skipped
        assert number == 3
        assert message.split(":")[0].replace("\\", "") in reason


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{not json", "Expecting property name"),
        ("[1, 2]", "a JSON list"),
        ('{"content": "x", "colour": "red"}', "colour is an unknown field"),
        ('{"kind": "fact"}', "content has the type NoneType"),
        ('{"format": "salience", "version": 99, "embedder": "x"}', "version is 99"),
        ("[" * 100_000, "nested too deeply"),
    ],
)
def test_an_invalid_line_stops_the_import_or_is_skipped(planted, line, reason):
    memory = planted()
    lines = ['{"content": "good"}', line, '{"content": "also good"}']
    with pytest.raises(ImportLineError, match=f"^line 2: .*{reason}") as caught:
        memory.import_(io.StringIO("\n".join(lines)))
    assert caught.value.line == 2
    assert memory.stats().memories == 0
    report = memory.import_(io.StringIO("\n".join(lines)), on_error="skip")
    assert report.written == 2
    assert report.skipped[0][0] == 2


def test_a_taken_id_is_reported_by_line(full):
    def change(record):
        record["memory"]["content"] = "something else"

    lines = io.StringIO("\n".join(broken(full, change)))
    with pytest.raises(ImportLineError, match=r"^line 3: an id or key of another content"):
        full.import_(lines)
    lines.seek(0)
    report = full.import_(lines, on_error="skip")
    assert (report.unchanged, [number for number, _ in report.skipped]) == (6, [3])


def test_an_older_export_changes_nothing_and_a_newer_one_is_refused(planted, tmp_path, clock):
    memory = planted()
    stored = memory.remember("text").memory
    older, newer = io.StringIO(), io.StringIO()
    memory.export(older)
    memory.update(stored.id, importance=0.9)
    memory.export(newer)
    assert memory.import_(io.StringIO(older.getvalue())).unchanged == 1
    assert memory.get(stored.id).version == 2
    with salience.connect(":memory:", embedder=PlantedEmbedder(), clock=clock) as copy:
        copy.import_(io.StringIO(older.getvalue()))
        with pytest.raises(ImportLineError, match=r"^line 3: a later version than is here"):
            copy.import_(io.StringIO(newer.getvalue()))
        assert copy.import_(io.StringIO(newer.getvalue()), on_error="skip").skipped[0][0] == 3


def test_a_line_that_cannot_be_stored_stops_the_import_or_is_skipped(planted):
    memory = planted()
    good = [json.dumps({"content": f"good {number}"}) for number in range(600)]
    bad = [json.dumps({"content": "bad", "supersedes": "0" * 32})]
    keys = [json.dumps({"content": content, "key": "k"}) for content in ("one", "two")]
    for extra, line in ((bad, 601), (keys, 602)):
        lines = "\n".join([*good, *extra, json.dumps({"content": "last"})])
        with pytest.raises(ImportLineError, match=f"^line {line}: "):
            memory.import_(io.StringIO(lines))
        assert memory.stats().memories == 0
    report = memory.import_(
        io.StringIO("\n".join([*good, *bad, *keys, json.dumps({"content": "last"})])), on_error="skip"
    )
    assert (report.written, [number for number, _ in report.skipped]) == (602, [601, 603])


def test_versions_out_of_order_are_refused(full):
    stream = io.StringIO()
    full.export(stream)
    head, *lines = stream.getvalue().split("\n")[:-1]
    with salience.connect(":memory:", embedder=PlantedEmbedder()) as copy:
        with pytest.raises(ImportLineError, match=r"memory\.version 1 is out of order"):
            copy.import_(io.StringIO("\n".join([head, *reversed(lines)])))
        with pytest.raises(ImportLineError, match=r"memory\.version 1 is out of order"):
            copy.import_(io.StringIO("\n".join([head, lines[0], lines[0]])))
        assert copy.stats().memories == 0


def test_an_import_without_a_header_embeds_again(full):
    stream = io.StringIO()
    full.export(stream)
    embedder = PlantedEmbedder()
    with salience.connect(":memory:", embedder=embedder) as copy:
        copy.import_(io.StringIO("\n".join(stream.getvalue().split("\n")[1:])))
        assert embedder.texts


def test_an_export_replaces_only_an_export_and_only_when_complete(full, tmp_path, target):
    path = tmp_path / "all.ndjson"
    full.export(path)
    before = path.read_bytes()
    with pytest.raises(InputError, match=r"^file .*exists. Name a new file, or allow"):
        full.export(path)
    full.export(path, overwrite=True)
    assert path.read_bytes() == before

    def fail(_count):
        raise RuntimeError

    with pytest.raises(RuntimeError):
        full.export(path, overwrite=True, progress=fail)
    assert path.read_bytes() == before
    assert list(tmp_path.glob(".*")) == []
    (tmp_path / "letter.txt").write_text("Dear Ann")
    with pytest.raises(InputError, match=r"^file .*since this one is no export"):
        full.export(tmp_path / "letter.txt", overwrite=True)
    if target != ":memory:":
        with pytest.raises(InputError, match=r"^file .*since this one is no export"):
            full.export(target, overwrite=True)
        assert full.stats().memories > 0


@pytest.mark.skipif(sys.platform == "win32", reason="needs a limit on the size of files")
@pytest.mark.parametrize("format", ["jsonl", "mem0", "markdown"])
def test_an_export_to_a_full_disk_is_refused_and_leaves_nothing(tmp_path, format):
    import resource

    with salience.connect(":memory:", embedder=PlantedEmbedder()) as memory:
        memory.remember("a long text " * 1000)
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
        try:
            with pytest.raises(InputError, match=r"all' cannot be written: .*Free some space"):
                memory.export(tmp_path / "all", format=format)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("format", ["jsonl", "mem0", "markdown"])
def test_an_export_is_on_disk_before_it_has_its_name(tmp_path, format, monkeypatch):
    events, sync, rename = [], temporary.sync, Path.replace
    monkeypatch.setattr(temporary, "sync", lambda place: (events.append("sync"), sync(place)))
    monkeypatch.setattr(Path, "replace", lambda self, to: (events.append("rename"), rename(self, to))[1])
    with salience.connect(":memory:", embedder=PlantedEmbedder()) as memory:
        memory.remember("a text")
        memory.export(tmp_path / "all", format=format)
    assert events == ["sync", "rename", "sync"]


def test_files_that_cannot_be_opened(planted, tmp_path):
    memory = planted()
    with pytest.raises(InputError, match=r"^file .*cannot be opened: No such file"):
        memory.import_(tmp_path / "absent.ndjson")
    with pytest.raises(InputError, match=r"^file .*cannot be opened: No such file"):
        memory.export(tmp_path / "absent" / "a.ndjson")
    for neither in (5, object()):
        with pytest.raises(InputError, match=r"^file has the type "):
            memory.export(neither)
        with pytest.raises(InputError, match=r"^file has the type "):
            memory.import_(neither)
    with pytest.raises(InputError, match=r"^on_error 'maybe' is unknown"):
        memory.import_(io.StringIO(""), on_error="maybe")


def test_the_header_names_the_model_of_the_vectors(target, clock, tmp_path):
    first, second = PlantedEmbedder(), PlantedEmbedder(axes={"text": 3})
    second.name = "another"
    with salience.connect(target, embedder=first, clock=clock) as memory:
        memory.remember("text")
        former = memory.services
        memory.reembed(second)
        with (tmp_path / "former.jsonl").open("w") as file:
            export(former, Scope(), Filter(), file)
    for name, lacking in (("planted", {"text"}), ("another", set())):
        embedder = PlantedEmbedder()
        embedder.name = name
        with salience.connect(":memory:", embedder=embedder, clock=clock) as copy:
            copy.import_(tmp_path / "former.jsonl")
        assert set(embedder.texts) - {FINGERPRINTED} == lacking


def test_an_export_during_a_reembed_has_vectors_of_one_model(target, clock, tmp_path, monkeypatch):
    monkeypatch.setattr("salience.transfer.export.PAGE", 2)
    other = PlantedEmbedder()
    other.name = "another"
    with salience.connect(target, embedder=PlantedEmbedder(), clock=clock) as memory:
        memory.remember_many([{"content": f"text {number}"} for number in range(5)])
        former = memory.services
        moved = []

        def change(written: int) -> None:
            if written == 2 and not moved:
                moved.append(memory.reembed(other))

        with (tmp_path / "both.jsonl").open("w") as file:
            export(former, Scope(), Filter(), file, change)
    header, *lines = map(json.loads, (tmp_path / "both.jsonl").read_text().splitlines())
    assert header["embedder"] == "planted"
    assert [line["vector"] is not None for line in lines] == [True, True, False, False, False]


def exported(memory, **changes):
    """Return the lines of an export, those of the memory with a content changed as `changes[content]` says."""
    target = io.StringIO()
    memory.export(target)
    lines = [json.loads(line) for line in target.getvalue().splitlines()]
    for line in lines[1:]:
        line["memory"] |= changes.get(line["memory"]["content"], {})
    return [json.dumps(line) for line in lines]


def in_a_circle(planted, size):
    """Return the lines of an export in which each of some memories supersedes the next, and the last the first."""
    memory = planted()
    texts = [f"memory{place}" for place in range(size)]
    ids = [memory.remember(text).memory.id for text in texts]
    memory.remember("apart")
    return exported(memory, **{text: {"supersedes": ids[place - 1]} for place, text in enumerate(texts)})


@pytest.mark.parametrize("size", [1, 2, 5])
def test_an_import_with_a_cycle_of_supersedes_is_refused_and_stores_nothing(planted, size, clock):
    lines = in_a_circle(planted, size)
    with salience.connect(":memory:", embedder=PlantedEmbedder(), clock=clock) as copy:
        with pytest.raises(ImportLineError) as caught:
            copy.import_(io.StringIO("\n".join(lines)))
        named = ", ".join(str(line) for line in range(2, 2 + size))
        assert f"a cycle of supersedes (lines {named})" in str(caught.value)
        assert copy.list().memories == ()
        report = copy.import_(io.StringIO("\n".join(lines)), on_error="skip")
        assert [line for line, _ in report.skipped] == list(range(2, 2 + size))
        assert [memory.content for memory in copy.list().memories] == ["apart"]


def test_a_cycle_that_an_import_would_close_with_what_is_stored_is_refused(planted, clock):
    header, older, newer, _ = in_a_circle(planted, 2)
    with salience.connect(":memory:", embedder=PlantedEmbedder(), clock=clock) as copy:
        assert copy.import_(io.StringIO(f"{header}\n{newer}")).written == 1
        with pytest.raises(ImportLineError, match=r"line 2: a cycle of supersedes \(lines 2\)"):
            copy.import_(io.StringIO(f"{header}\n{older}"))
        assert copy.import_(io.StringIO(f"{header}\n{newer}")).unchanged == 1


def test_a_cycle_over_two_pages_is_refused(planted, clock, monkeypatch):
    monkeypatch.setattr("salience.transfer.import_.PAGE", 1)
    lines = in_a_circle(planted, 3)
    with salience.connect(":memory:", embedder=PlantedEmbedder(), clock=clock) as copy:
        report = copy.import_(io.StringIO("\n".join(lines)), on_error="skip")
        assert [line for line, _ in report.skipped] == [4]
        assert report.written == 3


@pytest.mark.parametrize("coordinate", ["environment", "user_id", "project", "agent_id"])
def test_a_wildcard_coordinate_is_refused_on_import_and_write(planted, coordinate, clock):
    memory = planted()
    memory.remember("kept", user_id="u")
    lines = [exported(memory, kept={"scope": {coordinate: "*"}})[1], json.dumps({"content": "new", coordinate: "*"})]
    with salience.connect(":memory:", embedder=PlantedEmbedder(), clock=clock) as copy:
        for line in lines:
            with pytest.raises(ImportLineError, match=rf"line 2: {coordinate} is '\*'"):
                copy.import_(io.StringIO(f"\n{line}"))
        assert [line for line, _ in copy.import_(io.StringIO("\n".join(lines)), on_error="skip").skipped] == [1, 2]
        with pytest.raises(InputError, match=rf"^{coordinate} is '\*'"):
            copy.remember("new", **{coordinate: "*"})
        assert copy.list(**EVERYWHERE).memories == ()


OVER = {
    "metadata": {"x": "y" * 65_536},
    "tags": [f"tag{place}" for place in range(1001)],
    "entities": [f"{place:0250d}" for place in range(140)],
}
"""Values of fields of a memory, each over its limit."""


@pytest.mark.parametrize("field", OVER)
def test_a_line_over_a_limit_is_refused_by_its_number(planted, field, clock):
    memory = planted()
    memory.remember("large")
    memory.remember("small")
    lines = [*exported(memory, large={field: OVER[field]}), json.dumps({"content": "draft", field: OVER[field]})]
    with salience.connect(":memory:", embedder=PlantedEmbedder(), clock=clock) as copy:
        with pytest.raises(ImportLineError, match=f"^line 2: {field} has "):
            copy.import_(io.StringIO("\n".join(lines)))
        assert copy.list().memories == ()
        report = copy.import_(io.StringIO("\n".join(lines)), on_error="skip")
        assert [line for line, _ in report.skipped] == [2, 4]
        assert [one.content for one in copy.list().memories] == ["small"]
