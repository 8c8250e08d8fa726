"""The formulas against figures worked out another way, and their ranges."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from columns import random_columns

from salience.batch import Batch, Entities, Lexicon, Postings, Ragged, coded
from salience.ports import Calibration
from salience.rank import signals
from salience.rank.signals import SIGNALS
from salience.records import Intent, TimeCue
from salience.text import Tokeniser
from tests.contract.memories import criteria

NOW = datetime(2026, 5, 1, tzinfo=UTC)
TEXTS = ["the deploy key is in the vault", "vault vault vault", "staging deploy broke", "dark theme", ""]


def lexicon_of(texts: list[str], query: str) -> Lexicon:
    tokenise = Tokeniser().terms
    documents = [tokenise(text) for text in texts]
    postings, held = [], []
    for term in dict.fromkeys(tokenise(query)):
        rows = [row for row, document in enumerate(documents) if term in document]
        counts = [float(documents[row].count(term)) for row in rows]
        postings.append((np.array(rows, np.intp), np.array(counts)))
        held.append(float(len(rows)))
    lengths = np.array([float(len(document)) for document in documents])
    return Lexicon(len(texts), float(lengths.mean()), np.array(held), Postings.of(postings), lengths)


@pytest.mark.parametrize(("k1", "b"), [(1.2, 0.75), (0.9, 0.4), (0.0, 0.0), (2.0, 1.0)])
def test_bm25_against_the_formula_written_out(k1, b):
    query = "deploy key vault"
    found = signals.bm25(lexicon_of(TEXTS, query), k1, b)
    tokenise = Tokeniser().terms
    documents = [tokenise(text) for text in TEXTS]
    average = sum(map(len, documents)) / len(documents)
    for row, document in enumerate(documents):
        expected = 0.0
        for term in set(tokenise(query)):
            df = sum(term in other for other in documents)
            tf = document.count(term)
            if tf:
                idf = math.log(1 + (len(documents) - df + 0.5) / (df + 0.5))
                expected += idf * tf / (tf + k1 * (1 - b + b * len(document) / average))
        assert found[row] == pytest.approx(expected)


def test_a_share_is_of_all_that_the_terms_could_give():
    lexicon = lexicon_of(TEXTS, "deploy key vault unheard")
    found = signals.bm25_share(lexicon, len(TEXTS), 1.2, 0.75)
    assert found == pytest.approx(signals.bm25(lexicon, 1.2, 0.75) / signals.inverse_document_frequency(lexicon).sum())
    assert found.max() < 1
    assert found[4] == 0
    endless = replace(lexicon_of(["deploy"], "deploy"), postings=Postings.of([(np.array([0]), np.array([1e9]))]))
    assert signals.bm25_share(endless, 1, 1.2, 0.75) == pytest.approx([1.0])
    assert signals.bm25_share(None, 3, 1.2, 0.75).tolist() == [0, 0, 0]
    assert signals.bm25_share(lexicon_of(TEXTS, "the"), 5, 1.2, 0.75).tolist() == [0] * 5


def test_words_stand_in_for_cosines():
    lexicon, windows = lexicon_of(TEXTS, "deploy key vault"), lexicon_of([text * 2 for text in TEXTS], "deploy vault")
    batch = Batch(np.array(list("abcde"), object), lexicon=lexicon)
    alone = signals.lexical_cosines(batch)
    scores = signals.bm25(lexicon, 1.2, 0.75)
    assert alone["cosine"] == pytest.approx(scores / scores.max())
    assert alone["context_cosine"].tolist() == [0] * 5
    both = signals.lexical_cosines(replace(batch, windows=windows))
    assert both["cosine"] == pytest.approx(signals.bm25_share(lexicon, 5, 1.2, 0.75))
    assert both["context_cosine"] == pytest.approx(signals.bm25_share(windows, 5, 1.2, 0.75))
    nothing = signals.lexical_cosines(replace(batch, lexicon=lexicon_of(TEXTS, "unheard")))
    assert nothing["cosine"].tolist() == [0] * 5


def test_signals_stay_in_their_range():
    count = 200
    random = np.random.default_rng(7)
    batch = Batch(
        np.array([f"{row:032x}" for row in range(count)], object),
        {**random_columns(random, count, NOW.timestamp()), "alive": np.ones(count, bool)},
        lexicon=lexicon_of([TEXTS[row % len(TEXTS)] for row in range(count)], "deploy key vault"),
        windows=lexicon_of([TEXTS[row % len(TEXTS)] * 2 for row in range(count)], "deploy key vault"),
        entities=Entities(
            Ragged.of([[row % 7, 7 + row % 11] for row in range(count)]), np.array([3]), np.array([9.0]), count
        ),
        distinctions=Ragged.of([[coded("number:x", row % 3)] for row in range(count)]),
        asked=np.array([coded("number:x", 0)]),
        rivals={"lacks:place": np.arange(0, count, 3)},
    )
    cue = TimeCue(("in April",), NOW - timedelta(days=30), NOW)
    asked = criteria(
        now=NOW, intent=Intent(time=cue), calibration=Calibration((0.0, 1.0), (0.0, 1.0), 0.9, "test"),
        terms=("deploy", "key", "vault"), numbered=("key",), lacking="lacks:place",
    )  # fmt: skip
    for name, signal in SIGNALS.items():
        parameters = {
            key: parameter.default for key, parameter in signal.parameters.items() if parameter.default is not None
        }
        if name == "recency":
            parameters = {"clock": "updated_at", "half_life_days": 30.0}
        column = signal.formula(batch, asked, **parameters)
        assert column.shape == (count,)
        assert signal.low <= column.min()
        assert column.max() <= signal.high
        assert column.min() < column.max(), f"{name} is the same for all memories"


DAY = 86_400.0


def test_a_memory_denies_what_is_asked_only_if_it_has_all_the_terms_of_the_question():
    lexicon = lexicon_of(["deploy key", "deploy", "deploy key"], "deploy key")
    batch = Batch(np.array(["a", "b", "c"], object), {}, lexicon=lexicon, rivals={"lacks:value": np.array([0, 1])})
    formula = SIGNALS["answer_kind"].formula
    asked = criteria(now=NOW, terms=("deploy", "key"), asks_value=True)
    assert formula(batch, asked, floor=0.7).tolist() == [0.7, 1.0, 1.0]
    assert formula(batch, criteria(now=NOW, asks_value=True), floor=0.7).tolist() == [1.0, 1.0, 1.0]


@pytest.mark.parametrize(("weeks", "frequency"), [(0.0, 3.0), (0.5, 3.0), (1.0, 3.0), (1.5, 2.0), (6.0, 0.5)])
def test_frequency_counts_over_at_least_a_week(weeks, frequency):
    instant = NOW.timestamp()
    columns = {"accessed_at": instant - 60 * DAY, "created_at": instant - weeks * 7 * DAY, "access_count": 3}
    batch = Batch(np.array(["a"], object), {name: np.array([value]) for name, value in columns.items()})
    parameters = {"grace_seconds": 0.0, "half_life_days": 60.0, "frequency_weight": 1.0}
    formula, asked = SIGNALS["rehearsed_decay"].formula, criteria(now=NOW)
    decay = formula(batch, asked, lock_per_week=100.0, **parameters)
    assert decay[0] == pytest.approx(0.5 ** (1 / (1 + frequency)), abs=1e-12)
    assert formula(batch, asked, lock_per_week=frequency, **parameters)[0] == 1.0
    assert formula(batch, asked, lock_per_week=frequency + 1e-9, **parameters)[0] < 1.0


def test_calibrated_similarity_is_read_off_the_calibration():
    batch = Batch(np.array(["a", "b"], object), {"cosine": np.array([0.5, 0.75])})
    calibration = Calibration((0.0, 0.5, 1.0), (0.0, 0.8, 1.0), 0.9, "test")
    raw = criteria(now=NOW, calibration=calibration)
    assert SIGNALS["similarity"].formula(batch, raw).tolist() == [0.5, 0.75]
    scaled = criteria(now=NOW, calibration=calibration, scale=calibration)
    assert SIGNALS["similarity"].formula(batch, scaled).tolist() == pytest.approx([0.8, 0.9])
