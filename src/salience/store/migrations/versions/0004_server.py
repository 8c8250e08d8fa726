"""What PostgreSQL has beside: tenants apart, their change sequences, and indexes for what is not held in memory.

On SQLite nothing changes: one process at a time writes there, and each keeps what it searches in memory.
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import ARRAY

from salience.store.schema import TEXT

revision = "0004"
down_revision = "0003"

OF_A_TENANT = (
    "memories",
    "versions",
    "touches",
    "laid_by",
    "sessions",
    "activations",
    "tenants",
    "commits",
    "postings",
)
OF_ALL = ("meta", "leases")
INDEXES = {
    "ix_memories_line": ("memories", ["tenant", "session_id", "created_at", "turn", "id"], "session_id IS NOT NULL"),
    "ix_memories_tenant_number": ("memories", ["tenant", "number"], None),
    "ix_memories_tenant_created_at": ("memories", ["tenant", "created_at"], None),
    "ix_memories_tenant_speaker": ("memories", ["tenant", "speaker"], "speaker IS NOT NULL"),
    "ix_memories_tenant_supersedes": ("memories", ["tenant", "supersedes"], "supersedes IS NOT NULL"),
    "ix_memories_unspoken": ("memories", ["tenant", "id"], "speaker IS NULL AND forgotten_at IS NULL"),
    "ix_touches_tenant_seq": ("touches", ["tenant", "seq"], None),
}
POSTINGS = """
CREATE TABLE postings (
    tenant TEXT COLLATE "C" NOT NULL, key BIGINT NOT NULL, number BIGINT NOT NULL,
    environment INTEGER, project INTEGER, user_id INTEGER, agent_id INTEGER,
    CONSTRAINT pk_postings PRIMARY KEY (tenant, key, number)
    INCLUDE (environment, project, user_id, agent_id)
)
"""
SCOPE = ["tenant", "environment", "user_id", "project", "agent_id"]
APP = "salience_app"
MAKE_APP = f"""
DO $$ BEGIN
    CREATE ROLE {APP} NOLOGIN;
EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL;  -- made for another database at the same time
END $$
"""
OWN = (
    "tenant = nullif(current_setting('salience.tenant', true), '') OR current_setting('salience.operator', true) = 'on'"
)


def upgrade() -> None:
    if op.get_context().dialect.name != "postgresql":
        return
    op.create_table(
        "tenants",
        sa.Column("tenant", TEXT(), primary_key=True),
        sa.Column("sequence", sa.BigInteger, nullable=False),
        sa.Column("epoch", TEXT(), nullable=False),
    )
    op.create_table(
        "commits", sa.Column("tenant", TEXT(), primary_key=True), sa.Column("token", TEXT(), primary_key=True)
    )
    op.add_column("memories", sa.Column("search_keys", ARRAY(sa.BigInteger)))
    op.add_column("memories", sa.Column("number", sa.BigInteger))
    op.add_column("memories", sa.Column("length", sa.BigInteger))
    op.execute(POSTINGS)
    op.execute(
        "ALTER TABLE postings SET (autovacuum_vacuum_insert_scale_factor = 0.02)"
    )  # for scans of its index alone
    live = sa.text("forgotten_at IS NULL")
    op.create_index("ix_memories_scope", "memories", SCOPE, postgresql_include=["length"], postgresql_where=live)
    for name, (table, columns, where) in INDEXES.items():
        op.create_index(name, table, columns, postgresql_where=None if where is None else sa.text(where))
    op.execute("ALTER TABLE memories SET (fillfactor = 85)")  # a touch writes no index where its page has room
    for table in OF_A_TENANT:
        op.execute(f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY")
        op.execute(f"ALTER TABLE {table} FORCE ROW LEVEL SECURITY")
        op.execute(f"CREATE POLICY own_tenant ON {table} USING ({OWN}) WITH CHECK ({OWN})")
    grant()


def grant() -> None:
    """Make the role that engines work in, where this role may make one, and give it rows and no tables."""
    connection = op.get_bind()
    if connection.exec_driver_sql(f"SELECT 1 FROM pg_roles WHERE rolname = '{APP}'").scalar() is None:  # noqa: S608
        may = "SELECT rolsuper OR rolcreaterole FROM pg_roles WHERE rolname = current_user"
        if not connection.exec_driver_sql(may).scalar():
            return
        op.execute(MAKE_APP)
    schema = connection.exec_driver_sql("SELECT quote_ident(current_schema())").scalar_one()
    op.execute(f"GRANT USAGE ON SCHEMA {schema} TO {APP}")
    op.execute(f"GRANT SELECT ON alembic_version TO {APP}")
    op.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON {', '.join((*OF_A_TENANT, *OF_ALL))} TO {APP}")


def downgrade() -> None:
    if op.get_context().dialect.name != "postgresql":
        return
    for table in OF_A_TENANT:
        op.execute(f"DROP POLICY own_tenant ON {table}")
        op.execute(f"ALTER TABLE {table} NO FORCE ROW LEVEL SECURITY")
        op.execute(f"ALTER TABLE {table} DISABLE ROW LEVEL SECURITY")
    for name in INDEXES:
        op.drop_index(name)
    op.drop_index("ix_memories_scope")
    op.drop_table("postings")
    for column in ("length", "number", "search_keys"):
        op.drop_column("memories", column)
    op.drop_table("commits")
    op.drop_table("tenants")
