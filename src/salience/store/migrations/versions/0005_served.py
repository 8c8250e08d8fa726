"""What a server needs: its keys, and what was answered under idempotency keys, so that a retry is told the same."""

import sqlalchemy as sa
from alembic import op

from salience.store.schema import TEXT

revision = "0005"
down_revision = "0004"

TABLES = ("api_keys", "requests")
APP = "salience_app"
OWN = (
    "tenant = nullif(current_setting('salience.tenant', true), '') OR current_setting('salience.operator', true) = 'on'"
)


def upgrade() -> None:
    op.create_table(
        "requests",
        sa.Column("tenant", TEXT(), primary_key=True),
        sa.Column("home", TEXT(), primary_key=True),
        sa.Column("key", TEXT(), primary_key=True),
        sa.Column("verb", TEXT(), nullable=False),
        sa.Column("id", TEXT(), nullable=False),
        sa.Column("version", sa.BigInteger, nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False),
    )
    op.create_index("ix_requests_tenant_id", "requests", ["tenant", "id"])
    op.create_index("ix_requests_tenant_at", "requests", ["tenant", "at"])
    op.create_table(
        "api_keys",
        sa.Column("prefix", TEXT(), primary_key=True),
        sa.Column("digest", TEXT(), nullable=False),
        sa.Column("tenant", TEXT(), nullable=False),
        sa.Column("rights", TEXT(), nullable=False),
        sa.Column("bound", TEXT(), nullable=False),
        sa.Column("note", TEXT()),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("expires_at", sa.BigInteger),
        sa.Column("revoked_at", sa.BigInteger),
    )
    if op.get_context().dialect.name == "postgresql":
        keep_apart()


def keep_apart() -> None:
    """Let a transaction see its tenant's rows alone, and give the role that engines work in its rights, if it is."""
    for table in TABLES:
        op.execute(f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY")
        op.execute(f"ALTER TABLE {table} FORCE ROW LEVEL SECURITY")
        op.execute(f"CREATE POLICY own_tenant ON {table} USING ({OWN}) WITH CHECK ({OWN})")
    if op.get_bind().exec_driver_sql(f"SELECT 1 FROM pg_roles WHERE rolname = '{APP}'").scalar():  # noqa: S608
        op.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON {', '.join(TABLES)} TO {APP}")


def downgrade() -> None:
    for table in TABLES:
        op.drop_table(table)
