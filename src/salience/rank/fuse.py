"""The dense and the lexical channel: each a column that can be added up with others."""

from __future__ import annotations

import numpy as np

from salience.batch import Batch, Floats, Lexicon


def inverse_document_frequency(lexicon: Lexicon) -> Floats:
    """Return float64[t], how telling each query term is: ln(1 + (N - df + 0.5) / (df + 0.5)), >= 0.

    Source: Robertson and Zaragoza, The Probabilistic Relevance Framework (2009), with Lucene's 1 + inside the
    logarithm, so that a term which most memories hold still counts a little and never against a memory.
    """
    held = lexicon.document_frequency
    return np.log1p((lexicon.documents - held + 0.5) / (held + 0.5))


def bm25(lexicon: Lexicon, k1: float, b: float) -> Floats:
    """Return float64[n], the BM25 score of each row: >= 0, 0 where no query term occurs.

    Args:
        lexicon: term statistics of the visible memories and the postings of the rows.
        k1: how soon repetition of a term stops to count, >= 0.
        b: how much a long text is held back, [0, 1].

    Source: Robertson and Zaragoza (2009), equation 3.15, without the constant factor k1 + 1.
    """
    scores = np.zeros(len(lexicon.length))
    pace = k1 * (1 - b + b * lexicon.length / max(lexicon.average_length, 1.0))
    for posting, idf in zip(lexicon.postings, inverse_document_frequency(lexicon), strict=True):
        scores[posting.rows] += idf * posting.frequency / (posting.frequency + pace[posting.rows])
    return scores


def min_max(column: Floats, alive: Floats, low: float | None = None) -> Floats:
    """Return float64[n]: `column` moved and stretched so that the alive rows span [0, 1]; 0 where all are equal.

    Args:
        column: float64[n].
        alive: bool[n], the rows whose extremes count.
        low: the value that becomes 0; None takes the smallest alive one.

    Source: Bruch, Gai and Ingber, An Analysis of Fusion Functions for Hybrid Retrieval (2023): convex combination of
    scores scaled so keeps what rank fusion throws away.
    """
    living = column[alive]
    if not len(living):
        return np.zeros_like(column)
    bottom = living.min() if low is None else low
    span = living.max() - bottom
    return np.clip((column - bottom) / span, 0.0, 1.0) if span > 0 else np.zeros_like(column)


def lexical_similarity(batch: Batch, k1: float = 1.2, b: float = 0.75) -> Floats:
    """Return float64[n] in [0, 1]: BM25 as a share of the best row's, in place of cosine when there is no vector."""
    if batch.lexicon is None:
        return np.zeros(len(batch))
    return min_max(bm25(batch.lexicon, k1, b), np.ones(len(batch), bool), low=0.0)
