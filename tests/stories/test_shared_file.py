"""Threads, engines and other processes on one file; for many processes see bench/torture.py and tests/store."""

from __future__ import annotations

import sqlite3
import threading
from unittest.mock import patch

import pytest

import salience
from tests.contract.doubles import PlantedEmbedder

pytestmark = pytest.mark.slow


def opened(tmp_path):
    return salience.connect(tmp_path / "a.db", embedder=PlantedEmbedder(), profile="zeromemory")


def test_threads_of_one_engine_share_a_file(tmp_path):
    failures: list[object] = []
    with opened(tmp_path) as memory:

        def work(name):
            try:
                for number in range(50):
                    written = memory.remember(f"{name} {number}", session_id=name).memory.id
                    found = [hit.memory.id for hit in memory.recall("query", limit=1000, session_id=name)]
                    if written not in found:
                        failures.append(written)
            except Exception as error:  # a thread's failure has to reach the test
                failures.append(error)

        threads = [threading.Thread(target=work, args=(name,)) for name in "abcd"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failures == []
        assert memory.stats().memories == 200


def test_concurrent_updates_of_one_memory_all_become_versions(tmp_path):
    with opened(tmp_path) as memory:
        stored = memory.remember("text").memory
        failures: list[object] = []

        def work(name):
            try:
                memory.update(stored.id, metadata={"by": name})
            except Exception as error:  # a thread's failure has to reach the test
                failures.append(error)

        threads = [threading.Thread(target=work, args=(str(number),)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failures == []
        versions = [item.memory for item in memory.services.store.scan(stored.scope, versions=True)]
        assert [item.version for item in versions] == [1, 2, 3, 4, 5]
        assert {item.metadata["by"] for item in versions[1:]} == set("0123")


def test_a_recall_answers_while_another_process_holds_the_write_lock(tmp_path):
    with opened(tmp_path) as memory:
        stored = memory.remember("query text").memory
        other = sqlite3.connect(tmp_path / "a.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        answer = memory.recall("query")
        assert [hit.memory.id for hit in answer] == [stored.id]
        assert answer.degraded == ()  # it is counted in a moment
        with patch("salience.store.sql_store.TOUCH_PATIENCE", 0.01):
            assert not memory.services.access_log.flush()
        assert memory.recall("query").degraded == ("touch",)
        other.execute("ROLLBACK")
        other.close()
        assert memory.services.access_log.flush()
        assert memory.recall("query").degraded == ()
        assert memory.get(stored.id).access_count == 3


def test_a_text_that_is_stored_already_waits_for_no_other_process(tmp_path):
    with opened(tmp_path) as memory:
        stored = memory.remember("query text").memory
        other = sqlite3.connect(tmp_path / "a.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        again = memory.remember("query text")
        assert (again.status, again.memory.id, again.memory.access_count) == ("unchanged", stored.id, 1)
        other.execute("ROLLBACK")
        other.close()
        assert memory.get(stored.id).access_count == 1


def test_another_embedder_may_open_a_file_that_holds_nothing(tmp_path):
    opened(tmp_path).close()
    with salience.connect(tmp_path / "a.db", embedder=PlantedEmbedder(dimension=8)) as memory:
        assert memory.remember("text").status == "created"
