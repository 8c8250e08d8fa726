"""What tells a memory's text from others, beside the memory; read from the texts that are there."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa
from alembic import context, op

from salience.store.schema import TEXT

revision = "0002"
down_revision = "0001"

PAGE = 1000
KEYS = {"memories": ("tenant", "id"), "versions": ("tenant", "id", "version")}
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
Derive = Callable[[str, str | None, datetime], tuple[tuple[str, ...], object]]


def upgrade() -> None:
    derive: Derive | None = context.config.attributes.get("distinguish")
    for name, keys in KEYS.items():
        op.add_column(name, sa.Column("distinctions", TEXT(), nullable=False, server_default=""))
        if derive is not None:
            columns = (*keys, "content", "speaker", "distinctions")
            fill(op.get_bind(), sa.table(name, *map(sa.column, columns)), keys, derive)


def fill(connection: sa.Connection, table: sa.TableClause, keys: tuple[str, ...], derive: Derive) -> None:
    """Write the distinctions of every row, a page at a time."""
    key = [table.c[name] for name in keys]
    change = sa.update(table).where(*(column == sa.bindparam(f"at_{column.name}") for column in key))
    change = change.values(distinctions=sa.bindparam("found"))
    page = sa.select(*key, table.c.content, table.c.speaker).order_by(*key).limit(PAGE)
    rows: list[Any] = list(connection.execute(page))
    while rows:
        values = [
            {f"at_{name}": getattr(row, name) for name in keys}
            | {"found": "\n".join(derive(row.content, row.speaker, EPOCH)[0])}
            for row in rows
        ]
        connection.execute(change, values)
        last = sa.tuple_(*(sa.literal(rows[-1][place]) for place in range(len(keys))))
        rows = list(connection.execute(page.where(sa.tuple_(*key) > last)))


def downgrade() -> None:
    for name in KEYS:
        op.drop_column(name, "distinctions")
