"""What both who use Qdrant's local mode need: it commits point by point, so that to load many takes hours."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def unhurried(client: Any, collection: str) -> Iterator[None]:
    """Let its file not wait for the disk meanwhile; and say nothing of how slow it is, which the figures tell."""
    file = client._client.collections[collection].storage.storage
    file.execute("PRAGMA synchronous = OFF")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
    file.execute("PRAGMA synchronous = FULL")
