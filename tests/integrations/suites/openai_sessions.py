"""Plugin of pytest for the tests of sessions in the OpenAI Agents SDK: `SalienceSession` takes the place of its own.

Only the tests with `session` in their ids are selected.
"""

from __future__ import annotations

import asyncio
import itertools
from concurrent.futures import ThreadPoolExecutor

import agents
import agents.memory
import tests.utils.simple_session
from common import leave_out, new_memory

from salience.integrations.openai_agents import SalienceSession

TENANTS = itertools.count()
SHARED = new_memory()
FILES = {}


def opened(path):
    """Return the memory of a path; for `:memory:` that of a new tenant."""
    if str(path) == ":memory:":
        return SHARED.of(f"t{next(TENANTS)}")
    if path not in FILES:
        FILES[path] = new_memory()
    return FILES[path]


class FileSession(SalienceSession):
    """In place of `SQLiteSession`."""

    def __init__(self, session_id, db_path=":memory:", *, session_settings=None):
        super().__init__(opened(db_path), session_id, session_settings=session_settings, user_id="alice")

    def close(self): ...


class ListSession(SalienceSession):
    """In place of `SimpleListSession`, the double of a session that the tests use and extend."""

    def __init__(self, session_id="test", history=()):
        super().__init__(opened(":memory:"), session_id, user_id="alice")
        if history:
            with ThreadPoolExecutor(1) as pool:  # the loop of the test runs in this thread
                pool.submit(asyncio.run, SalienceSession.add_items(self, history)).result()

    @property
    def saved_items(self):
        return [item for _, item in self._stored()]


agents.SQLiteSession = agents.memory.SQLiteSession = FileSession
tests.utils.simple_session.SimpleListSession = ListSession

LEFT_OUT = {
    "::test_sqlite_session_close": "connections of SQLite and their threads",
    "_connections_": "likewise",
    "_evicts_connection": "likewise",
    "::test_sqlite_session_file_lock": "locks of SQLite",
    "_releases_write_lock": "likewise",
    "::test_sqlite_session_post_commit": "cancels a commit of SQLite",
    "::test_settled_": "likewise",
    "_corrupt_": "writes broken rows into the table of SQLiteSession",
    "::test_sqlite_session_failed_clear_session_rolls_back": "our clear_session is one change per item",
    "::test_automatic_compaction_rollback_budget[True]": "replaces items by private methods of SQLiteSession",
    "_cancelled_again_during_restore": "reads the private list of SimpleListSession",
}
"""Part of the id of a test -> why it is left out."""


def pytest_collection_modifyitems(config, items):
    items[:] = [item for item in items if "session" in item.nodeid]
    leave_out(config, items, LEFT_OUT)
