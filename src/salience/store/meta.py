"""What the table `meta` says of a store as a whole, read once a transaction."""

from __future__ import annotations

import base64
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
from sqlalchemy import Connection

from salience.batch import Vectors32
from salience.errors import StoreError
from salience.ports import Add, Change
from salience.store import sql
from salience.store.pins import Pin

PINNED: Final = ("embedder", "dimension", "fingerprint")
LAID_BY: Final = ("laid_by_embedder", "laid_by_dimension", "laid_by_fingerprint")
"""Names of the parts of a pin: of the vectors in the rows, and of those laid by."""


TRACES: Final = "traces"
"""Name that has a value while the file may hold bytes of what was erased."""


@dataclass(frozen=True, slots=True)
class Meta:
    """Name -> value, as it stands.

    `embedder`, `dimension`, `fingerprint` and `language` are pins; `sequence` is the last change sequence; `epoch` is
    another text whenever something changed that no change sequence tells: what was computed before is void then.
    `pruned` is the last change sequence of which a file may have the notes of touches no more.
    """

    values: Mapping[str, str]

    @classmethod
    def read(cls, connection: Connection) -> Meta:
        """Return what is there."""
        return cls({row.name: row.value for row in connection.exec_driver_sql(sql.META)})

    @property
    def sequence(self) -> int:
        """The last change sequence; 0 for none."""
        return self._number("sequence")

    @property
    def pruned(self) -> int:
        """What is computed from rows up to an earlier change sequence cannot be brought up by those touched since."""
        return self._number("pruned")

    def _number(self, name: str) -> int:
        try:
            return int(self.values.get(name, "0"))
        except ValueError:
            raise StoreError("store: its change sequence is damaged. Run: salience doctor --repair") from None

    @property
    def epoch(self) -> str:
        """The epoch; empty while there was none."""
        return self.values.get("epoch", "")

    def pin(self, names: tuple[str, str, str] = PINNED) -> Pin | None:
        """Return the pin under some names; None where there is none."""
        name, dimension, fingerprint = (self.values.get(part) for part in names)
        if not name or dimension is None:
            return None
        try:
            return Pin(name, int(dimension), _decoded(fingerprint) if fingerprint else None)
        except ValueError:
            remedy = "Put a backup in its place: salience reinstate FILE"
            raise StoreError(f"store: what it says of its model ({', '.join(names)}) is damaged. {remedy}") from None


@lru_cache(maxsize=8)
def _decoded(fingerprint: str) -> Vectors32:
    """Return a fingerprint, which every write reads; nobody can write to it."""
    known = np.frombuffer(base64.b64decode(fingerprint), "<f4").astype(np.float32)
    known.flags.writeable = False
    return known


def of_pin(pin: Pin | None, names: tuple[str, str, str] = PINNED) -> dict[str, str]:
    """Return a pin as values of `meta`; without one, empty values."""
    if pin is None:
        return dict.fromkeys(names, "")
    known = b"" if pin.fingerprint is None else pin.fingerprint.astype("<f4").tobytes()
    return dict(zip(names, (pin.name, str(pin.dimension), base64.b64encode(known).decode("ascii")), strict=True))


def pinning(pin: Pin | None, own: Pin, changes: Sequence[Change]) -> dict[str, str]:
    """Return what a write pins: the model at the first memory, its fingerprint at the first vector."""
    if pin is None:
        return of_pin(own) if any(isinstance(change, Add) for change in changes) else {}
    is_new = pin.fingerprint is None and own.fingerprint is not None
    return of_pin(own) if is_new and (pin.name, pin.dimension) == (own.name, own.dimension) else {}


def new_epoch() -> str:
    """Return a text that no store had as its epoch before."""
    return secrets.token_hex(8)


def void(connection: Connection) -> None:
    """Make void what was computed from the rows before."""
    keep(connection, {"epoch": new_epoch()})


def note_pruned(connection: Connection, _: str, sequence: int) -> None:
    """Note up to which change sequence touches were dropped; an index that has not read so far is void."""
    if sequence > Meta.read(connection).pruned:
        keep(connection, {"pruned": str(sequence)})


def keep(connection: Connection, values: Mapping[str, str]) -> None:
    """Write values of `meta`, if there are any."""
    if not values:
        return
    connection.execute(sql.keep_meta(), [{"name": name, "value": value} for name, value in values.items()])
