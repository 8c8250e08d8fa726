"""Import: store the memories in lines of JSON, from an export or as drafts, or the records of another system."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, Final, NamedTuple

from salience import keywords
from salience.errors import ConflictError, ImportLineError, InputError, NotFoundError
from salience.lines import as_draft, draft, parsed_object, refused
from salience.loading import uncollected
from salience.ports import Add, Services, Stored
from salience.records import Memory, Scope, TransferReport, checks
from salience.records.ids import cycles
from salience.relations import with_supersedes
from salience.remember import clean, decide, derive, split_turns
from salience.remember.facts import SUPERSEDED_WEIGHT
from salience.steps import embed, retry_stale
from salience.transfer.files import FORMAT, VERSION, Progress
from salience.transfer.importers.records import Item, Problem
from salience.transfer.parse import parse_activations, parse_memory, parse_tokens, parse_vector

OTHER_CONTENT: Final = "an id or key of another content", "Give it another one, or update the memory that has it."
"""Reason and remedy of a memory whose id or key belongs to another one."""
PAGE: Final = 500
"""Memories embedded at a time, and stored at a time if invalid lines may be skipped."""


class Group(NamedTuple):
    """A memory to import.

    Attributes:
        line: number of the line of its newest version, or of the record.
        versions: oldest first; versions without a vector are embedded later.
        is_draft: whether the memory is new, so that the memory that it supersedes must still lose its weight.
        replaces: key of the memory of the same home that it supersedes; None: `supersedes` has its id, if any.
        unit, file: of `line`, as in `ImportLineError`.
    """

    line: int
    versions: tuple[Stored, ...]
    is_draft: bool = False
    replaces: str | None = None
    unit: str = "line"
    file: str = ""

    def error(self, reason: str, remedy: str | None = None) -> ImportLineError:
        """Return the error of the memory."""
        remedy = remedy or f"Correct the {self.unit} and import it again."
        return ImportLineError(self.line, reason, remedy, self.unit, self.file)

    @property
    def id(self) -> str:
        """Id of the memory."""
        return self.memory.id

    @property
    def memory(self) -> Memory:
        """The memory at its newest version."""
        return self.versions[-1].memory

    def key(self, key: str | None = None) -> tuple[Scope, str | None]:
        """Return the home of the memory and a key there; None: its own."""
        return self.memory.scope.without_session, key or self.memory.key


class Refusals:
    """Raises the error of a line that cannot be stored, or collects it if lines may be skipped."""

    def __init__(self, skip: bool) -> None:
        self.skip = skip
        self.errors: list[ImportLineError] = []

    def __call__(self, error: ImportLineError, stops: bool = True) -> None:
        """Raise an error that stops the import, or collect it."""
        if stops and not self.skip:
            raise error
        self.errors.append(error)

    def skipped(self) -> tuple[tuple[int, str], ...]:
        """Return number and reason of each line or record that was left out, in the order of the files."""
        return tuple((one.line, str(one)) for one in sorted(self.errors, key=lambda one: (one.file, one.line)))


def import_(
    services: Services,
    scope: Scope,
    lines: Iterable[str | bytes],
    *,
    skip: bool = False,
    dry_run: bool = False,
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
        dry_run: read and check every line, and count what would be stored.
        progress: called with the number of memories done so far.

    Raises:
        ImportLineError: an invalid line, or a cycle of `supersedes`, unless `skip`.
    """
    refuse = Refusals(skip)
    return _import(services, _read(services, scope, lines, refuse), refuse, dry_run, progress)


def import_records(
    services: Services,
    scope: Scope,
    items: Iterable[Item],
    *,
    skip: bool = False,
    dry_run: bool = False,
    progress: Progress | None = None,
) -> TransferReport:
    """Store the records of another system and return the counts; the arguments are those of `import_`.

    The versions of the memories begin when the records did in the other system, so `as_of` works for the time before
    the import. A record whose key is stored already is left unchanged. Contents over the limit are split into parts.
    """
    refuse = Refusals(skip)
    groups = _targets_first(services, _read_records(services, scope, items, refuse))
    return _import(services, groups, refuse, dry_run, progress)


