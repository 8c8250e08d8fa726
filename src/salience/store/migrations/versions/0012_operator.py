"""Let a role see all tenants on PostgreSQL, where a setting did that any role may set.

The owner of the tables sees all rows in a transaction without a tenant; `salience db upgrade` adds the role
`salience_operator`. A server reads an API key by its prefix, and a row of `meta` says whether there are any.
"""

from alembic import op

revision = "0012"
down_revision = "0011"

TABLES = (
    "memories", "versions", "touches", "laid_by", "sessions", "activations", "tenants", "commits", "postings",
    "requests", "api_keys", "recalls",
)  # fmt: skip
OWN = "tenant = nullif(current_setting('salience.tenant', true), '')"
ALL = "coalesce(current_setting('salience.tenant', true), '') = ''"
FORMER = f"{OWN} OR current_setting('salience.operator', true) = 'on'"


def upgrade() -> None:
    if op.get_context().dialect.name != "postgresql":
        return
    op.execute("INSERT INTO meta (name, value) SELECT DISTINCT 'has_keys', '1' FROM api_keys ON CONFLICT DO NOTHING")
    for table in TABLES:
        op.execute(f"CREATE POLICY all_tenants ON {table} TO CURRENT_USER USING ({ALL}) WITH CHECK ({ALL})")
        op.execute(f"DROP POLICY IF EXISTS own_tenant ON {table}")
        op.execute(f"CREATE POLICY own_tenant ON {table} USING ({OWN}) WITH CHECK ({OWN})")
    op.execute("CREATE POLICY own_key ON api_keys FOR SELECT USING (prefix = current_setting('salience.key', true))")


def downgrade() -> None:
    if op.get_context().dialect.name != "postgresql":
        return
    op.execute("DROP POLICY IF EXISTS own_key ON api_keys")
    for table in TABLES:
        op.execute(f"DROP POLICY IF EXISTS all_tenants ON {table}")
        op.execute(f"ALTER POLICY own_tenant ON {table} USING ({FORMER}) WITH CHECK ({FORMER})")
    op.execute("DELETE FROM meta WHERE name = 'has_keys'")
