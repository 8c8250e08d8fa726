"""Copying a store: every memory arrives as it is, and a copy that was cut off continues when it is run again."""

import os
import signal
import subprocess
import sys

import psycopg
import pytest

import salience
from salience import compose
from salience.errors import ConflictError, InputError, PinnedError, StoreError
from salience.ports import Derive
from salience.records import Scope
from sample_stores import ODD, TENANTS, cut_off, engine, filled, filled_files, mixed, sql
from tests.contract.doubles import PlantedEmbedder, StoppedClock
from tests.contract.memories import random_tokens

pytestmark = pytest.mark.slow

__all__ = ["filled", "filled_files", "mixed"]  # fixtures

PROFILES = ("salience", "mememory", "memlayer", "zeromemory", "memorysync", "cmm")


def exported(target, folder, monkeypatch):
    """Return the export of every tenant, which holds all that a copy brings."""
    lines = {}
    for tenant in TENANTS:
        monkeypatch.setenv("SALIENCE_TENANT", tenant)
        file = folder / "export.jsonl"
        with engine(target) as memory:
            memory.export(file, overwrite=True)
        lines[tenant] = file.read_text("utf-8")
    monkeypatch.delenv("SALIENCE_TENANT")
    return lines


@pytest.mark.parametrize("name", ["filled", "mixed"])
@pytest.mark.parametrize("user", ["tables", "as_caretaker"])
def test_a_copy_to_a_server_and_back_exports_the_same(request, name, user, tmp_path, monkeypatch):
    source, server = request.getfixturevalue(name), request.getfixturevalue(user)
    there = compose.copy(source, server)
    back = compose.copy(server, tmp_path / "back.db")
    assert exported(tmp_path / "back.db", tmp_path, monkeypatch) == exported(source, tmp_path, monkeypatch)
    assert there.tenants == back.tenants
    (memories,), (versions,) = (sql(source, f"SELECT count(*) FROM {table}")[0] for table in ("memories", "versions"))  # noqa: S608
    assert sum(tables["memories"].rows for tables in there.tenants.values()) == memories > 0
    assert sum(tables["versions"].rows for tables in there.tenants.values()) == versions > 0
    assert (there.written, there.unchanged) == (memories, 0)


def test_token_vectors_are_copied_with_each_version(filled, tables, tmp_path, monkeypatch):
    everywhere = dict.fromkeys(("environment", "project", "user_id", "agent_id"), salience.ANY)
    for tenant in TENANTS:
        with engine(filled) as memory:
            store = memory.services.store
            rows = store.scan(Scope(tenant, **everywhere), limit=1000, forgotten=True, versions=True)
            versions = [one.memory for one in rows if one.vector is not None]
            derived = [
                Derive(tenant, one.id, one.version, one.content_hash, tokens=random_tokens(number, 2, 64))
                for number, one in enumerate(versions)
            ]
            store.apply(derived)
    compose.copy(filled, tables)
    compose.copy(tables, tmp_path / "back.db")
    lines = exported(tmp_path / "back.db", tmp_path, monkeypatch)
    assert lines == exported(filled, tmp_path, monkeypatch)
    assert lines[TENANTS[0]].count('"tokens": "') > 20
    with engine(filled) as memory:
        [first] = memory.list(user_id="ann", limit=1).memories
        memory.update(first.id, content="A zebra was seen", user_id="ann")
    compose.copy(filled, tables)
    assert exported(tables, tmp_path, monkeypatch) == exported(filled, tmp_path, monkeypatch)


def test_the_source_holds_rows_of_every_kind(filled, mixed):
    assert sql(filled, "SELECT count(DISTINCT tenant) FROM memories") == [(len(TENANTS),)]
    assert sql(filled, "SELECT count(*) FROM memories WHERE vector IS NULL") == [(len(TENANTS),)]
    assert sql(filled, "SELECT count(*) FROM memories WHERE forgotten_at IS NOT NULL")[0][0] > 0
    assert sql(filled, "SELECT count(*) FROM memories WHERE access_count > 0")[0][0] > 0
    assert sql(filled, "SELECT count(*) FROM memories WHERE key IS NOT NULL")[0][0] > 0
    assert sql(mixed, "SELECT count(*) FROM memories WHERE kind = 'reflection'")[0][0] > 0


