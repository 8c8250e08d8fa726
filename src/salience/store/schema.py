"""The tables, one definition for SQLite and PostgreSQL.

The tenant comes first in every key, so that the tables can be spread by it; `meta` belongs to the database as a whole.
Instants are whole microseconds since 1970 in UTC, so that they come back as they went in.
"""

from __future__ import annotations

from typing import Final

from sqlalchemy import (
    BigInteger,
    Column,
    Double,
    ForeignKeyConstraint,
    Index,
    LargeBinary,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    text,
)

REVISIONS: Final = ("0001", "0002", "0003")
"""Revisions of the tables that this code knows, oldest first; each is a file in `migrations/versions`."""
HEAD: Final = REVISIONS[-1]
"""The revision that this code reads and writes."""
APPLICATION_ID: Final = 0x53414C49
"""The mark in the header of an SQLite file ("SALI"), by which a file of something else is told apart."""

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
        Column("environment", Text, nullable=False),
        Column("project", Text),
        Column("user_id", Text),
        Column("agent_id", Text),
        Column("session_id", Text),
        Column("home", Text, nullable=False),  # Scope.home_key
        Column("content", Text, nullable=False),
        Column("content_hash", Text, nullable=False),
        Column("kind", Text, nullable=False),
        Column("importance", Double, nullable=False),
        Column("weight", Double, nullable=False),
        Column("tier", Text, nullable=False),
        Column("tags", Text, nullable=False),  # JSON, as are entities and metadata
        Column("entities", Text, nullable=False),
        Column("fact_key", Text),
        Column("supersedes", Text),
        Column("metadata", Text, nullable=False),
        Column("key", Text),
        Column("speaker", Text),
        Column("change", Text, nullable=False),
        Column("changed_at", BigInteger, nullable=False),
        Column("created_at", BigInteger, nullable=False),
        Column("updated_at", BigInteger, nullable=False),
        Column("tier_since", BigInteger, nullable=False),
        Column("accessed_at", BigInteger),
        Column("expires_at", BigInteger),
        Column("forgotten_at", BigInteger),
        Column("access_count", BigInteger, nullable=False),
        Column("turn", BigInteger),
        Column("terms", Text, nullable=False),  # joined by a space
        Column("vector", LargeBinary),  # float32, little endian
        Column("distinctions", Text, nullable=False, server_default=""),  # a line each
        Column("changed_by", Text),
        Column("reason", Text),
        Column("follows", Text),
        Column("sources", Text, nullable=False, server_default="[]"),  # JSON
        Column("reflection", Text),
    ]


_HAS_FACT: Final = text("fact_key IS NOT NULL")


def _unembedded(table: str) -> Index:
    """Return the index of the rows without a vector; with the whole key, it lists them in order."""
    none = text("vector IS NULL")
    return Index(f"ix_{table}_unembedded", "tenant", "id", "version", sqlite_where=none, postgresql_where=none)


memories: Final = Table(
    "memories",
    metadata,
    Column("tenant", Text, primary_key=True),
    Column("id", Text, primary_key=True),
    Column("version", BigInteger, nullable=False),
    Column("short_id", Text, nullable=False),
    Column("seq", BigInteger, nullable=False),  # the change sequence: when the row was last written
    *_of_a_version(),
    UniqueConstraint("tenant", "home", "key"),
    Index(None, "tenant", "seq"),
    Index(None, "tenant", "short_id"),
    Index(None, "tenant", "fact_key", sqlite_where=_HAS_FACT, postgresql_where=_HAS_FACT),
    _unembedded("memories"),
)
versions: Final = Table(
    "versions",
    metadata,
    Column("tenant", Text, primary_key=True),
    Column("id", Text, primary_key=True),
    Column("version", BigInteger, primary_key=True),
    *_of_a_version(),
    Column("valid_to", BigInteger, nullable=False),  # changed_at of the next version
    ForeignKeyConstraint(["tenant", "id"], ["memories.tenant", "memories.id"], ondelete="CASCADE"),
    _unembedded("versions"),
)
touches: Final = Table(
    "touches",
    metadata,
    Column("tenant", Text, primary_key=True),
    Column("id", Text, primary_key=True),
    Column("version", BigInteger, primary_key=True),
    Column("seq", BigInteger, primary_key=True),  # the change sequence of the touch
    Column("at", BigInteger, primary_key=True),
    Column("accessed_at", BigInteger),  # this and the next two: as they were before the touch
    Column("access_count", BigInteger, nullable=False),
    Column("importance", Double, nullable=False),
    ForeignKeyConstraint(["tenant", "id"], ["memories.tenant", "memories.id"], ondelete="CASCADE"),
    Index(None, "tenant", "at"),
)

laid_by: Final = Table(  # vectors of the model that `meta` names as `laid_by`, until it is adopted
    "laid_by",
    metadata,
    Column("tenant", Text, primary_key=True),
    Column("id", Text, primary_key=True),
    Column("version", BigInteger, primary_key=True),
    Column("content_hash", Text, nullable=False),
    Column("vector", LargeBinary, nullable=False),
    ForeignKeyConstraint(["tenant", "id"], ["memories.tenant", "memories.id"], ondelete="CASCADE"),
)

leases: Final = Table(
    "leases",
    metadata,
    Column("name", Text, primary_key=True),
    Column("holder", Text, nullable=False),
    Column("until", BigInteger, nullable=False),
)

sessions: Final = Table(
    "sessions",
    metadata,
    Column("tenant", Text, primary_key=True),
    Column("session_key", Text, primary_key=True),
    Column("turns", BigInteger, nullable=False),
)

activations: Final = Table(
    "activations",
    metadata,
    Column("tenant", Text, primary_key=True),
    Column("session_key", Text, primary_key=True),
    Column("memory_id", Text, primary_key=True),
    Column("turn", BigInteger, nullable=False),
    ForeignKeyConstraint(["tenant", "memory_id"], ["memories.tenant", "memories.id"], ondelete="CASCADE"),
    Index(None, "tenant", "memory_id"),
)

meta: Final = Table(
    "meta",
    metadata,
    Column("name", Text, primary_key=True),  # see `store/meta.py`
    Column("value", Text, nullable=False),
)
