"""A file held against the journals of its writers: what was told is there, and nothing else, and all of it fits.

The file is read in two ways: by the store, and by SQLite alone, which knows nothing of the store.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

import numpy as np

from bench.torture.journal import Entry, Mark, Notes
from bench.torture.verbs import OLD, REFLECTION, THINKING
from salience import keywords
from salience.engine import Engine
from salience.errors import SalienceError
from salience.ports import Stored
from salience.records import ANY, Coordinate, Memory
from salience.steps import embed, scan
from salience.text import content_hash

FOUND: Final = 5
"""Memories of each writer that are recalled by their own text."""
TRACE: Final = 60
"""Signs of an erased text by which it is looked for in the file; no other text begins with them."""
RULES: Final[dict[str, str]] = {
    "a foreign key points nowhere": "SELECT count(*) FROM pragma_foreign_key_check",
    "a row is newer than the sequence": """
        SELECT count(*) FROM memories
        WHERE seq > (SELECT coalesce(max(CAST(value AS INTEGER)), 0) FROM meta WHERE name = 'sequence')""",
    "a memory lacks versions, or has too many": """
        SELECT count(*) FROM memories AS m
        WHERE version - 1 <> (SELECT count(*) FROM versions AS v WHERE v.tenant = m.tenant AND v.id = m.id)
        OR version <= (SELECT coalesce(max(version), 0) FROM versions AS v WHERE v.tenant = m.tenant AND v.id = m.id)
        """,
    "a version does not end where the next one begins": """
        WITH each AS (
            SELECT tenant, id, version, changed_at, valid_to FROM versions
            UNION ALL SELECT tenant, id, version, changed_at, NULL FROM memories)
        SELECT count(*) FROM each AS one JOIN each AS next
        ON one.tenant = next.tenant AND one.id = next.id AND next.version = one.version + 1
        WHERE one.valid_to <> next.changed_at""",
    "two turns of a session have the same place": """
        SELECT count(*) FROM (
            SELECT 1 FROM memories WHERE session_id IS NOT NULL
            GROUP BY tenant, environment, user_id, session_id, turn HAVING count(*) > 1)""",
    "a key stands for two memories": """
        SELECT count(*) FROM (
            SELECT 1 FROM memories WHERE key IS NOT NULL GROUP BY tenant, home, key HAVING count(*) > 1)""",
    "a memory supersedes one that keeps its weight": """
        SELECT count(*) FROM memories AS new JOIN memories AS old
        ON old.tenant = new.tenant AND old.id = new.supersedes WHERE old.weight > 0.1""",
    "a live reflection has a source that is not live, or does not name it": """
        SELECT count(*) FROM memories AS one, json_each(one.sources) AS source
        LEFT JOIN memories AS it ON it.tenant = one.tenant AND it.id = source.value
        WHERE one.forgotten_at IS NULL AND (it.forgotten_at IS NOT NULL OR it.reflection IS NOT one.id)""",
    "a live memory names a reflection that is not there, or that is live and does not list it": """
        SELECT count(*) FROM memories AS one
        LEFT JOIN memories AS it ON it.tenant = one.tenant AND it.id = one.reflection
        WHERE one.forgotten_at IS NULL AND one.reflection IS NOT NULL AND (it.id IS NULL OR (
            it.forgotten_at IS NULL AND one.id NOT IN (SELECT value FROM json_each(it.sources))))""",
}
"""What is wrong -> the statement that counts it; 0 is right."""


@dataclass(frozen=True, slots=True)
class Checked:
    """What a check found.

    Attributes:
        told: versions that writers were told of.
        lost: those of them that are not there.
        whole, absent: verbs that nobody was told the end of, and that were found done or not done.
        faults: all that is wrong, as sentences without any content; a lost version is one.
        in_flight: the verbs of `whole` and `absent`, each with what is there of it, None if it was not done.
        unopened: whether the file did not open at all.
    """

    told: int
    lost: int
    whole: int
    absent: int
    faults: tuple[str, ...]
    in_flight: tuple[tuple[Entry, tuple[Mark, ...] | None], ...] = ()
    unopened: bool = False


@dataclass(frozen=True)
class Contents:
    """Every version in a file, current and older, as the store reads them."""

    stored: tuple[Stored, ...]

    @classmethod
    def read(cls, engine: Engine) -> Contents:
        """Return what the engine's file holds, forgotten memories too."""
        scope, _ = keywords.scope(engine.services.tenant, keywords.EVERYWHERE)
        return cls(tuple(scan(engine.services, scope, forgotten=True, versions=True)))

    @cached_property
    def marks(self) -> Counter[Mark]:
        """How often each mark is there."""
        return Counter(Mark.of(item.memory) for item in self.stored)

    @cached_property
    def by_text(self) -> Mapping[tuple[str, str], list[Mark]]:
        """The marks of each change and content."""
        found: dict[tuple[str, str], list[Mark]] = {}
        for mark in self.marks:
            found.setdefault((mark.change, mark.content), []).append(mark)
        return found

    @cached_property
    def current(self) -> Mapping[str, Stored]:
        """Each memory as it stands, by id."""
        return {item.memory.id: item for item in self.stored}  # the last version of each comes last

    @cached_property
    def unforeseen(self) -> frozenset[Mark]:
        """The marks that nobody can foresee: of reflections on their sources, theirs, and of upkeep."""
        return frozenset(Mark.of(item.memory) for item in self.stored if _is_unforeseen(item.memory))

    def fitting(self, mark: Mark) -> list[Mark]:
        """Return the marks that are what `mark` foresees."""
        return [other for other in self.by_text.get((mark.change, mark.content), ()) if mark.fits(other)]


