"""Summarisers by name. Their libraries are imported when one is first used, not with this module."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from salience.loading import chosen_name, given_part
from salience.models.summarise import openai
from salience.ports import Summariser
from salience.settings import Settings

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
    made = _made(named, settings) if isinstance(named, str) else named
    return None if made is None else given_part("summariser", made, Summariser, SUMMARISERS, _PROTOCOL)  # type: ignore[type-abstract]


def _made(name: str, settings: Settings) -> Summariser | None:
    return SUMMARISERS[chosen_name("summariser", name, SUMMARISERS, _PROTOCOL)](settings)
