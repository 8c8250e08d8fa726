"""Several questions at once: the answers of `recall` to each, embedded together, counted once all are answered."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import salience
from salience import InputError
from salience.errors import EmbedderError
from salience.rank.profiles import NAMES
from tests.contract.doubles import PlantedEmbedder, StoppedClock

WORDS = "Mira Jonas tea Lisbon paint paints 2024 May green I latest".split()
TEXTS = st.lists(st.sampled_from(WORDS), min_size=1, max_size=6).map(" ".join)
TURNS = st.lists(st.tuples(st.sampled_from(["Mira", "Jonas", None]), TEXTS), max_size=12)
COSINES = {f"text {number}": 0.9 - number / 20 for number in range(6)}


def contents(answer):
    return [hit.memory.content for hit in answer]


def store(memory, *texts):
    memory.remember_many([{"content": text} for text in texts])


class Noting(PlantedEmbedder):
    """Notes how many texts stood in each call."""

    def __init__(self, *, independent=False):
        super().__init__()
        self.independent = independent
        self.calls = []

    def embed(self, texts, /):
        self.calls.append(len(texts))
        return super().embed(texts)


@pytest.mark.every_surface
class TestOnEverySurface:
    def test_each_question_has_its_own_answer_in_its_place(self, connect, target, clock):
        embedder = PlantedEmbedder({"tea": 0.9}, axes={"tea": 1})
        memory = connect(target, embedder=embedder, clock=clock, profile="zeromemory")
        store(memory, "tea", "the harbour of Lisbon")
        first, second, third = memory.recall_many(["query", "the harbour of Lisbon", "query"], limit=1)
        assert [contents(one) for one in (first, second, third)] == [["tea"], ["the harbour of Lisbon"], ["tea"]]
        assert first == third
        assert first.profile == "zeromemory"
        assert list(first.timings) == ["need", "embed", "wait", "gather", "rank", "fetch", "touch"]

    def test_none_counts_before_all_are_answered(self, planted):
        memory = planted(COSINES, profile="zeromemory")
        store(memory, *COSINES)
        alone = memory.recall("query", dry_run=True)
        assert memory.recall_many(["query"] * 3) == [alone] * 3
        assert {hit.memory.access_count for hit in memory.recall("query", dry_run=True)} == {3}

    def test_dry_runs_and_recalls_as_of_an_instant_count_no_access(self, planted, clock):
        memory = planted(COSINES)
        store(memory, *COSINES)
        memory.recall_many(["query", "query too"], dry_run=True)
        memory.recall_many(["query", "query too"], as_of=clock())
        assert {one.access_count for one in memory.list().memories} == {0}

    def test_no_queries_return_an_empty_list(self, planted):
        assert planted().recall_many([]) == []
        assert planted().recall_many(iter(())) == []

    @pytest.mark.parametrize(
        ("given", "message"),
        [
            ("one question", "^queries has the type str"),
            (["fine", " "], r"^queries\[1\] "),
            ([7], r"^queries\[0\] has the type int"),
        ],
    )
    def test_what_is_no_list_of_questions_is_refused_by_its_place(self, planted, given, message):
        with pytest.raises(InputError, match=message):
            planted().recall_many(given)

    def test_a_query_over_the_limit_is_named_by_its_index(self, planted):
        with pytest.raises(InputError, match=r"^queries\[1\] "):
            planted().recall_many(["fine", "x" * 70_000])

    def test_the_other_arguments_hold_for_each(self, planted):
        memory = planted(COSINES)
        memory.remember_many([{"content": text, "tags": [text[-1]], "user_id": "alice"} for text in COSINES])
        found = memory.recall_many(["query", "query too"], tags=["3"], user_id="alice", profile="zeromemory")
        assert [contents(one) for one in found] == [["text 3"]] * 2
        assert [len(one) for one in memory.recall_many(["query", "query too"], user_id="bob")] == [0, 0]
        with pytest.raises(InputError, match="since"):
            memory.recall_many(["query"], since="tomorrow")


@settings(max_examples=20)
@given(TURNS, st.lists(TEXTS, max_size=5), st.sampled_from(NAMES), st.booleans())
def test_the_answers_are_those_of_asking_one_by_one(turns, queries, profile, independent):
    embedder = Noting(independent=independent)
    with salience.connect(":memory:", embedder=embedder, profile=profile, clock=StoppedClock()) as memory:
        memory.ingest([{"content": text, "speaker": who} for who, text in turns], session_id="s") if turns else None
        many = memory.recall_many(queries, min_score=0, dry_run=True)
        calls = embedder.calls.copy()
        memory.services.embedder.forget()
        one_by_one = [memory.recall(query, min_score=0, dry_run=True) for query in queries]
        assert many == one_by_one
        embedder.calls.clear()
        memory.services.embedder.forget()
        memory.recall_many(queries * 2, min_score=0, dry_run=True)
        assert sum(embedder.calls) <= sum(calls)  # none is embedded twice
        assert len(embedder.calls) <= 1 or not independent


class Picky(PlantedEmbedder):
    """Refuses texts with `poison`."""

    def embed(self, texts, /):
        if any("poison" in text for text in texts):
            raise EmbedderError("embedder 'planted' failed. Wait.")
        return super().embed(texts)


@pytest.mark.parametrize("independent", [False, True])
def test_a_question_that_cannot_be_embedded_leaves_the_others_whole(clock, independent):
    embedder = Picky(COSINES)
    embedder.independent = independent
    with salience.connect(":memory:", embedder=embedder, clock=clock) as memory:
        store(memory, *COSINES)
        questions = ["query", "query of poison", "query too"]
        found = memory.recall_many(questions, dry_run=True)
        assert [one.degraded for one in found] == [(), ("embedding",), ()]
        assert found == [memory.recall(question, dry_run=True) for question in questions]
        assert memory.recall_many(["poison"], dry_run=True)[0].degraded == ("embedding",)


def test_a_deadline_that_is_over_has_all_of_them_answer_by_words(clock):
    embedder = Noting()
    with salience.connect(":memory:", embedder=embedder, clock=clock) as memory:
        store(memory, "tea in Lisbon", "green paint")
        embedder.calls.clear()
        found = memory.recall_many(["tea", "paint"], deadline_ms=0, min_score=0)
    assert [one.degraded for one in found] == [("embedding",)] * 2
    assert [contents(one)[0] for one in found] == ["tea in Lisbon", "green paint"]
    assert embedder.calls == []


def test_counts_that_cannot_be_written_take_nothing_from_the_answers(planted, monkeypatch):
    memory = planted(COSINES, profile="zeromemory")
    store(memory, *COSINES)
    whole = memory.recall_many(["query", "query too"], dry_run=True)

    monkeypatch.setattr(memory.services.access_log, "add", lambda touch: False)
    found = memory.recall_many(["query", "query too"])
    assert [contents(one) for one in found] == [contents(one) for one in whole]
    assert {one.degraded for one in found} == {("touch",)}


def test_a_reranker_reads_the_answer_to_each(clock):
    class Reversing:
        name = "reversing"

        def scores(self, query, texts):
            return [float(place) if "too" in query else float(-place) for place in range(len(texts))]

    embedder = PlantedEmbedder(COSINES)
    with salience.connect(
        ":memory:", embedder=embedder, clock=clock, reranker=Reversing(), profile="zeromemory"
    ) as memory:
        store(memory, *COSINES)
        kept, turned = memory.recall_many(["query", "query too"], limit=6)
        assert contents(kept) == list(COSINES) == contents(turned)[::-1]
        assert (kept.reranker, turned.reranker) == ("reversing", "reversing")
