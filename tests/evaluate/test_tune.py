"""Tuning: a trial is what ranking makes of it, the figure that counts is of what was held out, the file loads."""

from __future__ import annotations

import random
import tomllib
from datetime import date
from pathlib import Path

import numpy as np
import pytest
from formats import both_locomo, precisionmembench, written

import salience
from salience.errors import InputError
from salience.evaluate import sample, tune
from salience.evaluate.compare import values
from salience.evaluate.datasets import Question, conversations
from salience.evaluate.metrics import Metric
from salience.evaluate.run import Plan, Terms, contender, evaluate, gathered, narrowed, sources
from salience.evaluate.stores import ConversationStore
from salience.models import registry
from salience.rank import profiles
from salience.rank.run import rank
from tests.contract.doubles import PlantedEmbedder

pytestmark = pytest.mark.slow

RECALL = Metric("recall", 3)
PROFILES = (*profiles.NAMES, "bm25")


@pytest.fixture(scope="module")
def sampled():
    """A case for each question of the sample under each profile, with what `rank` needs to be held against it."""
    with salience.connect(":memory:", embedder="minilm", clock=sample.now) as engine:
        refs = {id: ref for ref, id in sample.store(engine).items()}
        store = ConversationStore("sample", engine, engine.services, refs, {}, sample.now())
        made = []
        for name in PROFILES:
            profile = contender(name)
            for arguments in sample.questions():
                known = gathered(
                    store, Question(arguments.question, "", "", (), scope=arguments.scope), Terms({"": profile}, 5)
                )[""]
                evidence = tuple(refs[str(known.batch.ids[row])] for row in range(0, len(known.batch), 7))
                question = Question(arguments.question, "", "", evidence, scope=arguments.scope)
                case = tune.prepared(store, question, known, profile)
                batch = narrowed(known.batch, profile.candidate_count(known.criteria.limit))
                made.append((profile, case, batch, known.criteria))
        yield made


def spun(profile, seed):
    """Return the profile with other weights, and other parameters where it sets any."""
    turn = random.Random(seed)
    terms = []
    for term in profile.terms:
        parameters = {
            key: value * turn.uniform(0.5, 1.0) if isinstance(value, float) else value
            for key, value in term.parameters.items()
        }
        weight = turn.choice([0.0, turn.uniform(0.0, 1.0), turn.uniform(0.0, 2.0)])
        terms.append(tune.replace(term, weight=weight, parameters=parameters))
    return tune.replace(profile, terms=tuple(terms))


def test_a_trial_returns_the_rows_that_ranking_returns_and_their_scores(sampled):
    for place, (profile, case, batch, criteria) in enumerate(sampled):
        for other in (profile, *(spun(profile, place * 7 + turn) for turn in range(6))):
            expected = rank(other, batch, criteria, case.state.tokens)
            assert tune.ranked(case, other) == expected.rows.tolist()
            np.testing.assert_array_equal(
                tune.rescored(case, other).scores[expected.rows],
                _scores(other, batch, criteria, case.state.tokens)[expected.rows],
            )


def _scores(profile, batch, criteria, tokens):
    """Return the scores right after the stage `score`."""
    state = tune.State.start(profile, batch, criteria, tokens)
    for step in range(profile.stages.index("score") + 1):
        state = tune.advanced(state, step)
    return state.scores


def test_the_value_of_a_case_is_that_of_an_evaluation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(registry.EMBEDDERS, "planted", lambda _: PlantedEmbedder())
    for path in (both_locomo(tmp_path), precisionmembench(tmp_path / "bench")):
        profile = profiles.load("salience")
        cases = tune.cases(tuple(conversations(path)), profile, 3, PlantedEmbedder())
        plan = Plan(Terms({"salience": profile}, 3))
        arguments = [one for one in evaluate(sources([path]), plan, "planted").results if one.total]
        assert [tune.value(case, profile, RECALL) for case in cases] == values(arguments, "salience", RECALL)
        assert len(cases) >= 2


ANIMALS = ("goat", "heron", "lynx", "otter", "badger", "crane")


def _said(number: int, place: int) -> str:
    return f"Number {number * 10 + place} is the {ANIMALS[place - 1]}"


@pytest.fixture
def cases(tmp_path: Path):
    """Four conversations in which the words tell the answer and the vectors prefer the same memory always."""
    talks = []
    for number in range(4):
        places = range(1, len(ANIMALS) + 1)
        turns = [{"speaker": "Ana", "dia_id": f"D1:{place}", "text": _said(number, place)} for place in places]
        arguments = [
            {"question": f"query of the {ANIMALS[place - 1]}", "answer": "", "category": 4, "evidence": [f"D1:{place}"]}
            for place in places
        ]
        talks.append({"sample_id": f"t{number}", "conversation": {"session_1": turns}, "qa": arguments})
    held = tuple(conversations(written(tmp_path / "talks.json", talks)))
    cosines = {_said(number, place): 0.9 - 0.1 * place for number in range(4) for place in range(1, 7)}
    return lambda name: tune.cases(held, _profile(tmp_path, name), 6, PlantedEmbedder(cosines))


TWO = """
name = "two"
summary = "Vectors before words."  # a comment that stays
combine = "sum"
stages = ["score", "trim"]
[signal.similarity]
weight = 0.9
[signal.lexical]
weight = 0.1
k1 = 1.2
[signal.weight]
combine = "product"
"""


