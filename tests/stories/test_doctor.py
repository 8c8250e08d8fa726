"""Damage of every kind, planted by SQL: it is found, told without any content, and mended where texts can mend it."""

from __future__ import annotations

import base64
import json
import shutil
import sqlite3
from contextlib import closing

import numpy as np
import pytest

import salience
from salience import DamagedError, EmbedderError, StoreError
from salience.store.integrity import MOST
from tests.contract.doubles import HashedEmbedder

pytestmark = pytest.mark.slow

SECRET = "Alice keeps 7 bees in Lisbon"
CHANGED = "Alice keeps 9 bees in Lisbon"
TEXTS = [SECRET, *(f"memory {number}" for number in range(9))]
LIST = "UPDATE memories SET tags = '[' WHERE content = :secret"
MENDABLE = {
    "terms": "UPDATE memories SET terms = 'x' WHERE content = :secret",
    "terms of a version": "UPDATE versions SET terms = 'x'",
    "distinctions": "UPDATE memories SET distinctions = 'number:1' WHERE content = :secret",
    "event": "UPDATE memories SET event_start = 1, event_end = 2 WHERE content = :secret",
    "vector of zeros": "UPDATE memories SET vector = zeroblob(64) WHERE content = :secret",
    "vector of NaN": "UPDATE memories SET vector = :nan WHERE content = :secret",
    "vector of length 2": "UPDATE memories SET vector = :long WHERE content = :secret",
    "vector of a version": "UPDATE versions SET vector = zeroblob(64)",
    "short vector": "UPDATE memories SET vector = zeroblob(4) WHERE content = :secret",
    "odd vector": "UPDATE memories SET vector = zeroblob(7) WHERE content = :secret",
    "vector of text": "UPDATE versions SET vector = 'text'",
    "token vectors without a length": "UPDATE memories SET tokens = x'01' WHERE content = :secret",
    "token vectors of length 0": "UPDATE memories SET tokens = x'0000ff' WHERE content = :secret",
    "token vectors that are not whole": "UPDATE memories SET tokens = x'0400010203' WHERE content = :secret",
    "token vectors of text": "UPDATE versions SET tokens = 'text'",
    "sequence behind": "UPDATE meta SET value = '1' WHERE name = 'sequence'",
    "sequence of words": "UPDATE meta SET value = 'many' WHERE name = 'sequence'",
    "short id": "UPDATE memories SET short_id = 'deadbeef' WHERE content = :secret",
    "home": "UPDATE memories SET home = 'elsewhere' WHERE content = :secret",
    "home of a version": "UPDATE versions SET home = 'elsewhere'",
    "end of a version": "UPDATE versions SET valid_to = valid_to - 1",
    "set aside": "INSERT INTO laid_by SELECT tenant, id, version, content_hash, vector, NULL FROM memories",
    "activation": "INSERT INTO activations VALUES ('default', 's', 'nobody', 1)",
    "touch": """INSERT INTO touches (tenant, id, version, seq, at, access_count, importance)
        VALUES ('default', 'nobody', 1, 1, 1, 1, 0.5)""",
    "fingerprint of another length": "UPDATE meta SET value = 'AACAPw==' WHERE name = 'fingerprint'",
    "fingerprint of NaN": "UPDATE meta SET value = :nan64 WHERE name = 'fingerprint'",
    "fingerprint of words": "UPDATE meta SET value = 'é' WHERE name = 'fingerprint'",
    "sequence of dropped touches": "INSERT OR REPLACE INTO meta VALUES ('pruned', 'x')",
    "turns of a session": "INSERT INTO sessions VALUES ('default', 'default\x1f\x1fs', 'x')",
    "turn of an activation": "INSERT INTO activations SELECT tenant, 's', id, 'x' FROM memories",
    "lease": "INSERT INTO leases VALUES ('upkeep:default', 'somebody', 'x')",
    "row without a number in the sequence": "UPDATE memories SET seq = 'x' WHERE content = :secret",
}
BEYOND = {
    "content": "UPDATE memories SET content = 'something else' WHERE content = :secret",
    "version between": "UPDATE memories SET version = version + 1 WHERE content = :changed",
    "order of versions": "UPDATE memories SET changed_at = 1 WHERE content = :changed",
    "version of nobody": "UPDATE versions SET id = 'nobody'",
    "no pin": "DELETE FROM meta WHERE name = 'embedder'",
    "no language": "DELETE FROM meta WHERE name = 'language'",
}
UNREADABLE = {
    "tags": "CAST(x'ff' AS TEXT)",
    "tags of JSON with other bytes": """CAST(x'5b22ff225d' AS TEXT)""",
    "tags of another kind": "'{}'",
    "tags cut off": "'['",
    "tags of numbers": "'[1]'",
    "entities": "x'5b5d'",
    "metadata": "CAST(x'7b22fe' AS TEXT)",
    "metadata of a list": "'[]'",
    "metadata nested deeply": f"'{'[' * 3000}'",
    "entities of numbers": "'[1]'",
    "sources": "'null'",
    "content": "CAST(x'416c69636520ff' AS TEXT)",
    "content of bytes": "x'416c696365'",
    "kind": "CAST(x'ff' AS TEXT)",
    "user_id": "CAST(x'ff' AS TEXT)",
    "speaker": "x'ff'",
    "tier": "'eternal'",
    "importance": "'high'",
    "weight": "7.5",
    "created_at": "'yesterday'",
    "created_at out of range": "9000000000000000000",
    "updated_at": "x'00'",
    "expires_at": "'never'",
    "access_count": "'often'",
    "terms": "x'ff'",
    "distinctions": "x'ff'",
    "event_start": "'soon'",
    "event_start without an end": "1",
    "vector": "zeroblob(7)",
    "vector of another length": "zeroblob(8)",
    "vector of text": "'text'",
}
"""Column, and what else there is to tell it by -> what the first memory is given there."""


