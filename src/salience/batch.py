"""Batch: candidates as columns, from the store to the ranking. Pure NumPy, without clock or I/O."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from salience.errors import EmbedderError

Floats = NDArray[np.float64]
Vectors32 = NDArray[np.float32]
Int8 = NDArray[np.int8]
Tokens = Int8
"""int8[t, k]: unit vectors of the tokens of a text, times `TOKEN_SCALE`."""
Rows = NDArray[np.intp]
Codes = NDArray[np.int64]
Column = NDArray[Any]


@dataclass(frozen=True, slots=True)
class ColumnSpec:
    """A column's NumPy dtype, closed range, and neutral value, which changes no ranking."""

    dtype: type[np.generic]
    low: float
    high: float
    neutral: float


_INSTANT = ColumnSpec(np.float64, -np.inf, np.inf, 0.0)
_CODE = ColumnSpec(np.int64, -1, np.inf, -1)

COLUMNS: Final[Mapping[str, ColumnSpec]] = {
    "cosine": ColumnSpec(np.float64, -1.0, 1.0, 0.0),  # of the query's and the memory's unit vectors
    "importance": ColumnSpec(np.float64, 0.0, 1.0, 0.5),
    "weight": ColumnSpec(np.float64, 0.1, 1.0, 1.0),
    "created_at": _INSTANT,  # instants: seconds since 1970 in UTC
    "updated_at": _INSTANT,
    "accessed_at": _INSTANT,  # created_at where no recall returned the memory
    "expires_at": ColumnSpec(np.float64, -np.inf, np.inf, np.inf),  # inf: never
    "event_start": ColumnSpec(np.float64, -np.inf, np.inf, np.inf),  # the time that the text states; inf: none
    "event_end": ColumnSpec(np.float64, -np.inf, np.inf, -np.inf),
    "access_count": ColumnSpec(np.int64, 0, np.inf, 0),
    "tier": ColumnSpec(np.int64, 0, 2, 1),  # index into records.TIERS
    "is_global": ColumnSpec(np.bool_, 0, 1, 0),  # the memory names no project
    "code": _CODE,  # a number for the memory within this batch's source
    "supersedes": _CODE,  # the code of the memory that this one replaces; -1: none, or one not visible
    "replaced": ColumnSpec(np.float64, 0.0, 1.0, 0.0),  # the probability that its successor replaces it; 1: a caller's
    "fact": _CODE,  # one number for each (user_id, fact_key); -1: none
    "turns_since_activation": ColumnSpec(np.float64, 0.0, np.inf, np.inf),  # in the query's session; inf: never
    "context_cosine": ColumnSpec(np.float64, -1.0, 1.0, 0.0),  # mean over the memory and its context
    "speaker_named": ColumnSpec(np.bool_, 0, 1, 0),  # the query names its speaker, or, without one, an entity of it
    "speaker": _CODE,  # one number for each speaker; -1: none
    "asks": ColumnSpec(np.bool_, 0, 1, 0),  # its text only asks
    "embedded": ColumnSpec(np.bool_, 0, 1, 1),  # the memory has a vector; without one its cosines are 0
}
"""All columns that signals and stages can read."""
PARTS: Final = frozenset({"terms", "windows", "entities", "vectors", "distinctions", "neighbours", "successors"})
"""Other parts of a batch that they can read; `terms` is `Batch.lexicon`."""

CONTEXT_RADIUS: Final = 1
"""Memories on either side, in its session, in a memory's `context_cosine`."""
WINDOW_RADIUS: Final = 2
"""Memories on either side, in its session, in a memory's window of text."""
OWN_COPIES: Final = 2
"""Copies of a memory's own text in its window."""
TOKEN_SCALE: Final = 127
"""Length of a token vector in `Tokens`."""
CORRECTED: Final = 0.5
"""Share of a term's frequency that counts where it was searched instead of a misspelt one."""
ROUNDING: Final = 1e-5
"""More than float32 arithmetic adds to the error of an inner product of unit vectors."""
PRODUCTS: Final = 1 << 22
"""Maximum inner products in memory at a time."""
KINDS: Final = ("text", "speaker", "number", "date", "name", "claim", "same", "owner", "lacks", "role")
"""Kinds of distinctions. A distinction is a detail that tells a text from similar ones, written `kind:value`."""


