"""Vaults of Obsidian: folders of Markdown notes, see `markdown`; its own folder `.obsidian` is hidden and left out."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import IO

from salience.transfer.importers.markdown import notes
from salience.transfer.importers.records import Item


def read(file: IO[bytes] | Path) -> Iterator[Item]:
    """Yield the sections of a note, or of every note in a vault."""
    return notes("obsidian", file)
