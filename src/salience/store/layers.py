"""A mapping that shows another one and keeps to itself what is written to it, for transactions in memory."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Layer(MutableMapping[K, V], Generic[K, V]):
    """What lies below, with what was set and deleted since; `settle` makes that so below."""

    def __init__(self, below: MutableMapping[K, V]) -> None:
        self._below = below
        self._set: dict[K, V] = {}
        self._gone: set[K] = set()

    def settle(self) -> None:
        """Write to the mapping below what was written here."""
        for key in self._gone & self._below.keys():
            del self._below[key]
        self._below.update(self._set)

    def __getitem__(self, key: K) -> V:
        if key in self._set:
            return self._set[key]
        if key in self._gone:
            raise KeyError(key)
        return self._below[key]

    def __setitem__(self, key: K, value: V) -> None:
        self._set[key] = value

    def __delitem__(self, key: K) -> None:
        self[key]
        self._set.pop(key, None)
        self._gone.add(key)

    def clear(self) -> None:
        """Delete everything."""
        self._set.clear()
        self._gone.update(self._below)

    def __iter__(self) -> Iterator[K]:
        yield from (key for key in self._below if key not in self._gone and key not in self._set)
        yield from self._set

    def __len__(self) -> int:
        return len(self._set) + sum(key not in self._gone and key not in self._set for key in self._below)
