"""Memories, their versions, sessions, activations and the pins of the store."""

from typing import Any

import sqlalchemy as sa
from alembic import op

from salience.store.schema import TEXT, VECTOR

revision = "0001"
down_revision = None


COLUMNS = (
    "environment project? user_id? agent_id? session_id? home content content_hash kind importance weight tier tags "
    "entities fact_key? supersedes? metadata key? speaker? change changed_at created_at updated_at tier_since "
    "accessed_at? expires_at? forgotten_at? access_count turn? terms vector?"
)
"""The columns of a version, in order; `?` marks those that may be null."""
TYPES: dict[str, Any] = {
    **dict.fromkeys(("importance", "weight"), sa.Double),
    **dict.fromkeys(("changed_at", "created_at", "updated_at", "tier_since", "access_count"), sa.BigInteger),
    **dict.fromkeys(("accessed_at", "expires_at", "forgotten_at", "turn"), sa.BigInteger),
    "vector": VECTOR(),
}


def of_a_version() -> list[sa.Column[Any]]:
    names = [(part.removesuffix("?"), part.endswith("?")) for part in COLUMNS.split()]
    return [sa.Column(name, TYPES.get(name, TEXT()), nullable=is_optional) for name, is_optional in names]


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
