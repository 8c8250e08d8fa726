"""Memories that were stored while the embedder failed, and get their vectors later."""

from __future__ import annotations

from salience.ports import World


def catch_up(world: World) -> None:
    """Give a few pending memories their vectors, now that the embedder answers; a failure is left for upkeep."""
