"""The port to fastembed, against a double of the library's interface."""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from salience.errors import EmbedderError, MissingExtraError
from salience.models.fastembed import FastEmbed


class FakeTextEmbedding:
    made: list[tuple[str, str | None]]
    broken: str | None = None

    @classmethod
    def list_supported_models(cls):
        return [{"model": "BAAI/bge-small-en-v1.5", "dim": 3}, {"model": "other/model", "dim": 5}]

    def __init__(self, model_name, cache_dir=None):
        if self.broken == "load":
            raise OSError("no network")
        self.made.append((model_name, cache_dir))

    def embed(self, documents):
        if self.broken == "embed":
            raise RuntimeError(documents[0])
        assert isinstance(documents, list)
        yield from (np.array([len(text), 1, 0], np.float32) for text in documents)


@pytest.fixture
def library(monkeypatch):
    module = ModuleType("fastembed")
    module.__spec__ = ModuleSpec("fastembed", None)
    double = type("TextEmbedding", (FakeTextEmbedding,), {"made": []})
    module.TextEmbedding = double
    monkeypatch.setitem(sys.modules, "fastembed", module)
    return double


def test_name_and_dimension_come_from_the_librarys_list_without_loading(library):
    embedder = FastEmbed("baai/BGE-small-en-v1.5")
    assert (embedder.name, embedder.dimension) == ("fastembed:BAAI/bge-small-en-v1.5", 3)
    assert FastEmbed("other/model").dimension == 5
    assert library.made == []


def test_vectors_have_length_1_and_the_model_is_loaded_once(library):
    embedder = FastEmbed("BAAI/bge-small-en-v1.5", Path("/models"))
    vectors = embedder.embed(["abc", "a"])
    embedder.embed(["x"])
    np.testing.assert_allclose(vectors, np.array([[3, 1, 0], [1, 1, 0]]) / np.sqrt([[10], [2]]), rtol=1e-6)
    assert vectors.dtype == np.float32
    assert library.made == [("BAAI/bge-small-en-v1.5", str(Path("/models")))]


def test_an_unknown_model_lists_the_known_ones(library):
    with pytest.raises(
        EmbedderError,
        match=r"fastembed_model: 'no/model' is unknown to fastembed. Choose one of: BAAI",
    ):
        _ = FastEmbed("no/model").dimension


def test_a_model_that_returns_another_dimension_is_an_error(library):
    with pytest.raises(EmbedderError, match="shape"):
        FastEmbed("other/model").embed(["text"])


@pytest.mark.parametrize(("broken", "words"), [("load", "SALIENCE_FASTEMBED_CACHE"), ("embed", "RuntimeError")])
def test_a_failure_of_the_library_is_ours_and_holds_no_text(library, broken, words):
    library.broken = broken
    with pytest.raises(EmbedderError, match=words) as caught:
        FastEmbed("BAAI/bge-small-en-v1.5").embed(["my secret"])
    assert "my secret" not in str(caught.value)


def test_without_the_library_the_pip_line_is_given_at_once(monkeypatch):
    monkeypatch.setitem(sys.modules, "fastembed", None)
    with pytest.raises(MissingExtraError, match=r'pip install .*\[fastembed\]"$'):
        FastEmbed("BAAI/bge-small-en-v1.5")
