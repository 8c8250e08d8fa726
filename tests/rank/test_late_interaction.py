"""Late interaction: MaxSim by hand, and the shortlist that it ranks."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from salience.batch import TOKEN_SCALE
from salience.rank.signals import max_sim


def tokens(*rows):
    return (np.array(rows, np.float64).reshape(-1, 2) * TOKEN_SCALE).round().astype(np.int8)


def scaled(mean):
    return min(max((mean - FLOOR) / (1 - FLOOR), 0.0), 1.0)


FLOOR = 0.3
QUERY = (tokens([1, 0], [0, 1]),)


def test_each_token_of_the_query_takes_its_best_match():
    texts = [tokens([1, 0], [-1, 0]), tokens([0, 1]), tokens([-1, 0])]
    found = max_sim(QUERY, texts, np.array([[0, -1, -1], [0, 1, -1], [2, -1, -1]]), FLOOR)
    assert found == pytest.approx([scaled(1 / 2), scaled(1.0), scaled((-1 + 0) / 2)])


def test_the_better_of_two_wordings_counts():
    texts = [tokens([0, 1])]
    assert max_sim((tokens([1, 0]), tokens([0, 1])), texts, np.array([[0, -1, -1]]), FLOOR) == pytest.approx([1.0])


@pytest.mark.parametrize("own", [None, tokens()])
def test_it_is_unknown_without_tokens_of_the_memory_itself(own):
    found = max_sim(QUERY, [own, tokens([1, 0])], np.array([[0, 1, -1], [1, 0, -1]]), FLOOR)
    assert np.isnan(found[0])
    assert found[1] == pytest.approx(scaled(1 / 2))


def test_it_is_unknown_without_tokens_of_the_query():
    assert np.isnan(max_sim((), [tokens([1, 0])], np.array([[0, -1, -1]]), FLOOR)).all()


@given(st.lists(st.lists(st.integers(-127, 127), min_size=8, max_size=40), min_size=1, max_size=6), st.randoms())
def test_equal_texts_tie_bit_for_bit_in_every_batch(lists, shuffled):
    texts = [np.array(each[: len(each) // 4 * 4], np.int8).reshape(-1, 4) for each in lists]
    query = (texts[0][:3], texts[-1][:2])
    alone = [max_sim(query, [text], np.array([[0, -1, -1]]), FLOOR)[0] for text in texts]
    order = list(range(len(texts)))
    shuffled.shuffle(order)
    groups = np.array([[place, -1, -1] for place in range(len(order))])
    together = max_sim(query, [texts[place] for place in order], groups, FLOOR)
    assert together.tolist() == [alone[place] for place in order]
