"""Which reflection stands for which group, and which memories are in a group: pure, in whatever order they come."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from salience.extract.subjects import Subjects
from salience.maintain.groups import Group, groups, match, reflectable
from salience.maintain.reflect import common_labels
from salience.ports import Calibration, Clustering
from salience.records import Memory
from salience.text import Tokeniser
from tests.contract.memories import NOW, id_of, memory, unit

IDENTITY = Calibration((0.0, 1.0), (0.0, 1.0), 0.9, "test")
READ = Subjects(Tokeniser())


def group(*numbers: int) -> Group:
    members = tuple(memory(number) for number in sorted(numbers))
    return Group(members, members[0], np.stack([unit(1.0)] * len(members)), "tea")


def reflection(number: int, *sources: int, **values: Any) -> Memory:
    made = memory(number, kind="reflection", sources=tuple(id_of(source) for source in sorted(sources)))
    return replace(made, key=group(*sources).key, **values)


def matched(groups: list[Group], reflections: list[Memory]) -> tuple[list[str | None], list[str]]:
    found = match(groups, reflections)
    return [held and held.id for _, held in found.pairs], [left.id for left in found.left]


FORGOTTEN = {"forgotten_at": NOW, "change": "forget"}
STALE = {"forgotten_at": NOW, "change": "stale"}


def test_a_group_is_matched_with_the_reflection_of_greatest_overlap():
    near, nearer = reflection(90, 1, 2, 7), reflection(91, 1, 2, 3)
    assert matched([group(1, 2, 3, 4)], [near, nearer]) == ([id_of(91)], [id_of(90)])
    assert matched([group(1, 2, 3), group(4, 5, 7)], [reflection(90, 1, 2, 3, 4, 5)]) == ([id_of(90), None], [])


def test_of_equal_overlaps_the_older_reflection_is_chosen():
    assert matched([group(1, 2, 3, 4)], [reflection(91, 3, 4), reflection(90, 1, 2)]) == ([id_of(90)], [id_of(91)])


def test_the_same_memories_are_the_same_reflection_whatever_its_text_rests_on():
    partly = replace(reflection(91, 1, 2, 3, 4), sources=(id_of(1),))
    assert matched([group(1, 2, 3, 4)], [reflection(90, 1, 2, 3), partly]) == ([id_of(91)], [id_of(90)])


def test_a_reflection_of_mostly_other_memories_matches_no_group():
    assert matched([group(1, 2, 3)], [reflection(90, 3, 4, 5)]) == ([None], [id_of(90)])
    assert matched([group(1, 2, 3, 4)], [reflection(90, 1, 2, *range(5, 30))]) == ([id_of(90)], [])


def test_a_stale_one_is_renewed_and_a_forgotten_one_is_not():
    assert matched([group(1, 2, 3)], [reflection(90, 1, 2, 3, **STALE)]) == ([id_of(90)], [])
    found = match([group(1, 2, 3)], [reflection(90, 1, 2, 3, **FORGOTTEN)])
    assert (found.pairs, found.left, len(found.refused)) == ((), (), 1)
    assert matched([group(1, 2, 3, 4)], [reflection(90, 1, 2, 3, **FORGOTTEN)]) == ([None], [])


@given(st.permutations(range(4)), st.permutations(range(3)))
def test_the_order_in_which_they_come_does_not_matter(reflections, order):
    made = [reflection(90 + number, number, number + 1, number + 2) for number in range(4)]
    wanted = [group(1, 2, 3), group(4, 5, 6), group(0, 8, 9)]
    found = match([wanted[place] for place in order], [made[place] for place in reflections])
    assert {pair.key: held and held.id for pair, held in found.pairs} == {
        wanted[0].key: id_of(91), wanted[1].key: id_of(93), wanted[2].key: None
    }  # fmt: skip


def test_groups_do_not_depend_on_the_order_of_the_memories():
    words = ("tea", "boat", "tea", "tea", "boat", "boat", "tea")
    held = {id_of(number): memory(number, content=f"{word} x{number}") for number, word in enumerate(words)}
    vectors = {id: unit(1.0, int(id, 16) / 50, float("boat" in held[id].content)) for id in held}
    given = {"read": READ, "now": NOW, "clustering": Clustering(), "calibration": IDENTITY}
    straight = groups(held, vectors, **given)
    turned = groups(dict(reversed(held.items())), vectors, **given)
    assert [(one.subject, one.members, one.medoid) for one in straight] == [
        (one.subject, one.members, one.medoid) for one in turned
    ]
    assert [(one.subject, len(one.members)) for one in straight] == [("tea", 4), ("boat", 3)]
    assert all(np.array_equal(one.vector, vectors[one.medoid.id]) for one in straight)


def test_only_the_newest_memory_of_a_fact_is_summed_up():
    older = memory(1, fact_key="ana.home", updated_at=NOW)
    newer = memory(2, fact_key="ana.home", updated_at=NOW + timedelta(days=1))
    assert reflectable([newer, older], NOW) == [newer]


@pytest.mark.parametrize(
    ("names", "found"),
    [
        ([("a",), ("b",)], ()),
        ([("a", "b"), ("b", "a"), ("b",)], ("b", "a")),
        ([("a",), ("a",), (), (), (), (), ()], ()),
        ([("a", "a"), ("b",)], ()),
        ([tuple("abcdefg")] * 2, tuple("abcde")),
        ([], ()),
    ],
)
def test_labels_are_what_several_sources_name(names, found):
    assert common_labels(names) == found
