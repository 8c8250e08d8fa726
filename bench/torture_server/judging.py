"""What is foreign in an answer, and what an answer must not be."""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final

from bench.torture_postgres.marks import ID, MARK
from bench.torture_server.asking import Answer, Asked
from bench.torture_server.cast import Holder, Home, home_of

NAMES: Final = re.compile(r"(?:house|proj|user)\d{4}end")
"""Names of tenants, projects and users."""
REPEATING: Final = ("resource", "prompt")
"""What tells the project that was asked for."""


@dataclass(slots=True)
class Leaks:
    """What came of it.

    Attributes:
        answered: requests that were done, by surface and what was asked.
        refused: requests that were not, by status.
        beyond: tries on a memory beyond the key, each beside one on a memory that is not there, by what was asked.
        taken_back: requests under keys that had been revoked.
        foreign: answers that held something of another.
        changed: versions in the store that are from a hand that must not write there, or memories that are gone.
        checked: versions that were looked at in the end.
        seconds: that it took.
        faults: all that is wrong, in words.
    """

    answered: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    beyond: Counter[str] = field(default_factory=Counter)
    taken_back: int = 0
    foreign: int = 0
    changed: int = 0
    checked: int = 0
    seconds: float = 0.0
    faults: Counter[str] = field(default_factory=Counter)
    lock: threading.Lock = field(default_factory=threading.Lock)


@dataclass(slots=True)
class Known:
    """What receipts told.

    Attributes:
        homes: of all tenants.
        ids: home's number -> ids of its memories.
        of: id -> home.
        seen: holder's number -> ids that answers showed, of which no receipt had told yet.
        erased: ids that may be gone.
    """

    homes: Sequence[Home]
    ids: dict[int, list[str]] = field(default_factory=dict)
    of: dict[str, Home] = field(default_factory=dict)
    seen: dict[int, set[str]] = field(default_factory=dict)
    erased: set[str] = field(default_factory=set)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def note(self, home: Home, id: str) -> None:
        """Note whose a memory is."""
        with self.lock:
            if self.of.setdefault(id, home) is home:
                self.ids.setdefault(home.number, []).append(id)

    def unknown(self, holder: Holder, id: str) -> None:
        """Note an id that was shown to a holder, to be looked up in the end."""
        with self.lock:
            self.seen.setdefault(holder.number, set()).add(id)


def received(known: Known, holder: Holder, told: Any) -> Iterator[str]:
    """Note the memories that receipts tell of; yield what is wrong with where they live."""
    for receipt in told.get("receipts", [told]) if isinstance(told, dict) else ():
        memory = receipt.get("memory") if isinstance(receipt, dict) else None
        if memory is None or "status" not in receipt:
            continue
        home = home_of(known.homes, holder.grant.tenant, memory["scope"])
        if home is None or not holder.owns(home):
            yield "a receipt tells of a memory where the key must not write"
        else:
            known.note(home, memory["id"])


def wrong(holder: Holder, asked: Asked, answer: Answer, began: float) -> Iterator[str]:
    """Yield what is wrong with an answer to a holder, in words; `began` is when the request was sent."""
    what = f"{asked.verb} over {asked.surface}"
    is_out = holder.taken_back is not None and holder.taken_back < began
    if answer.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        yield f"{what} ended with {answer.status}"
    if is_out and answer.status != HTTPStatus.UNAUTHORIZED:
        yield f"{what} was answered {answer.status} under a key that was revoked"
    if answer.status == HTTPStatus.UNAUTHORIZED and holder.taken_back is None:
        yield f"{what} was refused a key that is live"


def foreign(known: Known, holder: Holder, asked: Asked, answer: Answer) -> Iterator[str]:
    """Yield what an answer holds that is not the holder's to see.

    An error may repeat names and ids that were asked for, as resources and prompts do; it holds no text of a memory.
    """
    repeated = asked.text if asked.verb in REPEATING or not answer.is_ok else ""
    for found in set(MARK.findall(answer.text.lower())):
        if not answer.is_ok or found not in holder.marks:
            yield "the text of a memory"
    for found in set(NAMES.findall(answer.text)) - holder.names:
        if found not in repeated:
            yield "a name"
    for found in set(ID.findall(answer.text)):
        home = known.of.get(found)
        if home is None:
            known.unknown(holder, found)
        elif not holder.sees(home) and found not in repeated:
            yield "an id"
