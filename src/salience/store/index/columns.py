"""An immutable snapshot of one tenant's live memories as NumPy columns.

A slot holds one version of a memory and is never rewritten; a row is a live memory, in the order of ids, and points to
the slot of its current version. Snapshots share the memory of their columns: a new one writes into the spare room
behind the old one's end.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from itertools import chain, compress, repeat
from operator import itemgetter
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from salience.batch import KINDS, Codes, Column, Floats, Int8, Rows, Vectors32, int8_products
from salience.records import TIERS
from salience.store.index.postings import Numbers32, Postings, find, runs
from salience.store.rows import readable
from salience.store.statements import INDEXED
from salience.store.values import microseconds
from salience.text import normalise

Bools = NDArray[np.bool_]
Bytes = NDArray[np.bytes_]
NEVER: Final = np.iinfo(np.int64).max
"""`expires_at` of a memory that does not expire."""
CODED: Final = ("environment", "project", "user_id", "agent_id", "session_id", "kind")
"""Columns whose texts are numbered, each column on its own; 0 is null."""
COUNTERS: Final = {"importance": np.float64, "accessed_at": np.int64, "access_count": np.int64}
"""Columns that change without a new version."""
_COLUMNS: Final[Mapping[str, Any]] = {
    **dict.fromkeys(CODED, np.int32),
    **COUNTERS,
    "row": np.int32,  # -1: no row points to this slot any more
    "version": np.int32,
    "weight": np.float64,
    "created_at": np.int64,
    "updated_at": np.int64,
    "expires_at": np.int64,
    "tier": np.int8,
    "fact": np.int32,  # number of (user_id, fact_key); 0: none
    "supersedes": np.int32,  # number of the superseded id; 0: none
    "relations": np.int32,  # how many memories it replaces, and where they begin in `Index.relations`
    "relations_from": np.int64,
    "session": np.int32,  # number of (environment, user_id, session_id); 0: no session
    "turn": np.int64,
    "speaker": np.int32,
    "length": np.int32,  # terms
    "has_vector": np.bool_,
    "asks": np.bool_,
    "entities": np.int32,  # how many, and where they begin in `Index.entities`
    "entities_from": np.int64,
    "distinctions": np.int32,
    "distinctions_from": np.int64,
    "event_start": np.int64,  # of a text without a time: `NEVER`, and the end before it
    "event_end": np.int64,
}
LARGEST: Final = 127
"""Largest number of a quantised vector."""
_TIERS: Final = {tier: number for number, tier in enumerate(TIERS)}
_KINDS: Final = {kind: number for number, kind in enumerate(KINDS)}
_HASH: Final = (1 << 59) - 1
_LEAST_ROOM: Final = 16
_LEAST_DEAD: Final = 64
_FEW: Final = 32
"""Up to this many new turns are inserted into their sessions one by one."""


def quantised(vectors: Vectors32) -> tuple[Int8, NDArray[np.float32], Floats]:
    """Return float32[n, d] as int8[n, d], the step of each row, float32[n], and its Euclidean error, float64[n].

    Each row has its own step, so no row overflows; a row of zeros has the step 0.
    """
    steps = np.maximum(vectors.max(axis=1, initial=0.0), -vectors.min(axis=1, initial=0.0)) / np.float32(LARGEST)
    scaled = vectors / np.where(steps > 0, steps, np.float32(1))[:, None]
    np.rint(scaled, out=scaled)
    numbers = scaled.astype(np.int8)
    scaled *= steps[:, None]
    scaled -= vectors
    return numbers, steps, np.sqrt(np.vecdot(scaled, scaled)).astype(np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """Columns of equal length that only grow.

    Attributes:
        arrays: columns with spare room behind `length`.
        length: rows of this snapshot.
        filled: the number of written rows, shared by the snapshots that share the arrays.
    """

    arrays: Mapping[str, Column]
    length: int
    filled: list[int]

    @classmethod
    def of(cls, arrays: Mapping[str, Column], length: int) -> Table:
        """Return the table of some columns, of which the first `length` rows are written."""
        return cls(arrays, length, [length])

    def __getitem__(self, name: str) -> Column:
        return self.arrays[name][: self.length]

    def appended(self, columns: Mapping[str, Any], count: int) -> Table:
        """Return the table with `count` more rows, in the spare room unless another snapshot took it."""
        length = self.length + count
        table = self
        if self.filled[0] != self.length or len(next(iter(self.arrays.values()))) < length:
            room = length + max(length // 4, _LEAST_ROOM)
            arrays = {name: np.empty((room, *array.shape[1:]), array.dtype) for name, array in self.arrays.items()}
            for name, array in arrays.items():
                array[: self.length] = self[name]
            table = Table.of(arrays, self.length)
        for name, values in columns.items():
            table.arrays[name][self.length : length] = values
        table.filled[0] = length
        return Table(table.arrays, length, table.filled)

    def changed(self, rows: Rows | slice, columns: Mapping[str, Column]) -> Table:
        """Return the table with other values in some rows of some columns, which are copied for it."""
        arrays = {name: self.arrays[name].copy() for name in columns}
        for name, values in columns.items():
            arrays[name][rows] = values
        return replace(self, arrays={**self.arrays, **arrays})

    def taken(self, rows: Rows) -> Table:
        """Return the table of these rows alone."""
        return Table.of({name: self[name][rows] for name in self.arrays}, len(rows))


class Numbering(dict[Any, int]):
    """Numbers values in the order of their first use, from 1; None is 0. Numbers never change."""

    def __init__(self) -> None:
        super().__init__({None: 0})

    def __missing__(self, value: object) -> int:
        self[value] = number = len(self)
        return number

    def of(self, values: Sequence[Any]) -> Numbers32:
        """Return int32[n], the number of each value."""
        return np.fromiter(map(self.__getitem__, values), np.int32, len(values))


class EntityNumbering(dict[str, int]):
    """Numbers entity names; spellings that `text.normalise` makes equal have one number."""

    def __init__(self) -> None:
        super().__init__()
        self._numbers = Numbering()

    def __missing__(self, name: str) -> int:
        self[name] = number = self._numbers[normalise(name)]
        return number

    def known(self, names: Iterable[str]) -> list[int]:
        """Return the distinct numbers of the known names (in normal form), in order."""
        return [number for number in dict.fromkeys(map(self._numbers.get, names)) if number is not None]


class SpeakerNumbering(Numbering):
    """Numbers speakers, and finds them by their whole name or its first word, in normal form."""

    def __init__(self) -> None:
        super().__init__()
        self._by_name: dict[str, dict[str, int]] = {}

    def __missing__(self, value: object) -> int:
        number = super().__missing__(value)
        whole = normalise(str(value))
        for name in {whole, whole.partition(" ")[0]}:  # a new dict: another thread may read the old one
            self._by_name[name] = {**self._by_name.get(name, {}), str(value): number}
        return number

    def matching(self, names: Iterable[str]) -> dict[str, int]:
        """Return speaker -> number for the speakers that any of some names, in normal form, matches."""
        return {speaker: number for name in names for speaker, number in self._by_name.get(name, {}).items()}


@dataclass(frozen=True, slots=True)
class TextCodes:
    """Numbers for the texts of a tenant. Refreshes add to them; searches only look up."""

    coded: Mapping[str, Numbering] = field(default_factory=lambda: {name: Numbering() for name in CODED})
    facts: Numbering = field(default_factory=Numbering)
    sessions: Numbering = field(default_factory=Numbering)
    replaced: Numbering = field(default_factory=Numbering)
    terms: Numbering = field(default_factory=Numbering)
    tags: Numbering = field(default_factory=Numbering)
    entities: EntityNumbering = field(default_factory=EntityNumbering)
    speakers: SpeakerNumbering = field(default_factory=SpeakerNumbering)


@dataclass(frozen=True, eq=False)
class Index:
    """A snapshot.

    Attributes:
        by_id: by row, ascending ids: `id` (bytes) and `slot`.
        slots: by slot: the numbers of each memory, `vector` and, with a kernel, `quantised` and `step`.
        entities, distinctions, relations: `number`, of all slots one after the other; see `Index.runs`. Those of
            relations are `replacement` codes.
        terms, tags, entity_postings: postings of terms, tags and entities.
        codes: numbers of texts.
        sequence: the change sequence that the snapshot includes.
        error: largest Euclidean distance between a vector and its quantised form.
        views: scope -> view; filled by `view.view_of`.
    """

    by_id: Table
    slots: Table
    entities: Table
    distinctions: Table
    relations: Table
    terms: Postings
    tags: Postings
    entity_postings: Postings
    codes: TextCodes
    sequence: int = 0
    error: float = 0.0
    views: dict[Any, Any] = field(default_factory=dict)
    _sorted: tuple[Numbers32, int] = field(default_factory=lambda: (np.empty(0, np.int32), 0))

    @classmethod
    def empty(cls, dimension: int, room: int = 0) -> Index:
        """Return the index of no memories, with room for some."""
        arrays: dict[str, Column] = {name: np.empty(room, dtype) for name, dtype in _COLUMNS.items()}
        arrays["vector"] = np.empty((room, dimension), np.float32)
        if int8_products() is not None:
            arrays |= {"quantised": np.empty((room, dimension), np.int8), "step": np.empty(room, np.float32)}
        by_id = {"id": np.empty(0, "S1"), "slot": np.empty(0, np.int32)}
        entities, distinctions, relations = (
            Table.of({"number": np.empty(0, dtype)}, 0) for dtype in (np.int32, np.int64, np.int64)
        )
        return cls(
            Table.of(by_id, 0),
            Table.of(arrays, 0),
            entities,
            distinctions,
            relations,
            Postings(),
            Postings(),
            Postings(),
            TextCodes(),
        )

    def __len__(self) -> int:
        """Return the number of live memories."""
        return self.by_id.length

    @property
    def dimension(self) -> int:
        """Length of a vector."""
        return int(self.slots.arrays["vector"].shape[1])

    def has_due(self, now: datetime) -> bool:
        """Return whether the time to live of a memory is over at an instant."""
        return bool(((self.slots["expires_at"] <= microseconds(now)) & (self.slots["row"] >= 0)).any())

    def ids(self, slots: Column) -> NDArray[np.object_]:
        """Return object[n] of str, the ids of the memories in some live slots."""
        return _texts(self.by_id["id"][self.slots["row"][slots]])

    def slots_of(self, ids: Sequence[str]) -> Rows:
        """Return intp[n], the slot of the live memory of each id; -1 for none."""
        rows, there = find(self.by_id["id"], _bytes(ids))
        slots = np.full(len(ids), -1, np.intp)
        slots[there] = self.by_id["slot"][rows[there]]
        return slots

    def runs(self, name: str, slots: Rows) -> tuple[Column, Column]:
        """Return the lengths of the lists of a name in `LISTS` of some slots, and all their numbers."""
        lengths = self.slots[name][slots]
        return lengths, getattr(self, name)["number"][runs(self.slots[f"{name}_from"][slots], lengths)]

    @cached_property
    def by_session(self) -> Numbers32:
        """The live slots that have a session, in the order of session, creation, turn and id."""
        session_order, sorted_slots = self._sorted
        row, session = self.slots["row"], self.slots["session"]
        session_order = session_order[row[session_order] >= 0]
        new = np.flatnonzero((row[sorted_slots:] >= 0) & (session[sorted_slots:] > 0)) + sorted_slots
        keys = [self.slots[name] for name in ("session", "created_at", "turn", "row")]

        def sorted_by_key(slots: Rows) -> Rows:
            return slots[np.lexsort([key[slots] for key in reversed(keys)])]

        def key_of(slot: Any) -> tuple[int, ...]:
            return tuple(key[slot].item() for key in keys)

        if len(new) > _FEW:
            return sorted_by_key(np.concatenate((session_order, new))).astype(np.int32)
        new = sorted_by_key(new)
        return np.insert(
            session_order, [bisect_left(session_order, key_of(slot), key=key_of) for slot in new.tolist()], new
        )

    @cached_property
    def replaced(self) -> Rows:
        """intp[n], by the number of a replaced id the slot of that memory; -1 where it is not live."""
        return np.concatenate(([-1], self.slots_of(list(self.codes.replaced)[1:])))

    @readable()
    def refreshed(self, rows: Sequence[Sequence[Any]], sequence: int = 0) -> Index:
        """Return the index after a change.

        Args:
            rows: the changed memories as they are now, forgotten ones too, in any order: the columns `INDEXED`.
            sequence: the change sequence of the store, if larger than those of the rows.

        Raises:
            DamagedError: an invalid value.
        """
        if not rows:
            return self if sequence <= self.sequence else self._with(sequence=sequence)
        changed = _by_name(sorted(rows, key=itemgetter(_ID)))
        sequence = max(self.sequence, sequence, *changed["seq"])
        ids, live = _bytes(changed["id"]), np.array([moment is None for moment in changed["forgotten_at"]])
        at, known = find(self.by_id["id"], ids)
        slots = np.full(len(ids), -1, np.intp)
        slots[known] = self.by_id["slot"][at[known]]
        has_vector = np.array(_has_vector(changed["vector"], self.dimension))
        same = known & live
        same[same] = self.slots["version"][slots[same]] == np.array(changed["version"])[same]
        same[same] = self.slots["has_vector"][slots[same]] == has_vector[same]
        counted = self
        if same.any():
            counters = {name: column[same] for name, column in _counters(changed).items()}
            counted = self._with(slots=self.slots.changed(slots[same], counters))
        if same.all():
            return replace(counted, sequence=sequence)
        fresh = live & ~same
        versions = changed if fresh.all() else _by_name(compress(zip(*changed.values(), strict=True), fresh.tolist()))
        grown = counted._with_versions(versions, int(fresh.sum()))
        slots[fresh] = np.arange(self.slots.length, grown.slots.length)
        slots[~live] = -1
        listed = grown._with_ids(ids, slots, at, known)
        made = replace(listed, sequence=sequence, views={}, _sorted=self._sorted_so_far())
        is_mostly_dead = made.slots.length > 2 * len(made) + _LEAST_DEAD
        return made.compacted() if is_mostly_dead else made

    def extended(self, batches: Iterable[Sequence[Sequence[Any]]], sequence: int = 0) -> Index:
        """Return the index after the changes of several batches of rows; for both arguments see `refreshed`."""
        index = self
        for rows in batches:
            index = index.refreshed(rows)
        index = index.refreshed([], sequence)
        if index.views is not self.views:
            self.views.clear()  # breaks the reference cycle: each view refers to its index
        return index

    def compacted(self) -> Index:
        """Return the index without its dead slots, the others in the order of ids."""
        kept = self.by_id["slot"].astype(np.intp)
        place = np.full(self.slots.length, -1, np.intp)
        place[kept] = np.arange(len(kept))
        table, lists = self.slots.taken(kept), dict[str, Any]()
        for name in LISTS:
            lists[name] = Table.of({"number": self.runs(name, kept)[1]}, int(table[name].sum()))
            table.arrays[f"{name}_from"][:] = np.cumsum(table[name], dtype=np.int64) - table[name]
        return replace(
            self,
            by_id=Table.of({"id": self.by_id["id"].copy(), "slot": np.arange(len(kept), dtype=np.int32)}, len(kept)),
            slots=table,
            **lists,
            terms=self.terms.moved(place),
            tags=self.tags.moved(place),
            entity_postings=self.entity_postings.moved(place),
            views={},
            _sorted=(place[self.by_session].astype(np.int32), len(kept)),
        )

    def _with(self, **fields: Any) -> Index:
        """Return the index with other fields, and the same memories and views."""
        return replace(self, _sorted=self._sorted_so_far(), **fields)

    def _sorted_so_far(self) -> tuple[Numbers32, int]:
        """Return the sorted turns and the number of slots that they cover; a later snapshot continues from them."""
        return (self.by_session, self.slots.length) if "by_session" in vars(self) else self._sorted

    def _with_versions(self, rows: Mapping[str, Sequence[Any]], count: int) -> Index:
        """Return the index with the versions of `count` memories in new slots; the by_id is unchanged."""
        if not count:
            return self
        columns, lists = _parsed(self.codes, rows)
        columns["has_vector"] = _has_vector(rows["vector"], self.dimension)
        slots = np.arange(self.slots.length, self.slots.length + count)
        vectors = _matrix(rows["vector"], self.dimension)
        columns["vector"], error = vectors, self.error
        if "quantised" in self.slots.arrays:
            columns["quantised"], columns["step"], errors = quantised(vectors)
            error = max(error, float(errors.max()))
        tables: dict[str, Table] = {name: getattr(self, name) for name in LISTS}
        for name, table in tables.items():
            columns[f"{name}_from"] = np.cumsum(columns[name]) - columns[name] + table.length
        grown: dict[str, Any] = {
            name: table.appended({"number": lists[name]}, len(lists[name])) for name, table in tables.items()
        }
        return replace(
            self,
            slots=self.slots.appended({"row": -1, **columns}, count),
            **grown,
            terms=self.terms.appended(lists["terms"], slots.repeat(columns["length"])),
            tags=self.tags.appended(lists["tags"], slots.repeat(lists["tag_counts"])),
            entity_postings=self.entity_postings.appended(lists["entities"], slots.repeat(columns["entities"])),
            error=error,
        )

    def _with_ids(self, ids: Bytes, slots: Rows, at: Rows, known: Bools) -> Index:
        """Return the index with the slot of each changed id in the by_id.

        The ids ascend; a slot is -1 for a memory that is not live; `at` is where each id is, if `known`, or would be.
        """
        new = slots >= 0
        if (at == len(self)).all():  # greater than all others, as new ids are
            count = int(np.count_nonzero(new))
            by_id = replace(self.by_id, arrays={**self.by_id.arrays, "id": _with_width(self.by_id.arrays["id"], ids)})
            by_id = by_id.appended({"id": ids[new], "slot": slots[new]}, count)
            self.slots.arrays["row"][slots[new]] = np.arange(len(self), len(self) + count)
            return replace(self, by_id=by_id)
        held, order = _with_width(self.by_id["id"], ids), self.by_id["slot"].copy()
        order[at[known]] = slots[known]
        fresh = new & ~known
        held, order = np.insert(held, at[fresh], ids[fresh]), np.insert(order, at[fresh], slots[fresh])
        held, order = held[order >= 0], order[order >= 0]
        row = np.full(self.slots.length, -1, np.int32)
        row[order] = np.arange(len(order))
        table = self.slots.changed(slice(self.slots.length), {"row": row})
        return replace(self, by_id=Table.of({"id": held, "slot": order}, len(order)), slots=table)


STEPS: Final = 1000
"""Steps of a probability in the code of a replacement."""
LISTS: Final = ("entities", "distinctions", "relations")
"""Columns that hold the lengths of lists; each list is in the table of the same name."""
_ID: Final = INDEXED.index("id")


def _by_name(rows: Iterable[Sequence[Any]]) -> dict[str, Sequence[Any]]:
    """Return the columns of rows by name."""
    return dict(zip(INDEXED, zip(*rows, strict=True), strict=False))


def _parsed(codes: TextCodes, rows: Mapping[str, Sequence[Any]]) -> tuple[dict[str, Any], dict[str, Column]]:
    """Return the columns of live memories, and the numbers of their terms, tags, entities, distinctions and relations.

    New texts get numbers. `rows` has the columns of `statements.INDEXED`.
    """
    coded = {name: codes.coded[name].of(rows[name]) for name in CODED}
    sessions = zip(rows["environment"], rows["user_id"], rows["session_id"], strict=True)
    facts = zip(rows["user_id"], rows["fact_key"], strict=True)
    term_counts, terms = _split(rows["terms"], " ")
    distinction_counts, distinctions = _split(rows["distinctions"], "\n")
    tag_counts, tags = _flat(_lists(rows["tags"], list))
    number_of = codes.entities.__getitem__
    entity_counts, entities = _flat(_lists(rows["entities"], lambda names: list(dict.fromkeys(map(number_of, names)))))
    relation_counts, relations = _flat([_replacements(codes, text) for text in rows["relations"]])
    columns: dict[str, Any] = {
        **coded,
        **_counters(rows),
        **{name: _array(rows[name], _COLUMNS[name]) for name in ("version", "weight", "created_at", "updated_at")},
        "expires_at": _array(_filled(rows["expires_at"], NEVER), np.int64),
        "event_start": _array(_filled(rows["event_start"], NEVER), np.int64),
        "event_end": _array(_filled(rows["event_end"], -NEVER), np.int64),
        "tier": [_TIERS[tier] for tier in rows["tier"]],
        "fact": codes.facts.of([None if key is None else (user, key) for user, key in facts]),
        "supersedes": codes.replaced.of(rows["supersedes"]),
        "session": codes.sessions.of([None if key[2] is None else key for key in sessions]),
        "turn": _array(_filled(rows["turn"], 0), np.int64),
        "speaker": codes.speakers.of(rows["speaker"]),
        "length": term_counts,
        "asks": ["\nclaim:asks" in found for found in rows["distinctions"]],
        "entities": entity_counts,
        "distinctions": distinction_counts,
        "relations": relation_counts,
    }
    lists: dict[str, Column] = {
        "terms": codes.terms.of(terms),
        "tags": codes.tags.of(tags),
        "tag_counts": tag_counts,
        "entities": np.array(entities, np.int32),
        "distinctions": distinction_codes(distinctions),
        "relations": np.array(relations, np.int64),
    }
    return columns, lists


def _counters(rows: Mapping[str, Sequence[Any]]) -> dict[str, Column]:
    """Return the columns of `COUNTERS`; a memory that no recall returned was last accessed when it was created."""
    made = zip(rows["accessed_at"], rows["created_at"], strict=True)
    accessed = [created if moment is None else moment for moment, created in made]
    values = {**rows, "accessed_at": accessed}
    return {name: _array(values[name], dtype) for name, dtype in COUNTERS.items()}


def _array(values: Sequence[Any], dtype: Any) -> Column:
    """Return the values as an array; unlike `np.array`, `fromiter` raises for None."""
    return np.fromiter(values, dtype, len(values))


def distinction_codes(distinctions: Sequence[str]) -> Codes:
    """Return the codes of some distinctions, int64[n]."""
    codes = {distinction: _distinction_code(distinction) for distinction in set(distinctions)}
    return np.fromiter(map(codes.__getitem__, distinctions), np.int64, len(distinctions))


def _distinction_code(distinction: str) -> int:
    """Return the code of a distinction as `batch.coded` has it, with a hash of the text for its number.

    The hash avoids storing the texts. Two of a million share a hash with a probability of one in a million.
    """
    return (hash(distinction) & _HASH) * len(KINDS) + _KINDS[distinction.partition(":")[0]]


def _replacements(codes: TextCodes, text: str | None) -> list[int]:
    """Return the `replacement` codes of a memory's relations; of JSON, or None."""
    if text is None or text == "[]":
        return []
    found = (one for one in json.loads(text) if one["kind"] == "replaces")
    return [replacement(codes.replaced[one["id"]], one["probability"]) for one in found]


