"""A copy of a store is that store, row for row, and one that was cut off goes on where it was."""

import os
import signal
import subprocess
import sys

import psycopg
import pytest

from copies import ODD, TENANTS, cut_off, engine, filled, filled_files, held, mixed, once, sql
from salience import compose
from salience.errors import StoreError
from salience.store.moving.tables import TABLES
from salience.testing.doubles import StoppedClock

LEFT = ("leases", "requests", "api_keys")
"""Tables that are not copied."""

__all__ = ["filled", "filled_files", "mixed"]  # fixtures

PROFILES = ("salience", "mememory", "memlayer", "zeromemory", "memorysync", "cmm")


@pytest.mark.parametrize("name", ["filled", "mixed"])
@pytest.mark.parametrize("user", ["tables", "as_application"])
def test_to_a_server_and_back_is_the_same_row_for_row(request, name, user, tmp_path):
    source, server = request.getfixturevalue(name), request.getfixturevalue(user)
    there = compose.copy(source, server)
    back = compose.copy(server, tmp_path / "back.db")
    assert held(tmp_path / "back.db") == held(source)
    assert there.tenants == back.tenants
    counts = {moved.name: sum(tables[moved.name].rows for tables in back.tenants.values()) for moved in TABLES}
    assert counts == {name: len(rows) for name, rows in held(source).items() if name in counts}
    assert {name for name, count in counts.items() if count} >= {"memories", "versions", "touches", "sessions"}
    assert there.resumed is back.resumed is None
    assert there.written == sum(counts.values())


def test_what_is_tested_holds_rows_of_every_kind(filled, mixed):
    rows, more = held(filled), held(mixed)
    assert [name for name, found in rows.items() if not found and name not in (*LEFT, "activations")] == []
    assert sql(filled, "SELECT count(DISTINCT tenant) FROM memories") == [(len(TENANTS),)]
    assert sql(filled, "SELECT count(*) FROM memories WHERE vector IS NULL") == [(len(TENANTS),)]
    assert sql(filled, "SELECT count(*) FROM memories WHERE forgotten_at IS NOT NULL")[0][0] > 0
    assert sql(mixed, "SELECT count(*) FROM memories WHERE kind = 'reflection'")[0][0] > 0
    assert more["activations"] or more["touches"]


def test_from_file_to_file(filled, tmp_path):
    compose.copy(filled, tmp_path / "b.db")
    assert held(tmp_path / "b.db") == held(filled)
    assert sql(tmp_path / "b.db", "PRAGMA integrity_check") == [("ok",)]


def test_from_server_to_server(filled, tables, database, tmp_path):
    there = compose.copy(filled, tables)
    again = compose.copy(tables, database)
    assert again.tenants == there.tenants
    compose.copy(database, tmp_path / "b.db")
    assert held(tmp_path / "b.db") == held(filled)


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


def sequence(server, tenant):
    with psycopg.connect(server) as connection:
        found = connection.execute("SELECT sequence FROM salience.tenants WHERE tenant = %s", (tenant,)).fetchone()
    return found[0]


def test_change_sequences_go_on_where_they_were(filled, tables, tmp_path):
    known = int(sql(filled, "SELECT value FROM meta WHERE name = 'sequence'")[0][0])
    compose.copy(filled, tables)
    assert [sequence(tables, tenant) for tenant in TENANTS] == [known] * len(TENANTS)


def test_leases_requests_and_keys_stay_where_they_are(filled, tmp_path):
    sql(filled, "INSERT INTO leases VALUES ('upkeep', 'me', 1)")
    sql(filled, "INSERT INTO requests VALUES (?, 'home', 'k', 'forget', 'id', 2, 1)", TENANTS[0])
    sql(filled, "INSERT INTO api_keys VALUES ('p', 'd', ?, '[\"read\"]', '{}', NULL, 1, NULL, NULL)", TENANTS[0])
    assert [len(held(filled)[name]) for name in LEFT] == [1, 1, 1]
    compose.copy(filled, tmp_path / "b.db")
    assert [held(tmp_path / "b.db")[name] for name in LEFT] == [[], [], []]


def test_chosen_tenants_go_alone_and_others_later(filled, tables):
    first = compose.copy(filled, tables, tenants=[TENANTS[0]])
    assert list(first.tenants) == [TENANTS[0]]
    second = compose.copy(filled, tables, tenants=TENANTS[1:])
    assert sorted(second.tenants) == sorted(TENANTS[1:])
    with psycopg.connect(tables) as connection:
        found = connection.execute("SELECT DISTINCT tenant FROM salience.memories").fetchall()
    assert sorted(tenant for (tenant,) in found) == sorted(TENANTS)


KILLED = """
import sys
from salience import compose

def told(step, done, of):
    print(step, done, flush=True)

compose.copy(sys.argv[1], sys.argv[2], progress=told)
"""