@pytest.fixture
def path(tmp_path):
    return tmp_path / "agent.db"


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    """A file with ten memories and an older version, to be copied."""
    path = tmp_path_factory.mktemp("sound") / "agent.db"
    with salience.connect(path, embedder=HashedEmbedder("e", 16)) as memory:
        ids = [receipt.memory.id for receipt in memory.remember_many([{"content": text} for text in TEXTS])]
        memory.update(ids[1], content=CHANGED)
    return path


@pytest.fixture
def opened(sound, path):
    """A function from an embedder to an engine on a copy of the file `sound`."""
    engines = []

    def open_(embedder=None):
        engines.append(salience.connect(path, embedder=embedder or HashedEmbedder("e", 16)))
        return engines[-1]

    shutil.copy(sound, path)
    yield open_
    for engine in engines:
        engine.close()


def plant(path, statement):
    values = {
        "secret": SECRET,
        "changed": CHANGED,
        "nan": np.full(16, np.nan, "<f4").tobytes(),
        "nan64": base64.b64encode(np.full(16, np.nan, "<f4").tobytes()).decode(),
        "long": np.full(16, 0.5, "<f4").tobytes(),
    }
    with closing(sqlite3.connect(path)) as connection:
        cursor = connection.execute(
            statement, {name: value for name, value in values.items() if f":{name}" in statement}
        )
        assert cursor.rowcount > 0
        connection.commit()


def problems_of(report):
    """Return what is wrong, none of which shows the content of a memory."""
    assert all(shows_nothing(f"{finding.check} {finding.problem}") for finding in report.findings)
    return [finding.problem for finding in report.findings]


def shows_nothing(text):
    return not any(word in text for word in ("Alice", "bees", "Lisbon", "something else"))


def test_a_sound_store_is_healthy(opened):
    told = []
    report = opened().doctor(progress=told.append)
    assert report.healthy
    assert (report.memories, report.versions, report.pending, report.findings) == (10, 1, 0, ())
    assert told[-1] == 10


def test_a_sound_store_in_memory_is_healthy():
    with salience.connect(":memory:", embedder=HashedEmbedder("e", 16)) as memory:
        first = memory.remember(SECRET).memory.id
        memory.update(first, content=CHANGED)
        memory.forget(first)
        report = memory.doctor(deep=True)
        assert (report.memories, report.versions, report.healthy) == (1, 2, True)


@pytest.mark.parametrize("name", MENDABLE)
def test_derived_data_is_repaired(opened, path, name):
    plant(path, MENDABLE[name])
    memory = opened()
    found = memory.doctor()
    assert not found.healthy
    assert all(
        "salience doctor --repair" in problem for problem in problems_of(found) if "reading ended" not in problem
    )
    mended = memory.doctor(repair=True)
    assert problems_of(mended)
    assert all(finding.repaired for finding in mended.findings)
    assert mended.healthy
    after = memory.doctor()
    assert (after.findings, after.memories, after.versions) == ((), 10, 1)
    assert len(memory.recall(SECRET, limit=1)) == 1


