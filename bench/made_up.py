"""Words that mean nothing, how often each kind of them is used, and the space that their vectors lie in."""

from __future__ import annotations

from functools import cache
from itertools import accumulate, product
from typing import Final

import numpy as np

from salience.batch import Vectors32

DIMENSION: Final = 384
TOPICS: Final = 500
OWN: Final = 60
"""Words of a topic."""
COMMON: Final = 2_000
"""Words that everybody uses."""
RARE: Final = 60_000
"""Words that hardly anybody uses."""
WORDS: Final = COMMON + RARE + TOPICS * OWN
OFFSET: Final = 10
"""Of the law of frequencies, so that the most common word is in about 8 % of the texts."""
FUNCTION: Final = "the of and to in that it with for was on as".split()
"""Words that no index has."""
SYLLABLES: Final = tuple("".join(pair) for pair in product("bdfgklmnprtvz", "aeiou"))
NAMES: Final = tuple(f"{a.title()}{b}" for a, b in product(SYLLABLES[::3], SYLLABLES[1::8]))
"""Of people."""


@cache
def word(number: int) -> str:
    """Return the word of a number, distinct for each; it ends in a way that no stemmer shortens."""
    parts = []
    for _ in range(3):
        number, place = divmod(number, len(SYLLABLES))
        parts.append(SYLLABLES[place])
    return "".join((*parts, "k"))


def topic_of(number: int) -> int | None:
    """Return the topic that the word of a number belongs to; None for a common or a rare one."""
    place = number - COMMON - RARE
    return place // OWN if place >= 0 else None


def sums(count: int, offset: float) -> list[float]:
    """Return the running sums of 1 / (rank + offset): the law of Zipf and Mandelbrot, as something to draw from."""
    return list(accumulate(1 / (rank + offset) for rank in range(1, count + 1)))


def axes() -> Vectors32:
    """Return float32[384], of length 1: how far texts spread along each axis, which falls as in real embeddings."""
    falling = 1 / np.sqrt(np.arange(1, DIMENSION + 1))
    return np.asarray(falling / np.linalg.norm(falling), np.float32)