def killed(source, target, lines):
    """Copy in a process that is killed once it told so many steps; return whether it came to its end before."""
    command = [sys.executable, "-c", KILLED, str(source), str(target)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        told = [process.stdout.readline() for _ in range(lines)]
        process.send_signal(signal.SIGKILL)
    return told[-1] == ""


@pytest.mark.parametrize("kind", ["server", "file"])
def test_killed_again_and_again_it_goes_on(request, filled, tmp_path, kind, monkeypatch):
    monkeypatch.setattr("os.environ", {**os.environ, "OMP_NUM_THREADS": "1"})
    target = request.getfixturevalue("tables") if kind == "server" else tmp_path / "b.db"
    assert not any(killed(filled, target, lines) for lines in (1, 3, 8, 15))
    with pytest.raises(StoreError, match=r"holds part of a copy of .*a\.db.*Run it to its end: salience copy .*a\.db"):
        engine(target)
    report = compose.copy(filled, target)
    assert report.resumed > 0
    assert report.written + report.resumed == sum(t.rows for found in report.tenants.values() for t in found.values())
    compose.copy(target, tmp_path / "back.db")
    assert held(tmp_path / "back.db") == held(filled)
    engine(target).close()


def test_a_kill_before_the_mark_leaves_an_empty_store_to_copy_into(filled, tables, tmp_path):
    engine(tables).close()
    engine(tmp_path / "b.db").close()
    for target in (tables, tmp_path / "b.db"):
        assert compose.copy(filled, target).resumed is None


@pytest.mark.parametrize("kind", ["server", "file"])
def test_what_is_written_to_the_source_meanwhile_is_not_in_the_copy(request, filled, tmp_path, kind):
    source, before = filled, held(filled)
    if kind == "server":
        source = request.getfixturevalue("tables")
        compose.copy(filled, source)
    with engine(source) as memory:

        def write():
            memory.remember("Meanwhile", user_id="late")
            memory.update(memory.list(user_id="ann").memories[0].id, content="changed meanwhile", user_id="ann")

        compose.copy(source, tmp_path / "b.db", progress=once(write))
        assert memory.list(user_id="late").memories
    assert held(tmp_path / "b.db") == before


@pytest.mark.parametrize("kind", ["server", "file"])
def test_what_changed_in_the_source_since_is_brought_too(request, filled, tmp_path, kind):
    """Memories gone, changed and new; and an idempotency key that another memory, earlier in the order, has by now."""
    target = request.getfixturevalue("as_application") if kind == "server" else tmp_path / "b.db"
    cut_off(filled, target, at=75)
    with engine(filled) as memory:
        gone = memory.list(user_id="ann", limit=100).memories
        keyed = next(item for item in gone if item.key == "same key")
        memory.erase([keyed.id, gone[4].id], user_id="ann")
        memory.update(gone[5].id, content="changed since", user_id="ann")
        memory.remember("New since", user_id="ann")
        memory.recall("query again", user_id="ann", min_score=0, profile="zeromemory")
    home = sql(filled, "SELECT home FROM memories WHERE id = ?", gone[6].id)
    first = sql(filled, "SELECT min(id) FROM memories WHERE tenant = 'default' AND home = ?", *home[0])[0][0]
    sql(filled, "UPDATE memories SET key = 'same key' WHERE id = ?", first)
    report = compose.copy(filled, target)
    assert report.resumed
    assert report.removed >= 2
    compose.copy(target, tmp_path / "back.db")
    assert held(tmp_path / "back.db") == held(filled)


def test_a_tenant_that_is_gone_since_goes_from_the_copy_too(filled, tables, monkeypatch):
    cut_off(filled, tables, at=60)
    for table in ("versions", "touches", "laid_by", "activations", "memories", "sessions"):
        sql(filled, f"DELETE FROM {table} WHERE tenant = 'default'")  # noqa: S608 - names of ours
    report = compose.copy(filled, tables)
    assert sorted(report.tenants) == sorted(TENANTS[1:])
    with psycopg.connect(tables) as connection:
        for table in (*(moved.name for moved in TABLES), "postings"):
            asked = f"SELECT count(*) FROM salience.{table} WHERE tenant = 'default'"  # noqa: S608
            assert connection.execute(asked).fetchone() == (0,)


def test_words_are_found_after_a_copy_that_was_cut_off(filled, database):
    """What PostgreSQL alone has is made of the rows as they stand in the end."""
    cut_off(filled, database, at=40)
    with engine(filled) as memory:
        some = memory.list(user_id="ann", limit=100).memories[7]
        memory.update(some.id, content="A zebra was seen", user_id="ann")
    compose.copy(filled, database)
    with psycopg.connect(database) as connection:
        faults = connection.execute(
            "SELECT count(*) FROM salience.memories AS m, unnest(m.search_keys) AS k WHERE m.forgotten_at IS NULL AND "
            "(m.tenant, k, m.number) NOT IN (SELECT tenant, key, number FROM salience.postings)"
        ).fetchone()
        posted, due = connection.execute(
            "SELECT (SELECT count(*) FROM salience.postings), "
            "(SELECT sum(cardinality(search_keys)) FROM salience.memories WHERE forgotten_at IS NULL)"
        ).fetchone()
    assert faults == (0,)
    assert posted == due
