"""Questions asked where nothing answers them: of one conversation, in the store of another."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final, Literal

import numpy as np

from salience.errors import InputError, Words
from salience.evaluate.datasets import Conversation, Question

Naming = Literal["strip", "swap", "keep"]
ROLES: Final = frozenset({"user", "assistant", "system", "tool", "human", "ai"})
"""Speakers that are no names."""
_LOOSE: Final = re.compile(r"\s+(?=[?.!,;:])")


def foreign(
    conversations: Sequence[Conversation], count: int, naming: Naming, seed: int
) -> dict[str, tuple[Question, ...]]:
    """Return name of a conversation -> questions of the others, to be asked there; `count` altogether.

    Args:
        conversations: at least two.
        count: how many; all that there are, if they are fewer.
        naming: what becomes of the names of those who speak in the question's own conversation: `strip` takes them
            out, since they alone would give the question away; `swap` puts the other conversation's speakers in their
            place, the harder test; `keep` leaves them.
        seed: of the choice.

    Raises:
        InputError: fewer than two conversations.
    """
    if len(conversations) < 2:
        found = Words(f"{len(conversations)} conversation")
        raise InputError("foreign", found, "Give files of at least two conversations to ask across.")
    random = np.random.default_rng(seed)
    asked = [(home, question) for home in conversations for question in home.questions if question.answerable]
    chosen = [asked[place] for place in random.permutation(len(asked))[:count]]
    placed: dict[str, list[Question]] = {one.name: [] for one in conversations}
    for home, question in chosen:
        others = [one for one in conversations if one is not home]
        where = others[int(random.integers(len(others)))]
        text = NAMINGS[naming](question.question, speakers(home), speakers(where))
        if text:
            placed[where.name].append(replace(question, question=text, evidence=(), sessions=(), answerable=False))
    return {name: tuple(questions) for name, questions in placed.items()}


def speakers(conversation: Conversation) -> tuple[str, ...]:
    """Return the names of those who speak, in the order in which they first do."""
    names = dict.fromkeys(message.speaker for message in conversation.messages)
    return tuple(name for name in names if name.casefold() not in ROLES)


def stripped(text: str, own: Sequence[str], others: Sequence[str]) -> str:
    """Return `text` without the names in `own`, with what belongs to them (`'s`)."""
    return _tidy(_replaced(text, dict.fromkeys(own, "")))


def swapped(text: str, own: Sequence[str], others: Sequence[str]) -> str:
    """Return `text` with each name in `own` replaced by one in `others`, the first by the first and so on."""
    if not others:
        return stripped(text, own, others)
    return _tidy(_replaced(text, {name: others[place % len(others)] for place, name in enumerate(own)}))


def kept(text: str, own: Sequence[str], others: Sequence[str]) -> str:
    """Return `text` as it is."""
    return text


NAMINGS: Final[Mapping[Naming, Callable[[str, Sequence[str], Sequence[str]], str]]] = {
    "strip": stripped,
    "swap": swapped,
    "keep": kept,
}
"""What may become of the names."""


def _replaced(text: str, names: Mapping[str, str]) -> str:
    """Return `text` with whole names replaced, and first names as well; a name that becomes nothing takes its `'s`."""
    whole = {part.casefold(): new for name, new in names.items() for part in (name, name.split()[0])}
    if not whole:
        return text
    longest_first = sorted(whole, key=len, reverse=True)
    pattern = rf"\b({'|'.join(map(re.escape, longest_first))})\b(['’]s\b)?"

    def new(match: re.Match[str]) -> str:
        put = whole[match[1].casefold()]
        return f"{put}{match[2] or ''}" if put else ""

    return re.sub(pattern, new, text, flags=re.IGNORECASE)


def _tidy(text: str) -> str:
    return _LOOSE.sub("", " ".join(text.split()))
