"""Distinctions through the engine: read at each way in, and heeded where near-duplicates collapse."""

from __future__ import annotations

import csv
import io
import os
from pathlib import Path

import pytest

import salience
from reference import Distinctions
from salience.extract.distinctions import distinctions
from salience.models.calibration import CALIBRATIONS
from salience.models.minilm import MiniLM
from salience.rank.stages import covers
from tests.contract.doubles import PlantedEmbedder
from tests.contract.memories import EVERYTHING

SAID = [
    {"speaker": "Ann", "content": "I take 2 pills"},
    {"speaker": "Bob", "content": "I take 2 pills"},
    {"speaker": "Ann", "content": "I take two pills"},
]


def held(engine):
    """Return the distinctions of every memory and version, by content and version."""
    found = engine.services.store.scan(EVERYTHING, forgotten=True, versions=True)
    return {(item.memory.content, item.memory.version): item.distinctions for item in found}


def test_every_write_derives_distinctions(planted):
    memory = planted({})
    stored = memory.remember("Alice owes 30 euros", importance=0.5, entities=[]).memory
    memory.ingest(SAID[:1], session_id="s")
    memory.update(stored.id, importance=0.9)
    memory.update(stored.id, content="Alice owes 40 euros")
    memory.forget(stored.id)
    assert held(memory) == {
        ("Alice owes 30 euros", 1): distinctions("Alice owes 30 euros"),
        ("Alice owes 30 euros", 2): distinctions("Alice owes 30 euros"),
        ("Alice owes 40 euros", 3): distinctions("Alice owes 40 euros"),
        ("Alice owes 40 euros", 4): distinctions("Alice owes 40 euros"),
        ("I take 2 pills", 1): distinctions("I take 2 pills", "Ann"),
    }
    assert "name:alice" in distinctions("Alice owes 30 euros")


def test_an_import_derives_distinctions_again(planted, clock):
    memory = planted({})
    memory.update(memory.remember("It takes 3 days").memory.id, content="It takes 4 days")
    memory.ingest(SAID, session_id="s")
    exported = io.StringIO()
    memory.export(exported)
    assert "distinctions" not in exported.getvalue()
    for lines in (exported.getvalue().splitlines(), ['{"content": "It does not take 5 days"}']):
        with salience.connect(":memory:", embedder=PlantedEmbedder(), clock=clock) as copy:
            copy.import_(lines)
            assert held(copy)
            assert all(result[0].startswith("text:") for result in held(copy).values())
            if len(lines) > 1:
                assert held(copy) == held(memory)


def test_what_two_people_say_is_two_facts(planted):
    texts = {turn["content"]: 0.9 for turn in SAID}
    memory = planted(texts, profile="memorysync", axes=dict.fromkeys(texts, 1))
    memory.ingest(SAID, session_id="s")
    hits = memory.recall("query")
    assert [(hit.memory.speaker, len(hit.absorbed)) for hit in hits] == [("Ann", 1), ("Bob", 0)]


def test_equal_vectors_with_different_numbers_do_not_collapse(planted):
    texts = {"The limit is 30": 0.9, "The limit is 40": 0.9, "The limit is thirty": 0.9}
    memory = planted(texts, profile="memorysync", axes=dict.fromkeys(texts, 1))
    for text in texts:
        memory.remember(text)
    hits = memory.recall("query")
    assert [hit.memory.content for hit in hits] == ["The limit is 30", "The limit is 40"]
    assert [len(hit.absorbed) for hit in hits] == [1, 0]
    memory.update(hits[1].memory.id, content="The limit is thirty")
    assert [len(hit.absorbed) for hit in memory.recall("query")] == [2]


@pytest.mark.parametrize(
    ("one", "other", "shown"),
    [
        ("The user prefers dark mode", "User likes dark theme", 1),
        ("The user prefers dark mode", "The user prefers light mode", 2),
        ("Alice prefers tea to coffee", "Bob prefers tea to coffee", 2),
        ("The API allows 30 requests a minute", "The API allows 60 requests a minute", 2),
        ("The API key may be shared", "The API key may not be shared", 2),
    ],
)
def test_under_the_default_embedder(one, other, shown):
    with salience.connect(":memory:", profile="memorysync") as memory:
        memory.remember_many([{"content": one}, {"content": other}])
        assert len(memory.recall(one)) == shown


def shares_collapsed(folder):
    """Return label -> (pairs alike under the default embedder, share that collapses) for half of SICK's test pairs."""
    with (Path(folder) / "sick" / "SICK_test_annotated.txt").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))[::2]
    texts = sorted({row[side] for row in rows for side in ("sentence_A", "sentence_B")})
    vectors, codes = dict(zip(texts, MiniLM().embed(texts), strict=True)), Distinctions()
    result = {text: [codes[one] for one in distinctions(text)] for text in texts}
    alike: dict[str, list[float]] = {}
    for row in rows:
        one, other = row["sentence_A"], row["sentence_B"]
        if float(vectors[one] @ vectors[other]) >= CALIBRATIONS[MiniLM.name].paraphrase:
            collapses = (covers(result[one], result[other]) + covers(result[other], result[one])) / 2
            paraphrase = row["entailment_judgment"] == "ENTAILMENT" and float(row["relatedness_score"]) >= 4.5
            alike.setdefault("PARAPHRASE" if paraphrase else row["entailment_judgment"], []).append(collapses)
    return {label: (len(shares), sum(shares) / len(shares)) for label, shares in alike.items()}


@pytest.mark.data
def test_contradictions_stay_and_paraphrases_collapse():
    folder = os.environ.get("SALIENCE_TEST_DATA")
    if not folder:
        pytest.skip("SALIENCE_TEST_DATA names no folder with sick/SICK_test_annotated.txt")
    shares = shares_collapsed(folder)
    assert min(count for count, _ in shares.values()) > 150
    assert shares["CONTRADICTION"][1] < 0.1
    assert shares["PARAPHRASE"][1] > 0.9
    assert shares["NEUTRAL"][1] < 0.75
