"""Models of the library fastembed: an embedder and a reranker.

The library downloads a model when it is first used, and keeps it in a folder.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from salience.batch import Floats, Vectors32, unit_vectors
from salience.errors import shown
from salience.loading import ERRORS, Kind, Once, mapped, onnx_runtime, require

DEFAULT_RERANKER: Final = "Xenova/ms-marco-MiniLM-L-6-v2"
"""Default reranker: 80 MB, English, trained on MS MARCO."""
_LOAD_REMEDY: Final = "Check the network, or point SALIENCE_FASTEMBED_CACHE at a folder that holds the model."


class _FastEmbedModel:
    """A model that fastembed supports, in any case; the library's list is read, and the model loaded, when needed."""

    kind: Kind

    def __init__(self, model: str, cache_dir: Path | None) -> None:
        require("fastembed", f"the {self.kind} 'fastembed'", "fastembed")
        self._listed = Once(lambda: self._find(model))
        self._model = Once(lambda: self._load(cache_dir))

    @property
    def name(self) -> str:
        """`fastembed:` and the model as fastembed spells it; this downloads nothing.

        Raises:
            EmbedderError, RerankerError: fastembed does not know the model.
        """
        return f"fastembed:{self._listed()['model']}"

    def _class(self) -> Any:
        """Return the library's class of such models."""
        raise NotImplementedError

    def _find(self, model: str) -> dict[str, Any]:
        """Return the entry of a model in the library's list."""
        with mapped(f"fastembed:{model}", "be looked up", "Reinstall fastembed.", self.kind), onnx_runtime():
            listed: list[dict[str, Any]] = self._class().list_supported_models()
        for one in listed:
            if one["model"].lower() == model.lower():
                return one
        setting = "fastembed_model" if self.kind == "embedder" else "reranker_model"
        names = ", ".join(str(one["model"]) for one in listed)
        raise ERRORS[self.kind](f"{setting}: {shown(model)} is unknown to fastembed. Choose one of: {names}.")

    def _load(self, cache_dir: Path | None) -> Any:
        with mapped(self.name, "be fetched and loaded", _LOAD_REMEDY, self.kind):
            name = self._listed()["model"]  # before the lock of ONNX Runtime, which the list takes too
            with onnx_runtime():
                return self._class()(model_name=name, cache_dir=None if cache_dir is None else str(cache_dir))


class FastEmbed(_FastEmbedModel):
    """Vectors of a model that fastembed supports. The first `embed` downloads and loads the model.

    Args:
        model: a name from `fastembed.TextEmbedding.list_supported_models()`, in any case.
        cache_dir: the folder of models; None for the library's default.
        query_prefix, passage_prefix: texts that the engine puts before each query and each stored text.

    Raises:
        MissingExtraError: the library is not installed.
    """

    kind = "embedder"

    def __init__(
        self, model: str, cache_dir: Path | None = None, *, query_prefix: str = "", passage_prefix: str = ""
    ) -> None:
        super().__init__(model, cache_dir)
        self.query_prefix, self.passage_prefix = query_prefix, passage_prefix

    @property
    def dimension(self) -> int:
        """Length of a vector, as fastembed lists it; this downloads nothing.

        Raises:
            EmbedderError: fastembed does not know the model.
        """
        return int(self._listed()["dim"])

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

    def _class(self) -> Any:
        from fastembed import TextEmbedding

        return TextEmbedding


class FastEmbedReranker(_FastEmbedModel):
    """Scores of a cross-encoder that fastembed supports. The first `scores` downloads and loads the model.

    Args:
        model: a name from `TextCrossEncoder.list_supported_models()`, in any case.
        cache_dir: the folder of models; None for the library's default.

    Raises:
        MissingExtraError: the library is not installed.
    """

    kind = "reranker"

    def __init__(self, model: str = DEFAULT_RERANKER, cache_dir: Path | None = None) -> None:
        super().__init__(model, cache_dir)

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

    def _class(self) -> Any:
        from fastembed.rerank.cross_encoder import TextCrossEncoder

        return TextCrossEncoder
