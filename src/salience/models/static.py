"""Static embedder: WordLlama, the mean of token vectors from a table; fast, small and less accurate."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from salience.batch import Vectors32, unit_vectors
from salience.loading import Once, mapped, require
from salience.models.scripts import embed_known
from salience.text import LATIN


class Static:
    """Mean token vectors of length 256 over the whole text. The table is part of the library's wheel.

    A text that is not in Latin letters has a vector of zeros: the table has vectors of single letters and bytes for it.

    Raises:
        MissingExtraError: the library `wordllama` is not installed.
    """

    name = "wordllama-l2-supercat-256"
    dimension = 256
    gives_zeros = True

    def __init__(self) -> None:
        require("wordllama", "the embedder 'static'", "static")
        self._model = Once(self._load)

    def embed(self, texts: Sequence[str], /) -> Vectors32:
        """Return float32[len(texts), 256], rows of length 1; zeros for a text of unknown words.

        Raises:
            EmbedderError: the table is missing.
        """
        if not texts:
            return np.empty((0, self.dimension), np.float32)
        model = self._model()
        with mapped(self.name, "embed", "Check the memory that is left."):
            vectors = embed_known(model.embed, texts, LATIN, self.dimension)
        return unit_vectors(vectors, self.name, len(texts), self.dimension, gives_zeros=True)

    def _load(self) -> Any:
        with mapped(self.name, "be loaded", 'Reinstall it: pip install --force-reinstall "salience[static]"'), _quiet():
            import wordllama

            package = Path(wordllama.__file__).parent  # the library looks for the tokenizer in another folder
            return wordllama.WordLlama.load(dim=self.dimension, cache_dir=package, disable_download=True)


@contextmanager
def _quiet() -> Iterator[None]:
    """Disable the library's `logging.basicConfig`, which would print the INFO lines of the application."""
    root, guard = logging.getLogger(), logging.NullHandler()  # basicConfig does nothing if the root has a handler
    root.addHandler(guard)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        root.removeHandler(guard)