def check(engine: Engine, path: Path | None, journals: Sequence[Notes]) -> Checked:
    """Return how the engine's store stands beside what its writers noted; it is not changed. None: it is no file."""
    contents = Contents.read(engine)
    entries = [entry for notes in journals for entry in notes.entries]
    judged = [(entry, _outcome(contents, entry)) for entry in entries if entry.in_flight and entry.writes]
    done = [entry for entry in entries if entry.told is not None] + [entry for entry, outcome in judged if outcome]
    erased = {gone for entry in done for gone in entry.erased}
    told = {mark for entry in entries for mark in entry.told or () if mark.id not in erased}
    lost = [mark for mark in told if mark not in contents.marks]
    faults = [
        *(failure for notes in journals for failure in notes.failures),
        *(f"a version that was told of is not there: {_named(mark)}" for mark in lost),
        *(f"half of a {entry.verb} is there" for entry, outcome in judged if outcome is None),
        *(f"{gone} was erased, and is there" for gone in erased & contents.current.keys()),
        *_refused(contents, entries, told, erased),
        *_ghosts(contents, told, [entry for entry, outcome in judged if outcome]),
        *_doubles(contents),
        *_derived(engine, contents),
        *_counted(engine, contents, entries),
        *_diagnosed(engine),
        *(() if path is None else raw(path)),
    ]
    found = tuple((entry, _found(contents, entry) if outcome else None) for entry, outcome in judged)
    whole = sum(marks is not None for _, marks in found)
    return Checked(len(told), len(lost), whole, len(found) - whole, tuple(faults), found)


def _is_unforeseen(memory: Memory) -> bool:
    user = str(memory.scope.user_id)
    if user.endswith(THINKING):
        return memory.change == "reflect" or memory.kind == REFLECTION
    return user.endswith(OLD) and memory.change == "promote"


def _named(mark: Mark) -> str:
    return f"{mark.change} of {mark.id}, version {mark.version}"


def _outcome(contents: Contents, entry: Entry) -> bool | None:
    """Return whether all that a verb was going to do was done (True) or none of it (False); None for a part."""
    written = [bool(contents.fitting(mark)) for mark in entry.foreseen]
    there = [*written, *(gone not in contents.current for gone in entry.erased)]
    return all(there) if all(there) or not any(there) else None


def _found(contents: Contents, entry: Entry) -> tuple[Mark, ...]:
    return tuple(mark for foreseen in entry.foreseen for mark in contents.fitting(foreseen))


def _refused(contents: Contents, entries: Sequence[Entry], told: set[Mark], erased: set[str]) -> Iterator[str]:
    for entry in (entry for entry in entries if entry.refused is not None):
        written = [mark for mark in entry.foreseen if set(contents.fitting(mark)) - told - contents.unforeseen]
        gone = [one for one in entry.erased if one not in contents.current and one not in erased]
        if written or gone:
            yield f"{entry.verb} ended with {entry.refused}, and yet {len(written) + len(gone)} changes of it are there"


def _ghosts(contents: Contents, told: set[Mark], done: Sequence[Entry]) -> Iterator[str]:
    """Yield the versions that nobody wrote."""
    known = told.union(*(_found(contents, entry) for entry in done), contents.unforeseen)
    yield from (f"a version that nobody wrote is there: {_named(mark)}" for mark in contents.marks.keys() - known)


