"""Writing memories: drafts become memories, conflicts are told, and what is there is changed."""

from salience.remember.answering import MOST, Request, answered
from salience.remember.change import forget, said_why, update
from salience.remember.clean import bare, clean, read
from salience.remember.given import drafts, parted, turns
from salience.remember.story import decide, facts_there, remember, replaced_facts, replaces

__all__ = [
    "MOST",
    "Request",
    "answered",
    "bare",
    "clean",
    "decide",
    "drafts",
    "facts_there",
    "forget",
    "parted",
    "read",
    "remember",
    "replaced_facts",
    "replaces",
    "said_why",
    "turns",
    "update",
]
