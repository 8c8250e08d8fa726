"""Candidates as columns: what a store brings and what ranking computes on. Pure NumPy; no clock, no I/O."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from salience.errors import EmbedderError
from salience.lazy import lazy
from salience.records import Replaceable

Floats = NDArray[np.float64]
Vectors32 = NDArray[np.float32]
Rows = NDArray[np.intp]
Codes = NDArray[np.int64]
Column = NDArray[Any]


@dataclass(frozen=True, slots=True)
class ColumnSpec:
    """What a column holds: NumPy dtype, closed range, and the value that changes no ranking."""

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
    "access_count": ColumnSpec(np.int64, 0, np.inf, 0),
    "tier": ColumnSpec(np.int64, 0, 2, 1),  # index into records.TIERS
    "is_global": ColumnSpec(np.bool_, 0, 1, 0),  # the memory names no project
    "code": _CODE,  # a number for the memory within this batch's source
    "supersedes": _CODE,  # the code of the memory that this one replaces; -1: none, or one not visible
    "successor": _CODE,  # the code of the visible memory that holds in its place, whatever the filter; -1: none
    "fact": _CODE,  # one number for each (user_id, fact_key); -1: none
    "turns_since_activation": ColumnSpec(np.float64, 0.0, np.inf, np.inf),  # in the query's session; inf: never
    "context_cosine": ColumnSpec(np.float64, -1.0, 1.0, 0.0),  # mean over the memory and `NEAREST` on either side
    "speaker_named": ColumnSpec(np.bool_, 0, 1, 0),  # the query names who said it, or, said by none, whom it names
    "speaker": _CODE,  # one number for each speaker; -1: none
    "embedded": ColumnSpec(np.bool_, 0, 1, 1),  # the memory has a vector; without one its cosines are 0
}
"""Every column that a signal or a stage may read."""

NEAREST: Final = 1
"""How many memories on either side, in its session, a memory's `context_cosine` takes in."""
REACH: Final = 2
"""How many memories on either side, in its session, a memory's window of text takes in."""
OWN: Final = 2
"""How often a memory's own text stands in its window."""
_FEW: Final = 32
"""So few rows are compared with each other once."""
_FIRST: Final = np.arange(1024)
_FIRST.flags.writeable = False
KINDS: Final = ("text", "speaker", "number", "date", "name", "claim")
"""Kinds of what tells a text from others; a distinction is a text `kind:value`."""


@dataclass(frozen=True, eq=False)
class Vectors:
    """Unit vectors of a batch's rows, taken from a larger matrix only when asked for.

    Attributes:
        matrix: float32[m, d].
        places: intp[n], the place of each row in `matrix`; -1 for a memory without a vector.
    """

    matrix: Vectors32
    places: Rows

    def at(self, rows: Rows) -> Vectors32:
        """Return float32[len(rows), d], a zero row for a memory without a vector."""
        places = self.places[rows]
        taken = self.matrix[places] if len(self.matrix) else np.zeros((len(places), self.matrix.shape[1]), np.float32)
        if (places < 0).any():
            taken = np.where((places < 0)[:, None], np.float32(0), taken)
        return taken

    def cosines(self, rows: Rows, others: Rows) -> Floats:
        """Return float64[len(rows), len(others)], the cosine of each of some rows to each of others."""
        if len(self.places) <= _FEW:
            return self._alike[rows[:, None], others]
        return cosines(self.at(rows), self.at(others))

    @lazy
    def _alike(self) -> Floats:
        """float64[n, n], the cosine of each row to each other one; more than one stage asks for those of few rows."""
        matrix = self.at(upto(len(self.places)))
        return cosines(matrix, matrix)

    def take(self, rows: Rows) -> Vectors:
        """Return the vectors of `rows`, in that order."""
        return replace(self, places=self.places[rows])


