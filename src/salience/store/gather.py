"""A need answered from an arena: masks, statistics and columns. Pure NumPy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

import numpy as np

from salience.batch import (
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
)
from salience.ports import Need
from salience.records import ANY, NARROWING, TIERS, Filter, Scope
from salience.store.arena import NEVER, Arena, Bools, find, runs
from salience.store.arena_context import Line, context_cosine, line_up, windows
from salience.store.distances import nearest, to_query, within
from salience.store.values import MICROSECONDS, means, microseconds

_UNKNOWN: Final = -1


@dataclass(frozen=True, slots=True)
class Activations:
    """What a session recalled: its clock, and id -> the turn at which it last returned that memory."""

    clock: int = 0
    turns: Mapping[str, int] = field(default_factory=dict)


def gather(arena: Arena, need: Need, activations: Activations) -> Batch:
    """Return the candidates that `need` asks for.

    Args:
        arena: the tenant's memories.
        need: what to bring.
        activations: those of the session that asks; read for `turns_since_activation` alone.
    """
    seen = visible(arena, need.scope)
    wanted = np.flatnonzero((seen & accepted(arena, need.filter))[arena.order])
    measured = "cosine" in need.columns or need.candidates is not None
    cosine = to_query(arena, arena.order[wanted], need) if measured else None
    picked = _picked(arena, wanted, cosine, need)
    rows = wanted[picked]
    known = Candidates(arena, need, seen, rows, arena.order[rows], activations)
    own = {} if cosine is None else {"cosine": cosine[picked]}
    found = [arena.terms.find(arena.numbers.terms.get(term, _UNKNOWN)) for term in need.terms]
    return Batch(
        arena.ids[rows],
        {name: own[name] if name in own else _COLUMNS[name](known) for name in sorted(need.columns)},
        vectors(known) if need.vectors else None,
        lexicon(known, found) if found else None,
        windows(arena, known.line, seen, known.slots, found) if need.windows and found else None,
        entities(known, need.names) if need.entities else None,
        distinctions(known) if need.distinctions else None,
        complete=len(rows) == len(wanted),
        beyond=1.0 if cosine is None else float(np.delete(cosine, picked).max(initial=-1.0)),
    )


def visible(arena: Arena, scope: Scope) -> Bools:
    """Return, by slot, whether it is live and visible in `scope`."""
    seen = np.zeros(arena.slots.length, np.bool_)
    seen[arena.order] = True
    if scope.environment is not ANY:
        seen &= arena.slots["environment"] == _number(arena, "environment", scope.environment)
    for coordinate in NARROWING:
        asked = getattr(scope, coordinate)
        if asked is not ANY:
            column = arena.slots[coordinate]
            seen &= (column == 0) | (column == _number(arena, coordinate, asked))
    return seen


def accepted(arena: Arena, filter: Filter) -> Bools:
    """Return, by slot, whether it passes `filter`."""
    slots = arena.slots
    passed = np.ones(slots.length, np.bool_)
    for tag in filter.tags:
        passed &= _holds(arena, tag)
    if filter.fact_keys:
        facts = [number for fact, number in list(arena.numbers.facts.items()) if fact and fact[1] in filter.fact_keys]
        passed &= np.isin(slots["fact"], facts)
    for name, column in (("kinds", "kind"), ("sessions", "session_id")):
        if asked := getattr(filter, name):
            passed &= np.isin(slots[column], [_number(arena, column, text) for text in asked])
    if filter.tiers:
        passed &= np.isin(slots["tier"], [TIERS.index(tier) for tier in filter.tiers])
    if filter.since is not None:
        passed &= slots["created_at"] >= microseconds(filter.since)
    if filter.until is not None:
        passed &= slots["created_at"] < microseconds(filter.until)
    if filter.level is not None:
        passed &= (slots["project"] == 0) == (filter.level == "global")
    return passed


def _number(arena: Arena, column: str, text: object) -> int:
    return arena.numbers.coded[column].get(text, _UNKNOWN)


def _holds(arena: Arena, tag: str) -> Bools:
    held = np.zeros(arena.slots.length, np.bool_)
    held[arena.tags.find(arena.numbers.tags.get(tag, _UNKNOWN))[0]] = True
    return held


def _picked(arena: Arena, wanted: Rows, cosine: Floats | None, need: Need) -> Rows:
    """Return the places among the wanted rows of those named, near or nearest; all if none of these is asked for."""
    count = len(wanted)
    if need.ids is None and need.near is None and need.candidates is None:
        return np.arange(count)
    picked = np.zeros(count, np.bool_)
    if need.ids is not None:
        asked = [arena.numbers.ids.get(asked, _UNKNOWN) for asked in need.ids]
        picked |= np.isin(arena.slots["id"][arena.order[wanted]], asked)
    if need.near is not None:
        picked |= within(arena, arena.order[wanted], need.near)
    if need.candidates is not None and cosine is not None:
        picked[nearest(cosine, need.candidates)] = True
        picked |= ~arena.slots["has_vector"][arena.order[wanted]]
    return np.flatnonzero(picked)


@dataclass(frozen=True, eq=False)
class Candidates:
    """The rows of the answer, ascending, and their slots, out of the `seen` ones (by slot: live and visible)."""

    arena: Arena
    need: Need
    seen: Bools
    rows: Rows
    slots: Rows
    activations: Activations

    @cached_property
    def line(self) -> Line:
        """The memories in the context of which others stand."""
        return line_up(self.arena, self.valid)

    @cached_property
    def valid(self) -> Bools:
        """By slot, whether it is seen and not expired."""
        return self.seen & (self.arena.slots["expires_at"] > microseconds(self.need.now))

    def fixed(self, name: str) -> Column:
        """Return a column by slot."""
        return self.arena.slots[name][self.slots]

    def counter(self, name: str) -> Column:
        """Return a column by row."""
        return self.arena.counters[name][self.rows]


def _expires_at(known: Candidates) -> Column:
    moments = known.fixed("expires_at")
    return np.where(moments == NEVER, np.inf, moments / MICROSECONDS)


def _supersedes(known: Candidates) -> Column:
    """Return the number of the memory that each replaces, -1 where that one is not live."""
    live = np.zeros(len(known.arena.numbers.ids), np.bool_)
    live[known.arena.slots["id"][known.arena.order]] = True
    targets = known.fixed("supersedes")
    return np.where(live[targets], targets, -1)


def _successors(known: Candidates) -> Column:
    """Return the number of the memory that holds in the place of each, -1 for none."""
    slots, rows = known.arena.slots, np.flatnonzero(known.valid[known.arena.order])
    valid = known.arena.order[rows]  # by id
    successor = np.zeros(len(known.arena.numbers.ids), np.int64)
    others = valid[slots["supersedes"][valid] != slots["id"][valid]]
    successor[slots["supersedes"][others]] = slots["id"][others]
    successor[0] = 0  # the number of no memory, which those have that supersede none
    last = valid[np.argsort(slots["updated_at"][valid], kind="stable")]
    newest = np.zeros(len(known.arena.numbers.facts), np.int64)
    newest[slots["fact"][last]] = slots["id"][last]
    newest[0] = 0
    own, of_fact = known.fixed("id"), newest[known.fixed("fact")]
    found = np.where(successor[own] > 0, successor[own], np.where(of_fact == own, 0, of_fact))
    return np.where(found > 0, found, -1)


def _context_cosine(known: Candidates) -> Column:
    return context_cosine(known.arena, known.line, known.slots, known.need)


def _speaker_named(known: Candidates) -> Column:
    arena, names = known.arena, known.need.speakers
    about = np.zeros(arena.slots.length, np.bool_)
    for number in arena.numbers.entities.known(names):
        about[arena.entities.find(number)[0]] = True
    speakers = known.fixed("speaker")
    return np.where(speakers > 0, np.isin(speakers, list(_meant(arena, names).values())), about[known.slots])


def _turns(known: Candidates) -> Column:
    recalled = known.activations.turns
    places, there = find(known.arena.ids[known.rows], np.array(list(recalled), dtype=object))
    turns = np.full(len(known.rows), np.inf)
    turns[places[there]] = known.activations.clock - np.array(list(recalled.values()), np.float64)[there]
    return turns


_COLUMNS: Final[Mapping[str, Callable[[Candidates], Column]]] = {
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
    "successor": _successors,
    "fact": lambda known: np.where(known.fixed("fact") == 0, -1, known.fixed("fact")),
    "turns_since_activation": _turns,
    "context_cosine": _context_cosine,
    "speaker": lambda known: np.where(known.fixed("speaker") == 0, -1, known.fixed("speaker")),
    "speaker_named": _speaker_named,
    "embedded": lambda known: known.fixed("has_vector").copy(),
}


def vectors(known: Candidates) -> Vectors:
    """Return the vectors of the rows, in the arena's own matrix, which nobody else may write to."""
    matrix = known.arena.slots["vector"]
    matrix.flags.writeable = False  # of this view, not of the arena
    return Vectors(matrix, np.where(known.fixed("has_vector"), known.slots, -1))