@pytest.mark.parametrize("name", BEYOND)
def test_damage_that_cannot_be_repaired_is_reported(opened, path, name):
    plant(path, BEYOND[name])
    memory = opened()
    for repair in (False, True):
        report = memory.doctor(repair=repair)
        assert not report.healthy
        assert any("salience" in problem.lower() for problem in problems_of(report))


def damage(path, name, where="content = :secret"):
    """Damage the first memory, and return its id."""
    column = name.partition(" ")[0]
    with closing(sqlite3.connect(path)) as connection:
        (damaged,) = connection.execute(f"SELECT id FROM memories WHERE {where}", {"secret": SECRET}).fetchone()  # noqa: S608
    plant(path, f"UPDATE memories SET {column} = {UNREADABLE[name]} WHERE {where}")  # noqa: S608
    return damaged, column


@pytest.mark.parametrize("when", ["before it is opened", "while it is open"])
@pytest.mark.parametrize("name", UNREADABLE)
def test_an_unreadable_row_is_a_store_error_with_its_id(opened, path, name, when):
    memory = opened()
    if when == "while it is open":
        memory.recall("memory 3", min_score=0.0, dry_run=True)
    damaged, column = damage(path, name)
    with closing(sqlite3.connect(path)) as other:  # as another process would write it
        other.execute(
            "UPDATE memories SET seq = (SELECT value + 1 FROM meta WHERE name = 'sequence') WHERE id = ?", [damaged]
        )
        other.execute("UPDATE meta SET value = value + 1 WHERE name = 'sequence'")
        other.commit()
    memory = memory if when == "while it is open" else opened()
    derived = column in ("terms", "distinctions", "event_start", "vector")
    calls = {
        "recall": lambda: memory.recall(SECRET, limit=100, min_score=0.0, user_id=salience.ANY),
        "get": lambda: memory.get(damaged, user_id=salience.ANY),
        "history": lambda: memory.history(damaged, user_id=salience.ANY),
        "update": lambda: memory.update(damaged, kind="rule", user_id=salience.ANY),
        "stats": lambda: memory.stats(user_id=salience.ANY),
        "export": lambda: memory.export(path.with_name(f"{when}.ndjson")),
    }
    raised = {verb: error for verb, call in calls.items() if (error := error_of(call)) is not None}
    for error in raised.values():
        assert shows_nothing(str(error))
        assert error.__cause__ is None
    if not derived:
        assert {"recall", "get", "history", "update", "export"} == raised.keys() - {"stats"}  # counts in SQL
    if column not in ("terms", "distinctions", "event_start"):
        for error in raised.values():
            assert isinstance(error, DamagedError)
            assert (error.id, error.column) == (damaged, column)
            assert damaged in str(error)
            assert f"its column {column!r} is damaged" in str(error)
        assert "recall" in raised or when == "while it is open"  # which has the vector of this version already


def error_of(call):
    """Return the error of the store that a call raises; None where it returns."""
    try:
        call()
    except StoreError as error:
        return error
    return None


@pytest.mark.parametrize("name", UNREADABLE)
def test_a_listing_skips_and_reports_unreadable_rows(opened, path, name):
    memory = opened()
    damaged, column = damage(path, name)
    found = memory.list(user_id=salience.ANY)
    kept = [item.content for item in found.memories]
    if column in ("terms", "distinctions", "event_start", "vector"):  # a listing reads none of these
        assert found.damaged == ()
        return
    assert found.damaged == (damaged,)
    assert len(kept) == 9
    first = memory.list(user_id=salience.ANY, limit=4)
    second = memory.list(user_id=salience.ANY, limit=100, cursor=first.cursor)
    assert [item.content for item in (*first.memories, *second.memories)] == kept
    assert (*first.damaged, *second.damaged) == (damaged,)


@pytest.mark.parametrize("name", UNREADABLE)
def test_repair_moves_unreadable_rows_aside(opened, path, name):
    memory = opened()
    damaged, column = damage(path, name)
    report = memory.doctor()
    named = [finding for finding in report.findings if finding.id == damaged]
    assert named
    assert any(column.removesuffix("s") in finding.problem for finding in named)
    assert all(shows_nothing(finding.problem) for finding in report.findings)
    mended = memory.doctor(repair=True)
    assert mended.healthy, mended.findings
    after = memory.doctor()
    assert (after.findings, after.pending) == ((), int(column == "vector"))
    aside = path.with_name(f"{path.name}.damaged.jsonl")
    if column in ("terms", "distinctions", "event_start", "vector"):  # what follows from the text is made anew
        assert after.memories == 10
        assert not aside.exists()
        return
    assert after.memories == 9
    assert memory.list(user_id=salience.ANY).damaged == ()
    assert len(memory.recall("memory", limit=100, min_score=0.0)) == 9
    (row,) = [json.loads(line) for line in aside.read_text().splitlines()]
    assert (row["table"], row["row"]["id"]) == ("memories", damaged)
    assert column == "content" or row["row"]["content"] == SECRET
    assert aside.stat().st_mode & 0o777 == 0o600
    if "ff" in UNREADABLE[name]:
        assert b"\xff" in base64.b64decode(row["row"][column]["base64"])


