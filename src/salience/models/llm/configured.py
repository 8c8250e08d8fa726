"""The language model that the settings name."""

from __future__ import annotations

from typing import Final

from salience.models.llm.chat import Chat, Endpoint
from salience.settings import Settings

REST: Final = 60.0
"""Seconds for which a write does not ask a model again that failed: each write would wait for it in vain."""


def quick_chat(settings: Settings, asker: str, seconds: float) -> Chat:
    """Return the model for a write, which waits for it only some seconds: asked once, and rested after a failure.

    Raises:
        MissingExtraError: its library is not installed.
        InputError: a base URL or key that cannot be sent.
    """
    key = None if settings.llm_api_key is None else settings.llm_api_key.get_secret_value()
    timeout = min(seconds, settings.llm_timeout)
    return Chat(Endpoint(settings.llm_base_url, settings.llm_model, key, timeout, retries=0, rest=REST), asker)
