"""The health of a store: what is stored against what is derived from it."""

from __future__ import annotations

from collections.abc import Callable

from salience.ports import World
from salience.records import DoctorReport

Progress = Callable[[int], None]


def doctor(world: World, *, repair: bool = False, progress: Progress | None = None) -> DoctorReport:
    """Check the whole store, mend what is derived if `repair` asks for it, and return what was wrong."""
    raise NotImplementedError