def _profile(folder: Path, name: str):
    path = folder / f"{name}.toml"
    path.write_text(TWO, "utf-8")
    return profiles.load(path)


def test_weights_that_fit_are_found_and_hold_where_they_were_not_fitted(cases):
    made = cases("two")
    tuned = tune.tune(made[0].state.profile, made, Metric("mrr", 6), 25, seed=0)
    assert (tuned.n, tuned.trials, len(tuned.folds)) == (24, 25, 4)
    assert tuned.before.mean < 0.7
    assert tuned.held_out.mean == 1.0
    assert tuned.gain.low > 0
    assert all(fold.held_out == fold.fitted == 1.0 for fold in tuned.folds)
    assert tuned.unfitted == ("weight",)
    weights = {term.label: term.weight for term in tuned.profile.terms}
    assert weights["lexical"] > weights["similarity"]
    assert weights["lexical"] + weights["similarity"] == pytest.approx(1.0, abs=1e-3)
    assert weights["weight"] == 1.0


def test_held_out_questions_are_not_fitted_on(cases, monkeypatch):
    made, seen = cases("two"), []
    fit = tune.fit
    monkeypatch.setattr(
        tune,
        "fit",
        lambda profile, given, *rest: seen.append({c.conversation for c in given}) or fit(profile, given, *rest),
    )
    tuned = tune.tune(made[0].state.profile, made, Metric("mrr", 6), 2, seed=0)
    everyone = {"t0", "t1", "t2", "t3"}
    assert seen == [*(everyone - set(fold.conversations) for fold in tuned.folds), everyone]
    assert tune.fits(made) == len(seen)


def test_the_profile_as_it_was_is_tried_first_so_that_nothing_is_lost(cases):
    made = cases("two")
    profile = made[0].state.profile
    tunable = tuple(tune._settings(profile, made, False))
    best, reached = tune.fit(profile, made, tunable, Metric("mrr", 6), 1, seed=0)
    assert {term.label: term.weight for term in best.terms} == {"similarity": 0.9, "lexical": 0.1, "weight": 1.0}
    assert reached == pytest.approx(sum(tune.value(case, profile, Metric("mrr", 6)) for case in made) / len(made))


def test_parameters_are_turned_within_their_bounds(cases):
    made = cases("two")
    profile = made[0].state.profile
    tunable = {setting.path: setting for setting in tune._settings(profile, tuple(tune._unfitted(profile, made)), True)}
    assert set(tunable) == {
        "signal.similarity.weight", "signal.lexical.weight", "signal.lexical.k1", "signal.lexical.b",
    }  # fmt: skip
    k1, b = tunable["signal.lexical.k1"], tunable["signal.lexical.b"]
    assert (k1.low, k1.high) == (pytest.approx(0.3), pytest.approx(4.8))
    assert (b.low, b.high) == (pytest.approx(0.1875), 1.0)
    tuned = tune.tune(profile, made, RECALL, 4, 1, parameters=True)
    lexical = next(term for term in tuned.profile.terms if term.label == "lexical")
    assert k1.low <= lexical.parameters["k1"] <= k1.high


def test_more_conversations_than_folds_are_held_out_together(cases):
    (case, *_) = cases("two")
    many = [tune.replace(case, conversation=str(number)) for number in range(23)]
    parts = tune.split(many)
    assert len(parts) == tune.FOLDS
    assert sorted(name for part in parts for name in part) == sorted(str(number) for number in range(23))
    with pytest.raises(InputError, match="at least two"):
        tune.split(many[:1])


def test_the_file_loads_keeps_its_comments_and_says_how_it_was_made(cases, tmp_path):
    made = cases("two")
    tuned = tune.tune(made[0].state.profile, made, Metric("mrr", 6), 5, 0, parameters=True)
    text = tune.toml(tuned, TWO, ["talks.json"], "planted", date(2026, 11, 22))
    path = tmp_path / "tuned.toml"
    path.write_text(text, "utf-8")
    loaded = profiles.load(path)
    assert loaded.terms == tuned.profile.terms
    assert loaded.name == "two-tuned"
    assert "# a comment that stays" in text
    for words in ("2026-11-22", "talks.json", "n = 24 questions", "held out", "Best of 5 trials", "planted", "weight."):
        assert words in text.split("\nname =")[0]
    again = tune.toml(tuned, text, ["talks.json"], "planted", date(2026, 11, 22))
    assert tomllib.loads(again)["name"] == "two-tuned"


@pytest.mark.parametrize("name", PROFILES)
def test_every_profile_that_can_be_tuned_is_written_so_that_it_loads(name, tmp_path):
    held = tuple(conversations(both_locomo(tmp_path)))
    profile = contender(name)
    made = tune.cases(held, profile, 3, PlantedEmbedder())
    if name in ("bm25", "memlayer"):  # one signal; a floor that leaves one memory
        with pytest.raises(InputError, match="tell these memories apart"):
            tune.tune(profile, made, RECALL, 2, 0)
        return
    tuned = tune.tune(profile, made, RECALL, 2, 0, parameters=True)
    path = tmp_path / "tuned.toml"
    path.write_text(tune.toml(tuned, tune.source(name), ["both.json"], "planted", date(2026, 1, 1)), "utf-8")
    loaded = profiles.load(path)
    assert loaded.terms == tuned.profile.terms
    assert loaded.stages == profile.stages