def speakers(arena: Arena, scope: Scope, names: Sequence[str]) -> list[str]:
    """Return the speakers of memories visible in `scope` whom one of some names means, sorted."""
    meant = _meant(arena, names)
    if not meant:
        return []
    shown = set(np.unique(arena.slots["speaker"][visible(arena, scope)]).tolist())
    return sorted(speaker for speaker, number in meant.items() if number in shown)


def _meant(arena: Arena, names: Sequence[str]) -> dict[str, int]:
    """Return the speakers whom one of some names means, visible or not, with their numbers."""
    known = arena.numbers.speakers.copy()  # another thread may add one
    return {speaker: number for speaker, number in known.items() if speaker is not None and means(names, speaker)}


def lexicon(known: Candidates, found: list[tuple[Rows, Codes]]) -> Lexicon:
    """Return the statistics of the seen memories and the postings of the rows.

    Args:
        known: the rows of the answer.
        found: for each term, the slots that hold it and how often.
    """
    seen = known.seen
    lengths = known.arena.slots["length"]
    documents = int(seen.sum())
    row = np.full(known.arena.slots.length, -1, np.intp)
    row[known.slots] = np.arange(len(known.slots))
    return Lexicon(
        documents=documents,
        average_length=int(lengths[seen].sum()) / documents if documents else 0.0,
        document_frequency=np.array([seen[slots].sum() for slots, _ in found], np.float64),
        postings=tuple(_postings(row[slots], counts) for slots, counts in found),
        length=known.fixed("length").astype(np.float64),
    )


