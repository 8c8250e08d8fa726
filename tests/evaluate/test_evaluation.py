"""An evaluation on small files: which questions count, what is found, what is summed up."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from formats import (
    LOCOMO,
    LONGMEMEVAL,
    OTHER_LOCOMO,
    beam,
    both_locomo,
    locomo,
    precisionmembench,
    written,
)

from salience.errors import InputError
from salience.evaluate import run
from salience.evaluate.compare import ALL, Wanted, as_record, compare, pair
from salience.evaluate.datasets import conversations
from salience.evaluate.metrics import Metric
from salience.evaluate.run import Plan, Terms, contenders, count, evaluate, sources
from salience.models import registry
from tests.contract.doubles import PlantedEmbedder


@pytest.fixture(autouse=True)
def _planted_embedder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry.EMBEDDERS, "planted", lambda _: PlantedEmbedder())


def plan(*names: str, limit: int = 10, **options) -> Plan:
    return Plan(Terms(contenders(list(names) or ["bm25"]), limit), **options)


def by_question(outcome, label="bm25"):
    return [(one.category, one.total, one.answerable, one.found[label].places) for one in outcome.results]


def test_questions_are_held_against_the_evidence_that_is_stored(tmp_path: Path):
    outcome = evaluate(sources([locomo(tmp_path)]), plan(), "planted")
    assert by_question(outcome) == [
        ("4", 1, True, (2,)),  # kite: D1:1 and D2:2, of which the second is shorter, and the first is evidence
        ("1", 2, True, (1, 2)),
        ("2", 1, True, (2,)),  # of D1:2 and a turn that does not exist
        ("5", 0, False, ()),  # asks for what was never said: no evidence counts
    ]
    assert (outcome.memories, outcome.without_evidence) == (5, 1)


def test_categories_that_are_named_are_measured_and_others_are_not(tmp_path: Path):
    read = sources([locomo(tmp_path)])
    some = plan(categories=frozenset({"4", "5"}))
    assert [(one.category, one.total) for one in evaluate(read, some, "planted").results] == [("4", 1), ("5", 1)]
    only = plan(categories=frozenset({"4"}))
    assert [(one.category, one.total) for one in evaluate(read, only, "planted").results] == [("4", 1), ("5", 0)]
    assert (count(read, plan()), count(read, some), count(read, only)) == (5, 2, 2)


def test_sessions_count_once_each(tmp_path: Path):
    read = sources([written(tmp_path / "s.json", LONGMEMEVAL)])
    arguments = evaluate(read, plan("bm25", "cosine", granularity="session"), "planted").results
    assert [(one.total, one.answerable) for one in arguments] == [(1, True), (0, False)]
    assert arguments[0].found["cosine"].returned == 3
    assert arguments[0].found["bm25"].places == (1,)


def test_the_parts_of_a_long_message_count_as_that_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SALIENCE_CONTENT_LIMIT", "30")
    folder = beam(tmp_path)
    turns = [("0", "I met Ola in Bergen. Ola sails. Ola likes Bergen."), ("2", "We sail on Fridays"), ("4", "Ola left")]
    written(folder / "chat.json", [{"turns": [[{"role": "user", "id": id, "content": text}] for id, text in turns]}])
    outcome = evaluate(sources([folder]), plan(), "planted")
    assert outcome.memories == 4
    assert [(one.category, one.total, one.found["bm25"].places) for one in outcome.results] == [
        ("abstention", 0, ()),
        ("knowledge_update", 2, (1, 2)),
        ("information_extraction", 1, (1,)),
    ]
    assert outcome.results[1].found["bm25"].returned == 2


def test_beliefs_of_other_tiers_are_not_searched(tmp_path: Path):
    outcome = evaluate(sources([precisionmembench(tmp_path)]), plan("cosine"), "planted")
    found = [one.found["cosine"] for one in outcome.results]
    assert [one.returned for one in found] == [2, 0, 2]  # without the pinned belief; another user sees nothing


def test_progress_is_reported_for_each_question(tmp_path: Path):
    result: list[int] = []
    read = sources([both_locomo(tmp_path)])
    arguments = plan(foreign=3)
    evaluate(read, arguments, "planted", result.append)
    assert sum(result) == len(result) == count(read, arguments) == 5 + 2 + 3


def test_every_format_with_questions_is_a_source(tmp_path: Path):
    written(tmp_path / "some" / "kites.json", LOCOMO)
    written(tmp_path / "some" / "boats.json", OTHER_LOCOMO)
    beam(tmp_path / "chats")
    paths = [tmp_path / "some", tmp_path / "chats", precisionmembench(tmp_path / "bench")]
    read = sources(paths)
    assert [(source.path.name, source.format) for source in read] == [
        ("boats.json", "locomo"),
        ("kites.json", "locomo"),
        ("chats", "beam"),
        ("bench", "precisionmembench"),
    ]
    twice = sources([locomo(tmp_path), locomo(tmp_path)])
    assert [one.name for one in run.conversations(twice)] == ["kites", "kites-2"]


def test_a_path_without_questions_is_refused(tmp_path: Path):
    chat = written(tmp_path / "chat.json", [{"role": "user", "content": "hi"}])
    with pytest.raises(InputError, match=r"has no questions. Give one of: LoCoMo JSON"):
        sources([chat])
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=str(tmp_path / "empty")):
        sources([tmp_path / "empty"])


def test_the_sum_says_what_was_measured(tmp_path: Path):
    read, arguments = sources([both_locomo(tmp_path)]), plan("bm25", "cosine", foreign=4)
    measured = compare(read, arguments, Wanted((1, 10)), [evaluate(read, arguments, "planted")])
    assert (measured.files, measured.formats) == (("both.json",), ("LoCoMo JSON",))
    assert (measured.conversations, measured.memories, measured.n, measured.without_evidence) == (2, 7, 5, 1)
    assert measured.categories == {"1": "multi-hop", "2": "temporal", "4": "single-hop"}
    found = measured.score("bm25", "planted", "recall@1")
    # First ranks: 0 of 1, 1 of 2, 0 of 1, 1 of 1, 1 of 1.
    assert (found.n, found.mean) == (5, pytest.approx((0 + 0.5 + 0 + 1 + 1) / 5))
    assert measured.score("bm25", "planted", "recall@1", "1").mean == 0.5
    assert measured.score("bm25", "planted", "mrr@10", ALL).mean == pytest.approx((0.5 + 1 + 0.5 + 1 + 1) / 5)
    assert measured.score("bm25", "planted", "recall@3") is None
    (difference,) = measured.differences
    assert (difference.first, difference.second, difference.metric) == ("bm25", "cosine", "recall@10")
    assert {(one.ranking, one.kind, one.empty.n) for one in measured.silences} == {
        (ranking, kind, n) for ranking in ("bm25", "cosine") for kind, n in (("foreign", 4), ("unanswerable", 1))
    }
    assert [list(times.steps) for times in measured.times] == [["need", "embed", "gather", "rank"]] * 2
    record = as_record(measured)
    assert record["scores"]["planted"]["bm25"]["all"]["recall@1"].mean == found.mean


def test_a_pair_to_compare_has_to_be_there(tmp_path: Path):
    assert pair("bm25:cosine") == ("bm25", "cosine")
    for wrong in ("bm25", ":cosine", "bm25:"):
        with pytest.raises(InputError, match="Give two rankings"):
            pair(wrong)
    read = sources([locomo(tmp_path)])
    outcome = evaluate(read, plan(), "planted")
    with pytest.raises(InputError, match="Name two of: bm25"):
        compare(read, plan(), Wanted(compare=(("bm25", "cmm"),)), [outcome])


def test_questions_without_evidence_are_an_error(tmp_path: Path):
    read, sessions = sources([precisionmembench(tmp_path)]), plan("cosine", granularity="session")
    with pytest.raises(InputError, match="has no question whose evidence is stored"):
        compare(read, sessions, Wanted(), [evaluate(read, sessions, "planted")])


def test_metrics_have_the_requested_depths():
    wanted = Wanted((1, 50), Metric("ndcg", 5))
    assert [str(metric) for metric in wanted.metrics] == [
        "recall@1",
        "recall@50",
        "all@1",
        "all@50",
        "hit@1",
        "hit@50",
        "mrr@50",
        "ndcg@10",
        "ndcg@5",
    ]
    assert (wanted.deepest, run.limit_for(50, "session")) == (50, 250)


class TestForeignQuestions:
    def held(self, tmp_path: Path):
        return tuple(conversations(both_locomo(tmp_path)))

    def test_foreign_queries_run_in_another_store_without_evidence(self, tmp_path: Path):
        placed = run.foreign(self.held(tmp_path), 100, "keep", 0)
        assert sorted(one.question for one in placed["boats"]) == [
            "What colour was Ana's kite?",
            "What happened to the kite?",
            "When did Bo speak of goats?",
            "Which bird does Bo keep?",
        ]
        assert {one.question for one in placed["kites"]} == {"Where did Ida's ferry go?", "What does Max paint?"}
        assert not any(one.answerable or one.evidence for arguments in placed.values() for one in arguments)

    @pytest.mark.parametrize(
        ("naming", "text", "expected"),
        [
            ("strip", "What colour was Ana's kite?", "What colour was kite?"),
            ("strip", "Did ana tell Bo, or Bo Ana?", "Did tell, or?"),
            ("strip", "What is Anabel's plan?", "What is Anabel's plan?"),
            ("swap", "What colour was Ana's kite?", "What colour was Ida's kite?"),
            ("swap", "Did Ana tell Bo?", "Did Ida tell Max?"),
            ("keep", "Did Ana tell Bo?", "Did Ana tell Bo?"),
        ],
    )
    def test_names_are_removed_swapped_or_kept(self, naming, text, expected):
        assert run.renamed(text, naming, ("Ana", "Bo"), ("Ida", "Max")) == expected

    def test_one_conversation_alone_is_refused(self, tmp_path: Path):
        with pytest.raises(InputError, match="at least two conversations"):
            run.foreign(self.held(tmp_path)[:1], 5, "strip", 0)


@pytest.mark.data
def test_the_baselines_on_locomo_are_what_they_are_known():
    folder = os.environ.get("SALIENCE_TEST_DATA")
    if not folder or not (Path(folder) / "locomo").is_dir():
        pytest.skip("SALIENCE_TEST_DATA names no folder with locomo/")
    read = sources([Path(folder) / "locomo"])
    arguments = plan("bm25", limit=20, categories=frozenset("1234"))
    measured = compare(read, arguments, Wanted(), [evaluate(read, arguments, "planted")])
    assert (measured.n, measured.memories, measured.without_evidence) == (760, 2760, 2)
    assert measured.score("bm25", "planted", "recall@10").mean == pytest.approx(0.639, abs=0.01)
