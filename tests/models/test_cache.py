"""The memory of query vectors: it saves work, and nobody can spoil it."""

from __future__ import annotations

import contextvars
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from salience.batch import unit_vectors
from salience.errors import EmbedderError
from salience.models.cache import Cached
from salience.models.calibration import UNCALIBRATED
from salience.models.minilm import MiniLM
from salience.ports import Calibration, Embedder
from tests.contract.doubles import PlantedEmbedder


def test_name_dimension_and_calibration_are_the_embedders():
    inner = PlantedEmbedder(dimension=7)
    cached = Cached(inner, 4)
    assert isinstance(cached, Embedder)
    assert (cached.name, cached.dimension, cached.calibration) == ("planted", 7, UNCALIBRATED)
    own = Calibration((0.0, 1.0), (0.0, 1.0), 0.5, "own")
    inner.calibration = own
    assert cached.calibration is own


def test_a_text_is_embedded_once():
    inner = PlantedEmbedder()
    cached = Cached(inner, 4)
    first, second = cached.embed(["query"]), cached.embed(["query"])
    assert inner.texts == ["query"]
    assert np.array_equal(first, second)


def test_batches_pass_through_unkept():
    inner = PlantedEmbedder()
    cached = Cached(inner, 4)
    assert cached.embed(["a", "b"]).shape == (2, 64)
    assert cached.embed([]).shape == (0, 64)
    cached.embed(["a"])
    assert inner.texts == ["a", "b", "a"]


def test_the_least_recently_used_text_is_dropped():
    inner = PlantedEmbedder()
    cached = Cached(inner, 2)
    for text in ("a", "b", "a", "c", "a", "b"):
        cached.embed([text])
    assert inner.texts == ["a", "b", "c", "b"]


def test_each_of_several_texts_has_the_vector_that_it_has_alone():
    inner = PlantedEmbedder({"twice as long": 0.5})
    inner.embed = lambda texts, embed=inner.embed: 2 * embed(texts)
    cached = Cached(inner, 4)
    found = cached.embed_each(["a", "twice as long", "a"])
    assert inner.texts == ["a", "twice as long"]
    for text, embedding in zip(["a", "twice as long", "a"], found, strict=True):
        assert np.array_equal(cached.embed([text])[0], embedding.vector)
        assert np.linalg.norm(embedding.vector) == pytest.approx(1, abs=1e-6)
    assert inner.texts == ["a", "twice as long"]
    with pytest.raises(ValueError, match="read-only"):
        cached.embed_each(["a"])[0].vector[0] = 9


class Counting(PlantedEmbedder):
    """Notes how many texts stood in each call."""

    def __init__(self, **more):
        super().__init__()
        self.calls = []
        vars(self).update(more)

    def embed(self, texts, /):
        self.calls.append(len(texts))
        return super().embed(texts)


@pytest.mark.parametrize(("kind", "calls"), [({}, [1, 1, 1]), ({"independent": True}, [3]), ({"remote": "h"}, [1] * 3)])
def test_several_texts_are_embedded_together_where_neighbours_change_nothing(kind, calls):
    inner = Counting(**kind)
    cached = Cached(inner, 0)
    assert cached.independent == bool(kind.get("independent"))
    found = cached.embed_each(["a", "b", "c", "b"])
    assert inner.calls == calls
    expected = Cached(PlantedEmbedder(), 0).embed_each(["a", "b", "c", "b"])
    assert all(np.array_equal(one.vector, other.vector) for one, other in zip(found, expected, strict=True))


def test_a_remote_embedder_embeds_several_texts_concurrently_in_the_callers_context():
    noted = contextvars.ContextVar("noted", default="nothing")
    met = threading.Barrier(2, timeout=10)

    class Remote(PlantedEmbedder):
        remote = True

        def embed(self, texts, /):
            met.wait()
            return super().embed(texts) if noted.get() == "the request" else None

    noted.set("the request")
    assert [one.vector.shape for one in Cached(Remote(), 4).embed_each(["a", "b"])] == [(64,)] * 2


