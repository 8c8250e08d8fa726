"""Salience: memory for AI agents that ranks what matters, shows why, and loses nothing."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from salience.errors import (
    AccessError,
    BusyError,
    ConfigError,
    ConflictError,
    DamagedError,
    EmbedderError,
    ForbiddenError,
    ImportLineError,
    InputError,
    JudgeError,
    LeaseError,
    LimitError,
    MissingExtraError,
    MovedError,
    NotAStoreError,
    NotFoundError,
    PinnedError,
    ProfileError,
    ReadOnlyError,
    RerankerError,
    SalienceError,
    ServerError,
    StaleError,
    StoreError,
    SummariserError,
    UnsettledError,
    VersionError,
)

if TYPE_CHECKING:
    from salience.async_engine import AsyncEngine
    from salience.client import AsyncClient, Client
    from salience.compose import aconnect, connect
    from salience.engine import Engine
    from salience.records import (
        ANY,
        ActivityDay,
        ChangesPage,
        ConsolidateReport,
        Context,
        Contradiction,
        DoctorReport,
        Draft,
        Erased,
        Explanation,
        Hit,
        LoggedRecall,
        Memory,
        OutOfScope,
        Page,
        Part,
        Recall,
        RecallLogPage,
        Receipt,
        ReembedReport,
        ReflectReport,
        Relation,
        Replacement,
        ReviewItem,
        ReviewPage,
        Scope,
        ScoreDetail,
        SessionReport,
        Stats,
        TransferReport,
        UpkeepReport,
        Version,
        Via,
    )
    from salience.verbs import AsyncVerbs, Verbs

__version__ = "0.1.0"

__all__ = [
    "ANY",
    "AccessError",
    "ActivityDay",
    "AsyncClient",
    "AsyncEngine",
    "AsyncVerbs",
    "BusyError",
    "ChangesPage",
    "Client",
    "ConfigError",
    "ConflictError",
    "ConsolidateReport",
    "Context",
    "Contradiction",
    "DamagedError",
    "DoctorReport",
    "Draft",
    "EmbedderError",
    "Engine",
    "Erased",
    "Explanation",
    "ForbiddenError",
    "Hit",
    "ImportLineError",
    "InputError",
    "JudgeError",
    "LeaseError",
    "LimitError",
    "LoggedRecall",
    "Memory",
    "MissingExtraError",
    "MovedError",
    "NotAStoreError",
    "NotFoundError",
    "OutOfScope",
    "Page",
    "Part",
    "PinnedError",
    "ProfileError",
    "ReadOnlyError",
    "Recall",
    "RecallLogPage",
    "Receipt",
    "ReembedReport",
    "ReflectReport",
    "Relation",
    "Replacement",
    "RerankerError",
    "ReviewItem",
    "ReviewPage",
    "SalienceError",
    "Scope",
    "ScoreDetail",
    "ServerError",
    "SessionReport",
    "StaleError",
    "Stats",
    "StoreError",
    "SummariserError",
    "TransferReport",
    "UnsettledError",
    "UpkeepReport",
    "Verbs",
    "Version",
    "VersionError",
    "Via",
    "aconnect",
    "connect",
]

_HOMES = {
    "salience.async_engine": ("AsyncEngine",),
    "salience.client": ("AsyncClient", "Client"),
    "salience.compose": ("aconnect", "connect"),
    "salience.engine": ("Engine",),
    "salience.verbs": ("AsyncVerbs", "Verbs"),
}
"""Module -> the names that it gives; the others are records."""

if not TYPE_CHECKING:  # so that a type checker knows these names and no others

    def __getattr__(name: str) -> Any:
        """Import the engine and the records on first use: commands, a client and `except` clauses start faster."""
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        home = next((home for home, names in _HOMES.items() if name in names), "salience.records")
        value = globals()[name] = getattr(import_module(home), name)
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