@dataclass(frozen=True, slots=True, eq=False)
class Vectors:
    """Unit vectors of a batch's rows, read from a larger matrix on demand.

    Attributes:
        matrix: float32[m, d].
        places: intp[n], the place of each row in `matrix`; -1 for a memory without a vector.
    """

    matrix: Vectors32
    places: Rows

    def at(self, rows: Rows) -> Vectors32:
        """Return float32[len(rows), d], zeros for a memory without a vector."""
        places = self.places[rows]
        if not len(self.matrix):
            return np.zeros((len(places), self.matrix.shape[1]), np.float32)
        found = self.matrix[places]
        found[places < 0] = 0
        return found

    def cosines(self, rows: Rows, others: Rows) -> Floats:
        """Return float64[len(rows), len(others)], the cosine of each row to each of the others."""
        return cosines(self.at(rows), self.at(others))

    def take(self, rows: Rows) -> Vectors:
        """Return the vectors of `rows`, in that order."""
        return replace(self, places=self.places[rows])


@dataclass(frozen=True, slots=True, eq=False)
class Postings:
    """The rows in which each term of a query occurs: term i in `rows[offsets[i]:offsets[i + 1]]`.

    Attributes:
        rows: intp[h], ascending for each term.
        frequency: float64[h], >= 1.
        offsets: int64[t + 1].
    """

    rows: Rows
    frequency: Floats
    offsets: Codes

    @classmethod
    def of(cls, terms: Sequence[tuple[Rows, Floats]]) -> Postings:
        """Return the postings of terms, from the rows and the frequencies of each."""
        if not terms:
            return cls(np.empty(0, np.intp), np.empty(0), np.zeros(1, np.int64))
        rows, frequency = zip(*terms, strict=True)
        offsets = offsets_of(np.array([*map(len, rows)], np.int64))
        return cls(np.concatenate(rows, dtype=np.intp), np.concatenate(frequency, dtype=np.float64), offsets)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __iter__(self) -> Iterator[tuple[Rows, Floats]]:
        """Yield the rows and the frequencies of each term."""
        return map(self.of_term, range(len(self)))

    def of_term(self, term: int) -> tuple[Rows, Floats]:
        """Return the rows and the frequencies of one term."""
        start, end = self.offsets[term : term + 2].tolist()
        return self.rows[start:end], self.frequency[start:end]

    @property
    def lengths(self) -> Codes:
        """int64[t], the number of rows in which each term occurs."""
        lengths: Codes = self.offsets[1:] - self.offsets[:-1]
        return lengths

    def take(self, rows: Rows, count: int) -> Postings:
        """Return the postings in `rows` (ascending) out of `count` rows, which are then numbered from 0."""
        place = np.full(count, -1, np.intp)
        place[rows] = np.arange(len(rows))
        moved = place[self.rows]
        kept = moved >= 0
        return Postings(moved[kept], self.frequency[kept], np.concatenate(([0], np.cumsum(kept)))[self.offsets])


@dataclass(frozen=True, slots=True, eq=False)
class Lexicon:
    """Term statistics for BM25.

    Attributes:
        documents: number of live memories visible in the scope, before any filter.
        average_length: their mean length in terms.
        document_frequency: float64[t], number of them that contain each query term.
        postings: of the terms, in the order of the query.
        length: float64[n], the length of each row in terms.
    """

    documents: int
    average_length: float
    document_frequency: Floats
    postings: Postings
    length: Floats

    def of_terms(self, places: Sequence[int]) -> Lexicon:
        """Return the statistics of some terms, by their places in the query."""
        held = Postings.of([self.postings.of_term(place) for place in places])
        return replace(self, document_frequency=self.document_frequency[list(places)], postings=held)

    def take(self, rows: Rows) -> Lexicon:
        """Return the statistics with the postings of `rows` (ascending) only."""
        return replace(self, postings=self.postings.take(rows, len(self.length)), length=self.length[rows])


@dataclass(frozen=True, slots=True, eq=False)
class Ragged:
    """A list of numbers for each row: `values[offsets[i]:offsets[i + 1]]` are those of row i."""

    offsets: NDArray[np.int64]
    values: NDArray[np.int64]

    @classmethod
    def of(cls, lists: list[list[int]]) -> Ragged:
        """Return the lists, one a row, in this form."""
        offsets = offsets_of(np.fromiter((len(item) for item in lists), np.int64, len(lists)))
        return cls(offsets, np.array([value for item in lists for value in item], np.int64))

    def of_row(self, row: int) -> list[int]:
        """Return the list of one row."""
        values: list[int] = self.values[self.offsets[row] : self.offsets[row + 1]].tolist()
        return values

    def pairs(self) -> tuple[Rows, Codes]:
        """Return (row, value) for every value, rows ascending."""
        return np.repeat(np.arange(len(self.offsets) - 1), np.diff(self.offsets)), self.values

    def take(self, rows: Rows) -> Ragged:
        """Return the lists of `rows`, in that order."""
        lengths = np.diff(self.offsets)[rows]
        offsets = offsets_of(lengths)
        starts = np.repeat(self.offsets[rows] - offsets[:-1], lengths)
        return Ragged(offsets, self.values[starts + np.arange(offsets[-1])])


