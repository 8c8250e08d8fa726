"""What the doctor finds in a PostgreSQL database, and mends; and the index of vectors that it looks at."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import psycopg
import pytest

import databases
from salience.errors import BusyError, DamagedError, InputError, StoreError
from salience.ports import Erase, Revise, Touch
from salience.records import ANY, Filter, Scope
from salience.store import statements as shared
from salience.store.postgres import PostgresStore, admin, checking, statements
from salience.store.postgres.admin import PostgresDatabase
from salience.store.postgres.connection import Address
from tests.contract.memories import DIMENSION, NOW, add, id_of, memory, need, numbers, stored, unit
from tests.postgres_server import fresh

MEND = "To mend it: salience db doctor --repair"


@pytest.fixture(scope="module")
def template(postgres):
    with databases.laid_out(postgres) as dsn:
        yield Address.parse(dsn).parameters["dbname"]


@pytest.fixture
def tables(postgres, template):
    """DSN of a database of its own for each test, since tables are changed here, not rows alone."""
    with fresh(postgres, template=template) as dsn:
        yield dsn


@pytest.fixture
def store(tables):
    made = PostgresStore.open(tables, embedder="e", dimension=DIMENSION, language="english", busy_timeout=5)
    add(made, *(stored(n, session_id="s", tags=("t",), entities=("Alice",)) for n in range(1, 6)))
    made.apply([Revise(memory(1).changed("update", NOW, content="other"), terms=("other",))])
    made.apply([Touch(Scope(session_id="s"), (id_of(2),), access_count=1, activate=True)])
    yield made
    made.close()


@pytest.fixture
def database(tables, store):
    with PostgresDatabase(tables, busy_timeout=5, statement_timeout=10, exact_rows=3) as found:
        yield found


@pytest.fixture
def plant(tables):
    """Return a function that changes rows behind the store's back."""

    def plant(*statements):
        with psycopg.connect(tables, autocommit=True) as connection:
            connection.execute("SET search_path = salience, public")
            for statement in statements:
                connection.execute(statement)

    return plant


def names(database):
    return [index.name for index in database.state().indexes if index.method == "hnsw"]


def test_a_store_in_order_has_no_findings(database, store):
    assert database.check() == []
    assert database.check(repair=True) == []
    assert store.check() == []


def test_a_large_change_is_posted_part_by_part(store, monkeypatch):
    monkeypatch.setattr(statements, "PAIRS", 4)
    monkeypatch.setattr(shared, "CHUNK", 3)
    add(store, *(stored(n, tags=("t", "u"), entities=("Bob",)) for n in range(11, 21)))
    assert store.check() == []
    assert numbers(store.gather(need(filter=Filter(tags=["u"])))) == [*range(11, 21)]
    store.apply([Erase("default", tuple(id_of(n) for n in range(11, 20)))])
    assert store.check() == []


@pytest.mark.parametrize(
    ("statement", "check", "problem"),
    [
        (
            "UPDATE tenants SET sequence = 1",
            "sequence",
            "the change sequence of 'default' stands at 1, and a row at 7.",
        ),
        ("DELETE FROM tenants", "sequence", "the change sequence of 'default' stands at 0, and a row at 7."),
        (
            "UPDATE memories SET short_id = 'x' WHERE version = 2",
            "names",
            "version 2: its short id is not that of its id.",
        ),
        ("UPDATE memories SET home = 'x' WHERE version = 2", "names", "version 2: its home is not that of its scope."),
        ("UPDATE versions SET home = 'x'", "names", "version 1: its home is not that of its scope."),
        ("UPDATE versions SET valid_to = 5", "versions", "version 1 does not end when the next one begins."),
        (
            "UPDATE memories SET length = 9 WHERE version = 2",
            "search keys",
            "version 2: its length in terms is not that of its row.",
        ),
        ("DELETE FROM postings WHERE key = (SELECT min(key) FROM postings)", "postings", None),
        ("UPDATE postings SET project = 7", "postings", None),
        ("UPDATE postings SET environment = NULL", "postings", None),
        (
            "INSERT INTO postings (tenant, key, number) VALUES ('gone', 1, 2)",
            "postings",
            "1 postings of 'gone' are of no memory that has them.",
        ),
        (
            "UPDATE memories SET vector = '[1,2]' WHERE version = 2",
            "vectors",
            f"version 2 has a vector of 2 numbers, not {DIMENSION}.",
        ),
        (
            "UPDATE memories SET tokens = '\\x0400010203' WHERE version = 2",
            "token vectors",
            "version 2 has token vectors of 5 bytes, which are not whole.",
        ),
        (
            "INSERT INTO laid_by SELECT tenant, id, version, content_hash, vector FROM memories WHERE version = 2",
            "set aside",
            "1 vectors are set aside for a model that is not known.",
        ),
    ],
)
def test_what_can_be_made_anew_is_found_and_mended(database, store, plant, statement, check, problem):
    plant(statement)
    found = database.check()
    assert {finding.check for finding in found} == {check}
    assert all(finding.problem.endswith(MEND) for finding in found)
    if problem is not None:
        assert [finding.problem for finding in found] == [f"{problem} {MEND}"]
    mended = database.check(repair=True)
    assert [(finding.check, finding.repaired) for finding in mended] == [(check, True)] * len(found)
    assert database.check() == []