def replacement(number: int, probability: float) -> int:
    """Return the number of a replaced id and the probability, in steps of 1 / `STEPS`, as one number."""
    return number * (STEPS + 1) + round(probability * STEPS)


def _filled(values: Sequence[Any], default: int) -> Sequence[Any]:
    return [default if value is None else value for value in values] if None in values else values


def _split(texts: Sequence[str], separator: str) -> tuple[Codes, list[str]]:
    """Return the number of parts of each text (0 for an empty text), and the parts of all texts in one list."""
    counts = np.fromiter(map(str.count, texts, repeat(separator)), np.int64, len(texts))
    counts += np.fromiter(map(bool, texts), np.bool_, len(texts))
    joined = separator.join(filter(None, texts))
    return counts, joined.split(separator) if joined else []


def _lists(texts: Sequence[str], read: Callable[[list[str]], list[Any]]) -> list[list[Any]]:
    """Return the result of `read` for each JSON list of names; equal texts are read once.

    Raises:
        TypeError, ValueError: a text that is not a JSON list of names.
    """
    distinct = list(dict.fromkeys(texts))
    found = json.loads(f"[{','.join(distinct)}]")
    "".join(chain.from_iterable(found))  # raises for all but text
    lists = dict(zip(distinct, map(read, found), strict=True))
    return [lists[text] for text in texts]


