"""What holds between the rows of a database, asked of PostgreSQL alone, which knows nothing of the store."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import psycopg

from bench.torture.check import RULES as OF_A_FILE

_SHARED: Final = (
    "a memory lacks versions, or has too many",
    "a version does not end where the next one begins",
    "two turns of a session have the same place",
    "a key stands for two memories",
    "a memory supersedes one that keeps its weight",
)
RULES: Final[dict[str, str]] = {
    **{name: OF_A_FILE[name] for name in _SHARED},
    "a row is newer than the sequence of its tenant": """
        SELECT count(*) FROM (SELECT tenant, seq FROM memories UNION ALL SELECT tenant, seq FROM touches) AS row
        LEFT JOIN tenants AS t ON t.tenant = row.tenant WHERE row.seq > coalesce(t.sequence, 0)""",
    "a memory lacks what it is found by": "SELECT count(*) FROM memories WHERE search_keys IS NULL OR length IS NULL",
    "a live reflection has a source that is not live, or does not name it": """
        SELECT count(*) FROM memories AS one CROSS JOIN json_array_elements_text(one.sources::json) AS source
        LEFT JOIN memories AS it ON it.tenant = one.tenant AND it.id = source.value
        WHERE one.forgotten_at IS NULL
        AND (it.forgotten_at IS NOT NULL OR it.reflection IS DISTINCT FROM one.id)""",
    "a live memory names a reflection that is not there, or that is live and does not list it": """
        SELECT count(*) FROM memories AS one
        LEFT JOIN memories AS it ON it.tenant = one.tenant AND it.id = one.reflection
        WHERE one.forgotten_at IS NULL AND one.reflection IS NOT NULL AND (it.id IS NULL OR (
            it.forgotten_at IS NULL AND NOT it.sources::jsonb ? one.id))""",
}
"""What is wrong -> the statement that counts it; 0 is right."""


def broken(dsn: str) -> Iterator[str]:
    """Yield which rules do not hold; `dsn` is a superuser's."""
    with psycopg.connect(dsn, autocommit=True, options="-c search_path=salience,public") as superuser:
        for wrong, statement in RULES.items():
            ((count,),) = superuser.execute(statement.encode()).fetchall()
            if count:
                yield f"{wrong}: {count}"
