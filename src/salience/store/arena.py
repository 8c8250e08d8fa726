"""The columnar cache of a tenant's live memories: immutable snapshots, each made from the one before and a change."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from itertools import compress
from typing import Any, Final

import numpy as np

from salience.batch import Column, Rows, Vectors32
from salience.lazy import lazy
from salience.store.ids import Held, Ids, held
from salience.store.kernels import is_quick
from salience.store.numbering import Numbers
from salience.store.parsed import FIXED, ORDER, Parsed, counters, laid, runs
from salience.store.postings import Index, Numbers32
from salience.store.quantised import Quantised, alone
from salience.store.roster import Bools, Roster, find
from salience.store.rows import readable
from salience.store.single import Row, Single, id_of, is_live
from salience.store.slots import Empty, Slots
from salience.store.sql import ARENA
from salience.store.touched import Touched

_LEAST_DEAD: Final = 64
_FEW: Final = 32
"""So many turns are put in their sessions one by one."""
_SEEN: Final = 64
"""Of so many scopes it is known what they saw, and of those besides that were asked about last."""
_SINGLE: Final = 8
"""So many new memories are taken in one by one; more are quicker together."""


@dataclass(frozen=True, eq=False)
class Arena:
    """A snapshot. A row is a live memory; a slot is a version of one, never rewritten, dead once no row points to it.

    Where slots lie is a matter of speed alone: see `parsed.laid`.

    Attributes:
        roster: the rows.
        slots: columns by slot, and `vector`; numbers of texts are those of `numbers`.
        touched: what changes without a new version, where it has.
        mentions, distinctions: the entity numbers, and the codes of distinctions, of all slots, one run a slot.
        terms, tags, entities: where each number occurs, by slot.
        line: `by_session` as it was when the roster was `lined`.
        sequence: the change sequence that the snapshot is up to.
        laid: how many of the slots, the first ones, lie as `parsed.laid` has them.
        error: how far a quantised vector is from the whole one at most.
        views: what scopes see of the snapshot, by their coordinates; worked out when first asked for.
        seen: what some of them knew of a snapshot to which this one only adds, and how many slots that had.
    """

    roster: Roster
    slots: Slots
    touched: Touched
    mentions: Slots
    distinctions: Slots
    terms: Index
    tags: Index
    entities: Index
    line: Numbers32
    lined: Roster
    numbers: Numbers
    sequence: int
    laid: int = 0
    error: float = 0.0
    views: dict[Any, Any] = field(default_factory=dict)
    seen: Mapping[Any, tuple[Mapping[str, Any], int]] = field(default_factory=dict)

    @property
    def ids(self) -> Ids:
        """Ids by row, ascending."""
        return self.roster.ids

    @property
    def order(self) -> Numbers32:
        """int32[n], the slot of each row."""
        return self.roster.order

    @property
    def rows(self) -> Numbers32:
        """int32[slots], the row that points to each slot; -1 for a dead one."""
        return self.roster.rows

    @property
    def dimension(self) -> int:
        """Length of a vector."""
        return int(self.slots["vector"].shape[1])

    @property
    def is_quantised(self) -> bool:
        """Whether it keeps vectors quantised too, since there is a library that is quick with them."""
        return "quantised" in self.slots.arrays

    def counter(self, name: str, slots: Column) -> Column:
        """Return one of `parsed.COUNTERS` of some slots."""
        return self.touched.column(self.slots, name, slots)

    @lazy
    def by_session(self) -> Numbers32:
        """The live slots that have a session: by its number, and in a session by time, turn and id."""
        return self.line if self.lined is self.roster else self._lined()

    def in_session(self, slots: Rows) -> Rows:
        """Return those of some live slots that have a session, in the order of `by_session`."""
        slots = slots[self.slots["session"][slots] > 0]
        keys = [self.slots[name][slots] for name in ("turn", "created_at", "session")]
        return slots[np.lexsort([self.rows[slots], *keys])]  # rows stand by id

    def slots_of(self, ids: Sequence[str]) -> tuple[Rows, Bools]:
        """Return the slots of those of some ids that are live memories, and which ones these are."""
        rows, known = self.roster.find(ids)
        return self.order[rows[known]].astype(np.intp), known

    def number(self, column: str, text: object) -> int:
        """Return the number of a text in one of the columns `numbering.CODED`; -1 if it has none."""
        return self.numbers.coded[column].get(text, -1)

    @classmethod
    def empty(cls, dimension: int, vectors: Empty = np.empty, room: int = 0) -> Arena:
        """Return the arena of no memories, with room for some; it makes its arrays of vectors by `vectors`."""
        columns: dict[str, Column] = {name: np.empty(room, dtype) for name, dtype in FIXED.items()}
        for name, column in _vectors(np.empty((0, dimension), np.float32))[0].items():
            make = vectors if name == "vector" else np.empty
            columns[name] = make((room, *column.shape[1:]), column.dtype)
        roster = Roster.empty()
        return cls(
            roster,
            Slots.of(columns, 0, {"vector": vectors}),
            Touched(),
            Slots.of({"number": np.empty(0, np.int32)}, 0),
            Slots.of({"code": np.empty(0, np.int64)}, 0),
            Index(),
            Index(),
            Index(),
            np.empty(0, np.int32),
            roster,
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
        rows = sorted(rows, key=id_of)
        first = bisect_left(rows, True, key=lambda row: self.roster.following(id_of(row)))
        known, new = rows[:first], rows[first:]
        if len(new) > _SINGLE or not all(map(is_live, new)):
            known, new = rows, []
        return reduce(Arena.with_one, new, self._changed(known) if known else self)

    def _changed(self, rows: Sequence[Row]) -> Arena:
        """Return the arena after a change, given at least one row, in the order of ids."""
        changed = _columns(rows)
        ids, live = held(changed["id"]), np.array([moment is None for moment in changed["forgotten_at"]])
        slots = np.where(live, self._held(ids, changed), -1)
        again, fresh = slots >= 0, live & (slots < 0)
        grown = self._touched(slots[again], changed, again) if again.any() else self
        if fresh.any():
            texts = _columns(list(compress(rows, fresh.tolist())))
            parsed = Parsed.of(self.numbers, texts)
            slots[fresh] = grown.slots_for(parsed)
            grown = grown.with_slots(parsed, slots[fresh])
            grown = grown.with_index(parsed, slots[fresh]).with_vectors(slots[fresh], texts["vector"])
        return grown.with_rows(ids, slots, max(changed["seq"]))

    def with_one(self, row: Row) -> Arena:
        """Return the arena with a live memory whose id is greater than all others."""
        one, slot = Single.of(self.numbers, row), self.slots.length
        columns = {
            **one.columns,
            "supersedes": 0 if one.supersedes is None else self._superseded(one),
            "entities_from": self.mentions.length,
            "distinctions_from": self.distinctions.length,
        }
        embedded, error = _vector(_matrix([one.vector], self.dimension)[0])
        return replace(
            self,
            roster=self.roster.followed(one.id),
            slots=self.slots.append({**columns, **embedded}, 1),
            mentions=self.mentions.append({"number": one.mentions}, len(one.mentions)),
            distinctions=self.distinctions.append({"code": one.distinctions}, len(one.distinctions)),
            terms=self.terms.noting(one.terms, slot),
            tags=self.tags.noting(one.tags, slot),
            entities=self.entities.noting(dict.fromkeys(one.mentions, 1), slot),
            sequence=max(self.sequence, one.sequence),
            laid=self.laid or 1,
            error=max(self.error, error),
            views={},
            seen=self._seen(),
            **self._line(),
        )

    def _seen(self) -> Mapping[Any, tuple[Mapping[str, Any], int]]:
        """Return of what the next snapshot, which only adds to this one, is to make what scopes see."""
        own = {key: (view.kept(), self.slots.length) for key, view in list(self.views.items())}
        return {**(self.seen if len(self.seen) < _SEEN else {}), **own} if own else self.seen

    def _line(self) -> dict[str, Any]:
        """Return of what the next snapshot is to make `by_session`: what this one made, if anybody asked for it."""
        made: Numbers32 | None = vars(self).get("by_session")
        return {"line": self.line, "lined": self.lined} if made is None else {"line": made, "lined": self.roster}

    def recounted(self, slots: Rows, columns: Mapping[str, Column], sequence: int) -> Arena:
        """Return the arena with other counters for some slots, each of which comes once, up to a change sequence."""
        touched = self.touched.noting(self.slots, slots, columns) if len(slots) else self.touched
        touched, table = touched.settled(self.slots)
        return replace(self, touched=touched, slots=table, sequence=max(self.sequence, sequence), **self._line())

    def upto(self, sequence: int) -> Arena:
        """Return the arena up to a change sequence, where nothing is left to be read before it."""
        return self if self.sequence >= sequence else replace(self, sequence=sequence, **self._line())

    def _touched(self, slots: Rows, changed: Mapping[str, Sequence[Any]], which: Bools) -> Arena:
        """Return the arena with other counters for some slots, `which` of the changed memories are in."""
        columns = {name: column[which] for name, column in counters(changed).items()}
        touched, table = self.touched.noting(self.slots, slots, columns).settled(self.slots)
        return replace(self, touched=touched, slots=table, **self._line())

    def _held(self, ids: Held, changed: Mapping[str, Sequence[Any]]) -> Rows:
        """Return the slot of each memory that is known in the version that it has; -1 for any other."""
        rows, known = find(self.roster.held, ids)
        slots = np.full(len(ids), -1, np.intp)
        slots[known] = self.order[rows[known]]
        same = self.slots["version"][slots[known]] == np.array(changed["version"])[known]
        same &= self.slots["has_vector"][slots[known]] == np.array(changed["has_vector"])[known]
        slots[np.flatnonzero(known)[~same]] = -1
        return slots

    def slots_for(self, parsed: Parsed) -> Rows:
        """Return the next slots, one for each memory, so that they lie as they are to."""
        order, first = parsed.order(), self.slots.length
        slots = np.empty(len(order), np.intp)
        slots[order] = np.arange(first, first + len(order))
        return slots

    def with_slots(self, parsed: Parsed, slots: Rows) -> Arena:
        """Return the arena with memories in the slots that `slots_for` told.

        No row points to them yet, nor is it known yet where their terms occur, and their vectors are not written yet.
        """
        order = np.argsort(slots)
        columns = {**parsed.columns, **self._serials(parsed)}
        columns["entities_from"] = columns["entities_from"] + self.mentions.length
        columns["distinctions_from"] = columns["distinctions_from"] + self.distinctions.length
        return replace(
            self,
            slots=self.slots.append({name: column[order] for name, column in columns.items()}, len(order)),
            mentions=self.mentions.append({"number": parsed.mentions}, len(parsed.mentions)),
            distinctions=self.distinctions.append({"code": parsed.distinctions}, len(parsed.distinctions)),
            laid=self.laid or len(order),
        )

    def with_index(self, parsed: Parsed, slots: Rows) -> Arena:
        """Return the arena with what occurs in slots that memories were given."""
        slots = slots.astype(np.int32)
        return replace(
            self,
            terms=self.terms.append(parsed.terms, np.repeat(slots, parsed.columns["length"])),
            tags=self.tags.append(parsed.tags, np.repeat(slots, parsed.tag_counts)),
            entities=self.entities.append(parsed.mentions, np.repeat(slots, parsed.columns["entities"])),
        )

    def with_vectors(self, slots: Rows, vectors: Sequence[bytes | None]) -> Arena:
        """Return the arena with the vectors of slots of which nobody knows yet; None for one that is not known."""
        columns, error = _vectors(_matrix(vectors, self.dimension))
        for name, column in columns.items():
            self.slots.arrays[name][slots] = column
        return replace(self, error=max(self.error, error))

    def with_rows(self, ids: Held, slots: Rows, sequence: int) -> Arena:
        """Return the arena with each id, ascending, in the slot that it has now; -1 for one that is not live."""
        roster = self.roster.changed(ids, slots, self.slots.length)
        if roster is self.roster:
            return replace(self, sequence=max(self.sequence, sequence))
        return replace(self, roster=roster, sequence=max(self.sequence, sequence), views={}, seen={}, **self._line())

    def _serials(self, parsed: Parsed) -> dict[str, Numbers32]:
        """Return the numbers of memories, and those of the ones that they supersede; 0 for none."""
        rows, known = find(self.roster.held, parsed.ids)
        numbers = np.zeros(len(known), np.int32)
        numbers[known] = self.slots["id"][self.order[rows[known]]]
        numbers[~known] = self.numbers.ids.of(Ids(parsed.ids[~known]), int(np.count_nonzero(~known)))
        supersedes = np.zeros(len(known), np.int32)
        if parsed.supersedes:
            named = self.numbers.ids.named(self._known(set(parsed.supersedes.values()), parsed.ids, numbers))
            for place, superseded in parsed.supersedes.items():
                supersedes[place] = named[superseded]
        return {"id": numbers, "supersedes": supersedes}

    def _superseded(self, one: Single) -> int:
        """Return the number of the memory that a new one names."""
        own = np.array([one.columns["id"]], np.int32)
        return self.numbers.ids.named(self._known({str(one.supersedes)}, held([one.id]), own))[str(one.supersedes)]

    def _known(self, wanted: set[str], ids: Held, numbers: Numbers32) -> dict[str, int]:
        """Return the numbers of some memories: of new ones with these `ids`, or of live ones; -1 for any other."""
        asked = sorted(wanted)
        rows, there = self.roster.find(asked)
        found = np.full(len(asked), -1, np.int64)
        found[there] = self.slots["id"][self.order[rows[there]]]
        new = {own: number for own, number in zip(Ids(ids).tolist(), numbers.tolist(), strict=True) if own in wanted}
        return {**dict(zip(asked, found.tolist(), strict=True)), **new}

    def _lined(self) -> Numbers32:
        """Return `by_session`, made of that of an earlier snapshot."""
        before, line = self.lined, self.line
        first = before.rows.size
        if len(self.order) - len(before.order) < self.slots.length - first:  # some are dead now
            line = line[self.rows[line] >= 0]
        new = np.flatnonzero((self.rows[first:] >= 0) & (self.slots["session"][first:] > 0)) + first
        if first == 0 or len(new) > _FEW:
            return self.in_session(np.concatenate((line, new))).astype(np.int32)
        key = partial(_key, [self.slots[name] for name in ("session", "created_at", "turn")], self.rows)
        new = self.in_session(new)
        places = [bisect_left(range(len(line)), key(slot), key=lambda place: key(line[place])) for slot in new]
        return np.insert(line, places, new) if places else line

    @property
    def is_loose(self) -> bool:
        """Whether more than half of the slots are dead, or came since they were laid."""
        return self.slots.length > 2 * min(len(self.order), self.laid) + _LEAST_DEAD

    def packed(self) -> Arena:
        """Return the arena without its dead slots, the others laid anew."""
        kept = self.order[laid({name: self.slots[name][self.order] for name in ORDER})]
        place = np.full(self.slots.length, -1, np.intp)
        place[kept] = np.arange(len(kept))
        table = self.touched.all_in(self.slots).take(kept)
        held = {name: runs(table[f"{name}_from"], table[name]) for name in ("entities", "distinctions")}
        for name in held:
            table.arrays[f"{name}_from"][:] = np.cumsum(table[name]) - table[name]
        roster = Roster.of(self.roster.held, place[self.order], len(kept))
        return replace(
            self,
            roster=roster,
            slots=table,
            touched=Touched(),
            mentions=self.mentions.take(held["entities"]),
            distinctions=self.distinctions.take(held["distinctions"]),
            terms=self.terms.moved(place),
            tags=self.tags.moved(place),
            entities=self.entities.moved(place),
            line=place[self.by_session].astype(np.int32),
            lined=roster,
            laid=len(kept),
            views={},
            seen={},
        )


def _key(columns: Sequence[Column], rows: Numbers32, slot: Any) -> tuple[int, ...]:
    """Return what tells where a slot stands in `Arena.by_session`."""
    return (*(int(column[slot]) for column in columns), int(rows[slot]))


def _columns(rows: Sequence[Sequence[Any]]) -> dict[str, Sequence[Any]]:
    """Return the columns `sql.ARENA` of rows by name, and which ones have a vector."""
    columns = dict(zip(ARENA, zip(*rows, strict=True), strict=True))
    return {**columns, "has_vector": [vector is not None for vector in columns["vector"]]}


def _vectors(matrix: Vectors32) -> tuple[dict[str, Column], float]:
    """Return the columns that hold vectors, and how far a quantised one is from the whole one at most."""
    if not is_quick():
        return {"vector": matrix}, 0.0
    quantised = Quantised.of(matrix)
    return {"vector": matrix, "quantised": quantised.numbers, "step": quantised.steps}, quantised.error


def _vector(vector: Vectors32) -> tuple[dict[str, Any], float]:
    """Return the same of one vector."""
    if not is_quick():
        return {"vector": vector}, 0.0
    numbers, step, error = alone(vector)
    return {"vector": vector, "quantised": numbers, "step": step}, error


def _matrix(vectors: Sequence[bytes | None], dimension: int) -> Vectors32:
    """Return float32[n, dimension], a row of zeros for a vector that is not known."""
    zeros = bytes(4 * dimension)
    joined = b"".join(zeros if vector is None else vector for vector in vectors)
    return np.frombuffer(joined, "<f4").reshape(len(vectors), dimension)
