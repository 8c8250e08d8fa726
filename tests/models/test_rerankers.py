"""Rerankers by name or by protocol, and the ports to two libraries, against doubles of their interfaces."""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from salience import settings as salience_settings
from salience.errors import InputError, MissingExtraError, RerankerError
from salience.models.fastembed import FastEmbedReranker
from salience.models.registry import reranker
from salience.models.sentence_transformers import CrossEncoderReranker


class FakeTextCrossEncoder:
    """The interface of `fastembed.rerank.cross_encoder.TextCrossEncoder` that we use."""

    made: list[tuple[str, str | None]]
    broken: str | None = None

    @classmethod
    def list_supported_models(cls):
        return [{"model": "Xenova/ms-marco-MiniLM-L-6-v2"}, {"model": "other/model"}]

    def __init__(self, model_name, cache_dir=None, threads=None, **kwargs):
        if self.broken == "load":
            raise OSError("no network")
        self.made.append((model_name, cache_dir))

    def rerank(self, query, documents, batch_size=64, **kwargs):
        if self.broken == "score":
            raise RuntimeError(query + documents[0])
        yield from (float(len(query) - len(text)) for text in documents)


class FakeCrossEncoder:
    """The interface of `sentence_transformers.CrossEncoder` that we use; it wants keywords where the library does."""

    made: list[str]
    broken: str | None = None

    def __init__(self, model_name_or_path=None, *, device=None, cache_folder=None):
        if self.broken == "load":
            raise OSError("no network")
        self.made.append(model_name_or_path)

    def predict(self, inputs, prompt_name=None, prompt=None, batch_size=32, show_progress_bar=None):
        if self.broken == "score":
            raise RuntimeError(inputs[0][1])
        assert show_progress_bar is False
        return np.array([len(query) - len(text) for query, text in inputs], np.float32)


def module(monkeypatch, name, **attributes):
    made = ModuleType(name)
    made.__spec__ = ModuleSpec(name, None, is_package=True)
    made.__path__ = []
    for key, value in attributes.items():
        setattr(made, key, value)
    monkeypatch.setitem(sys.modules, name, made)


@pytest.fixture
def libraries(monkeypatch):
    doubles = SimpleNamespace(
        fastembed=type("TextCrossEncoder", (FakeTextCrossEncoder,), {"made": []}),
        sentence_transformers=type("CrossEncoder", (FakeCrossEncoder,), {"made": []}),
    )
    module(monkeypatch, "fastembed")
    module(monkeypatch, "fastembed.rerank")
    module(monkeypatch, "fastembed.rerank.cross_encoder", TextCrossEncoder=doubles.fastembed)
    module(monkeypatch, "sentence_transformers", CrossEncoder=doubles.sentence_transformers)
    return doubles


@pytest.fixture
def settings(tmp_path, monkeypatch):
    monkeypatch.setattr(salience_settings, "config_file", lambda: tmp_path / "config.toml")
    return salience_settings.load()


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("fastembed", "fastembed:Xenova/ms-marco-MiniLM-L-6-v2"),
        ("sentence-transformers", "sentence-transformers:cross-encoder/ms-marco-MiniLM-L6-v2"),
    ],
)
def test_a_name_gives_a_reranker_with_its_own_model(libraries, settings, name, model):
    assert reranker(name, settings).name == model
    assert reranker(None, settings.model_copy(update={"reranker": name})).name == model
    assert libraries.fastembed.made == libraries.sentence_transformers.made == []


def test_none_turns_off_what_the_settings_choose(libraries, settings):
    assert reranker("none", settings.model_copy(update={"reranker": "fastembed"})) is None


def test_settings_reach_the_rerankers(libraries, settings):
    chosen = settings.model_copy(update={"reranker_model": "Other/Model", "fastembed_cache": Path("/models")})
    first, second = reranker("fastembed", chosen), reranker("sentence-transformers", chosen)
    assert (first.name, second.name) == ("fastembed:other/model", "sentence-transformers:Other/Model")
    first.scores("a", ["b"]), second.scores("a", ["b"])
    assert libraries.fastembed.made == [("other/model", str(Path("/models")))]
    assert libraries.sentence_transformers.made == ["Other/Model"]


def test_an_unknown_fastembed_model_is_refused_when_it_is_chosen(libraries, settings):
    with pytest.raises(RerankerError, match=r"reranker_model: 'no/model'.*Xenova/ms-marco-MiniLM-L-6-v2, other/model"):
        reranker("fastembed", settings.model_copy(update={"reranker_model": "no/model"}))


@pytest.mark.parametrize("kind", [FastEmbedReranker, CrossEncoderReranker])
def test_scores_come_in_the_order_of_the_texts_from_a_model_that_is_loaded_once(libraries, kind):
    made = kind()
    scores = made.scores("abc", ["a", "abcd", "ab"])
    assert scores.dtype == np.float64
    np.testing.assert_array_equal(scores, [2, -1, 1])
    made.scores("abc", ["x"])
    assert len(libraries.fastembed.made + libraries.sentence_transformers.made) == 1


@pytest.mark.parametrize("kind", [FastEmbedReranker, CrossEncoderReranker])
@pytest.mark.parametrize(("broken", "words"), [("load", "OSError.*SALIENCE_"), ("score", "RuntimeError")])
def test_a_failure_of_the_library_is_ours_and_holds_no_text(libraries, kind, broken, words):
    libraries.fastembed.broken = libraries.sentence_transformers.broken = broken
    with pytest.raises(RerankerError, match=words) as caught:
        kind().scores("my question", ["my secret"])
    assert "my " not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "library"), [("fastembed", "fastembed"), ("sentence-transformers", "sentence_transformers")]
)
def test_a_missing_extra_is_reported_when_the_reranker_is_chosen(settings, monkeypatch, name, library):
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(MissingExtraError, match=rf'pip install .*\[{name}\]"$'):
        reranker(name, settings)


def test_an_unknown_name_lists_the_names(settings):
    with pytest.raises(
        InputError, match=r"reranker 'bert' is unknown.*fastembed, none, sentence-transformers; or give"
    ):
        reranker("bert", settings)


@pytest.mark.parametrize(
    "given",
    [
        SimpleNamespace(name="own"),
        SimpleNamespace(scores=len),
        SimpleNamespace(name="own", scores=1),
        FastEmbedReranker,
        SimpleNamespace(name="", scores=len),
        7,
    ],
)
def test_an_object_without_the_protocol_is_refused(settings, given):
    with pytest.raises(InputError, match="reranker"):
        reranker(given, settings)
