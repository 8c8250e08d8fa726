"""The static embedder: known cosines, no network, no side effects on the application's logging."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("wordllama", reason="the extra salience[static] is not installed")

from salience.errors import EmbedderError, MissingExtraError
from salience.models.static import Static
from salience.ports import Embedder

TEXTS = ["The user prefers dark mode", "User likes dark theme", "The user works at night"]
MODEL = Static()


def test_it_keeps_the_protocol_and_knows_its_dimension():
    assert isinstance(MODEL, Embedder)
    assert (MODEL.name, MODEL.dimension) == ("wordllama-l2-supercat-256", 256)


def test_known_cosines():
    vectors = MODEL.embed(TEXTS)
    cosines = vectors @ vectors.T
    assert [cosines[0, 1], cosines[0, 2], cosines[1, 2]] == pytest.approx([0.4865, 0.4161, 0.2745], abs=1e-3)


def test_vectors_are_float32_rows_of_length_1_that_do_not_depend_on_their_neighbours():
    texts = [*TEXTS, "word " * 500, "日本語", "\u200b"]
    vectors = MODEL.embed(texts)
    assert vectors.dtype == np.float32
    assert vectors.shape == (6, 256)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), [1, 1, 1, 1, 0, 0], atol=1e-6)
    np.testing.assert_allclose(np.concatenate([MODEL.embed([text]) for text in texts]), vectors, atol=1e-5)


def test_without_the_library_the_pip_line_is_given_at_once(monkeypatch):
    monkeypatch.setitem(sys.modules, "wordllama", None)
    with pytest.raises(MissingExtraError, match=r'pip install .*\[static\]"$'):
        Static()


def test_a_missing_table_is_an_error_of_ours_and_nothing_is_fetched(monkeypatch, tmp_path):
    import wordllama

    def fetch(*given, **named):
        pytest.fail("the network was asked")

    monkeypatch.setattr(wordllama.wordllama.requests, "get", fetch)
    monkeypatch.setattr(wordllama.WordLlama, "get_filename", lambda *given: "no such file")
    with pytest.raises(EmbedderError, match=r"could not be loaded \(FileNotFoundError\)"):
        Static().embed(["text"])


def test_first_use_prints_nothing_and_leaves_logging_as_it_was():
    code = (
        "import logging; from salience.models.static import Static; Static().embed(['one', 'two'])\n"
        "logging.getLogger('application').info('not wanted'); assert logging.getLogger().handlers == []"
    )
    run = subprocess.run([sys.executable, "-W", "default", "-c", code], capture_output=True, text=True, check=True)
    assert (run.stdout, run.stderr) == ("", "")