def _postings(rows: Rows, counts: Column) -> Postings:
    """Return the occurrences in rows of the answer (not -1), ascending."""
    order = np.argsort(rows, kind="stable")
    order = order[np.searchsorted(rows[order], 0) :]
    return Postings(rows[order], counts[order].astype(np.float64))


def entities(known: Candidates, names: tuple[str, ...]) -> Entities:
    """Return the entities of the rows; those that some seen memory names are the known ones."""
    arena, seen = known.arena, known.seen
    of_row = _ragged(known, "entities", arena.mentions["number"])
    named = {number: int(seen[arena.entities.find(number)[0]].sum()) for number in arena.numbers.entities.known(names)}
    asked = {number: count for number, count in named.items() if count}
    frequency = np.array(list(asked.values()), np.float64)
    return Entities(of_row, np.array(list(asked), np.int64), frequency, int(seen.sum()))


def distinctions(known: Candidates) -> Ragged:
    """Return the codes of the distinctions of the rows, in the order of each text."""
    return _ragged(known, "distinctions", known.arena.distinctions["code"])


def _ragged(known: Candidates, name: str, values: Column) -> Ragged:
    """Return the runs of `values` that belong to the rows; columns `name` and `name_from` say how long and where."""
    lengths = known.fixed(name)
    offsets = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
    return Ragged(offsets, values[runs(known.fixed(f"{name}_from"), lengths)])
