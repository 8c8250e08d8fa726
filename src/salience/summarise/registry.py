"""Summarisers by name. Their libraries are imported when one is first used, not with this module."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from salience import checks
from salience.errors import InputError, Words
from salience.ports import Summariser
from salience.settings import Settings
from salience.summarise import openai

SUMMARISERS: Final[Mapping[str, Callable[[Settings], Summariser | None]]] = {
    "none": lambda _: None,
    "openai": lambda settings: openai.OpenAI(
        settings.llm_base_url,
        settings.llm_model,
        None if settings.llm_api_key is None else settings.llm_api_key.get_secret_value(),
        settings.llm_timeout,
        settings.llm_retries,
    ),
}
"""Name -> how the summariser is made from the settings."""
_PROTOCOL: Final = ("name", "summarise")


def summariser(chosen: object, settings: Settings) -> Summariser | None:
    """Return the chosen summariser; None where the text of a reflection is to be that of its medoid.

    Args:
        chosen: a name from `SUMMARISERS`, or an object with `name` and `summarise(sources)`; None for the settings'.
        settings: of the installation.

    Raises:
        InputError: an unknown name, or an object that lacks one of the two; a URL or key that cannot be sent.
        MissingExtraError: the summariser's library is not installed.
    """
    named = settings.summariser if chosen is None else chosen
    made = SUMMARISERS[_known(named)](settings) if isinstance(named, str) else named
    return None if made is None else _checked(made)


def _known(name: str) -> str:
    if name not in SUMMARISERS:
        remedy = f"Choose one of: {', '.join(sorted(SUMMARISERS))}; or give an object with {', '.join(_PROTOCOL)}."
        raise InputError("summariser", name, remedy)
    return name


def _checked(given: object) -> Summariser:
    if isinstance(given, type) or not isinstance(given, Summariser) or not callable(given.summarise):
        lacks = f"an object of {type(given).__name__}"
        remedy = f"Give one of {', '.join(sorted(SUMMARISERS))}, or an instance with {', '.join(_PROTOCOL)}."
        raise InputError("summariser", Words(lacks), remedy)
    checks.name("summariser.name", given.name)
    return given