def test_postings_in_another_scope_are_counted_by_tenant(database, store, plant):
    plant("UPDATE postings SET project = 7 WHERE number = (SELECT min(number) FROM postings)")
    (found,) = database.check()
    assert found.problem == f"6 postings of 'default' are in another scope. {MEND}"


def test_the_hashes_of_coordinates_stay_as_they_are():
    keys = [2949622770233033222, None, -6783520502897733793, None]
    assert statements.coordinate_keys(Scope(user_id="u")) == keys


@pytest.mark.parametrize("value", ["NULL", "'{}'", "ARRAY[1, 2, 3]::bigint[]"])
def test_search_keys_are_computed_from_the_rows(database, store, plant, tables, value):
    plant("DELETE FROM postings", f"UPDATE memories SET search_keys = {value}, number = 0")  # noqa: S608
    found = {finding.check for finding in database.check()}
    assert found == {"search keys", *(["postings"] if "1" in value else [])}
    assert all(finding.repaired for finding in database.check(repair=True))
    assert database.check() == []
    by_index = PostgresStore.open(tables, embedder="e", dimension=DIMENSION, language="english", exact_rows=0)
    with closing(by_index):
        assert id_of(1) in by_index.gather(need(terms=("other",), reach=1)).ids


@pytest.mark.parametrize(
    ("statement", "check", "problem"),
    [
        (
            "UPDATE memories SET tags = '[' WHERE version = 2",
            "rows",
            "version 2: it cannot be read: its column 'tags' is damaged.",
        ),
        (
            "UPDATE versions SET tier = 'secret'",
            "rows",
            "version 1: it cannot be read: its column 'tier' is damaged.",
        ),
        (
            "UPDATE memories SET weight = 'NaN' WHERE version = 2",
            "rows",
            "version 2: it cannot be read: its column 'weight' is damaged.",
        ),
        (
            "UPDATE memories SET version = 4 WHERE version = 2",
            "versions",
            "version 4 follows on version 1: the ones between are gone.",
        ),
        ("DELETE FROM meta WHERE name = 'language'", "pins", "the store is pinned to no language;"),
        ("UPDATE meta SET value = '' WHERE name = 'embedder'", "pins", "the store is pinned to no model."),
        (
            "DROP INDEX ix_memories_line",
            "indexes",
            "the index ix_memories_line is not there. In the schema salience, run: CREATE INDEX ix_memories_line ON",
        ),
        (
            "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'ix_memories_line'::regclass",
            "indexes",
            "the index ix_memories_line is not valid: it is being made, or that was cut short. If so, as the "
            "user who owns the tables, run: REINDEX",
        ),
        (
            "ALTER TABLE touches NO FORCE ROW LEVEL SECURITY",
            "row-level security",
            "row-level security of the table 'touches' is not forced. As the user who owns the tables, run:",
        ),
    ],
)
def test_what_nothing_here_mends_is_found_and_left(database, plant, statement, check, problem):
    plant(statement)
    found = database.check()
    assert [(finding.check, finding.repaired) for finding in found] == [(check, False)]
    assert found[0].problem.startswith(problem)
    assert MEND not in found[0].problem


def test_a_row_that_cannot_be_read_is_named_and_can_be_passed_over(store, plant):
    everyone = Scope(project=ANY, user_id=ANY, agent_id=ANY)
    whole = [stored.memory.id for stored in store.scan(everyone)]
    plant("UPDATE memories SET tags = '[' WHERE version = 2")
    with pytest.raises(DamagedError, match=r"\(version 2\) cannot be read: its column 'tags' is damaged") as raised:
        store.scan(everyone)
    passed = []
    left = [stored.memory.id for stored in store.scan(everyone, limit=len(whole), passed=passed)]
    assert sorted([*left, raised.value.id]) == whole
    assert [error.id for error in passed] == [raised.value.id]


