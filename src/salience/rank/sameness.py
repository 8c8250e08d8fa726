"""Whether two memories say the same, as far as their distinctions tell."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from salience.batch import KINDS

ORDERED: Final = (("number",), ("date",), ("name", "claim"))
"""Kinds that are compared in the order of the text, those of a group as one."""


def covers(kept: Sequence[int], other: Sequence[int]) -> bool:
    """Return whether who reads `kept` misses nothing that tells the text of `other` from others.

    Both need the same speaker, or none. Then texts that are equal in normal form cover each other. Of other texts the
    kept one must make the same claims (a negation more or less turns the sense round), and say all the numbers, dates
    and names of the other, as often and in the same order: "from Berlin to Paris" is not "from Paris to Berlin". A name
    stays on its side of a claim: "Alice agreed, Bob did not" is not "Alice did not agree, Bob did". The kept one may
    say more. A memory of which no distinctions are known covers none and is covered by none.

    Args:
        kept: codes of distinctions, as `Batch.distinctions` has them.
        other: likewise.
    """
    if not kept or not other or _of(kept, "speaker") != _of(other, "speaker"):
        return False
    if set(_of(kept, "text")) & set(_of(other, "text")):
        return True
    if _of(kept, "claim") != _of(other, "claim"):
        return False
    return all(_holds(_of(kept, *kinds), _of(other, *kinds)) for kinds in ORDERED)


def _of(codes: Iterable[int], *kinds: str) -> list[int]:
    places = {KINDS.index(kind) for kind in kinds}
    return [code for code in codes if code % len(KINDS) in places]


def _holds(whole: Iterable[int], part: Iterable[int]) -> bool:
    """Return whether `part` comes out of `whole` by leaving some of it out."""
    rest = iter(whole)
    return all(code in rest for code in part)
