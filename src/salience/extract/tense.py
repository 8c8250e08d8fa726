"""Tense of a question: whether it asks for the present state, for something past, or for a state that is over."""

from __future__ import annotations

import re
from typing import Final, Literal

from salience.extract.when import FLAGS, MAX_LENGTH, directions

QuestionTense = Literal["present", "past", "former"]
"""Whether a question asks for a present state, for something past, or for a state that is over."""
_OVER: Final = re.compile(
    r"\b(?:previous(?:ly)?|former(?:ly)?|original(?:ly)?|initially|back\s+then)\b"
    r"|\b(?:my|our|your|his|her|its|their|the|\w+['’]s)\s+old\b",
    FLAGS,
)
"""Words that ask for a state that is over: "my previous phone", "where I used to live"."""
_USED_TO: Final = re.compile(
    r"(?P<other>(?:\b(?:is|are|am|be|been|being|gets?|got)\b|['’](?:s|re|m)\b).*?)?\bused?\s+to\b", FLAGS
)
"""The words "used to", with those before them if they mean a tool or a habit: "what is it used to sign?"."""
_UNTIL: Final = re.compile(r"(?<!\bday )\b(?:before|until|prior\s+to)\b(?!\s+yesterday\b)", FLAGS)
"""Words that do so after a verb in the past: "where did I live before Lisbon"."""


def question_tense(text: str) -> QuestionTense:
    """Return "former" for a question about a state that is over, "past" for another one about the past, else "present".

    The words are English; a question in another language is "present".
    """
    text = text[:MAX_LENGTH]
    used_to = _USED_TO.search(text)
    if _OVER.search(text) or (used_to and not used_to["other"]):
        return "former"
    found = directions(text)
    if not found or found[0][1] != "past":
        return "present"
    until = _UNTIL.search(text)
    return "former" if until and found[0][0] < until.start() else "past"
