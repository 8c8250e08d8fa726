"""Criteria: what a ranking reads of a question beside the columns of the candidates."""

from __future__ import annotations

from dataclasses import dataclass

from salience.batch import Tokens, Vectors32
from salience.extract.reading import Reading
from salience.ports import RAW, Calibration


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Criteria:
    """A question, how many hits it wants, and the scale of its similarities.

    Attributes:
        reading: the question.
        vector: unit vector of the question, float32[d]; None without one.
        first_person_vector: unit vector of the question in the first person; None without one.
        tokens: token vectors of each of them; empty without.
        is_unknown: whether there is no vector because the model knows no word of the question.
        limit: number of hits.
        depth: number of hits to rank for a reranker; None: `limit`.
        min_score: least score; None for no minimum.
        calibration: of the embedder; None if it is not known.
        scale: what similarities mean: raw cosines, or the calibration.
    """

    reading: Reading
    vector: Vectors32 | None = None
    first_person_vector: Vectors32 | None = None
    tokens: tuple[Tokens, ...] = ()
    is_unknown: bool = False
    limit: int = 5
    depth: int | None = None
    min_score: float | None = None
    calibration: Calibration | None = None
    scale: Calibration = RAW

    @property
    def lacks_embedding(self) -> bool:
        """Whether a question that the model may know has no vector: the embedder or the store's check of it failed."""
        return self.vector is None and not self.is_unknown

    @property
    def wanted(self) -> int:
        """Number of hits to rank: `depth`, else `limit`."""
        return self.limit if self.depth is None else self.depth
