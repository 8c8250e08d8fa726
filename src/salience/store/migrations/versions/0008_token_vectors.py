"""Add the token vectors of memories, of their versions, and of versions that await another model."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"

TABLES = ("memories", "versions", "laid_by")


def upgrade() -> None:
    for table in TABLES:
        op.add_column(table, sa.Column("tokens", sa.LargeBinary))


def downgrade() -> None:
    for table in TABLES:
        op.drop_column(table, "tokens")
