"""The difference of two texts, word by word."""

from __future__ import annotations

import re
from difflib import SequenceMatcher
from typing import Final, Literal

MOST: Final = 3000
"""Words of both texts together, above which lines are compared: the time grows with the square."""
CONTEXT: Final = 160
"""Characters of an unchanged passage that are kept at each end."""
CHANGED: Final = 1500
"""The same for a changed passage."""
_WORDS: Final = re.compile(r"\s+|[\u3040-\u30ff\u3400-\u9fff]|[^\s.,;:!?()\[\]{}\"'،؛؟\u3040-\u30ff\u3400-\u9fff]+|.")
_LINES: Final = re.compile(r"[^\n]*\n|[^\n]+")
Kind = Literal["same", "gone", "new", "cut"]


def diff(old: str, new: str) -> list[tuple[Kind, str]]:
    """Return the passages of both texts in order: `same`, `gone` from the old one, `new`, and `cut`.

    A long passage is shortened in its middle, where `cut` says how many characters are left out. Long texts are
    compared by lines.
    """
    before, after = _WORDS.findall(old), _WORDS.findall(new)
    first = _shared(before, after)
    last = _shared(before[first:][::-1], after[first:][::-1])
    head, tail = "".join(before[:first]), "".join(before[len(before) - last :])
    before, after = before[first : len(before) - last], after[first : len(after) - last]
    if len(before) + len(after) > MOST:
        before, after = (_LINES.findall("".join(part)) for part in (before, after))
    if len(before) + len(after) > MOST:
        before, after = ["".join(before)], ["".join(after)]
    before, after = [head, *before, tail], [head, *after, tail]
    gone, fresh, found = "", "", list[tuple[Kind, str]]()
    for name, start, end, other_start, other_end in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        left, right = "".join(before[start:end]), "".join(after[other_start:other_end])
        if name != "equal":
            gone, fresh = gone + left, fresh + right
        elif left.isspace() and (gone or fresh) and end < len(before):  # a space between two changed words
            gone, fresh = gone + left, fresh + left
        else:
            found += [*_changed(gone, fresh), ("same", left)]
            gone = fresh = ""
    found += _changed(gone, fresh)
    found = [one for one in found if one[1]]
    return [part for place, one in enumerate(found) for part in _shortened(*one, place, len(found))]


def _shared(before: list[str], after: list[str]) -> int:
    """Return the number of words at which two lists begin alike."""
    pairs = zip(before, after, strict=False)
    return next((place for place, (one, other) in enumerate(pairs) if one != other), min(len(before), len(after)))


def _changed(gone: str, fresh: str) -> list[tuple[Kind, str]]:
    if gone == fresh:
        return [("same", gone)] if gone else []
    pairs: list[tuple[Kind, str]] = [("gone", gone), ("new", fresh)]
    return [(kind, text) for kind, text in pairs if text]


def _shortened(kind: Kind, text: str, place: int, count: int) -> list[tuple[Kind, str]]:
    kept = CONTEXT if kind == "same" else CHANGED
    head = 0 if kind == "same" and place == 0 else kept
    tail = 0 if kind == "same" and place == count - 1 else kept
    if len(text) <= head + tail + CONTEXT:
        return [(kind, text)]
    left_out: tuple[Kind, str] = ("cut", f"{len(text) - head - tail:,} characters")
    ends: tuple[tuple[Kind, str], ...] = ((kind, text[:head]), left_out, (kind, text[len(text) - tail :]))
    return [one for one in ends if one[1]]
