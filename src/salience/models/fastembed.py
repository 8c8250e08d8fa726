"""Models of the library fastembed: an embedder and a reranker.

The library downloads a model when it is first used, and keeps it in a folder.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from salience.batch import Floats, Vectors32, unit_vectors
from salience.errors import EmbedderError, RerankerError, shown
from salience.loading import Once, mapped, onnx_runtime, require

DEFAULT_RERANKER: Final = "Xenova/ms-marco-MiniLM-L-6-v2"
"""Default reranker: 80 MB, English, trained on MS MARCO."""
_LOAD_REMEDY: Final = "Check the network, or point SALIENCE_FASTEMBED_CACHE at a folder that holds the model."


class FastEmbed:
    """Vectors of a model that fastembed supports. The first `embed` downloads and loads the model.

    Args:
        model: a name from `fastembed.TextEmbedding.list_supported_models()`, in any case.
        cache_dir: the folder of models; None for the library's default.

    Raises:
        MissingExtraError: the library is not installed.
    """

    def __init__(self, model: str, cache_dir: Path | None = None) -> None:
        require("fastembed", "the embedder 'fastembed'", "fastembed")
        self._listed = Once(lambda: _listed_embedder(model))
        self._model = Once(lambda: self._load(cache_dir))

    @property
    def name(self) -> str:
        """`fastembed:` and the model as fastembed spells it.

        Raises:
            EmbedderError: fastembed does not know the model.
        """
        return f"fastembed:{self._listed()[0]}"

    @property
    def dimension(self) -> int:
        """Length of a vector, as fastembed lists it; this downloads nothing.

        Raises:
            EmbedderError: fastembed does not know the model.
        """
        return self._listed()[1]

    def embed(self, texts: Sequence[str], /) -> Vectors32:
        """Return float32[len(texts), dimension], rows of length 1.

        Raises:
            EmbedderError: the model is unknown, could not be downloaded, or failed.
        """
        if not texts:
            return np.empty((0, self.dimension), np.float32)
        model = self._model()
        with mapped(self.name, "embed", "Check the memory that is left."):
            vectors = np.stack(list(model.embed(list(texts))))
        return unit_vectors(vectors, self.name, len(texts), self.dimension)

    def _load(self, cache_dir: Path | None) -> Any:
        with mapped(self.name, "be fetched and loaded", _LOAD_REMEDY):
            name, _ = self._listed()  # takes the lock of ONNX Runtime, too
            with onnx_runtime():
                from fastembed import TextEmbedding

                return TextEmbedding(model_name=name, cache_dir=None if cache_dir is None else str(cache_dir))


class FastEmbedReranker:
    """Scores of a cross-encoder that fastembed supports. The first `scores` downloads and loads the model.

    Args:
        model: a name from `TextCrossEncoder.list_supported_models()`, in any case.
        cache_dir: the folder of models; None for the library's default.

    Raises:
        MissingExtraError: the library is not installed.
    """

    def __init__(self, model: str = DEFAULT_RERANKER, cache_dir: Path | None = None) -> None:
        require("fastembed", "the reranker 'fastembed'", "fastembed")
        self._listed = Once(lambda: _listed_reranker(model))
        self._model = Once(lambda: self._load(cache_dir))

    @property
    def name(self) -> str:
        """`fastembed:` and the model as fastembed spells it; this downloads nothing.

        Raises:
            RerankerError: fastembed does not know the model.
        """
        return f"fastembed:{self._listed()}"

    def scores(self, query: str, texts: Sequence[str], /) -> Floats:
        """Return float64[len(texts)], one logit per text, larger for a better answer.

        Raises:
            RerankerError: the model is unknown, could not be downloaded, or failed.
        """
        if not texts:
            return np.empty(0)
        model = self._model()
        with mapped(self.name, "score", "Check the memory that is left.", "reranker"):
            return np.array(list(model.rerank(query, list(texts))), np.float64)

    def _load(self, cache_dir: Path | None) -> Any:
        with mapped(self.name, "be fetched and loaded", _LOAD_REMEDY, "reranker"):
            name = self._listed()  # takes the lock of ONNX Runtime, too
            with onnx_runtime():
                from fastembed.rerank.cross_encoder import TextCrossEncoder

                return TextCrossEncoder(model_name=name, cache_dir=None if cache_dir is None else str(cache_dir))


def _listed_embedder(model: str) -> tuple[str, int]:
    """Return the name of a model as fastembed spells it, and its dimension."""
    with mapped(f"fastembed:{model}", "be looked up", "Reinstall fastembed."), onnx_runtime():
        from fastembed import TextEmbedding

        for listed in TextEmbedding.list_supported_models():
            if listed["model"].lower() == model.lower():
                return listed["model"], int(listed["dim"])
    raise EmbedderError(
        f"fastembed_model: {shown(model)} is not a model of fastembed. Choose one from: "
        "python -c \"import fastembed; print(*(m['model'] for m in fastembed.TextEmbedding.list_supported_models()))\""
    )


def _listed_reranker(model: str) -> str:
    """Return the name of a cross-encoder as fastembed spells it."""
    with mapped(f"fastembed:{model}", "be looked up", "Reinstall fastembed.", "reranker"), onnx_runtime():
        from fastembed.rerank.cross_encoder import TextCrossEncoder

        names = [str(listed["model"]) for listed in TextCrossEncoder.list_supported_models()]
    for name in names:
        if name.lower() == model.lower():
            return name
    raise RerankerError(
        f"reranker_model: {shown(model)} is not a cross-encoder of fastembed. Choose one of: {', '.join(names)}."
    )
