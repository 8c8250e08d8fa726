"""What an operator does with a PostgreSQL store: replicas, restores to a moment, upgrades while it serves."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

import salience
from salience import compose
from salience.errors import StoreError, VersionError
from salience.server.auth import create_key
from salience.store.postgres import admin
from tests import databases
from tests.contract.doubles import PlantedEmbedder
from tests.postgres_server import server
from tests.servers import live
from waiting import PATIENCE

pytestmark = pytest.mark.slow

ANN = {"user_id": "ann"}
BOB = {"content": "Bob lives in Rome", **ANN}


def connect(dsn):
    return salience.connect(dsn, embedder=PlantedEmbedder())


def texts(memory):
    return {one.content for one in memory.list(**ANN).memories}


def wait_until(holds):
    ticking = threading.Event()
    for _ in range(int(PATIENCE * 20)):
        if holds():
            return
        ticking.wait(0.05)
    pytest.fail("it never came")


def on(place, dsn):
    """Return the DSN of the same database on another server."""
    return place.dsn(conninfo_to_dict(dsn)["dbname"])


def test_a_replica_answers_recalls_and_takes_no_writes():
    with server() as primary, databases.laid_out(primary) as dsn, connect(dsn) as memory:
        first = memory.remember("Alice lives in Oslo", **ANN).memory
        with closing(compose.keyring(dsn)) as keyring:
            token, key = create_key("default", ("read", "write"), {}, None, None, datetime.now(UTC))
            keyring.add(key)
        with (
            server(primary.backup("--write-recovery-conf")) as replica,
            connect(on(replica, dsn)) as reader,
            closing(compose.keyring(on(replica, dsn))) as keys,
            live(reader, keys) as url,
            salience.connect(url, api_key=token) as client,
        ):
            for asked in (reader, client):
                assert [hit.memory.content for hit in asked.recall("Where does Alice live?", **ANN)] == [first.content]
                assert asked.context("Alice", budget_tokens=100, **ANN).text
                assert asked.explain("Alice", first.id, **ANN).id == first.id
                with pytest.raises(StoreError, match="takes no writes"):
                    asked.remember(**BOB)
            memory.remember(**BOB)
            wait_until(lambda: texts(reader) == {first.content, BOB["content"]})
            memory.erase(ids=[first.id], **ANN)
            wait_until(lambda: texts(reader) == {BOB["content"]})
            assert memory.get(memory.list(**ANN).memories[0].id).access_count == 0


def test_a_restore_to_a_moment_brings_back_memories_and_keys_of_then():
    """A key that was revoked afterwards holds again, and an erased memory is back: both are to be done again."""
    archiving = {"archive_mode": True, "archive_command": "mkdir -p ../archive && cp %p ../archive/%f"}
    with server(settings=archiving) as running, databases.laid_out(running) as dsn, connect(dsn) as memory:
        with closing(compose.keyring(dsn)) as keyring:
            key = create_key("default", ("read",), {}, None, None, datetime.now(UTC))[1]
            keyring.add(key)
            first = memory.remember("Alice lives in Oslo", **ANN).memory
            folder = running.backup()
            memory.remember(**BOB)
            with psycopg.connect(dsn, autocommit=True) as superuser:
                (moment,) = superuser.execute("SELECT clock_timestamp()::text").fetchone()
                keyring.revoke(key.prefix, datetime.now(UTC))
                memory.erase(ids=[first.id], **ANN)
                (segment,) = superuser.execute("SELECT pg_walfile_name(pg_switch_wal())").fetchone()
        wait_until((running.folder / "archive" / segment).exists)
        (folder / "data" / "recovery.signal").touch()
        recovery = {
            "archive_mode": False,
            "restore_command": f"cp {running.folder}/archive/%f %p",
            "recovery_target_time": moment,
            "recovery_target_action": "promote",
        }
        with server(folder, settings=recovery) as restored:
            with psycopg.connect(on(restored, dsn), autocommit=True) as superuser:
                wait_until(lambda: superuser.execute("SELECT NOT pg_is_in_recovery()").fetchone()[0])
            with connect(on(restored, dsn)) as again, closing(compose.keyring(on(restored, dsn))) as keyring:
                assert texts(again) == {first.content, BOB["content"]}
                assert keyring.find(key.prefix).revoked_at is None
                again.remember("Carol lives in Bonn", **ANN)
                assert again.doctor().findings == ()


def test_an_upgrade_under_load_fails_no_request(tables):
    """Of tables of the same revision: code of both versions serves meanwhile."""
    over, failed = threading.Event(), []

    def serve(number):
        with connect(tables) as memory:
            count = 0
            while not over.is_set() or not count:
                count += 1
                try:
                    memory.remember(f"Note {count} of {number}", user_id=f"user {number}")
                    memory.recall("Note", user_id=f"user {number}")
                except StoreError as error:
                    failed.append(str(error))
            return count

    with ThreadPoolExecutor(4) as threads:
        counts = [threads.submit(serve, number) for number in range(4)]
        with compose.database(tables) as database:
            for _ in range(5):
                assert database.upgrade().after == admin.HEAD
        over.set()
        written = [count.result(PATIENCE) for count in counts]
    assert failed == []
    with connect(tables) as memory:
        assert memory.stats(user_id=salience.ANY).memories == sum(written)


def test_an_engine_of_an_older_version_goes_on_until_it_is_opened_again(tables):
    """After a migration: so a version whose changes of the tables others can bear needs no stop."""
    with connect(tables) as memory:
        memory.remember("Alice lives in Oslo", **ANN)
        with psycopg.connect(tables, autocommit=True) as superuser:
            superuser.execute("ALTER TABLE salience.memories ADD COLUMN later text")
            superuser.execute("UPDATE salience.alembic_version SET version_num = '2'")
        try:
            memory.remember(**BOB)
            assert len(texts(memory)) == 2
            with pytest.raises(VersionError, match="revision '2', newer than"):
                connect(tables)
        finally:
            with psycopg.connect(tables, autocommit=True) as superuser:
                superuser.execute("ALTER TABLE salience.memories DROP COLUMN later")
                superuser.execute("UPDATE salience.alembic_version SET version_num = '1'")
