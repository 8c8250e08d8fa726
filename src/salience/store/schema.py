"""The tables, one definition for SQLite and PostgreSQL, and the types of columns that the two store differently.

The tenant comes first in every key, so that Citus can distribute the tables by it; `api_keys`, `leases` and `meta`
belong to the whole database. Instants are whole microseconds since 1970 in UTC.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import numpy as np
from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    Dialect,
    Double,
    ForeignKeyConstraint,
    Index,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
    UniqueConstraint,
    func,
    text,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.schema import CreateColumn, CreateIndex, CreateTable
from sqlalchemy.types import UserDefinedType

_HEADER: Final = 4
"""Bytes before the numbers in pgvector's binary form: the dimension and a reserved number, two each."""


@dataclass(frozen=True, slots=True)
class BinaryVector:
    """A vector as a parameter of psycopg: float32, little endian."""

    data: bytes


class PostgresVector(UserDefinedType[bytes]):
    """A pgvector `vector`, read and written as little-endian float32.

    Args:
        dimension: its length; None for any.
        is_half: whether it is a `halfvec`, of half the precision; an index may store that.
    """

    cache_ok = True
    render_bind_cast = True

    def __init__(self, dimension: int | None = None, is_half: bool = False) -> None:
        self.dimension = dimension
        self.is_half = is_half

    def get_col_spec(self, **_: Any) -> str:
        """Return the name of the type."""
        return ("halfvec" if self.is_half else "vector") + (f"({self.dimension})" if self.dimension else "")

    def column_expression(self, column: ColumnElement[Any]) -> ColumnElement[Any]:
        """Return the expression that reads a column in pgvector's binary form, which is faster to parse than text."""
        return func.vector_send(column, type_=self)

    def bind_processor(self, dialect: Dialect) -> Callable[[bytes | None], object | None]:
        """Return the function from a vector to a parameter."""
        return lambda value: None if value is None else BinaryVector(value)

    def result_processor(self, dialect: Dialect, coltype: object) -> Callable[[bytes | None], bytes | None]:
        """Return the function from pgvector's binary form to a vector."""
        return lambda value: (
            None if value is None else np.frombuffer(value, ">f4", offset=_HEADER).astype("<f4").tobytes()
        )


def TEXT() -> Text:  # noqa: N802 - used like a type
    """Return the type of text; PostgreSQL too is to order it by its bytes, whatever the locale of the database."""
    return Text().with_variant(postgresql.TEXT(collation="C"), "postgresql")


def VECTOR() -> LargeBinary:  # noqa: N802 - likewise
    """Return the type of a vector: float32, little endian."""
    return LargeBinary().with_variant(PostgresVector(), "postgresql")


HEAD: Final = "1"
"""The revision of the tables that this code reads and writes, the last in `migrations/versions`."""
_DEVELOPMENT: Final = re.compile(r"00\d\d")
"""Revisions from before the first release."""
APPLICATION_ID: Final = 0x53414C49
"""The mark in the header of an SQLite file ("SALI"), which other SQLite files do not have."""

SERVER: Final = {"database": "postgresql"}
"""Marks tables, columns and indexes that only PostgreSQL has."""

metadata: Final = MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(referred_table_name)s",
    }
)


def _of_a_version() -> list[Column[object]]:
    """Return the columns that a memory and each of its versions have beside their key."""
    required = (
        "environment", "home", "content", "content_hash", "kind", "tier", "tags", "entities", "metadata", "change",
        "terms",
    )  # fmt: skip
    optional = (
        "project", "user_id", "agent_id", "session_id", "fact_key", "supersedes", "key", "speaker", "changed_by",
        "reason", "relations", "reflection",  # relations: JSON
    )  # fmt: skip
    return [
        *(Column(name, TEXT(), nullable=False) for name in required),  # tags, entities, metadata: JSON
        *(Column(name, TEXT()) for name in optional),
        Column("sources", TEXT(), nullable=False, server_default="[]"),  # JSON
        Column("distinctions", TEXT(), nullable=False, server_default=""),  # one per line
        *(Column(name, Double, nullable=False) for name in ("importance", "weight")),
        *(Column(name, BigInteger, nullable=False) for name in ("created_at", "updated_at", "tier_since")),
        *(Column(name, BigInteger, nullable=False) for name in ("changed_at", "access_count")),
        *(Column(name, BigInteger) for name in ("accessed_at", "expires_at", "forgotten_at", "turn")),
        *(Column(name, BigInteger) for name in ("event_start", "event_end")),  # the time that the text states
        Column("vector", VECTOR()),
    ]


def _tokens() -> Column[bytes]:
    """Return the column of token vectors, the last of its table: `batch.packed`, null for none."""
    return Column("tokens", LargeBinary)


_LIVE: Final = text("forgotten_at IS NULL")
_HAS_FACT: Final = text("fact_key IS NOT NULL")


def _unembedded(table: str) -> Index:
    """Return the index of the rows without a vector; with the whole key, it lists them in order."""
    none = text("vector IS NULL")
    return Index(f"ix_{table}_unembedded", "tenant", "id", "version", sqlite_where=none, postgresql_where=none)


