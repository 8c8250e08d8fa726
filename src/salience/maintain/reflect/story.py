"""The story of reflecting: read a home, group what belongs together, match it with the reflections there, write."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import Final

import numpy as np

from salience.batch import Vectors32
from salience.errors import StaleError
from salience.extract.distinctions import distinctions
from salience.extract.subjects import Subjects
from salience.extract.terms import index_terms
from salience.maintain.reflect.groups import Group, groups
from salience.maintain.reflect.matching import Matched, is_refused, match
from salience.maintain.reflect.wording import Worded, Writer, carried
from salience.pending import admitted
from salience.ports import Add, Change, Need, Revise, Services, Stored
from salience.records import Memory, ReflectReport, Scope
from salience.steps import retry_stale, scan
from salience.text import content_hash

Progress = Callable[[int], None]
KIND: Final = "reflection"


def reflect(
    services: Services, scope: Scope, *, dry_run: bool = False, progress: Progress = lambda _: None
) -> ReflectReport:
    """Sum up memories that belong together, and return what was written.

    Each group of related memories of one home has one reflection, a semantic memory that lives where they do and lists
    them; they stay as they are, and name it. A group that is as before stays as it is, so that a second pass writes
    nothing. One that gained or lost members, or whose reflection is stale, has it renewed; a reflection whose group is
    gone is stale; one that a person forgot is not made again while its sources are the same.

    Args:
        services: the ports; its summariser, if any, writes the texts, and the medoid's text stands where it fails.
        scope: who asks; all homes that are visible there are looked at, one after the other.
        dry_run: write nothing, and ask no summariser.
        progress: called with how many memories have been looked at since the last call.

    Raises:
        MovedError: the store was given another model since it was opened; what was written before stands.
        StoreError: the store failed; as above.
    """
    passing = Pass(services, scope, dry_run)
    for home, (ids, reflections) in _homes(services, scope).items():
        if ids or reflections:
            retry_stale(partial(passing.over, home, ids, reflections))
        progress(len(ids))
        passing.examined += len(ids)
    return passing.report()


def _homes(services: Services, scope: Scope) -> dict[Scope, tuple[list[str], list[str]]]:
    """Return home -> the ids of its live memories, and those of its reflections, forgotten ones too.

    Only ids are held, so that the texts and vectors of one home are in memory at a time.
    """
    found: dict[Scope, tuple[list[str], list[str]]] = {}
    for stored in scan(services, scope, forgotten=True):
        memory = stored.memory
        live, reflections = found.setdefault(replace(memory.scope, session_id=None), ([], []))
        if memory.sources:
            reflections.append(memory.id)
        elif memory.forgotten_at is None:
            live.append(memory.id)
    return found


@dataclass(frozen=True, slots=True, eq=False)
class Home:
    """A home as it stands.

    Attributes:
        scope: its address.
        memories: id -> live memory that is no reflection.
        vectors: id -> unit vector of those that have one.
        reflections: id -> reflection, forgotten or not.
    """

    scope: Scope
    memories: Mapping[str, Memory]
    vectors: Mapping[str, Vectors32]
    reflections: Mapping[str, Memory]

    def may_free(self, memory: Memory) -> bool:
        """Return whether a memory names a reflection that it can be made to name no more.

        One that a person forgot goes on being named, so that its sources are there when it is brought back.
        """
        named = self.reflections.get(memory.reflection or "")
        return memory.reflection is not None and (named is None or not is_refused(named))


Loose = Mapping[str, Sequence[Memory]]
"""Reflection -> the memories that name it and are in no group any more."""


@dataclass(eq=False)
class Pass:
    """One pass over some homes, and what it has written so far, by the id of the reflection."""

    services: Services
    caller: Scope
    dry_run: bool
    examined: int = 0
    made: dict[str, Memory] = field(default_factory=dict)
    renewed: dict[str, Memory] = field(default_factory=dict)
    retired: dict[str, None] = field(default_factory=dict)
    unchanged: dict[Scope, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._writer = Writer(self.services)
        self._read = Subjects(self.services.tokeniser)

    def over(self, scope: Scope, ids: list[str], reflections: list[str]) -> None:
        """Bring the reflections of one home up to date, each in a transaction of its own.

        Raises:
            StaleError: another writer changed a memory meanwhile; all that it does not concern is written.
        """
        now = self.services.clock()
        home = read(self.services, scope, ids, reflections, now)
        found = groups(
            home.memories,
            home.vectors,
            read=self._read,
            now=now,
            clustering=self.services.clustering,
            calibration=self.services.calibration,
        )
        matched = match(found, list(home.reflections.values()))
        loose = _loose(home, matched)
        erased = sorted(loose.keys() - home.reflections.keys())
        self.unchanged[scope] = 0
        _all_in_turn(
            [
                *(partial(self._retire, left, loose, now) for left in matched.left),
                *(partial(self._apply, self._naming(loose[one], None, now)) for one in erased),
                *(partial(self._bring_up_to_date, home, *pair, loose, now) for pair in matched.pairs),
            ]
        )

    def _bring_up_to_date(
        self, home: Home, group: Group, reflection: Memory | None, loose: Loose, now: datetime
    ) -> None:
        if reflection is None or not self._stands(reflection, group):
            self._write(home, group, reflection, loose, now)
        else:
            self.unchanged[home.scope] += reflection.id not in self.made.keys() | self.renewed.keys()

    def _stands(self, reflection: Memory, group: Group) -> bool:
        """Return whether a reflection is as it would be made now.

        One that was restored may list other memories than its key tells of. One whose text is the medoid's, though
        there is a summariser, is one for which it failed: it is asked again.
        """
        if reflection.status != "live" or reflection.key != group.key:
            return False
        if reflection.change == "restore" and set(reflection.sources) != {memory.id for memory in group.members}:
            return False
        if self.dry_run or reflection.content_hash not in {memory.content_hash for memory in group.members}:
            return True
        return not self._writer.word(group).is_summary

    def _write(self, home: Home, group: Group, old: Memory | None, loose: Loose, now: datetime) -> None:
        """Write the reflection of a group, and have its sources name it.

        A source that changes while the text is written must not live on in it. A change of a source takes a reflection
        in sight out of it, so that one of the two writers comes too late. One out of sight it leaves as it is: there
        every source gets a version, on which the two meet.
        """
        worded = self._writer.word(group, ask=not self.dry_run)
        new = self._made(home, group, worded, now) if old is None else self._renewed(old, group, worded, now)
        is_out = old is not None and old.status != "live"
        naming = [
            memory for memory in group.members if memory.id in new.sources and (is_out or memory.reflection != new.id)
        ]
        freed = [memory for memory in group.members if memory.id not in new.sources and home.may_free(memory)]
        changes: list[Change] = [
            *self._naming(naming, new.id, now),
            *self._naming([*freed, *loose.get(new.id, ())], None, now),
            self._change(new, worded, old is None),
        ]
        self._apply(changes)
        (self.made if old is None or old.id in self.made else self.renewed)[new.id] = new

    def _naming(self, memories: Iterable[Memory], reflection: str | None, now: datetime) -> list[Change]:
        """Return the changes that make memories name a reflection as the one that sums them up."""
        return [
            Revise(memory.changed("reflect", now, by=self.caller.who_at(memory.scope), reflection=reflection))
            for memory in memories
        ]

    def _made(self, home: Home, group: Group, worded: Worded, now: datetime) -> Memory:
        fields = carried(group, worded, self.services.calibration)
        return Memory(
            id=self.services.new_id(now),
            scope=home.scope,
            content_hash=content_hash(worded.content),
            kind=KIND,
            tier="semantic",
            fact_key=None,
            supersedes=None,
            updated_at=fields["created_at"],
            tier_since=now,
            changed_at=now,
            changed_by=self.caller.who_at(home.scope),
            reason=_reason(worded),
            **fields,
        )

    def _change(self, memory: Memory, worded: Worded, is_new: bool) -> Add | Revise:
        terms = index_terms(self.services.tokeniser, memory)
        told_apart = distinctions(memory.content, memory.speaker)
        if is_new:
            return Add(Stored(memory, worded.vector, terms, {}, told_apart))
        return Revise(memory, worded.vector, terms, sets_importance=True, distinctions=told_apart)

    def _renewed(self, old: Memory, group: Group, worded: Worded, now: datetime) -> Memory:
        fields = carried(group, worded, self.services.calibration)
        hashed, said = content_hash(worded.content), fields["created_at"]
        made = {**fields, "content_hash": hashed, "updated_at": said, "forgotten_at": None}
        return old.changed("reflect", now, by=self.caller.who_at(old.scope), reason=_reason(worded), **made)

    def _retire(self, reflection: Memory, loose: Loose, now: datetime) -> None:
        """Take a reflection that stands for no group out of sight, and let its sources name it no more."""
        changes = self._naming(loose.get(reflection.id, ()), None, now)
        if reflection.status != "live":
            self._apply(changes)
            return
        reason = "its sources no longer belong together"
        by = self.caller.who_at(reflection.scope)
        gone = reflection.changed("stale", now, by=by, reason=reason, forgotten_at=now)
        self._apply([*changes, Revise(gone)])
        self.retired[reflection.id] = None

    def _apply(self, changes: list[Change]) -> None:
        if changes and not self.dry_run:
            self.services.store.apply(changes, counted=True)

    def report(self) -> ReflectReport:
        """Return what was written."""
        return ReflectReport(
            examined=self.examined,
            made=tuple(self.made.values()),
            renewed=tuple(self.renewed.values()),
            retired=tuple(self.retired),
            unchanged=sum(self.unchanged.values()),
            fell_back=len(self._writer.fell_back),
            dry_run=self.dry_run,
        )


def read(services: Services, scope: Scope, ids: Iterable[str], reflections: Iterable[str], now: datetime) -> Home:
    """Return a home as it stands: of some memories, those that are still live there, and their reflections.

    Raises:
        MovedError: the vectors there are another model's than the configured by now.
    """
    pin = services.store.pinned()
    if pin is not None and (pin.name, pin.dimension) != (services.embedder.name, services.embedder.dimension):
        admitted(services)
    memories = {memory.id: memory for memory in services.store.fetch(scope, list(ids))}
    named = {memory.reflection for memory in memories.values() if memory.reflection is not None}
    known = {memory.id: memory for one in sorted(named | set(reflections)) for memory in _current(services, scope, one)}
    batch = services.store.gather(Need(scope=scope, now=now, ids=tuple(memories), vectors=True))
    vectors: dict[str, Vectors32] = {}
    if batch.vectors is not None and len(batch):
        with_vector = np.flatnonzero(batch.vectors.places >= 0)
        rows = batch.vectors.at(with_vector)
        vectors = {str(batch.ids[row]): vector for row, vector in zip(with_vector, rows, strict=True)}
    return Home(scope, memories, vectors, known)


def _current(services: Services, scope: Scope, id: str) -> Iterator[Memory]:
    """Yield the memory of an id as it stands, live or not, if it is visible."""
    yield from (stored.memory for stored in services.store.history(scope, id)[-1:])


def _all_in_turn(steps: Iterable[Callable[[], None]]) -> None:
    """Take every step, also after one for which a memory had changed meanwhile, and tell of that at the end.

    A try anew so has only those left to do, however many others write in the time that a summariser takes.
    """
    failed: StaleError | None = None
    for step in steps:
        try:
            step()
        except StaleError as error:
            failed = error
    if failed is not None:
        raise failed


def _loose(home: Home, matched: Matched) -> Loose:
    """Return reflection -> the memories that name it and are in no group any more."""
    grouped = {memory.id for group, _ in matched.pairs for memory in group.members}
    found: dict[str, list[Memory]] = {}
    for memory in home.memories.values():
        if memory.reflection is not None and memory.id not in grouped and home.may_free(memory):
            found.setdefault(memory.reflection, []).append(memory)
    return found


def _reason(worded: Worded) -> str:
    return f"sums up {len(worded.sources)} memories"
