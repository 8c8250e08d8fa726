"""Cross-encoders of the library fastembed, which fetches them at their first use and keeps them in a folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from salience.batch import Floats
from salience.errors import RerankerError, shown
from salience.loading import Once, mapped, require, stay_private

MODEL: Final = "Xenova/ms-marco-MiniLM-L-6-v2"
"""The model unless another is chosen: 80 MB, English, trained on MS MARCO."""


class FastEmbed:
    """Scores of a cross-encoder that fastembed supports. The model is fetched and loaded at the first `scores`.

    Args:
        model: a name from `TextCrossEncoder.list_supported_models()`, in any case.
        cache_dir: the folder of models; None for the library's own choice.

    Raises:
        MissingExtraError: the library is not installed.
    """

    def __init__(self, model: str = MODEL, cache_dir: Path | None = None) -> None:
        require("fastembed", "the reranker 'fastembed'", "fastembed")
        self._listed = Once(lambda: _listed(model))
        self._model = Once(lambda: _load(self._listed(), cache_dir))

    @property
    def name(self) -> str:
        """The model as fastembed spells it, after `fastembed:`; nothing is fetched.

        Raises:
            RerankerError: fastembed does not know the model.
        """
        return f"fastembed:{self._listed()}"

    def scores(self, query: str, texts: Sequence[str], /) -> Floats:
        """Return float64[len(texts)], a logit each: the larger, the better the text answers the query.

        Raises:
            RerankerError: the model is not known, could not be fetched, or failed.
        """
        if not texts:
            return np.empty(0)
        model = self._model()
        with mapped(self.name, "score", "Check the memory that is left.", "reranker"):
            return np.array(list(model.rerank(query, list(texts))), np.float64)


def _listed(model: str) -> str:
    with mapped(f"fastembed:{model}", "be looked up", "Reinstall fastembed.", "reranker"):
        stay_private()
        from fastembed.rerank.cross_encoder import TextCrossEncoder

        names = [str(listed["model"]) for listed in TextCrossEncoder.list_supported_models()]
    for name in names:
        if name.lower() == model.lower():
            return name
    raise RerankerError(
        f"reranker_model: {shown(model)} is not a cross-encoder of fastembed. Choose one of: {', '.join(names)}."
    )


def _load(model: str, cache_dir: Path | None) -> Any:
    remedy = "Check the network, or point SALIENCE_FASTEMBED_CACHE at a folder that holds the model."
    with mapped(f"fastembed:{model}", "be fetched and loaded", remedy, "reranker"):
        from fastembed.rerank.cross_encoder import TextCrossEncoder

        return TextCrossEncoder(model_name=model, cache_dir=None if cache_dir is None else str(cache_dir))
