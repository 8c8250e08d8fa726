"""Fold the recall counters of an SQLite file into the rows of its memories, and drop the `counters` table.

A touch updates the row of the memory on both databases from now on.
"""

import sqlalchemy as sa
from alembic import op

from salience.store.schema import TEXT

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    if op.get_context().dialect.name != "sqlite":
        return
    op.execute(
        "UPDATE memories AS m SET accessed_at = c.accessed_at, access_count = c.access_count "
        "FROM counters AS c WHERE c.tenant = m.tenant AND c.id = m.id"
    )
    op.drop_table("counters")


def downgrade() -> None:
    if op.get_context().dialect.name != "sqlite":
        return
    op.create_table(
        "counters",
        sa.Column("tenant", TEXT(), primary_key=True),
        sa.Column("id", TEXT(), primary_key=True),
        sa.Column("accessed_at", sa.BigInteger),
        sa.Column("access_count", sa.BigInteger, nullable=False),
        sa.ForeignKeyConstraint(["tenant", "id"], ["memories.tenant", "memories.id"], ondelete="CASCADE"),
        sqlite_with_rowid=False,
    )
