"""An embedder of made-up words: texts on one topic lie near each other, the nearer, the more words they share."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import Final

import numpy as np

from bench.made_up import DIMENSION, FUNCTION, TOPICS, WORDS, axes, topic_of, word
from salience.batch import Vectors32
from salience.text import words

_OWN: Final = 8192
"""Different vectors that words have of their own; words that share one are of different topics, as a rule."""
_SPREAD: Final = 1.3
"""How large a word's own vector is beside that of its topic: texts on one topic then have a cosine of about 0.5."""


_PART: Final = 250
"""Texts at a time, so that what is summed up stays in the processor's cache."""


class MadeUp:
    """An embedder whose vectors are sums over words: that of the topic, and the word's own."""

    name = "made-up"
    dimension = DIMENSION

    def __init__(self) -> None:
        choose = np.random.default_rng(7)
        scale = axes()
        self._topics = np.zeros((TOPICS + 1, DIMENSION), np.float32)  # the last one: of no topic
        self._topics[:-1] = choose.standard_normal((TOPICS, DIMENSION), np.float32) * scale
        self._own = choose.standard_normal((_OWN, DIMENSION), np.float32) * scale * np.float32(_SPREAD)
        self._numbers = {word(number): number for number in range(WORDS)}
        self._topic = np.array([TOPICS if (of := topic_of(number)) is None else of for number in range(WORDS)])

    def embed(self, texts: Sequence[str], /) -> Vectors32:
        """Return float32[len(texts), 384], of length 1."""
        parts = [self._part(texts[start : start + _PART]) for start in range(0, len(texts), _PART)]
        return np.concatenate(parts) if parts else np.empty((0, DIMENSION), np.float32)

    def _part(self, texts: Sequence[str]) -> Vectors32:
        said = [[self._number(each) for each in words(text) if each not in FUNCTION] or [0] for text in texts]
        starts = np.cumsum([0, *map(len, said[:-1])])
        flat = np.array([number for each in said for number in each])
        known = flat < WORDS
        topics = np.where(known, self._topic[np.minimum(flat, WORDS - 1)], TOPICS)
        own = self._own[flat * 2_654_435_761 % _OWN]
        own[~known] *= np.float32(0.2)  # names and words of grammar say little
        own += self._topics[topics]
        vectors = np.add.reduceat(own, starts, axis=0)
        return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), np.float32)

    def _number(self, text: str) -> int:
        """Return the number of a word; one beyond all of them for a word that is not made up."""
        known = self._numbers.get(text)
        if known is not None:
            return known
        return WORDS + int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=4).digest(), "big")
