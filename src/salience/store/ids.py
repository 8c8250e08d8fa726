"""Ids as bytes of one width, which takes a third of what as many texts do; texts again where they are read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from salience.batch import Column

Held = NDArray[np.bytes_]
"""Ids in UTF-8, the bytes of which sort as the texts do."""
Texts = NDArray[np.object_]
_END = "\0"
"""Stands in no id."""


@dataclass(frozen=True, slots=True, eq=False)
class Ids:
    """Ids, told as texts.

    Attributes:
        held: the same as bytes.
    """

    held: Held

    def __len__(self) -> int:
        return len(self.held)

    def __getitem__(self, rows: Column) -> Texts:
        """Return object[n] of str, the ids in some rows."""
        return told(self.held[rows])

    def __iter__(self) -> Iterator[str]:
        return iter(self.tolist())

    def tolist(self) -> list[str]:
        """Return all ids."""
        return _texts(self.held)


def held(ids: Sequence[str]) -> Held:
    """Return ids as bytes."""
    return np.array(_END.join(ids).encode().split(_END.encode()) if len(ids) else [], np.bytes_)


def told(ids: Held) -> Texts:
    """Return ids as texts, object[n] of str."""
    return np.array(_texts(ids), dtype=object)


def wide(ids: NDArray[Any], width: int) -> NDArray[Any]:
    """Return ids with room for so many bytes each."""
    return ids if ids.dtype.itemsize >= width else ids.astype(f"S{width}")


def _texts(ids: Held) -> list[str]:
    return _END.encode().join(ids.tolist()).decode().split(_END) if len(ids) else []