def test_recalls_answer_the_same_with_the_same_scores(filled, tables, monkeypatch):
    monkeypatch.setenv("SALIENCE_TENANT", TENANTS[1])
    compose.copy(filled, tables)
    for profile in PROFILES:
        answers = []
        for target in (filled, tables):
            with engine(target, clock=StoppedClock(), profile=profile) as memory:
                found = memory.recall(
                    f"{ODD} of 7 for {TENANTS[1]}", user_id="ann", limit=10, min_score=0, dry_run=True
                )
                answers.append([(hit.memory, hit.score, hit.score_detail) for hit in found])
        assert answers[0] == answers[1]
        assert answers[0]


def test_a_copy_is_written_to_and_checked_like_any_store(filled, tables):
    compose.copy(filled, tables)
    with engine(tables) as memory:
        assert memory.doctor().findings == ()
        made = memory.remember("After the copy", user_id="ann")
        assert made.memory.id in [hit.memory.id for hit in memory.recall("After the copy", user_id="ann", min_score=0)]
        assert len(memory.history(made.memory.id, user_id="ann")) == 1


def test_requests_and_keys_are_not_copied(filled, tmp_path):
    sql(filled, "INSERT INTO requests VALUES (?, 'home', 'k', 'forget', 'id', 2, 1)", TENANTS[0])
    sql(filled, "INSERT INTO api_keys VALUES ('p', 'd', ?, '[\"read\"]', '{}', NULL, 1, NULL, NULL)", TENANTS[0])
    compose.copy(filled, tmp_path / "b.db")
    for table in ("requests", "api_keys"):
        assert sql(tmp_path / "b.db", f"SELECT * FROM {table}") == []  # noqa: S608


def test_chosen_tenants_are_copied_alone_and_others_later(filled, tables):
    first = compose.copy(filled, tables, tenants=[TENANTS[0]])
    assert list(first.tenants) == [TENANTS[0]]
    second = compose.copy(filled, tables)
    assert sorted(second.tenants) == sorted(TENANTS)
    assert second.unchanged == first.written
    with psycopg.connect(tables) as connection:
        found = connection.execute("SELECT DISTINCT tenant FROM salience.memories").fetchall()
    assert sorted(tenant for (tenant,) in found) == sorted(TENANTS)


KILLED = """
import sys
from salience import compose
from salience.transfer import copy

copy.PAGE = 5
compose.copy(sys.argv[1], sys.argv[2], progress=lambda done, of: print(done, flush=True))
"""


