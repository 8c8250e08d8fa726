"""Models behind ports: what embeds, reranks, reads and sums up texts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, runtime_checkable

import numpy as np

from salience.batch import Floats, Vectors32
from salience.errors import InputError
from salience.lazy import lazy
from salience.records import Label

EDGE: Final = 1e-6
"""Cosines are float32: two numbers nearer than this count as equal where one is a threshold."""


@dataclass(frozen=True)
class Calibration:
    """What the cosines of an embedder mean.

    Attributes:
        cosine, relatedness: knots of a rising line from raw cosine to the relatedness that people see, [0, 1].
        paraphrase: raw cosine from which two texts count as saying the same.
        source: the data that it was fitted on.
    """

    cosine: tuple[float, ...]
    relatedness: tuple[float, ...]
    paraphrase: float
    source: str

    def related(self, cosines: Floats) -> Floats:
        """Return the relatedness that cosines mean: what the line through the knots gives them."""
        return np.interp(cosines, *self.knots)

    @lazy
    def unrelated(self) -> float:
        """The relatedness of a cosine of 0."""
        return float(self.related(np.zeros(1))[0])

    @lazy
    def knots(self) -> tuple[Floats, Floats]:
        """The cosines of the knots, and the relatedness of each."""
        return np.array(self.cosine, np.float64), np.array(self.relatedness, np.float64)


@runtime_checkable
class Embedder(Protocol):
    """Texts to vectors. `name` and `dimension` are pinned to the store at its first write."""

    @property
    def name(self) -> str:
        """The model, as it is pinned."""
        ...

    @property
    def dimension(self) -> int:
        """Length of a vector."""
        ...

    def embed(self, texts: Sequence[str], /) -> Vectors32:
        """Return float32[len(texts), dimension], a row a text; the engine scales rows to length 1."""
        ...


@runtime_checkable
class Reranker(Protocol):
    """Reads a query and a text together and says how well the one answers the other."""

    @property
    def name(self) -> str:
        """The model, as it is told in a recall."""
        ...

    def scores(self, query: str, texts: Sequence[str], /) -> Floats:
        """Return float64[len(texts)], larger for a better answer; the scale is the model's own."""
        ...


@dataclass(frozen=True, slots=True)
class Extract:
    """What a text says of itself: importance in [0, 1], the entities that it names, and the fact that it states.

    `fact_key` is the identity of the fact, such as `user.residence`; None where the text states none plainly.
    """

    importance: float
    entities: tuple[str, ...]
    fact_key: str | None = None


class Extractor(Protocol):
    """Reads a text for what its caller did not say."""

    def extract(self, content: str, *, speaker: str | None = None, user_id: str | None = None) -> Extract:
        """Return the importance, entities and fact of `content`, said by `speaker` in the memory of `user_id`."""
        ...


@dataclass(frozen=True, slots=True)
class Statement:
    """A text that may state a fact: who said it, and in whose memory, None where that is not known."""

    content: str
    speaker: str | None = None
    user_id: str | None = None


@runtime_checkable
class FactReader(Protocol):
    """Reads the facts of texts in which the extractor found none."""

    @property
    def name(self) -> str:
        """The model."""
        ...

    def facts(self, statements: Sequence[Statement], /) -> list[str | None]:
        """Return the identity of the fact that each text states, as `Extract.fact_key` is; None for none.

        May raise anything: a write goes on without it.
        """
        ...


@runtime_checkable
class Judge(Protocol):
    """Says what a new text is to an older one that is much like it."""

    @property
    def name(self) -> str:
        """The model, as it is told with a label."""
        ...

    def judge(self, pairs: Sequence[tuple[str, str]], /) -> list[Label | None]:
        """Return the label of each pair of a new text and an older one, as `Contradiction` has it; None for none.

        Raises:
            JudgeError: it failed, or answered something else.
        """
        ...


@dataclass(frozen=True, slots=True)
class Summary:
    """A text that sums up others, and the ids of those that it rests on."""

    text: str
    sources: tuple[str, ...]


@runtime_checkable
class Summariser(Protocol):
    """Writes one text for several that belong together."""

    @property
    def name(self) -> str:
        """The model, as it is told in a report."""
        ...

    def summarise(self, sources: Sequence[tuple[str, str]], /) -> Summary:
        """Return one text for some memories, each an id and its text; it rests on some of these ids and no others.

        Raises:
            SummariserError: it failed, or answered something else.
        """
        ...


@dataclass(frozen=True, slots=True)
class Clustering:
    """When memories belong together, so that a reflection sums them up.

    Attributes:
        tightness: least relatedness to the one in their middle, [0, 1], on the embedder's calibrated scale.
        share: least share that they are of all memories on their subject, 0.05 to 1.
        least, greatest: fewest and most of them.
    """

    tightness: float = 0.55
    share: float = 0.6
    least: int = 3
    greatest: int = 20

    def __post_init__(self) -> None:
        if self.least > self.greatest:
            remedy = f"Give at most {self.greatest}, which is reflect_greatest, or raise that."
            raise InputError("reflect_least", self.least, remedy)


FINGERPRINTED: Final = "The quick brown fox jumps over the lazy dog."
"""The sentence whose vector tells a model from another that goes by the same name."""
SAME_MODEL: Final = 0.99
"""Least cosine of two vectors of that sentence under one model: builds for other machines differ a little."""


@dataclass(frozen=True, slots=True, eq=False)
class Model:
    """What an engine embeds with, as a store is pinned to it.

    Attributes:
        name: of the embedder.
        dimension: length of a vector.
        fingerprint: returns the unit vector of `FINGERPRINTED`, float32[dimension]; asked for when a vector is first
            written or sought, and raises as the embedder does. None: the model is told by name and dimension alone.
    """

    name: str
    dimension: int
    fingerprint: Callable[[], Vectors32] | None = None
