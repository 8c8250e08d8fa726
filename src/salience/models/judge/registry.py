"""Judges by name. Their libraries are imported when one is made or loaded, not with this module."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from salience.errors import unknown
from salience.models.judge import nli, openai
from salience.models.llm.configured import quick_chat
from salience.ports import Judge
from salience.settings import Settings

JUDGES: Final[Mapping[str, Callable[[Settings], Judge | None]]] = {
    "none": lambda _: None,
    "openai": lambda settings: openai.OpenAI(quick_chat(settings, "judge", settings.judge_timeout)),
    "nli": lambda settings: nli.NLI(settings.judge_model or nli.MODEL),
}
"""Name -> how the judge is made from the settings."""


def judge(settings: Settings) -> Judge | None:
    """Return the judge that the settings name; None where the rules' labels are to stand.

    Raises:
        InputError: an unknown name; a URL or key that cannot be sent.
        MissingExtraError: the judge's library is not installed.
    """
    if settings.judge not in JUDGES:
        raise unknown("judge", settings.judge, JUDGES)
    return JUDGES[settings.judge](settings)
