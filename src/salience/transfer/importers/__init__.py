"""Readers of other systems' exports, one module each; `SOURCES` names them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from salience.transfer.importers.records import Reader

SOURCES: Final[Mapping[str, Reader]] = {}
"""Readers by name of the source."""
FOLDERS: Final = frozenset({"claude-code", "markdown", "obsidian"})
"""Sources whose reader accepts a folder."""
