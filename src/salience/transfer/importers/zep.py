"""Zep: the episodes, messages, edges and nodes that its API returns, as JSON.

Source: the types `Edge`, `Episode`, `Message` and `Node` of the package zep-cloud 4.0.1. A file is an object with any
of the lists `nodes`, `episodes`, `messages`, `edges` and `facts`, or one list of such objects, or one object a line.
Its records become memories as those of `graphiti`; the thread is the session, the user of the graph the user.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import IO

from salience.transfer.importers.graphiti import graph
from salience.transfer.importers.records import Item


def read(file: IO[bytes] | Path) -> Iterator[Item]:
    """Yield the edges, episodes, messages, and nodes with a summary; raises `InputError` if the file is not JSON."""
    return graph(file, "zep")
