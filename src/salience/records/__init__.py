"""Frozen records: the values that callers pass in and get back. Records made from input validate their fields."""

from salience.records.access import BOUNDS, RIGHTS, ApiKey, Grant
from salience.records.answers import (
    Context,
    Contradiction,
    Explanation,
    Hit,
    Label,
    Part,
    Recall,
    Receipt,
    ScoreDetail,
    Via,
    Waypoint,
)
from salience.records.memory import (
    ANY,
    CHANGES,
    KINDS,
    NARROWING,
    SCOPE_LEVELS,
    TIERS,
    UNSET,
    Coordinate,
    Draft,
    Memory,
    OutOfScope,
    Scope,
    Unset,
    Wildcard,
)
from salience.records.query import PERIOD, Filter, Intent, Query, TimeCue
from salience.records.reports import (
    ActivityDay,
    ChangesPage,
    ConsolidateReport,
    Copied,
    CopyReport,
    DatabaseState,
    Distributed,
    DoctorReport,
    Finding,
    Indexed,
    IndexState,
    Judged,
    Page,
    ReembedReport,
    ReflectReport,
    ReviewItem,
    ReviewPage,
    SessionReport,
    Stats,
    TableState,
    TransferReport,
    Upgraded,
    UpkeepReport,
    Version,
)

__all__ = [
    "ANY", "BOUNDS", "CHANGES", "KINDS", "NARROWING", "PERIOD", "RIGHTS", "SCOPE_LEVELS", "TIERS", "UNSET",
    "ActivityDay", "ApiKey", "ChangesPage", "ConsolidateReport", "Context", "Contradiction", "Coordinate", "Copied",
    "CopyReport", "DatabaseState", "Distributed", "DoctorReport", "Draft", "Explanation", "Filter", "Finding", "Grant",
    "Hit", "IndexState", "Indexed", "Intent", "Judged", "Label", "Memory", "OutOfScope", "Page", "Part", "Query",
    "Recall", "Receipt", "ReembedReport", "ReflectReport", "ReviewItem", "ReviewPage", "Scope", "ScoreDetail",
    "SessionReport", "Stats", "TableState", "TimeCue", "TransferReport", "Unset", "Upgraded", "UpkeepReport", "Version",
    "Via", "Waypoint", "Wildcard",
]  # fmt: skip
