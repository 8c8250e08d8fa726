"""Who changed a memory and why, what it follows and sums up; counters of earlier instants, leases, vectors laid by."""

import sqlalchemy as sa
from alembic import op

from salience.store.schema import TEXT, VECTOR

revision = "0003"
down_revision = "0002"

VERSIONED = ("memories", "versions")
TABLES = ("leases", "laid_by", "touches")


def columns() -> list[sa.Column[str]]:
    return [
        sa.Column("changed_by", TEXT()),
        sa.Column("reason", TEXT()),
        sa.Column("follows", TEXT()),
        sa.Column("sources", TEXT(), nullable=False, server_default="[]"),
        sa.Column("reflection", TEXT()),
    ]


def of_memories() -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint(["tenant", "id"], ["memories.tenant", "memories.id"], ondelete="CASCADE")


def upgrade() -> None:
    for table in VERSIONED:
        for column in columns():
            op.add_column(table, column)
        where = sa.text("vector IS NULL")
        of_key = ["tenant", "id", "version"]
        op.create_index(f"ix_{table}_unembedded", table, of_key, sqlite_where=where, postgresql_where=where)
    known, of_fact = sa.text("fact_key IS NOT NULL"), ["tenant", "fact_key"]
    op.create_index("ix_memories_tenant_fact_key", "memories", of_fact, sqlite_where=known, postgresql_where=known)
    op.create_table(
        "touches",
        sa.Column("tenant", TEXT(), primary_key=True),
        sa.Column("id", TEXT(), primary_key=True),
        sa.Column("version", sa.BigInteger, primary_key=True),
        sa.Column("seq", sa.BigInteger, primary_key=True),
        sa.Column("at", sa.BigInteger, primary_key=True),
        sa.Column("accessed_at", sa.BigInteger),
        sa.Column("access_count", sa.BigInteger, nullable=False),
        sa.Column("importance", sa.Double, nullable=False),
        of_memories(),
    )
    op.create_index("ix_touches_tenant_at", "touches", ["tenant", "at"])
    op.create_table(
        "laid_by",
        sa.Column("tenant", TEXT(), primary_key=True),
        sa.Column("id", TEXT(), primary_key=True),
        sa.Column("version", sa.BigInteger, primary_key=True),
        sa.Column("content_hash", TEXT(), nullable=False),
        sa.Column("vector", VECTOR(), nullable=False),
        of_memories(),
    )
    op.create_table(
        "leases",
        sa.Column("name", TEXT(), primary_key=True),
        sa.Column("holder", TEXT(), nullable=False),
        sa.Column("until", sa.BigInteger, nullable=False),
    )


def downgrade() -> None:
    for table in TABLES:
        op.drop_table(table)
    op.drop_index("ix_memories_tenant_fact_key")
    for table in VERSIONED:
        op.drop_index(f"ix_{table}_unembedded")
        for column in columns():
            op.drop_column(table, column.name)
