"""Records of other systems become memories: links, times, parts, and the whole file or nothing."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime, timedelta

import pytest
from other_systems import WordEmbedder

import salience
from salience import ImportLineError, InputError
from salience.transfer import import_, importers
from salience.transfer.importers.records import Problem, Record, instant, json_size, key, name, original
from tests.contract.doubles import StoppedClock

OLD, NEW = datetime(2024, 1, 1, tzinfo=UTC), datetime(2024, 6, 1, tzinfo=UTC)


@pytest.fixture
def memory():
    with salience.connect(":memory:", embedder=WordEmbedder(), clock=StoppedClock()) as engine:
        yield engine


def record(number, content, created_at=OLD, **more):
    fields = {field: more.pop(field) for field in ("supersedes", "ended", "began") if field in more}
    draft = {"content": content, "created_at": created_at, "key": f"test:{number}", "metadata": original(number)}
    return Record(number, {**draft, **more}, **fields)


def run(memory, *items, **options):
    return import_.import_records(memory.services, salience.Scope(), iter(items), **options)


def contents(recall):
    return [hit.memory.content for hit in recall]


@pytest.mark.parametrize("skip", [False, True])
@pytest.mark.parametrize("newest_first", [False, True])
def test_a_superseded_record_is_kept_as_history(memory, skip, newest_first):
    items = record(1, "Ann lives in Oslo"), record(2, "Ann lives in Rome now", NEW, supersedes="test:1")
    assert run(memory, *(reversed(items) if newest_first else items), skip=skip).written == 2
    assert contents(memory.recall("Where does Ann live?")) == ["Ann lives in Rome now"]
    before = memory.recall("Where does Ann live?", as_of=NEW - timedelta(days=1))
    assert contents(before) == ["Ann lives in Oslo"]
    assert memory.recall("Where does Ann live?", as_of=OLD - timedelta(days=1)).hits == ()
    newer = memory.recall("Where does Ann live?")[0].memory
    old = memory.get(newer.supersedes)
    assert [version.memory.change for version in memory.history(old.id)] == ["create", "supersede"]
    assert run(memory, *items).unchanged == 2


def test_a_record_may_supersede_one_of_an_earlier_import(memory):
    run(memory, record(1, "Ann lives in Oslo"))
    run(memory, record(2, "Ann lives in Rome now", NEW, supersedes="test:1"))
    newer = memory.recall("Where does Ann live?")[0].memory
    assert memory.get(newer.supersedes).content == "Ann lives in Oslo"


def test_links_in_a_circle_and_to_nowhere_lose_no_record(memory):
    items = [record(1, "one", supersedes="test:2"), record(2, "two", supersedes="test:1")]
    assert run(memory, *items, record(3, "three", supersedes="test:none")).written == 3


def test_an_ended_record_is_found_as_of_an_earlier_instant(memory):
    run(memory, record(1, "Ann works at Acme", NEW, ended=NEW - timedelta(days=30), began=OLD))
    assert memory.recall("Ann works at Acme").hits == ()
    assert contents(memory.recall("Ann works at Acme", as_of=OLD + timedelta(days=1))) == ["Ann works at Acme"]
    memory.upkeep()
    assert contents(memory.recall("Ann works at Acme", as_of=OLD + timedelta(days=1))) == ["Ann works at Acme"]


def test_a_long_content_is_split_into_parts(memory):
    long = "\n\n".join(f"paragraph {number} " + "word " * 200 for number in range(100))
    assert run(memory, record(1, long)).written == 2
    assert run(memory, record(1, long)).unchanged == 2


def test_a_record_in_the_future_is_visible_now(memory):
    run(memory, record(1, "from a fast clock", datetime(2031, 1, 1, tzinfo=UTC)))
    assert contents(memory.recall("from a fast clock")) == ["from a fast clock"]


def test_a_problem_stores_nothing_or_is_listed(memory):
    items = record(1, "one"), Problem(2, "a thing without text"), record(3, "three", kind=7), record(4, "")
    with pytest.raises(ImportLineError, match=r"^record 2: a thing without text"):
        run(memory, *items)
    assert memory.stats().memories == 0
    report = run(memory, *items, skip=True)
    assert report.written == 1
    assert [number for number, _ in report.skipped] == [2, 3, 4]


@pytest.mark.parametrize("dry_run", [False, True])
def test_another_text_under_a_key_is_refused(memory, dry_run):
    run(memory, record(1, "one"))
    with pytest.raises(ImportLineError, match=r"^record 1: "):
        run(memory, record(1, "another"), dry_run=dry_run)
    assert [number for number, _ in run(memory, record(1, "another"), skip=True, dry_run=dry_run).skipped] == [1]


def test_a_dry_run_of_drafts_counts_and_stores_nothing(memory):
    lines = ['{"content": "one", "kind": "rule", "key": "k"}', '{"content": "one", "key": "k"}', "{", '{"content": 1}']
    report = memory.import_(io.StringIO("\n".join(lines)), dry_run=True, on_error="skip")
    assert (report.written, report.unchanged, report.kinds) == (1, 1, {"rule": 1})
    assert [line for line, _ in report.skipped] == [3, 4]
    assert memory.stats().memories == 0
    assert memory.import_(io.StringIO("\n".join(lines)), on_error="skip").written == 1


def test_errors_name_the_choices(memory, tmp_path):
    with pytest.raises(InputError, match=r"source 'mem' is unknown\. Choose one of: .*mem0"):
        memory.import_(tmp_path, source="mem")
    with pytest.raises(InputError, match=r"its files are called \*.json or \*.jsonl\."):
        memory.import_(tmp_path, source="mem0")
    (tmp_path / "file").write_text("no json")
    with pytest.raises(InputError, match=r"^file is no mem0 export\."):
        memory.import_(tmp_path / "file", source="mem0")
    assert "mem0" in importers.SOURCES


@pytest.mark.parametrize(
    "value",
    [
        {"text": "x" * 200_000},
        [{"y": "y" * 100}] * 5000,
        {str(number): "z" * 20 for number in range(9000)},
        {"nan": float("nan"), "large": 2**80, "bad": "\ud800\x00", "": 1},
        json.loads("[" * 100 + "]" * 100),
    ],
)
def test_the_original_fits_into_metadata(value):
    draft = salience.Draft(content="x", metadata=original(value))
    assert json_size(draft.metadata) < 65_536
    assert "original" in draft.metadata


def test_names_keys_and_instants():
    assert name(" a\nb ") == "a b"
    assert name("") is name(None) is name(True) is None
    assert key("s", "x" * 300) != key("s", "x" * 301)
    assert len(key("s", "x" * 300)) == 256
    assert instant("t", "2024-01-01T00:00:00") == instant("t", "2024-01-01T01:00:00+01:00") == OLD
    assert instant("t", OLD.timestamp()) == instant("t", OLD.timestamp() * 1000) == instant("t", "2024-01-01") == OLD
    assert instant("t", None) is instant("t", "") is None
    with pytest.raises(InputError, match=r"^t "):
        instant("t", "tomorrow")
