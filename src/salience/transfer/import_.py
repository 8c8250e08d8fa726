"""Memories into a store, from lines of JSON."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import islice
from typing import Any, Final

import numpy as np

from salience import checks
from salience.batch import Vectors32
from salience.derived import embed, until_fresh
from salience.errors import ConflictError, ImportLineError, InputError, NotFoundError, SalienceError, Words
from salience.lines import COORDINATES, draft, parsed_object, refused
from salience.ports import Add, Stored, World
from salience.records import CHANGES, Draft, Memory, Scope, TransferReport
from salience.remember import bare, clean, decide
from salience.text import content_hash
from salience.transfer.files import FORMAT, INSTANTS, VERSION, Progress

PAGE: Final = 500
"""Memories embedded at a time, and stored at a time where lines may be skipped."""
ID: Final = re.compile("[0-9a-f]{32}")
UNIT_SLACK: Final = 1e-3
"""How far from 1 the length of an imported vector may be."""
DRAFTED: Final = (
    "content", "kind", "importance", "weight", "tags", "entities", "fact_key", "supersedes", "tier", "key", "speaker",
    "metadata",
)  # fmt: skip
"""Fields of a memory that are as its draft gave them."""
SAID: Final = ("changed_by", "reason", "follows", "reflection")
"""Fields of a memory that are names or null, and that no draft has."""
OPTIONAL: Final = {
    "fact_key", "supersedes", "key", "speaker", "accessed_at", "expires_at", "forgotten_at", "turn", "sources", *SAID,
}  # fmt: skip
"""Fields of a memory that may be null."""


def import_(
    world: World, scope: Scope, lines: Iterable[str | bytes], *, skip: bool = False, progress: Progress | None = None
) -> TransferReport:
    """Store the memories that lines of JSON hold, and return counts.

    A line is one of an export (header, memory), or a draft: the fields of `Draft` and coordinates of its scope. A
    memory whose id is already there with the same content is left as it is. Vectors are kept where they come from the
    same embedder, and made anew where they do not.

    Args:
        world: the ports.
        scope: of drafts whose line names no coordinates of their own.
        lines: the text, or its bytes in UTF-8.
        skip: whether a broken line is passed over and reported; if not, it raises and nothing is stored.
        progress: called with the number of memories done so far.

    Raises:
        ImportLineError: a broken line, with its number and the reason, unless `skip`.
    """
    refuse = Refusals(skip)
    groups = _groups(world, scope, _parsed(lines, refuse), refuse)
    statuses: list[str] = []
    ready: list[Group] = []
    while page := list(islice(groups, PAGE)):
        ready += _embedded(world, page)
        if skip:
            statuses += _store_what_can_be(world, ready, refuse)
            ready = []
        if progress is not None:
            progress(len(statuses) + len(ready))
    statuses += _store_what_can_be(world, ready, refuse)
    return TransferReport(statuses.count("created"), statuses.count("unchanged"), tuple(sorted(refuse.refused)))


class Refusals:
    """What to do with a line that cannot be stored: raise, or note it and go on."""

    def __init__(self, skip: bool) -> None:
        self.skip = skip
        self.refused: list[tuple[int, str]] = []

    def __call__(self, error: ImportLineError) -> None:
        """Raise `error`, or note it."""
        if not self.skip:
            raise error
        self.refused.append((error.line, str(error)))


Numbered = tuple[int, dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Group:
    """A memory as it came in.

    Attributes:
        line: number of the line of its newest version.
        versions: oldest first; one without a vector has still to be embedded.
        is_draft: whether it was not stored before, so that what it supersedes has still to lose its weight.
    """

    line: int
    versions: tuple[Stored, ...]
    is_draft: bool = False


def _parsed(lines: Iterable[str | bytes], refuse: Refusals) -> Iterator[Numbered]:
    for number, line in enumerate(lines, start=1):
        if line.strip():
            try:
                yield number, parsed_object(number, line)
            except ImportLineError as error:
                refuse(error)


def _groups(world: World, scope: Scope, records: Iterable[Numbered], refuse: Refusals) -> Iterator[Group]:
    """Yield memories; the versions of one stand on lines that follow each other, older ones first."""
    embedder: str | None = None  # of lines before any header: nobody knows
    pending = Group(0, ())
    for number, record in records:
        try:
            if record.get("format") == FORMAT:
                embedder = _header(record)
            elif "memory" not in record:
                memory = clean(world, draft(number, record, scope), world.clock())
                yield Group(number, (bare(world, memory),), is_draft=True)
            else:
                stored = _stored(world, record, embedder)
                if pending.versions and pending.versions[-1].memory.id != stored.memory.id:
                    yield pending
                    pending = Group(0, ())
                pending = Group(number, (*pending.versions, _later(pending, stored)))
        except ImportLineError as error:
            refuse(error)
        except InputError as error:
            refuse(refused(number, error))
    if pending.versions:
        yield pending


def _later(group: Group, stored: Stored) -> Stored:
    """Return `stored` if it comes after the versions of its group."""
    if group.versions and stored.memory.version <= group.versions[-1].memory.version:
        raise InputError("memory.version", stored.memory.version, "Keep the versions in the order of the export.")
    return stored


def _header(record: Mapping[str, Any]) -> str:
    if record.get("version") != VERSION:
        raise InputError("version", record.get("version"), f"This release reads version {VERSION}; upgrade Salience.")
    return checks.name("embedder", record.get("embedder"))


def _stored(world: World, record: Mapping[str, Any], embedder: str | None) -> Stored:
    """Return a line of an export as it was stored, without its vector unless this embedder made it."""
    data = record["memory"]
    if not isinstance(data, dict):
        raise InputError("memory", Words(type(data).__name__), "Give a JSON object.")
    memory = _memory(world, data)
    vector = _vector(record.get("vector"), world.embedder.dimension) if embedder == world.embedder.name else None
    return replace(bare(world, memory), vector=vector, activations=_activations(record.get("activations", {})))


def _activations(value: object) -> dict[str, int]:
    if not isinstance(value, dict):
        raise InputError("activations", Words(type(value).__name__), "Give a JSON object of session keys and turns.")
    return {
        checks.text("activations", session): checks.whole(f"activations.{session}", turn, 0, 2**62)
        for session, turn in value.items()
    }


def _memory(world: World, data: Mapping[str, Any]) -> Memory:
    wanted = {item.name for item in fields(Memory)}
    for name in data:
        checks.choice("memory", name, wanted)
    for name in sorted(wanted - {name for name in data if data[name] is not None} - OPTIONAL):
        raise InputError(f"memory.{name}", None, "Set it; take the line from an export.")
    given: dict[str, Any] = {name: data.get(name) for name in DRAFTED}
    drafted = Draft(**given)
    checks.text("content", drafted.content, world.content_limit)
    same_fields: dict[str, Any] = {name: getattr(drafted, name) for name in DRAFTED}
    same_fields |= {name: checks.name(name, data[name]) for name in SAID if data.get(name) is not None}
    instants: dict[str, Any] = {
        name: checks.instant(name, data[name]) for name in INSTANTS if data.get(name) is not None
    }
    return Memory(
        **{**same_fields, **instants, "entities": tuple(drafted.entities or ())},
        id=_id(data["id"]),
        scope=_scope(world.tenant, data["scope"]),
        content_hash=content_hash(drafted.content),
        access_count=checks.whole("access_count", data["access_count"], 0, 2**62),
        version=checks.whole("version", data["version"], 1, 2**62),
        change=checks.choice("change", data["change"], CHANGES),
        sources=checks.names("sources", data.get("sources") or ()),
        turn=None if data.get("turn") is None else checks.whole("turn", data["turn"], 1, 2**62),
    )


def _scope(tenant: str, value: object) -> Scope:
    if not isinstance(value, dict):
        raise InputError("memory.scope", value, "Give a JSON object of coordinates.")
    for name in value:
        checks.choice("memory.scope", name, COORDINATES)
    return Scope(tenant, **value).as_home()


def _id(value: object) -> str:
    if not isinstance(value, str) or not ID.fullmatch(value):
        raise InputError("id", value, "Give 32 hexadecimal digits, as an export writes them.")
    return value


def _vector(value: object, dimension: int) -> Vectors32 | None:
    if value is None:
        return None
    try:
        vector = np.frombuffer(base64.b64decode(str(value), validate=True), "<f4").astype(np.float32)
    except ValueError:
        raise InputError("vector", Words("text that is not base64 of float32"), "Take it from an export.") from None
    if vector.shape != (dimension,):
        raise InputError("vector", Words(f"{len(vector)} numbers"), f"Give {dimension} numbers, as the embedder does.")
    if not np.isfinite(vector).all() or abs(float(np.linalg.norm(vector)) - 1) > UNIT_SLACK:
        raise InputError("vector", Words("numbers that are no unit vector"), "Take it from an export.")
    return vector


def _embedded(world: World, page: Sequence[Group]) -> list[Group]:
    """Return the groups with a vector for each version."""
    bare = [stored.memory.content for group in page for stored in group.versions if stored.vector is None]
    vectors = iter(embed(world, bare))

    def whole(stored: Stored) -> Stored:
        return stored if stored.vector is not None else replace(stored, vector=next(vectors))

    return [replace(group, versions=tuple(map(whole, group.versions))) for group in page]


def _store_what_can_be(world: World, groups: Sequence[Group], refuse: Refusals) -> list[str]:
    """Store the groups, one by one where together they fail, and return a status for each that could be stored.

    Where nothing is to be skipped, the first group that fails alone is told, and nothing is stored.
    """
    try:
        return _store(world, groups)
    except (NotFoundError, ConflictError):
        if not refuse.skip:
            raise _first_failure(world, groups) from None
    statuses: list[str] = []
    for group in groups:
        try:
            statuses += _store(world, [group])
        except (NotFoundError, ConflictError) as error:
            refuse(_of_line(group, error))
    return statuses


def _first_failure(world: World, groups: Sequence[Group]) -> ImportLineError:
    """Return the error of the first group that cannot be stored for what is in the store or before it in the file."""
    contents: dict[object, str] = {}
    for group in groups:
        memory = group.versions[-1].memory
        try:
            decide(world, [group.versions[-1]] if group.is_draft else [], world.clock())
        except NotFoundError as error:
            return _of_line(group, error)
        names = [("id", memory.id)] + ([("key", memory.scope.home_key, memory.key)] if memory.key else [])
        there = world.store.keyed(memory.scope, [memory.key] if memory.key else [])
        there += world.store.fetch(memory.scope, [memory.id])
        known = [contents.setdefault(name, memory.content_hash) for name in names]
        if any(found.id == memory.id and found.version < memory.version for found in there):
            return ImportLineError(group.line, "a later version than is here", "Import it into another store.")
        if any(other != memory.content_hash for other in (*known, *(found.content_hash for found in there))):
            return ImportLineError(group.line, "an id or key of another content", "Give it another one.")
    return ImportLineError(groups[-1].line, "a memory that conflicts with another", "Import it by itself.")


def _of_line(group: Group, error: SalienceError) -> ImportLineError:
    return ImportLineError(group.line, str(error), "Mend the line, or skip lines that cannot be stored.")


def _store(world: World, groups: Sequence[Group]) -> list[str]:
    """Store the groups in one transaction and return a status for each."""

    def attempt() -> list[str]:
        drafts = [group.versions[-1] for group in groups if group.is_draft]
        changes, new = decide(world, drafts, world.clock())
        ready = iter(new)
        adds = [
            Add(next(ready)) if group.is_draft else Add(group.versions[-1], group.versions[:-1]) for group in groups
        ]
        return [receipt.status for receipt in world.store.apply([*changes, *adds])[len(changes) :]]

    return until_fresh(attempt)
