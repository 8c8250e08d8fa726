"""A half copy is not taken for a whole one, and none is made over what is there."""

import json
from functools import partial

import psycopg
import pytest

from copies import TENANTS, cut_off, engine, filled, filled_files, held, mixed, once, sql
from salience import compose
from salience.errors import ConflictError, InputError, PinnedError, StoreError
from salience.store.moving.mark import COPYING
from salience.testing.doubles import PlantedEmbedder

__all__ = ["filled", "filled_files", "mixed"]  # fixtures


def test_a_handle_that_was_open_before_writes_nothing_into_a_half_copy(filled, tables, tmp_path):
    for target in (tables, tmp_path / "b.db"):
        with engine(target) as early:
            cut_off(filled, target)
            with pytest.raises(StoreError, match="holds part of a copy"):
                early.remember("Between", user_id="ann")
            compose.copy(filled, target)
            early.remember("Afterwards", user_id="ann")
            assert len(early.list(user_id="ann", limit=1000).memories) > 20


def test_tenants_that_are_not_copied_stay_in_use(filled, tables, tmp_path, monkeypatch):
    for target in (tables, tmp_path / "b.db"):
        monkeypatch.setenv("SALIENCE_TENANT", "other")
        with engine(target) as other:
            other.remember("Here before", user_id="ann")
            cut_off(filled, target)
            other.remember("Meanwhile", user_id="ann")
        with engine(target) as other:
            assert len(other.list(user_id="ann").memories) == 2
        monkeypatch.setenv("SALIENCE_TENANT", TENANTS[1])
        with pytest.raises(StoreError, match="holds part of a copy"):
            engine(target)
        monkeypatch.delenv("SALIENCE_TENANT")
        compose.copy(filled, target)
        monkeypatch.setenv("SALIENCE_TENANT", "other")
        with engine(target) as other:
            assert len(other.list(user_id="ann").memories) == 2
        monkeypatch.delenv("SALIENCE_TENANT")


def test_a_process_that_takes_over_stops_the_one_before(filled, tables, tmp_path):
    for target in (tables, tmp_path / "b.db"):
        with pytest.raises(ConflictError, match="took this copy over"):
            compose.copy(filled, target, progress=once(partial(compose.copy, filled, target)))
        engine(target).close()


def test_a_half_copy_is_copied_nowhere(filled, tmp_path):
    cut_off(filled, tmp_path / "b.db")
    with pytest.raises(StoreError, match="holds part of a copy itself"):
        compose.copy(tmp_path / "b.db", tmp_path / "c.db")


@pytest.mark.parametrize("harm", ["text", "vector", "gone", "more"])
def test_what_another_hand_did_to_the_copy_is_noticed_and_mended(filled, tables, tmp_path, harm):
    statements = {
        "text": "UPDATE memories SET content = content || '.' WHERE id = (SELECT min(id) FROM memories)",
        "vector": "UPDATE memories SET vector = ('[' || repeat('0,', 63) || '1]')::vector "
        "WHERE id = (SELECT min(id) FROM memories)",
        "gone": "DELETE FROM touches WHERE id = (SELECT min(id) FROM touches)",
        "more": "INSERT INTO sessions VALUES ('default', 'forged', 1)",
    }
    done = []

    def told(step, *_):
        if step == "comparing" and not done:
            done.append(True)
            with psycopg.connect(tables, autocommit=True) as superuser:
                superuser.execute("SET search_path = salience, public")
                assert superuser.execute(statements[harm]).rowcount

    with pytest.raises(
        StoreError, match=r"of the tenant .*, '(memories|touches|sessions)' has .*run this again"
    ) as shown:
        compose.copy(filled, tables, progress=early(told))
    assert "changed" not in str(shown.value)
    with pytest.raises(StoreError, match="holds part of a copy"):
        engine(tables)
    again = compose.copy(filled, tables)
    assert again.written + again.removed > 0
    compose.copy(tables, tmp_path / "b.db")
    assert held(tmp_path / "b.db") == held(filled)


def early(told):
    """Return a progress that tells of comparing once all is copied, before the first comparison."""

    def tell(step, done, of):
        told("comparing" if step == "copying" and done == of else step, done, of)

    return tell


def test_a_target_that_holds_the_tenant_is_refused(filled, tables, tmp_path):
    for target in (tables, tmp_path / "b.db"):
        with engine(target) as memory:
            memory.remember("Already here", user_id="ann")
        with pytest.raises(InputError, match=r"holds memories of the tenant 'default'.*Nothing was written") as shown:
            compose.copy(filled, target)
        assert "Already" not in str(shown.value)
        with engine(target) as memory:
            assert len(memory.list(user_id="ann").memories) == 1


