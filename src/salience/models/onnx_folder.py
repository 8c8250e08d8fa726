"""Embedders on ONNX Runtime: sentence vectors and token vectors of one model, from one pass over a text."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from salience.batch import Tokens, Vectors32, unit_vectors
from salience.errors import EmbedderError, InputError, Words
from salience.loading import Once, mapped
from salience.models.onnx import Lengths, Transformer, open_session
from salience.models.tokens import TOKEN_SIZE, Projection, margins, random_projection

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

Pooling = Literal["cls", "mean", "last"]
FILES: Final = ("model.onnx", "onnx/model.onnx", "model_quantized.onnx", "onnx/model_quantized.onnx")
"""Where exporters put the weights; the first one that exists counts."""
LAYERS: Final = frozenset({"Transformer", "Pooling", "Normalize"})
"""Layers of a sentence-transformers model that this module computes."""
MAX_TOKENS: Final = 512
_REMEDY: Final = "Check the folder: it needs model.onnx, tokenizer.json and config.json."


class OnnxEmbedder:
    """Sentence vectors of a transformer, and token vectors of length 64. The first call loads the weights.

    Each text is computed alone, so it has the same vector bit for bit beside other texts. A text of words that the
    model does not know has a vector of zeros and no token vectors.

    Args:
        name: of the model.
        dimension: of its hidden states.
        load: returns the session and the tokenizer.
        pooling: the hidden state that is the sentence's: that of the first token, the mean, or that of the last token.
        projection: returns the map from hidden states to token vectors.
        query_prefix, passage_prefix: texts that the engine puts before each query and each stored text. Token vectors
            are of the text behind them.
        threads: texts computed in parallel; 0 for one per core.
        tokens: whether stores should keep token vectors too.
        is_english: whether the model reads Latin letters alone.
    """

    independent = True
    gives_zeros = True

    def __init__(
        self,
        name: str,
        dimension: int,
        load: Callable[[], tuple[InferenceSession, Any]],
        pooling: Pooling,
        projection: Callable[[], Projection],
        *,
        query_prefix: str = "",
        passage_prefix: str = "",
        threads: int = 0,
        tokens: bool = True,
        is_english: bool = False,
    ) -> None:
        self.name, self.dimension = name, dimension
        self.query_prefix, self.passage_prefix = query_prefix, passage_prefix
        self.token_size = TOKEN_SIZE if tokens else 0
        self._pooling, self._projection = pooling, projection
        self._loaded = Once(load)
        reading: dict[str, Any] = {"prefix": query_prefix, "is_english": is_english}
        self._vectors = Transformer(name, self._loaded, self._pooled, threads, batch_tokens=0, **reading)
        self._both = Transformer(name, self._loaded, self._with_tokens, threads, batch_tokens=0, **reading)

    def embed(self, texts: Sequence[str], /) -> Vectors32:
        """Return float32[len(texts), dimension], rows of length 1.

        Raises:
            EmbedderError: the weights cannot be loaded, or ONNX Runtime failed.
        """
        return self._matrix(self._vectors.encode(texts))

    def embed_tokens(self, texts: Sequence[str], /) -> tuple[Vectors32, list[Tokens]]:
        """Return what `embed` returns, and for each text int8[t, 64], without special tokens and those of a prefix.

        Raises:
            EmbedderError: as `embed`.
        """
        found = self._both.encode(texts)
        prefixes = [prefix for prefix in (self.query_prefix, self.passage_prefix) if prefix]
        tokens = []
        for text, one in zip(texts, found, strict=True):
            own = np.empty((0, TOKEN_SIZE), np.int8) if one is None else one[1]
            prefix = next((prefix for prefix in prefixes if text.startswith(prefix)), "")
            before, after = margins(self._loaded()[1], text, prefix)
            tokens.append(own[before : max(len(own) - after, before)])
        return self._matrix([None if one is None else one[0] for one in found]), tokens

    def _matrix(self, rows: Sequence[Vectors32 | None]) -> Vectors32:
        vectors = np.zeros((len(rows), self.dimension), np.float32)
        for row, vector in enumerate(rows):
            if vector is not None:
                vectors[row] = vector
        return unit_vectors(vectors, self.name, len(rows), self.dimension, gives_zeros=True)

    def _pooled(self, hidden: Vectors32, lengths: Lengths) -> Iterable[Vectors32]:
        for states, length in zip(hidden, lengths, strict=True):
            places = {"cls": slice(1), "mean": slice(length), "last": slice(length - 1, length)}
            yield states[places[self._pooling]].mean(axis=0)

    def _with_tokens(self, hidden: Vectors32, lengths: Lengths) -> Iterable[tuple[Vectors32, Tokens]]:
        project = self._projection()
        own = (project(states[:length]) for states, length in zip(hidden, lengths, strict=True))
        return zip(self._pooled(hidden, lengths), own, strict=True)


def from_folder(
    folder: Path, query_prefix: str = "", passage_prefix: str = "", threads: int = 0, tokens: bool = True
) -> OnnxEmbedder:
    """Return the embedder in a folder with `model.onnx`, `tokenizer.json` and `config.json`, as exporters write them.

    The pooling and the prefixes are those of the files of sentence-transformers (`1_Pooling/config.json`,
    `config_sentence_transformers.json`) if they are there: else the mean, and none. Prefixes that are given win.

    Raises:
        InputError: the folder or a file is missing, or has a layer that this cannot compute.
    """
    weights = next((folder / name for name in FILES if (folder / name).is_file()), None)
    config = _json(folder / "config.json")
    if weights is None or not (folder / "tokenizer.json").is_file() or not isinstance(config.get("hidden_size"), int):
        problem = "has no model.onnx, tokenizer.json or config.json with hidden_size"
        raise InputError("embedder", str(folder), _REMEDY, problem)
    layers = [str(layer.get("type", "")).rpartition(".")[2] for layer in _json(folder / "modules.json", [])]
    if other := set(layers) - LAYERS:
        value = Words(f"a model with the layer {min(other)}")
        raise InputError("embedder", value, "Use sentence-transformers:FOLDER, which computes every layer.")
    pooling = _json(folder / "1_Pooling" / "config.json")
    prompts = _json(folder / "config_sentence_transformers.json").get("prompts", {})
    length = _json(folder / "sentence_bert_config.json").get("max_seq_length") or MAX_TOKENS
    return OnnxEmbedder(
        f"onnx:{folder.resolve().name}",
        config["hidden_size"],
        lambda: _load(weights, folder / "tokenizer.json", min(int(length), MAX_TOKENS)),
        "cls" if pooling.get("pooling_mode_cls_token") else "last" if pooling.get("pooling_mode_lasttoken") else "mean",
        lambda: random_projection(config["hidden_size"]),
        query_prefix=query_prefix or prompts.get("query", ""),
        passage_prefix=passage_prefix or prompts.get("document", "") or prompts.get("passage", ""),
        threads=threads,
        tokens=tokens,
    )


def _json(path: Path, otherwise: Any = {}) -> Any:  # noqa: B006 - never changed
    """Return the content of a file; `otherwise` if there is none."""
    try:
        return json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return otherwise
    except (OSError, ValueError) as error:
        problem = f"cannot be read ({type(error).__name__})"
        raise InputError("embedder", str(path), "Give a file of JSON in UTF-8.", problem) from None


class _LastHiddenState:
    """A session that takes the inputs of BERT and drops those that its model has not."""

    def __init__(self, session: InferenceSession) -> None:
        self._session = session
        self._inputs = {one.name for one in session.get_inputs()}
        outputs = [one.name for one in session.get_outputs() if len(one.shape) == 3]
        if not outputs:
            problem = "has no hidden states among its outputs"
            raise EmbedderError(f"the model {problem}. Export it without pooling: it needs last_hidden_state.")
        self._output = "last_hidden_state" if "last_hidden_state" in outputs else outputs[0]

    def run(self, _: Sequence[str], inputs: dict[str, Any]) -> Any:
        """Return the hidden states in a list."""
        return self._session.run([self._output], {name: inputs[name] for name in inputs.keys() & self._inputs})


def _load(weights: Path, vocabulary: Path, length: int) -> tuple[Any, Any]:
    with mapped(weights.parent.name, "be loaded", _REMEDY):
        from tokenizers import Tokenizer

        tokenizer = Tokenizer.from_file(str(vocabulary))
        tokenizer.no_padding()
        tokenizer.enable_truncation(length)
        return _LastHiddenState(open_session(str(weights))), tokenizer
