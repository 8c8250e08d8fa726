"""Store and Services: the port of the storage, and the bundle of ports that stories get."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import NamedTuple, Protocol

from salience.batch import Batch, Tokens
from salience.errors import DamagedError
from salience.ports.browsing import After, Selection
from salience.ports.changes import Answered, Change, Erase, LogRecall, Stored, Touch
from salience.ports.models import (
    UNCALIBRATED,
    Calibration,
    Clustering,
    Extractor,
    FactReader,
    FullEmbedder,
    Judge,
    Model,
    Reranker,
    Summariser,
)
from salience.ports.needs import Need, SessionSpan
from salience.records import Facets, Filter, Finding, LoggedRecall, Memory, OutOfScope, Receipt, Scope, SessionSummary
from salience.text import Tokeniser


@dataclass(frozen=True, slots=True)
class Counts:
    """The number of live memories: in all, by field and value ("" for none), and of those without a vector."""

    total: int
    values: Mapping[str, Mapping[str, int]]
    pending: int


class Revision(NamedTuple):
    """A version of a memory, the version before it (None: there is none), and when the next began (None: current)."""

    memory: Memory
    previous: Memory | None
    until: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RevisionFilter:
    """Conditions on versions; None for any.

    Attributes:
        change: one of `CHANGES`.
        changed_by: author.
        since, until: of `changed_at`, from the first instant to before the second.
        level: mememory's scope level, as in `Filter`.
    """

    change: str | None = None
    changed_by: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    level: str | None = None


class Store(Protocol):
    """Storage of memories. `tests/contract` holds the contract.

    Attributes:
        language: of the terms, for `Tokeniser`.
        moved: whether the store was found to be pinned to another model since this handle was made.
        sees_all: whether it may read the memories of every tenant.
        is_degraded: whether a part of the store was unavailable not long ago.
    """

    language: str

    @property
    def moved(self) -> bool: ...  # noqa: D102
    @property
    def sees_all(self) -> bool: ...  # noqa: D102
    @property
    def is_degraded(self) -> bool: ...  # noqa: D102

    def connections(self) -> Mapping[str, int]:
        """Return the number of connections by state, such as `idle`; empty for a store without any."""
        ...

    def apply(self, changes: Sequence[Change], *, counted: bool = False) -> list[Receipt]:
        """Make all changes in one transaction or none; return a receipt for each `Add` and `Revise`, in order.

        `counted` counts memories and versions before and after: `StoreError`, and nothing is written, unless the
        numbers differ by what the changes say.
        """
        ...

    def gather(self, need: Need) -> Batch:
        """Return the candidates as columns, rows ordered by id.

        `MovedError` if `need` holds vectors and the store was pinned to another model since this handle was made.
        """
        ...

    def fetch(self, scope: Scope, ids: Sequence[str], *, as_of: datetime | None = None) -> list[Memory]:
        """Return the live memories of these ids (whole or short) visible in `scope`, in the order of `ids`.

        Unknown ids are left out, and so are short ids of several visible memories. With `as_of`, memories are as they
        were then.
        """
        ...

    def token_vectors(
        self, scope: Scope, ids: Sequence[str], *, as_of: datetime | None = None
    ) -> Sequence[Tokens | None]:
        """Return the token vectors of the live memories of these whole ids visible in `scope`, in the order of `ids`.

        None for an unknown id, and for a memory without token vectors. With `as_of`, memories are as they were then.
        """
        ...

    def speakers(self, scope: Scope, names: Sequence[str], *, as_of: datetime | None = None) -> list[str]:
        """Return the speakers of live memories visible in `scope` that one of `names` means, sorted and distinct.

        A name, in normal form, means the speakers whose own name, or the first word of it, is equal to it in that form.
        """
        ...

    def sessions(self, scope: Scope, *, as_of: datetime | None = None) -> list[SessionSpan]:
        """Return the sessions of the live memories visible in `scope`, in the order of their first memory, then of ids.

        Sessions of different environments or users are different ones, even if they have the same id.
        """
        ...

    def find_by_key(self, home: Scope, keys: Sequence[str]) -> list[Memory]:
        """Return the memories of `home` with these idempotency keys, forgotten ones included, in any order."""
        ...

    def answered(self, home: Scope, key: str) -> Answered | None:
        """Return the recorded answer to a request from `home` under an idempotency key; None if there is none."""
        ...

    def scan(
        self,
        scope: Scope,
        after: str = "",
        limit: int = 100,
        filter: Filter = Filter(),
        *,
        forgotten: bool = False,
        versions: bool = False,
        newest_first: bool = False,
        passed: list[DamagedError] | None = None,
    ) -> list[Stored]:
        """Return up to `limit` visible memories whose id is greater than `after`, in the order of ids.

        `newest_first` reverses the order: the ids are less than `after`, if it is not empty. `forgotten` includes
        forgotten ones. `versions` adds the older versions of each, before the current one; they do not count towards
        `limit`. A row that cannot be read is a `DamagedError`, or is left out and noted in `passed` where that is
        given, which is only after such an error.
        """
        ...

    def history(self, scope: Scope, id: str) -> list[Stored]:
        """Return the versions of the memory of an id (whole or short), live or not, that is visible in `scope`.

        Oldest first, the current one last; none if there is no such memory. A short id that fits several visible
        memories fits none.
        """
        ...

    def revisions(
        self,
        scope: Scope,
        before: tuple[datetime, str, int] | None = None,
        limit: int = 100,
        filter: RevisionFilter = RevisionFilter(),
    ) -> list[Revision]:
        """Return up to `limit` versions of visible memories, live or not, current and older, the newest first.

        The order is that of (`changed_at`, id, version), descending; `before` is the last of the page before.
        """
        ...

    def daily(self, scope: Scope, filter: RevisionFilter) -> list[tuple[date, str, int]]:
        """Return (day in UTC, change, number of versions) for the versions of visible memories, in any order.

        The change `date` counts memories by their `created_at`, and `recall` by their last recall. Of `filter`, the
        period and the level are read.
        """
        ...

    def recalls(
        self,
        scope: Scope,
        now: datetime,
        limit: int = 100,
        *,
        before: str | None = None,
        text: str | None = None,
        id: str | None = None,
        memory_id: str | None = None,
    ) -> list[LoggedRecall]:
        """Return up to `limit` entries of the recall log, newest first, that expire after `now`.

        An entry belongs to `scope` if its project, user and agent, and its session if `scope` has one, are those of
        `scope`; unlike a memory, an entry without a user is not shared. `before` is the id of a later entry, `text` a
        part of the question, whose ASCII letters may differ in case, `id` the only wanted entry, and `memory_id` the
        whole or short id of a memory that the entry cites.
        """
        ...

    def count_logged(self, erase: Erase) -> int:
        """Return how many entries of the recall log a change would delete."""
        ...

    def out_of_scope(self, selection: Selection, limit: int = 5) -> list[OutOfScope]:
        """Return the number of selected memories per place that `scope.widened()` shows and `scope` does not.

        The places with the most memories come first, at most `limit` of them.
        """
        ...

    def counts(self, scope: Scope, now: datetime) -> Counts:
        """Return the numbers of memories visible in `scope`, live at `now`, with all values of each of `FACETS`."""
        ...

    def due(self, tenant: str, now: datetime) -> list[Memory]:
        """Return the memories of a tenant that no change hides, but whose `expires_at` is not after `now`, by id."""
        ...

    def may_be_due(self, tenant: str, now: datetime) -> bool:
        """Return whether `due` returns any, as far as this process knows without a query; a server's store: False."""
        ...

    def browse(
        self,
        selection: Selection,
        order: str,
        limit: int,
        *,
        ascending: bool = False,
        after: After | None = None,
        passed: list[DamagedError] | None = None,
    ) -> list[Memory]:
        """Return up to `limit` selected memories, live or not, sorted by `order` (one of `SORTABLE`), then by id.

        `after` continues behind a memory. Both keys descend unless `ascending`. `passed` is as in `scan`. With
        `Selection.now`, memories are as `Memory.seen_at` shows them.
        """
        ...

    def facets(self, selection: Selection, top: int = 20) -> Facets:
        """Return the number of selected memories, and the `top` most frequent values of each facet."""
        ...

    def browse_sessions(self, selection: Selection, limit: int, after: After | None = None) -> list[SessionSummary]:
        """Return up to `limit` sessions of selected memories: the latest `end` first, then the greatest `key`.

        `after` continues behind a session: its `end` in microseconds, and its `key`.
        """
        ...

    def count_entities(self, selection: Selection) -> dict[str, int]:
        """Return the number of selected memories per entity that they name: the most frequent first, then by name."""
        ...

    def unembedded(
        self, after: tuple[str, str, int] = ("", "", 0), limit: int = 100, *, tenant: str | None = None
    ) -> list[Stored]:
        """Return up to `limit` versions, current and older, without a vector of this handle's model.

        Of all tenants or one, in the order of (tenant, id, version), after `after`. Where the store is pinned to
        another model, these are the versions that no vector was prepared for.
        """
        ...

    def with_model(self, model: Model) -> Store:
        """Return a handle on this store for an engine that embeds with `model`; it shares everything with this one.

        A handle reads and writes only vectors of its own model: see `Derive`, `Adopt` and `gather`.
        """
        ...

    def tenants(self) -> dict[str, int]:
        """Return the number of memories by tenant, forgotten ones included."""
        ...

    def pinned(self) -> Model | None:
        """Return the model that the store is pinned to, with any known fingerprint; None before its first memory."""
        ...

    def check(self, *, repair: bool = False) -> list[Finding]:
        """Return the faults in derived data of the store, repaired if `repair` is set and it is possible."""
        ...

    def finish_erasures(self, *, rewrite: bool = True) -> bool:
        """Remove the bytes that erased memories left in files of the store; return whether none are left.

        Without `rewrite`, work that keeps other writers waiting for long is left to a later call with it: upkeep.
        """
        ...

    def backup(self, path: str, progress: Callable[[int, int], None] | None = None, *, overwrite: bool = False) -> None:
        """Write a consistent copy of the store to a new file, while others read and write.

        `progress` is called with the pages that are left and the pages in all. `overwrite` lets the copy replace
        another store, or an empty file, once it is whole.
        """
        ...

    def close(self) -> None:
        """Release the file or connection; further calls raise `StoreError`."""
        ...


