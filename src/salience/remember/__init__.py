"""Writing memories: drafts become memories, conflicts are told, and what is there is changed."""

from salience.remember.answering import MOST, Request, answered
from salience.remember.change import forget, said_why, update
from salience.remember.clean import bare, clean, read
from salience.remember.given import drafts, parted, turns
from salience.remember.story import decide, remember

__all__ = [
    "MOST",
    "Request",
    "answered",
    "bare",
    "clean",
    "decide",
    "drafts",
    "forget",
    "parted",
    "read",
    "remember",
    "said_why",
    "turns",
    "update",
]
