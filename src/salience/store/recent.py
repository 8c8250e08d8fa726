"""Memories that were fetched lately: what is asked for again is neither read nor parsed again."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Final

from salience.ports import Touch, touched
from salience.records import Memory

MOST: Final = 2048
"""So many are kept at most, those that were asked for last."""
LONGEST: Final = 4096
"""Characters of the longest content that is kept; with `MOST`, they are a few megabytes at the very most."""


class Recent:
    """Live memories of one tenant, as one state of a file has them. It is called under the lock of who reads.

    Whoever reads the next state tells what became of them: `touched` and `changed` take in all that happens to a row.
    """

    def __init__(self) -> None:
        self._held: dict[str, Memory] = {}
        self._late: dict[str, list[Touch]] = {}

    def of(self, ids: Iterable[str]) -> dict[str, Memory]:
        """Return those of some memories that are at hand, by their ids."""
        return {asked: self._as_it_stands(asked) for asked in ids if asked in self._held}

    def _as_it_stands(self, asked: str) -> Memory:
        """Return a memory that is at hand with its touches counted, which is put off until somebody asks for it."""
        memory, late = self._held.pop(asked), self._late.pop(asked, None)
        self._held[asked] = memory = touched(memory, late) if late else memory  # now the one that was asked for last
        return memory

    def keep(self, memories: Iterable[Memory]) -> None:
        """Have some memories at hand, as they were just read, in the place of those that were asked for long ago."""
        for memory in memories:
            self._late.pop(memory.id, None)
            if len(memory.content) <= LONGEST:
                self._held[memory.id] = memory
        if len(self._held) > MOST:
            self.changed(list(islice(self._held, len(self._held) - MOST)))

    def touched(self, touches: Iterable[Touch]) -> None:
        """Take in touches of the tenant that make the next state; each has an instant and raises no importance."""
        held, late = self._held, self._late
        for touch in touches:
            for met in dict.fromkeys(touch.ids):
                if met in held:
                    late.setdefault(met, []).append(touch)

    def changed(self, ids: Iterable[str]) -> None:
        """Let go of memories of which another state may have something else."""
        for gone in ids:
            self._held.pop(gone, None)
            self._late.pop(gone, None)
