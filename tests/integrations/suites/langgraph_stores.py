"""Plugin of pytest for LangGraph's own tests of stores: `SalienceStore` takes the place of the stores that they open.

Each store has the embeddings that the test names.
"""

from __future__ import annotations

import sys
import types
from contextlib import asynccontextmanager, contextmanager

import anyio.to_thread
import langgraph.store.memory
from common import leave_out, new_memory
from langchain_core.embeddings import DeterministicFakeEmbedding

from salience.integrations.langchain import LangChainEmbedder
from salience.integrations.langgraph import SalienceStore

DEFAULT = {"embed": DeterministicFakeEmbedding(size=8), "dims": 8}
"""Embeddings for tests without an index."""


def options(index, ttl=None):
    """Return a new memory and the options of a store for the configuration of a test."""
    embedder = LangChainEmbedder((index or DEFAULT)["embed"], dimension=(index or DEFAULT)["dims"])
    fields = (index or {}).get("fields", (index or {}).get("text_fields"))
    return {"memory": new_memory(embedder), "fields": fields, "ttl": ttl}


class MemoryStore(SalienceStore):
    """In place of `InMemoryStore`."""

    def __init__(self, *, index=None):
        super().__init__(**options(index))


class FileStore(SalienceStore):
    """In place of `SqliteStore`, which has methods beyond those of every store."""

    def setup(self): ...
    def start_ttl_sweeper(self): ...
    def stop_ttl_sweeper(self): ...

    def sweep_ttl(self):
        return len(self._memory.upkeep().expired)

    @classmethod
    @contextmanager
    def from_conn_string(cls, target, *, index=None, ttl=None):
        given = options(index, ttl)
        with given["memory"]:
            yield cls(**given)


class AsyncFileStore(SalienceStore):
    """In place of `AsyncSqliteStore`."""

    async def setup(self): ...
    async def start_ttl_sweeper(self): ...
    async def stop_ttl_sweeper(self): ...

    async def sweep_ttl(self):
        return len((await anyio.to_thread.run_sync(self._memory.upkeep)).expired)

    @classmethod
    @asynccontextmanager
    async def from_conn_string(cls, target, *, index=None, ttl=None):
        given = options(index, ttl)
        with given["memory"]:
            yield cls(**given)


LEFT_OUT = {
    "::test_vector_store_initialization": "reads index_config, which only LangGraph's own stores have",
    "::test_scores[memory-ccc]": "wants a negative score; ours is 0 then",
    "::test_scores[memory-poisson]": "likewise",
    "::test_sql_injection_vulnerability": "wants an error for odd keys of filters, which are harmless here",
    "::test_no_running_loop": "wants the store to refuse synchronous calls in a loop",
    "::test_nonnull_migrations": "of the tables of SqliteStore",
    "::test_escape_glob_literal": "of the SQL of SqliteStore",
    "::test_namespace_match_pattern": "likewise",
    "::test_list_namespaces_prefix_uses_indexable_condition": "likewise",
    "::test_large_batches_async": "6,000 operations: passes, in 20 seconds",
    "[file": "repeats [memory] with another connection string, which has no effect here",
}
"""Part of the id of a test -> why it is left out."""
INTERNALS = (
    "NS_MATCH_FUNCTION", "BaseSqliteStore", "SqliteIndexConfig", "_escape_glob_literal", "_namespace_match_pattern",
)  # fmt: skip
"""Names that the tests import from `langgraph.store.sqlite`, which is not installed."""
MODULES = {
    "langgraph.store.sqlite": {"SqliteStore": FileStore, "AsyncSqliteStore": AsyncFileStore},
    "langgraph.store.sqlite.base": dict.fromkeys(INTERNALS),
    "langgraph.store.sqlite.aio": {"AsyncSqliteStore": AsyncFileStore},
}

for name, values in MODULES.items():
    sys.modules[name] = types.ModuleType(name)
    vars(sys.modules[name]).update(values)
langgraph.store.memory.InMemoryStore = MemoryStore


def pytest_collection_modifyitems(config, items):
    leave_out(config, items, LEFT_OUT)
