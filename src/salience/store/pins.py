"""The pinned model of a store, and the table `meta`, which holds it with the change sequence and the language."""

from __future__ import annotations

import base64
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
from sqlalchemy import Connection, text

from salience.batch import Vectors32, cosines, unit_vectors
from salience.errors import MovedError, PinnedError, StoreError
from salience.ports import SAME_MODEL, Add, Change, Model
from salience.text import AUTO, ENGLISH

PINNED: Final = ("embedder", "dimension", "fingerprint")
"""Names in `meta` of the model of the vectors in the rows."""
SET_ASIDE: Final = ("laid_by_embedder", "laid_by_dimension", "laid_by_fingerprint")
"""Names in `meta` of the model that `reembed` prepares vectors for."""
ERASE_PENDING: Final = "traces"
"""Name that has a value, the change sequence of an erasure, while bytes of erased memories may be left."""
MEND: Final = "salience doctor --repair"


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

    @property
    def is_sound(self) -> bool:
        """Whether the fingerprint, if there is one, is a vector of the model."""
        known = self.fingerprint
        return known is None or (known.shape == (self.dimension,) and bool(np.isfinite(known).all() and known.any()))


class Handle:
    """The model that one handle on a store embeds with, and whether it is the model of the stored vectors.

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
        self._verified: bytes | None = None  # the fingerprint of the store that was found to be this model's
        self._pin: Pin | None = None

    def accepts(self, pin: Pin | None) -> bool:
        """Return whether the store is pinned to this handle's model, by name and dimension, or not pinned."""
        return pin is None or (pin.name, pin.dimension) == (self.model.name, self.model.dimension)

    def check_opening(self, meta: Meta, language: str | None, place: str, *, moving: bool) -> str:
        """Return the language of the store: the pinned one, else `language`, else `auto`.

        `place` is the noun for where the store is: file or database.

        Raises:
            PinnedError: the store is pinned to another language or, unless `moving` is set, another model.
        """
        known = meta.values.get("language")
        if known is None and meta.pin() is not None:  # earlier versions wrote English unless set
            known = language or ENGLISH
        if None not in (known, language) and known != language:
            raise PinnedError(
                f"store: {self._where} was written for the language {known!r}, not for {language!r}. "
                f"Set SALIENCE_LANGUAGE={known}, or name a new {place}."
            )
        if not moving and not self.accepts(pin := meta.pin()):
            raise PinnedError(
                f"store: {self._where} was written with {pin}, not with {self.pin_without_fingerprint()}. Open it with "
                f"that embedder, or embed all anew: {self._reembed('NAME')}"
            )
        return known or language or AUTO

    def check_vectors(self, pin: Pin | None) -> None:
        """Check that vectors of this handle's model belong to the store; may call the model for its fingerprint.

        Raises:
            MovedError: the store was pinned to another model since this handle was made.
            PinnedError: the store is pinned to another model of the same name.
            EmbedderError: the fingerprint cannot be computed.
        """
        if not self.accepts(pin):
            self.moved = True
            raise MovedError(
                f"store: {self._where} has vectors of {pin} by now, not of {self.model.name!r}. "
                "Connect again with that embedder."
            )
        if pin is not None and not self.matches(pin):
            self.moved = self._verified is not None
            raise (MovedError if self.moved else PinnedError)(
                f"store: {self._where} was written with another model of the name {pin.name!r}: the same sentence has "
                f"another vector there. Use the model that wrote it, or embed all anew: {self._reembed(pin.name)}"
            )
        if pin is not None and pin.fingerprint is not None:
            self._verified = pin.fingerprint.tobytes()

    def matches(self, pin: Pin) -> bool:
        """Return whether vectors under `pin` are this model's: by name, dimension and, where known, fingerprint."""
        if not self.accepts(pin) or pin.fingerprint is None or self.model.fingerprint is None:
            return self.accepts(pin)
        if not pin.is_sound:
            raise StoreError(f"store: {self._where}: the fingerprint of its model is damaged. Run: {MEND}")
        if pin.fingerprint.tobytes() == self._verified:
            return True
        own = self.pin().fingerprint
        return own is None or float(cosines(own[None], pin.fingerprint)[0]) >= SAME_MODEL

    def pin(self) -> Pin:
        """Return the pin of this handle's model; the first call computes the fingerprint.

        Raises:
            EmbedderError: the fingerprint cannot be computed.
        """
        if self._pin is None:
            name, dimension = self.model.name, self.model.dimension
            vector = None if self.model.fingerprint is None else self.model.fingerprint()[None]
            self._pin = Pin(name, dimension, None if vector is None else unit_vectors(vector, name, 1, dimension)[0])
        return self._pin

    def pin_without_fingerprint(self) -> Pin:
        """Return the pin of this handle's model; never calls the model."""
        return Pin(self.model.name, self.model.dimension)

    def _reembed(self, name: str) -> str:
        return f"salience --store {self._where} --embedder {name} reembed"


