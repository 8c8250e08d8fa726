"""Memories, their versions, sessions, activations and the pins of the store."""

from typing import Any

import sqlalchemy as sa
from alembic import op

from salience.store.schema import TEXT, VECTOR

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def of_a_version() -> list[sa.Column[Any]]:
    return [
        sa.Column("environment", TEXT(), nullable=False),
        sa.Column("project", TEXT()),
        sa.Column("user_id", TEXT()),
        sa.Column("agent_id", TEXT()),
        sa.Column("session_id", TEXT()),
        sa.Column("home", TEXT(), nullable=False),
        sa.Column("content", TEXT(), nullable=False),
        sa.Column("content_hash", TEXT(), nullable=False),
        sa.Column("kind", TEXT(), nullable=False),
        sa.Column("importance", sa.Double, nullable=False),
        sa.Column("weight", sa.Double, nullable=False),
        sa.Column("tier", TEXT(), nullable=False),
        sa.Column("tags", TEXT(), nullable=False),
        sa.Column("entities", TEXT(), nullable=False),
        sa.Column("fact_key", TEXT()),
        sa.Column("supersedes", TEXT()),
        sa.Column("metadata", TEXT(), nullable=False),
        sa.Column("key", TEXT()),
        sa.Column("speaker", TEXT()),
        sa.Column("change", TEXT(), nullable=False),
        sa.Column("changed_at", sa.BigInteger, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("updated_at", sa.BigInteger, nullable=False),
        sa.Column("tier_since", sa.BigInteger, nullable=False),
        sa.Column("accessed_at", sa.BigInteger),
        sa.Column("expires_at", sa.BigInteger),
        sa.Column("forgotten_at", sa.BigInteger),
        sa.Column("access_count", sa.BigInteger, nullable=False),
        sa.Column("turn", sa.BigInteger),
        sa.Column("terms", TEXT(), nullable=False),
        sa.Column("vector", VECTOR()),
    ]


def upgrade() -> None:
    op.create_table(
        "memories",
        sa.Column("tenant", TEXT(), primary_key=True),
        sa.Column("id", TEXT(), primary_key=True),
        sa.Column("version", sa.BigInteger, nullable=False),
        sa.Column("short_id", TEXT(), nullable=False),
        sa.Column("seq", sa.BigInteger, nullable=False),
        *of_a_version(),
        sa.UniqueConstraint("tenant", "home", "key"),
    )
    op.create_index("ix_memories_tenant_seq", "memories", ["tenant", "seq"])
    op.create_index("ix_memories_tenant_short_id", "memories", ["tenant", "short_id"])
    op.create_table(
        "versions",
        sa.Column("tenant", TEXT(), primary_key=True),
        sa.Column("id", TEXT(), primary_key=True),
        sa.Column("version", sa.BigInteger, primary_key=True),
        *of_a_version(),
        sa.Column("valid_to", sa.BigInteger, nullable=False),
        sa.ForeignKeyConstraint(["tenant", "id"], ["memories.tenant", "memories.id"], ondelete="CASCADE"),
    )
    op.create_table(
        "sessions",
        sa.Column("tenant", TEXT(), primary_key=True),
        sa.Column("session_key", TEXT(), primary_key=True),
        sa.Column("turns", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "activations",
        sa.Column("tenant", TEXT(), primary_key=True),
        sa.Column("session_key", TEXT(), primary_key=True),
        sa.Column("memory_id", TEXT(), primary_key=True),
        sa.Column("turn", sa.BigInteger, nullable=False),
        sa.ForeignKeyConstraint(["tenant", "memory_id"], ["memories.tenant", "memories.id"], ondelete="CASCADE"),
    )
    op.create_index("ix_activations_tenant_memory_id", "activations", ["tenant", "memory_id"])
    op.create_table(
        "meta",
        sa.Column("name", TEXT(), primary_key=True),
        sa.Column("value", TEXT(), nullable=False),
    )


def downgrade() -> None:
    for table in ("meta", "activations", "sessions", "versions", "memories"):
        op.drop_table(table)
