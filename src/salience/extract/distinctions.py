"""What tells a text from others that look much like it: numbers, dates, names and claims, its speaker, its wording.

Embeddings hardly see these. "The limit is 30" and "The limit is 40", "Alice agreed" and "Bob agreed", "It is safe"
and "It is not safe" are all but equal to a model, and no two of them say the same.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Final

from salience import text
from salience.extract.contrasts import CONTRASTS, IDIOMS
from salience.extract.entities import Found, Piece, marks, names, read
from salience.extract.numerals import numerals
from salience.extract.phrases import Phrasebook

_CLAIMS: Final = {
    tuple(text.words(phrase)): claim for claim, phrases in CONTRASTS.items() for phrase in phrases
}  # fmt: skip
_BOOK: Final = Phrasebook((*(phrase for phrases in CONTRASTS.values() for phrase in phrases), *IDIOMS))


def distinctions(content: str, speaker: str | None = None) -> tuple[str, ...]:
    """Return the distinctions of a text, each as `kind:value` with a kind of `batch.KINDS`.

    First `text:...`, a hash that texts equal after `text.normalise` share, and `speaker:...` if there is one; then,
    each in the order of the text and as often as it says so, numbers and dates, names and claims. Numbers and dates
    are those of `numerals`. Names are capitalised words and marks as `entities` has them: a capital that opens a
    sentence makes no name by itself. Claims are negations and the opposites of `contrasts.CONTRASTS`, in English.

    Args:
        content: any text.
        speaker: who said it.
    """
    said_by = [f"speaker:{text.normalise(speaker)}"] if speaker else []
    return (f"text:{_wording(content)}", *said_by, *numerals(content), *_names_and_claims(content))


def _wording(content: str) -> str:
    return hashlib.sha256(text.normalise(content).encode("utf-8")).hexdigest()[:16]


def _names_and_claims(content: str) -> list[str]:
    pieces = list(read(content))
    named = [(start, f"name:{text.normalise(name)}") for start, name in (*marks(pieces), *names(content, pieces))]
    return [found for _, found in sorted([*named, *_claims(pieces)])]


def _claims(pieces: Sequence[Piece]) -> list[Found]:
    """Return where each claim is made; a word with a hyphen counts as its parts."""
    words = [(piece.start, word) for piece in pieces for word in text.words(piece.text)]
    found = _BOOK.find([word for _, word in words])
    return [(words[at][0], f"claim:{_CLAIMS[phrase]}") for at, _, phrase in found if phrase in _CLAIMS]