def _import(
    services: Services, groups: Iterator[Group], refuse: Refusals, dry_run: bool, progress: Progress | None
) -> TransferReport:
    """Embed and store groups: all in one transaction, or page by page if invalid lines may be skipped."""
    statuses, kinds = Counter[str](), Counter[str]()
    ready: list[Group] = []
    links: dict[str, tuple[str, int | None]] = {}
    seen: dict[object, str] = {}

    def page() -> list[Group]:
        with uncollected():  # garbage collection among the new memories would take a fifth of the time
            return list(islice(groups, PAGE))

    def count(group: Group, status: str) -> None:
        statuses[status] += 1
        kinds[group.memory.kind] += status == "created"

    def store() -> None:
        for group, status in _store_valid(services, _without_cycles(services, ready, links, refuse), refuse):
            count(group, status)
        ready.clear()

    while new := page():
        if dry_run or new[0].unit == "record":  # exports have vectors, so it saves nothing to look for known lines
            known = _known(services, new, seen)
            for group in new:
                if known.get(group.id):
                    count(group, "unchanged")
                elif group.id in known:
                    refuse(group.error(*OTHER_CONTENT))
                elif dry_run:
                    count(group, "created")
            new = [] if dry_run else [group for group in new if group.id not in known]
        ready += _embedded(services, new)
        if refuse.skip:
            store()
        if progress is not None:
            progress(statuses.total() + len(ready))
    store()
    return TransferReport(statuses["created"], statuses["unchanged"], refuse.skipped(), dict(sorted((+kinds).items())))


def _known(services: Services, groups: Sequence[Group], seen: dict[object, str]) -> dict[str, bool]:
    """Return, for each memory whose id or key is stored or came earlier in the file, whether the content is the same.

    `seen` holds the content hashes of the ids and keys that came earlier; extended.
    """
    ids: dict[Scope, list[str]] = {}
    keys: dict[Scope, list[str]] = {}
    for group in groups:
        home, key = group.key()
        ids.setdefault(home, []).append(group.id)
        if key is not None:
            keys.setdefault(home, []).append(key)
    found: dict[object, str] = {}
    for home, named in ids.items():
        found |= {memory.id: memory.content_hash for memory in services.store.fetch(home, named)}
    for home, named in keys.items():
        found |= {(home, memory.key): memory.content_hash for memory in services.store.find_by_key(home, named)}
    known: dict[str, bool] = {}
    for group in groups:
        names: list[object] = [group.id, *([group.key()] if group.memory.key is not None else [])]
        hashes = [one for name in names if (one := found.get(name) or seen.get(name)) is not None]
        if hashes:
            known[group.id] = set(hashes) == {group.memory.content_hash}
        seen |= {name: group.memory.content_hash for name in names if name not in seen}
    return known


def _read_records(services: Services, scope: Scope, items: Iterable[Item], refuse: Refusals) -> Iterator[Group]:
    """Yield the memories of records, several for a record with a long content."""
    for item in items:
        if isinstance(item, Problem):
            refuse(ImportLineError(item.number, item.reason, item.remedy, "record", item.file), item.stops)
            continue
        try:
            whole = as_draft(item.draft, scope)
            for part, _ in split_turns([whole], services.content_limit):
                now = services.clock()
                memory = clean(services, part, now)
                began = min(item.began or memory.created_at, now)
                entities = checks.first_labels(dict.fromkeys((*item.entities, *memory.entities)))
                ends = item.ended or memory.expires_at
                memory = replace(memory, changed_at=began, expires_at=ends, entities=entities)
                first = memory.metadata.get("part", 1) == 1
                replaces = item.supersedes if first else None
                yield Group(item.number, (derive(services, memory),), True, replaces, "record", item.file)
        except InputError as error:
            reason = f"{error.field} {error.problem}"
            refuse(ImportLineError(item.number, reason, error.remedy, "record", item.file))


