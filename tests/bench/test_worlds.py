"""The worlds of bench/worlds: their ids, times and answers."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

import bench
from salience.evaluate.datasets import Conversation
from salience.evaluate.datasets import everyday as dataset
from salience.evaluate.datasets.loader import document

PATHS = sorted((Path(bench.__file__).parent / "worlds").glob("*/*.json"))


def world_of(path: Path) -> Conversation:
    return next(dataset.read(path, document(path)))


@pytest.mark.parametrize("path", PATHS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_questions_name_memories_of_their_world(path: Path):
    world = world_of(path)
    refs = [memory.ref for memory in world.beliefs]
    assert len(refs) == len(set(refs))
    for question in world.questions:
        named = [*question.evidence, *question.outdated]
        assert len(named) == len(set(named)), question.question
        assert set(named) <= set(refs), question.question
        assert (question.category == "unanswerable") == (not question.evidence), question.question


@pytest.mark.parametrize("path", PATHS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_memories_are_in_the_order_of_time_and_before_the_questions(path: Path):
    world = world_of(path)
    times = [memory.draft.created_at for memory in world.beliefs]
    assert times == sorted(times)
    assert all(question.now > times[-1] for question in world.questions)


def test_no_world_is_in_both_halves():
    names = Counter(world.name for world in (*map(world_of, PATHS), *dataset.worlds("fit"), *dataset.worlds("report")))
    assert [name for name, n in names.items() if n > 1] == []
