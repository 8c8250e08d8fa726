"""What maintenance and listings answer: pages, counts, versions, and reports of what was changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from salience.records.stored import Memory, OutOfScope


@dataclass(frozen=True, slots=True)
class Page:
    """One page of a listing.

    Attributes:
        memories: in the order of their ids.
        cursor: of the next page; None where this is the last one.
        damaged: ids of memories that belong here and cannot be read; `salience doctor` says what is wrong with them.
        out_of_scope: as in `Recall`, where the listing is empty.
    """

    memories: tuple[Memory, ...]
    cursor: str | None = None
    damaged: tuple[str, ...] = ()
    out_of_scope: tuple[OutOfScope, ...] = ()


@dataclass(frozen=True, slots=True)
class Stats:
    """Counts of the live memories visible in a scope, whole and by kind, tier, project, user and agent.

    `pending` is how many of them have no vector yet; `embedder` and `dimension` are those the engine embeds with.
    `out_of_scope` is as in `Recall`, where there is no memory to count.
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


@dataclass(frozen=True, slots=True)
class Version:
    """One version of a memory.

    Attributes:
        memory: the memory as it stood when this version ended, or as it stands: its version, its `change`, by whom,
            when and why.
        changed: names of the fields that this version has otherwise than the one before it; empty for the first.
        until: when the next version took its place; None for the current one.
    """

    memory: Memory
    changed: tuple[str, ...]
    until: datetime | None


@dataclass(frozen=True, slots=True)
class SessionReport:
    """What ending a session changed: ids of the memories promoted to the next tier."""

    session_id: str
    promoted: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ConsolidateReport:
    """What a consolidation changed, or would change.

    Attributes:
        examined: how many memories were looked at: those that are not semantic yet.
        promoted: each tier that can be reached -> ids of the memories that moved to it.
        dry_run: whether nothing was written.
    """

    examined: int
    promoted: Mapping[str, tuple[str, ...]]
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class ReflectReport:
    """What a reflection wrote, or would write.

    Attributes:
        examined: how many memories were looked at.
        made: reflections that are new.
        renewed: reflections whose sources are others than before, or were changed.
        retired: ids of reflections that are out of sight, since their sources no longer belong together.
        unchanged: how many reflections stay as they are.
        fell_back: of how many the summariser could not write the text, so that it is that of their medoid.
        dry_run: whether nothing was written; no text is asked of the summariser then.
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
    """What a pass of upkeep did, or would do.

    Attributes:
        embedded: pending memories and versions of all tenants that got their vector.
        pending: those that still have none.
        expired: ids of the memories whose time had run out, now out of sight, their versions kept.
        promoted: the tier -> ids of the memories that moved to it.
        pruned: older versions dropped, as the setting `keep_versions` asks.
        warning: what failed and why, a line for each step, without any content; None where nothing did.
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
    """What a change of the model did: vectors `made` in this run, those `resumed` from one cut short, names of both."""

    made: int
    resumed: int
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is wrong with a store.

    Attributes:
        check: what was looked at, such as `integrity`, `terms`, `vectors`, `versions`.
        id: the memory it is about; None for the store as a whole.
        problem: what is wrong, without any content.
        repaired: whether it is right again.
    """

    check: str
    id: str | None
    problem: str
    repaired: bool = False


@dataclass(frozen=True, slots=True)
class DoctorReport:
    """The state of a store: how many memories and versions were read, how many are pending, and what is wrong."""

    memories: int
    versions: int
    pending: int
    findings: tuple[Finding, ...]

    @property
    def healthy(self) -> bool:
        """Whether nothing is wrong, or all of it was repaired."""
        return all(finding.repaired for finding in self.findings)


@dataclass(frozen=True, slots=True)
class TransferReport:
    """What an export or import did.

    Attributes:
        written: records written (for an import, memories that are new).
        unchanged: records that were already there.
        skipped: lines that were refused, each as (number, reason); empty unless asked to skip.
    """

    written: int
    unchanged: int = 0
    skipped: tuple[tuple[int, str], ...] = ()


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
