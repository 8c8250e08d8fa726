"""A tenant's memories as they stood at an earlier instant, read from versions and touches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection

from salience.records import Scope
from salience.store import sql_history
from salience.store.sql_history import COUNTERS
from salience.store.values import microseconds


def stood(
    reader: Connection,
    tenant: str,
    names: Sequence[str],
    as_of: datetime,
    ids: Sequence[str] | None = None,
    seen: Scope | None = None,
) -> Iterator[Mapping[str, Any]]:
    """Yield columns of the memories, forgotten ones too, as they stood; `id`, `version` and `COUNTERS` among them.

    Those of some ids alone, and those visible in a scope alone, where they are given.
    """
    instant = microseconds(as_of)
    before: dict[tuple[str, int], list[Any]] = {}
    for id_, version, *counters in reader.execute(sql_history.touched_since(tenant, instant, ids)):
        before.setdefault((id_, version), counters)
    for row in reader.execute(sql_history.stood(tenant, names, instant, ids, seen)).mappings():
        counters = before.get((row["id"], row["version"]), [])
        yield {**row, **dict(zip(COUNTERS, counters, strict=False))}
