"""Rows of two stores beside each other, in the order of their keys."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal

from salience.store.moving.tables import PAGE, Key, Row

State = Literal["same", "missing", "different", "extra"]
"""What a key is in the target: there with the same row, not there, there with another row, or there alone."""


def compared(source: Iterable[Row], target: Iterable[Row], key: Callable[[Row], Key]) -> Iterator[tuple[State, Row]]:
    """Return each row of the source with what its key is in the target, and the target's rows that have no such key.

    Both come in the order of their keys, and so does the result. The next row of the target is asked for only once
    all keys up to the one before are done, so that it may come from a page that is read while rows are written.
    """
    left, right = iter(source), iter(target)
    mine, theirs = next(left, None), next(right, None)
    while mine is not None or theirs is not None:
        if theirs is None or (mine is not None and key(mine) < key(theirs)):
            assert mine is not None  # noqa: S101 - one of the two there is
            yield "missing", mine
            mine = next(left, None)
        elif mine is None or key(theirs) < key(mine):
            yield "extra", theirs
            theirs = next(right, None)
        else:
            yield ("same" if mine == theirs else "different"), mine
            mine, theirs = next(left, None), next(right, None)


@dataclass(frozen=True, slots=True)
class Batch:
    """What became of the keys of a page.

    Attributes:
        missing, different: rows of the source.
        extra: rows of the target that the source has not.
        same: how many keys there are besides.
    """

    missing: list[Row] = field(default_factory=list)
    different: list[Row] = field(default_factory=list)
    extra: list[Row] = field(default_factory=list)
    same: int = 0

    @property
    def writes(self) -> bool:
        """Whether anything is to be done."""
        return bool(self.missing or self.different or self.extra)


def batches(states: Iterable[tuple[State, Row]]) -> Iterator[Batch]:
    """Return rows with their states in batches of `PAGE`."""
    held: dict[State, list[Row]] = {"same": [], "missing": [], "different": [], "extra": []}
    count = 0
    for state, row in states:
        held[state].append(row)
        count += 1
        if count == PAGE:
            yield _batch(held)
            held, count = {name: [] for name in held}, 0
    yield _batch(held)


def _batch(held: dict[State, list[Row]]) -> Batch:
    return Batch(held["missing"], held["different"], held["extra"], len(held["same"]))
