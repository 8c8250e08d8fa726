"""The nearest memories of each question, by the cosine of every memory in view, and how much of it an answer holds."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from bench.recall.corpus import Block, Corpus, Question
from salience.batch import Vectors32

LIMIT: Final = 10
"""Memories that are asked for."""


def nearest(corpus: Corpus, questions: Sequence[Question]) -> list[list[int]]:
    """Return, for each question, the rows of the ten nearest memories in view, best first.

    There are fewer where fewer are in view, or have a cosine above 0: what points away from a question is no answer to
    it, and some stores rank all of that alike. One pass over the corpus does for all questions, with the room of one
    block.
    """
    vectors = np.stack([question.vector for question in questions])
    best = np.full((len(questions), LIMIT), -np.inf, np.float32)
    rows = np.full((len(questions), LIMIT), -1)
    for block in corpus.blocks():
        cosines = np.where(in_view(block, questions), vectors @ block.vectors.T, np.float32(-np.inf))
        best, rows = _merged(best, rows, cosines, block)
    return [found[score > 0].tolist() for found, score in zip(rows, best, strict=True)]


def in_view(block: Block, questions: Sequence[Question]) -> NDArray[np.bool_]:
    """Return bool[len(questions), count]: whose rows each question asks for."""
    users = np.array(
        [-1 if question.user is None else int(question.user.removeprefix("user")) for question in questions]
    )
    tags = np.array([question.tag is not None for question in questions])
    of_user = (users[:, None] == -1) | (users[:, None] == block.users)
    return np.asarray(of_user & (~tags[:, None] | block.tagged))


def _merged(
    best: Vectors32, rows: NDArray[np.int64], cosines: Vectors32, block: Block
) -> tuple[Vectors32, NDArray[np.int64]]:
    most = min(LIMIT, block.count)
    first = np.argpartition(-cosines, most - 1, axis=1)[:, :most]
    scores = np.concatenate([best, np.take_along_axis(cosines, first, axis=1)], axis=1)
    of = np.concatenate([rows, block.rows[first]], axis=1)
    order = np.argsort(-scores, axis=1, kind="stable")[:, :LIMIT]
    return np.take_along_axis(scores, order, axis=1), np.take_along_axis(of, order, axis=1)


def recall(answer: Collection[int], right: Collection[int]) -> float:
    """Return which share of the right rows is in an answer; 1 where nothing is right."""
    return len(set(answer) & set(right)) / len(right) if right else 1.0
