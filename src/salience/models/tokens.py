"""Token vectors: hidden states of a model in 64 dimensions, scaled to length 1 and rounded to one byte per number."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np

from salience.batch import TOKEN_SCALE, Tokens, Vectors32

TOKEN_SIZE: Final = 64
SEED: Final = 20_240


@dataclass(frozen=True, slots=True, eq=False)
class Projection:
    """A linear map of hidden states to `TOKEN_SIZE` dimensions.

    Attributes:
        axes: float32[d, TOKEN_SIZE], orthonormal columns.
        centre: float32[d], subtracted from each unit state first, since the states of many models have one direction in
            common, which says nothing about the token.
    """

    axes: Vectors32
    centre: Vectors32 | None = None

    def __call__(self, states: Vectors32) -> Tokens:
        """Return int8[t, TOKEN_SIZE], the token vectors of hidden states float32[t, d]."""
        units = states / np.maximum(np.linalg.norm(states, axis=1, keepdims=True), 1e-9)
        # not `@`: BLAS keeps its threads spinning between the texts, which takes four times the time of the model
        own = np.einsum("td,dk->tk", units if self.centre is None else units - self.centre, self.axes)
        own *= TOKEN_SCALE / np.maximum(np.linalg.norm(own, axis=1, keepdims=True), 1e-9)
        tokens: Tokens = np.rint(own).astype(np.int8)
        return tokens


@cache
def random_projection(dimension: int) -> Projection:
    """Return a projection that needs no data: orthonormal random axes, the same on every machine.

    Inner products change little under it (Johnson and Lindenstrauss, 1984). A state of up to `TOKEN_SIZE` dimensions
    keeps them all.
    """
    axes = np.eye(dimension, TOKEN_SIZE)
    if dimension > TOKEN_SIZE:
        # NumPy keeps the numbers of `RandomState` for good, unlike those of newer generators
        drawn = np.random.RandomState(SEED).standard_normal((dimension, TOKEN_SIZE))
        axes, upper = np.linalg.qr(drawn)
        axes *= np.sign(np.diag(upper))  # the sign of a column depends on the LAPACK library
    return Projection(axes.astype(np.float32))


@cache
def fitted_projection(path: Path) -> Projection:
    """Return the projection in a file of `bench/token_projection.py`: the centre, then the axes, float16[1 + d, 64].

    The centre is stored by its coordinates on the axes, where it acts.
    """
    rows: Vectors32 = np.load(path, allow_pickle=False).astype(np.float32)
    axes = rows[1:]
    return Projection(axes, axes @ rows[0])


def margins(tokenizer: Any, text: str, prefix: str) -> tuple[int, int]:
    """Return the number of tokens before and after the text's own: special tokens, and those of a prefix.

    A prefix such as "query: " is the same for every text, so its tokens tell nothing apart.
    """
    encoding = tokenizer.encode(text)
    start = len(prefix) if text.startswith(prefix) else 0
    marks = zip(encoding.special_tokens_mask, encoding.offsets, strict=True)
    own = [place for place, (is_special, (_, end)) in enumerate(marks) if not is_special and end > start]
    count = len(encoding.ids)
    return (own[0], count - 1 - own[-1]) if own else (count, 0)
