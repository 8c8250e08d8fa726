"""The one true delete."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from salience.ports import World


def erase(world: World, where: Mapping[str, object], ids: Sequence[str] | None, *, dry_run: bool = False) -> int:
    """Delete memories for good, with all that was made of them, and return how many."""
    raise NotImplementedError
