"""Store the coordinates of postings on PostgreSQL as BLAKE2 hashes, and build the postings again.

Earlier revisions stored `hashtext()`, whose values may differ between major versions of PostgreSQL.
"""

import json
from hashlib import blake2b

from alembic import op

revision = "0011"
down_revision = "0010"

PAGE = 5_000
NAMES = ("environment", "project", "user_id", "agent_id")
ROWS = f"""
    SELECT id, {", ".join(NAMES)} FROM memories
    WHERE tenant = %s AND id > %s AND forgotten_at IS NULL ORDER BY id LIMIT {PAGE}"""  # noqa: S608 - constants
FILL = """
    INSERT INTO postings (tenant, key, number, environment, project, user_id, agent_id)
    SELECT m.tenant, k.key, m.number, s.environment, s.project, s.user_id, s.agent_id
    FROM memories AS m JOIN unnest(%(ids)s::text[], %(environment)s::bigint[], %(project)s::bigint[],
        %(user_id)s::bigint[], %(agent_id)s::bigint[]) AS s (id, environment, project, user_id, agent_id)
    ON s.id = m.id, unnest(m.search_keys) AS k (key) WHERE m.tenant = %(tenant)s
    ON CONFLICT (tenant, key, number) DO NOTHING"""
FORMER = """
    INSERT INTO postings (tenant, key, number, environment, project, user_id, agent_id)
    SELECT m.tenant, k.key, m.number, hashtext(m.environment), hashtext(m.project), hashtext(m.user_id),
        hashtext(m.agent_id) FROM memories AS m, unnest(m.search_keys) AS k (key) WHERE m.forgotten_at IS NULL
    ON CONFLICT (tenant, key, number) DO NOTHING"""


def upgrade() -> None:
    if op.get_context().dialect.name != "postgresql":
        return
    empty("BIGINT")
    connection = op.get_bind()
    for tenant in connection.exec_driver_sql("SELECT DISTINCT tenant FROM memories").scalars().all():
        last = ""
        while rows := connection.exec_driver_sql(ROWS, (tenant, last)).all():
            last = rows[-1].id
            keys = {name: [hashed(tenant, name, getattr(row, name)) for row in rows] for name in NAMES}
            connection.exec_driver_sql(FILL, {"tenant": tenant, "ids": [row.id for row in rows], **keys})


def empty(type_: str) -> None:
    """Delete the postings, and change the type of their coordinates."""
    op.execute("TRUNCATE postings")
    for name in NAMES:
        op.execute(f"ALTER TABLE postings ALTER COLUMN {name} TYPE {type_}")


def hashed(tenant: str, name: str, value: str | None) -> int | None:
    """Return the hash of a coordinate, in [-2^63, 2^63)."""
    if value is None:
        return None
    text = json.dumps([tenant, name, value], ensure_ascii=False).encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(text, digest_size=8).digest(), "big", signed=True)


def downgrade() -> None:
    if op.get_context().dialect.name == "postgresql":
        empty("INTEGER")
        op.execute(FORMER)
