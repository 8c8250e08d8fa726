"""Cross-encoders of the library sentence-transformers, which fetches them at their first use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from salience.batch import Floats
from salience.loading import Once, mapped, require

MODEL: Final = "cross-encoder/ms-marco-MiniLM-L6-v2"
"""The model unless another is chosen: English, trained on MS MARCO."""


class SentenceTransformers:
    """Scores of a cross-encoder with one label. The model is fetched and loaded at the first `scores`.

    Args:
        model: a name on the Hugging Face Hub, or the path of a folder.

    Raises:
        MissingExtraError: the library is not installed.
    """

    def __init__(self, model: str = MODEL) -> None:
        require("sentence_transformers", "the reranker 'sentence-transformers'", "sentence-transformers")
        self.name = f"sentence-transformers:{model}"
        self._model = Once(lambda: self._load(model))

    def scores(self, query: str, texts: Sequence[str], /) -> Floats:
        """Return float64[len(texts)], larger for a text that answers the query better.

        Raises:
            RerankerError: the model could not be fetched, or failed.
        """
        if not texts:
            return np.empty(0)
        model = self._model()
        with mapped(self.name, "score", "Check the memory that is left.", "reranker"):
            pairs = [(query, text) for text in texts]
            return np.asarray(model.predict(pairs, show_progress_bar=False), np.float64)

    def _load(self, model: str) -> Any:
        remedy = "Check the network, or point SALIENCE_RERANKER_MODEL at a folder that holds the model."
        with mapped(self.name, "be fetched and loaded", remedy, "reranker"):
            from sentence_transformers import CrossEncoder

            return CrossEncoder(model)