def test_no_finding_shows_a_text(database, plant):
    plant("UPDATE memories SET content = 'the secret', terms = 'secret', tags = '[\"secret', metadata = 'secret'")
    told = " ".join(finding.problem for finding in database.check())
    assert "cannot be read" in told
    assert "secret" not in told


def test_many_problems_of_a_kind_are_counted(database, store, plant, monkeypatch):
    monkeypatch.setattr(checking, "MOST", 3)
    plant("UPDATE memories SET short_id = 'x'")
    assert [finding.problem for finding in database.check()][-1] == "2 more."
    assert len(database.check(repair=True)) == 4
    assert database.check() == []


def test_a_home_that_another_memory_has_the_key_of_is_left(database, store, plant):
    add(store, stored(7, key="k"), stored(8, key="other"))
    plant(f"UPDATE memories SET home = 'x', key = 'k' WHERE id = '{id_of(8)}'")  # noqa: S608
    found = database.check(repair=True)
    assert [(finding.check, finding.repaired) for finding in found] == [("names", False)]


def test_other_processes_read_anew_what_was_mended(database, store, plant):
    store.gather(need(terms=("other",)))
    plant("UPDATE memories SET vector = '[1,2]' WHERE version = 2")
    assert all(finding.repaired for finding in database.check(repair=True))
    assert [found.memory.id for found in store.unembedded()] == [id_of(1)]
    assert id_of(1) in store.gather(need(vector=unit(1), terms=())).ids


def test_an_index_is_made_kept_made_otherwise_and_dropped(database, store):
    made = database.index()
    assert (made.name, made.made) == ("ix_memories_hnsw", True)
    assert made.bytes > 0
    assert not database.index().made
    assert not database.index(m=16, ef_construction=64).made
    assert database.index(m=8, ef_construction=32, memory="32MB").made
    assert not database.index(m=8).made
    assert database.index(is_half=True).name == "ix_memories_hnsw_half"
    assert names(database) == ["ix_memories_hnsw", "ix_memories_hnsw_half"]
    assert database.drop_index(is_half=True).dropped == ("ix_memories_hnsw_half",)
    assert database.drop_index().dropped == ("ix_memories_hnsw",)
    assert database.drop_index().dropped == ()


def test_a_search_takes_the_index(database, store, tables):
    database.index()
    index = f"(vector::vector({DIMENSION})) <#> '[{','.join(['0'] * DIMENSION)}]'"
    with psycopg.connect(tables) as connection:
        connection.execute(
            "SET LOCAL enable_seqscan = off; SET LOCAL enable_sort = off; SET LOCAL search_path = salience, public"
        )
        plan = connection.execute(f"EXPLAIN SELECT id FROM memories ORDER BY {index} LIMIT 3").fetchall()  # noqa: S608
    assert "ix_memories_hnsw" in str(plan)


def test_what_was_cut_short_is_replaced(database, plant):
    plant(
        f"CREATE INDEX ix_memories_hnsw ON memories USING hnsw ((vector::vector({DIMENSION})) vector_ip_ops)",
        f"CREATE INDEX ix_memories_hnsw_new ON memories USING hnsw ((vector::vector({DIMENSION})) vector_ip_ops)",
        "UPDATE pg_index SET indisvalid = false WHERE indexrelid::regclass::text LIKE '%hnsw%'",
    )
    assert [finding.problem.rpartition("If so, ")[2] for finding in database.check()] == [
        "as the user who owns the tables, run: salience db index"
    ] * 2
    assert any("ix_memories_hnsw is not valid" in fault for fault in database.state().faults)
    assert database.index().made
    assert names(database) == ["ix_memories_hnsw"]
    assert database.check() == []


def test_an_index_of_another_model_is_found_and_replaced(database, plant):
    plant("UPDATE memories SET vector = NULL")
    plant("CREATE INDEX ix_memories_hnsw ON memories USING hnsw ((vector::vector(99)) vector_ip_ops)")
    told = f"the index ix_memories_hnsw is of vectors of 99 numbers, not {DIMENSION}. {checking.MAKE_INDEX}"
    assert [finding.problem for finding in database.check()] == [told]
    assert database.index().made
    assert database.check() == []


def test_a_vector_that_an_index_cannot_hold_says_which(store, database, plant, tables):
    plant("UPDATE memories SET vector = NULL")
    plant("CREATE INDEX ix_memories_hnsw ON memories USING hnsw ((vector::vector(99)) vector_ip_ops)")
    with pytest.raises(StoreError, match=r"an index is of vectors of another length.*salience db index --drop"):
        add(store, stored(9))


