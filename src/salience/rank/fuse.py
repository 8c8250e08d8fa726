"""The lexical channel: BM25, and how it becomes a column that can be added up with others."""

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
    return _bm25(lexicon, inverse_document_frequency(lexicon), k1, b)


def _bm25(lexicon: Lexicon, telling: Floats, k1: float, b: float) -> Floats:
    """Return `bm25` where it is known how telling the terms are."""
    rows, frequency = lexicon.postings.rows, lexicon.postings.frequency
    pace = k1 * (1 - b + b * lexicon.length / max(lexicon.average_length, 1.0))
    shares: Floats = telling.repeat(lexicon.postings.lengths) * frequency / (frequency + pace[rows])
    return np.bincount(rows, weights=shares, minlength=len(lexicon.length)).astype(np.float64, copy=False)


def share(lexicon: Lexicon | None, rows: int, k1: float, b: float) -> Floats:
    """Return float64[rows], BM25 as a share of what no memory can exceed: all that the query's terms tell; [0, 1].

    The bound is the sum of the terms' inverse document frequencies, terms that no memory holds among them. A number so
    means the same for a short query and a long one, and is small where most of the query is unknown to the store.
    0 where the query has no terms.
    """
    if lexicon is None:
        return np.zeros(rows)
    telling = inverse_document_frequency(lexicon)
    most = float(np.add.reduce(telling))
    return np.zeros(rows) if most == 0 else _bm25(lexicon, telling, k1, b) / most


def instead_of_cosines(batch: Batch, k1: float = 1.2, b: float = 0.75) -> dict[str, Floats]:
    """Return `cosine` and `context_cosine`, float64[n] in [0, 1], for a query that has no vector.

    Where windows are at hand, they are the shares of BM25 that text and window have, whose scale is absolute. Without
    them `cosine` is BM25 as a share of the best row's, so that profiles which are all cosine still answer.
    """
    if batch.windows is not None:
        columns = {"cosine": batch.lexicon, "context_cosine": batch.windows}
        return {name: share(lexicon, len(batch), k1, b) for name, lexicon in columns.items()}
    scores = np.zeros(len(batch)) if batch.lexicon is None else bm25(batch.lexicon, k1, b)
    best = scores.max(initial=0.0)
    return {"cosine": scores / best if best > 0 else scores, "context_cosine": np.zeros(len(batch))}
