"""The terms by which the lexical channel finds a memory."""

from __future__ import annotations

from salience.extract.numerals import MONTHS
from salience.records import Memory
from salience.text import Tokeniser


def index_terms(tokeniser: Tokeniser, memory: Memory) -> tuple[str, ...]:
    """Return the terms of a memory's text, speaker, tags and date, in order, with repetitions."""
    created = memory.created_at
    date = f"{created.day} {MONTHS[created.month - 1]} {created.year}"
    return tokeniser.terms(" ".join((memory.content, memory.speaker or "", *memory.tags, date)))
