"""Whether the vectors of a handle belong to a store: the model that it is pinned to, and its fingerprint."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from salience.batch import Vectors32, cosines, unit_vectors
from salience.errors import MovedError, PinnedError
from salience.ports import SAME_MODEL, Model

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
