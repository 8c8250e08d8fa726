"""A connection to a SQLite file that can load extensions, which Python's own is often built without."""

from __future__ import annotations

import sqlite3
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any


def connected(path: Path) -> Any:
    """Return a connection that commits by itself, of Python's module or of `pysqlite3`; threads may share it."""
    driver: Any = sqlite3
    if not hasattr(sqlite3.Connection, "enable_load_extension") and find_spec("pysqlite3"):
        driver = import_module("pysqlite3")
    return driver.connect(path, isolation_level=None, check_same_thread=False)