memories: Final = Table(
    "memories",
    metadata,
    Column("tenant", TEXT(), primary_key=True),
    Column("id", TEXT(), primary_key=True),
    Column("version", BigInteger, nullable=False),
    Column("short_id", TEXT(), nullable=False),
    Column("seq", BigInteger, nullable=False),  # the change sequence: when the row was last written
    *_of_a_version(),
    Column("search_keys", ARRAY(BigInteger), info=SERVER),  # see `postgres/statements.py`
    Column("number", BigInteger, info=SERVER),  # of the memory in `postings`
    Column("length", BigInteger, info=SERVER),  # in terms
    _tokens(),
    UniqueConstraint("tenant", "home", "key"),
    Index(None, "tenant", "seq"),
    Index(None, "tenant", "short_id"),
    Index(None, "tenant", "fact_key", sqlite_where=_HAS_FACT, postgresql_where=_HAS_FACT),
    _unembedded("memories"),
)
Index(
    "ix_memories_scope",
    *(memories.c[name] for name in ("tenant", "environment", "user_id", "project", "agent_id")),
    postgresql_include=["length"],  # for counting visible memories and their lengths from the index alone
    postgresql_where=_LIVE,
    info=SERVER,
)
Index(
    "ix_memories_line",
    *(memories.c[name] for name in ("tenant", "session_id", "created_at", "turn", "id")),
    postgresql_where=text("session_id IS NOT NULL"),
    info=SERVER,
)
Index("ix_memories_tenant_created_at", memories.c.tenant, memories.c.created_at, info=SERVER)
for _name in ("speaker", "supersedes"):
    _given = text(f"{_name} IS NOT NULL")
    Index(f"ix_memories_tenant_{_name}", memories.c.tenant, memories.c[_name], postgresql_where=_given, info=SERVER)
Index(
    "ix_memories_tenant_event_start",
    memories.c.tenant,
    memories.c.event_start,
    postgresql_where=text("event_start IS NOT NULL"),
    info=SERVER,
)
Index("ix_memories_tenant_number", memories.c.tenant, memories.c.number, info=SERVER)
Index(
    "ix_memories_unspoken",
    memories.c.tenant,
    memories.c.id,
    postgresql_where=text("speaker IS NULL AND forgotten_at IS NULL"),
    info=SERVER,
)
versions: Final = Table(
    "versions",
    metadata,
    Column("tenant", TEXT(), primary_key=True),
    Column("id", TEXT(), primary_key=True),
    Column("version", BigInteger, primary_key=True),
    *_of_a_version(),
    Column("valid_to", BigInteger, nullable=False),  # changed_at of the next version
    _tokens(),
    ForeignKeyConstraint(["tenant", "id"], ["memories.tenant", "memories.id"], ondelete="CASCADE"),
    _unembedded("versions"),
)
touches: Final = Table(
    "touches",
    metadata,
    Column("tenant", TEXT(), primary_key=True),
    Column(
        "seq", BigInteger, primary_key=True
    ),  # the change sequence of the touch: new rows go to the end of the table
    Column("at", BigInteger, primary_key=True),
    Column("id", TEXT(), primary_key=True),
    Column("version", BigInteger, primary_key=True),
    Column("accessed_at", BigInteger),  # this and the next two: as they were before the touch
    Column("access_count", BigInteger, nullable=False),
    Column("importance", Double, nullable=False),
    ForeignKeyConstraint(  # in a file, it would need an index by memory
        ["tenant", "id"], ["memories.tenant", "memories.id"], ondelete="CASCADE", info=SERVER
    ).ddl_if(dialect="postgresql"),
    Index(None, "tenant", "at"),
    sqlite_with_rowid=False,
)
Index("ix_touches_tenant_id", touches.c.tenant, touches.c.id, info=SERVER)  # for the foreign key

laid_by: Final = Table(  # vectors prepared for the model `laid_by` in `meta`, until it is adopted
    "laid_by",
    metadata,
    Column("tenant", TEXT(), primary_key=True),
    Column("id", TEXT(), primary_key=True),
    Column("version", BigInteger, primary_key=True),
    Column("content_hash", TEXT(), nullable=False),
    Column("vector", VECTOR(), nullable=False),
    _tokens(),
    ForeignKeyConstraint(["tenant", "id"], ["memories.tenant", "memories.id"], ondelete="CASCADE"),
)

_COORDINATES: Final = ("environment", "project", "user_id", "agent_id")
postings: Final = Table(  # the search keys of each live memory; see `postgres/statements.py`
    "postings",
    metadata,
    Column("tenant", TEXT(), nullable=False),
    Column("key", BigInteger, nullable=False),
    Column("number", BigInteger, nullable=False),
    *(Column(name, BigInteger) for name in _COORDINATES),  # hashes
    PrimaryKeyConstraint("tenant", "key", "number", postgresql_include=_COORDINATES),
    info=SERVER,
)

