"""Ports of models: embedders, rerankers, extractors, fact readers, judges and summarisers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, runtime_checkable

import numpy as np

from salience.batch import Embedding, Floats, Tokens, Vectors32, unit_vectors
from salience.errors import EmbedderError, InputError
from salience.records import Label

EDGE: Final = 1e-6
"""Tolerance for comparisons of a score or cosine with a threshold, since cosines are float32."""


TOKEN_FLOOR: Final = 0.3
"""`Calibration.token_floor` of minilm: between 0.3 and 0.5 on LoCoMo and on the everyday worlds."""


@dataclass(frozen=True)
class Calibration:
    """The meaning of an embedder's cosines.

    Attributes:
        cosine, relatedness: knots of a rising line from raw cosine to the relatedness that people judge, [0, 1].
        paraphrase: raw cosine from which two texts count as paraphrases.
        source: name of the data for the fit.
        token_floor: mean cosine of the tokens of unrelated texts, from which `late_interaction` counts.
    """

    cosine: tuple[float, ...]
    relatedness: tuple[float, ...]
    paraphrase: float
    source: str
    token_floor: float = TOKEN_FLOOR

    def related(self, cosines: Floats) -> Floats:
        """Return the relatedness of cosines, by linear interpolation between the knots."""
        return np.interp(cosines, self.cosine, self.relatedness)

    def similarity(self, cosines: Floats) -> Floats:
        """Return the relatedness of cosines clipped to [0, 1]."""
        return np.interp(np.minimum(np.maximum(cosines, 0.0), 1.0), self.cosine, self.relatedness)


RAW: Final = Calibration((0.0, 1.0), (0.0, 1.0), 1.0, "raw cosine")
"""Leaves a cosine as it is."""
UNCALIBRATED: Final = Calibration(
    cosine=(0.0, 1.0),
    relatedness=(0.0, 1.0),
    paraphrase=0.90,
    source="none: this embedder is not calibrated; cosines are used as they are",
)
"""For an unknown embedder. The threshold is high, since a wrong merge is worse than a missed one."""


@runtime_checkable
class Embedder(Protocol):
    """Embedding model. `name` and `dimension` are pinned to the store at its first write.

    A model that also gives a vector per token has `token_size`, their length, and `embed_tokens(texts)`, which returns
    what `embed` returns, and for each text int8[t, token_size]: the unit vectors of its tokens times `TOKEN_SCALE`.

    A model that was trained with a prefix before each query, or before each stored text, has `query_prefix` or
    `passage_prefix`; the engine puts it before the text.

    A model that knows no word of some texts has `gives_zeros` True, and returns zeros for such a text: words alone then
    decide. From any other model, zeros are an error.
    """

    @property
    def name(self) -> str:
        """Name of the model."""
        ...

    @property
    def dimension(self) -> int:
        """Length of its vectors."""
        ...

    def embed(self, texts: Sequence[str], /) -> Vectors32:
        """Return float32[len(texts), dimension], one row per text; the engine scales rows to length 1."""
        ...


class FullEmbedder(Embedder, Protocol):
    """An embedder with every member that is optional for `Embedder`; `models.cache.Wrapped` makes one of any.

    Attributes:
        remote: the host of a remote embedder, or whether it is remote; writes limit how long they wait for one.
        independent: whether a text has the same vector, bit for bit, in every batch.
        gives_zeros, query_prefix, passage_prefix: as in `Embedder`; False and empty for a model without them.
        token_size: length of a token vector; 0 for a model that gives none.
        calibration: the meaning of its cosines.
    """

    @property
    def remote(self) -> str | bool: ...  # noqa: D102
    @property
    def independent(self) -> bool: ...  # noqa: D102
    @property
    def gives_zeros(self) -> bool: ...  # noqa: D102
    @property
    def query_prefix(self) -> str: ...  # noqa: D102
    @property
    def passage_prefix(self) -> str: ...  # noqa: D102
    @property
    def token_size(self) -> int: ...  # noqa: D102
    @property
    def calibration(self) -> Calibration: ...  # noqa: D102

    def embed_tokens(self, texts: Sequence[str], /) -> tuple[Vectors32, Sequence[Tokens]]:
        """Return what `embed` returns, and for each text its token vectors; only if `token_size` is not 0."""
        ...

    def embed_each(self, texts: Sequence[str], /) -> list[Embedding]:
        """Return the embedding of each text, as if the text was embedded alone."""
        ...

    def forget(self) -> None:
        """Drop every vector that is kept: one may belong to a text that was erased."""
        ...


def embeddings(embedder: FullEmbedder, texts: Sequence[str]) -> list[Embedding]:
    """Return the embedding of each text, with token vectors if the embedder gives them.

    Raises:
        EmbedderError: the embedder returned something other than one vector per text.
    """
    tokens: Sequence[Any] = [None] * len(texts)
    if size := embedder.token_size:
        vectors, tokens = embedder.embed_tokens(texts)
        if len(tokens) != len(texts) or any(each.ndim != 2 or each.shape[1] != size for each in tokens):
            raise EmbedderError(f"embedder {embedder.name!r} did not return token vectors of length {size} per text.")
    else:
        vectors = embedder.embed(texts)
    units = unit_vectors(vectors, embedder.name, len(texts), embedder.dimension, gives_zeros=embedder.gives_zeros)
    return [Embedding(*pair) for pair in zip(units, tokens, strict=True)]


@runtime_checkable
class Reranker(Protocol):
    """Reranking model: reads a query and a text together, and scores the text as an answer."""

    @property
    def name(self) -> str:
        """Name of the model, for `Recall.reranker`."""
        ...

    def scores(self, query: str, texts: Sequence[str], /) -> Floats:
        """Return float64[len(texts)], larger for a better answer; the scale is the model's own."""
        ...


