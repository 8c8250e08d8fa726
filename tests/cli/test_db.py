"""salience db on files and on PostgreSQL; and what other commands say of a database."""

from __future__ import annotations

import json
import re
import shlex
from contextlib import closing
from sqlite3 import connect

import psycopg
import pytest

from command_line import invoke
from salience.settings import masked
from salience.store.postgres.connection import Address
from salience.store.schema import HEAD

PASSWORD = "s3cret"


@pytest.fixture
def file(stored, tmp_path):
    return str(tmp_path / "agent.db")


@pytest.fixture
def on(run, database):
    """Return a function that runs a command on the PostgreSQL database, which is empty at first."""
    return lambda *args, **options: run("--store", database, *args, **options)


@pytest.fixture
def filled(on):
    on("remember", "Alice prefers Python for backend work", "--user", "alice")
    return on


def test_the_tables_are_made_once_and_the_rest_is_reported(on, database):
    first, *others = on("db", "upgrade").stdout.splitlines()
    assert first == f"created the tables of {shown(database)}, revision {HEAD}"
    assert others[0].startswith("installed pgvector ")
    assert others[-2:] == [
        "let in the user of the application: GRANT salience_app TO USER",
        "let in the user of maintenance of all tenants: GRANT salience_app, salience_operator TO USER",
    ]
    assert on("db", "upgrade").stdout.splitlines()[0] == f"{shown(database)} is at revision {HEAD}, up to date"
    result = json.loads(on("db", "upgrade", "--json").stdout)
    assert (result["before"], result["after"], result["done"]) == (HEAD, HEAD, [])


def shown(dsn):
    """Return how messages name the test's database."""
    return Address.parse(dsn).name


def test_a_database_without_tables_is_reported_and_left(on, database):
    printed = on("db", "status", code=1).stdout
    assert f"revision\tnone; this version of Salience has {HEAD}" in printed
    remedy = f"it has no tables yet. Run: salience --store {shlex.quote(masked(database))} db upgrade"
    assert remedy in printed
    assert remedy in on("status", code=1).stdout
    for arguments in (["doctor"], ["reembed"], ["db", "doctor"], ["db", "index"]):
        assert remedy in on(*arguments, code=1).stderr
    with psycopg.connect(database) as connection:
        assert connection.execute("SELECT to_regnamespace('salience')").fetchone() == (None,)


def test_a_status_shows_what_is_there(filled):
    result = json.loads(filled("db", "status", "--json").stdout)
    assert result["ready"]
    assert (result["revision"], result["head"], result["embedder"], result["role"]) == (
        HEAD,
        HEAD,
        "planted",
        "salience_app",
    )
    assert {"memories", "versions", "tenants"} <= {table["name"] for table in result["tables"]}
    lines = filled("db", "status").stdout.splitlines()
    assert f"revision\t{HEAD}, up to date" in lines
    assert any(line.startswith("table\tmemories\t") for line in lines)
    whole = json.loads(filled("status", "--json").stdout)
    assert (whole["memories"], whole["forgotten"], whole["api_keys"], whole["problems"]) == (1, 0, None, [])
    assert whole["database"].startswith("PostgreSQL ")
    assert "up to date" in filled("db", "status", terminal=True).stdout


def test_an_index_is_made_reported_of_and_dropped(filled):
    assert filled("db", "index").stdout.startswith("built ix_memories_hnsw: ")
    assert filled("db", "index").stdout.startswith("ix_memories_hnsw exists: ")
    assert filled("db", "index", "--halfvec", "--m", "8").stdout.startswith("built ix_memories_hnsw_half: ")
    assert "index\tix_memories_hnsw\thnsw on memories\t" in filled("db", "status").stdout
    assert filled("db", "index", "--drop").stdout.splitlines() == [
        "dropped ix_memories_hnsw",
        "dropped ix_memories_hnsw_half",
    ]
    assert filled("db", "index", "--drop").stdout == "no vector index\n"
    assert "Leave these out" in filled("db", "index", "--drop", "--m", "8", code=2).stderr
    assert "such as 512MB or 2GB" in filled("db", "index", "--memory", "lots", code=2).stderr


def test_a_doctor_shows_errors_and_mends_it(filled, database):
    assert filled("db", "doctor").stdout == "healthy\n"
    with psycopg.connect(database) as connection:
        connection.execute("UPDATE salience.tenants SET sequence = 0")
    line = "wrong\tsequence\t-\tthe change sequence of 'default' stands at 0, and a row at 1."
    for command in (["db", "doctor"], ["doctor"]):
        first, last = filled(*command, code=1).stdout.splitlines()
        assert first == f"{line} To mend it: salience --store {shlex.quote(masked(database))} db doctor --repair"
        assert last.endswith("1 wrong")
    assert filled("db", "doctor", "--repair").stdout.splitlines()[-1] == "1 repaired, healthy"
    result = json.loads(filled("db", "doctor", "--json").stdout)
    assert result == {"healthy": True, "findings": [], "hints": []}
    assert filled("doctor").stdout == "1 memory and 0 older versions read, healthy\n"


def test_what_is_for_files_says_what_to_do_instead(filled, tmp_path):
    assert "pg_dump --format=custom" in filled("backup", str(tmp_path / "copy.db"), code=2).stderr
    assert "pg_restore --clean" in filled("reinstate", str(tmp_path / "copy.db"), code=2).stderr


@pytest.mark.parametrize(
    "command", [["stats"], ["db", "status"], ["db", "upgrade"], ["backup", "x.db"], ["reinstate", "x"]]
)
@pytest.mark.parametrize("target", ["postgresql://u:{}@127.0.0.1:1/db", "postgresql://u:{}@[x/db", "mysql://u:{}@h/db"])
def test_no_message_shows_a_password(command, target):
    result = invoke(["--store", target.format(PASSWORD), *command])
    assert result.exit_code in (1, 2)
    assert result.stderr.startswith(("salience: store: ", "salience: target "))
    assert PASSWORD not in result.output


def test_the_status_of_a_file_is_shown(run, run_json, file):
    result = run_json("db", "status")
    assert (result["ready"], result["revision"], result["embedder"], result["user"]) == (True, HEAD, "planted", None)
    assert {table["name"]: table["rows"] for table in result["tables"]}["memories"] == 2
    assert re.search(r"^table\tmemories\t2 rows\t[\d.]+ kB$", run("db", "status").stdout, re.MULTILINE)
    assert result["bytes"] >= sum(table["bytes"] for table in result["tables"]) > 0
    assert run("db", "upgrade").stdout == f"{file} is at revision {HEAD}, up to date\n"
    assert run("db", "doctor").stdout == "healthy\n"
    assert "a file needs none" in run("db", "index", code=2).stderr


@pytest.mark.parametrize(
    ("revision", "reason", "remedy"),
    [
        ("9999", "newer than", "pip install --upgrade salience"),
        ("0014", "before the first release", "salience --store NEW import"),
    ],
)
def test_a_file_of_another_revision_is_reported_and_left(run, file, revision, reason, remedy):
    with closing(connect(file)) as connection:
        connection.execute("UPDATE alembic_version SET version_num = ?", (revision,))
        connection.commit()
    assert reason in run("db", "status", code=1).stdout
    assert remedy in run("db", "upgrade", code=1).stderr


def test_a_file_that_is_not_there_is_not_made(run, tmp_path):
    for command in ("status", "upgrade", "doctor"):
        printed = run("--store", str(tmp_path / "nowhere.db"), "db", command, code=1).stderr
        assert "nowhere.db does not exist. Check the path" in printed
    assert not (tmp_path / "nowhere.db").exists()
