"""What shows whose a text is, and the search for what is of another in an answer."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Final

MARK: Final = re.compile(r"mark\d{4}end")
"""Stands in each text, tag, entity and value of metadata of a tenant; all have the same coordinates, keys and facts."""
NAME: Final = re.compile(r"house\d{4}end")
"""The name of a tenant."""
ID: Final = re.compile(r"\b[0-9a-f]{32}\b")


def mark(number: int) -> str:
    """Return the mark of the tenant of a number."""
    return f"mark{number:04d}end"


def name(number: int) -> str:
    """Return the name of the tenant of a number."""
    return f"house{number:04d}end"


def texts(answer: object) -> Iterator[str]:
    """Yield every text in an answer, however deep."""
    if isinstance(answer, str):
        yield answer
    elif is_dataclass(answer) and not isinstance(answer, type):
        for one in fields(answer):
            yield from texts(getattr(answer, one.name))
    elif isinstance(answer, Mapping):
        for name, value in answer.items():
            yield from texts(name)
            yield from texts(value)
    elif isinstance(answer, list | tuple | set | frozenset):
        for one in answer:
            yield from texts(one)


@dataclass(slots=True)
class Owners:
    """Whose each id is, as far as receipts said so.

    Attributes:
        known: id -> number of the tenant.
        seen: number of the tenant -> ids that its answers showed, of which no receipt had told yet.
    """

    known: dict[str, int] = field(default_factory=dict)
    seen: dict[int, set[str]] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def note(self, number: int, ids: list[str]) -> None:
        """Note ids that a receipt told a tenant of."""
        with self.lock:
            self.known.update(dict.fromkeys(ids, number))

    def foreign(self, number: int, answer: object, asked: frozenset[str] = frozenset()) -> list[str]:
        """Return what is of another in a tenant's answer: marks, and ids other than those that it asked for."""
        own, found = {mark(number), name(number)}, list[str]()
        for text in texts(answer):
            found += set(MARK.findall(text.lower()) + NAME.findall(text)) - own
            for shown in set(ID.findall(text)) - asked:
                owner = self.known.get(shown)
                if owner is None:
                    with self.lock:
                        self.seen.setdefault(number, set()).add(shown)
                elif owner != number:
                    found.append(f"an id of {name(owner)}")
        return found
