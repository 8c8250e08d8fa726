"""Extractors by the names that the setting `entities` takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from salience.errors import unknown
from salience.extract.rules import RuleExtractor
from salience.extract.spacy import SpacyExtractor
from salience.ports import Extractor

EXTRACTORS: Final[Mapping[str, Callable[[], Extractor]]] = {"rules": RuleExtractor}
"""Extractors that need no more than their name."""
PIPELINES: Final[Mapping[str, Callable[[str], Extractor]]] = {"spacy": SpacyExtractor}
"""Extractors that are named with a pipeline, as `spacy:NAME`."""


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
