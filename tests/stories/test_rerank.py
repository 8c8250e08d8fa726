"""A recall whose best memories a reranker puts in order, within the deadline, or not at all."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import salience
from salience import InputError
from salience.recall import in_pairs
from tests.contract.doubles import PlantedEmbedder
from waiting import PATIENCE

pytestmark = pytest.mark.slow

TEXTS = [f"text {number:02}" for number in range(12)]
COSINES = {text: 0.95 - number / 20 for number, text in enumerate(TEXTS)}


class Reversing:
    """Gives the higher score the later a text comes, and keeps what it was asked."""

    name = "reversing"

    def __init__(self):
        self.asked = []

    def scores(self, query, texts):
        self.asked.append((query, texts))
        return np.arange(len(texts), dtype=np.float64)


class Answering:
    """Gives what it is told to, whatever it is asked."""

    name = "answering"

    def __init__(self, answer):
        self.answer = answer

    def scores(self, query, texts):
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer(len(texts))


@pytest.fixture
def connected(target, clock):
    engines = []

    def connect(reranker=None, profile="zeromemory", cosines=COSINES, **options):
        embedder = PlantedEmbedder(cosines, **options)
        engines.append(
            salience.connect(
                target if not engines else ":memory:",
                embedder=embedder,
                profile=profile,
                clock=clock,
                reranker=reranker,
            )
        )
        for text in cosines:
            engines[-1].remember(text)
        return engines[-1]

    yield connect
    for engine in engines:
        engine.close()


def contents(found):
    return [hit.memory.content for hit in found]


def test_by_default_nothing_is_reranked(connected):
    found = connected().recall("query", limit=3, dry_run=True)
    assert contents(found) == TEXTS[:3]
    assert found.reranker is None
    assert [hit.rerank for hit in found] == [None] * 3
    assert "rerank" not in found.timings


def test_the_best_are_put_in_the_rerankers_order_and_cut_to_the_limit(connected, monkeypatch):
    monkeypatch.setenv("SALIENCE_RERANK_TOP", "8")
    own = Reversing()
    found = connected(own).recall("query", limit=3)
    assert own.asked == [("query", TEXTS[:8])]
    assert contents(found) == TEXTS[7:4:-1]
    assert [hit.rerank for hit in found] == [7.0, 6.0, 5.0]
    assert (found.reranker, found.degraded) == ("reversing", ())
    assert list(found.timings) == ["need", "embed", "gather", "rank", "fetch", "rerank", "touch"]


def test_a_limit_above_rerank_top_reranks_limit_hits(connected, monkeypatch):
    monkeypatch.setenv("SALIENCE_RERANK_TOP", "2")
    assert contents(connected(Reversing()).recall("query", limit=5)) == TEXTS[4::-1]


def test_ties_keep_their_former_order(connected):
    found = connected(Answering(np.zeros)).recall("query", limit=5)
    assert contents(found) == TEXTS[:5]
    assert found.reranker == "answering"


@pytest.mark.parametrize("profile", ["salience", "mememory", "memlayer", "zeromemory", "memorysync", "cmm"])
def test_scores_stay_those_of_the_profile(connected, profile):
    plain, own = connected(profile=profile), connected(Reversing(), profile=profile)
    expected = {hit.memory.content: hit for hit in plain.recall("query", limit=12, dry_run=True)}
    found = own.recall("query", limit=12, dry_run=True)
    assert contents(found) == sorted(expected, reverse=True)
    for hit in found:
        assert hit.score == pytest.approx(expected[hit.memory.content].score, abs=1e-9)
        assert hit.score == pytest.approx(hit.score_detail.recompute(), abs=1e-9)


def test_only_what_was_returned_is_touched(connected, monkeypatch):
    monkeypatch.setenv("SALIENCE_RERANK_TOP", "4")
    memory = connected(Reversing())
    memory.recall("query", limit=1)
    counts = {item.content: item.access_count for item in memory.list().memories}
    assert counts == {text: int(text == TEXTS[3]) for text in TEXTS}


def test_a_memory_below_min_score_is_not_reranked(connected):
    found = connected(Reversing(), profile="memlayer").recall("query", limit=12, min_score=0.7)
    assert contents(found) == TEXTS[5::-1]


def test_near_duplicates_collapse_before_and_make_room(connected, monkeypatch):
    monkeypatch.setenv("SALIENCE_RERANK_TOP", "3")
    alike = dict.fromkeys(["tea it is", "tea it was", "tea then"], 0.95)
    memory = connected(
        Reversing(),
        "memorysync",
        {**alike, "other 03": 0.8, "other 04": 0.7, "other 05": 0.6},
        axes=dict.fromkeys(alike, 1),
    )
    found = memory.recall("query", limit=3)
    assert contents(found) == ["other 04", "other 03", "tea it is"]
    assert len(found[2].absorbed) == 2


def test_a_reranker_does_not_change_where_activation_spreads_from(connected, monkeypatch):
    monkeypatch.setenv("SALIENCE_RERANK_TOP", "12")
    plain, own = connected(profile="cmm"), connected(Answering(np.zeros), profile="cmm")
    expected = plain.recall("query", limit=2, dry_run=True)
    found = own.recall("query", limit=2, dry_run=True)
    assert [(hit.memory.content, hit.score) for hit in found] == [
        (hit.memory.content, pytest.approx(hit.score, abs=1e-9)) for hit in expected
    ]


def test_a_turn_is_read_with_its_speaker(connected):
    own = Answering(np.zeros)
    requests = []
    own.scores = lambda query, texts: requests.append(texts) or np.zeros(len(texts))
    memory = connected(own, cosines={})
    memory.ingest([{"speaker": "Ann", "content": "I went to Lisbon"}], session_id="s")
    memory.recall("query Lisbon")
    assert requests == [["Ann: I went to Lisbon"]]


@pytest.mark.parametrize(
    "answer",
    [
        RuntimeError("text 00 is secret"),
        TimeoutError(),
        lambda count: np.zeros(count - 1),
        lambda count: np.zeros((count, 2)),
        lambda count: [float("nan")] * count,
        lambda count: [1.0] * (count - 1) + [float("inf")],
        lambda count: ["high"] * count,
        lambda count: None,
    ],
)
@pytest.mark.parametrize("deadline_ms", [None, 60_000])
def test_a_failed_reranker_leaves_the_profiles_order_and_is_reported(connected, answer, deadline_ms):
    found = connected(Answering(answer)).recall("query", limit=3, deadline_ms=deadline_ms)
    assert contents(found) == TEXTS[:3]
    assert found.degraded == ("rerank",)
    assert found.reranker is None
    assert [hit.rerank for hit in found] == [None] * 3


@pytest.fixture
def slow():
    """A reranker that answers only once `go` is set, and sets `begun` and `done`."""
    own = Reversing()
    own.begun, own.go, own.done = threading.Event(), threading.Event(), threading.Event()

    def scores(query, texts):
        own.begun.set()
        own.go.wait(PATIENCE)
        own.done.set()
        return np.arange(len(texts), dtype=np.float64)

    own.scores = scores
    yield own
    own.go.set()


def test_a_late_reranker_leaves_the_profiles_order_and_is_reported(connected, slow):
    memory = connected(slow)
    memory.recall("query", limit=1, deadline_ms=0.0)  # everything is loaded now
    found = memory.recall("query", limit=3, deadline_ms=1000)
    assert contents(found) == TEXTS[:3]
    assert found.degraded == ("rerank",)
    assert slow.begun.is_set()
    assert not slow.done.is_set()


def test_without_a_deadline_a_recall_waits_for_the_reranker(connected, slow):
    memory, found = connected(slow), []
    asking = threading.Thread(target=lambda: found.append(memory.recall("query", limit=2)))
    asking.start()
    assert slow.begun.wait(PATIENCE)
    assert found == []
    slow.go.set()
    asking.join(PATIENCE)
    assert contents(found[0]) == [TEXTS[11], TEXTS[10]]
    assert found[0].degraded == ()


def test_the_deadline_counts_from_the_start_of_the_recall(connected):
    """With nothing left of it when the reranker's turn comes, the reranker is not asked."""
    own = Reversing()
    found = connected(own).recall("query text", limit=2, deadline_ms=0.0)
    assert set(found.degraded) == {"embedding", "rerank"}
    assert own.asked == []