requests: Final = Table(  # answers under idempotency keys; see `ports.Answered`
    "requests",
    metadata,
    Column("tenant", TEXT(), primary_key=True),
    Column("home", TEXT(), primary_key=True),  # Scope.home_key
    Column("key", TEXT(), primary_key=True),
    Column("verb", TEXT(), nullable=False),
    Column("id", TEXT(), nullable=False),
    Column("version", BigInteger, nullable=False),
    Column("at", BigInteger, nullable=False),
    Index(None, "tenant", "id"),
    Index(None, "tenant", "at"),
)

recalls: Final = Table(  # the recall log
    "recalls",
    metadata,
    Column("tenant", TEXT(), primary_key=True),
    Column("id", TEXT(), primary_key=True),
    Column("at", BigInteger, nullable=False),
    Column("expires_at", BigInteger, nullable=False),
    *(Column(name, TEXT()) for name in ("environment", "project", "user_id", "agent_id", "session_id")),  # "*": any
    Column("question", TEXT(), nullable=False),
    Column("cited", TEXT(), nullable=False),  # ids of memories, one per line
    Column("trace", TEXT(), nullable=False),  # JSON
    Index(None, "tenant", "expires_at"),
)

api_keys: Final = Table(
    "api_keys",
    metadata,
    Column("prefix", TEXT(), primary_key=True),  # finds a key before its tenant is known
    Column("digest", TEXT(), nullable=False),
    Column("tenant", TEXT(), nullable=False),
    Column("rights", TEXT(), nullable=False),  # JSON, as is bound
    Column("bound", TEXT(), nullable=False),
    Column("note", TEXT()),
    Column("created_at", BigInteger, nullable=False),
    Column("expires_at", BigInteger),
    Column("revoked_at", BigInteger),
)

leases: Final = Table(
    "leases",
    metadata,
    Column("name", TEXT(), primary_key=True),
    Column("holder", TEXT(), nullable=False),
    Column("until", BigInteger, nullable=False),
)

sessions: Final = Table(
    "sessions",
    metadata,
    Column("tenant", TEXT(), primary_key=True),
    Column("session_key", TEXT(), primary_key=True),
    Column("turns", BigInteger, nullable=False),
)

activations: Final = Table(
    "activations",
    metadata,
    Column("tenant", TEXT(), primary_key=True),
    Column("session_key", TEXT(), primary_key=True),
    Column("memory_id", TEXT(), primary_key=True),
    Column("turn", BigInteger, nullable=False),
    ForeignKeyConstraint(["tenant", "memory_id"], ["memories.tenant", "memories.id"], ondelete="CASCADE"),
    Index(None, "tenant", "memory_id"),
)

tenants: Final = Table(  # the change sequence and epoch of each; a file has one of each for all, in `meta`
    "tenants",
    metadata,
    Column("tenant", TEXT(), primary_key=True),
    Column("sequence", BigInteger, nullable=False),
    Column("epoch", TEXT(), nullable=False),
    info=SERVER,
)

commits: Final = Table(  # recent writes, to find out whether one was committed when its connection broke
    "commits",
    metadata,
    Column("tenant", TEXT(), primary_key=True),
    Column("token", TEXT(), primary_key=True),  # see `postgres/connection.py`
    info=SERVER,
)

meta: Final = Table(
    "meta",
    metadata,
    Column("name", TEXT(), primary_key=True),  # see `store/pins.py`
    Column("value", TEXT(), nullable=False),
)


@compiles(CreateColumn, "sqlite")
def _without_columns_of_a_server(element: CreateColumn, compiler: Any, **options: Any) -> str | None:
    return None if element.element.info == SERVER else compiler.visit_create_column(element, **options)


_OPTIONS: Final = (
    "ALTER TABLE memories SET (fillfactor = 85)",  # a touch writes no index where its page has room
    "ALTER TABLE postings SET (autovacuum_vacuum_insert_scale_factor = 0.02)",  # for scans of its index alone
)


@cache
def creation(dialect: str) -> tuple[str, ...]:
    """Return the statements that create the tables and indexes of `HEAD`, on `sqlite` or `postgresql`."""
    is_server = dialect == "postgresql"
    tables = [table for table in metadata.sorted_tables if is_server or table.info != SERVER]
    of_tables = (index for table in tables for index in table.indexes if is_server or index.info != SERVER)
    indexes = sorted(of_tables, key=lambda index: str(index.name))
    made: list[CreateTable | CreateIndex] = [*map(CreateTable, tables), *map(CreateIndex, indexes)]
    to_text = (postgresql if is_server else sqlite).dialect()
    return (*(str(statement.compile(dialect=to_text)) for statement in made), *(_OPTIONS if is_server else ()))


def refusal(revision: str) -> str:
    """Return why tables of a revision other than `HEAD` cannot be used, and what to do."""
    if _DEVELOPMENT.fullmatch(revision):
        return (
            f"its tables are of revision {revision!r}, from before the first release. Export its memories with the "
            "version of Salience that wrote them, then import them: salience --store NEW import FILE"
        )
    return (
        f"its tables are of revision {revision!r}, newer than {HEAD!r} of this version of Salience. "
        "Run: pip install --upgrade salience"
    )
