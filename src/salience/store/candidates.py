"""Some memories of a view as a batch: their columns, and the statistics that they are told of against. Pure NumPy."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np

from salience.batch import (
    COLUMNS,
    Batch,
    Codes,
    Column,
    Entities,
    Floats,
    Lexicon,
    Postings,
    Ragged,
    Rows,
    Vectors,
    offsets_of,
)
from salience.lazy import lazy
from salience.ports import Need
from salience.store.arena import Arena
from salience.store.ascending import distinct, position
from salience.store.distances import in_context, to_query
from salience.store.occurrences import Occurrences
from salience.store.parsed import NEVER, runs
from salience.store.roster import Bools, find
from salience.store.values import MICROSECONDS
from salience.store.view import Places, View

_FEW: Final = 8
"""A part of the whole so small is looked up in it, and not the whole in an array."""
_TOGETHER: Final = 8192
"""Occurrences of all terms that are sought at once at most."""


@dataclass(frozen=True, slots=True)
class Activations:
    """What a session recalled: its clock, and id -> the turn at which it last returned that memory."""

    clock: int = 0
    turns: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Asked:
    """What a need asks of an arena.

    Attributes:
        arena: the snapshot.
        view: what the need's scope sees of it.
        need: what to bring.
        activations: those of the session that asks; read for `turns_since_activation` alone.
    """

    arena: Arena
    view: View
    need: Need
    activations: Activations

    @lazy
    def terms(self) -> tuple[Occurrences, ...]:
        """Where each term of the need stands."""
        numbers = self.arena.numbers.terms
        return self.view.terms([numbers.get(term, -1) for term in self.need.terms])

    @lazy
    def entities(self) -> dict[int, Places]:
        """The places of the memories that name each entity of the need which some memory names."""
        naming = {number: self.view.naming(number) for number in self.arena.numbers.entities.known(self.need.names)}
        return {number: places for number, places in naming.items() if len(places)}

    @lazy
    def speakers(self) -> list[int]:
        """The numbers of the speakers whom the need means."""
        return list(self.arena.numbers.speakers.meant(self.need.speakers).values())

    @lazy
    def spoken_of(self) -> Places:
        """The places of the memories that nobody said and that name one of the need's speakers, ascending."""
        known = self.arena.numbers.entities.known(self.need.speakers)
        found = [places[self.view.speaker[places] == 0] for places in map(self.view.naming, known)]
        return distinct(*found) if found else np.empty(0, np.intp)

    @lazy
    def named(self) -> Bools | None:
        """bool[m], which memories a speaker whom the query names said, or nobody and they name one; None for none."""
        if not (self.speakers or len(self.spoken_of)):
            return None
        named = np.zeros(len(self.view), np.bool_)
        for number in self.speakers:
            named |= self.view.speaker == number
        named[self.spoken_of] = True
        return named


