"""The everyday worlds: valid as shipped, asked through recall, counted as the docs say."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from formats import EVERYDAY, PAIRS, written

from salience.engine import Engine
from salience.evaluate import everyday
from salience.evaluate.datasets import Question, conversations
from salience.evaluate.datasets import everyday as dataset
from salience.evaluate.everyday import Asked, calibration_error, figures, is_miss, rows
from salience.evaluate.run import contenders
from salience.models import registry
from tests.contract.doubles import PlantedEmbedder

WORLDS = {
    "fit": ["mira", "neighbours", "polyglot-a", "startup", "webshop"],
    "report": ["coach", "firmware", "oskar", "polyglot-b", "practice"],
}
ENGLISH = {
    "plain": 8, "synonym": 10, "short": 6, "typo": 4, "present": 12, "past": 3, "negation": 3, "list": 4, "multi": 3,
    "time": 5, "unanswerable": 8,
}  # fmt: skip
"""Kind -> fewest questions in a world in English."""
POLYGLOT = {"plain": 6, "inflected": 12, "synonym": 12, "short": 6, "present": 12, "crosslingual": 18}
"""Kind -> questions in a world in several languages."""


LABELS = {
    "sibling": (("older", "newer"), ("none",)),
    "complement": (("older", "newer"), ("none", "adds")),
    "other_subject": (("older",), ("none",)),
    "changed": (("newer",), ("replaces",)),
    "coexisting": (("both",), ("none", "adds")),
    "restated": (("both",), ("repeats",)),
}
"""Kind of a pair -> what may be right, and the relations that it may have."""


class TestShippedWorlds:
    def test_each_half_has_its_worlds(self):
        assert {half: [world.name for world in dataset.worlds(half)] for half in dataset.HALVES} == WORLDS

    @pytest.mark.parametrize(("half", "name"), [(half, name) for half, names in WORLDS.items() for name in names])
    def test_a_world_is_valid(self, half: dataset.Half, name: str):
        (world,) = (one for one in dataset.worlds(half) if one.name == name)
        refs = [memory.ref for memory in world.beliefs]
        assert len(refs) == len(set(refs)) >= 60
        assert len({question.question for question in world.questions}) == len(world.questions) >= 60
        (now,) = {question.now for question in world.questions}
        times = [memory.draft.created_at for memory in world.beliefs]
        assert times == sorted(times)
        assert now - timedelta(days=300) < times[0]
        assert now - timedelta(days=3) < times[-1] < now
        for question in world.questions:
            named = [*question.evidence, *question.outdated]
            assert len(named) == len(set(named)), question.question
            assert set(named) <= set(refs), question.question
            assert (question.category == "unanswerable") == (not question.answerable) == (not question.evidence)
            assert question.outdated or question.category != "present", question.question

    @pytest.mark.parametrize("half", dataset.HALVES)
    def test_every_kind_is_asked_often_enough(self, half: dataset.Half):
        for world in dataset.worlds(half):
            counts = Counter(question.category for question in world.questions)
            if any(question.language for question in world.questions):
                assert counts == POLYGLOT
                assert Counter(one.language for one in world.questions) == dict.fromkeys(
                    ("de", "fr", "es", "zh", "ja", "ar"), 11
                )
            else:
                assert counts.keys() == ENGLISH.keys()
                assert all(counts[kind] >= least for kind, least in ENGLISH.items()), world.name

    def test_ids_of_questions_are_distinct(self):
        files = (Path(dataset.__file__).parents[1] / "data" / "everyday").glob("*/*.json")
        worlds = sorted(path for path in files if not path.name.startswith("pairs-"))
        assert len(worlds) == 10
        for path in worlds:
            ids = [question["id"] for question in json.loads(path.read_text("utf-8"))["questions"]]
            assert len(ids) == len(set(ids)), path


class TestShippedPairs:
    @pytest.mark.parametrize("half", dataset.HALVES)
    def test_pairs_are_distinct_and_labelled_as_their_kind_says(self, half: dataset.Half):
        pairs = dataset.pairs(half)
        for texts in (
            [pair.id for pair in pairs],
            [pair.query for pair in pairs],
            [draft.content for pair in pairs for draft in (pair.older, pair.newer)],
        ):
            assert [text for text, n in Counter(texts).items() if n > 1] == []
        for pair in pairs:
            rights, relations = LABELS[pair.kind]
            assert pair.right in rights, pair
            assert pair.relation in relations, pair

    @pytest.mark.parametrize("half", dataset.HALVES)
    def test_each_pair_has_a_user_of_its_own_with_the_same_fillers(self, half: dataset.Half):
        for world in dataset.pair_worlds(half):
            users = [question.scope for question in world.questions]
            assert len(users) == len(set(users)), world.name
            refs = Counter(memory.draft.scope for memory in world.beliefs)
            assert refs == dict.fromkeys(users, 8), world.name
            assert [one.draft.created_at for one in world.beliefs] == sorted(
                one.draft.created_at for one in world.beliefs
            )

    def test_no_text_is_in_both_halves(self):
        fit, report = (
            {
                text
                for world in dataset.pair_worlds(half)
                for text in (*(one.draft.content for one in world.beliefs), *(one.question for one in world.questions))
            }
            for half in dataset.HALVES
        )
        assert fit & report == set()


def asked(*refs: str, answers=("new",), outdated=("old",), confident=True, confidences=(), weak=True, **place) -> Asked:
    question = Question(
        "?", "", place.pop("kind", "present"), answers, answerable=bool(answers), outdated=outdated,
        language=place.pop("language", ""),
    )  # fmt: skip
    return Asked("salience", "planted", place.get("world", "rosa"), question, refs, confident, confidences, weak)


@pytest.mark.parametrize(
    ("refs", "first", "outdated_first", "found"),
    [
        (("new", "old"), True, False, 1),
        (("old", "new"), False, True, 1),
        (("other", "old", "new"), False, True, 1),
        (("other", "new", "old"), False, False, 1),
        (("other", "old"), False, True, 0),
        (("other",), False, False, 0),
        ((), False, False, 0),
    ],
)
def test_what_comes_first(refs, first, outdated_first, found):
    one = asked(*refs)
    assert (one.is_first_right, one.is_outdated_first, one.found, is_miss(one)) == (
        first, outdated_first, found, not first,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("refs", "weak", "found"),
    [(("old",), False, True), (("old",), True, False), (("new", "old"), False, False), ((), True, False)],
)
def test_an_answer_is_wrong_and_sure_if_its_first_hit_is_wrong_and_not_weak(refs, weak, found):
    assert asked(*refs, weak=weak).is_wrong_and_sure == found
    assert figures([asked(*refs, weak=weak), asked("new")]).wrong_and_sure == found / 2


def test_figures_are_shares_of_the_questions_that_they_concern():
    found = figures(
        [
            asked("new", "old"),
            asked("new", "other", answers=("new", "newer"), outdated=(), confident=False),
            asked("old", "new"),
            asked(outdated=()),
            asked("other", answers=(), outdated=()),
            asked(answers=(), outdated=(), confident=False),
        ]
    )
    assert (found.n, found.first, found.any_of_five, found.all_of_five) == (4, 0.5, 0.75, 0.625)
    assert (found.empty, found.doubted) == (0.25, 0.25)
    assert (found.changed, found.outdated_first) == (2, 0.5)
    assert (found.unanswerable, found.trusted, found.unanswerable_empty) == (2, 0.5, 0.5)
    assert found.calibration_error is None


def test_an_unanswerable_question_is_missed_if_the_answer_is_confident():
    assert is_miss(asked("other", answers=(), outdated=()))
    assert not is_miss(asked("other", answers=(), outdated=(), confident=False))


def test_shares_of_no_questions_are_none():
    found = figures([asked("other", answers=(), outdated=())])
    assert (found.n, found.first, found.outdated_first, found.doubted) == (0, None, None, None)


def test_the_calibration_error_is_the_mean_gap_of_the_bins():
    assert calibration_error([]) is None
    assert calibration_error([(1.0, True), (0.0, False)]) == 0
    sure = [(0.95, True), (0.95, False)]  # a gap of 0.45
    assert calibration_error(sure) == pytest.approx(0.45)
    assert calibration_error([*sure, (0.25, False), (0.22, True)]) == pytest.approx((0.45 * 2 + abs(1 - 0.47)) / 4)
    assert figures([asked("new", "old", confidences=(0.9, 0.2))]).calibration_error == pytest.approx(0.15)


def test_rows_keep_worlds_in_several_languages_apart():
    found = rows(
        [
            asked("new", kind="plain"),
            asked("old", kind="present"),
            asked("new", kind="plain", world="lea", language="de"),
            asked("old", kind="plain", world="lea", language="fr"),
        ]
    )
    assert [(row.polyglot, row.by, row.name, row.figures.n, row.figures.first) for row in found] == [
        (False, "total", "", 2, 0.5),
        (False, "world", "rosa", 2, 0.5),
        (False, "kind", "plain", 1, 1.0),
        (False, "kind", "present", 1, 0.0),
        (True, "total", "", 2, 0.5),
        (True, "world", "lea", 2, 0.5),
        (True, "kind", "plain", 2, 0.5),
        (True, "language", "de", 1, 1.0),
        (True, "language", "fr", 1, 0.0),
    ]


def test_rows_keep_pairs_apart_by_kind():
    pairs = {"world": "twins", "outdated": ()}
    found = rows(
        [
            asked("new", kind="plain"),
            asked("new", kind="sibling", **pairs),
            asked("old", kind="changed", **pairs),
            asked("new", kind="changed", world="zwillinge", language="de"),
        ]
    )
    assert [(row.pairs, row.polyglot, row.by, row.name, row.figures.n) for row in found] == [
        (False, False, "total", "", 1),
        (False, False, "world", "rosa", 1),
        (False, False, "kind", "plain", 1),
        (True, False, "total", "", 2),
        (True, False, "kind", "sibling", 1),
        (True, False, "kind", "changed", 1),
        (True, True, "total", "", 1),
        (True, True, "kind", "changed", 1),
        (True, True, "language", "de", 1),
    ]


def test_questions_are_asked_through_recall_at_their_own_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(registry.EMBEDDERS, "planted", lambda _: PlantedEmbedder())
    (world,) = conversations(written(tmp_path / "a.json", EVERYDAY))
    before = datetime(2026, 3, 15, tzinfo=UTC)
    world = replace(world, questions=(*world.questions, replace(world.questions[0], now=before)))
    calls, done, recall = [], [], Engine.recall
    monkeypatch.setattr(
        Engine, "recall", lambda self, query, **named: calls.append(named) or recall(self, query, **named)
    )
    found = everyday.ask([world], contenders(["bm25", "memlayer"]), "planted", None, done.append)
    assert [(named["now"], named["user_id"], named["dry_run"]) for named in calls[::2]] == [
        *[(world.questions[0].now, "rosa", True)] * 3,
        (before, "rosa", True),
    ]
    assert [named["profile"].name for named in calls] == ["bm25", "memlayer"] * 4
    assert [one.refs for one in found if one.profile == "bm25"][:2] == [("m1", "m3", "m2"), ("m2",)]
    assert len(found) == 2 * sum(done) == 8
    assert {(one.embedder, one.world) for one in found} == {("planted", "rosa")}


def test_each_pair_is_asked_in_its_own_scope(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(registry.EMBEDDERS, "planted", lambda _: PlantedEmbedder())
    worlds = [*conversations(written(tmp_path / "a.json", PAIRS))]
    found = everyday.ask(worlds, contenders(["salience"]), "planted", None)
    assert [{ref.partition("-")[0] for ref in one.refs} for one in found] == [{"p1"}, {"p2"}, {"p3"}]
    assert found[0].refs[0] == "p1-older"


def test_the_first_hit_decides_whether_an_answer_is_sure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(registry.EMBEDDERS, "planted", lambda _: PlantedEmbedder())
    worlds = [*conversations(written(tmp_path / "a.json", PAIRS))]
    profile = contenders(["salience"])["salience"]
    for threshold, weak in ((0.0, False), (1.0, True)):
        confidence = replace(profile.confidence, confident_from=threshold)
        found = everyday.ask(worlds, {"own": replace(profile, confidence=confidence)}, "planted", None)
        assert [one.weak for one in found] == [weak] * 3
