"""The extractors by the names that the setting `entities` takes, and the readers of facts by those of `extractor`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from salience.errors import unknown
from salience.extract.llm import LanguageModel
from salience.extract.rules import RuleExtractor
from salience.extract.spacy import SpacyExtractor
from salience.models.llm.configured import quick_chat
from salience.ports import Extractor, FactReader
from salience.settings import Settings

EXTRACTORS: Final[Mapping[str, Callable[[], Extractor]]] = {"rules": RuleExtractor}
"""Extractors that need no more than their name."""
PIPELINES: Final[Mapping[str, Callable[[str], Extractor]]] = {"spacy": SpacyExtractor}
"""Extractors that are named with a pipeline, as `spacy:NAME`."""
FACT_READERS: Final[Mapping[str, Callable[[Settings], FactReader | None]]] = {
    "rules": lambda _: None,
    "openai": lambda settings: LanguageModel(quick_chat(settings, "extractor", settings.llm_extract_timeout)),
}
"""Name -> how what reads facts where the rules find none is made from the settings."""


def extractor(setting: str) -> Extractor:
    """Return the extractor that the setting `entities` names: `rules`, or `spacy:NAME`.

    Raises:
        InputError: another name, or an extractor of pipelines without one. It lists the choices.
        MissingExtraError: the library of the extractor is not installed.
    """
    if setting in EXTRACTORS:
        return EXTRACTORS[setting]()
    name, _, pipeline = setting.partition(":")
    if name in PIPELINES and pipeline:
        return PIPELINES[name](pipeline)
    choices = ", ".join((*EXTRACTORS, *(f"{known}:NAME" for known in PIPELINES)))
    raise unknown("entities", setting, (), f"Choose one of: {choices}.")


def fact_reader(settings: Settings) -> FactReader | None:
    """Return what reads facts where the rules find none, as the setting `extractor` says; None for nothing.

    Raises:
        InputError: an unknown name; a URL or key that cannot be sent.
        MissingExtraError: its library is not installed.
    """
    if settings.extractor not in FACT_READERS:
        raise unknown("extractor", settings.extractor, FACT_READERS)
    return FACT_READERS[settings.extractor](settings)
