"""The columnar cache of a tenant's live memories: immutable snapshots, each made from the one before and a change."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain, compress
from operator import itemgetter
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from salience.batch import Codes, Column, Rows, Vectors32
from salience.records import TIERS
from salience.store.kernels import dots
from salience.store.postings import Distinctions, Index, Numbering, Speakers, Spellings
from salience.store.quantised import Quantised
from salience.store.rows import readable
from salience.store.slots import Slots
from salience.store.sql import ARENA

Bools = NDArray[np.bool_]
NEVER: Final = np.iinfo(np.int64).max
"""As `expires_at`: no expiry."""
CODED: Final = ("environment", "project", "user_id", "agent_id", "session_id", "kind")
"""Columns whose texts are numbered, each on its own; 0 is null."""
_COUNTERS: Final = {"importance": np.float64, "accessed_at": np.int64, "access_count": np.int64, "version": np.int64}
_FIXED: Final = {
    **dict.fromkeys(CODED, np.int32),
    "tier": np.int64,
    "weight": np.float64,
    "created_at": np.int64,
    "updated_at": np.int64,
    "expires_at": np.int64,
    "id": np.int64,
    "supersedes": np.int64,
    "fact": np.int64,
    "length": np.int64,
    "session": np.int64,
    "turn": np.int64,
    "speaker": np.int64,
    "has_vector": np.bool_,
    "entities": np.int64,
    "entities_from": np.int64,
    "distinctions": np.int64,
    "distinctions_from": np.int64,
}
_LEAST_DEAD: Final = 64


@dataclass(frozen=True, slots=True)
class Numbers:
    """Numbers of the texts of a tenant; grown by refreshes, only looked up in by readers."""

    coded: Mapping[str, Numbering] = field(default_factory=lambda: {name: Numbering() for name in CODED})
    ids: Numbering = field(default_factory=Numbering)
    facts: Numbering = field(default_factory=Numbering)
    terms: Numbering = field(default_factory=Numbering)
    tags: Numbering = field(default_factory=Numbering)
    entities: Spellings = field(default_factory=Spellings)
    distinctions: Distinctions = field(default_factory=Distinctions)
    sessions: Numbering = field(default_factory=Numbering)
    speakers: Speakers = field(default_factory=Speakers)


@dataclass(frozen=True, eq=False)
class Arena:
    """A snapshot. A row is a live memory; a slot is a version of one, never rewritten, dead once no row points to it.

    Attributes:
        ids: object[n] of str, ascending.
        order: intp[n], the slot of each row.
        counters: columns by row that change without a new version.
        slots: columns by slot, and `vector`; numbers of texts are those of `numbers`.
        mentions, distinctions: the entity numbers, and the codes of distinctions, of all slots, one run a slot.
        terms, tags, entities: where each number occurs, by slot.
        sequence: the change sequence that the snapshot is up to.
        error: how far a quantised vector is from the whole one at most.
        views: what scopes see of the snapshot, by their coordinates; worked out when first asked for.
    """

    ids: NDArray[np.object_]
    order: Rows
    counters: Mapping[str, Column]
    slots: Slots
    mentions: Slots
    distinctions: Slots
    terms: Index
    tags: Index
    entities: Index
    numbers: Numbers
    sequence: int
    error: float = 0.0
    views: dict[Any, Any] = field(default_factory=dict)

    @property
    def dimension(self) -> int:
        """Length of a vector."""
        return int(self.slots["vector"].shape[1])

    @property
    def is_quantised(self) -> bool:
        """Whether it keeps vectors quantised too, since there is a library that is quick with them."""
        return "quantised" in self.slots.arrays

    @cached_property
    def rows(self) -> NDArray[np.int32]:
        """int32[slots], the row that points to each slot; -1 for a dead one."""
        rows = np.full(self.slots.length, -1, np.int32)
        rows[self.order] = np.arange(len(self.order), dtype=np.int32)
        return rows

    @cached_property
    def by_session(self) -> Rows:
        """The live slots that have a session: session by session, each in the order of time, turn and id."""
        return self.in_session(self.order)

    def in_session(self, slots: Rows) -> Rows:
        """Return those of some live slots that have a session, in that order."""
        slots = slots[self.slots["session"][slots] > 0]
        keys = [self.slots[name][slots] for name in ("turn", "created_at", "session")]
        return slots[np.lexsort([self.rows[slots], *keys])]  # rows stand by id

    def number(self, column: str, text: object) -> int:
        """Return the number of a text in one of the `CODED` columns; -1 if it has none."""
        return self.numbers.coded[column].get(text, -1)

    @classmethod
    def empty(cls, dimension: int) -> Arena:
        """Return the arena of no memories."""
        columns: dict[str, Column] = {name: np.empty(0, dtype) for name, dtype in _FIXED.items()}
        return cls(
            np.empty(0, object),
            np.empty(0, np.intp),
            {name: np.empty(0, dtype) for name, dtype in _COUNTERS.items()},
            Slots.of({**columns, **_vectors(np.empty((0, dimension), np.float32))[0]}, 0),
            Slots.of({"number": np.empty(0, np.int64)}, 0),
            Slots.of({"code": np.empty(0, np.int64)}, 0),
            Index(),
            Index(),
            Index(),
            Numbers(),
            0,
        )

    @readable()
    def refresh(self, rows: Sequence[Sequence[Any]]) -> Arena:
        """Return the arena after a change.

        Args:
            rows: the changed memories as they now stand, forgotten ones too, in any order: the columns `sql.ARENA`.

        Raises:
            StoreError: a value that no memory has; the file is damaged.
        """
        if not rows:
            return self
        rows = sorted(rows, key=itemgetter(0))
        changed = dict(zip(ARENA, zip(*rows, strict=True), strict=True))
        ids = _objects(changed["id"])
        places, known = find(self.ids, ids)
        live = np.array([moment is None for moment in changed["forgotten_at"]])
        same = known.copy()
        held = self.order[places[known]]
        embedded = np.array([vector is not None for vector in changed["vector"]])
        same[known] = self.counters["version"][places[known]] == np.array(changed["version"])[known]
        same[known] &= self.slots["has_vector"][held] == embedded[known]
        fresh = live & ~same
        grown = self._with_slots(list(compress(rows, fresh.tolist())))
        slots = np.full(len(ids), -1, np.intp)
        slots[fresh] = np.arange(self.slots.length, grown.slots.length)
        slots[live & same] = self.order[places[live & same]]
        table = {"ids": ids, "order": slots, **_counters(changed)}
        return grown._with_rows(table, places, known, live, max(changed["seq"]))._compacted()

    def _with_rows(self, table: Mapping[str, Column], places: Rows, known: Bools, live: Bools, sequence: int) -> Arena:
        """Return the arena with rows overwritten, then dropped, then inserted."""
        stay, drop, come = known & live, known & ~live, live & ~known
        new: dict[str, Column] = {"order": self.order, **self.counters}
        if stay.any():
            new = {name: column.copy() for name, column in new.items()}
            for name, column in new.items():
                column[places[stay]] = table[name][stay]
        new["ids"] = self.ids
        if drop.any():
            new = {name: np.delete(column, places[drop]) for name, column in new.items()}
        if come.any():
            at = find(new["ids"], table["ids"][come])[0]
            new = {name: np.insert(column, at, table[name][come]) for name, column in new.items()}
        counters = {name: new[name] for name in _COUNTERS}
        return replace(
            self,
            ids=new["ids"],
            order=new["order"],
            counters=counters,
            sequence=max(self.sequence, sequence),
            views=self.views if np.array_equal(new["order"], self.order) else {},  # a touch moves no memory
        )

    def _with_slots(self, rows: Sequence[Sequence[Any]]) -> Arena:
        """Return the arena with a slot for each row, to which no row points yet."""
        if not rows:
            return self
        texts = dict(zip(ARENA, zip(*rows, strict=True), strict=True))
        first = self.slots.length
        terms, lengths = _split(texts["terms"], " ")
        distinctions, distinction_counts = _split(texts["distinctions"], "\n")
        tags, tag_counts = _flat(_parsed(texts["tags"], list))
        mentions, mention_counts = _flat(_parsed(texts["entities"], self._mentions))
        vectors, error = _vectors(_matrix(texts["vector"], self.dimension))
        columns = {
            **self._fixed(texts),
            "length": lengths,
            "entities": mention_counts,
            "entities_from": self.mentions.length + np.cumsum(mention_counts) - mention_counts,
            "distinctions": distinction_counts,
            "distinctions_from": self.distinctions.length + np.cumsum(distinction_counts) - distinction_counts,
            "has_vector": np.array([vector is not None for vector in texts["vector"]]),
            **vectors,
        }
        slots = np.arange(first, first + len(rows))
        numbers = np.array(mentions, np.int64)
        codes = np.array(list(map(self.numbers.distinctions.__getitem__, distinctions)), np.int64)
        return replace(
            self,
            slots=self.slots.append(columns),
            mentions=self.mentions.append({"number": numbers}),
            distinctions=self.distinctions.append({"code": codes}),
            terms=self.terms.append(self.numbers.terms.of(terms), np.repeat(slots, lengths)),
            tags=self.tags.append(self.numbers.tags.of(tags), np.repeat(slots, tag_counts)),
            entities=self.entities.append(numbers, np.repeat(slots, mention_counts)),
            error=max(self.error, error),
        )

    def _fixed(self, texts: Mapping[str, Sequence[Any]]) -> dict[str, Column]:
        """Return the columns that hold one value of the row each."""
        numbers = self.numbers
        facts = zip(texts["user_id"], texts["fact_key"], strict=True)
        sessions = zip(texts["environment"], texts["user_id"], texts["session_id"], strict=True)
        return {
            **{name: numbers.coded[name].of(texts[name]) for name in CODED},
            **{name: np.array(texts[name]) for name in ("weight", "created_at", "updated_at")},
            "expires_at": np.array([NEVER if moment is None else moment for moment in texts["expires_at"]]),
            "tier": np.array([TIERS.index(tier) for tier in texts["tier"]]),
            "id": numbers.ids.of(texts["id"]),
            "supersedes": numbers.ids.of(texts["supersedes"]),
            "fact": numbers.facts.of(None if fact is None else (user, fact) for user, fact in facts),
            "session": numbers.sessions.of(None if key[2] is None else key for key in sessions),
            "turn": np.array([turn or 0 for turn in texts["turn"]]),
            "speaker": numbers.speakers.of(texts["speaker"]),
        }

    def _mentions(self, names: Sequence[str]) -> list[int]:
        return list(dict.fromkeys(map(self.numbers.entities.__getitem__, names)))

    def _compacted(self) -> Arena:
        """Return the arena without its dead slots, once they are more than half."""
        if self.slots.length <= 2 * len(self.order) + _LEAST_DEAD:
            return self
        place = np.full(self.slots.length, -1, np.intp)
        place[self.order] = np.arange(len(self.order))
        slots = self.slots.take(self.order)
        kept = {name: runs(slots[f"{name}_from"], slots[name]) for name in ("entities", "distinctions")}
        for name in kept:
            slots.arrays[f"{name}_from"][:] = np.cumsum(slots[name]) - slots[name]
        return replace(
            self,
            views={},
            order=np.arange(len(self.order)),
            slots=slots,
            mentions=self.mentions.take(kept["entities"]),
            distinctions=self.distinctions.take(kept["distinctions"]),
            terms=self.terms.moved(place),
            tags=self.tags.moved(place),
            entities=self.entities.moved(place),
        )


def runs(starts: Codes, lengths: Codes) -> Rows:
    """Return the places of runs of `lengths` that begin at `starts`, one run after the other."""
    offsets = np.cumsum(lengths) - lengths
    return np.repeat(starts - offsets, lengths) + np.arange(lengths.sum())


def find(ids: NDArray[np.object_], wanted: NDArray[np.object_]) -> tuple[Rows, Bools]:
    """Return where each wanted id stands, or would stand, in the sorted `ids`, and whether it is there."""
    places = np.searchsorted(ids, wanted)
    there = places < len(ids)
    there[there] = ids[places[there]] == wanted[there]
    return places, there


def _counters(changed: Mapping[str, Sequence[Any]]) -> dict[str, Column]:
    """Return the columns of `_COUNTERS`; a memory that no recall returned counts as accessed when it was made."""
    pairs = zip(changed["accessed_at"], changed["created_at"], strict=True)
    accessed = [created if moment is None else moment for moment, created in pairs]
    return {
        name: np.array(accessed if name == "accessed_at" else changed[name], dtype) for name, dtype in _COUNTERS.items()
    }


def _objects(texts: Sequence[str]) -> NDArray[np.object_]:
    return np.array(texts, dtype=object)


def _split(texts: Sequence[str], sign: str) -> tuple[list[str], Codes]:
    """Return the parts of all texts, between which `sign` stands, in one list, and how many each text has."""
    lengths = np.array([text.count(sign) + 1 if text else 0 for text in texts], np.int64)
    joined = sign.join(filter(None, texts))
    return joined.split(sign) if joined else [], lengths


def _parsed(texts: Sequence[str], read: Callable[[list[str]], list[Any]]) -> list[list[Any]]:
    """Return what `read` makes of each JSON list; texts that are equal, as most are, are read once."""
    distinct = list(dict.fromkeys(texts))
    lists = dict(zip(distinct, map(read, json.loads(f"[{','.join(distinct)}]")), strict=True))
    return [lists[text] for text in texts]


def _flat(lists: Sequence[Sequence[Any]]) -> tuple[list[Any], Codes]:
    """Return the items of all lists in one, and how many each has."""
    return list(chain.from_iterable(lists)), np.array([len(items) for items in lists], np.int64)


def _vectors(matrix: Vectors32) -> tuple[dict[str, Column], float]:
    """Return the columns that hold vectors, and how far a quantised one is from the whole one at most."""
    if dots() is None:
        return {"vector": matrix}, 0.0
    quantised = Quantised.of(matrix)
    return {"vector": matrix, "quantised": quantised.numbers, "step": quantised.steps}, quantised.error


def _matrix(vectors: Sequence[bytes | None], dimension: int) -> Vectors32:
    """Return float32[n, dimension], a row of zeros for a vector that is not known."""
    zeros = bytes(4 * dimension)
    joined = b"".join(zeros if vector is None else vector for vector in vectors)
    return np.frombuffer(joined, "<f4").reshape(len(vectors), dimension)
