"""Import: store the memories in lines of JSON, from an export or as drafts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, Final, NamedTuple

from salience import keywords
from salience.errors import ConflictError, ImportLineError, InputError, NotFoundError, SalienceError
from salience.lines import draft, parsed_object, refused
from salience.loading import uncollected
from salience.ports import Add, Services, Stored
from salience.records import Scope, TransferReport, checks
from salience.records.ids import cycles
from salience.remember import clean, decide, derive
from salience.steps import embed, retry_stale
from salience.transfer.files import FORMAT, VERSION, Progress
from salience.transfer.parse import parse_activations, parse_memory, parse_tokens, parse_vector

PAGE: Final = 500
"""Memories embedded at a time, and stored at a time if invalid lines may be skipped."""


class Group(NamedTuple):
    """A memory to import.

    Attributes:
        line: number of the line of its newest version.
        versions: oldest first; versions without a vector are embedded later.
        is_draft: whether the memory is new, so that the memory that it supersedes must still lose its weight.
    """

    line: int
    versions: tuple[Stored, ...]
    is_draft: bool = False

    @property
    def id(self) -> str:
        """Id of the memory."""
        return self.versions[-1].memory.id


class Refusals:
    """Raises the error of a line that cannot be stored, or collects it if lines may be skipped."""

    def __init__(self, skip: bool) -> None:
        self.skip = skip
        self.lines: list[tuple[int, str]] = []

    def __call__(self, error: ImportLineError) -> None:
        """Raise or collect an error."""
        if not self.skip:
            raise error
        self.lines.append((error.line, str(error)))


def import_(
    services: Services,
    scope: Scope,
    lines: Iterable[str | bytes],
    *,
    skip: bool = False,
    progress: Progress | None = None,
) -> TransferReport:
    """Store the memories in lines of JSON and return the counts.

    A line is the header or a memory of an export, or a draft: fields of `Draft` and coordinates of its scope. A memory
    whose id is stored already with the same content is left unchanged. Vectors are used if they are of the configured
    embedder, else computed again.

    Args:
        services: the ports.
        scope: of drafts whose line names no coordinates.
        lines: text, or bytes in UTF-8.
        skip: skip and report invalid lines; if False, the first one raises and nothing is stored.
        progress: called with the number of memories done so far.

    Raises:
        ImportLineError: an invalid line, or a cycle of `supersedes`, unless `skip`.
    """
    refuse = Refusals(skip)
    groups = _read(services, scope, lines, refuse)
    statuses: list[str] = []
    ready: list[Group] = []
    links: dict[str, tuple[str, int | None]] = {}

    def page() -> list[Group]:
        with uncollected():  # garbage collection among the new memories would take a fifth of the time
            return list(islice(groups, PAGE))

    while new := page():
        ready += _embedded(services, new)
        if skip:
            statuses += _store_valid(services, _without_cycles(services, ready, links, refuse), refuse)
            ready = []
        if progress is not None:
            progress(len(statuses) + len(ready))
    statuses += _store_valid(services, _without_cycles(services, ready, links, refuse), refuse)
    return TransferReport(statuses.count("created"), statuses.count("unchanged"), tuple(sorted(refuse.lines)))


def _read(services: Services, scope: Scope, lines: Iterable[str | bytes], refuse: Refusals) -> Iterator[Group]:
    """Yield the memories of valid lines; the versions of one memory are consecutive lines, older ones first."""
    has_our_vectors = False  # the header names the embedder; the vectors of lines before it are not used
    pending = Group(0, ())
    for number, line in enumerate(lines, start=1):
        if not line or line.isspace():
            continue
        try:
            record = parsed_object(number, line)
            if record.get("format") == FORMAT:
                has_our_vectors = _embedder_of(record) == services.embedder.name
            elif "memory" not in record:
                memory = clean(services, draft(number, record, scope), services.clock())
                yield Group(number, (derive(services, memory),), is_draft=True)
            else:
                memory = parse_memory(record["memory"], services.tenant, services.content_limit)
                vector = parse_vector(record.get("vector"), services.embedder.dimension) if has_our_vectors else None
                stored = derive(services, memory, vector, parse_activations(record.get("activations", {})))
                if vector is not None:
                    stored = replace(stored, tokens=parse_tokens(record.get("tokens")))
                if pending.versions and pending.id != memory.id:
                    yield pending
                    pending = Group(0, ())
                if pending.versions and memory.version <= pending.versions[-1].memory.version:
                    problem = f"{memory.version} is out of order"
                    raise InputError("memory.version", memory.version, "Keep the order of the export.", problem)
                pending = Group(number, (*pending.versions, stored))
        except ImportLineError as error:
            refuse(error)
        except InputError as error:
            refuse(refused(number, error))
    if pending.versions:
        yield pending


def _embedder_of(header: Mapping[str, Any]) -> str:
    """Return the name of the embedder of an export."""
    if header.get("version") != VERSION:
        raise InputError("version", header.get("version"), f"This release reads version {VERSION}; upgrade Salience.")
    return checks.name("embedder", header.get("embedder"))


def _embedded(services: Services, page: Sequence[Group]) -> list[Group]:
    """Return the groups with a vector for each version."""
    lacking = [stored.memory.content for group in page for stored in group.versions if stored.vector is None]
    embedded = iter(embed(services, lacking))

    def whole(stored: Stored) -> Stored:
        if stored.vector is not None:
            return stored
        embedding = next(embedded)
        return replace(stored, vector=embedding.vector, tokens=embedding.tokens)

    return [group._replace(versions=tuple(map(whole, group.versions))) for group in page]


def _without_cycles(
    services: Services, groups: Sequence[Group], links: dict[str, tuple[str, int | None]], refuse: Refusals
) -> list[Group]:
    """Return the groups, without exported memories that supersede themselves through others; refuse those.

    Args:
        services: the ports, to follow `supersedes` into the store.
        groups: the next groups of the file.
        links: newer id -> id that it supersedes, and its line (None: stored), of earlier groups; extended.
        refuse: called with each cycle.
    """
    linked = {group.id: group for group in groups if group.versions[-1].memory.supersedes and not group.is_draft}
    links |= {newer: (str(group.versions[-1].memory.supersedes), group.line) for newer, group in linked.items()}
    everything, _ = keywords.scope(services.tenant, keywords.EVERYWHERE)
    unknown = {links[newer][0] for newer in linked} - links.keys()
    while unknown:
        targets = {one.id: one.supersedes for one in services.store.fetch(everything, sorted(unknown))}
        links |= {newer: (target, None) for newer, target in targets.items() if target is not None}
        unknown = {target for target in targets.values() if target is not None} - links.keys()
    refused_ids: set[str] = set()
    for cycle in cycles({newer: target for newer, (target, _) in links.items()}) if linked else ():
        lines = sorted(line for one in cycle if (line := links[one][1]) is not None)
        reason = f"a cycle of supersedes (lines {', '.join(map(str, lines))})"
        for one in sorted(linked.keys() & {*cycle}, key=lambda newer: linked[newer].line):
            refuse(ImportLineError(linked[one].line, reason, "Take supersedes out of the oldest of these memories."))
            refused_ids.add(one)
            del links[one]
    return [group for group in groups if group.id not in refused_ids]


def _store_valid(services: Services, groups: Sequence[Group], refuse: Refusals) -> list[str]:
    """Store the groups in one transaction and return the status of each; if that fails, one by one with `skip`.

    Raises:
        ImportLineError: names the first group that cannot be stored, unless lines may be skipped.
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
            refuse(_line_error(group, error))
    return statuses


