"""BM25 over all terms at once equals the sum of one term after the other, to the last bit."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from salience.batch import Lexicon, Postings
from salience.rank.signals import bm25, bm25_share, inverse_document_frequency


@st.composite
def lexicons(draw: st.DrawFn) -> Lexicon:
    count, terms = draw(st.integers(0, 30)), draw(st.integers(0, 8))
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    held = [np.flatnonzero(random.random(count) < random.random()) for _ in range(terms)]
    return Lexicon(
        documents=count + 100,
        average_length=float(random.uniform(0, 20)),
        document_frequency=np.array([float(len(rows) + random.integers(0, 100)) for rows in held]),
        postings=Postings.of([(rows, random.integers(1, 9, len(rows)).astype(np.float64)) for rows in held]),
        length=random.integers(1, 60, count).astype(np.float64),
    )


def term_by_term(lexicon: Lexicon, k1: float, b: float) -> np.ndarray:
    scores = np.zeros(len(lexicon.length))
    pace = k1 * (1 - b + b * lexicon.length / max(lexicon.average_length, 1.0))
    for (rows, frequency), idf in zip(lexicon.postings, inverse_document_frequency(lexicon), strict=True):
        scores[rows] += idf * frequency / (frequency + pace[rows])
    return scores


@given(lexicons(), st.sampled_from([(1.2, 0.75), (0.9, 0.4), (0.0, 0.0), (10.0, 1.0)]))
def test_all_terms_at_once_equal_the_sum_term_by_term(lexicon, parameters):
    scores = term_by_term(lexicon, *parameters)
    assert bm25(lexicon, *parameters).tobytes() == scores.tobytes()
    most = float(inverse_document_frequency(lexicon).sum())
    expected = scores / most if most else scores
    assert bm25_share(lexicon, len(lexicon.length), *parameters).tobytes() == expected.tobytes()
