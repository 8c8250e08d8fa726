"""Near-duplicates collapse only where nothing is lost: never over a different number, name or negation."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reference import Distinctions
from salience.batch import Batch, Ragged, Vectors, cosines
from salience.extract.distinctions import distinctions
from salience.ports import EDGE, Calibration
from salience.rank import stages
from salience.rank.profile import parse
from salience.rank.run import rank
from salience.rank.stages import covers
from tests.contract.memories import criteria

PROFILE = """
name = "alike"
summary = "By similarity; near-duplicates collapse."
combine = "sum"
stages = ["score", "near_duplicate", "trim"]
[signal.similarity]
"""
TEXTS = (
    "The limit is 30 seconds", "The limit is 40 seconds", "The limit is thirty seconds", "The limit is not 30 seconds",
    "There is a limit", "Alice set the limit to 30 seconds", "Bob set the limit to 30 seconds",
    "the LIMIT is 30 seconds",
)  # fmt: skip


def ranked(texts, matrix, query, limit=50, paraphrase=0.9, known=True):
    """Rank texts by their cosines to the query; return what is shown, and what it absorbed."""
    codes = Distinctions()
    result = Ragged.of([[codes[one] for one in distinctions(text)] for text in texts])
    columns = {"cosine": np.clip((matrix @ query).astype(np.float64), -1, 1)}
    batch = Batch(
        np.array([f"{row:032x}" for row in range(len(texts))], object),
        columns,
        Vectors(matrix, np.arange(len(texts))),
        distinctions=result if known else None,
    )
    asked = criteria(
        now=datetime(2026, 5, 1, tzinfo=UTC),
        limit=limit,
        calibration=Calibration((0.0, 1.0), (0.0, 1.0), paraphrase, "test"),
    )
    answer = rank(parse(PROFILE, "test"), batch, asked)
    return answer, result


def units(rows):
    matrix = np.array(rows, np.float32).reshape(len(rows), -1)
    return (matrix / np.linalg.norm(matrix, axis=1, keepdims=True)).astype(np.float32)


def shown(texts, rows, **options):
    answer, _ = ranked(texts, units(rows), units([[1.0, 0.0]])[0], **options)
    return {texts[row]: [texts[other] for other in answer.absorbed.get(row, ())] for row in answer.rows.tolist()}


def test_equal_vectors_collapse_only_what_says_the_same():
    assert shown(TEXTS, [[1.0, 0.01 * row] for row in range(len(TEXTS))]) == {
        TEXTS[0]: [TEXTS[2], TEXTS[7]], TEXTS[1]: [TEXTS[4]], TEXTS[3]: [], TEXTS[5]: [], TEXTS[6]: [],
    }  # fmt: skip


def test_what_says_less_is_kept_where_it_ranks_higher():
    assert shown(["There is a limit", "The limit is 30"], [[1.0, 0.0], [1.0, 0.1]]) == {
        "There is a limit": [], "The limit is 30": [],
    }  # fmt: skip


def test_the_most_similar_of_those_that_say_the_same_absorbs():
    texts = ["It takes 30 s", "It takes 40 s", "It takes 30 seconds"]
    assert shown(texts, [[1.0, 0.0], [1.0, 0.2], [1.0, 0.21]]) == {texts[0]: [texts[2]], texts[1]: []}


def test_below_the_threshold_nothing_collapses():
    assert shown(["same", "same"], [[1.0, 0.0], [1.0, 1.0]]).keys() == {"same"}
    answer, _ = ranked(["same", "same"], units([[1.0, 0.0], [1.0, 1.0]]), units([[1.0, 0.0]])[0])
    assert answer.rows.tolist() == [0, 1]


def test_without_distinctions_nothing_collapses():
    assert len(shown(["one text", "other text"], [[1.0, 0.0], [1.0, 0.0]])) == 1
    assert len(shown(["one text", "other text"], [[1.0, 0.0], [1.0, 0.0]], known=False)) == 2


@given(
    texts=st.lists(st.sampled_from(TEXTS), min_size=1, max_size=12),
    seed=st.integers(0, 2**32 - 1),
    limit=st.integers(1, 12),
    paraphrase=st.sampled_from([-1.0, 0.0, 0.9]),
)
def test_whatever_the_vectors_what_collapses_is_covered_and_alike(texts, seed, limit, paraphrase):
    random = np.random.default_rng(seed)
    matrix, query = units(random.normal(size=(len(texts), 3))), units(random.normal(size=(1, 3)))[0]
    answer, result = ranked(texts, matrix, query, limit, paraphrase)
    for keeper, rows in answer.absorbed.items():
        for row in rows:
            assert covers(result.of_row(keeper), result.of_row(row))
            assert float(matrix[keeper] @ matrix[row]) >= paraphrase - 2e-6
            assert answer.scores[keeper] >= answer.scores[row]
    if paraphrase == -1.0 and limit == 12:
        kept = [result.of_row(row) for row in answer.rows.tolist()]
        assert not any(covers(kept[place], later) for place in range(len(kept)) for later in kept[place + 1 :])


def one_by_one(matrix, told, rows, limit, least):
    """What `near_duplicate` keeps and absorbs, each row held against those kept before it."""
    kept, absorbed = [], {}
    for row in rows:
        if len(kept) == limit:
            break
        alike = cosines(matrix[kept], matrix[row]) if kept else []
        near = sorted((-cosine, place) for place, cosine in enumerate(alike) if cosine >= least - EDGE)
        keeper = next((kept[place] for _, place in near if covers(told.of_row(kept[place]), told.of_row(row))), None)
        if keeper is None:
            kept.append(row)
        else:
            absorbed[keeper] = (*absorbed.get(keeper, ()), row)
    return kept, absorbed


@given(
    texts=st.lists(st.sampled_from(TEXTS), min_size=1, max_size=30),
    seed=st.integers(0, 2**32 - 1),
    limit=st.integers(0, 12),
    block=st.integers(1, 8),
    paraphrase=st.sampled_from([-1.0, 0.0, 0.9]),
)
def test_blocks_of_any_length_come_to_what_one_by_one_comes_to(texts, seed, limit, block, paraphrase):
    random = np.random.default_rng(seed)
    matrix, query = units(random.normal(size=(len(texts), 3))), units(random.normal(size=(1, 3)))[0]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stages, "BLOCK", block)
        answer, result = ranked(texts, matrix, query, limit, paraphrase)
    rows = stages.best_first(answer.scores, np.arange(len(texts))).tolist()
    kept, absorbed = one_by_one(matrix, result, rows, limit, paraphrase)
    assert (answer.rows.tolist(), answer.absorbed) == (kept, absorbed)


PLANTED = {
    "number": ("The queue holds {} jobs", ["3", "four", "5.5", "600"]),
    "name": ("The talk was given by {} again", ["Nadia", "Omar", "Priya Rao", "@ann"]),
}


@pytest.mark.parametrize("kind", PLANTED)
@given(data=st.data(), seed=st.integers(0, 2**32 - 1))
def test_one_planted_difference_never_collapses(kind, data, seed):
    form, plants = PLANTED[kind]
    picked = data.draw(st.lists(st.sampled_from(plants), min_size=2, unique=True))
    matrix = np.repeat(units(np.random.default_rng(seed).normal(size=(1, 3))), len(picked), axis=0)
    answer, _ = ranked([form.format(one) for one in picked], matrix, matrix[0])
    assert len(answer.rows) == len(picked)


@given(seed=st.integers(0, 2**32 - 1), order=st.permutations([0, 1]), plant=st.sampled_from([" not", "n't"]))
def test_a_planted_negation_never_collapses(seed, order, plant):
    texts = ["The token does expire", f"The token does{plant} expire"]
    matrix = np.repeat(units(np.random.default_rng(seed).normal(size=(1, 3))), 2, axis=0)
    answer, _ = ranked([texts[place] for place in order], matrix, matrix[0])
    assert len(answer.rows) == 2
