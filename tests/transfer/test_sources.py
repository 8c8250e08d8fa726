"""Moving in from other systems: for each source, what goes in comes out, once, with its times."""

from __future__ import annotations

import json

import pytest
from conversations_and_notes import SAMPLES as CONVERSATIONS_AND_NOTES
from other_systems import SAMPLES as SYSTEMS
from other_systems import WordEmbedder, question

import salience
from salience import ANY, ImportLineError
from salience.records import Scope
from salience.transfer import import_
from salience.transfer.importers import SOURCES, records

pytestmark = pytest.mark.slow

SAMPLES = {**SYSTEMS, **CONVERSATIONS_AND_NOTES}
COUNT = 200
EVERYWHERE = Scope("default", ANY, ANY, ANY, ANY)


@pytest.fixture(scope="module", autouse=True)
def _several_pages():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(import_, "PAGE", COUNT // 2)
        yield


@pytest.fixture(scope="module", params=sorted(SAMPLES))
def source(request):
    return request.param


@pytest.fixture(scope="module")
def sample(source, tmp_path_factory):
    return SAMPLES[source](tmp_path_factory.mktemp(source.replace("/", "-")), COUNT)


@pytest.fixture(scope="module")
def moved(source, sample):
    """An engine with the sample, the report of the import, the memories, and the embedder."""
    embedder = WordEmbedder()
    with salience.connect(":memory:", embedder=embedder) as engine:
        report = engine.import_(sample.path, source=source)
        memories = []
        while page := engine.services.store.scan(EVERYWHERE, memories[-1].id if memories else "", 500):
            memories += [stored.memory for stored in page]
        yield engine, report, memories, embedder


def test_every_source_has_a_sample():
    assert SAMPLES.keys() == SOURCES.keys()


def test_all_records_come_in(sample, moved):
    _, report, memories, _ = moved
    assert (report.written, report.unchanged) == (sample.count, 0)
    assert len(memories) == sample.count
    assert report.kinds == sample.kinds


def test_a_second_import_adds_nothing(source, sample, moved):
    engine, _, memories, embedder = moved
    embedded = len(embedder.texts)
    report = engine.import_(sample.path, source=source)
    assert (report.written, report.unchanged, report.kinds) == (0, sample.count, {})
    assert len(embedder.texts) == embedded
    assert {memory.key for memory in memories if memory.key.startswith(f"{source}:")} == {m.key for m in memories}


def test_a_dry_run_counts_the_same(source, sample):
    embedder = WordEmbedder()
    with salience.connect(":memory:", embedder=embedder) as engine:
        report = engine.import_(sample.path, source=source, dry_run=True)
        assert (report.written, report.kinds) == (sample.count, sample.kinds)
        assert len(embedder.texts) < 10
        assert engine.stats().memories == 0


def test_times_are_kept(sample, moved):
    created = {memory.content: memory.created_at for memory in moved[2]}
    wrong = {text for text, instant in sample.created_at.items() if created.get(text) != instant}
    assert not wrong


def test_the_original_is_kept(moved):
    assert all(memory.metadata.get("original") for memory in moved[2])


def test_a_question_is_answered(sample, moved):
    for number in (3, COUNT // 2):
        hits = moved[0].recall(question(number), limit=3, **(sample.where or {}))
        assert f"series {number * 7 + 100000}" in hits[0].memory.content


def test_broken_records_are_listed(source, sample, moved):
    assert tuple(number for number, _ in moved[1].skipped) == sample.broken
    if sample.broken:
        with salience.connect(":memory:", embedder=WordEmbedder()) as engine:
            with pytest.raises(ImportLineError, match=rf"^record {sample.broken[0]}( of .*)?: ") as caught:
                engine.import_(sample.path, source=source, on_error="stop")
            assert caught.value.line == sample.broken[0]
            assert engine.stats().memories == 0


def test_an_open_file_is_read_too(source, sample):
    if sample.path.is_file():
        with salience.connect(":memory:", embedder=WordEmbedder()) as engine, sample.path.open("rb") as file:
            assert engine.import_(file, source=source, dry_run=True).written == sample.count


def test_any_other_json_is_a_problem_or_an_error(source, tmp_path):
    path = tmp_path / "other.json"
    with salience.connect(":memory:", embedder=WordEmbedder()) as engine:
        for value in (None, 1, "text", [], {}, [[]], [{}], {"a": [1]}, [{"id": 1, "content": {}}]):
            path.write_text(json.dumps(value))
            try:
                report = engine.import_(path, source=source, dry_run=True)
            except salience.InputError:
                continue
            assert report.written <= 1


def test_what_a_source_reads_from_is_closed_with_the_import(source, sample):
    with records(source, sample.path) as items:
        next(items)
    assert list(items) == []