def test_late_rerankings_take_no_place_from_embeddings(connected, slow, monkeypatch):
    for name in ("_late_rerankings", "_late_embeddings"):
        monkeypatch.setattr(f"salience.recall.{name}", threading.BoundedSemaphore(1))
    memory = connected(slow)
    for number in range(2):
        assert memory.recall(f"query {number}", limit=2, deadline_ms=1000).degraded == ("rerank",)


def test_an_empty_answer_asks_no_reranker(connected):
    own = Reversing()
    memory = connected(own)
    for found in (memory.recall("query", limit=0), memory.recall("query", user_id="a", tags=["none"])):
        assert (list(found), found.degraded, found.reranker) == ([], (), None)
    assert own.asked == []


def test_the_settings_choose_the_reranker(monkeypatch):
    monkeypatch.setenv("SALIENCE_RERANKER", "bert")
    with pytest.raises(InputError, match="reranker 'bert' is unknown"):
        salience.connect(":memory:", embedder=PlantedEmbedder(), profile="zeromemory")


def test_a_context_is_packed_in_the_rerankers_order(connected):
    packed = connected(Reversing()).context("query", budget_tokens=2000)
    assert [hit.memory.content for hit in packed.hits] == TEXTS[::-1]


def test_a_replaced_memory_stays_below_the_one_that_supersedes_it(connected):
    memory = connected(Reversing(), profile="mememory", cosines={})
    old = memory.remember("text 00").memory
    memory.remember("text 01", supersedes=old.id)
    plain = memory.recall("query", limit=12, min_score=0.0)
    assert "text 01" in contents(plain)
    assert "text 00" not in contents(plain)  # this profile drops it, and a reranker brings nothing back


@pytest.mark.parametrize(
    ("order", "before", "expected"),
    [
        ([2, 1, 0], {}, [2, 1, 0]),
        ([2, 1, 0], {2: [0]}, [0, 2, 1]),
        ([0, 2, 1], {2: [0]}, [0, 2, 1]),
        ([3, 2, 1, 0], {3: [1], 1: [0]}, [0, 1, 3, 2]),
        ([2, 1, 0], {2: [0, 1]}, [0, 1, 2]),
    ],
)
def test_pairs_keep_their_order_and_nothing_is_lost(order, before, expected):
    assert in_pairs(order, before) == expected
    assert sorted(expected) == sorted(order)


def test_an_update_stays_above_the_older_statement_whatever_the_reranker_says(target, clock):
    class Older:
        name = "older"

        def scores(self, query, texts):
            return [float("Skoda" in text) for text in texts]

    with salience.connect(target, clock=clock, reranker=Older(), profile="salience") as memory:
        old = memory.remember("I drive a blue Skoda.").memory
        new = memory.remember("I sold the Skoda; I drive a red Tesla now.", supersedes=old.id).memory
        memory.remember("The Skoda museum opens at nine.")
        ids = [hit.memory.id for hit in memory.recall("Which car do I drive?", limit=5)]
        assert new.id in ids
        assert old.id not in ids[: ids.index(new.id)]
