"""The fitted model of updates: what it reads, and what it makes of memories told in other words."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import chain

import numpy as np
import pytest

import salience
from salience.batch import Batch, Ragged, Vectors, coded
from salience.models.minilm import MiniLM
from salience.ports import Need
from salience.rank.update_model import FEATURES, chances_of_updates, features, update_model
from salience.records import Scope

NOW = datetime(2026, 11, 20, tzinfo=UTC)
CHANGES = [
    ("I live in Berlin, in a flat in Neukölln", "I moved to Lisbon", "Where do I live now?"),
    ("My manager is Priya Raman", "Priya left, so I report to Tomás now", "Who is my boss?"),
    ("I drive a 2018 Skoda", "Sold the Skoda and got a Tesla", "What car do I drive?"),
    ("Bob is married to Julia", "Bob got divorced", "Is Bob married?"),
    ("The stand-up is at 9:00", "From Monday the stand-up begins at half past nine", "What time is stand-up?"),
]
FORMER = [
    (*CHANGES[0][:2], "Where did I live before Lisbon?"),
    (*CHANGES[2][:2], "Which car did I drive before the Tesla?"),
]
OTHERS = [
    ("I drive a 2018 Skoda", "My colleague drives a red Volvo", "What car do I drive?"),
    ("My manager is Priya Raman", "My manager is angry about the late report", "Who is my manager?"),
    ("My daughter Ida plays the cello", "My son Max plays the drums", "What does Ida play?"),
    ("Our office is in Mill Lane 7", "My mother lives in Oak Street 12", "Where is our office?"),
    ("We spent the summer holiday in Greece", "I read a book about Iceland", "Where did we spend the summer?"),
]
BETWEEN = ["The invoice is due on Monday", "Anna likes chess", "The printer on the third floor is broken"]


def recalled(older, newer, query, profile="salience", speaker=None):
    with salience.connect(":memory:") as memory:
        texts = [older, *BETWEEN, newer]
        memory.remember_many(
            {"content": text, "created_at": NOW - timedelta(days=60 - 10 * day), "user_id": "u", "speaker": speaker}
            for day, text in enumerate(texts)
        )
        return list(memory.recall(query, user_id="u", profile=profile, now=NOW, min_score=0, dry_run=True))


@pytest.mark.parametrize("profile", ["salience", "precise"])
@pytest.mark.parametrize(("older", "newer", "query"), CHANGES)
def test_a_change_in_other_words_comes_before_what_it_changes(older, newer, query, profile):
    hits = recalled(older, newer, query, profile)
    assert [hit.memory.content for hit in hits[:2]] == [newer, older]
    assert hits[0].score == pytest.approx(hits[0].score_detail.recompute(), abs=1e-9)


@pytest.mark.parametrize(("older", "newer", "query"), FORMER)
def test_a_question_about_the_former_state_returns_the_older_memory_first(older, newer, query):
    hits = recalled(older, newer, query)
    assert [hit.memory.content for hit in hits[:2]] == [older, newer]


@pytest.mark.parametrize(("older", "newer", "query"), OTHERS)
def test_a_memory_near_the_subject_that_changes_nothing_stays_behind(older, newer, query):
    hits = recalled(older, newer, query)
    assert hits[0].memory.content == older
    assert hits[0].via is None


def test_a_turn_of_a_conversation_needs_more_certainty():
    older, newer, query = CHANGES[0]
    assert recalled(older, newer, query)[0].via.link == "update"
    assert all(hit.via is None for hit in recalled(older, newer, query, speaker="Mira"))


def test_the_weights_are_those_of_the_default_embedder_and_fit_the_features():
    model = update_model()
    assert (model.embedder, model.alike.shape[1]) == (MiniLM.name, MiniLM.dimension)
    inputs = len(FEATURES) + model.alike.shape[2] + model.fits.shape[2] + 3 * model.alone.shape[2]
    assert model.hidden.shape == (inputs, len(model.output))
    assert all(np.isfinite(getattr(model, name)).all() for name in model.__dataclass_fields__ if name != "embedder")


def batch_of(marks, moments, speakers=None, seed=1):
    vectors = np.random.default_rng(seed).normal(size=(len(marks), MiniLM.dimension)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    numbers = {mark: number for number, mark in enumerate(dict.fromkeys(chain.from_iterable(marks)))}
    columns = {
        "created_at": np.array(moments, float),
        "speaker": np.array(speakers or [-1] * len(marks)),
        "cosine": vectors[:, 0].astype(float),
    }
    codes = [[coded(mark, numbers[mark]) for mark in own] for own in marks]
    ids = np.array([str(row) for row in range(len(marks))], object)
    return Batch(ids, columns, Vectors(vectors, np.arange(len(marks))), distinctions=Ragged.of(codes))


def need_of(tense="present"):
    vector = np.zeros(MiniLM.dimension, np.float32)
    vector[0] = 1.0
    return Need(scope=Scope(), now=NOW, vector=vector, tense=tense)


def feature(name, batch, older=0, newer=1):
    pool = np.arange(len(batch))
    return float(features(batch, need_of(), pool, np.array([older]), np.array([newer]))[0, FEATURES.index(name)])


MARKS = [
    ["name:bob", "number:1"],
    ["name:bob", "name:lisbon", "number:2", "date:5-3"],
    ["claim:not", "number:1"],
]


@pytest.mark.parametrize(
    ("name", "older", "newer", "value"),
    [
        ("other_names", 0, 1, 0.0),  # the newer one has all names of the older one
        ("new_name", 0, 1, 1.0),
        ("new_name", 1, 0, 0.0),
        ("new_date", 0, 1, 1.0),
        ("new_number", 0, 2, 0.0),
        ("other_number", 0, 1, 1.0),
        ("other_number", 0, 2, 0.0),
        ("has_name", 2, 0, 0.0),
        ("has_date", 1, 2, 1.0),
        ("denies", 0, 1, 0.0),
        ("denies", 0, 2, 1.0),
        ("names", 0, 2, 0.0),
        ("kept", 0, 1, 1.0),  # a query without terms
    ],
)
def test_features_compare_what_the_texts_name(name, older, newer, value):
    assert feature(name, batch_of(MARKS, (1, 2, 3)), older, newer) == value


def test_a_rare_name_of_both_counts_more():
    rare = batch_of([["name:ida"], ["name:ida"], ["name:bob"], ["name:eva"]], (1, 2, 3, 4))
    common = batch_of([["name:ida"], ["name:ida"], ["name:ida"], ["name:eva"]], (1, 2, 3, 4))
    assert feature("names", rare) > feature("names", common) > 0


def test_cosines_are_compared_with_the_next_best():
    batch = batch_of([["name:a"]] * 4, (1, 2, 3, 4))
    cosine = batch.vectors.cosines(np.arange(4), np.arange(4)).clip(0)
    older, newer = 0, 2
    assert feature("nearer_older", batch, older, newer) == pytest.approx(cosine[0, 2] - cosine[1, 2], abs=1e-6)
    others = max(cosine[0, 1], cosine[0, 3])
    assert feature("nearer_newer", batch, older, newer) == pytest.approx(cosine[0, 2] - others, abs=1e-6)


@pytest.mark.parametrize("tense", ["present", "former"])
def test_only_newer_memories_of_one_speaker_update_the_best(tense):
    batch = batch_of([["name:a"]] * 5, (3, 1, 2, 3, 5), speakers=[1, 1, 2, 1, 1])
    chances = chances_of_updates(update_model(), batch, need_of(tense), np.arange(5), 2)
    pairs = {(0, 4), (1, 0), (1, 3), (1, 4)} if tense == "present" else {(1, 0)}
    assert set(map(tuple, np.argwhere(chances > 0).tolist())) == pairs
    assert (chances <= 1).all()


def test_pairs_do_not_depend_on_the_pairs_beside_them():
    batch, pool = batch_of(MARKS * 4, range(12)), np.arange(12)
    older, newer = np.nonzero(np.tri(12, k=-1, dtype=bool).T)
    every = update_model().probabilities(batch, need_of(), pool, older, newer)
    for at in range(0, len(older), 7):
        one = update_model().probabilities(batch, need_of(), pool, older[at : at + 1], newer[at : at + 1])
        assert one[0] == pytest.approx(every[at], abs=1e-5)


def test_without_vectors_or_distinctions_nothing_is_an_update():
    whole = batch_of(MARKS, (1, 2, 3))
    bare = Batch(whole.ids, whole.columns)
    assert not chances_of_updates(update_model(), bare, need_of(), np.arange(3), 2).any()
