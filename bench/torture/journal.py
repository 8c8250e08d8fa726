"""A writer's journal: what it is about to do, and what it was told, on lines that outlive the writer.

A line is handed to the system in one call before the next verb begins, so a kill of the process cannot take it back. A
line that is there as a whole counts; a last one without its end does not.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

from salience.records import Memory

BEGUN: Final = "begun"
TOLD: Final = "told"
REFUSED: Final = "refused"
FAILED: Final = "failed"


class Mark(NamedTuple):
    """One version of one memory, as a verb writes it; what is None is not known before."""

    change: str
    content: str
    id: str | None = None
    version: int | None = None

    @classmethod
    def of(cls, memory: Memory) -> Self:
        """Return the mark that a memory leaves as it stands."""
        return cls(memory.change, memory.content, memory.id, memory.version)

    def fits(self, other: Mark) -> bool:
        """Return whether `other`, which knows all, is what this mark foresees."""
        return (
            (self.change, self.content) == (other.change, other.content)
            and self.id in (None, other.id)
            and self.version in (None, other.version)
        )


@dataclass(frozen=True, slots=True)
class Entry:
    """A verb in a journal.

    Attributes:
        writer: the journal's name.
        number: counts the verbs of the journal.
        verb: its name.
        foreseen: what it is going to write, all or none.
        erased: ids of what it is going to erase, all or none.
        keyed: whether each draft has the key `key_of` its content, so that the verb can be tried again.
        told: what the receipts said was written; None while there are none.
        touched: ids of the memories on which a recall was counted.
        refused: the type of the error that it ended with, which promises that nothing was written; else None.
    """

    writer: str
    number: int
    verb: str
    foreseen: tuple[Mark, ...] = ()
    erased: tuple[str, ...] = ()
    keyed: bool = False
    told: tuple[Mark, ...] | None = None
    touched: tuple[str, ...] = ()
    refused: str | None = None

    @property
    def writes(self) -> bool:
        """Whether it is to change memories, and not their counters alone."""
        return bool(self.foreseen or self.erased)

    @property
    def in_flight(self) -> bool:
        """Whether nobody was told how it ended."""
        return self.told is None and self.refused is None


@dataclass(frozen=True, slots=True)
class Notes:
    """All that a journal holds: its verbs in order, and the failures that no verb may have."""

    entries: tuple[Entry, ...] = ()
    failures: tuple[str, ...] = ()


@dataclass(slots=True)
class Journal:
    """Appends to the file `path`; the file's stem is the writer's name."""

    path: Path
    number: int = field(init=False)

    def __post_init__(self) -> None:
        self.number = len(read(self.path).entries)
        if self.path.exists():
            self._end_last_line()

    def begin(
        self, verb: str, foreseen: Sequence[Mark] = (), erased: Sequence[str] = (), *, keyed: bool = False
    ) -> int:
        """Note that a verb begins, and return its number."""
        number, self.number = self.number, self.number + 1
        self._write({BEGUN: number, "verb": verb, "foreseen": foreseen, "erased": erased, "keyed": keyed})
        return number

    def tell(self, number: int, told: Sequence[Mark], touched: Sequence[str] = ()) -> None:
        """Note what the receipts of a verb said, and on which memories its recall was counted."""
        self._write({TOLD: number, "marks": told, "touched": touched})

    def refuse(self, number: int, error: str) -> None:
        """Note that a verb ended with an error that promises that nothing was written."""
        self._write({REFUSED: number, "error": error})

    def fail(self, what: str) -> None:
        """Note what may never happen."""
        self._write({FAILED: what})

    def _write(self, line: Mapping[str, Any]) -> None:
        text = json.dumps(line, separators=(",", ":")) + "\n"
        with self.path.open("ab", buffering=0) as file:
            file.write(text.encode())

    def _end_last_line(self) -> None:
        text = self.path.read_bytes()
        os.truncate(self.path, text.rfind(b"\n") + 1)  # in one call, lest a kill takes the journal with it


def read(path: Path) -> Notes:
    """Return what a journal holds; nothing where there is no such file."""
    entries: dict[int, dict[str, Any]] = {}
    failures: list[str] = []
    for line in _lines(path):
        if BEGUN in line:
            entries[line[BEGUN]] = {
                "verb": line["verb"],
                "foreseen": _marks(line["foreseen"]),
                "erased": tuple(line["erased"]),
                "keyed": line["keyed"],
            }
        elif TOLD in line:
            entries[line[TOLD]].update(told=_marks(line["marks"]), touched=tuple(line["touched"]))
        elif REFUSED in line:
            entries[line[REFUSED]].update(refused=line["error"])
        else:
            failures.append(line[FAILED])
    verbs = (Entry(writer=path.stem, number=number, **values) for number, values in entries.items())
    return Notes(tuple(verbs), tuple(failures))


def read_all(folder: Path) -> list[Notes]:
    """Return what each journal of a folder holds."""
    return [read(path) for path in sorted(folder.glob("*.journal"))]


def _lines(path: Path) -> list[dict[str, Any]]:
    whole = path.read_bytes().rpartition(b"\n")[0] if path.exists() else b""
    return [json.loads(line) for line in whole.splitlines()]


def _marks(found: Sequence[Sequence[Any]]) -> tuple[Mark, ...]:
    return tuple(Mark(*mark) for mark in found)


def key_of(content: str) -> str:
    """Return the idempotency key under which a keyed verb stores a text: the text's own first words."""
    return "key of " + " ".join(content.split(maxsplit=2)[:2])