@dataclass(frozen=True, slots=True)
class Extract:
    """Importance of a text in [0, 1], the entities that it names, and the identity of its fact.

    `fact_key` is an identity such as `user.residence`; None if the text plainly states no fact.
    """

    importance: float
    entities: tuple[str, ...]
    fact_key: str | None = None


class Extractor(Protocol):
    """Derives fields of a memory from its text if the caller does not give them."""

    def extract(self, content: str, *, speaker: str | None = None, user_id: str | None = None) -> Extract:
        """Return the importance, entities and fact of `content`, said by `speaker` in the memory of `user_id`."""
        ...


@dataclass(frozen=True, slots=True)
class Statement:
    """A text that may state a fact, its speaker, and the user of the memory, if known."""

    content: str
    speaker: str | None = None
    user_id: str | None = None


@runtime_checkable
class FactReader(Protocol):
    """Model that reads facts from texts in which the extractor finds none."""

    @property
    def name(self) -> str:
        """Name of the model."""
        ...

    def facts(self, statements: Sequence[Statement], /) -> list[str | None]:
        """Return the `Extract.fact_key` of each text; None for a text without a fact.

        May raise anything: the write continues without it.
        """
        ...


@runtime_checkable
class Judge(Protocol):
    """Model that labels a new text as duplicate, update or contradiction of a similar older one."""

    @property
    def name(self) -> str:
        """Name of the model, for `Contradiction.because`."""
        ...

    def judge(self, pairs: Sequence[tuple[str, str]], /) -> list[Label | None]:
        """Return the label (see `Contradiction`) of each pair (new text, older text); None for no label.

        Raises:
            JudgeError: the model failed, or gave an invalid answer.
        """
        ...


@dataclass(frozen=True, slots=True)
class Summary:
    """A summary, and the ids of the memories that it is based on."""

    text: str
    sources: tuple[str, ...]


@runtime_checkable
class Summariser(Protocol):
    """Model that sums up related memories in one text."""

    @property
    def name(self) -> str:
        """Name of the model, for `ReflectReport`."""
        ...

    def summarise(self, sources: Sequence[tuple[str, str]], /) -> Summary:
        """Return the summary of memories, each given as (id, text); `Summary.sources` are some of these ids.

        Raises:
            SummariserError: the model failed, or gave an invalid answer.
        """
        ...


@dataclass(frozen=True, slots=True)
class Clustering:
    """Thresholds for clusters of memories that a reflection sums up.

    Attributes:
        tightness: least relatedness to the medoid, [0, 1], on the embedder's calibrated scale.
        share: least share of all memories on the subject, 0.05 to 1.
        least, greatest: fewest and most memories of a cluster.
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
"""Text of a model's fingerprint: its vector distinguishes models of the same name."""
SAME_MODEL: Final = 0.99
"""Least cosine of two fingerprints of one model; builds for different machines differ slightly."""


@dataclass(frozen=True, slots=True, eq=False)
class Model:
    """Identity of an embedding model, pinned to a store.

    Attributes:
        name: of the embedder.
        dimension: length of a vector.
        fingerprint: returns the unit vector of `FINGERPRINTED`, float32[dimension], or raises as the embedder does. It
            is called before the first vector is written or searched. None: name and dimension alone identify the
            model.
    """

    name: str
    dimension: int
    fingerprint: Callable[[], Vectors32] | None = None
