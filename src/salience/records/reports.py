"""Reports of maintenance, listings, transfers and database commands."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Literal

from salience.records.answers import LoggedRecall, emptied
from salience.records.memory import Memory, OutOfScope

FACETS: Final = ("project", "user_id", "agent_id", "session_id", "kind", "tier", "status")
"""Fields with one value per memory whose values are counted."""
TAG: Final = "tag"
ENTITY: Final = "entity"
SORTABLE: Final = ("id", "created_at", "updated_at", "accessed_at", "importance", "weight", "access_count")
"""Fields to sort by. Ids follow the order of storing. The oldest `accessed_at` is that of memories never recalled."""


@dataclass(frozen=True, slots=True)
class Page:
    """One page of a listing.

    Attributes:
        memories: in the order that the call asks for.
        cursor: of the next page; None: this is the last one.
        damaged: ids of memories on this page that cannot be read; `salience doctor` says why.
        out_of_scope, emptied_by: as in `Recall`, if the listing is empty.
    """

    memories: tuple[Memory, ...]
    cursor: str | None = None
    damaged: tuple[str, ...] = ()
    out_of_scope: tuple[OutOfScope, ...] = ()
    emptied_by: tuple[str, ...] = ()

    def __repr__(self) -> str:
        more = [] if self.cursor is None else ["more follow"]
        damaged = [f"{len(self.damaged):,} damaged"] if self.damaged else []
        hints = [*(place.describe() for place in self.out_of_scope), *emptied(self.emptied_by)]
        return f"Page({'; '.join([_counted(len(self.memories)), *damaged, *more, *hints])})"

    def __len__(self) -> int:
        return len(self.memories)

    def __iter__(self) -> Iterator[Memory]:
        return iter(self.memories)


def _counted(number: int) -> str:
    return "1 memory" if number == 1 else f"{number:,} memories"


@dataclass(frozen=True, slots=True)
class Facets:
    """The number of selected memories, and the most frequent values of their fields.

    The numbers of a field hold under the conditions on the other fields, so they say what another choice would give.

    Attributes:
        total: number of selected memories.
        values: `project`, `user_id`, `agent_id`, `session_id`, `kind`, `tier`, `status`, `tag` or `entity` -> value ->
            number of memories; the most frequent first, "" for memories without a value.
        distinct: the same names -> number of all distinct values.
    """

    total: int
    values: Mapping[str, Mapping[str, int]]
    distinct: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class SessionSummary:
    """A session of one user of one environment.

    Attributes:
        environment, user_id, id: the session; None for a session without a user.
        size: number of its memories that meet the conditions.
        start, end: their first and last `created_at`.
    """

    environment: str
    user_id: str | None
    id: str
    size: int
    start: datetime
    end: datetime

    @property
    def key(self) -> str:
        """The identity of the session, as in `Scope.session_key`."""
        return "\x1f".join((self.environment, self.user_id or "", self.id))


@dataclass(frozen=True, slots=True)
class SessionsPage:
    """One page of sessions, the latest first, and the cursor of the next page (None: no more)."""

    sessions: tuple[SessionSummary, ...]
    cursor: str | None = None


@dataclass(frozen=True, slots=True)
class RecallLogPage:
    """One page of the recall log.

    Attributes:
        recalls: its entries, newest first.
        cursor: of the next page; None: no more.
        kept_seconds: how long new entries are kept; None: recalls are not logged.
    """

    recalls: tuple[LoggedRecall, ...]
    cursor: str | None = None
    kept_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Stats:
    """Counts of the live memories visible in a scope.

    `pending` of them have no vector yet; `embedder` and `dimension` are the engine's. `out_of_scope` is as in `Recall`,
    if there are no memories.
    """

    memories: int
    by_kind: Mapping[str, int]
    by_tier: Mapping[str, int]
    by_project: Mapping[str, int]
    by_user: Mapping[str, int]
    by_agent: Mapping[str, int]
    sessions: int
    embedder: str
    dimension: int
    pending: int = 0
    out_of_scope: tuple[OutOfScope, ...] = ()

    def __repr__(self) -> str:
        counts = [f"{count:,} {name}" for of in (self.by_kind, self.by_tier) for name, count in of.items()]
        pending = [f"{self.pending:,} pending"] if self.pending else []
        elsewhere = [place.describe() for place in self.out_of_scope]
        model = f"{self.embedder}, {self.dimension:,} dimensions"
        return f"Stats({'; '.join([_counted(self.memories), *counts, *pending, model, *elsewhere])})"


@dataclass(frozen=True, slots=True)
class Version:
    """One version of a memory.

    Attributes:
        memory: the memory at the end of this version.
        changed: names of the fields that this version changed; empty for the first.
        until: when the next version began; None for the current one.
        activations: in `history`, of the current version: session in which a recall primed the memory -> the turn.
    """

    memory: Memory
    changed: tuple[str, ...]
    until: datetime | None
    activations: Mapping[str, int] = field(default_factory=dict)


PROBLEMS: Final = ("contradiction", "update", "duplicate", "stale", "pending", "relation")
"""Kinds of `ReviewItem`; `review` lists `relation` only if it is asked for."""


@dataclass(frozen=True, slots=True)
class ReviewItem:
    """A problem that a person should look at.

    Attributes:
        kind: `contradiction`, `duplicate` or `update`: how the memory relates to an older one, as in `Contradiction`;
            `stale`: a reflection that no longer sums up its sources; `pending`: a memory without a vector; `relation`:
            the memory likely replaces a live older one, by its `relations`, though no caller said so.
        memory: the memory, of a pair the newer one.
        other: the older memory of a pair.
        score: similarity of a pair, as in `Contradiction`; for a relation, its probability.
        reasons: evidence such as `number: 30 -> 40`, or why a reflection became stale.
    """

    kind: Literal["contradiction", "duplicate", "update", "stale", "pending", "relation"]
    memory: Memory
    other: Memory | None = None
    score: float | None = None
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ReviewPage:
    """One page of problems.

    Attributes:
        items: the problems, those of the newest memory first.
        cursor: of the next page; None: all memories were examined. A page may have a cursor and no items.
        examined: number of memories that this page examined.
        damaged: as in `Page`.
    """

    items: tuple[ReviewItem, ...]
    cursor: str | None = None
    examined: int = 0
    damaged: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ChangesPage:
    """One page of the changes of memories: versions, the newest first; `cursor` is None on the last page."""

    changes: tuple[Version, ...]
    cursor: str | None = None


@dataclass(frozen=True, slots=True)
class ActivityDay:
    """Counts of one day in UTC.

    Attributes:
        day: the date in ISO 8601.
        created: memories that were stored.
        changed: versions that other changes made, such as updates and promotions.
        forgotten: memories that were forgotten or expired.
        recalled: memories whose last recall was on this day.
        dated: memories whose text is of this day, by `created_at`.
    """

    day: str
    created: int = 0
    changed: int = 0
    forgotten: int = 0
    recalled: int = 0
    dated: int = 0


@dataclass(frozen=True, slots=True)
class SessionReport:
    """Ids of the memories that were promoted when a session ended."""

    session_id: str
    promoted: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ConsolidateReport:
    """The result of a consolidation.

    Attributes:
        examined: number of memories in the tiers below `semantic`.
        promoted: tier -> ids of the memories promoted to it.
        dry_run: whether nothing was written.
        reasons: id of a promoted memory -> the reason.
    """

    examined: int
    promoted: Mapping[str, tuple[str, ...]]
    dry_run: bool = False
    reasons: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ReflectReport:
    """The result of a reflection.

    Attributes:
        examined: number of memories examined.
        made: new reflections.
        renewed: reflections whose sources changed.
        retired: ids of reflections that became stale because their sources no longer belong together.
        unchanged: number of other reflections.
        fell_back: number of reflections with the text of their medoid because the summariser failed.
        dry_run: whether nothing was written and no summariser was called.
    """

    examined: int
    made: tuple[Memory, ...] = ()
    renewed: tuple[Memory, ...] = ()
    retired: tuple[str, ...] = ()
    unchanged: int = 0
    fell_back: int = 0
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class UpkeepReport:
    """The result of a pass of upkeep.

    Attributes:
        embedded: pending memories and versions of all tenants that got their vector.
        pending: those that still have none.
        expired: ids of the memories that expired.
        promoted: tier -> ids of the memories promoted to it.
        pruned: number of older versions dropped, as the setting `keep_versions` says.
        warning: errors of failed steps, one line each, without any content; None: all steps succeeded.
        dry_run: whether nothing was written.
    """

    embedded: int
    pending: int
    expired: tuple[str, ...]
    promoted: Mapping[str, tuple[str, ...]]
    pruned: int
    warning: str | None = None
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class ReembedReport:
    """The result of `reembed`: vectors `made` now, vectors `resumed` from an interrupted run, and both models."""

    made: int
    resumed: int
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class Finding:
    """A problem of a store.

    Attributes:
        check: the check that found it, such as `integrity`, `terms`, `vectors`, `versions`.
        id: of the memory; None: the store as a whole.
        problem: description without any content.
        repaired: whether it was repaired.
    """

    check: str
    id: str | None
    problem: str
    repaired: bool = False


@dataclass(frozen=True, slots=True)
class DoctorReport:
    """The health of a store: numbers of memories, older versions and pending memories, and the problems found."""

    memories: int
    versions: int
    pending: int
    findings: tuple[Finding, ...]

    @property
    def healthy(self) -> bool:
        """Whether there are no problems left."""
        return all(finding.repaired for finding in self.findings)


@dataclass(frozen=True, slots=True)
class TransferReport:
    """The result of an export or import.

    Attributes:
        written: memories written to the file, or new memories in the store.
        unchanged: memories that the store had already.
        skipped: number and reason of each skipped line or record.
        kinds: counts of the new memories by kind; empty for an export.
    """

    written: int
    unchanged: int = 0
    skipped: tuple[tuple[int, str], ...] = ()
    kinds: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Copied:
    """The number of a tenant's rows in one table, and the SHA-256 of their ids, versions, contents and vectors."""

    rows: int
    checksum: str


