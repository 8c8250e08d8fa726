"""What is said of the database of a store: how it stands, and what was done to it."""

from __future__ import annotations

from dataclasses import dataclass

from salience.records.reported import Finding


@dataclass(frozen=True, slots=True)
class Upgraded:
    """What bringing a database to the revision of this version did.

    Attributes:
        store: the database or file.
        before: the revision that its tables had; None where there were none.
        after: the one that they have.
        done: what else was done, in words.
        left: what is left for others to do, in words.
    """

    store: str
    before: str | None
    after: str
    done: tuple[str, ...] = ()
    left: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TableState:
    """A table: its rows, those deleted but not yet removed, and its bytes with its indexes; None where not known."""

    name: str
    rows: int | None
    dead: int | None = None
    bytes: int | None = None


@dataclass(frozen=True, slots=True)
class IndexState:
    """An index: its table, its method, its bytes, how often it was used, and whether it may be."""

    name: str
    table: str
    method: str
    bytes: int | None = None
    uses: int | None = None
    valid: bool = True


@dataclass(frozen=True, slots=True)
class DatabaseState:
    """How the database of a store stands.

    Attributes:
        store: the database or file.
        server: what runs it, with its version.
        revision: of its tables; None where there are none.
        head: the revision of this version of Salience.
        pgvector: version of pgvector; None where it is not installed, or for a file.
        embedder, dimension: the model that the store is pinned to; None while it is to none.
        language: likewise.
        user: who connects; None for a file.
        role: in which role statements run; None where there is none that may, or for a file.
        is_exact: whether rows are counted, rather than estimated.
        tables, indexes: of the store, by name.
        faults: what is wrong, in words.
        hints: what may be done better, in words.
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
    tables: tuple[TableState, ...] = ()
    indexes: tuple[IndexState, ...] = ()
    faults: tuple[str, ...] = ()
    hints: tuple[str, ...] = ()

    @property
    def is_ready(self) -> bool:
        """Whether an engine can work with it, and nothing is wrong."""
        return self.revision == self.head and not self.faults


@dataclass(frozen=True, slots=True)
class Indexed:
    """What was done about the index of vectors.

    Attributes:
        name: of the index.
        made: whether it was made; False where it was there already.
        dropped: names of indexes that are gone.
        bytes: its size; 0 where there is none.
        seconds: how long that took.
        warning: what the server said meanwhile, if anything.
    """

    name: str | None
    made: bool = False
    dropped: tuple[str, ...] = ()
    bytes: int = 0
    seconds: float = 0.0
    warning: str | None = None


@dataclass(frozen=True, slots=True)
class Distributed:
    """What spreading the tables of a database over the servers of a Citus cluster did.

    Attributes:
        store: the database.
        citus: version of Citus.
        workers: how many servers take shards.
        shards: into how many each table is spread; None where they are not.
        steps: statements that were run, or that would be.
        is_dry: whether nothing was done.
        findings: what is wrong afterwards.
    """

    store: str
    citus: str
    workers: int
    shards: int | None
    steps: tuple[str, ...]
    is_dry: bool = False
    findings: tuple[Finding, ...] = ()