def _doubles(contents: Contents) -> Iterator[str]:
    """Yield the texts that were stored twice; no writer gives a text twice, but under one key."""
    made = Counter(
        item.memory.content for item in contents.stored if item.memory.version == 1 and not item.memory.sources
    )
    yield from (f"a text of {len(text)} signs is there {count} times" for text, count in made.items() if count > 1)


def _derived(engine: Engine, contents: Contents) -> Iterator[str]:
    """Yield the memories whose hash or vector is not that of their text."""
    for item in contents.stored:
        if item.memory.content_hash != content_hash(item.memory.content):
            yield f"the hash of {item.memory.id}, version {item.memory.version}, is not that of its text"
    current = list(contents.current.values())
    vectors = embed(engine.services, [item.memory.content for item in current])
    for item, vector in zip(current, vectors, strict=True):
        if item.vector is None or not np.allclose(item.vector, vector, atol=1e-6):
            yield f"the vector of {item.memory.id} is not that of its text"


def _counted(engine: Engine, contents: Contents, entries: Sequence[Entry]) -> Iterator[str]:
    """Yield where counts differ: of the memories, of the recalls noted on them, and of what a recall finds."""
    live = [item.memory for item in contents.current.values() if item.memory.forgotten_at is None]
    counted = engine.stats(environment=ANY, project=ANY, user_id=ANY, agent_id=ANY).memories
    if counted != len(live):
        yield f"{counted} live memories are counted, and {len(live)} are there"
    yield from (wrong for wrong, short in _miscounted(contents, entries) if short)
    users: dict[Coordinate, list[Memory]] = {}
    for memory in live:
        users.setdefault(memory.scope.user_id, []).append(memory)
    for memory in (memory for memories in users.values() for memory in memories[-FOUND:]):
        answer = engine.recall(memory.content, limit=5, min_score=0, dry_run=True, user_id=memory.scope.user_id)
        if memory.id not in [hit.memory.id for hit in answer]:
            yield f"{memory.id} is not found by its own text"


def _diagnosed(engine: Engine) -> Iterator[str]:
    """Yield what the store's own doctor finds wrong."""
    for finding in engine.doctor().findings:
        yield f"doctor: {finding.check} of {finding.id or 'the store'}: {finding.problem}"


def miscounted(contents: Contents, journals: Sequence[Notes]) -> list[str]:
    """Return where other than the noted recalls are counted on a memory; for files of which no writer was killed."""
    return [wrong for wrong, _ in _miscounted(contents, [entry for notes in journals for entry in notes.entries])]


def _miscounted(contents: Contents, entries: Sequence[Entry]) -> Iterator[tuple[str, bool]]:
    """Yield where other than the noted recalls are counted on a memory, and whether it is fewer.

    A recall that a memory is forgotten under is not counted on it.
    """
    noted = Counter(touched for entry in entries for touched in entry.touched)
    once_forgotten = {item.memory.id for item in contents.stored if item.memory.forgotten_at is not None}
    for memory in (item.memory for item in contents.current.values()):
        more = memory.access_count - noted[memory.id]
        if more > 0 or (more < 0 and memory.id not in once_forgotten):
            yield f"{noted[memory.id]} recalls of {memory.id} were noted, and {memory.access_count} are there", more < 0


def raw(path: Path) -> Iterator[str]:
    """Yield what SQLite finds wrong with the file, and which rules between its rows do not hold."""
    try:
        with closing(sqlite3.connect(path)) as connection:
            yield from (
                f"integrity: {line}" for (line,) in connection.execute("PRAGMA integrity_check") if line != "ok"
            )
            for wrong, statement in RULES.items():
                count = connection.execute(statement).fetchone()[0]
                if count:
                    yield f"{wrong}: {count}"
    except sqlite3.Error as error:
        yield f"SQLite cannot read the file: {type(error).__name__}"


def traces(path: Path, journals: Sequence[Notes]) -> Iterator[str]:
    """Yield the ids of erased memories whose text is in the file or beside it, for a file that nobody has open."""
    entries = [entry for notes in journals for entry in notes.entries if entry.told is not None]
    erased = {gone for entry in entries for gone in entry.erased}
    texts = {mark.content[:TRACE].encode(): mark.id for entry in entries for mark in entry.told or ()}
    held = b"".join(file.read_bytes() for file in path.parent.glob(f"{path.name}*"))
    yield from (named for text, named in texts.items() if named in erased and text in held)


def unopened(error: SalienceError) -> Checked:
    """Return the finding that a file does not open."""
    return Checked(0, 0, 0, 0, (f"the file does not open: {type(error).__name__}: {error}",), unopened=True)
