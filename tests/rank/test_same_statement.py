"""Collapsing the same statement: into the best-ranked one, for as many places as are wanted, and nothing else."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from reference import Distinctions
from salience.batch import Batch, Ragged
from salience.extract.distinctions import distinctions
from salience.rank.profile import parse
from salience.rank.run import rank
from tests.contract.memories import criteria

PROFILE = """
name = "same"
summary = "By similarity; the same statement takes one place."
combine = "sum"
stages = ["score", "same_statement", "trim"]
[signal.similarity]
"""
SAID = (
    ("The limit is 30 seconds", None), ("the limit is 30 seconds.", None), ("The limit is 40 seconds", None),
    ("The limit is 30 seconds", "Ann"), ("Please, the limit is 30 seconds", "Ann"),
    ("The limit is thirty seconds", None),
)  # fmt: skip


def ranked(said, limit=50, known=True):
    """Rank texts in their order; return the rows that are shown, and what each absorbed."""
    codes = Distinctions()
    result = Ragged.of([[codes[one] for one in distinctions(*each)] if each else [] for each in said])
    ids = np.array([f"{row:032x}" for row in range(len(said))], object)
    columns = {"cosine": np.linspace(0.9, 0.1, len(said))}
    batch = Batch(ids, columns, distinctions=result if known else None)
    asked = criteria(now=datetime(2026, 5, 1, tzinfo=UTC), limit=limit)
    answer = rank(parse(PROFILE, "test"), batch, asked)
    return answer.rows.tolist(), dict(answer.absorbed)


def test_the_same_statement_goes_to_the_best_ranked_one_without_vectors():
    assert ranked(SAID) == ([0, 2, 3, 5], {0: (1,), 3: (4,)})
    assert ranked([SAID[1], SAID[0], SAID[1]]) == ([0], {0: (1, 2)})


def test_the_collapsed_make_room_within_the_limit():
    assert ranked(SAID, limit=2) == ([0, 2], {0: (1,)})
    assert ranked(SAID, limit=0) == ([], {})


def test_memories_without_known_distinctions_all_stay():
    assert ranked([None, None, SAID[0]]) == ([0, 1, 2], {})
    assert ranked([SAID[0], SAID[0]], known=False) == ([0, 1], {})


@given(said=st.lists(st.sampled_from((*SAID, None)), max_size=14), limit=st.integers(0, 14))
def test_each_statement_takes_its_first_place(said, limit):
    kept, absorbed = [], {}
    for row, each in enumerate(said):
        if len(kept) == limit:
            break
        made = each and distinctions(*each)[1]
        keeper = next((one for one in kept if made and said[one] and distinctions(*said[one])[1] == made), None)
        if keeper is None:
            kept.append(row)
        else:
            absorbed[keeper] = (*absorbed.get(keeper, ()), row)
    assert ranked(said, limit) == (kept, absorbed)
