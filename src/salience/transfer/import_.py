"""Memories into a store, from lines of JSON."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Any, Final, NamedTuple

from salience import keywords
from salience.batch import Vectors32
from salience.errors import ConflictError, ImportLineError, InputError, NotFoundError, SalienceError
from salience.lines import draft, parsed_object, refused
from salience.loading import uncollected
from salience.ports import Add, Services, Stored, unread
from salience.records import Memory, Scope, TransferReport, checks
from salience.records.ids import cycles
from salience.remember import clean, decide, derive, terms_and_distinctions
from salience.steps import embed, retry_stale
from salience.transfer import exported
from salience.transfer.files import FORMAT, VERSION, Progress

PAGE: Final = 500
"""Memories embedded at a time, and stored at a time where lines may be skipped."""
PARSED: Final = 50
"""Lines parsed at a time: few enough to be at hand in the processor's cache until they are memories."""


def import_(
    services: Services,
    scope: Scope,
    lines: Iterable[str | bytes],
    *,
    skip: bool = False,
    progress: Progress | None = None,
) -> TransferReport:
    """Store the memories that lines of JSON hold, and return counts.

    A line is one of an export (header, memory), or a draft: the fields of `Draft` and coordinates of its scope. A
    memory whose id is already there with the same content is left as it is. Vectors are kept where they come from the
    same embedder, and made anew where they do not.

    Args:
        services: the ports.
        scope: of drafts whose line names no coordinates of their own.
        lines: the text, or its bytes in UTF-8.
        skip: whether a broken line is passed over and reported; if not, it raises and nothing is stored.
        progress: called with the number of memories done so far.

    Raises:
        ImportLineError: a broken line, or a cycle of `supersedes`, with its number and the reason, unless `skip`.
    """
    refuse = Refusals(skip)
    reader = exported.Reader(services.tenant, services.content_limit)
    groups = _groups(services, scope, _read(lines, reader, services.embedder.dimension), reader, refuse)
    statuses: list[str] = []
    ready: list[Group] = []
    links: dict[str, Link] = {}
    while page := _next_page(groups):
        ready += _embedded(services, page)
        if skip:
            statuses += _store_what_can_be(services, _without_cycles(services, ready, links, refuse), refuse)
            ready = []
        if progress is not None:
            progress(len(statuses) + len(ready))
    statuses += _store_what_can_be(services, _without_cycles(services, ready, links, refuse), refuse)
    return TransferReport(statuses.count("created"), statuses.count("unchanged"), tuple(sorted(refuse.refused)))


def _next_page(groups: Iterator[Group]) -> list[Group]:
    """Return the next groups."""
    with uncollected():  # to look for garbage among what is kept takes a fifth of the time
        return list(islice(groups, PAGE))


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


class Line(NamedTuple):
    """A line that is not blank, parsed.

    Attributes:
        number: from 1.
        record: its object, or what is wrong with its JSON.
        memory: that of its object, where that is one beyond doubt.
        vector: likewise.
    """

    number: int
    record: dict[str, Any] | ImportLineError
    memory: Memory | None
    vector: Vectors32 | None


class Group(NamedTuple):
    """A memory as it came in.

    Attributes:
        line: number of the line of its newest version.
        versions: oldest first; one without a vector has still to be embedded.
        is_draft: whether it was not stored before, so that what it supersedes has still to lose its weight.
    """

    line: int
    versions: tuple[Stored, ...]
    is_draft: bool = False


class Link(NamedTuple):
    """What a memory supersedes, by its id, and the line that says so; None for a memory of the store."""

    target: str
    line: int | None


def _without_cycles(
    services: Services, groups: Sequence[Group], links: dict[str, Link], refuse: Refusals
) -> list[Group]:
    """Return the groups without those that supersede themselves by way of others, each of which is refused.

    Args:
        services: the ports; its live memories are looked at where the file's supersede them.
        groups: the next ones of the file.
        links: of the groups before, by the id of the newer memory; grown.
        refuse: called with each cycle.
    """
    new = {group.versions[-1].memory.id: group for group in groups if _supersedes(group) and not group.is_draft}
    if not new:
        return list(groups)
    links |= {newer: Link(str(_supersedes(group)), group.line) for newer, group in new.items()}
    everything, _ = keywords.scope(services.tenant, keywords.EVERYWHERE)
    unknown = {links[newer].target for newer in new} - links.keys()
    while unknown:
        held = {one.id: one.supersedes for one in services.store.fetch(everything, sorted(unknown))}
        links |= {newer: Link(target, None) for newer, target in held.items() if target is not None}
        unknown = {target for target in held.values() if target is not None} - links.keys()
    refused_ids: set[str] = set()
    for cycle in cycles({newer: link.target for newer, link in links.items()}):
        lines = sorted(line for one in cycle if (line := links[one].line) is not None)
        reason = f"a cycle of supersedes (lines {', '.join(map(str, lines))})"
        for one in sorted(new.keys() & {*cycle}, key=lambda newer: new[newer].line):
            refuse(ImportLineError(new[one].line, reason, "Take supersedes out of the oldest of these memories."))
            refused_ids.add(one)
            del links[one]
    return [group for group in groups if group.versions[-1].memory.id not in refused_ids]


def _supersedes(group: Group) -> str | None:
    return group.versions[-1].memory.supersedes


