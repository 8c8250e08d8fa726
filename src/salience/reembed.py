"""Another model for a store that goes on being used."""

from __future__ import annotations

from collections.abc import Callable

from salience.ports import World
from salience.records import ReembedReport

Progress = Callable[[int, int], None]
"""Called with how many versions have their new vector, and of how many."""


def reembed(world: World, progress: Progress | None = None) -> ReembedReport:
    """Give every memory and version a vector of the world's model, and pin the store to it."""
    raise NotImplementedError
