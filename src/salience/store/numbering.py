"""The numbers of a tenant's texts and memories, of which the columns of an arena are made."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from salience.store.postings import Numbering, Numbers32, Speakers, Spellings

CODED: Final = ("environment", "project", "user_id", "agent_id", "session_id", "kind")
"""Columns whose texts are numbered, each on its own; 0 is null."""


class Serials:
    """Numbers for memories, from 1, in the order in which they come up.

    Only those that another memory supersedes are told by their id; for the others the rows of an arena know.
    """

    def __init__(self) -> None:
        self._named: dict[str, int] = {}
        self._next = 1

    def __len__(self) -> int:
        return self._next

    def of(self, ids: Iterable[str], count: int) -> Numbers32:
        """Return a number for each of `count` memories that have none, but for what names them."""
        first, self._next = self._next, self._next + count
        numbers = np.arange(first, first + count, dtype=np.int32)
        if self._named:
            for place, named in enumerate(ids):
                numbers[place] = self._named.get(named, numbers[place])
        return numbers

    def named(self, superseded: Mapping[str, int]) -> Mapping[str, int]:
        """Return the numbers of superseded memories, given those of the ones that have one, else -1."""
        for named, number in superseded.items():
            if named not in self._named:
                self._named[named] = number if number > 0 else int(self.of((), 1)[0])
        return self._named


@dataclass(frozen=True, slots=True)
class Numbers:
    """Numbers of the texts of a tenant; grown by refreshes, only looked up in by readers."""

    coded: Mapping[str, Numbering] = field(default_factory=lambda: {name: Numbering() for name in CODED})
    ids: Serials = field(default_factory=Serials)
    facts: Numbering = field(default_factory=Numbering)
    terms: Numbering = field(default_factory=Numbering)
    tags: Numbering = field(default_factory=Numbering)
    entities: Spellings = field(default_factory=Spellings)
    homes: Numbering = field(default_factory=Numbering)
    sessions: Numbering = field(default_factory=Numbering)
    speakers: Speakers = field(default_factory=Speakers)


def paired(numbering: Numbering, first: Numbers32, second: Numbers32) -> Numbers32:
    """Return a number for each pair of numbers."""
    distinct, places = np.unique(pair(first.astype(np.int64), second), return_inverse=True)
    return numbering.of(distinct.tolist(), len(distinct))[places]


def pair(first: Any, second: Any) -> Any:
    """Return a number for a pair of numbers, or for each pair of two arrays; the first one of 64 bits."""
    return first << 32 | second