def test_an_unreadable_version_is_moved_aside_alone(opened, path):
    plant(path, "UPDATE versions SET content = CAST(x'ff' AS TEXT)")
    memory = opened()
    (changed,) = [item.id for item in memory.list().memories if item.content == CHANGED]
    with pytest.raises(
        DamagedError, match=rf"'{changed}' \(version 1\) cannot be read: its column 'content' is damaged"
    ):
        memory.history(changed)
    (finding,) = memory.doctor().findings
    assert (finding.check, finding.id) == ("rows", changed)
    assert "version 1 cannot be read: its column 'content' is damaged." in finding.problem
    assert memory.doctor(repair=True).healthy
    assert [version.memory.version for version in memory.history(changed)] == [2]
    assert memory.doctor().healthy


def test_an_unreadable_memory_is_moved_aside_with_its_versions(opened, path):
    damaged, _ = damage(path, "tags", "version = 2")
    assert opened().doctor(repair=True).healthy
    lines = path.with_name(f"{path.name}.damaged.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    assert {(row["table"], row["row"]["id"], row["row"]["version"]) for row in rows} == {
        ("memories", damaged, 2),
        ("versions", damaged, 1),
    }


def test_an_unreadable_id_is_reported_by_row(opened, path):
    plant(path, "UPDATE memories SET id = CAST(x'ff' AS TEXT) WHERE content = :secret")
    memory = opened()
    problems = problems_of(memory.doctor())
    assert any("row 1 of 'memories' cannot be read: its column 'id' is damaged." in problem for problem in problems)
    assert memory.doctor(repair=True).healthy
    assert len(memory.list().memories) == 9


def test_a_tag_to_filter_by_does_not_hide_a_row_whose_tags_are_damaged(opened, path):
    memory = opened()
    damaged, _ = damage(path, "tags")
    assert memory.list(tags=["x"]).damaged == (damaged,)


def test_a_cycle_of_supersedes_is_reported(opened, path):
    memory = opened()
    first, second = [item.id for item in memory.list().memories[:2]]
    for one, other in ((first, second), (second, first)):
        plant(path, f"UPDATE memories SET supersedes = '{other}' WHERE id = '{one}'")  # noqa: S608
    (finding,) = memory.doctor().findings
    assert (finding.check, finding.id) == ("supersedes", first)
    assert "supersedes forms a cycle" in finding.problem
    memory.forget(second)
    assert memory.doctor().healthy


def test_other_processes_find_repaired_memories_at_once(opened, path):
    other = opened()
    assert other.recall(SECRET, limit=1)[0].memory.content == SECRET
    plant(path, "UPDATE memories SET vector = (SELECT vector FROM memories WHERE content = 'memory 5')")
    assert not opened().doctor(deep=True).healthy
    assert opened().doctor(deep=True, repair=True).healthy
    assert other.recall("memory 5", limit=1, profile="mememory")[0].memory.content == "memory 5"
    assert (
        other.recall("memory 5", limit=1)[0].score_detail.as_dict()
        == opened().recall("memory 5", limit=1)[0].score_detail.as_dict()
    )


def test_a_deep_check_with_a_former_model_skips_vectors(opened):
    former = opened()
    opened().reembed(HashedEmbedder("f", 16))
    assert former.doctor(deep=True).findings == ()


def test_only_a_deep_check_sees_a_vector_of_another_text(opened, path):
    plant(path, "UPDATE memories SET vector = (SELECT vector FROM versions) WHERE content = :secret")
    memory = opened()
    assert memory.doctor().healthy
    (finding,) = memory.doctor(deep=True).findings
    assert (finding.check, finding.repaired) == ("vectors", False)
    assert memory.doctor(deep=True, repair=True).healthy
    assert memory.doctor(deep=True).findings == ()


def test_repair_leaves_a_memory_with_a_vector_of_the_wrong_length_pending(opened, path):
    plant(path, MENDABLE["short vector"])
    assert opened().doctor(repair=True).pending == 1
    assert opened().doctor().pending == 1


