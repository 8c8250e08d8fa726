"""What the machine needs for the least that a search can be: a bare scan of vectors, and the ten largest products.

The vectors of each view lie by themselves, so that nothing is filtered. They are kept in files, as others keep theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from bench.recall.clocks import Watch
from bench.recall.contender import Mode
from bench.recall.corpus import TAG, Block, Entry, Question
from bench.recall.lookup import Lookup
from bench.recall.truth import LIMIT
from salience.batch import Vectors32
from salience.store.index.columns import int8_products

LARGEST: Final = 127
NAMES: Final = ("vectors", "steps", "users", "tagged")
"""Files."""
Form = Callable[[Vectors32], tuple[NDArray[Any], Vectors32]]
"""From vectors to what stands for them, and a factor for each."""
Scan = Callable[[NDArray[Any], Vectors32], NDArray[Any]]
Part = tuple[NDArray[np.int64], NDArray[Any], Vectors32]
"""Rows, what stands for their vectors, and the factors."""


class Floor:
    """Vectors in some form, and how that form is scanned."""

    def __init__(self, folder: Path, form: Form, scan: Scan) -> None:
        self._folder = folder
        self._form = form
        self._scan = scan
        self._views: Mapping[str, Part] = _views(folder) if _there(folder) else {}

    def load(self, blocks: Iterable[Block], watch: Watch) -> None:
        """Keep the vectors of all blocks."""
        parts = []
        for block in blocks:
            with watch:
                parts.append((*self._form(block.vectors), block.users, block.tagged))
        with watch:
            for name, columns in zip(NAMES, zip(*parts, strict=True), strict=True):
                np.save(self._folder / f"{name}.npy", np.concatenate(columns))
            self._views = _views(self._folder)

    def recall(self, question: Question, mode: Mode) -> list[int]:
        """Return the rows of the ten largest products in the question's view."""
        rows, vectors, steps = self._views[question.tag or question.user or ""]
        scores = self._scan(vectors, question.vector) * steps
        most = min(LIMIT, len(scores))
        best = np.argpartition(scores, -most)[-most:]
        return [int(row) for row in rows[best[np.argsort(-scores[best])]]]

    def write(self, entry: Entry, vector: Vectors32, how: str) -> None:
        """Keep nothing."""

    def close(self) -> None:
        """Let go of the vectors."""
        self._views = {}


def _there(folder: Path) -> bool:
    return (folder / f"{NAMES[-1]}.npy").exists()


def _views(folder: Path) -> dict[str, Part]:
    """Return each view: of all, of each user, and of what has the tag."""
    vectors, steps, users, tagged = (np.load(folder / f"{name}.npy") for name in NAMES)
    views = {f"user{user}": np.flatnonzero(users == user) for user in np.unique(users).tolist()}
    views[TAG] = np.flatnonzero(tagged)
    copied = {name: (rows, vectors[rows], steps[rows]) for name, rows in views.items()}
    return {"": (np.arange(len(vectors)), vectors, steps), **copied}


def int8(vectors: Vectors32) -> tuple[NDArray[np.int8], Vectors32]:
    """Return int8[n, 384], each row in steps of its own, and float32[n], the steps."""
    steps = np.abs(vectors).max(axis=-1) / np.float32(LARGEST)
    return np.rint(vectors / steps[..., None]).astype(np.int8), steps


def products(rows: NDArray[np.int8], query: Vectors32) -> NDArray[Any]:
    """Return the inner products of rows and a query, by the kernel of the index; by NumPy without one."""
    asked, _ = int8(query)
    kernel = int8_products()
    if kernel is None:
        return np.asarray(np.vecdot(rows.astype(np.float32), asked.astype(np.float32)))
    return kernel(rows, asked[None])[:, 0]


def open_(folder: Path, lookup: Lookup) -> Floor:
    """Return the scan of whole numbers of 8 bits."""
    return Floor(folder, int8, products)