def killed(source, target, lines):
    """Copy in a process that is killed after some pages; return whether it finished before."""
    command = [sys.executable, "-c", KILLED, str(source), str(target)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        told = [process.stdout.readline() for _ in range(lines)]
        process.send_signal(signal.SIGKILL)
    return told[-1] == ""


@pytest.mark.parametrize("kind", ["server", "file"])
def test_a_copy_that_is_killed_again_and_again_continues(request, filled, tmp_path, kind, monkeypatch):
    monkeypatch.setattr("os.environ", {**os.environ, "OMP_NUM_THREADS": "1"})
    target = request.getfixturevalue("tables") if kind == "server" else tmp_path / "b.db"
    assert not any(killed(filled, target, lines) for lines in (1, 3, 8))
    report = compose.copy(filled, target)
    assert report.unchanged > 0
    assert report.written + report.unchanged == sum(found["memories"].rows for found in report.tenants.values())
    assert exported(target, tmp_path, monkeypatch) == exported(filled, tmp_path, monkeypatch)


@pytest.mark.parametrize("kind", ["server", "file"])
def test_memories_that_changed_in_the_source_get_their_later_versions(request, filled, tmp_path, kind, monkeypatch):
    target = request.getfixturevalue("as_application") if kind == "server" else tmp_path / "b.db"
    monkeypatch.setattr("salience.transfer.copy.PAGE", 5)
    cut_off(filled, target)
    with engine(filled) as memory:
        first = memory.list(user_id="ann", limit=100).memories[0]
        memory.update(first.id, content="A zebra was seen", user_id="ann", reason="changed")
        memory.update(first.id, importance=0.125, tags=["late"], user_id="ann")
        memory.forget(first.id, user_id="ann")
        memory.restore(first.id, user_id="ann")
        memory.remember("New since", user_id="ann")
    report = compose.copy(filled, target)
    assert report.unchanged == 4
    assert exported(target, tmp_path, monkeypatch) == exported(filled, tmp_path, monkeypatch)
    with engine(target) as memory:
        assert memory.recall("zebra", user_id="ann", min_score=0)[0].memory.id == first.id


def test_memories_of_the_target_stay_and_later_versions_are_left(filled, tables):
    compose.copy(filled, tables)
    with engine(tables) as memory:
        own = memory.remember("Only in the target", user_id="ann").memory
        mine = memory.list(user_id="ann", limit=100).memories[0]
        memory.update(mine.id, content="Changed in the target", user_id="ann")
    assert compose.copy(filled, tables).written == 0
    with engine(tables) as memory:
        assert memory.get(own.id, user_id="ann") == own
        assert memory.get(mine.id, user_id="ann").content == "Changed in the target"


def test_another_memory_under_the_same_key_is_refused(filled, tmp_path):
    with engine(tmp_path / "b.db") as memory:
        memory.remember("Another text", key="same key", user_id="ann")
    with pytest.raises(ConflictError, match="same key"):
        compose.copy(filled, tmp_path / "b.db")


def test_a_target_of_another_model_or_language_is_refused(filled, tmp_path, monkeypatch):
    with engine(tmp_path / "b.db", PlantedEmbedder(dimension=3)) as memory:
        memory.remember("With another model")
    with pytest.raises(PinnedError, match="was written with embedder"):
        compose.copy(filled, tmp_path / "b.db")
    monkeypatch.setenv("SALIENCE_LANGUAGE", "german")
    with engine(tmp_path / "c.db") as memory:
        memory.remember("In another language")
    with pytest.raises(PinnedError, match="language"):
        compose.copy(filled, tmp_path / "c.db")


def test_the_target_is_pinned_as_the_source_is(filled, tables, monkeypatch):
    compose.copy(filled, tables)
    monkeypatch.setenv("SALIENCE_LANGUAGE", "german")
    with pytest.raises(PinnedError, match="language"):
        engine(tables)
    monkeypatch.delenv("SALIENCE_LANGUAGE")
    with engine(filled) as here, engine(tables) as there:
        own, copied = here.services.store.pinned(), there.services.store.pinned()
    assert (own.name, own.dimension) == (copied.name, copied.dimension)
    assert own.fingerprint().tobytes() == copied.fingerprint().tobytes()


def test_unknown_tenants_and_stores_are_refused(filled, tmp_path, database):
    with pytest.raises(InputError, match="nothing in"):
        compose.copy(filled, tmp_path / "b.db", tenants=["nobody"])
    with pytest.raises(InputError, match="is the source itself"):
        compose.copy(filled, filled.parent / "." / filled.name)
    with pytest.raises(StoreError, match="does not exist"):
        compose.copy(tmp_path / "none.db", tmp_path / "b.db")
    with pytest.raises(StoreError, match="no tables"):
        compose.copy(database, tmp_path / "b.db")
    with pytest.raises(InputError):
        compose.copy(filled, ":memory:")


def test_a_user_who_may_make_no_tables_learns_who_may(filled, postgres, database):
    with psycopg.connect(database, autocommit=True) as superuser:
        superuser.execute("CREATE ROLE salience_test_nobody LOGIN PASSWORD 'x'")
        name = superuser.info.dbname
    try:
        with pytest.raises(StoreError, match=r"salience db upgrade|CREATE EXTENSION"):
            compose.copy(filled, postgres.dsn(name, "salience_test_nobody", "x"))
    finally:
        with psycopg.connect(database, autocommit=True) as superuser:
            superuser.execute("DROP ROLE salience_test_nobody")


def test_an_empty_store_copies_nothing(tmp_path):
    engine(tmp_path / "a.db").close()
    report = compose.copy(tmp_path / "a.db", tmp_path / "b.db")
    assert (report.tenants, report.written) == ({}, 0)
