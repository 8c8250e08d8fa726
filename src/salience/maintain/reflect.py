"""Reflection: related memories are summed up in one, which names its sources and becomes stale with them.

For each home: read the memories, group them (`groups`), match groups and reflections, write one transaction each.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any, Final

import numpy as np

from salience.batch import Vectors32, cosines
from salience.errors import EmbedderError, InputError, StaleError, SummariserError
from salience.extract.subjects import Subjects
from salience.maintain.groups import Group, Matched, groups, is_refused, match
from salience.pending import check_model
from salience.ports import Add, Calibration, Change, Need, Revise, Services
from salience.records import Memory, ReflectReport, Scope, checks
from salience.remember import derive
from salience.remember.facts import SUPERSEDED_WEIGHT
from salience.steps import embed, retry_stale, scan
from salience.text import content_hash

Progress = Callable[[int], None]
"""Called with the number of memories examined since the last call."""
KIND: Final = "reflection"
LABELS: Final = 5
"""Most entities, and most tags, that a reflection takes from its sources."""
LABEL_SHARE: Final = 1 / 3
"""Least share of the sources that name an entity or tag which the reflection takes; at least two must."""
Loose = Mapping[str, Sequence[Memory]]
"""Reflection id -> memories that name the reflection but belong to no group any more."""


def reflect(
    services: Services, scope: Scope, *, dry_run: bool = False, progress: Progress = lambda _: None
) -> ReflectReport:
    """Sum up related memories in reflections, and return what was written.

    Each group of related memories of one home has one reflection: a semantic memory of the same home that lists its
    sources. A second run without changes writes nothing. A group with other members, or with a stale reflection, gets
    it renewed; a reflection without a group becomes stale; a reflection that a person forgot is not made again for the
    same sources.

    All homes that `scope` shows are examined; `progress` is called after each. Without a summariser, or if it fails,
    the text of a reflection is that of the medoid. With `dry_run`, nothing is written, and no summariser is called.

    Raises:
        MovedError: the store was moved to another model meanwhile; earlier reflections are stored.
        StoreError: the store failed; as above.
    """
    run = _Run(services, scope, dry_run)
    for home, (ids, reflections) in _homes(services, scope).items():
        if ids or reflections:
            retry_stale(partial(run.reflect_home, home, ids, reflections))
        progress(len(ids))
        run.examined += len(ids)
    return ReflectReport(
        examined=run.examined,
        made=tuple(run.made.values()),
        renewed=tuple(run.renewed.values()),
        retired=tuple(run.retired),
        unchanged=sum(run.unchanged.values()),
        fell_back=len(run.fell_back),
        dry_run=dry_run,
    )


def _homes(services: Services, scope: Scope) -> dict[Scope, tuple[list[str], list[str]]]:
    """Return home -> ids of its live memories, and ids of its reflections, live or not.

    Texts and vectors are read later, so only those of one home are in memory at a time.
    """
    found: dict[Scope, tuple[list[str], list[str]]] = {}
    for stored in scan(services, scope, forgotten=True):
        memory = stored.memory
        live, reflections = found.setdefault(memory.scope.without_session, ([], []))
        if memory.sources:
            reflections.append(memory.id)
        elif memory.forgotten_at is None:
            live.append(memory.id)
    return found


@dataclass(frozen=True, slots=True, eq=False)
class Home:
    """The memories of one home.

    Attributes:
        scope: the address of the home.
        memories: id -> live memory that is no reflection.
        vectors: id -> unit vector, for memories that have one.
        reflections: id -> reflection, live or not.
    """

    scope: Scope
    memories: Mapping[str, Memory]
    vectors: Mapping[str, Vectors32]
    reflections: Mapping[str, Memory]

    def may_free(self, memory: Memory) -> bool:
        """Return whether a memory names a reflection and may stop naming it.

        Sources of a reflection that a person forgot keep naming it, so that `restore` finds them.
        """
        named = self.reflections.get(memory.reflection or "")
        return memory.reflection is not None and (named is None or not is_refused(named))


def _read_home(services: Services, scope: Scope, ids: Iterable[str], reflections: Iterable[str], now: datetime) -> Home:
    """Return the memories of a home that are still live, and its reflections.

    Raises:
        MovedError: the vectors in the store are of another model by now.
    """
    pin = services.store.pinned()
    if pin is not None and (pin.name, pin.dimension) != (services.embedder.name, services.embedder.dimension):
        check_model(services)
    memories = {memory.id: memory for memory in services.store.fetch(scope, list(ids))}
    named = {memory.reflection for memory in memories.values() if memory.reflection is not None}
    known = [version for id_ in sorted(named | set(reflections)) for version in services.store.history(scope, id_)[-1:]]
    batch = services.store.gather(Need(scope=scope, now=now, ids=tuple(memories), parts=frozenset({"vectors"})))
    vectors: dict[str, Vectors32] = {}
    if batch.vectors is not None and len(batch):
        with_vector = np.flatnonzero(batch.vectors.places >= 0)
        rows = batch.vectors.at(with_vector)
        vectors = {str(batch.ids[row]): vector for row, vector in zip(with_vector, rows, strict=True)}
    return Home(scope, memories, vectors, {stored.memory.id: stored.memory for stored in known})


@dataclass(eq=False)
class _Run:
    """One run over some homes; `made` and `renewed` hold what it wrote, by the id of the reflection."""

    services: Services
    caller: Scope
    dry_run: bool
    examined: int = 0
    made: dict[str, Memory] = field(default_factory=dict)
    renewed: dict[str, Memory] = field(default_factory=dict)
    retired: dict[str, None] = field(default_factory=dict)
    unchanged: dict[Scope, int] = field(default_factory=dict)

    fell_back: set[str] = field(default_factory=set)  # keys of the groups for which the summariser failed
    texts: dict[tuple[str, ...], Text] = field(default_factory=dict)  # of the summariser, for retries of a write

    def reflect_home(self, scope: Scope, ids: list[str], reflections: list[str]) -> None:
        """Bring the reflections of one home up to date, each in a transaction of its own.

        Raises:
            StaleError: another writer changed a memory meanwhile; the other reflections are written.
        """
        now = self.services.clock()
        home = _read_home(self.services, scope, ids, reflections, now)
        found = groups(
            home.memories,
            home.vectors,
            read=Subjects(self.services.tokeniser),
            now=now,
            clustering=self.services.clustering,
            calibration=self.services.calibration,
        )
        matched = match(found, list(home.reflections.values()))
        loose = _loose(home, matched)
        erased = sorted(loose.keys() - home.reflections.keys())
        self.unchanged[scope] = 0
        steps: list[Callable[[], None]] = [
            *(partial(self._retire, reflection, loose, now) for reflection in matched.left),
            *(partial(self._apply, self._name(loose[id_], None, now)) for id_ in erased),
        ]
        for group, reflection in matched.pairs:
            if reflection is None or not self._is_current(reflection, group):
                steps.append(partial(self._write, home, group, reflection, loose, now))
            else:
                self.unchanged[scope] += reflection.id not in self.made.keys() | self.renewed.keys()
        failed: StaleError | None = None
        for step in steps:  # all of them, so that a retry has less left to do
            try:
                step()
            except StaleError as error:
                failed = error
        if failed is not None:
            raise failed

    def _is_current(self, reflection: Memory, group: Group) -> bool:
        """Return whether a reflection would be made the same now.

        A restored reflection may list other memories than its key says. A reflection with the text of a member is
        tried again if there is a summariser: it failed before.
        """
        if reflection.status != "live" or reflection.key != group.key:
            return False
        if reflection.change == "restore" and set(reflection.sources) != {memory.id for memory in group.members}:
            return False
        if self.dry_run or reflection.content_hash not in {memory.content_hash for memory in group.members}:
            return True
        return not self._text(group).is_summary

    def _write(self, home: Home, group: Group, old: Memory | None, loose: Loose, now: datetime) -> None:
        """Write the reflection of a group, and make its sources name it.

        If a source changes meanwhile, one of the two writers gets a `StaleError`: the change of a source also changes
        a live reflection of it; if the reflection is hidden, this write changes every source.
        """
        text = self._text(group)
        fields = _fields(group, text, self.services.calibration)
        reason = f"sums up {len(text.sources)} memories"
        if old is None:
            new = Memory(
                id=self.services.new_id(now),
                scope=home.scope,
                kind=KIND,
                tier="semantic",
                fact_key=None,
                supersedes=None,
                tier_since=now,
                changed_at=now,
                changed_by=self.caller.who_at(home.scope),
                reason=reason,
                relations=(),  # a reflection replaces nothing
                **fields,
            )
            change: Change = Add(derive(self.services, new, text.vector))
        else:
            by = self.caller.who_at(old.scope)
            new = old.changed("reflect", now, by=by, reason=reason, forgotten_at=None, **fields)
            stored = derive(self.services, new)
            change = Revise(
                new,
                text.vector,
                stored.terms,
                sets_importance=True,
                distinctions=stored.distinctions,
                event=stored.event,
            )
        is_hidden = old is not None and old.status != "live"
        naming = [
            memory
            for memory in group.members
            if memory.id in new.sources and (is_hidden or memory.reflection != new.id)
        ]
        freed = [memory for memory in group.members if memory.id not in new.sources and home.may_free(memory)]
        freed += loose.get(new.id, ())
        self._apply([*self._name(naming, new.id, now), *self._name(freed, None, now), change])
        (self.made if old is None or old.id in self.made else self.renewed)[new.id] = new

    def _name(self, memories: Iterable[Memory], reflection: str | None, now: datetime) -> list[Change]:
        """Return the changes that set the reflection of some memories."""
        return [
            Revise(memory.changed("reflect", now, by=self.caller.who_at(memory.scope), reflection=reflection))
            for memory in memories
        ]

    def _retire(self, reflection: Memory, loose: Loose, now: datetime) -> None:
        """Make a reflection without a group stale, and its sources name it no more."""
        changes = self._name(loose.get(reflection.id, ()), None, now)
        is_live = reflection.status == "live"
        if is_live:
            by, reason = self.caller.who_at(reflection.scope), "its sources no longer belong together"
            changes.append(Revise(reflection.changed("stale", now, by=by, reason=reason, forgotten_at=now)))
        self._apply(changes)
        if is_live:
            self.retired[reflection.id] = None

    def _text(self, group: Group) -> Text:
        """Return the summariser's text for a group, else the medoid's; a dry run does not call the summariser."""
        plain = Text(group.medoid.content, group.vector, tuple(memory.id for memory in group.members))
        if self.services.summariser is None or self.dry_run:
            return plain
        members = tuple(memory.id + memory.content_hash for memory in group.members)
        if members not in self.texts:
            try:
                self.texts[members] = summarise(self.services, group)
            except (SummariserError, EmbedderError):
                self.fell_back.add(group.key)
                self.texts[members] = plain
        return self.texts[members]

    def _apply(self, changes: list[Change]) -> None:
        if changes and not self.dry_run:
            self.services.store.apply(changes, counted=True)


def _loose(home: Home, matched: Matched) -> Loose:
    grouped = {memory.id for group, _ in matched.pairs for memory in group.members}
    found: dict[str, list[Memory]] = {}
    for memory in home.memories.values():
        if memory.reflection is not None and memory.id not in grouped and home.may_free(memory):
            found.setdefault(memory.reflection, []).append(memory)
    return found


@dataclass(frozen=True, slots=True, eq=False)
class Text:
    """The text of a reflection.

    Attributes:
        content: the text.
        vector: of the text, float32[d].
        sources: ids of the memories that it sums up.
        is_summary: whether a summariser wrote it.
    """

    content: str
    vector: Vectors32
    sources: tuple[str, ...]
    is_summary: bool = False


def summarise(services: Services, group: Group) -> Text:
    """Return the summariser's text for a group, validated and embedded.

    The summariser reads each memory with its day and speaker, which "I" and "today" refer to.

    Raises:
        SummariserError: it failed, or its answer is no text on some of the sources. The message leaves out the
            summariser's own error, which may quote a memory.
        EmbedderError: the text could not be embedded.
    """
    assert services.summariser is not None  # noqa: S101 - `_Run._text` has checked it
    lines = [
        (memory.id, f"{memory.created_at:%Y-%m-%d} {f'{memory.speaker}: ' if memory.speaker else ''}{memory.content}")
        for memory in group.members
    ]
    try:
        summary = services.summariser.summarise(lines)
        content = checks.text("summary", summary.text, services.content_limit)
        ids = [id_ for id_, _ in lines]
        if not summary.sources or not set(summary.sources) <= set(ids):
            raise SummariserError("summariser: the text rests on no source, or on another than those given. Check it.")
        vector = embed(services, [content])[0].vector
        return Text(content, vector, tuple(id_ for id_ in ids if id_ in summary.sources), is_summary=True)
    except InputError as error:
        raise SummariserError(f"summariser: {error}") from None
    except (SummariserError, EmbedderError):
        raise
    except Exception as error:
        name = type(error).__name__
        raise SummariserError(f"summariser: it failed with {name}. Check it and try again.") from None


def _fields(group: Group, text: Text, calibration: Calibration) -> dict[str, Any]:
    """Return the fields of a reflection that follow from its sources.

    Importance is the mean of the sources, so that an important source still ranks above the reflection. Weight is
    their mean times the relatedness of the text, so that a question which one source answers finds that source first.
    The reflection expires with the first source. `created_at` is that of the medoid, or of the latest source if a
    summariser wrote the text.
    """
    sources = [memory for memory in group.members if memory.id in text.sources]
    is_source = np.array([memory.id in text.sources for memory in group.members])
    relatedness = calibration.related(cosines(group.vectors[is_source], text.vector)).mean()
    weight = sum(memory.weight for memory in sources) / len(sources)
    created = max(memory.created_at for memory in sources) if text.is_summary else group.medoid.created_at
    return {
        "content": text.content,
        "content_hash": content_hash(text.content),
        "importance": sum(memory.importance for memory in sources) / len(sources),
        "weight": max(weight * float(relatedness), SUPERSEDED_WEIGHT),
        "entities": common_labels(memory.entities for memory in sources),
        "tags": common_labels(memory.tags for memory in sources),
        "metadata": checks.Frozen({"medoid": group.medoid.id, "subject": group.subject}),
        "speaker": None if text.is_summary else group.medoid.speaker,
        "created_at": created,
        "updated_at": created,
        "expires_at": min((memory.expires_at for memory in sources if memory.expires_at is not None), default=None),
        "sources": text.sources,
        "key": group.key,
    }


def common_labels(named: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    """Return the labels that enough sources have in common: the most frequent first, ties in order of appearance."""
    lists = [tuple(dict.fromkeys(names)) for names in named]
    counts = Counter(name for names in lists for name in names)
    least = max(2.0, LABEL_SHARE * len(lists))
    return tuple(name for name, count in counts.most_common() if count >= least)[:LABELS]
