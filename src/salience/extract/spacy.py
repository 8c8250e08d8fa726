"""Names found by a spaCy pipeline; marks and importance as the rules have them."""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final

from salience.errors import InputError, MissingExtraError
from salience.extract.entities import distinct, marks, read_whole
from salience.extract.facts import fact_key
from salience.extract.importance import importance
from salience.ports import Extract

MEASURES: Final = frozenset({"DATE", "TIME", "PERCENT", "MONEY", "QUANTITY", "ORDINAL", "CARDINAL"})
"""spaCy's labels for what counts or measures and names nothing."""


class SpacyExtractor:
    """Importance by cmm's table; entities from a spaCy pipeline, with the marks that it does not know.

    Args:
        pipeline: name of an installed pipeline, such as `en_core_web_sm`.

    Raises:
        MissingExtraError: spaCy is not installed.
        InputError: the pipeline is not.
    """

    def __init__(self, pipeline: str) -> None:
        self._read = _load(pipeline)

    def extract(self, content: str, *, speaker: str | None = None, user_id: str | None = None) -> Extract:
        """Return the importance, entities and fact of `content`."""
        named = [
            (span.start_char, span.text.strip()) for span in self._read(content).ents if span.label_ not in MEASURES
        ]
        pieces = read_whole(content)
        marked = [(pieces[at].start, mark) for at, mark in marks(pieces)]
        found = [*marked, *((start, name) for start, name in named if name)]
        fact = fact_key(content, speaker=speaker, user_id=user_id)
        return Extract(importance(content), distinct(found), fact)


def _load(pipeline: str) -> Any:
    try:
        spacy = import_module("spacy")
    except ImportError:
        raise MissingExtraError(f"entities = spacy:{pipeline}", "spacy") from None
    try:
        return spacy.load(pipeline)
    except OSError:  # how spaCy says that no such pipeline is installed
        remedy = f"Install the pipeline with: python -m spacy download {pipeline}"
        raise InputError("entities", f"spacy:{pipeline}", remedy) from None
