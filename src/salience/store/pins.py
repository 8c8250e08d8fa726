"""The pinned model of a store, and the table `meta`, which holds it with the change sequence and the language."""

from __future__ import annotations

import base64
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
from sqlalchemy import Connection

from salience.batch import Vectors32, cosines, unit_vectors
from salience.errors import MovedError, PinnedError, StoreError
from salience.ports import SAME_MODEL, Add, Change, Model
from salience.store import statements

COMMAND: Final = "salience --store {where} --embedder {name} reembed"


@dataclass(frozen=True, slots=True, eq=False)
class Pin:
    """The model that a store is pinned to; its fingerprint is None until a first vector is written."""

    name: str
    dimension: int
    fingerprint: Vectors32 | None = None

    def model(self) -> Model:
        """Return the pin as a model."""
        known = self.fingerprint
        return Model(self.name, self.dimension, None if known is None else lambda: known)

    def __str__(self) -> str:
        return f"embedder {self.name!r} ({self.dimension} dimensions)"


class Handle:
    """What a handle on a store embeds with, and which fingerprint of the store it has found to be its own.

    Args:
        model: of the engine that the handle is for.
        where: the store, as messages name it.

    Attributes:
        moved: whether the store was found to be pinned to another model since this handle was made.
    """

    def __init__(self, model: Model, where: str) -> None:
        self.model = model
        self.moved = False
        self._where = where
        self._known: bytes | None = None
        self._own: Pin | None = None

    def owns(self, pin: Pin | None) -> bool:
        """Return whether the store is pinned to this handle's model, by name and dimension, or not pinned."""
        return pin is None or (pin.name, pin.dimension) == (self.model.name, self.model.dimension)

    def claim(self, pin: Pin | None) -> None:
        """Raise `PinnedError` unless the store is pinned to this handle's model, by name and dimension, or not yet."""
        if pin is not None and not self.owns(pin):
            raise PinnedError(
                f"store: {self._where} was written with {pin}, not with {self.bare()}. Open it with "
                f"that embedder, or embed all anew: {COMMAND.format(where=self._where, name='NAME')}"
            )

    def admit(self, pin: Pin | None) -> None:
        """Let vectors pass if they belong to the store.

        Raises:
            MovedError: the store was pinned to another model since this handle was made.
            PinnedError: another model goes by the name that the store is pinned to.
            EmbedderError: the fingerprint is not to be had.
        """
        if pin is None:
            return
        if not self.owns(pin):
            self.moved = True
            raise MovedError(
                f"store: {self._where} has vectors of {pin} by now, not of {self.model.name!r}. "
                "Connect again with that embedder."
            )
        if pin.fingerprint is None or pin.fingerprint.tobytes() == self._known or self.model.fingerprint is None:
            return
        if not self._is_same(pin.fingerprint):
            self.moved = self._known is not None
            raise (PinnedError if self._known is None else MovedError)(
                f"store: {self._where} was written with another model of the name {pin.name!r}: the same sentence has "
                f"another vector there. Use the model that wrote it, or embed all anew: "
                f"{COMMAND.format(where=self._where, name='NAME')}"
            )
        self._known = pin.fingerprint.tobytes()

    def matches(self, pin: Pin) -> bool:
        """Return whether vectors under `pin` are this model's: by name, dimension and, where known, fingerprint."""
        if not self.owns(pin) or pin.fingerprint is None or self.model.fingerprint is None:
            return self.owns(pin)
        return self.is_known(pin) or self._is_same(pin.fingerprint)

    def is_known(self, pin: Pin | None) -> bool:
        """Return whether vectors under `pin` were found to be this model's before."""
        if pin is None or pin.fingerprint is None:
            return False
        return self.owns(pin) and pin.fingerprint.tobytes() == self._known

    def own(self) -> Pin:
        """Return the pin of this handle's model, fingerprint and all; the model is asked for it once.

        Raises:
            EmbedderError: the fingerprint is not to be had.
        """
        if self._own is None:
            name, dimension = self.model.name, self.model.dimension
            asked = None if self.model.fingerprint is None else self.model.fingerprint()[None]
            known = None if asked is None else unit_vectors(asked, name, 1, dimension)[0]
            self._own = Pin(name, dimension, known)
        return self._own

    def bare(self) -> Pin:
        """Return the pin of this handle's model, without a fingerprint."""
        return Pin(self.model.name, self.model.dimension)

    def _is_same(self, fingerprint: Vectors32) -> bool:
        own = self.own().fingerprint
        return own is None or float(cosines(own[None], fingerprint)[0]) >= SAME_MODEL


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
        return cls({row.name: row.value for row in connection.exec_driver_sql(statements.META)})

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
    connection.execute(statements.keep_meta(), [{"name": name, "value": value} for name, value in values.items()])
