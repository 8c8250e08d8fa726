"""Export and import: everything that is kept of memories, as lines of JSON (NDJSON)."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import islice
from typing import IO, Any, Final

import numpy as np

from salience import checks
from salience.batch import Vectors32
from salience.derived import scan, until_fresh
from salience.errors import ImportLineError, InputError, Words
from salience.lines import COORDINATES, draft, parsed_object, refused
from salience.ports import Add, Stored, World
from salience.records import CHANGES, Draft, Memory, Scope, TransferReport
from salience.remember import clean, decide, embed, index_terms
from salience.text import content_hash

FORMAT: Final = "salience"
VERSION: Final = 1
PAGE: Final = 500
"""Memories embedded and stored at a time, where lines may be skipped."""
ID: Final = re.compile("[0-9a-f]{32}")
UNIT_SLACK: Final = 1e-3
"""How far from 1 the length of an imported vector may be."""
INSTANTS: Final = ("created_at", "updated_at", "tier_since", "accessed_at", "expires_at", "forgotten_at", "changed_at")
LINE_ENDS: Final = {ord(sign): f"\\u{ord(sign):04x}" for sign in "\u0085\u2028\u2029"}
"""Signs that end a line for some readers; JSON leaves them as they are."""
OPTIONAL: Final = {"fact_key", "supersedes", "key", "speaker", "accessed_at", "expires_at", "forgotten_at", "turn"}
"""Fields of a memory that may be null."""
Progress = Callable[[int], None]
"""Called with the number of memories done so far."""


def export(world: World, scope: Scope, file: IO[str], progress: Progress | None = None) -> TransferReport:
    """Write every memory visible in `scope`, with older versions, vectors and session state, and return the count.

    Forgotten memories are part of it, since they can be restored.
    """
    embedder = world.embedder
    header = {"format": FORMAT, "version": VERSION, "embedder": embedder.name, "dimension": embedder.dimension}
    file.write(json.dumps(header) + "\n")
    written, last = 0, ""
    for stored in scan(world, scope, forgotten=True, versions=True):
        file.write(json.dumps(as_record(stored), ensure_ascii=False).translate(LINE_ENDS) + "\n")
        written += stored.memory.id != last
        last = stored.memory.id
        if progress is not None:
            progress(written)
    return TransferReport(written)


def as_record(stored: Stored) -> dict[str, Any]:
    """Return a stored memory as JSON values: `memory`, `vector` (base64 of float32, little endian), `activations`."""
    memory = {item.name: getattr(stored.memory, item.name) for item in fields(stored.memory)}
    memory |= {name: memory[name].isoformat() for name in INSTANTS if memory[name] is not None}
    memory |= {"scope": stored.memory.scope.as_dict(), "metadata": dict(stored.memory.metadata)}
    vector = None if stored.vector is None else base64.b64encode(stored.vector.astype("<f4").tobytes()).decode("ascii")
    return {"memory": memory, "vector": vector, "activations": dict(stored.activations)}


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
    skipped: list[tuple[int, str]] = []
    groups = _groups(world, scope, _parsed(lines, skipped if skip else None), skipped if skip else None)
    statuses: list[str] = []
    ready: list[Group] = []
    while page := list(islice(groups, PAGE)):
        ready += _embedded(world, page)
        if skip:
            statuses += _store(world, ready)
            ready = []
        if progress is not None:
            progress(len(statuses) + len(ready))
    statuses += _store(world, ready)
    return TransferReport(statuses.count("created"), statuses.count("unchanged"), tuple(sorted(skipped)))


Numbered = tuple[int, dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Group:
    """A memory as it came in: its versions, oldest first; whether each still has to be embedded is told by its vector.

    `is_draft` marks one that was not stored before, so that what it supersedes has still to lose its weight.
    """

    versions: tuple[Stored, ...]
    is_draft: bool


def _parsed(lines: Iterable[str | bytes], skipped: list[tuple[int, str]] | None) -> Iterator[Numbered]:
    for number, line in enumerate(lines, start=1):
        if line.strip():
            try:
                yield number, parsed_object(number, line)
            except ImportLineError as error:
                _refuse(error, skipped)


def _refuse(error: ImportLineError, skipped: list[tuple[int, str]] | None) -> None:
    if skipped is None:
        raise error
    skipped.append((error.line, str(error)))


def _groups(
    world: World, scope: Scope, records: Iterable[Numbered], skipped: list[tuple[int, str]] | None
) -> Iterator[Group]:
    """Yield memories; the versions of one stand on lines that follow each other."""
    embedder, pending = world.embedder.name, list[Stored]()
    for number, record in records:
        try:
            if record.get("format") == FORMAT:
                embedder = _header(record)
                continue
            if "memory" not in record:
                memory = clean(world, draft(number, record, scope), world.clock())
                yield Group((Stored(memory, None, index_terms(world, memory), {}),), is_draft=True)
                continue
            stored = _stored(world, record, embedder)
        except InputError as error:
            _refuse(error if isinstance(error, ImportLineError) else refused(number, error), skipped)
            continue
        if pending and pending[0].memory.id != stored.memory.id:
            yield Group(tuple(pending), is_draft=False)
            pending = []
        pending.append(stored)
    if pending:
        yield Group(tuple(pending), is_draft=False)


def _header(record: Mapping[str, Any]) -> str:
    if record.get("version") != VERSION:
        raise InputError("version", record.get("version"), f"This release reads version {VERSION}; upgrade Salience.")
    return checks.name("embedder", record.get("embedder"))


def _stored(world: World, record: Mapping[str, Any], embedder: str) -> Stored:
    """Return a line of an export as it was stored, without its vector if another embedder made it."""
    data = record["memory"]
    if not isinstance(data, dict):
        raise InputError("memory", Words(type(data).__name__), "Give a JSON object.")
    memory = _memory(world, data)
    vector = _vector(record.get("vector"), world.embedder.dimension) if embedder == world.embedder.name else None
    return Stored(memory, vector, index_terms(world, memory), _activations(record.get("activations", {})))


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
    scope = data["scope"]
    if not isinstance(scope, dict):
        raise InputError("memory.scope", scope, "Give a JSON object of coordinates.")
    for name in scope:
        checks.choice("memory.scope", name, COORDINATES)
    same = (
        "content",
        "kind",
        "importance",
        "weight",
        "tags",
        "entities",
        "fact_key",
        "supersedes",
        "tier",
        "key",
        "speaker",
    )
    given: dict[str, Any] = {name: data.get(name) for name in (*same, "metadata")}
    drafted = Draft(**given)
    checks.text("content", drafted.content, world.content_limit)
    same_fields: dict[str, Any] = {name: getattr(drafted, name) for name in (*same, "metadata")}
    instants: dict[str, Any] = {
        name: checks.instant(name, data[name]) for name in INSTANTS if data.get(name) is not None
    }
    return Memory(
        **{**same_fields, **instants, "entities": tuple(drafted.entities or ())},
        id=_id(data["id"]),
        scope=Scope(world.tenant, **scope).as_home(),
        content_hash=content_hash(drafted.content),
        access_count=checks.whole("access_count", data["access_count"], 0, 2**62),
        version=checks.whole("version", data["version"], 1, 2**62),
        change=checks.choice("change", data["change"], CHANGES),
        turn=None if data.get("turn") is None else checks.whole("turn", data["turn"], 1, 2**62),
    )


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
