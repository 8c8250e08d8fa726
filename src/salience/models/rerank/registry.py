"""Rerankers by name. Their libraries are imported when one is made or loaded, not with this module."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from salience.loading import chosen_name, given_part
from salience.models.rerank import fastembed, sentence_transformers
from salience.ports import Reranker
from salience.settings import Settings

RERANKERS: Final[Mapping[str, Callable[[Settings], Reranker | None]]] = {
    "none": lambda _: None,
    "fastembed": lambda settings: fastembed.FastEmbed(
        settings.reranker_model or fastembed.MODEL, settings.fastembed_cache
    ),
    "sentence-transformers": lambda settings: sentence_transformers.SentenceTransformers(
        settings.reranker_model or sentence_transformers.MODEL
    ),
}
"""Name -> how the reranker is made from the settings."""
_PROTOCOL: Final = ("name", "scores")


def reranker(chosen: object, settings: Settings) -> Reranker | None:
    """Return the chosen reranker; None where recall is to keep the profile's order.

    Args:
        chosen: a name from `RERANKERS`, or an object with `name` and `scores(query, texts)`; None for the settings'.
        settings: of the installation.

    Raises:
        InputError: an unknown name, or an object that lacks one of the two.
        MissingExtraError: the reranker's library is not installed.
        RerankerError: the library does not know the model.
    """
    named = settings.reranker if chosen is None else chosen
    made = _made(named, settings) if isinstance(named, str) else named
    return None if made is None else given_part("reranker", made, Reranker, RERANKERS, _PROTOCOL)  # type: ignore[type-abstract]


def _made(name: str, settings: Settings) -> Reranker | None:
    return RERANKERS[chosen_name("reranker", name, RERANKERS, _PROTOCOL)](settings)
