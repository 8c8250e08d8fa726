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
    from salience.compose import aconnect, connect
    from salience.records import (
        ANY,
        Context,
        Contradiction,
        Draft,
        Explanation,
        Hit,
        Memory,
        OutOfScope,
        Recall,
        Receipt,
        Scope,
        ScoreDetail,
        Stats,
        Version,
    )
__version__ = "0.1.0"

__all__ = [
    "ANY",
    "AccessError",
    "BusyError",
    "ConfigError",
    "ConflictError",
    "Context",
    "Contradiction",
    "DamagedError",
    "Draft",
    "EmbedderError",
    "Explanation",
    "ForbiddenError",
    "Hit",
    "ImportLineError",
    "InputError",
    "JudgeError",
    "LeaseError",
    "LimitError",
    "Memory",
    "MissingExtraError",
    "MovedError",
    "NotAStoreError",
    "NotFoundError",
    "OutOfScope",
    "PinnedError",
    "ProfileError",
    "ReadOnlyError",
    "Recall",
    "Receipt",
    "RerankerError",
    "SalienceError",
    "Scope",
    "ScoreDetail",
    "ServerError",
    "StaleError",
    "Stats",
    "StoreError",
    "SummariserError",
    "UnsettledError",
    "Version",
    "VersionError",
    "aconnect",
    "connect",
]


def __getattr__(name: str) -> Any:
    """Import the engine and the records on first use: the command line, a client and `except` clauses start faster."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = "salience.compose" if name in ("aconnect", "connect") else "salience.records"
    value = globals()[name] = getattr(import_module(home), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