@dataclass(frozen=True, slots=True)
class CopyReport:
    """The result of a copy; every memory that was written was read back and compared.

    Attributes:
        source, target: the stores, without passwords.
        tenants: tenant -> table -> the rows of the source.
        written: memories written by this run.
        unchanged: memories that were in the target already.
    """

    source: str
    target: str
    tenants: Mapping[str, Mapping[str, Copied]]
    written: int
    unchanged: int


@dataclass(frozen=True, slots=True)
class Upgraded:
    """The result of migrating a database.

    Attributes:
        store: the database or file.
        before: revision of the tables before; None: there were none.
        after: revision now.
        done: other changes, in words.
        left: remaining tasks for the operator, in words.
    """

    store: str
    before: str | None
    after: str
    done: tuple[str, ...] = ()
    left: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TableState:
    """A table: rows, dead rows, and bytes with its indexes; None if not known."""

    name: str
    rows: int | None
    dead: int | None = None
    bytes: int | None = None


@dataclass(frozen=True, slots=True)
class IndexState:
    """An index: its table and method, bytes, number of scans, and whether it is valid."""

    name: str
    table: str
    method: str
    bytes: int | None = None
    uses: int | None = None
    valid: bool = True


@dataclass(frozen=True, slots=True)
class DatabaseState:
    """The state of a store's database.

    Attributes:
        store: the database or file.
        server: name and version of the database server.
        revision: of the tables; None: there are none.
        head: revision of this version of Salience.
        pgvector: version of pgvector; None: not installed, or a file.
        embedder, dimension: the model that the store is pinned to, if any.
        language: the language that the store is pinned to, if any.
        user: the connected user; None for a file.
        role: role that runs the statements; None: no such role, or a file.
        is_exact: whether rows are counted instead of estimated.
        bytes: size of the database or file.
        tables, indexes: ordered by name.
        faults: problems, in words.
        hints: possible improvements, in words.
    """

    store: str
    server: str
    revision: str | None
    head: str
    pgvector: str | None = None
    embedder: str | None = None
    dimension: int | None = None
    language: str | None = None
    user: str | None = None
    role: str | None = None
    is_exact: bool = False
    bytes: int | None = None
    tables: tuple[TableState, ...] = ()
    indexes: tuple[IndexState, ...] = ()
    faults: tuple[str, ...] = ()
    hints: tuple[str, ...] = ()

    @property
    def is_ready(self) -> bool:
        """Whether an engine can use the database and nothing is wrong with it."""
        return self.revision == self.head and not self.faults


@dataclass(frozen=True, slots=True)
class Indexed:
    """The result of creating or dropping the vector index.

    Attributes:
        name: of the index.
        made: whether it was created; False: it existed.
        dropped: names of dropped indexes.
        bytes: size; 0 without an index.
        seconds: duration.
        warning: message of the server, if any.
    """

    name: str | None
    made: bool = False
    dropped: tuple[str, ...] = ()
    bytes: int = 0
    seconds: float = 0.0
    warning: str | None = None


@dataclass(frozen=True, slots=True)
class Distributed:
    """The result of distributing the tables over a Citus cluster.

    Attributes:
        store: the database.
        citus: version of Citus.
        workers: number of servers that take shards.
        shards: number of shards of each table; None: not distributed.
        steps: statements that ran, or would run.
        is_dry: whether nothing was done.
        findings: remaining problems.
    """

    store: str
    citus: str
    workers: int
    shards: int | None
    steps: tuple[str, ...]
    is_dry: bool = False
    findings: tuple[Finding, ...] = ()
