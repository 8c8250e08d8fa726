"""The tables, one definition for SQLite and PostgreSQL, and the types of columns that the two store differently.

The tenant comes first in every key, so that the tables can be distributed by it. What is looked up before a tenant is
known, or belongs to none, belongs to the database as a whole: `api_keys`, `leases` and `meta`. Instants are whole
microseconds since 1970 in UTC.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
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
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    func,
    text,
)
from sqlalchemy.dialects import postgresql
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.types import UserDefinedType

_HEADER: Final = 4
"""Bytes before the numbers in pgvector's own form: the dimension and a reserved number, two each."""


@dataclass(frozen=True, slots=True)
class BinaryVector:
    """A vector as a parameter of psycopg: float32, little endian."""

    data: bytes


class PostgresVector(UserDefinedType[bytes]):
    """A pgvector `vector`: float32, little endian, to whoever reads or writes it here.

    Args:
        dimension: its length; None for any.
        is_half: whether it is a `halfvec`, of half the precision, as which an index may hold what the rows hold whole.
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
        """Return what reads a column: pgvector's own form, which no text has to be parsed for."""
        return func.vector_send(column, type_=self)

    def bind_processor(self, dialect: Dialect) -> Callable[[bytes | None], object | None]:
        """Return what makes a parameter of a vector."""
        return lambda value: None if value is None else BinaryVector(value)

    def result_processor(self, dialect: Dialect, coltype: object) -> Callable[[bytes | None], bytes | None]:
        """Return what makes a vector of pgvector's own form."""
        return lambda value: (
            None if value is None else np.frombuffer(value, ">f4", offset=_HEADER).astype("<f4").tobytes()
        )


def TEXT() -> Text:  # noqa: N802 - stands where a type stands
    """Return the type of text; PostgreSQL too is to order it by its bytes, whatever the locale of the database."""
    return Text().with_variant(postgresql.TEXT(collation="C"), "postgresql")


def VECTOR() -> LargeBinary:  # noqa: N802 - likewise
    """Return the type of a vector: float32, little endian."""
    return LargeBinary().with_variant(PostgresVector(), "postgresql")


REVISIONS: Final = ("0001", "0002", "0003", "0004", "0005", "0006", "0007")
"""Revisions of the tables that this code knows, oldest first; each is a file in `migrations/versions`."""
HEAD: Final = REVISIONS[-1]
"""The revision that this code reads and writes."""
APPLICATION_ID: Final = 0x53414C49
"""The mark in the header of an SQLite file ("SALI"), by which a file of something else is told apart."""

