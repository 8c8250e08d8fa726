"""The fitted model of updates: which memories it compares, and its answers on memories in other words."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

import salience
from salience.batch import Batch, Vectors
from salience.models.minilm import TOKEN_SIZE, MiniLM
from salience.ports import Need
from salience.rank.update_model import (
    CONTEXT,
    MAX_TOKENS,
    NEAREST,
    candidates,
    chances_of_updates,
    context,
    padded,
    update_model,
)
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


def test_the_weights_are_those_of_the_default_embedder_and_fit_its_tokens():
    model = update_model()
    assert model.embedder == MiniLM.name
    assert model.own.shape[:2] == (2, TOKEN_SIZE)
    assert model.hidden.shape == (4 * model.own.shape[2] + len(CONTEXT), len(model.output))
    assert all(np.isfinite(getattr(model, name)).all() for name in model.__dataclass_fields__ if name != "embedder")


def batch_of(moments, speakers=None, cosine=None, seed=1):
    count = len(moments)
    vectors = np.random.default_rng(seed).normal(size=(count, MiniLM.dimension)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    columns = {
        "created_at": np.array(moments, float),
        "speaker": np.array(speakers or [-1] * count),
        "cosine": np.array(cosine or [0.5] * count),
    }
    return Batch(np.array([str(row) for row in range(count)], object), columns, Vectors(vectors, np.arange(count)))


def tokens_of(seed, length=5):
    return np.random.default_rng(seed).integers(-127, 128, (length, TOKEN_SIZE)).astype(np.int8)


def need_of(tense="present"):
    return Need(scope=Scope(), now=NOW, tense=tense, query_tokens=(tokens_of(99, 3),))


def read(ids):
    return [tokens_of(int(one)) for one in ids]


def pairs_of(*found):
    return set(zip(*(places.tolist() for places in found), strict=True))


@pytest.mark.parametrize(("is_former", "pairs"), [(False, {(0, 4), (1, 0), (1, 3), (1, 4)}), (True, {(1, 0)})])
def test_only_newer_memories_of_one_speaker_may_update_the_best(is_former, pairs):
    batch = batch_of((3, 1, 2, 3, 5), speakers=[1, 1, 2, 1, 1])
    assert pairs_of(*candidates(batch, np.arange(5), 2, is_former)) == pairs


def test_each_of_the_best_is_compared_with_the_nearest():
    cosine = [0.9] + [0.1] * 4 + [0.9] * NEAREST
    batch = batch_of(range(len(cosine)), cosine=cosine)
    older, newer = candidates(batch, np.arange(len(cosine)), 1)
    assert pairs_of(older, newer) == {(0, place) for place in range(5, len(cosine))}


def test_the_context_compares_cosines_with_the_next_best():
    batch, pool = batch_of((1, 2, 3, 4), cosine=[0.9, 0.8, 0.7, 0.6]), np.arange(4)
    cosine = batch.vectors.cosines(pool, pool)
    row = dict(zip(CONTEXT, context(batch, pool, np.array([0]), np.array([2]))[0].tolist(), strict=True))
    assert row == pytest.approx(
        {
            "fits_older": 0.9,
            "fits_newer": 0.7,
            "alike": cosine[0, 2],
            "nearer_newer": cosine[0, 2] - max(0, cosine[0, 1], cosine[0, 3]),
            "nearer_older": cosine[0, 2] - max(0, cosine[1, 2]),
            "place_newer": np.log(3) / 4,
        },
        abs=1e-6,
    )


def test_texts_are_padded_and_cut():
    words, held = padded([tokens_of(1, 2), tokens_of(2, MAX_TOKENS + 5)])
    assert words.shape == (2, MAX_TOKENS, TOKEN_SIZE)
    assert held.sum(axis=1).tolist() == [2, MAX_TOKENS]
    assert np.linalg.norm(words, axis=2) == pytest.approx(held.astype(float), abs=1e-5)


def test_pairs_do_not_depend_on_the_pairs_and_texts_beside_them():
    texts = [tokens_of(seed, 3 + 2 * seed) for seed in range(6)]
    older, newer = np.array([0, 0, 1, 5]), np.array([1, 5, 2, 3])
    known = np.random.default_rng(3).normal(size=(4, len(CONTEXT))).astype(np.float32)
    every = update_model().probabilities(tokens_of(99), texts, older, newer, known)
    for at in range(4):
        own = [texts[older[at]], texts[newer[at]]]
        one = update_model().probabilities(tokens_of(99), own, np.array([0]), np.array([1]), known[at : at + 1])
        assert one[0] == pytest.approx(every[at], abs=1e-5)


@pytest.mark.parametrize("tense", ["present", "former"])
def test_compared_pairs_have_a_probability(tense):
    batch, pool = batch_of((3, 1, 2, 3, 5)), np.arange(5)
    chances = chances_of_updates(update_model(), batch, need_of(tense), pool, 2, read)
    assert pairs_of(*np.nonzero(chances)) == pairs_of(*candidates(batch, pool, 2, tense == "former"))
    assert (chances <= 1).all()


def test_a_memory_without_token_vectors_is_no_update_and_has_none():
    batch, pool = batch_of((1, 2, 3)), np.arange(3)

    def some(ids):
        return [None if one == "1" else tokens_of(int(one)) for one in ids]

    chances = chances_of_updates(update_model(), batch, need_of(), pool, 3, some)
    assert pairs_of(*np.nonzero(chances)) == {(0, 2)}


def test_without_vectors_or_tokens_of_the_query_nothing_is_an_update():
    batch, pool = batch_of((1, 2, 3)), np.arange(3)
    bare = Batch(batch.ids, batch.columns)
    assert not chances_of_updates(update_model(), bare, need_of(), pool, 2, read).any()
    silent = Need(scope=Scope(), now=NOW)
    assert not chances_of_updates(update_model(), batch, silent, pool, 2, read).any()
