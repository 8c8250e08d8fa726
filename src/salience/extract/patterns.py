"""Patterns of English that wait to be compiled until a text is held against them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from salience.lazy import lazy


@dataclass(frozen=True, eq=False)
class Pattern:
    """What a text may hold, in letters of any case. Most are never tried in a process, and to compile one is slow."""

    text: str

    @lazy
    def compiled(self) -> re.Pattern[str]:
        """The pattern, which knows letters and digits of ASCII only."""
        return re.compile(self.text, re.ASCII | re.IGNORECASE)
