"""English word lists, read from the text files in `words/`, and the lists that several modules use."""

from __future__ import annotations

from functools import cache
from importlib import resources
from typing import Final

from salience import text


@cache
def load(file: str) -> dict[str, tuple[str, ...]]:
    """Return the sections of a file in `words/`: name -> words and phrases, in the order of the file."""
    lines = resources.files(__package__).joinpath("words", f"{file}.txt").read_text("utf-8").splitlines()
    sections: dict[str, list[str]] = {}
    for line in lines:
        if line.startswith("["):
            section = sections.setdefault(line.strip("[]"), [])
        elif line and not line.startswith("#"):
            section.extend(word.replace("_", " ") for word in line.split())
    return {name: tuple(words) for name, words in sections.items()}


_NAMES: Final = load("names")
CALENDAR: Final = frozenset(_NAMES["calendar"])
"""Weekdays and months: capitalised, and no names. (The rules do not find a person called April.)"""
TITLES: Final = frozenset(_NAMES["titles"])
ABBREVIATED: Final = TITLES | {"st", "mt", "vs", "no"}
"""Words whose full stop does not end a sentence."""
PARTICLES: Final = frozenset(_NAMES["particles"])
NEVER: Final = text.ENGLISH_STOPWORDS.union(_NAMES["never"])
"""Words that are never part of a name, however they are written."""
NEITHER: Final = NEVER | CALENDAR | TITLES
"""Words that are not part of any name."""
ORDINARY: Final = frozenset(_NAMES["ordinary"])
OPENING_VERBS: Final = frozenset(_NAMES["imperatives"] + _NAMES["reports"])
FINITE: Final = frozenset(_NAMES["finite"])
ORDINARY_ENDINGS: Final = ("ing", "ly", "ed", "tion", "tions", "sion", "ness", "ment", "ments", "ity", "ship", "ism")
"""Endings of words that are not taken for names at the start of a sentence."""
MONTHS: Final = (
    "january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november",
    "december",
)  # fmt: skip
WEEKDAYS: Final = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