def _targets_first(services: Services, groups: Iterable[Group]) -> Iterator[Group]:
    """Yield memories after those that they supersede; a target that never comes is dropped."""
    seen: set[object] = set()
    waiting: dict[object, list[Group]] = {}

    def release(group: Group) -> Iterator[Group]:
        stack = [group]
        while stack:
            ready = stack.pop()
            seen.add(ready.key())
            yield ready
            stack += waiting.pop(ready.key(), ())

    for group in groups:
        target = group.key(group.replaces) if group.replaces else None
        if target is None or target in seen or services.store.find_by_key(target[0], [str(target[1])]):
            yield from release(group)
        else:
            waiting.setdefault(target, []).append(group)
    while waiting:
        missing = next(iter(waiting))
        for group in waiting.pop(missing):
            yield from release(group if missing in seen else group._replace(replaces=None))


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
            refuse(linked[one].error(reason, "Take supersedes out of the oldest of these memories."))
            refused_ids.add(one)
            del links[one]
    return [group for group in groups if group.id not in refused_ids]


def _store_valid(services: Services, groups: Sequence[Group], refuse: Refusals) -> list[tuple[Group, str]]:
    """Store the groups in one transaction and return each with its status; if that fails, one by one with `skip`.

    Raises:
        ImportLineError: names the first group that cannot be stored, unless lines may be skipped.
    """
    try:
        return _store(services, groups)
    except (NotFoundError, ConflictError):
        if not refuse.skip:
            raise _first_failure(services, groups) from None
    stored: list[tuple[Group, str]] = []
    for group in groups:
        try:
            stored += _store(services, [group])
        except (NotFoundError, ConflictError) as error:
            refuse(group.error(str(error)))
    return stored


def _store(services: Services, groups: Sequence[Group]) -> list[tuple[Group, str]]:
    def attempt() -> list[tuple[Group, str]]:
        here = {group.key(): group for group in groups if group.memory.key is not None}
        targets: dict[str, str] = {}  # newer id -> older id, of memories that are stored in this transaction
        drafts: list[Stored] = []
        for group in groups:
            if not group.is_draft:
                continue
            drafts.append(group.versions[-1])
            if group.replaces is None:
                continue
            older = here.get(group.key(group.replaces))
            if older is not None:
                targets[group.id] = older.id
            elif stored := services.store.find_by_key(group.key()[0], [group.replaces]):
                drafts[-1] = replace(drafts[-1], memory=replace(group.memory, supersedes=stored[0].id))
        changes, linked = decide(services, drafts, services.clock())
        new = iter(linked)
        newer = {targets[one.memory.id]: one.memory for one in reversed(linked) if one.memory.id in targets}

        def add(group: Group) -> Add:
            if not group.is_draft:
                last = group.versions[-1]
                return Add(replace(last, memory=with_supersedes(last.memory)), group.versions[:-1])
            made = next(new)
            if group.id in targets:
                made = replace(made, memory=replace(made.memory, supersedes=targets[group.id]))
            made = replace(made, memory=with_supersedes(made.memory))
            if group.id not in newer:
                return Add(made)
            reason = f"superseded by {newer[group.id].short_id}"
            weight = min(SUPERSEDED_WEIGHT, made.memory.weight)
            after = made.memory.changed("supersede", newer[group.id].changed_at, reason=reason, weight=weight)
            return Add(replace(made, memory=after), (made,))

        with uncollected():
            adds = list(map(add, groups))
            receipts = services.store.apply([*changes, *adds])[len(changes) :]
            return [(group, receipt.status) for group, receipt in zip(groups, receipts, strict=True)]

    return retry_stale(attempt)


def _first_failure(services: Services, groups: Sequence[Group]) -> ImportLineError:
    """Return the error of the first group that conflicts with the store or with an earlier group."""
    contents: dict[object, str] = {}
    for group in groups:
        memory = group.versions[-1].memory
        try:
            decide(services, [group.versions[-1]] if group.is_draft else [], services.clock())
        except NotFoundError as error:
            return group.error(str(error))
        names: list[object] = [("id", memory.id)]
        found = services.store.fetch(memory.scope, [memory.id])
        if memory.key:
            names.append(("key", memory.scope.home_key, memory.key))
            found = [*found, *services.store.find_by_key(memory.scope, [memory.key])]
        known = {contents.setdefault(name, memory.content_hash) for name in names}
        if any(other.id == memory.id and other.version < memory.version for other in found):
            return group.error("a later version than is here", "Import it into another store.")
        if known | {other.content_hash for other in found} != {memory.content_hash}:
            return group.error(*OTHER_CONTENT)
    return groups[-1].error("a memory that conflicts with another", "Import it by itself.")
