"""The scan of float32 by NumPy, in one thread whatever its library would take."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from bench.recall.floor import Floor
from bench.recall.lookup import Lookup


def open_(folder: Path, lookup: Lookup) -> Floor:
    """Return the scan; `vecdot` goes row by row, so that no row is shared by threads."""
    return Floor(folder, lambda vectors: (vectors, np.ones(len(vectors), np.float32)), np.vecdot)
