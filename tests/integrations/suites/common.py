"""Parts that the plugins share: new stores, and the tests that a plugin leaves out."""

from __future__ import annotations

import itertools
import shutil
import tempfile
from pathlib import Path

import salience
from contract.doubles import HashedEmbedder

FOLDER = tempfile.TemporaryDirectory()
EMPTY = Path(FOLDER.name, "empty.db")
EMBEDDER = HashedEmbedder("hashed", 8)  # no test compares texts by meaning
NUMBERS = itertools.count()

salience.connect(EMPTY, embedder=EMBEDDER).close()


def new_memory(embedder=EMBEDDER):
    """Return a connected memory on a copy of an empty file, which is faster than a new one."""
    return salience.connect(shutil.copy(EMPTY, EMPTY.with_name(f"{next(NUMBERS)}.db")), embedder=embedder)


def leave_out(config, items, parts):
    """Deselect the tests with one of these parts in their ids."""
    out = [item for item in items if any(part in item.nodeid for part in parts)]
    config.hook.pytest_deselected(items=out)
    items[:] = [item for item in items if item not in out]
