"""Scripts that a model reads: its texts without the words in other scripts."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import numpy as np

from salience.batch import Vectors32


def embed_known(
    embed: Callable[[list[str]], Vectors32], texts: Sequence[str], scripts: str, dimension: int
) -> Vectors32:
    """Return float32[len(texts), dimension], the vectors of the `known_text` of each text; zeros for none."""
    vectors = np.zeros((len(texts), dimension), np.float32)
    known = {row: text for row, text in enumerate(known_text(text, scripts) for text in texts) if text}
    if known:
        vectors[list(known)] = embed(list(known.values()))
    return vectors


def known_text(text: str, scripts: str) -> str:
    """Return `text` without the words that have a letter outside `scripts`; "" if most of its letters are theirs.

    A text without any letter or digit, such as one of emoji alone, is "" too. `scripts` are characters as in a regular
    expression.
    """
    if text.isascii():
        return text if any(map(str.isalnum, text)) else ""
    unknown = re.compile(f"[^{scripts}]")
    kept, known, lost = list[str](), 0, 0
    for part in re.split(r"(\w+)", text):
        size = sum(map(str.isalnum, part))
        if size and unknown.search(part):
            lost += size
        else:
            known += size
            kept.append(part)
    return "".join(kept) if known and known >= lost else ""