def test_repair_without_an_embedder_repairs_the_rest(opened, path):
    class Down(HashedEmbedder):
        def embed(self, texts, /):
            raise ConnectionError

    plant(path, MENDABLE["terms"])
    plant(path, MENDABLE["vector of a version"])
    memory = opened(Down("e", 16))
    report = memory.doctor(repair=True)
    assert {finding.check: finding.repaired for finding in report.findings} == {"terms": True, "vectors": False}
    assert any("It was not repaired: embedder 'e' failed" in problem for problem in problems_of(report))
    with pytest.raises(EmbedderError):
        memory.doctor(deep=True)


def test_versions_dropped_by_upkeep_are_no_problem(opened, path):
    memory = opened()
    first = memory.list(limit=1).memories[0].id
    for number in range(4):
        memory.update(first, importance=number / 10)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("DELETE FROM versions WHERE id = ? AND version <= 2", [first])
        connection.commit()
    assert memory.doctor().healthy
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("DELETE FROM versions WHERE id = ? AND version = 4", [first])
        connection.commit()
    (finding,) = memory.doctor().findings
    assert "version 5 follows on version 3" in finding.problem


def test_a_reflection_without_its_sources_is_reported(opened, path):
    plant(path, """UPDATE memories SET sources = '["nobody"]' WHERE content = :secret""")
    (finding,) = opened().doctor().findings
    assert finding.check == "sources"
    assert "1 of the 1 memories that it sums up do not exist" in finding.problem


def test_an_index_that_lost_rows_is_rebuilt(opened, path):
    memory = opened()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA writable_schema=ON")
        connection.execute(
            "UPDATE sqlite_master SET sql = sql || ' WHERE 0' WHERE name = 'ix_memories_tenant_short_id'"
        )
        connection.commit()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("REINDEX ix_memories_tenant_short_id")
        connection.execute("PRAGMA writable_schema=ON")
        connection.execute(
            "UPDATE sqlite_master SET sql = replace(sql, ' WHERE 0', '') WHERE name = 'ix_memories_tenant_short_id'"
        )
        connection.commit()
    memory = opened()
    report = memory.doctor()
    assert {finding.check for finding in report.findings} == {"integrity"}
    assert memory.doctor(repair=True).healthy
    assert memory.doctor().findings == ()


def test_many_findings_of_one_kind_are_shortened(opened, path):
    memory = opened()
    memory.remember_many([{"content": f"more {number}"} for number in range(2 * MOST)])
    plant(path, "UPDATE memories SET short_id = 'deadbeef'")
    assert len(memory.doctor().findings) == MOST
    assert memory.doctor(repair=True).healthy
    assert memory.doctor().findings == ()


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE meta SET value = 'x' WHERE name = 'dimension'",
        "UPDATE meta SET value = 'x' WHERE name = 'fingerprint'",
        "UPDATE meta SET value = 'x' WHERE name = 'sequence'",
    ],
)
def test_a_store_with_invalid_numbers_names_the_remedy(opened, path, statement):
    plant(path, statement)
    with pytest.raises(StoreError, match=r"Run: salience doctor --repair|salience reinstate FILE"):
        opened().remember("something")


def examined(path, repair):
    """Return what a doctor says of a file, or why it does not open."""
    try:
        with salience.connect(path, embedder=HashedEmbedder("e", 16)) as memory:
            report = memory.doctor(repair=repair)
            return "healthy" if report.healthy else " ".join(problems_of(report))
    except StoreError as error:
        return str(error)


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """The bytes of a file with 200 long memories."""
    path = tmp_path_factory.mktemp("large") / "agent.db"
    with salience.connect(path, embedder=HashedEmbedder("e", 16)) as memory:
        memory.remember_many([{"content": f"long {number} " + "word " * 200} for number in range(200)])
    return path.read_bytes()


@pytest.mark.parametrize("part", ["middle", "end", "pages", "half"])
def test_a_torn_file_is_a_store_error(large, tmp_path, part):
    path, raw = tmp_path / "torn.db", bytearray(large)
    if part == "half":
        raw = raw[: len(raw) // 2]
    else:
        start = {"middle": len(raw) // 2, "end": len(raw) - 9000, "pages": 3 * 4096}[part]
        raw[start : start + 8192] = bytes(byte ^ 0x5A for byte in raw[start : start + 8192])
    path.write_bytes(raw)
    for repair in (False, True):
        assert "damaged" in examined(path, repair) or "salience reinstate" in examined(path, repair)
