"""A batch from lists of memories, for the store in dictionaries: obvious rather than fast."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from salience.batch import (
    COLUMNS,
    Batch,
    Codes,
    Column,
    Entities,
    Floats,
    Ragged,
    Vectors,
    Vectors32,
)
from salience.ports import Need, Stored
from salience.records import TIERS, Memory
from salience.store.memory_context import context_cosine, lexicon, neighbours, windows
from salience.store.postings import Distinctions
from salience.store.values import MICROSECONDS, means, microseconds
from salience.text import normalise


@dataclass(frozen=True, slots=True)
class Candidates:
    """The memories of an answer, and those that they are told of against.

    Attributes:
        rows: the memories, by id.
        cosine: float64[len(rows)], to the query.
        vectors: float32[len(rows), d], zeros for a memory without a vector.
        live, visible: the tenant's memories, and of these the ones that the scope shows.
        need: what to bring.
        clock: of the session that asks.
    """

    rows: list[Stored]
    cosine: Floats
    vectors: Vectors32
    live: list[Stored]
    visible: list[Stored]
    need: Need
    clock: int

    @property
    def codes(self) -> dict[str, int]:
        """Id of a live memory -> its number."""
        return {stored.memory.id: number for number, stored in enumerate(self.live)}


def batch(known: Candidates) -> Batch:
    """Return the candidates with what `known.need` asks for."""
    need, rows, visible = known.need, known.rows, known.visible
    return Batch(
        np.array([stored.memory.id for stored in rows], dtype=object),
        {name: _column(name, known) for name in sorted(need.columns)},
        _vectors(known) if need.vectors else None,
        lexicon(_counts(rows), _counts(visible), need.terms) if need.terms else None,
        windows(rows, visible, need.now, need.terms) if need.terms and need.windows else None,
        _entities(rows, visible, need.names) if need.entities else None,
        _distinctions(rows) if need.distinctions else None,
    )


def _vectors(known: Candidates) -> Vectors:
    places = [row if stored.vector is not None else -1 for row, stored in enumerate(known.rows)]
    return Vectors(known.vectors, np.array(places, np.intp))


_OF_MEMORY: Final[Mapping[str, Callable[[Memory], float]]] = {
    "importance": lambda memory: memory.importance,
    "weight": lambda memory: memory.weight,
    "created_at": lambda memory: microseconds(memory.created_at) / MICROSECONDS,
    "updated_at": lambda memory: microseconds(memory.updated_at) / MICROSECONDS,
    "accessed_at": lambda memory: microseconds(memory.accessed_at or memory.created_at) / MICROSECONDS,
    "expires_at": lambda memory: (
        np.inf if memory.expires_at is None else microseconds(memory.expires_at) / MICROSECONDS
    ),
    "access_count": lambda memory: memory.access_count,
    "tier": lambda memory: TIERS.index(memory.tier),
    "is_global": lambda memory: memory.scope.project is None,
}


def _codes(known: Candidates) -> list[int]:
    codes = known.codes
    return [codes[stored.memory.id] for stored in known.rows]


def _supersedes(known: Candidates) -> list[int]:
    codes, shown = known.codes, {stored.memory.id for stored in known.visible}
    named = [stored.memory.supersedes for stored in known.rows]
    return [codes[target] if target in shown else -1 for target in named]


def _successors(known: Candidates) -> list[int]:
    codes, now = known.codes, known.need.now
    held = [one.memory for one in known.visible if one.memory.expires_at is None or one.memory.expires_at > now]
    newer = {memory.supersedes: memory.id for memory in held if memory.supersedes not in (None, memory.id)}
    of_fact = {_fact(memory): memory.id for memory in sorted(held, key=lambda one: (one.updated_at, one.id))}
    found = []
    for memory in (stored.memory for stored in known.rows):
        newest = of_fact.get(_fact(memory), memory.id) if memory.fact_key is not None else memory.id
        successor = newer.get(memory.id, newest)
        found.append(-1 if successor == memory.id else codes[successor])
    return found


def _fact(memory: Memory) -> tuple[object, str | None]:
    return memory.scope.user_id, memory.fact_key


def _facts(known: Candidates) -> list[int]:
    facts = [_fact(stored.memory) for stored in known.rows]
    number = {fact: number for number, fact in enumerate(facts)}
    return [-1 if fact[1] is None else number[fact] for fact in facts]


def _turns(known: Candidates) -> list[float]:
    if known.need.as_of is not None:
        return [np.inf] * len(known.rows)
    turns = [stored.activations.get(known.need.scope.session_key or "") for stored in known.rows]
    return [np.inf if turn is None else known.clock - turn for turn in turns]


def _context_cosine(known: Candidates) -> Floats:
    around = neighbours(known.rows, known.visible, known.need.now)
    return context_cosine(known.rows, around, known.need)


def _speakers(known: Candidates) -> list[int]:
    speakers = [stored.memory.speaker for stored in known.rows]
    number = {speaker: number for number, speaker in enumerate(speakers)}
    return [-1 if speaker is None else number[speaker] for speaker in speakers]


def _speaker_named(known: Candidates) -> list[bool]:
    names = known.need.speakers
    return [
        means(names, stored.memory.speaker) if stored.memory.speaker is not None
        else any(normalise(entity) in names for entity in stored.memory.entities)
        for stored in known.rows
    ]  # fmt: skip


_OF_BATCH: Final[Mapping[str, Callable[[Candidates], list[bool] | list[int] | list[float] | Floats]]] = {
    "cosine": lambda known: known.cosine,
    "context_cosine": _context_cosine,
    "embedded": lambda known: [stored.vector is not None for stored in known.rows],
    "speaker": _speakers,
    "speaker_named": _speaker_named,
    "code": _codes,
    "supersedes": _supersedes,
    "successor": _successors,
    "fact": _facts,
    "turns_since_activation": _turns,
}


def _column(name: str, known: Candidates) -> Column:
    """Return column `name` of the batch."""
    if name in _OF_BATCH:
        return np.array(_OF_BATCH[name](known), COLUMNS[name].dtype)
    return np.array([_OF_MEMORY[name](stored.memory) for stored in known.rows], COLUMNS[name].dtype)


def _counts(held: list[Stored]) -> list[Counter[str]]:
    return [Counter(stored.terms) for stored in held]


def _distinctions(rows: list[Stored]) -> Ragged:
    codes = Distinctions()
    return Ragged.of([[codes[one] for one in stored.distinctions] for stored in rows])


def _entities(rows: list[Stored], visible: list[Stored], names: tuple[str, ...]) -> Entities:
    """Return the entities of `rows`; those that some visible memory names are the known ones."""
    spellings = dict.fromkeys(name for stored in visible for name in stored.memory.entities)
    codes: dict[str, int] = {}
    code = {name: codes.setdefault(normalise(name), len(codes)) for name in spellings}
    of_row = [list(dict.fromkeys(code[name] for name in stored.memory.entities)) for stored in rows]
    asked = dict.fromkeys(normalise(name) for name in names)
    of_query: Codes = np.array([codes[name] for name in asked if name in codes], np.int64)
    named = [{code[name] for name in stored.memory.entities} for stored in visible]
    frequency = np.array([sum(entity in held for held in named) for entity in of_query.tolist()], np.float64)
    return Entities(Ragged.of(of_row), of_query, frequency, len(visible))
