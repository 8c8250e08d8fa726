"""A fitted model of updates: the probability that a newer memory states the present value of what an older one states.

The model reads the token vectors of the question and of both memories. Each token of a memory is compared with the part
of the question, and of the other memory, that it is most like (decomposable attention, Parikh et al. 2016); the
comparisons are pooled and classified. It was fitted for the token vectors of one embedder (see bench/updates.py) and is
kept in `updates.npz` beside this file.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Final, cast

import numpy as np
from numpy.typing import NDArray

from salience.batch import Batch, Floats, Rows, Tokens, Vectors
from salience.ports import Need

Floats32 = NDArray[np.float32]
TokenReader = Callable[[list[str]], Sequence[Tokens | None]]
"""From ids to the token vectors of these memories; None for a memory without."""
MAX_TOKENS: Final = 32
"""Tokens read of each text."""
NEAREST: Final = 4
"""Memories that each of the best ones is compared with: the nearest to it and to the query."""
CONTEXT: Final = (
    "fits_older",  # cosine to the query
    "fits_newer",
    "alike",  # cosine of the two
    "nearer_newer",  # the same less that of the older memory and the next newer one
    "nearer_older",  # the same less that of the newer memory and the next older one
    "place_newer",  # logarithm of its place in the ranking
)
FAR: Final = np.float32(-1e4)
"""Likeness to a place without a token."""


@dataclass(frozen=True, slots=True, eq=False)
class UpdateModel:
    """Weights of the model, all float32, for token vectors of length d.

    The first axis of weights that differ by side is the older memory, then the newer one.

    Attributes:
        embedder: name of the model of the token vectors.
        find: [3, d, k], projections in which tokens of a memory find those of the query, and those of the older memory
            and of the newer one find each other.
        sharpness: [2], factors of the likeness to tokens of the query, and of the other memory.
        own, other, both: [2, d, g], for each token, for what it finds in the other memory, and for their product.
        asked, both_asked: [2, d, g], the last two for what it finds in the query.
        found: [2, 3, g], for its greatest likeness to the query, to the other memory, and their product.
        bias: [2, g], of the comparison.
        hidden, hidden_bias: [4 g + len(CONTEXT), h] and [h].
        output, output_bias: [h] and [].
    """

    embedder: str
    find: Floats32
    sharpness: Floats32
    own: Floats32
    other: Floats32
    both: Floats32
    asked: Floats32
    both_asked: Floats32
    found: Floats32
    bias: Floats32
    hidden: Floats32
    hidden_bias: Floats32
    output: Floats32
    output_bias: Floats32

    def probabilities(
        self, query: Tokens, texts: Sequence[Tokens], older: Rows, newer: Rows, known: Floats32
    ) -> NDArray[np.float64]:
        """Return float64[p], the probability that each of the newer texts updates the older one beside it.

        Args:
            query: token vectors of the question, at least one.
            texts: token vectors of texts, at least one each.
            older: intp[p], places in `texts`.
            newer: intp[p], places in `texts`.
            known: float32[p, len(CONTEXT)], from `context`.
        """
        words, held = padded(texts)
        asked = _units(query[:MAX_TOKENS])
        to_query = (words @ self.find[0]) @ (asked @ self.find[0]).T
        wanted, by_query = _softmax(to_query * self.sharpness[0]) @ asked, to_query.max(axis=2)
        near = (words @ self.find[1])[older] @ (words @ self.find[2])[newer].swapaxes(1, 2)
        pooled = []
        for side, (own, other, likeness) in enumerate(((older, newer, near), (newer, older, near.swapaxes(1, 2)))):
            likeness = np.where(held[other][:, None], likeness, FAR)
            by_other = likeness.max(axis=2)
            seen = _softmax(likeness * self.sharpness[1]) @ words[other]
            once, place = np.unique(own, return_inverse=True)  # a text occurs in several pairs
            alone = words[once] @ self.own[side] + wanted[once] @ self.asked[side]
            alone += (wanted[once] * words[once]) @ self.both_asked[side]
            greatest = np.stack((by_query[own], by_other, by_query[own] * by_other), axis=2)
            compared = alone[place] + seen @ self.other[side] + (words[own] * seen) @ self.both[side]
            compared = np.maximum(compared + greatest @ self.found[side] + self.bias[side], 0) * held[own][..., None]
            pooled += [compared.sum(axis=1) / held[own].sum(axis=1, keepdims=True), compared.max(axis=1)]
        hidden = np.maximum(np.hstack([*pooled, known]) @ self.hidden + self.hidden_bias, 0)
        logits = hidden @ self.output + self.output_bias
        chances: Floats = 1.0 / (1.0 + np.exp(-logits.astype(np.float64)))
        return chances


@cache
def update_model() -> UpdateModel:
    """Return the model that is part of the package."""
    with resources.files(__package__).joinpath("updates.npz").open("rb") as file, np.load(file) as arrays:
        weights = {name: arrays[name].astype(np.float32) for name in arrays.files if name != "embedder"}
        return UpdateModel(str(arrays["embedder"]), **weights)


def chances_of_updates(model: UpdateModel, batch: Batch, need: Need, pool: Rows, top: int, read: TokenReader) -> Floats:
    """Return float64[n, n], the probability that the second row of `pool` updates the first; 0 where it is not asked.

    Args:
        model: the model.
        batch: the candidates, with vectors.
        need: the request, with the token vectors of the query.
        pool: the rows to compare, best first.
        top: how many of the best rows are compared with others (see `candidates`).
        read: the reader of token vectors.
    """
    chances = np.zeros((len(pool), len(pool)))
    if batch.vectors is None or not need.query_tokens or not len(need.query_tokens[-1]):
        return chances
    older, newer = candidates(batch, pool, top, is_former=need.tense == "former")
    places = np.union1d(older, newer)
    texts = read(batch.ids[pool[places]].tolist())
    has_tokens = np.zeros(len(pool), np.bool_)
    has_tokens[places] = [text is not None and len(text) > 0 for text in texts]
    chosen = has_tokens[older] & has_tokens[newer]
    if not chosen.any():
        return chances
    older, newer, places = older[chosen], newer[chosen], places[has_tokens[places]]
    chances[older, newer] = model.probabilities(
        need.query_tokens[-1],
        [text for text in texts if text is not None and len(text)],
        np.searchsorted(places, older),
        np.searchsorted(places, newer),
        context(batch, pool, older, newer),
    )
    return chances


def candidates(
    batch: Batch, pool: Rows, top: int, is_former: bool = False, nearest: int = NEAREST
) -> tuple[Rows, Rows]:
    """Return places in `pool`, intp[p] each, of older and newer rows that may be updates, all by one speaker or none.

    Each of the first `top` rows comes with the `nearest` newer ones by the cosines to it and to the query, or with the
    older ones if the question is about a state that is over.
    """
    made, speakers = batch["created_at"][pool], batch["speaker"][pool]
    apart = made[:top, None] - made if is_former else made - made[:top, None]
    nearness = _cosines(batch, pool)[:top] + batch["cosine"][pool]
    nearness = np.where((apart > 0) & (speakers[:top, None] == speakers), nearness, -np.inf)
    chosen = np.argsort(-nearness, axis=1, kind="stable")[:, :nearest]
    best, place = np.nonzero(np.take_along_axis(nearness, chosen, axis=1) > -np.inf)
    others = chosen[best, place]
    return (others, best) if is_former else (best, others)


def context(batch: Batch, pool: Rows, older: Rows, newer: Rows) -> Floats32:
    """Return float32[p, len(CONTEXT)] of pairs of places in `pool`, best first."""
    made, fits, alike = batch["created_at"][pool], batch["cosine"][pool], _cosines(batch, pool)
    earlier = np.where(made[:, None] < made, alike, 0.0)
    one = alike[older, newer]
    next_newer = _without(earlier[older], newer).max(axis=1)
    next_older = _without(earlier.T[newer], older).max(axis=1)
    columns = (fits[older], fits[newer], one, one - next_newer, one - next_older, np.log1p(newer) / 4)
    return np.stack(columns, axis=1).astype(np.float32)


def _cosines(batch: Batch, pool: Rows) -> Floats32:
    """Return float32[n, n], the cosines of the rows of `pool`, 0 of each with itself."""
    vectors = cast(Vectors, batch.vectors).at(pool)
    found: Floats32 = vectors @ vectors.T
    np.fill_diagonal(found, 0.0)
    return found


def _without(rows: Floats32, places: Rows) -> Floats32:
    """Return `rows`, which are copies, with 0 at the place of each."""
    rows[np.arange(len(rows)), places] = 0.0
    return rows


def _units(tokens: Tokens) -> Floats32:
    rows = np.asarray(tokens, np.float32)
    units: Floats32 = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), np.float32(1e-6))
    return units


def padded(texts: Sequence[Tokens]) -> tuple[Floats32, NDArray[np.bool_]]:
    """Return float32[n, l, d], unit vectors of the first tokens of each text, and bool[n, l], which places hold one."""
    lengths = np.array([min(len(text), MAX_TOKENS) for text in texts])
    held = np.arange(lengths.max()) < lengths[:, None]
    words = np.zeros((*held.shape, texts[0].shape[1]), np.float32)
    words[held] = _units(np.concatenate([text[:MAX_TOKENS] for text in texts]))
    return words, held


def _softmax(values: Floats32) -> Floats32:
    powers = np.exp(values - values.max(axis=-1, keepdims=True))
    shares: Floats32 = powers / powers.sum(axis=-1, keepdims=True)
    return shares
