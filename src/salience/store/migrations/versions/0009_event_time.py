"""Add the time that the text of a memory states, and read it from the texts that are there."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any

import sqlalchemy as sa
from alembic import context, op

revision = "0009"
down_revision = "0008"

PAGE = 1000
KEYS = {"memories": ("tenant", "id"), "versions": ("tenant", "id", "version")}
COLUMNS = ("event_start", "event_end")
INDEX = "ix_memories_tenant_event_start"
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)


def upgrade() -> None:
    distinguish = context.config.attributes.get("distinguish")
    for name, keys in KEYS.items():
        for column in COLUMNS:
            op.add_column(name, sa.Column(column, sa.BigInteger))
        if distinguish is not None:
            table = sa.table(name, *map(sa.column, (*keys, "content", "speaker", "created_at", *COLUMNS)))
            fill(op.get_bind(), table, keys, distinguish)
    if op.get_context().dialect.name == "postgresql":
        known = sa.text("event_start IS NOT NULL")
        op.create_index(INDEX, "memories", ["tenant", "event_start"], postgresql_where=known)


def fill(connection: sa.Connection, table: sa.TableClause, keys: tuple[str, ...], distinguish: Any) -> None:
    """Write the time that each text states."""
    change = sa.update(table).where(*(table.c[name] == sa.bindparam(f"at_{name}") for name in keys))
    change = change.values({name: sa.bindparam(f"new_{name}") for name in COLUMNS})
    stated = events(connection, table, keys, distinguish)
    while page := list(islice(stated, PAGE)):
        connection.execute(change, page)


def events(
    connection: sa.Connection, table: sa.TableClause, keys: tuple[str, ...], distinguish: Any
) -> Iterator[dict[str, Any]]:
    """Yield the parameters of `change` for each row whose text states a time; reads a page at a time."""
    key = [table.c[name] for name in keys]
    page = sa.select(*key, table.c.content, table.c.speaker, table.c.created_at).order_by(*key).limit(PAGE)
    rows: list[Any] = list(connection.execute(page))
    while rows:
        for row in rows:
            if isinstance(row.content, str) and isinstance(row.created_at, int):  # a damaged row stays as it is
                _, event = distinguish(row.content, row.speaker, EPOCH + row.created_at * MICROSECOND)
                if event is not None:
                    found = [(moment - EPOCH) // MICROSECOND for moment in event]
                    values = {f"new_{name}": moment for name, moment in zip(COLUMNS, found, strict=True)}
                    yield {f"at_{name}": getattr(row, name) for name in keys} | values
        last = sa.tuple_(*(sa.literal(rows[-1][place]) for place in range(len(keys))))
        rows = list(connection.execute(page.where(sa.tuple_(*key) > last)))


def downgrade() -> None:
    if op.get_context().dialect.name == "postgresql":
        op.drop_index(INDEX)
    for name in KEYS:
        for column in COLUMNS:
            op.drop_column(name, column)
