"""What tells a text from others that look much like it: numbers, dates, names and claims, its speaker, its wording.

Embeddings hardly see these. "The limit is 30" and "The limit is 40", "Alice agreed" and "Bob agreed", "It is safe"
and "It is not safe" are all but equal to a model, and no two of them say the same.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from itertools import chain
from operator import attrgetter
from typing import Final

from salience import text
from salience.extract.contrasts import CONTRASTS, IDIOMS
from salience.extract.entities import Found, Piece, marks, names, read, read_whole
from salience.extract.numerals import may_tell as tells_number
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
    said_by = [_SPEAKER[speaker]] if speaker else []
    told = (*numerals(content), *_names_and_claims(content)) if may_tell(content) else ()
    return (f"text:{_wording(content)}", *said_by, *told)


def may_tell(content: str) -> bool:
    """Return whether anything in a text may be a number, date, name or claim; False is sure."""
    return any(map(_MAY_TELL.__getitem__, content.split()))


def _part_may_tell(part: str) -> bool:
    """Return whether what stands between white space may be any of these, or a part of one."""
    if text.is_plain_word(part):
        return tells_number(part) or _BOOK.may_hold((part,))
    if "`" in part or tells_number(part):
        return True
    pieces = read_whole(part)
    return any(piece.is_mark or piece.may_name or _BOOK.may_hold(piece.words) for piece in pieces)


_words: Final = attrgetter("words")
_MAY_TELL: Final = text.Kept(_part_may_tell)
_SPEAKER: Final = text.Kept(lambda speaker: f"speaker:{text.normalise(speaker)}")


def _wording(content: str) -> str:
    return hashlib.sha256(text.normalise(content).encode("utf-8")).hexdigest()[:16]


def _names_and_claims(content: str) -> list[str]:
    pieces = read(content)
    named = [(at, f"name:{text.normalise(name)}") for at, name in (*marks(pieces), *names(pieces))]
    return [found for _, found in sorted(named + _claims(pieces))]


def _claims(pieces: Sequence[Piece]) -> list[Found]:
    """Return the piece where each claim begins; a word with a hyphen counts as its parts."""
    found = _BOOK.find(list(chain.from_iterable(map(_words, pieces))))
    if not found:
        return []
    piece_of = [at for at, piece in enumerate(pieces) for _ in piece.words]
    return [(piece_of[start], f"claim:{_CLAIMS[phrase]}") for start, _, phrase in found if phrase in _CLAIMS]
