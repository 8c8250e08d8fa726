"""What ranking knows between two stages: a frozen value that each stage takes and gives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

import numpy as np
from numpy.typing import NDArray

from salience.batch import Batch, Codes, Floats, Rows, upto
from salience.ports import Need
from salience.records import Replaceable

if TYPE_CHECKING:  # a profile is checked against the stages, which work on this state
    from salience.rank.profile import Profile

Mask = NDArray[np.bool_]
ALIVE: Final = -1
"""Fate of a row that no stage has dropped."""
NOBODY: Final = -1
"""In `by`: no other memory had a part in it."""


@dataclass(frozen=True, slots=True)
class Spread:
    """Where a row's score came from: the parent's row and score, what a hop makes of it, how many hops, which link."""

    parent: int
    score: float
    factor: float
    hops: int
    link: Literal["neighbour", "entity", "update"]

    @property
    def activation(self) -> float:
        """The score that reaches the row: score x factor ^ hops."""
        return self.score * self.factor**self.hops


@dataclass(frozen=True, eq=False)
class State(Replaceable):
    """The batch and what has become of its rows.

    Attributes:
        profile, batch, need: what is ranked, and how.
        rows: intp[m], those still in the running: ascending before scoring, best first after it.
        scores: float64[n] of all rows; None before scoring.
        factors: float64[n], the product of each row's multiplying signals; None before scoring.
        parts: raw value of each signal by its label, float64[n].
        fates: int64[n], the number of the stage at which a row fell, or `ALIVE`.
        by: int64[n], the row because of which it fell, or `NOBODY`.
        absorbed: row -> rows collapsed into it.
        spread: row -> where its score came from, if another row gave it more than its own.
        step: number of the stage at work.
    """

    profile: Profile
    batch: Batch
    need: Need
    rows: Rows
    fates: Codes
    by: Codes
    scores: Floats | None = None
    factors: Floats | None = None
    parts: Mapping[str, Floats] = field(default_factory=dict)
    absorbed: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    spread: Mapping[int, Spread] = field(default_factory=dict)
    step: int = 0

    @classmethod
    def start(cls, profile: Profile, batch: Batch, need: Need) -> State:
        """Return the state in which every row is alive."""
        count = len(batch)
        return cls(profile, batch, need, upto(count), np.full(count, ALIVE), np.full(count, NOBODY))

    @property
    def scored(self) -> Floats:
        """The scores, once there are any; a profile's stages are checked for that order when it is parsed."""
        if self.scores is None:
            raise AssertionError("a stage that reads scores stands before 'score'")
        return self.scores

    @property
    def factored(self) -> Floats:
        """The factors, likewise."""
        if self.factors is None:
            raise AssertionError("a stage that reads factors stands before 'score'")
        return self.factors

    @property
    def alive(self) -> Mask:
        """bool[n], the rows still in the running."""
        living: Mask = self.fates == ALIVE
        return living

    def keep(self, kept: Rows) -> State:
        """Return the state in which only `kept` go on, in that order; living rows that are not in it fall here."""
        fates = self.fates.copy()
        fates[self.rows] = self.step
        fates[kept] = ALIVE
        return self.replace(rows=kept, fates=fates)

    def drop(self, fallen: Mapping[int, int]) -> State:
        """Return the state without the rows in `fallen`, each mapped to the row because of which it fell."""
        if not fallen:
            return self
        rows, by = np.array(list(fallen), np.intp), self.by.copy()
        by[rows] = list(fallen.values())
        stays = np.ones(len(by), np.bool_)
        stays[rows] = False
        return self.keep(self.rows[stays[self.rows]]).replace(by=by)

    def keep_where(self, mask: Mask) -> State:
        """Return the state in which the living rows where `mask` (bool[n], over all rows) holds go on."""
        holds = mask[self.rows]
        return self if holds.all() else self.keep(self.rows[holds])