def test_what_fails_leaves_no_index_behind(database, plant):
    plant("UPDATE memories SET vector = '[1,2]' WHERE version = 2")
    with pytest.raises(StoreError):
        database.index()
    assert names(database) == []


def on_rename(action):
    """Return statements after which each change of an index does something else first."""
    return (
        f"CREATE FUNCTION f() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN {action}; END $$",
        "CREATE EVENT TRIGGER f ON ddl_command_start WHEN TAG IN ('ALTER INDEX') EXECUTE FUNCTION f()",
    )


def test_an_index_that_cannot_take_its_name_is_removed_and_the_former_one_stays(database, plant):
    database.index()
    plant(*on_rename("RAISE EXCEPTION 'no' USING ERRCODE = '25P02'"))
    with pytest.raises(StoreError, match="SQLSTATE 25P02"):
        database.index(m=8)
    assert names(database) == ["ix_memories_hnsw"]
    assert database.check() == []


def test_an_index_that_a_lost_connection_left_behind_is_removed_by_the_next_run(database, plant):
    database.index()
    plant(*on_rename("PERFORM pg_terminate_backend(pg_backend_pid())"))
    with pytest.raises(StoreError, match="cannot be reached, or broke off"):
        database.index(m=8)
    assert names(database) == ["ix_memories_hnsw", "ix_memories_hnsw_new"]
    plant("DROP EVENT TRIGGER f")
    assert not database.index().made
    assert names(database) == ["ix_memories_hnsw"]


@pytest.mark.parametrize(
    ("dimension", "is_half", "remedy"),
    [(2_001, False, "Give --halfvec"), (4_001, True, "up to 4,000"), (4_001, False, "up to 4,000")],
)
def test_vectors_too_long_for_an_index_are_refused(dimension, is_half, remedy):
    with pytest.raises(InputError, match=remedy):
        admin.check_dimension(dimension, is_half)
    admin.check_dimension(4_000, True)


def test_memory_that_is_none_is_refused(database):
    with pytest.raises(InputError, match=r"memory is 'lots'\. Give an amount such as 512MB"):
        database.index(memory="lots")


def test_one_process_at_a_time_makes_an_index(database, plant, tables):
    with psycopg.connect(tables, autocommit=True) as other:
        other.execute(f"SELECT pg_advisory_lock({admin.INDEXING})")
        with pytest.raises(BusyError, match="another process makes or drops one"):
            database.index()
    assert database.index().made


def test_an_index_is_for_the_owner_to_make(store, as_application):
    found = PostgresDatabase(as_application, busy_timeout=5, statement_timeout=10, exact_rows=3)
    with (
        found,
        pytest.raises(
            StoreError, match=r"only the owner of its tables may make and drop indexes\. Connect as postgres"
        ),
    ):
        found.index()


def test_an_index_waits_for_a_model(tables):
    found = PostgresDatabase(tables, busy_timeout=5, statement_timeout=10, exact_rows=3)
    with found, pytest.raises(InputError, match="the store has none yet"):
        found.index()


def test_writers_and_readers_go_on_while_an_index_is_made(database, store, tables):
    with ThreadPoolExecutor(1) as pool:
        making = pool.submit(database.index)
        for n in range(20, 40):
            add(store, stored(n))
        assert making.result().made
    assert database.check() == []


def test_many_memories_without_an_index_are_worth_a_hint(database, store, plant):
    plant("ANALYZE memories")
    assert [hint.rpartition(". ")[2] for hint in database.state().hints] == [checking.MAKE_INDEX]
    assert "1 tenants have more than 3 memories" in database.state().hints[0]
    database.index()
    assert database.state().hints == ()


def test_deleted_rows_are_worth_a_hint_when_they_are_many(database, store, monkeypatch):
    table = admin.TableState("memories", 40_000, 10_000, 1)
    assert list(admin.bloated([table])) == [
        "the table 'memories' holds 10,000 deleted rows. Let autovacuum come sooner, or run: "
        "VACUUM (ANALYZE) salience.memories"
    ]
    assert list(admin.bloated([admin.TableState("memories", 60_000, 10_000, 1)])) == []
    assert list(admin.bloated([admin.TableState("memories", 10, 9_999, 1)])) == []


def test_the_state_tells_what_is_there(database, store, plant):
    plant("ANALYZE memories")
    state = database.state()
    assert (state.embedder, state.dimension, state.language) == ("e", DIMENSION, "english")
    assert state.is_ready
    assert {table.name: table.rows for table in state.tables}["memories"] == 5
    assert all(index.valid for index in state.indexes)