@dataclass(frozen=True, slots=True, eq=False)
class Postings:
    """Where the terms of a query occur, term by term: term i in `rows[offsets[i]:offsets[i + 1]]`.

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
        """Return those of terms of which the rows and the frequencies are given."""
        rows, frequency = (
            np.concatenate([np.empty(0, dtype), *(term[one] for term in terms)])
            for one, dtype in ((0, np.intp), (1, np.float64))
        )
        return cls(rows, frequency, np.cumsum([0, *(len(rows) for rows, _ in terms)]))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __iter__(self) -> Iterator[tuple[Rows, Floats]]:
        """Yield the rows of each term, and the frequencies."""
        return map(self.of_term, range(len(self)))

    def of_term(self, term: int) -> tuple[Rows, Floats]:
        """Return the rows of one term, and the frequencies."""
        held = slice(*self.offsets[term : term + 2].tolist())
        return self.rows[held], self.frequency[held]

    @property
    def lengths(self) -> Codes:
        """int64[t], in how many rows each term occurs."""
        lengths: Codes = self.offsets[1:] - self.offsets[:-1]
        return lengths

    def take(self, rows: Rows, count: int) -> Postings:
        """Return those of `rows` (ascending) out of `count`."""
        place = np.full(count, -1, np.intp)
        place[rows] = np.arange(len(rows))
        moved = place[self.rows]
        kept = moved >= 0
        return Postings(moved[kept], self.frequency[kept], np.concatenate(([0], np.cumsum(kept)))[self.offsets])


@dataclass(frozen=True, slots=True, eq=False)
class Lexicon:
    """The term statistics that BM25 needs.

    Attributes:
        documents: how many live memories are visible in the scope, before any filter.
        average_length: their mean length in terms.
        document_frequency: float64[t], how many of them hold each query term.
        postings: of the terms in the order of the query.
        length: float64[n], the length of each row in terms.
    """

    documents: int
    average_length: float
    document_frequency: Floats
    postings: Postings
    length: Floats

    def of_terms(self, places: Sequence[int]) -> Lexicon:
        """Return the statistics of some of the terms only, by their places in the query."""
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
    """Which entities each memory names, and which of them the query names.

    Attributes:
        of_row: entity codes of each row.
        of_query: int64[q], codes of the known entities that the query names.
        frequency: float64[q], how many visible memories name each of those, >= 1.
        documents: how many memories are visible.
    """

    of_row: Ragged
    of_query: Codes
    frequency: Floats
    documents: int

    def take(self, rows: Rows) -> Entities:
        """Return the entities of `rows`, in that order."""
        return replace(self, of_row=self.of_row.take(rows))


@dataclass(frozen=True, eq=False)
class Batch(Replaceable):
    """Candidates, rows ordered by id.

    Attributes:
        ids: object[n] of str, ascending.
        columns: the columns that were needed, each of length n and as `COLUMNS` says.
        vectors, lexicon, windows, entities: None unless needed. `windows` is the lexicon of texts in context: each
            memory's own text `OWN` times and that of the `REACH` memories on either side of it.
        distinctions: what tells each memory's text from others, in order; None unless needed. Codes as of `coded`.
        complete: whether every visible memory that passes the filter is here.
        beyond: a cosine to the query that none of those which are not here exceeds, as far as an index can tell.
        floor: a score that each of those scores less than, by `Need.pruning`; None where that is not known.
        standing: how many there are with those, without the ones that are expired or outdated; likewise.
        moments: float64, the distinct `created_at` of all that `standing` counts, ascending; None unless needed.
    """

    ids: NDArray[np.object_]
    columns: Mapping[str, Column] = field(default_factory=dict)
    vectors: Vectors | None = None
    lexicon: Lexicon | None = None
    windows: Lexicon | None = None
    entities: Entities | None = None
    distinctions: Ragged | None = None
    complete: bool = True
    beyond: float = 1.0
    floor: float | None = None
    standing: int | None = None
    moments: Floats | None = None

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, name: str) -> Column:
        return self.columns[name]

    def with_columns(self, **columns: Column) -> Batch:
        """Return this batch with `columns` added or replaced."""
        return self.replace(columns={**self.columns, **columns})

    def take(self, rows: Rows) -> Batch:
        """Return the batch of `rows` (ascending, so that the order by id stays)."""
        return replace(
            self,
            ids=self.ids[rows],
            columns={name: column[rows] for name, column in self.columns.items()},
            vectors=self.vectors and self.vectors.take(rows),
            lexicon=self.lexicon and self.lexicon.take(rows),
            windows=self.windows and self.windows.take(rows),
            entities=self.entities and self.entities.take(rows),
            distinctions=self.distinctions and self.distinctions.take(rows),
        )


def upto(count: int) -> Rows:
    """Return 0 to `count` - 1, not to be written to; few are made once, since `arange` lets go of Python's lock."""
    return _FIRST[:count] if count <= len(_FIRST) else np.arange(count)


def offsets_of(lengths: Column) -> Codes:
    """Return int64[n + 1], where each of n lists of some lengths begins that lie one after the other, and their end."""
    offsets = np.zeros(len(lengths) + 1, np.int64)
    lengths.cumsum(out=offsets[1:])
    return offsets


def coded(distinction: str, number: int) -> int:
    """Return the code of a distinction that a store numbers `number` (>= 0): its place in `KINDS` is code % kinds."""
    return number * len(KINDS) + KINDS.index(distinction.partition(":")[0])


def cosines(vectors: Vectors32, query: Vectors32) -> Floats:
    """Return the dot product of each row of float32[n, d] with float32[d] or float32[m, d]: float64[n] or [n, m].

    `vecdot` gives a row the same bits wherever it stands and whatever stands beside it, which a matrix product does
    not. Equal texts so tie exactly, on every store and under every filter.
    """
    dots: Vectors32 = np.vecdot(vectors if query.ndim == 1 else vectors[:, None], query)
    return np.clip(dots.astype(np.float64), -1.0, 1.0)


def unit_vectors(vectors: object, embedder: str, texts: int, dimension: int) -> Vectors32:
    """Return float32[texts, dimension] of length 1 from what an embedder returned.

    Raises:
        EmbedderError: another shape, NaN or infinity, or a vector of length 0. It names the embedder.
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
    if (length == 0).any():
        raise EmbedderError(f"embedder {embedder!r} returned a vector of zeros. Check the model or the endpoint.")
    units: Vectors32 = (array / length).astype(np.float32)
    return units