@dataclass(frozen=True, eq=False)
class Candidates:
    """The memories of an answer, by id: their rows and slots in the arena, and their places in the view."""

    asked: Asked
    rows: Rows
    slots: Rows
    places: Places
    measured: tuple[Floats, Floats] | None = None
    """As `cosines`, where they are known already."""

    @classmethod
    def at(cls, asked: Asked, places: Places, cosines: tuple[Floats, Floats] | None = None) -> Candidates:
        """Return the memories at some places, which stand in no particular order, as do their `cosines`."""
        order = np.argsort(asked.view.arena.rows[asked.view.slots[places]])
        found = cls.lying(asked, places[order])
        return found if cosines is None else replace(found, measured=(cosines[0][order], cosines[1][order]))

    @classmethod
    def lying(cls, asked: Asked, places: Places) -> Candidates:
        """Return the same in the order of `places`, and not by id."""
        slots = asked.view.slots[places]
        return cls(asked, asked.view.arena.rows[slots].astype(np.intp), slots, places)

    @property
    def arena(self) -> Arena:
        """The snapshot."""
        return self.asked.arena

    @property
    def view(self) -> View:
        """What the need's scope sees of it."""
        return self.asked.view

    @property
    def need(self) -> Need:
        """What to bring."""
        return self.asked.need

    @lazy
    def cosines(self) -> tuple[Floats, Floats]:
        """The cosine of each to the query, and its mean over the context."""
        if self.measured is not None:
            return self.measured
        if "context_cosine" in self.need.columns:
            return in_context(self.view, self.places, self.need)
        return to_query(self.view, self.places, self.need), np.zeros(0)

    def fixed(self, name: str) -> Column:
        """Return a column by slot."""
        return self.arena.slots[name][self.slots]

    def counter(self, name: str) -> Column:
        """Return a column that changes without a new version."""
        return self.arena.counter(name, self.slots)

    def column(self, name: str) -> Column:
        """Return one of `batch.COLUMNS`."""
        return np.asarray(_COLUMNS[name](self), COLUMNS[name].dtype)

    def with_columns(self, names: Iterable[str], moments: Floats | None = None) -> Batch:
        """Return some columns and no more, but for the moments of all; the memories stay unnamed."""
        unnamed = np.empty(len(self.places), np.object_)
        return Batch(unnamed, {name: self.column(name) for name in names}, moments=moments)

    def batch(self, **others: Any) -> Batch:
        """Return all that the need asks for, and other fields of a batch as they are given."""
        need = self.need
        return Batch(
            self.arena.ids[self.rows],
            {name: self.column(name) for name in sorted(need.columns)},
            self.vectors() if need.vectors else None,
            self.lexicon() if need.terms else None,
            self.windows() if need.windows and need.terms else None,
            self.entities() if need.entities else None,
            self.distinctions() if need.distinctions else None,
            **others,
        )

    def vectors(self) -> Vectors:
        """Return the vectors, in the arena's own matrix, which nobody else may write to."""
        matrix = self.arena.slots["vector"]
        matrix.flags.writeable = False  # of this view, not of the arena
        return Vectors(matrix, np.where(self.fixed("has_vector"), self.slots, -1))

    def lexicon(self) -> Lexicon:
        """Return the statistics of the texts that the scope sees, and the postings of these."""
        held = [term.texts for term in self.asked.terms]
        return self._lexicon(held, False, self.view.average_length, self.view.length)

    def windows(self) -> Lexicon:
        """Return the same of the windows of these texts."""
        held = [len(term) for term in self.asked.terms]
        return self._lexicon(held, True, self.view.average_window, self.view.window_length)

    def _lexicon(self, held: Sequence[int], is_window: bool, average: float, length: Floats) -> Lexicon:
        return Lexicon(
            documents=len(self.view),
            average_length=average,
            document_frequency=np.array(held, np.float64),
            postings=self._met.postings(is_window),
            length=length[self.places],
        )

    @lazy
    def _met(self) -> _Met:
        """Where the terms stand in these memories."""
        terms = self.asked.terms
        if sum(map(len, terms)) <= _TOGETHER:
            return _Met.of_all(terms, self.places, len(self.view))
        return _Met.of_each(terms, self.places, len(self.view))

    def entities(self) -> Entities:
        """Return the entities of these memories; those that some memory which the scope sees names are the known."""
        known = self.asked.entities
        frequency = np.array([len(places) for places in known.values()], np.float64)
        of_row = self._ragged("entities", self.arena.mentions["number"])
        return Entities(of_row, np.array(list(known), np.int64), frequency, len(self.view))

    def distinctions(self) -> Ragged:
        """Return the codes of the distinctions, in the order of each text."""
        return self._ragged("distinctions", self.arena.distinctions["code"])

    def _ragged(self, name: str, values: Column) -> Ragged:
        """Return the runs of `values` of these; columns `name` and `name_from` say how long they are and where."""
        lengths = self.fixed(name)
        places = runs(self.fixed(f"{name}_from"), lengths)
        return Ragged(offsets_of(lengths), values[places].astype(np.int64, copy=False))


