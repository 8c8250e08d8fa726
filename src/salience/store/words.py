"""The terms of many texts, numbered together."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat
from typing import Final

import numpy as np
from numpy.typing import NDArray

from salience.batch import Codes
from salience.store.postings import Numbering, Numbers32

_MANY: Final = 10_000
"""Characters from which on arrays are quicker than Python is."""
_WORD: Final = 8
"""Bytes that one number holds."""
_LONG: Final = 4
"""Where no smaller part of the terms is longer, as in most scripts but one, they are looked up one by one."""
_MASKS: Final = np.array([(1 << 8 * size) - 1 for size in range(_WORD + 1)], np.uint64)


class Known:
    """Numbers of terms of up to eight bytes, by these as one number: of each, a text is made but once."""

    def __init__(self) -> None:
        self._keys = np.empty(0, np.uint64)
        self._numbers = np.empty(0, np.int32)

    def of(self, numbering: Numbering, keys: NDArray[np.uint64]) -> Numbers32:
        """Return the number of each key; they are distinct and ascending."""
        places = self._keys.searchsorted(keys)
        is_new = np.ones(len(keys), np.bool_)
        inside = places < len(self._keys)
        is_new[inside] = self._keys[places[inside]] != keys[inside]
        terms = [term.decode() for term in keys[is_new].astype("<u8", copy=False).view(f"S{_WORD}").tolist()]
        self._numbers = np.insert(self._numbers, places[is_new], numbering.of(terms, len(terms)))
        self._keys = np.insert(self._keys, places[is_new], keys[is_new])
        numbers: Numbers32 = self._numbers[places + np.cumsum(is_new) - is_new]  # so far on as new ones come before
        return numbers


def numbered(numbering: Numbering, texts: Sequence[str], known: Known) -> tuple[Codes, Numbers32]:
    """Return how many terms each text has, and the numbers of all.

    Args:
        numbering: of terms.
        texts: in each, a space stands between terms.
        known: of earlier texts, so that no term is made a text again; grown.
    """
    counts = parts(texts, " ")
    joined = " ".join(filter(None, texts))
    if not joined:
        return counts, np.empty(0, np.int32)
    if len(joined) >= _MANY:
        numbers = _together(numbering, joined.encode(), known)
        if numbers is not None:
            return counts, numbers
    terms = joined.split(" ")
    return counts, numbering.of(terms, len(terms))


def parts(texts: Sequence[str], sign: str) -> Codes:
    """Return how many parts, between which a sign stands, each text has; an empty one has none."""
    signs = np.fromiter(map(str.count, texts, repeat(sign)), np.int64, len(texts))
    return signs + np.fromiter(map(bool, texts), np.bool_, len(texts))


def _together(numbering: Numbering, joined: bytes, known: Known) -> Numbers32 | None:
    """Return the numbers of terms in UTF-8, each distinct one looked up once; None where too many are long.

    Up to eight bytes are a number themselves, by which terms can be sorted.
    """
    padded = np.frombuffer(joined + b" " * (_WORD + 1), np.uint8)
    ends = np.flatnonzero(padded[: len(joined) + 1] == ord(" "))
    starts = np.concatenate(([0], ends[:-1] + 1))
    sizes = ends - starts
    short, long = np.flatnonzero(sizes <= _WORD), np.flatnonzero(sizes > _WORD)
    if len(long) * _LONG > len(sizes):
        return None
    at_each: NDArray[np.uint64] = np.ndarray(len(joined) + 1, "<u8", padded, strides=(1,))
    keys, places = np.unique(at_each[starts[short]] & _MASKS[sizes[short]], return_inverse=True)
    terms = [joined[start:end].decode() for start, end in zip(starts[long].tolist(), ends[long].tolist(), strict=True)]
    numbers = np.empty(len(sizes), np.int32)
    numbers[short] = known.of(numbering, keys)[places]
    numbers[long] = numbering.of(terms, len(terms))
    return numbers
