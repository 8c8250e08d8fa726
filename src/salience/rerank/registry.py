"""Rerankers by name. Their libraries are imported when one is made or loaded, not with this module."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from salience import checks
from salience.errors import InputError, Words
from salience.ports import Reranker
from salience.rerank import fastembed, sentence_transformers
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
    made = RERANKERS[_known(named)](settings) if isinstance(named, str) else named
    return None if made is None else _checked(made)


def _known(name: str) -> str:
    if name not in RERANKERS:
        remedy = f"Choose one of: {', '.join(sorted(RERANKERS))}; or give an object with {', '.join(_PROTOCOL)}."
        raise InputError("reranker", name, remedy)
    return name


def _checked(given: object) -> Reranker:
    """Return a reranker whose name can be told; a model that its library does not know is refused by that already."""
    if isinstance(given, type) or not isinstance(given, Reranker) or not callable(given.scores):
        lacks = f"an object of {type(given).__name__}"
        remedy = f"Give one of {', '.join(sorted(RERANKERS))}, or an instance with {', '.join(_PROTOCOL)}."
        raise InputError("reranker", Words(lacks), remedy)
    checks.name("reranker.name", given.name)
    return given