@dataclass(frozen=True, slots=True, eq=False)
class Entities:
    """Entities that memories and the query name.

    Attributes:
        of_row: entity codes of each row.
        of_query: int64[q], codes of the known entities that the query names.
        frequency: float64[q], number of visible memories that name each entity of `of_query`, >= 1.
        documents: number of visible memories.
    """

    of_row: Ragged
    of_query: Codes
    frequency: Floats
    documents: int

    def take(self, rows: Rows) -> Entities:
        """Return the entities of `rows`, in that order."""
        return replace(self, of_row=self.of_row.take(rows))


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Candidates, rows ordered by id.

    Attributes:
        ids: object[n] of str, ascending.
        columns: the needed columns of `COLUMNS`, each of length n.
        vectors, lexicon, windows, entities: None unless needed. `windows` is the lexicon of texts in context: each
            memory's own text `OWN_COPIES` times, and the texts of the `WINDOW_RADIUS` memories on either side of it.
        distinctions: codes (see `coded`) of each memory's distinctions, in the order of the text; None unless needed.
        asked: codes of `Need.asked`; None unless distinctions are needed.
        rivals: each of `Need.rivals` -> the rows that contain it, ascending.
        complete: whether the batch holds every visible memory that passes the filter.
        beyond: upper bound of the cosine to the query of the memories left out; an estimate if `approximate`.
        approximate: whether an approximate index chose candidates, so that a nearer memory may be left out.
        floor: upper bound, exclusive, of their score, by `Need.pruning`; None if unknown.
        participants: number of all memories, left out or not, that are neither expired nor outdated; None if unknown.
        late: float64[n], the late interaction of the rows of a shortlist (see `rank.stages.shortlist`), NaN for the
            others; None before the shortlist, and without token vectors.
        neighbours: object[n, 2] of ids, the memories before and after each one in its session (see `Need`), "" for
            none; None unless needed.
        successors: object[n] of ids, the visible memory that replaces each one, whatever the filter, "" for none; None
            unless needed.
        corrected: term of the need that no visible memory contains -> the similar term that was searched instead.
        outside: a few memories that `Need.outside` asks for, with the statistics of all of these; None for none.
    """

    ids: NDArray[np.object_]
    columns: Mapping[str, Column] = field(default_factory=dict)
    vectors: Vectors | None = None
    lexicon: Lexicon | None = None
    windows: Lexicon | None = None
    entities: Entities | None = None
    distinctions: Ragged | None = None
    asked: Codes | None = None
    rivals: Mapping[str, Rows] = field(default_factory=dict)
    complete: bool = True
    beyond: float = 1.0
    approximate: bool = False
    floor: float | None = None
    participants: int | None = None
    neighbours: NDArray[np.object_] | None = None
    successors: NDArray[np.object_] | None = None
    late: Floats | None = None
    corrected: Mapping[str, str] = field(default_factory=dict)
    outside: Batch | None = None

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, name: str) -> Column:
        return self.columns[name]

    def with_columns(self, **columns: Column) -> Batch:
        """Return this batch with `columns` added or replaced."""
        return replace(self, columns={**self.columns, **columns})

    def take(self, rows: Rows) -> Batch:
        """Return the batch of `rows`, which are ascending to preserve the order by id."""
        return replace(
            self,
            ids=self.ids[rows],
            columns={name: column[rows] for name, column in self.columns.items()},
            vectors=self.vectors and self.vectors.take(rows),
            lexicon=self.lexicon and self.lexicon.take(rows),
            windows=self.windows and self.windows.take(rows),
            entities=self.entities and self.entities.take(rows),
            distinctions=self.distinctions and self.distinctions.take(rows),
            rivals={word: np.flatnonzero(np.isin(rows, held)) for word, held in self.rivals.items()},
            neighbours=None if self.neighbours is None else self.neighbours[rows],
            successors=None if self.successors is None else self.successors[rows],
            late=None if self.late is None else self.late[rows],
        )


def offsets_of(lengths: Column) -> Codes:
    """Return int64[n + 1], the start of each of n adjacent lists of these lengths, and the end of the last."""
    offsets = np.zeros(len(lengths) + 1, np.int64)
    lengths.cumsum(out=offsets[1:])
    return offsets


def coded(distinction: str, number: int) -> int:
    """Return the code of a distinction with the store's number `number` (>= 0); code % len(KINDS) is its kind."""
    return number * len(KINDS) + KINDS.index(distinction.partition(":")[0])