def test_the_cache_holds_no_text_and_can_be_cleared():
    inner = PlantedEmbedder()
    cached = Cached(inner, 4)
    cached.embed(["a secret"])
    assert "secret" not in str(cached._embeddings.keys())
    cached.forget()
    assert not cached._embeddings
    cached.embed(["a secret"])
    assert inner.texts == ["a secret"] * 2


def test_a_caller_cannot_write_into_the_cache():
    cached = Cached(PlantedEmbedder(), 2)
    for _ in range(2):
        with pytest.raises(ValueError, match="read-only"):
            cached.embed(["a"])[0, 0] = 9


def test_an_embedder_that_reuses_its_array_does_not_change_what_is_kept():
    class Reusing:
        name, dimension = "reusing", 2
        array = np.ones((1, 2), np.float32)

        def embed(self, texts, /):
            return self.array

    cached = Cached(Reusing(), 2)
    cached.embed(["a"])
    Reusing.array[:] = 5
    np.testing.assert_allclose(cached.embed(["a"]), [[0.5**0.5] * 2], rtol=1e-6)


def test_nonsense_is_not_kept():
    answers = iter([np.full((1, 2), np.nan), np.ones((1, 2))])

    class Failing:
        name, dimension = "failing", 2

        def embed(self, texts, /):
            return next(answers).astype(np.float32)

    cached = Cached(Failing(), 2)
    with pytest.raises(EmbedderError, match="NaN"):
        cached.embed(["a"])
    np.testing.assert_allclose(cached.embed(["a"]), [[0.5**0.5] * 2], rtol=1e-6)


@given(st.lists(st.sampled_from("abcdef"), max_size=30), st.integers(0, 4))
def test_a_cached_embedder_answers_as_the_embedder(texts, size):
    cached, plain = Cached(PlantedEmbedder(), size), PlantedEmbedder()
    for text in texts:
        assert np.array_equal(cached.embed([text]), unit_vectors(plain.embed([text]), "planted", 1, 64))
    assert len(cached._embeddings) <= size


def test_threads_may_share_it():
    cached, plain = Cached(PlantedEmbedder(), 3), PlantedEmbedder()
    texts = list("abcdefgh") * 40
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda text: cached.embed([text])[0], texts))
    assert np.array_equal(np.stack(answers), unit_vectors(plain.embed(texts), "planted", len(texts), 64))
    assert len(cached._embeddings) <= 3


class Meaning(PlantedEmbedder):
    """MiniLM under another name, which refuses more than `most` texts and keeps the sizes of its calls."""

    def __init__(self):
        super().__init__({})
        self.dimension, self.calls, self.most, self.inner = 384, [], 60, MiniLM()

    def embed(self, texts):
        self.calls.append(len(texts))
        if len(texts) > self.most:
            raise EmbedderError("too many")
        return self.inner.embed(texts)


def test_the_calibration_of_an_unknown_embedder_is_measured_once_with_its_first_vectors():
    inner = Meaning()
    cached = Cached(inner, 8, measures=True)
    assert cached.calibration is UNCALIBRATED
    cached.embed_each(["one"])
    cached.embed(["two", "three"])
    assert inner.calls == [1, 60, 2]
    assert cached.calibration.source.startswith("included texts: 60")
    assert 0.6 < cached.calibration.paraphrase < 0.7


def test_a_calibration_that_cannot_be_measured_costs_no_vector_and_is_tried_again():
    inner = Meaning()
    inner.most = 59
    cached = Cached(inner, 8, measures=True)
    assert cached.embed_each(["one"])[0].vector.shape == (384,)
    assert cached.calibration is UNCALIBRATED
    inner.most = 60
    cached.embed_each(["two"])
    assert cached.calibration is not UNCALIBRATED


def test_an_embedder_with_a_calibration_is_not_measured():
    inner, own = Meaning(), Calibration((0.0, 1.0), (0.0, 1.0), 0.5, "own")
    inner.calibration = own
    cached = Cached(inner, 8, measures=True)
    cached.embed_each(["one"])
    assert inner.calls == [1]
    assert cached.calibration == own
