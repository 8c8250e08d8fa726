"""A copy of an SQLite file while others read and write it."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing


def backup(source: str, target: str, progress: Callable[[int, int], None] | None = None) -> None:
    """Write a copy of the file `source`, as it stands at one instant, to the file `target`."""
    with closing(sqlite3.connect(source)) as live, closing(sqlite3.connect(target)) as copy:
        live.backup(copy, progress=progress and (lambda _, left, pages: progress(left, pages)))