@dataclass(frozen=True, slots=True)
class Meta:
    """The rows of the table `meta`: name -> value.

    `embedder`, `dimension`, `fingerprint` and `language` are pins; `sequence` is the last change sequence. `epoch` is
    replaced by another text whenever rows change without a new change sequence: every index is then invalid. `pruned`
    is the last change sequence whose records of touches a file may have deleted.
    """

    values: Mapping[str, str]

    @classmethod
    def read(cls, connection: Connection) -> Meta:
        """Return the present values."""
        return cls(dict(map(tuple, connection.exec_driver_sql("SELECT name, value FROM meta"))))

    @property
    def sequence(self) -> int:
        """The last change sequence; 0 for none."""
        return self._number("sequence")

    @property
    def pruned(self) -> int:
        """An index of an earlier change sequence cannot be updated, only built again."""
        return self._number("pruned")

    def _number(self, name: str) -> int:
        try:
            return int(self.values.get(name, "0"))
        except ValueError:
            raise StoreError(f"store: its change sequence is damaged. Run: {MEND}") from None

    @property
    def epoch(self) -> str:
        """The epoch; empty while there was none."""
        return self.values.get("epoch", "")

    def pin(self, names: tuple[str, str, str] = PINNED) -> Pin | None:
        """Return the pin under some names; None where there is none."""
        name, dimension, fingerprint = map(self.values.get, names)
        if not name or dimension is None:
            return None
        try:
            return Pin(name, int(dimension), _decoded(fingerprint) if fingerprint else None)
        except ValueError:
            remedy = "Put a backup in its place: salience reinstate FILE"
            raise StoreError(f"store: its record of its model ({', '.join(names)}) is damaged. {remedy}") from None


@lru_cache(maxsize=8)
def _decoded(fingerprint: str) -> Vectors32:
    """Return a fingerprint; an empty array for text that is none, so that a doctor can open the store."""
    try:
        known = np.frombuffer(base64.b64decode(fingerprint), "<f4").astype(np.float32)
    except ValueError:
        known = np.zeros(0, np.float32)
    known.flags.writeable = False
    return known


def of_pin(pin: Pin | None, names: tuple[str, str, str] = PINNED) -> dict[str, str]:
    """Return a pin as values of `meta`; without one, empty values."""
    if pin is None:
        return dict.fromkeys(names, "")
    known = b"" if pin.fingerprint is None else pin.fingerprint.astype("<f4").tobytes()
    return dict(zip(names, (pin.name, str(pin.dimension), base64.b64encode(known).decode("ascii")), strict=True))


def pinning(pin: Pin | None, own: Pin, changes: Sequence[Change]) -> dict[str, str]:
    """Return the pins that a write sets: the model at the first memory, its fingerprint at the first vector."""
    if pin is None:
        pins = any(isinstance(change, Add) for change in changes)
    else:
        is_new = pin.fingerprint is None and own.fingerprint is not None
        pins = is_new and (pin.name, pin.dimension) == (own.name, own.dimension)
    return {name: value for name, value in of_pin(own).items() if value} if pins else {}


def new_epoch() -> str:
    """Return an epoch that no store has had before."""
    return secrets.token_hex(8)


def invalidate(connection: Connection) -> None:
    """Invalidate every index of the rows."""
    write_meta(connection, {"epoch": new_epoch()})


def note_pruned(connection: Connection, sequence: int) -> None:
    """Record the change sequence up to which touches were deleted."""
    if sequence > Meta.read(connection).pruned:
        write_meta(connection, {"pruned": str(sequence)})


def write_meta(connection: Connection, values: Mapping[str, str]) -> None:
    """Write values of `meta`, if there are any; an empty value deletes the row."""
    kept = [{"name": name, "value": value} for name, value in values.items() if value]
    gone = [{"name": name} for name, value in values.items() if not value]
    if kept:
        connection.execute(_KEEP, kept)
    if gone:
        connection.execute(_DROP, gone)


_KEEP: Final = text(
    "INSERT INTO meta (name, value) VALUES (:name, :value) ON CONFLICT (name) DO UPDATE SET value = excluded.value"
)
_DROP: Final = text("DELETE FROM meta WHERE name = :name")