SERVER: Final = {"database": "postgresql"}
"""Marks what PostgreSQL alone has."""

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
    return [
        Column("environment", TEXT(), nullable=False),
        Column("project", TEXT()),
        Column("user_id", TEXT()),
        Column("agent_id", TEXT()),
        Column("session_id", TEXT()),
        Column("home", TEXT(), nullable=False),  # Scope.home_key
        Column("content", TEXT(), nullable=False),
        Column("content_hash", TEXT(), nullable=False),
        Column("kind", TEXT(), nullable=False),
        Column("importance", Double, nullable=False),
        Column("weight", Double, nullable=False),
        Column("tier", TEXT(), nullable=False),
        Column("tags", TEXT(), nullable=False),  # JSON, as are entities and metadata
        Column("entities", TEXT(), nullable=False),
        Column("fact_key", TEXT()),
        Column("supersedes", TEXT()),
        Column("metadata", TEXT(), nullable=False),
        Column("key", TEXT()),
        Column("speaker", TEXT()),
        Column("change", TEXT(), nullable=False),
        Column("changed_at", BigInteger, nullable=False),
        Column("created_at", BigInteger, nullable=False),
        Column("updated_at", BigInteger, nullable=False),
        Column("tier_since", BigInteger, nullable=False),
        Column("accessed_at", BigInteger),
        Column("expires_at", BigInteger),
        Column("forgotten_at", BigInteger),
        Column("access_count", BigInteger, nullable=False),
        Column("turn", BigInteger),
        Column("terms", TEXT(), nullable=False),  # joined by a space
        Column("vector", VECTOR()),  # float32, little endian
        Column("distinctions", TEXT(), nullable=False, server_default=""),  # a line each
        Column("changed_by", TEXT()),
        Column("reason", TEXT()),
        Column("follows", TEXT()),
        Column("sources", TEXT(), nullable=False, server_default="[]"),  # JSON
        Column("reflection", TEXT()),
    ]


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
    Column("number", BigInteger, info=SERVER),  # by which `postings` names it
    Column("length", BigInteger, info=SERVER),  # in terms
    UniqueConstraint("tenant", "home", "key"),
    Index(None, "tenant", "seq"),
    Index(None, "tenant", "short_id"),
    Index(None, "tenant", "fact_key", sqlite_where=_HAS_FACT, postgresql_where=_HAS_FACT),
    _unembedded("memories"),
)
Index(
    "ix_memories_scope",
    *(memories.c[name] for name in ("tenant", "environment", "user_id", "project", "agent_id")),
    postgresql_include=["length"],  # so that how many are visible, and how long they are, is read off the index
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
    ForeignKeyConstraint(["tenant", "id"], ["memories.tenant", "memories.id"], ondelete="CASCADE"),
    _unembedded("versions"),
)
touches: Final = Table(
    "touches",
    metadata,
    Column("tenant", TEXT(), primary_key=True),
    Column("seq", BigInteger, primary_key=True),  # the change sequence of the touch: new rows stand behind all others
    Column("at", BigInteger, primary_key=True),
    Column("id", TEXT(), primary_key=True),
    Column("version", BigInteger, primary_key=True),
    Column("accessed_at", BigInteger),  # this and the next two: as they were before the touch
    Column("access_count", BigInteger, nullable=False),
    Column("importance", Double, nullable=False),
    ForeignKeyConstraint(  # a file would have to keep an index by memory for it
        ["tenant", "id"], ["memories.tenant", "memories.id"], ondelete="CASCADE", info=SERVER
    ),
    Index(None, "tenant", "at"),
    sqlite_with_rowid=False,
)
Index("ix_touches_tenant_seq", touches.c.tenant, touches.c.seq, info=SERVER)

laid_by: Final = Table(  # vectors of the model that `meta` names as `laid_by`, until it is adopted
    "laid_by",
    metadata,
    Column("tenant", TEXT(), primary_key=True),
    Column("id", TEXT(), primary_key=True),
    Column("version", BigInteger, primary_key=True),
    Column("content_hash", TEXT(), nullable=False),
    Column("vector", VECTOR(), nullable=False),
    ForeignKeyConstraint(["tenant", "id"], ["memories.tenant", "memories.id"], ondelete="CASCADE"),
)

postings: Final = Table(  # under which keys each live memory is found; see `postgres/statements.py`
    "postings",
    metadata,
    Column("tenant", TEXT(), primary_key=True),
    Column("key", BigInteger, primary_key=True),
    Column("number", BigInteger, primary_key=True),  # the key's index includes the rest
    *(Column(name, Integer) for name in ("environment", "project", "user_id", "agent_id")),  # hashes
    info=SERVER,
)

requests: Final = Table(  # what was answered under idempotency keys; see `ports.Answered`
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

api_keys: Final = Table(
    "api_keys",
    metadata,
    Column("prefix", TEXT(), primary_key=True),  # by which a key is found before it is known whose it is
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

tenants: Final = Table(  # a change sequence and an epoch for each, which an SQLite file has in `meta` for all
    "tenants",
    metadata,
    Column("tenant", TEXT(), primary_key=True),
    Column("sequence", BigInteger, nullable=False),
    Column("epoch", TEXT(), nullable=False),
    info=SERVER,
)

commits: Final = Table(  # the writes of late, so that one whose commit was cut off is known to be done, or not
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
