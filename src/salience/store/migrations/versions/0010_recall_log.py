"""Add the recall log."""

import sqlalchemy as sa
from alembic import op

from salience.store.schema import TEXT

revision = "0010"
down_revision = "0009"

APP = "salience_app"
OWN = (
    "tenant = nullif(current_setting('salience.tenant', true), '') OR current_setting('salience.operator', true) = 'on'"
)


def upgrade() -> None:
    op.create_table(
        "recalls",
        sa.Column("tenant", TEXT(), primary_key=True),
        sa.Column("id", TEXT(), primary_key=True),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("expires_at", sa.BigInteger, nullable=False),
        *(sa.Column(name, TEXT()) for name in ("environment", "project", "user_id", "agent_id", "session_id")),
        sa.Column("question", TEXT(), nullable=False),
        sa.Column("cited", TEXT(), nullable=False),
        sa.Column("trace", TEXT(), nullable=False),
    )
    op.create_index("ix_recalls_tenant_expires_at", "recalls", ["tenant", "expires_at"])
    if op.get_context().dialect.name != "postgresql":
        return
    op.execute("ALTER TABLE recalls ENABLE ROW LEVEL SECURITY")
    op.execute("ALTER TABLE recalls FORCE ROW LEVEL SECURITY")
    op.execute(f"CREATE POLICY own_tenant ON recalls USING ({OWN}) WITH CHECK ({OWN})")
    if op.get_bind().exec_driver_sql(f"SELECT 1 FROM pg_roles WHERE rolname = '{APP}'").scalar():  # noqa: S608
        op.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON recalls TO {APP}")


def downgrade() -> None:
    op.drop_table("recalls")