def _read(lines: Iterable[str | bytes], reader: exported.Reader, dimension: int) -> Iterator[Line]:
    """Yield the lines, parsed; their memories and vectors are read some at a time."""
    numbered = ((number, line) for number, line in enumerate(lines, start=1) if line and not line.isspace())
    while page := list(islice(numbered, PARSED)):
        numbers = [number for number, _ in page]
        records = [_parsed(number, line) for number, line in page]
        memories = reader.sure(_of_each("memory", records))
        vectors = exported.sure_vectors(_of_each("vector", records), dimension)
        yield from map(Line, numbers, records, memories, vectors)


def _of_each(name: str, records: Iterable[dict[str, Any] | ImportLineError]) -> list[object]:
    """Return what each record has under a name, None where it has nothing."""
    return [record.get(name) if isinstance(record, dict) else None for record in records]


def _parsed(number: int, line: str | bytes) -> dict[str, Any] | ImportLineError:
    try:
        return parsed_object(number, line)
    except ImportLineError as error:
        return error


def _groups(
    services: Services, scope: Scope, lines: Iterable[Line], reader: exported.Reader, refuse: Refusals
) -> Iterator[Group]:
    """Yield memories; the versions of one stand on lines that follow each other, older ones first."""
    reads = partial(terms_and_distinctions, services)
    is_ours = False  # whether the vectors are of our embedder: of lines before any header nobody knows
    pending = Group(0, ())
    for line in lines:
        number, record, *_ = line
        try:
            if isinstance(record, ImportLineError):
                raise record
            if record.get("format") == FORMAT:
                is_ours = _header(record) == services.embedder.name
            elif "memory" not in record:
                memory = clean(services, draft(number, record, scope), services.clock())
                yield Group(number, (derive(services, memory),), is_draft=True)
            else:
                memory = line.memory if line.memory is not None else reader.checked(record["memory"])
                vector = _vector(record, line.vector, services.embedder.dimension) if is_ours else None
                stored = unread(memory, vector, exported.activations(record.get("activations", {})), reads)
                if pending.versions and pending.versions[-1].memory.id != memory.id:
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
        told = stored.memory.version
        raise InputError("memory.version", told, "Keep the order of the export.", f"{told} is out of order")
    return stored


def _header(record: Mapping[str, Any]) -> str:
    if record.get("version") != VERSION:
        raise InputError("version", record.get("version"), f"This release reads version {VERSION}; upgrade Salience.")
    return checks.name("embedder", record.get("embedder"))


def _vector(record: Mapping[str, Any], sure: Vectors32 | None, dimension: int) -> Vectors32 | None:
    """Return the vector of a line of an export."""
    return sure if sure is not None else exported.vector(record.get("vector"), dimension)


def _embedded(services: Services, page: Sequence[Group]) -> list[Group]:
    """Return the groups with a vector for each version."""
    bare = [stored.memory.content for group in page for stored in group.versions if stored.vector is None]
    if not bare:
        return list(page)
    vectors = iter(embed(services, bare))

    def whole(stored: Stored) -> Stored:
        return stored if stored.vector is not None else replace(stored, vector=next(vectors))

    return [group._replace(versions=tuple(map(whole, group.versions))) for group in page]


def _store_what_can_be(services: Services, groups: Sequence[Group], refuse: Refusals) -> list[str]:
    """Store the groups, one by one where together they fail, and return a status for each that could be stored.

    Where nothing is to be skipped, the first group that fails alone is told, and nothing is stored.
    """
    try:
        return _store(services, groups)
    except (NotFoundError, ConflictError):
        if not refuse.skip:
            raise _first_failure(services, groups) from None
    statuses: list[str] = []
    for group in groups:
        try:
            statuses += _store(services, [group])
        except (NotFoundError, ConflictError) as error:
            refuse(_of_line(group, error))
    return statuses


def _first_failure(services: Services, groups: Sequence[Group]) -> ImportLineError:
    """Return the error of the first group that cannot be stored for what is in the store or before it in the file."""
    contents: dict[object, str] = {}
    for group in groups:
        memory = group.versions[-1].memory
        try:
            decide(services, [group.versions[-1]] if group.is_draft else [], services.clock())
        except NotFoundError as error:
            return _of_line(group, error)
        names = [("id", memory.id)] + ([("key", memory.scope.home_key, memory.key)] if memory.key else [])
        there = services.store.keyed(memory.scope, [memory.key] if memory.key else [])
        there += services.store.fetch(memory.scope, [memory.id])
        known = [contents.setdefault(name, memory.content_hash) for name in names]
        if any(found.id == memory.id and found.version < memory.version for found in there):
            return ImportLineError(group.line, "a later version than is here", "Import it into another store.")
        if any(other != memory.content_hash for other in (*known, *(found.content_hash for found in there))):
            return ImportLineError(group.line, "an id or key of another content", "Give it another one.")
    return ImportLineError(groups[-1].line, "a memory that conflicts with another", "Import it by itself.")


def _of_line(group: Group, error: SalienceError) -> ImportLineError:
    return ImportLineError(group.line, str(error), "Mend the line, or skip lines that cannot be stored.")


def _store(services: Services, groups: Sequence[Group]) -> list[str]:
    """Store the groups in one transaction and return a status for each."""

    def attempt() -> list[str]:
        drafts = [group.versions[-1] for group in groups if group.is_draft]
        changes, new = decide(services, drafts, services.clock())
        ready = iter(new)
        with uncollected():
            adds = [
                Add(next(ready)) if group.is_draft else Add(group.versions[-1], group.versions[:-1]) for group in groups
            ]
            return [receipt.status for receipt in services.store.apply([*changes, *adds])[len(changes) :]]

    return retry_stale(attempt)