class AccessLog(Protocol):
    """Queue of the changes that recalls make. `salience.access_log` has the one that engines use."""

    def add(self, touch: Touch | LogRecall, /) -> bool:
        """Queue a change; return False if the last attempt to write earlier ones failed."""
        ...

    def flush(self, columns: Set[str] | None = None, tenant: str | None = None) -> bool:
        """Write the queue, or that of a tenant, if any touch in it changes one of `columns` (None: any column).

        Returns False on failure.
        """
        ...

    def close(self) -> None:
        """Write the queue, and drop the touches that cannot be written."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Services:
    """The ports and settings that every story gets.

    Attributes:
        store, access_log, embedder, extractor: the ports.
        tokeniser: text to terms, in the store's language.
        clock: returns an aware UTC instant.
        new_id: returns a new id for an instant; ids sort by the order of the calls.
        tenant: of every memory and query.
        content_limit: longest content, bytes in UTF-8.
        answer_limit: largest answer with memories, bytes; None: no limit. Servers have one.
        reranker: reorders the best memories of a recall; None: the profile's order.
        rerank_top: number of memories that the reranker reads, or the limit if it is larger.
        rerank_timeout: seconds that a recall without a deadline waits for the reranker; None: no limit.
        summariser: writes reflections; None: the text of a reflection is that of its medoid.
        clustering: thresholds for the clusters of reflections.
        fact_reader: reads facts from new texts in which the extractor finds none; None: the extractor alone.
        llm_extract_timeout: seconds that a write waits for the fact reader.
        judge: labels the conflicts of a write after the rules; None: the rules alone.
        judge_timeout: seconds that a write waits for the judge.
        embed_patience: seconds that a write waits for a remote embedder; None: no limit.
        keep_versions: retention of old versions; None: forever.
        keep_touches: retention of past recall counters; None: forever.
        keep_requests: retention of the answers to requests under an idempotency key; None: forever.
        recall_log: retention of entries of the recall log; None: recalls are not logged.
        records_access: whether recalls change counters; False for callers who may only read.
    """

    store: Store
    access_log: AccessLog
    embedder: FullEmbedder
    extractor: Extractor
    tokeniser: Tokeniser
    clock: Callable[[], datetime]
    new_id: Callable[[datetime], str]
    tenant: str
    content_limit: int
    answer_limit: int | None = None
    reranker: Reranker | None = None
    rerank_top: int = 20
    rerank_timeout: float | None = None
    summariser: Summariser | None = None
    clustering: Clustering = Clustering()
    fact_reader: FactReader | None = None
    llm_extract_timeout: float = 3.0
    judge: Judge | None = None
    judge_timeout: float = 5.0
    embed_patience: float | None = None
    keep_versions: timedelta | None = None
    keep_touches: timedelta | None = None
    keep_requests: timedelta | None = None
    recall_log: timedelta | None = None
    records_access: bool = True

    @property
    def calibration(self) -> Calibration:
        """The meaning of the embedder's cosines; of an unknown embedder it is measured with its first vectors."""
        found: Calibration = getattr(self.embedder, "calibration", UNCALIBRATED)
        return found