def cosines(vectors: Vectors32, query: Vectors32) -> Floats:
    """Return the dot product of each row of float32[n, d] with float32[d] or float32[m, d]: float64[n] or [n, m].

    `vecdot` gives a row the same bits whatever rows are beside it, and a matrix product does not. So equal texts tie
    exactly, on every store and under every filter.
    """
    dots: Vectors32 = np.vecdot(vectors if query.ndim == 1 else vectors[:, None], query)
    return np.clip(dots.astype(np.float64), -1.0, 1.0)


def approximate_cosines(queries: Vectors32, vectors: Vectors32) -> Iterator[Vectors32]:
    """Yield, for each row of float32[m, d], its cosine to each row of float32[n, d], within `ROUNDING` of `cosines`.

    Matrix products of some rows at a time are many times as fast.
    """
    size = max(1, PRODUCTS // max(len(vectors), 1))
    for start in range(0, len(queries), size):
        yield from queries[start : start + size] @ vectors.T


def rows_above(queries: Vectors32, vectors: Vectors32, above: float) -> Iterator[tuple[Rows, Floats]]:
    """Yield, for each row of float32[m, d], the rows of float32[n, d] with a cosine above `above`, and the cosines."""
    for query, about in zip(queries, approximate_cosines(queries, vectors), strict=True):
        close = np.flatnonzero(about > above - ROUNDING)
        exact = cosines(vectors[close], query)
        kept = exact > above
        yield close[kept], exact[kept]


@cache
def int8_products() -> Callable[[Int8, Int8], Vectors32] | None:
    """Return the kernel for inner products, (int8[n, d], int8[k, d]) -> float32[n, k]; None if it is not installed.

    NumPy's own product starts a thread per core, which on a busy machine takes ten times as long.
    """
    try:
        import numkong  # no wheel on some platforms: NumPy then multiplies the float32 vectors
    except ImportError:
        return None

    def products(rows: Int8, queries: Int8) -> Vectors32:
        if len(queries) == 1 and len(rows):  # for one query 1.4 times as fast as packing it, for two half as fast
            return np.asarray(numkong.cdist(queries, rows, metric="dot", out_dtype="float32")).T
        return np.asarray(numkong.dots_packed(rows, numkong.dots_pack(queries))).astype(np.float32)

    return products


@dataclass(frozen=True, slots=True, eq=False)
class Embedding:
    """A text's unit vector, float32[d], and the vectors of its tokens; None if the model gives none.

    The vector is zeros if the model knows no word of the text.
    """

    vector: Vectors32
    tokens: Tokens | None = None

    @property
    def is_known(self) -> bool:
        """Whether the model knows a word of the text."""
        return bool(self.vector.any())


def packed(tokens: Tokens) -> bytes:
    """Return token vectors as bytes: k in two bytes, little endian, then the rows."""
    length: int = tokens.shape[1]
    return length.to_bytes(2, "little") + tokens.tobytes()


def unpacked(data: bytes) -> Tokens:
    """Return the token vectors of `packed`, read-only.

    Raises:
        IndexError, TypeError, ValueError: other bytes, or no bytes.
    """
    return np.frombuffer(data, np.int8, offset=2).reshape(-1, data[0] | data[1] << 8)


def unit_vectors(vectors: object, embedder: str, texts: int, dimension: int, *, gives_zeros: bool = False) -> Vectors32:
    """Return float32[texts, dimension] of length 1 from the answer of an embedder; see `Embedder` for `gives_zeros`.

    Raises:
        EmbedderError: another shape, NaN or infinity, or an unexpected vector of length 0. It names the embedder.
    """
    array = np.asarray(vectors, dtype=np.float32)
    if array.shape != (texts, dimension):
        raise EmbedderError(
            f"embedder {embedder!r} returned an array of shape {array.shape} for {texts} texts; expected "
            f"({texts}, {dimension}). Check its `dimension`."
        )
    if not np.isfinite(array).all():
        raise EmbedderError(f"embedder {embedder!r} returned NaN or infinity. Check the model or the endpoint.")
    length = np.linalg.norm(array.astype(np.float64), axis=1, keepdims=True)
    if (length == 0).any() and not gives_zeros:
        raise EmbedderError(f"embedder {embedder!r} returned a vector of zeros. Check the model or the endpoint.")
    units: Vectors32 = (array / np.where(length > 0, length, 1.0)).astype(np.float32)
    return units
