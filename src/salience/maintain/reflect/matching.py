"""Which reflection stands for which group already, and what is to be done about the others. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from salience.maintain.reflect.groups import Group
from salience.records import Memory

ENOUGH: Final = 0.5
"""Least share of the smaller that a group and a reflection have in common, for the one to renew the other."""


@dataclass(frozen=True, slots=True)
class Matched:
    """What there is and what there is to do.

    Attributes:
        pairs: each group that is to have a reflection, with the one that stands for it already or None.
        left: reflections that stand for no group any more.
        refused: groups whose reflection a person forgot.
    """

    pairs: tuple[tuple[Group, Memory | None], ...]
    left: tuple[Memory, ...]
    refused: tuple[Group, ...]


def match(groups: Sequence[Group], reflections: Sequence[Memory]) -> Matched:
    """Return each group with its reflection, the greatest overlap first; of equal ones, by ids.

    A group whose reflection a person forgot has none while its members are the same. Of other groups, a reflection that
    a person forgot stands for none.
    """
    forgotten = {reflection.key for reflection in reflections if is_refused(reflection)}
    refused = tuple(group for group in groups if group.key in forgotten)
    open_groups = [group for group in groups if group.key not in forgotten]
    rest = [reflection for reflection in reflections if not is_refused(reflection)]
    resting: dict[str, list[Memory]] = {}
    for reflection in rest:
        for source in reflection.sources:
            resting.setdefault(source, []).append(reflection)
    overlaps = [
        (-overlap, reflection.id, place)
        for place, group in enumerate(open_groups)
        for reflection in _sharing(group, resting)
        if (overlap := _overlap(group, reflection)) > 0
    ]
    of_group: dict[int, str] = {}
    standing: set[str] = set()
    for _, name, place in sorted(overlaps):
        if place not in of_group and name not in standing:
            of_group[place] = name
            standing.add(name)
    by_id = {reflection.id: reflection for reflection in rest}
    pairs = [(group, by_id.get(of_group.get(place, ""))) for place, group in enumerate(open_groups)]
    left = [reflection for reflection in rest if reflection.id not in standing]
    return Matched(tuple(pairs), tuple(left), refused)


def is_refused(reflection: Memory) -> bool:
    """Return whether a person forgot the reflection, and nothing has brought it back since."""
    return reflection.status == "forgotten"


def _sharing(group: Group, resting: Mapping[str, Sequence[Memory]]) -> Iterable[Memory]:
    """Return the reflections that rest on a member of the group, each once, of source -> those that rest on it."""
    found = {one.id: one for member in group.members for one in resting.get(member.id, ())}
    return found.values()


def _overlap(group: Group, reflection: Memory) -> float:
    """Return what the group and the sources have in common, as a share of both together; 0 for less than `ENOUGH`."""
    members, sources = {memory.id for memory in group.members}, set(reflection.sources)
    common = len(members & sources)
    if not common or common < ENOUGH * min(len(members), len(sources)):
        return 0.0
    return 2.0 if reflection.key == group.key else common / len(members | sources)