def test_part_of_another_copy_is_refused(filled, mixed, tmp_path):
    cut_off(filled, tmp_path / "b.db")
    with pytest.raises(InputError, match=r"part of another copy.*Run that to its end first: salience copy .*a\.db"):
        compose.copy(mixed, tmp_path / "b.db")
    with pytest.raises(InputError, match=r"part of another copy"):
        compose.copy(filled, tmp_path / "b.db", tenants=["default"])


def test_another_model_is_refused_where_other_tenants_have_it(filled, tables, monkeypatch):
    monkeypatch.setenv("SALIENCE_TENANT", "other")
    with engine(tables, PlantedEmbedder(dimension=32)) as memory:
        memory.remember("Of another model", user_id="ann")
    monkeypatch.delenv("SALIENCE_TENANT")
    with pytest.raises(PinnedError, match=r"planted.*32 dimensions.*planted.*64 dimensions.*reembed"):
        compose.copy(filled, tables)


def test_another_language_is_refused_where_other_tenants_have_it(filled, tables, monkeypatch):
    monkeypatch.setenv("SALIENCE_TENANT", "other")
    monkeypatch.setenv("SALIENCE_LANGUAGE", "german")
    with engine(tables) as memory:
        memory.remember("Auf Deutsch", user_id="ann")
    with pytest.raises(PinnedError, match=r"language 'german'.*'english'"):
        compose.copy(filled, tables)


def test_an_empty_store_takes_the_pins_of_the_source(filled, tables):
    with engine(tables, PlantedEmbedder(dimension=32)) as memory:
        memory.erase([memory.remember("Gone again", user_id="ann").memory.id], user_id="ann")
    compose.copy(filled, tables)
    engine(tables).close()


def test_unknown_tenants_and_stores_are_refused(filled, tmp_path, database):
    with pytest.raises(InputError, match="tenant 'nobody' has nothing in"):
        compose.copy(filled, tmp_path / "b.db", tenants=["nobody"])
    with pytest.raises(InputError, match=r"is the source itself\. Name another store"):
        compose.copy(filled, filled.parent / "." / filled.name)
    with pytest.raises(InputError, match=r"source .*does not exist"):
        compose.copy(tmp_path / "none.db", tmp_path / "b.db")
    with pytest.raises(InputError, match=r"holds no store"):
        compose.copy(database, tmp_path / "b.db")
    with pytest.raises(InputError, match="target is ':memory:'"):
        compose.copy(filled, ":memory:")
    assert not (tmp_path / "none.db").exists()
    with psycopg.connect(database) as connection:
        assert connection.execute("SELECT to_regclass('salience.memories')").fetchone() == (None,)


def test_rows_of_no_memory_are_told_and_not_lost(filled, tables):
    sql(filled, "PRAGMA foreign_keys=OFF")
    sql(filled, "INSERT INTO activations VALUES ('default', 's', 'nobody', 1)")
    with pytest.raises(StoreError, match=r"rows of 'activations' do not go .*doctor --repair"):
        compose.copy(filled, tables)
    with engine(filled) as memory:
        memory.doctor(repair=True)
    assert compose.copy(filled, tables).resumed


def test_a_user_who_may_make_no_tables_is_told_who_may(filled, postgres, database):
    make = "CREATE ROLE salience_test_nobody LOGIN PASSWORD 'x'; EXCEPTION WHEN duplicate_object THEN NULL"
    with psycopg.connect(database, autocommit=True) as superuser:
        superuser.execute(f"DO $$ BEGIN {make}; END $$")
        superuser.execute("CREATE EXTENSION IF NOT EXISTS vector")
    name = psycopg.conninfo.conninfo_to_dict(database)["dbname"]
    with pytest.raises(StoreError, match=r"may not make its tables.*salience db upgrade"):
        compose.copy(filled, postgres.dsn(name, "salience_test_nobody", "x"))


def test_a_damaged_mark_is_told(filled, tmp_path):
    engine(tmp_path / "b.db").close()
    sql(tmp_path / "b.db", "INSERT INTO meta VALUES (?, ?)", COPYING, json.dumps({"source": 1}))
    with pytest.raises(StoreError, match="mark of an unfinished copy is damaged"):
        engine(tmp_path / "b.db")
