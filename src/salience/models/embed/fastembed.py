"""Models of the library fastembed, which fetches them at their first use and keeps them in a folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from salience.batch import Vectors32, unit_vectors
from salience.errors import EmbedderError, shown
from salience.loading import Once, mapped, require, stay_private


@dataclass(frozen=True, slots=True)
class _Description:
    model: str
    dimension: int


class FastEmbed:
    """Vectors of a model that fastembed supports. The model is fetched and loaded at the first `embed`.

    Args:
        model: a name from `fastembed.TextEmbedding.list_supported_models()`, in any case.
        cache_dir: the folder of models; None for the library's own choice.

    Raises:
        MissingExtraError: the library is not installed.
    """

    def __init__(self, model: str, cache_dir: Path | None = None) -> None:
        require("fastembed", "the embedder 'fastembed'", "fastembed")
        self._description = Once(lambda: _described(model))
        self._model = Once(lambda: _load(self._description().model, cache_dir))

    @property
    def name(self) -> str:
        """The model as fastembed spells it, after `fastembed:`.

        Raises:
            EmbedderError: fastembed does not know the model.
        """
        return f"fastembed:{self._description().model}"

    @property
    def dimension(self) -> int:
        """Length of a vector, as fastembed lists it; nothing is fetched.

        Raises:
            EmbedderError: fastembed does not know the model.
        """
        return self._description().dimension

    def embed(self, texts: Sequence[str], /) -> Vectors32:
        """Return float32[len(texts), dimension], rows of length 1.

        Raises:
            EmbedderError: the model is not known, could not be fetched, or failed.
        """
        if not texts:
            return np.empty((0, self.dimension), np.float32)
        model = self._model()
        with mapped(self.name, "embed", "Check the memory that is left."):
            vectors = np.stack(list(model.embed(list(texts))))
        return unit_vectors(vectors, self.name, len(texts), self.dimension)


def _described(model: str) -> _Description:
    with mapped(f"fastembed:{model}", "be looked up", "Reinstall fastembed."):
        stay_private()
        from fastembed import TextEmbedding

        for listed in TextEmbedding.list_supported_models():
            if listed["model"].lower() == model.lower():
                return _Description(listed["model"], int(listed["dim"]))
    raise EmbedderError(
        f"fastembed_model: {shown(model)} is not a model of fastembed. Choose one from: "
        "python -c \"import fastembed; print(*(m['model'] for m in fastembed.TextEmbedding.list_supported_models()))\""
    )


def _load(model: str, cache_dir: Path | None) -> Any:
    remedy = "Check the network, or point SALIENCE_FASTEMBED_CACHE at a folder that holds the model."
    with mapped(f"fastembed:{model}", "be fetched and loaded", remedy):
        from fastembed import TextEmbedding

        return TextEmbedding(model_name=model, cache_dir=None if cache_dir is None else str(cache_dir))
