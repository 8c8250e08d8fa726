"""Embedders by name. Heavy and optional engines are imported when one is made or loaded, not with this module."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final

from salience.errors import InputError, SalienceError, Words, unknown
from salience.models.embed.cache import Cached
from salience.models.embed.fastembed import FastEmbed
from salience.models.embed.minilm import MiniLM
from salience.models.embed.static import Static
from salience.ports import Embedder
from salience.records import checks
from salience.settings import Settings

LARGEST_DIMENSION: Final = 65_536
_PROTOCOL: Final = ("name", "dimension", "embed")


def _openai(settings: Settings) -> Embedder:
    from salience.models.embed.openai import OpenAI  # httpx takes longer to import than all the rest of this room

    key = settings.openai_api_key
    return OpenAI(
        settings.openai_base_url,
        settings.openai_model,
        settings.openai_dimension,
        key.get_secret_value() if key else None,
        settings.openai_timeout,
        settings.openai_retries,
        send_dimension=settings.openai_send_dimension,
    )


EMBEDDERS: Final[Mapping[str, Callable[[Settings], Embedder]]] = {
    "minilm": lambda settings: MiniLM(settings.minilm_weights, settings.embedder_threads),
    "static": lambda _: Static(),
    "fastembed": lambda settings: FastEmbed(settings.fastembed_model, settings.fastembed_cache),
    "openai": _openai,
}
"""Name -> how the embedder is made from the settings."""


def embedder(chosen: object, settings: Settings) -> Embedder:
    """Return the chosen embedder, with a memory of `settings.embedder_cache` query vectors.

    Args:
        chosen: a name from `EMBEDDERS`, or an object with `name`, `dimension` and `embed(texts)`.
        settings: of the installation.

    Raises:
        InputError: an unknown name, or an object that lacks one of the three.
        MissingExtraError: the embedder's library is not installed.
    """
    made = EMBEDDERS[_known(chosen)](settings) if isinstance(chosen, str) else _checked(chosen)
    return Cached(made, settings.embedder_cache)


def of_model(name: str, dimension: int, settings: Settings) -> Embedder | None:
    """Return the embedder whose vectors have this name and length, as stores are pinned to; None if none is at hand."""
    for make in EMBEDDERS.values():
        with suppress(SalienceError):  # a library that is not installed, or a model that it does not know
            made = make(settings)
            if (made.name, made.dimension) == (name, dimension):
                return made
    return None


def _known(name: str) -> str:
    if name not in EMBEDDERS:
        remedy = f"Choose one of: {', '.join(sorted(EMBEDDERS))}; or give an object with {', '.join(_PROTOCOL)}."
        raise unknown("embedder", name, (), remedy)
    return name


def _checked(given: object) -> Embedder:
    missing = [part for part in _PROTOCOL if not hasattr(given, part)]
    if missing or isinstance(given, type) or not isinstance(given, Embedder) or not callable(given.embed):
        lacks = f"an object of {type(given).__name__} without {', '.join(missing) or 'a method embed'}"
        remedy = f"Give one of {', '.join(sorted(EMBEDDERS))}, or an instance with {', '.join(_PROTOCOL)}."
        raise InputError("embedder", Words(lacks), remedy)
    checks.name("embedder.name", given.name)
    checks.whole("embedder.dimension", given.dimension, 1, LARGEST_DIMENSION)
    return given