@dataclass(frozen=True, slots=True, eq=False)
class _Met:
    """Occurrences of the terms of a query in some memories and their windows, term by term, in the order of rows.

    Attributes:
        rows: intp[h].
        own: float64[h], how often each term stands in the text; 0 for one that it only stands beside.
        windows: float64[h], likewise in the window.
        offsets: int64[t + 1], as in `Postings`.
    """

    rows: Rows
    own: Floats
    windows: Floats
    offsets: Codes

    @classmethod
    def of_all(cls, terms: Sequence[Occurrences], places: Places, count: int) -> _Met:
        """Return those of terms that stand in few places: all are sought in one array, which takes few steps."""
        firsts = np.arange(len(terms)) * count
        held = np.concatenate([term.places for term in terms]) + np.repeat(firsts, [len(term) for term in terms])
        found = position(held, (firsts[:, None] + places).ravel())
        there = np.flatnonzero(found >= 0)
        found = found[there]
        own, windows = (np.concatenate([term.frequency(one) for term in terms])[found] for one in (False, True))
        offsets = np.searchsorted(there, np.arange(len(terms) + 1) * len(places))
        return cls(there % max(len(places), 1), own.astype(np.float64), windows.astype(np.float64), offsets)

    @classmethod
    def of_each(cls, terms: Sequence[Occurrences], places: Places, count: int) -> _Met:
        """Return those of any terms, `count` being the number of memories in the view."""
        met = [_met(term, places, count) for term in terms]
        own, windows = (
            np.concatenate([term.frequency(one)[found] for term, (_, found) in zip(terms, met, strict=True)])
            for one in (False, True)
        )
        rows = np.concatenate([rows for rows, _ in met])
        offsets = np.cumsum([0, *(len(rows) for rows, _ in met)])
        return cls(rows, own.astype(np.float64), windows.astype(np.float64), offsets)

    def postings(self, is_window: bool) -> Postings:
        """Return them in texts or in windows."""
        if is_window:
            return Postings(self.rows, self.windows, self.offsets)
        kept = self.own.nonzero()[0]
        return Postings(self.rows[kept], self.own[kept], kept.searchsorted(self.offsets))


def _met(term: Occurrences, places: Places, count: int) -> tuple[Rows, Rows]:
    """Return which of some places have a term in their windows, ascending, and where it holds each."""
    if len(places) * _FEW <= count:
        found: Column = position(term.places, places)
    else:
        where = np.full(count, -1, np.int32)
        where[term.places] = np.arange(len(term), dtype=np.int32)
        found = where[places]
    rows = np.flatnonzero(found >= 0)
    return rows, found[rows]


def _expires_at(known: Candidates) -> Column:
    moments = known.fixed("expires_at")
    return np.where(moments == NEVER, np.inf, moments / MICROSECONDS)


def _supersedes(known: Candidates) -> Column:
    """Return the number of the memory that each replaces, -1 where the scope does not show that one."""
    targets = known.fixed("supersedes")
    if not targets.any():
        return np.full(len(targets), -1, np.int64)
    shown = np.zeros(len(known.arena.numbers.ids), np.bool_)
    shown[known.view.column("id")] = True
    return np.where(shown[targets], targets, -1)


def _successor(known: Candidates) -> Column:
    successor = known.view.successor
    return np.full(len(known.places), -1, np.int64) if successor is None else successor[known.places]


def _speaker_named(known: Candidates) -> Column:
    named = known.asked.named
    return np.zeros(len(known.places), np.bool_) if named is None else named[known.places]


def _turns(known: Candidates) -> Column:
    recalled = known.asked.activations.turns
    order = np.argsort(known.rows)  # they may stand in any order, rows stand by id
    places, there = find(known.arena.ids[known.rows[order]], np.array(list(recalled), dtype=object))
    turns = np.full(len(known.rows), np.inf)
    turns[order[places[there]]] = known.asked.activations.clock - np.array(list(recalled.values()), np.float64)[there]
    return turns


_COLUMNS: Final[Mapping[str, Callable[[Candidates], Column]]] = {
    "cosine": lambda known: known.cosines[0],
    "importance": lambda known: known.counter("importance"),
    "weight": lambda known: known.fixed("weight"),
    "created_at": lambda known: known.fixed("created_at") / MICROSECONDS,
    "updated_at": lambda known: known.fixed("updated_at") / MICROSECONDS,
    "accessed_at": lambda known: known.counter("accessed_at") / MICROSECONDS,
    "expires_at": _expires_at,
    "access_count": lambda known: known.counter("access_count"),
    "tier": lambda known: known.fixed("tier"),
    "is_global": lambda known: known.fixed("project") == 0,
    "code": lambda known: known.fixed("id"),
    "supersedes": _supersedes,
    "successor": _successor,
    "fact": lambda known: np.where(known.fixed("fact") == 0, -1, known.fixed("fact")),
    "turns_since_activation": _turns,
    "context_cosine": lambda known: known.cosines[1],
    "speaker": lambda known: np.where(known.fixed("speaker") == 0, -1, known.fixed("speaker")),
    "speaker_named": _speaker_named,
    "embedded": lambda known: known.fixed("has_vector"),
}
