"""Salience: memory for AI agents that ranks what matters, shows why, and loses nothing."""

from salience.compose import connect
from salience.errors import (
    BusyError,
    ConflictError,
    EmbedderError,
    ImportLineError,
    InputError,
    MissingExtraError,
    NotAStoreError,
    NotFoundError,
    PinnedError,
    ProfileError,
    ReadOnlyError,
    SalienceError,
    StaleError,
    StoreError,
    VersionError,
)
from salience.records import ANY, Context, Contradiction, Draft, Hit, Memory, Recall, Receipt, Scope, ScoreDetail, Stats

__version__ = "0.1.0"

__all__ = [
    "ANY",
    "BusyError",
    "ConflictError",
    "Context",
    "Contradiction",
    "Draft",
    "EmbedderError",
    "Hit",
    "ImportLineError",
    "InputError",
    "Memory",
    "MissingExtraError",
    "NotAStoreError",
    "NotFoundError",
    "PinnedError",
    "ProfileError",
    "ReadOnlyError",
    "Recall",
    "Receipt",
    "SalienceError",
    "Scope",
    "ScoreDetail",
    "StaleError",
    "Stats",
    "StoreError",
    "VersionError",
    "connect",
]