def _store(services: Services, groups: Sequence[Group]) -> list[str]:
    def attempt() -> list[str]:
        drafts = [group.versions[-1] for group in groups if group.is_draft]
        changes, linked = decide(services, drafts, services.clock())
        new = iter(linked)
        with uncollected():
            adds = [
                Add(next(new)) if group.is_draft else Add(group.versions[-1], group.versions[:-1]) for group in groups
            ]
            return [receipt.status for receipt in services.store.apply([*changes, *adds])[len(changes) :]]

    return retry_stale(attempt)


def _first_failure(services: Services, groups: Sequence[Group]) -> ImportLineError:
    """Return the error of the first group that conflicts with the store or with an earlier group."""
    contents: dict[object, str] = {}
    for group in groups:
        memory = group.versions[-1].memory
        try:
            decide(services, [group.versions[-1]] if group.is_draft else [], services.clock())
        except NotFoundError as error:
            return _line_error(group, error)
        names: list[object] = [("id", memory.id)]
        found = services.store.fetch(memory.scope, [memory.id])
        if memory.key:
            names.append(("key", memory.scope.home_key, memory.key))
            found = [*found, *services.store.keyed(memory.scope, [memory.key])]
        known = {contents.setdefault(name, memory.content_hash) for name in names}
        if any(other.id == memory.id and other.version < memory.version for other in found):
            return ImportLineError(group.line, "a later version than is here", "Import it into another store.")
        if known | {other.content_hash for other in found} != {memory.content_hash}:
            return ImportLineError(group.line, "an id or key of another content", "Give it another one.")
    return ImportLineError(groups[-1].line, "a memory that conflicts with another", "Import it by itself.")


def _line_error(group: Group, error: SalienceError) -> ImportLineError:
    return ImportLineError(group.line, str(error), "Correct the line, or skip invalid lines.")
