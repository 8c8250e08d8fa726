"""A fitted model of updates: the probability that a newer memory states the present value of what an older one states.

The model is a network with one hidden layer over `FEATURES` and over products of the vectors of the older memory, the
newer one and the query. It was fitted for the vectors of one embedder (see bench/updates.py) and is kept in
`updates.npz` beside this file.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Final, cast

import numpy as np
from numpy.typing import NDArray

from salience.batch import KINDS, Batch, Codes, Floats, Ragged, Rows, Vectors, Vectors32
from salience.ports import Need
from salience.rank.signals import inverse_document_frequency

Floats32 = NDArray[np.float32]
FEATURES: Final = (
    "nearer_older",  # relatedness of the two less that of the newer memory and the next older one
    "nearer_newer",  # the same of the older memory and the next newer one
    "place_newer",  # logarithm of the number of memories nearer to the query, relative to all
    "alike",  # relatedness of the two
    "fits_older",  # relatedness to the query
    "fits_newer",
    "both",  # alike x fits_newer
    "terms_older",  # share of the query's terms that it contains, weighted by IDF
    "terms_newer",
    "kept",  # share of the older memory's query terms that the newer one contains, weighted by IDF
    "names",  # names of both, weighted by rarity, at most 1
    "other_names",  # each has a name that the other lacks
    "new_name",  # the newer memory has a name, date or number that the older one lacks
    "new_date",
    "new_number",
    "has_date",  # the older memory has one
    "has_number",
    "has_name",
    "other_number",  # each has a number or date that the other lacks
    "denies",  # one makes more claims of `extract.distinctions.CONTRASTS` than the other, such as a negation
)


@dataclass(frozen=True, slots=True, eq=False)
class UpdateModel:
    """Weights of the model, all float32.

    Attributes:
        embedder: name of the model of the vectors.
        alike: [2, d, r], projections of the older and the newer memory; their product, element by element, is input.
        fits: [2, d, r], those of the query and the newer memory.
        alone: [3, d, k], projections of the older memory, the newer one and the query that are input by themselves.
        hidden, hidden_bias: [f, h] and [h], of the hidden layer.
        direct, output: [f] and [h], from the input and from the hidden layer to the logit; `bias` is its constant.
    """

    embedder: str
    alike: Floats32
    fits: Floats32
    alone: Floats32
    hidden: Floats32
    hidden_bias: Floats32
    direct: Floats32
    output: Floats32
    bias: Floats32

    def probabilities(self, batch: Batch, need: Need, pool: Rows, older: Rows, newer: Rows) -> NDArray[np.float64]:
        """Return float64[p], the probability that each of the newer rows updates the older one beside it.

        Args:
            batch: the candidates, with vectors, lexicon and distinctions.
            need: the request, with the vector of the query.
            pool: the rows among which pairs are compared, best first.
            older: intp[p], places in `pool`.
            newer: intp[p], places in `pool`.
        """
        vectors = cast(Vectors, batch.vectors).at(pool)
        plain = cast(Vectors32, need.vector)
        query = np.stack([plain, plain if need.first_person_vector is None else need.first_person_vector])
        asks = (batch["speaker"][pool[older]] >= 0).astype(np.intp)  # a speaker says "I"
        inputs = np.hstack(
            [
                features(batch, need, pool, older, newer),
                (vectors @ self.alike[0])[older] * (vectors @ self.alike[1])[newer],
                (query @ self.fits[0])[asks] * (vectors @ self.fits[1])[newer],
                (vectors @ self.alone[0])[older],
                (vectors @ self.alone[1])[newer],
                (query @ self.alone[2])[asks],
            ]
        )
        logits = np.tanh(inputs @ self.hidden + self.hidden_bias) @ self.output + inputs @ self.direct + self.bias
        chances: Floats = 1.0 / (1.0 + np.exp(-logits.astype(np.float64)))
        return chances


@cache
def update_model() -> UpdateModel:
    """Return the model that is part of the package."""
    with resources.files(__package__).joinpath("updates.npz").open("rb") as file, np.load(file) as arrays:
        weights = {name: arrays[name].astype(np.float32) for name in arrays.files if name != "embedder"}
        return UpdateModel(str(arrays["embedder"]), **weights)


def chances_of_updates(model: UpdateModel, batch: Batch, need: Need, pool: Rows, top: int) -> Floats:
    """Return float64[n, n], the probability that the second row of `pool` updates the first; 0 where it cannot.

    The second row must be newer and have the same speaker, or none like the first. The first row must be among the
    first `top`; for a question about a state that is over, the second one.
    """
    found = np.zeros((len(pool), len(pool)))
    if batch.vectors is None or batch.distinctions is None or need.vector is None:
        return found
    made, speakers = batch["created_at"][pool], batch["speaker"][pool]
    pairs = np.asarray((made[:, None] < made) & (speakers[:, None] == speakers), np.bool_)
    if need.tense == "former":
        pairs[:, top:] = False
    else:
        pairs[top:] = False
    older, newer = np.nonzero(pairs)
    if len(older):
        found[older, newer] = model.probabilities(batch, need, pool, older, newer)
    return found


def features(batch: Batch, need: Need, pool: Rows, older: Rows, newer: Rows) -> Floats32:
    """Return float32[p, len(FEATURES)], the features of pairs of rows; the arguments are those of `probabilities`."""
    olds, one = np.unique(older, return_inverse=True)  # grids of all pairs of these are small, and so fast
    news, other = np.unique(newer, return_inverse=True)
    vectors, made = cast(Vectors, batch.vectors).at(pool), batch["created_at"][pool]
    cosine = vectors @ vectors.T
    np.fill_diagonal(cosine, 0.0)
    earlier = np.where(made[:, None] < made, cosine, np.float32(0.0))
    alike = _related(need, cosine[older, newer])
    next_older = _related(need, _best_other(earlier[:, news].T, olds))
    next_newer = _related(need, _best_other(earlier[olds], news))
    fits = _related(need, batch["cosine"][pool])
    places = np.empty(len(pool))
    places[np.argsort(-fits, kind="stable")] = np.arange(len(pool))

    held, idf = np.zeros((len(pool), 0)), np.zeros(0)
    if batch.lexicon is not None:
        postings, idf = batch.lexicon.postings, inverse_document_frequency(batch.lexicon)
        whole = np.zeros((len(batch), len(postings)))
        whole[postings.rows, np.arange(len(postings)).repeat(postings.lengths)] = 1.0
        held = whole[pool]
    weighted = held * idf
    terms, all_terms = weighted.sum(axis=1), max(float(idf.sum()), 1e-9)
    kept = (weighted[olds] @ held[news].T)[one, other] / np.maximum(terms[older], 1e-9)

    numbers, dates, names, claims = _distinctions(batch, pool)
    rarity = np.log(len(pool) / names.sum(axis=0)) / max(np.log(len(pool)), 1e-9)
    old_names, new_names = _lacking(names, olds, news)
    old_dates, new_dates = _lacking(dates, olds, news)
    old_numbers, new_numbers = _lacking(numbers, olds, news)
    values = (old_dates | old_numbers) & (new_dates | new_numbers)
    columns = (
        alike - next_older[other, one],
        alike - next_newer[one, other],
        (np.log1p(places) / np.log1p(len(pool)))[newer],
        alike,
        fits[older],
        fits[newer],
        alike * fits[newer],
        terms[older] / all_terms,
        terms[newer] / all_terms,
        np.where(terms[older] > 0, kept, 1.0),
        np.minimum((names[olds] * rarity.astype(np.float32)) @ names[news].T, 1.0)[one, other],
        (old_names & new_names)[one, other],
        new_names[one, other],
        new_dates[one, other],
        new_numbers[one, other],
        dates.max(axis=1, initial=0.0)[older],
        numbers.max(axis=1, initial=0.0)[older],
        names.max(axis=1, initial=0.0)[older],
        values[one, other],
        claims[older] != claims[newer],
    )
    found = np.empty((len(older), len(columns)), np.float32)
    for place, column in enumerate(columns):
        found[:, place] = column
    return found


def _related(need: Need, cosine: NDArray[np.floating]) -> Floats:
    clipped = np.minimum(np.maximum(cosine, 0.0), 1.0)
    return clipped.astype(np.float64) if need.calibration is None else need.calibration.related(clipped)


def _best_other(cosine: Floats32, places: Rows) -> Floats32:
    """Return float32[k, len(places)], the maximum of each row of float32[k, n] without the entry at each place."""
    rows, best = np.arange(len(cosine)), cosine.argmax(axis=1)
    first = cosine[rows, best]
    without = cosine.copy()
    without[rows, best] = 0.0
    found: Floats32 = np.where(places == best[:, None], without.max(axis=1)[:, None], first[:, None])
    return found


def _distinctions(batch: Batch, pool: Rows) -> tuple[Floats32, Floats32, Floats32, Codes]:
    """Return the numbers, dates and names of the rows, and how many distinct claims each makes.

    The first three are float32[len(pool), v], 1 where a row has one of the v values that occur.
    """
    rows, codes = cast(Ragged, batch.distinctions).take(pool).pairs()
    kinds = codes % len(KINDS)
    found = []
    for kind in ("number", "date", "name", "claim"):
        chosen = kinds == KINDS.index(kind)
        values, places = np.unique(codes[chosen], return_inverse=True)
        held = np.zeros((len(pool), len(values)), np.float32)
        held[rows[chosen], places] = 1.0
        found.append(held)
    numbers, dates, names, claims = found
    return numbers, dates, names, claims.sum(axis=1).astype(np.int64)


def _lacking(held: Floats32, olds: Rows, news: Rows) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return bool[o, n] twice: whether the older row has a value that the newer one lacks, and the other way round."""
    old, new = held[olds], held[news]
    shared, count = old @ new.T, held.sum(axis=1)
    return count[olds][:, None] > shared + 0.5, count[news] > shared + 0.5
