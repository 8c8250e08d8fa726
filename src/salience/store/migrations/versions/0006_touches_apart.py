"""What recalls touch is written apart from the memories: counters in a table of their own, notes one behind the other.

A touch used to write a page of the file for each of the row of the memory, the index of its sequence and the index of
the notes. A server has the tables that it had: its rows are not written in place, and many write them at once.
"""

import sqlalchemy as sa
from alembic import op

from salience.store.schema import TEXT

revision = "0006"
down_revision = "0005"

NAMES = "tenant, seq, at, id, version, accessed_at, access_count, importance"
COUNTERS = "(c.accessed_at, c.access_count)"


def of_memories() -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint(["tenant", "id"], ["memories.tenant", "memories.id"], ondelete="CASCADE")


def kept() -> list[sa.Column[object]]:
    """Return what is kept of a touch beside its key."""
    return [
        sa.Column("accessed_at", sa.BigInteger),
        sa.Column("access_count", sa.BigInteger, nullable=False),
        sa.Column("importance", sa.Double, nullable=False),
    ]


def key(*names: str) -> list[sa.Column[object]]:
    return [sa.Column(name, TEXT() if name in ("tenant", "id") else sa.BigInteger, primary_key=True) for name in names]


def upgrade() -> None:
    if op.get_context().dialect.name != "sqlite":
        return
    op.create_table(
        "counters",
        *key("tenant", "id"),
        sa.Column("accessed_at", sa.BigInteger),
        sa.Column("access_count", sa.BigInteger, nullable=False),
        of_memories(),
        sqlite_with_rowid=False,
    )
    laid_anew(*key("tenant", "seq", "at", "id", "version"), *kept(), sqlite_with_rowid=False)


def downgrade() -> None:
    if op.get_context().dialect.name != "sqlite":
        return
    op.execute(
        f"UPDATE memories AS m SET (accessed_at, access_count) = {COUNTERS} "  # noqa: S608 - a constant
        "FROM counters AS c WHERE c.tenant = m.tenant AND c.id = m.id"
    )
    op.drop_table("counters")
    laid_anew(*key("tenant", "id", "version", "seq", "at"), *kept(), of_memories())


def laid_anew(*parts: sa.schema.SchemaItem, **options: bool) -> None:
    """Make the table of touches anew, with the rows that it has."""
    op.drop_index("ix_touches_tenant_at")
    op.rename_table("touches", "former_touches")
    op.create_table("touches", *parts, **options)
    op.execute(f"INSERT INTO touches ({NAMES}) SELECT {NAMES} FROM former_touches ORDER BY tenant, seq, at")  # noqa: S608
    op.drop_table("former_touches")
    op.create_index("ix_touches_tenant_at", "touches", ["tenant", "at"])
