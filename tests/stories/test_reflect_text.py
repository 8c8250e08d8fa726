"""Reflection: what it carries, who writes its text, what happens where that fails, and several that reflect at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

import pytest
from reflections import ANA, AXES, BOAT, COSINES, MORE, TEA, counts, failing, now, run, store, versions

from salience.engine import Engine
from salience.errors import MovedError, SummariserError
from salience.maintain.reflect import reflect
from salience.ports import Clustering, Summary
from salience.records import ReflectReport
from tests.contract.doubles import PlantedEmbedder


@pytest.fixture
def memory(planted) -> Engine:
    return planted(COSINES, axes=AXES, profile="zeromemory")


# What it carries


def test_a_reflection_has_the_common_fields_of_its_sources(memory, clock):
    store(memory, TEA[:1], importance=0.2, weight=0.5, tags=["drink", "home"], entities=["Ana", "China"])
    store(memory, TEA[1:2], importance=0.3, tags=["shop", "drink"], entities=["Porto", "Ana"], ttl="2d")
    store(memory, TEA[2:], importance=1.0, tags=["drink", "home"], entities=["Ana"], ttl="1d")
    made = run(memory).made[0]
    assert made.importance == pytest.approx(0.5)
    assert (made.tags, made.entities) == (("drink", "home"), ("Ana",))
    assert made.expires_at == clock() + timedelta(days=1)


def test_weight_depends_on_the_relatedness_to_the_sources(memory):
    store(memory, weight=0.5)
    likeness = [sum(a * b for a, b in zip(*pair, strict=True)) for pair in _pairs(TEA[0])]
    assert run(memory).made[0].weight == pytest.approx(0.5 * sum(likeness) / 3, rel=1e-6)


def _pairs(text: str) -> list[Any]:
    vectors = PlantedEmbedder(COSINES, axes=AXES).embed([text, *TEA])
    return [(vectors[0].tolist(), other.tolist()) for other in vectors[1:]]


def test_a_reflection_is_found_by_words_and_by_vector(memory):
    store(memory)
    made = run(memory).made[0]
    stored = next(one for one in memory.services.store.scan(ANA) if one.memory.id == made.id)
    source = next(one for one in memory.services.store.scan(ANA) if one.memory.content == made.content)
    assert stored.terms == source.terms
    assert stored.distinctions == source.distinctions
    assert (stored.vector == source.vector).all()


def test_the_text_of_a_medoid_is_not_embedded_again(memory, monkeypatch):
    store(memory)
    monkeypatch.setattr(PlantedEmbedder, "embed", failing)
    assert counts(run(memory)) == (1, 0, 0, 0)


# Who writes the text


@dataclass
class Writer:
    """A summariser that returns `answer` and records its requests."""

    answer: Callable[[Sequence[tuple[str, str]]], Any]
    asked: list[Sequence[tuple[str, str]]] = field(default_factory=list)
    name: str = "writer"

    def summarise(self, sources: Sequence[tuple[str, str]], /) -> Summary:
        self.asked.append(sources)
        return self.answer(sources)


def all_of(text: str) -> Callable[[Sequence[tuple[str, str]]], Summary]:
    return lambda sources: Summary(text, tuple(id for id, _ in sources))


def with_writer(memory: Engine, writer: Writer) -> None:
    memory.services = replace(memory.services, summariser=writer)


SAID = "Ana drinks tea, mostly at breakfast."


def test_a_summariser_writes_the_text(memory, clock):
    writer = Writer(all_of(SAID))
    with_writer(memory, writer)
    sources = []
    for text in TEA:
        clock.advance(hours=1)
        sources += store(memory, [text])
    report = run(memory)
    made = memory.get(report.made[0].id, user_id="ana")
    assert (made.content, made.sources, report.fell_back) == (SAID, tuple(one.id for one in sources), 0)
    assert (made.speaker, made.weight) == (None, 0.1)  # the planted vector of the text has nothing of theirs
    assert made.created_at == max(source.created_at for source in sources)
    assert writer.asked == [[(source.id, f"2026-05-01 {source.content}") for source in sources]]
    stored = next(one for one in memory.services.store.scan(ANA) if one.memory.id == made.id)
    assert (stored.vector == PlantedEmbedder().embed([SAID])[0]).all()
    assert counts(run(memory)) == (0, 0, 0, 1)
    assert len(writer.asked) == 1


def test_the_summariser_reads_speaker_and_day(memory):
    writer = Writer(all_of(SAID))
    with_writer(memory, writer)
    memory.ingest([{"content": text, "speaker": "Ana"} for text in TEA], session_id="s", user_id="ana")
    assert run(memory).made[0].speaker is None
    assert [text for _, text in writer.asked[0]] == [f"2026-05-01 Ana: {text}" for text in TEA]


def test_a_summary_names_the_sources_that_it_uses(memory):
    with_writer(memory, Writer(lambda sources: Summary(SAID, (sources[2][0], sources[0][0]))))
    sources = store(memory)
    made = run(memory).made[0]
    assert made.sources == (sources[0].id, sources[2].id)
    assert [now(memory, source.id).reflection for source in sources] == [made.id, None, made.id]
    assert counts(run(memory)) == (0, 0, 0, 1)


def raising(error: Exception) -> Callable[[object], Any]:
    def answer(_: object) -> Any:
        raise error

    return answer


@pytest.mark.parametrize(
    "answer",
    [
        raising(SummariserError("refused")),
        raising(TimeoutError("tea")),
        all_of(""),
        all_of(" \n"),
        all_of("x" * 65_537),
        all_of("tea\0"),
        lambda sources: Summary(SAID, ()),
        lambda sources: Summary(SAID, (sources[0][0], "another")),
        lambda sources: Summary(SAID, (sources[0][0][-8:],)),
        lambda sources: Summary(None, (sources[0][0],)),
        lambda sources: SAID,
        lambda sources: None,
    ],
)
def test_after_any_failure_the_text_is_that_of_the_medoid(memory, answer):
    with_writer(memory, Writer(answer))
    store(memory)
    report = run(memory)
    assert (report.made[0].content, len(report.made[0].sources), report.fell_back) == (TEA[0], 3, 1)


def test_a_summary_that_cannot_be_embedded_is_not_used(memory, monkeypatch):
    with_writer(memory, Writer(all_of(SAID)))
    store(memory)
    monkeypatch.setattr(PlantedEmbedder, "embed", failing)
    report = run(memory)
    assert (report.made[0].content, report.fell_back) == (TEA[0], 1)


def test_a_failed_summary_is_tried_again(memory):
    writer = Writer(raising(SummariserError("refused")))
    with_writer(memory, writer)
    store(memory)
    made = run(memory).made[0]
    before = versions(memory)
    report = run(memory)
    assert (counts(report), report.fell_back) == ((0, 0, 0, 1), 1)
    assert versions(memory) == before
    writer.answer = all_of(SAID)
    report = run(memory)
    assert (report.renewed[0].id, report.renewed[0].content, report.fell_back) == (made.id, SAID, 0)
    assert counts(run(memory)) == (0, 0, 0, 1)


def test_a_dry_run_calls_no_summariser(memory):
    writer = Writer(all_of(SAID))
    store(memory)
    run(memory)
    with_writer(memory, writer)
    assert counts(run(memory, dry_run=True)) == (0, 0, 0, 1)
    store(memory, BOAT)
    assert counts(run(memory, dry_run=True)) == (1, 0, 0, 1)
    assert writer.asked == []


# Several at once


def test_concurrent_runs_make_one_reflection(planted, target):
    """While the one waits for its summariser, the other reflects; what the one had read is then out of date."""
    one, other = (planted(COSINES, axes=AXES, profile="zeromemory") for _ in range(2))
    if target == ":memory:":  # which is of each engine alone
        other.services = one.services
    store(one, (*TEA, *BOAT))
    reports: list[ReflectReport] = []

    def answer(sources: Sequence[tuple[str, str]]) -> Summary:
        if not reports:
            reports.append(run(other))
        return all_of(SAID)(sources)

    writer = Writer(answer)
    one.services = replace(one.services, summariser=writer)
    late = run(one)
    held = [stored.memory for stored in one.services.store.scan(ANA) if stored.memory.kind == "reflection"]
    assert len(held) == len(reports[0].made) == 2
    assert {memory.content for memory in held} == {SAID}
    assert counts(late) == (0, 2, 0, 0)
    assert len(writer.asked) == 2


def test_a_source_changed_meanwhile_is_read_again(memory):
    sources = store(memory, (*TEA, MORE))

    def answer(texts: Sequence[tuple[str, str]]) -> Summary:
        if len(texts) == 4:
            memory.forget(sources[3].id, user_id="ana")
        return all_of(SAID)(texts)

    with_writer(memory, Writer(answer))
    report = run(memory)
    assert counts(report) == (1, 0, 0, 0)
    assert report.made[0].sources == tuple(source.id for source in sources[:3])
    assert memory.get(report.made[0].id, user_id="ana") == report.made[0]


@pytest.mark.parametrize("what", ["forget", "update"])
def test_a_source_changed_while_a_stale_reflection_is_renewed_is_read_again(memory, what):
    sources = store(memory, (*TEA, MORE))
    made = run(memory).made[0]
    memory.update(sources[0].id, content=BOAT[0], user_id="ana")

    def answer(arguments: Sequence[tuple[str, str]]) -> Summary:
        if any(TEA[1] in text for _, text in arguments):
            if what == "forget":
                memory.forget(sources[1].id, user_id="ana")
            else:
                memory.update(sources[1].id, content=TEA[0], user_id="ana")
        return all_of(" / ".join(text for _, text in arguments))(arguments)

    memory.services = replace(memory.services, clustering=Clustering(least=2), summariser=Writer(answer))
    run(memory)
    again = memory.get(made.id, user_id="ana")
    assert TEA[1] not in again.content
    assert (sources[1].id in again.sources) == (what == "update")
    assert run(memory).renewed == ()


@pytest.mark.parametrize("dimension", [16, 32])
def test_an_engine_of_a_former_model_writes_no_reflections(planted, dimension):
    memory = planted(COSINES, axes=AXES, profile="zeromemory")
    store(memory)
    with_writer(memory, Writer(all_of(SAID)))
    former = memory.services
    other = PlantedEmbedder(COSINES, dimension=dimension, axes=AXES)
    other.name = "another"
    memory.reembed(other)
    with pytest.raises(MovedError, match="vectors of embedder 'another'"):
        reflect(former, ANA)
    assert len(run(memory).made) == 1
