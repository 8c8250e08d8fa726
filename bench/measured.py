"""What an embedder that ships makes of pairs that people judged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from salience import compose
from salience.batch import Floats
from salience.maintain.calibrate import cosines
from salience.models.calibration import calibration_of
from salience.ports import Calibration
from salience.records import Judged

EMBEDDERS: Final = ("minilm", "static")
"""The embedders whose calibration ships."""


@dataclass(frozen=True, slots=True)
class Measured:
    """An embedder by the name it is chosen by, what ships of its calibration, and its cosine of each pair."""

    embedder: str
    calibration: Calibration
    cosines: Floats


def measured(embedder: str, pairs: Sequence[Judged]) -> Measured:
    """Return what an embedder that ships makes of the pairs, whatever calibration was fitted on this machine."""
    with compose.local(":memory:", embedder=embedder) as engine:
        shipped = calibration_of(engine.services.embedder)
        return Measured(embedder, shipped, cosines(engine.services, pairs))