def _flat(lists: Sequence[Sequence[Any]]) -> tuple[Codes, list[Any]]:
    """Return the length of each list, and the items of all lists in one."""
    return np.fromiter(map(len, lists), np.int64, len(lists)), list(chain.from_iterable(lists))


def _matrix(vectors: Sequence[bytes | None], dimension: int) -> Vectors32:
    """Return float32[n, dimension], a row of zeros for a missing vector."""
    zeros = bytes(4 * dimension)
    joined = b"".join(zeros if vector is None else vector for vector in vectors)
    return np.frombuffer(joined, "<f4").reshape(len(vectors), dimension)


def _has_vector(vectors: Sequence[bytes | None], dimension: int) -> list[bool]:
    """Return whether each vector exists and is not zeros, which say that the model knows no word of the text."""
    zeros = bytes(4 * dimension)
    return [vector is not None and vector != zeros for vector in vectors]


def _bytes(ids: Sequence[str]) -> Bytes:
    """Return ids in UTF-8, whose bytes sort as the texts do; no id contains a null character."""
    return np.array("\0".join(ids).encode().split(b"\0") if len(ids) else [], np.bytes_)


def _texts(ids: Bytes) -> NDArray[np.object_]:
    texts = b"\0".join(ids.tolist()).decode().split("\0") if len(ids) else []
    return np.array(texts, dtype=object)


def _with_width(ids: Bytes, others: Bytes) -> Bytes:
    """Return ids with room for the longest of some others."""
    return ids if ids.dtype.itemsize >= others.dtype.itemsize else ids.astype(others.dtype)
