"""Tenants on one database never meet: not by any verb, nor by statements that say nothing of a tenant."""

import re
import threading

import psycopg
import pytest
from sqlalchemy import Engine as Database
from sqlalchemy import event

from bench.torture.writing import seeded
from bench.torture_postgres import deeds
from bench.torture_postgres.deeds import House, Turn
from bench.torture_postgres.housing import of, opened, probe
from bench.torture_postgres.leaks import leaks
from bench.torture_postgres.marks import Owners, mark, name
from bench.torture_postgres.prowl import FORBIDDEN, TABLES, WAYS, Prowl, inside, outside, prowl, refused
from salience import ANY
from salience.errors import NotFoundError

VALUE = r'%\(\w+\)s(?:::\w+)?(?: COLLATE "C")?'
TENANT = re.compile(rf"(?:\w+\.)?tenant (?:= {VALUE}|IN \((?:{VALUE}(?:, )?)+\))")
"""A condition on the tenant, as SQLAlchemy writes it."""


@pytest.fixture
def two(tables):
    """The engines of two tenants on one pool, each with a memory, and the DSN of the application's user."""
    with opened(tables, pool_size=2) as engine, probe(tables) as application:
        engines = [of(engine, name(number)) for number in range(2)]
        ids = [one.remember(f"{mark(n)} likes tea", tags=["shared"]).memory.id for n, one in enumerate(engines)]
        yield engines, ids, application


@pytest.fixture
def forgotten():
    """Every condition on a tenant is left out of the statements that read or change rows; how many were is counted."""
    count = [0]

    def forget(connection, cursor, statement, parameters, context, executemany):
        if not statement.startswith("INSERT") or "SELECT" in statement:
            statement, found = TENANT.subn("true", statement)
            count[0] += found
        return statement, parameters

    event.listen(Database, "before_cursor_execute", forget, retval=True)
    yield count
    event.remove(Database, "before_cursor_execute", forget)


def test_no_tenant_meets_another(tables):
    found = leaks(tables, tenants=12, threads=8, seed=1, turns=25)
    assert found.faults == {}
    assert found.foreign == found.prowl.seen == found.prowl.changed == 0
    assert found.verbs.total() > 100
    assert found.refused.total() > 10
    assert found.prowl.tried >= 2 * len(WAYS) * len(TABLES)


def test_row_level_security_alone_keeps_tenants_apart(tables, forgotten):
    """Each WHERE forgotten, all verbs at once: nobody sees or changes more than before."""
    found = leaks(tables, tenants=6, threads=6, seed=2, turns=20)
    assert found.faults == {}
    assert found.foreign == 0
    assert forgotten[0] > 300


def test_the_search_for_leaks_finds_them(database, forgotten):
    """The same without row-level security, so that the two tests above are known to look."""
    opened(database).close()
    with psycopg.connect(database, autocommit=True) as superuser:
        for table in TABLES:
            superuser.execute(f"ALTER TABLE salience.{table} DISABLE ROW LEVEL SECURITY")
    found = leaks(database, tenants=6, threads=2, seed=2, turns=20)
    assert found.foreign > 0
    assert found.prowl.seen > 0
    assert any("was answered" in fault for fault in found.faults)


@pytest.mark.parametrize("verb", deeds.ON_AN_ID)
def test_what_is_anothers_is_not_there(two, verb):
    engines, ids, _ = two
    turn = Turn(House(0, engines), engines[0], seeded(1), House(1, engines))
    with pytest.raises(NotFoundError) as told:
        deeds.ON_AN_ID[verb][0](turn, ids[1])
    assert mark(1) not in str(told.value)
    assert engines[1].get(ids[1]).content == f"{mark(1)} likes tea"


def test_coordinates_of_every_value_stay_within_the_tenant(two):
    engines, ids, _ = two
    assert [hit.memory.id for hit in engines[0].recall("tea", min_score=0, user_id=ANY, limit=50)] == [ids[0]]
    assert engines[0].stats(user_id=ANY).memories == 1


@pytest.mark.parametrize("way", WAYS)
def test_without_a_tenant_there_are_no_rows(two, way):
    _, _, application = two
    found = Prowl()
    with psycopg.connect(application, autocommit=True) as connection:
        outside(connection, way, name(1), found)
    assert (found.seen, found.changed, found.faults) == (0, 0, {})
    assert found.tried == 5 * len(TABLES) + 2


def test_with_a_tenant_there_are_no_others_rows(two):
    _, _, application = two
    found = Prowl()
    with psycopg.connect(application, autocommit=True) as connection:
        inside(connection, name(0), name(1), found)
        with connection.transaction():
            connection.execute(f"SET LOCAL salience.tenant = '{name(0)}'")
            assert connection.execute("SELECT DISTINCT tenant FROM salience.memories").fetchall() == [(name(0),)]
            assert connection.execute("UPDATE salience.memories SET weight = 0.5").rowcount == 1
            assert connection.execute("DELETE FROM salience.access_log").rowcount >= 0
    assert (found.seen, found.changed, found.faults) == (0, 0, {})


@pytest.mark.parametrize("statement", FORBIDDEN)
def test_the_application_may_not(two, statement):
    found = Prowl()
    with psycopg.connect(two[2], autocommit=True) as connection:
        refused(connection, statement, found)
    assert (found.tried, found.faults) == (1, {})


def test_statistics_of_the_columns_are_hidden(two):
    """They hold the most frequent values of columns, across tenants."""
    _, _, application = two
    asked = "SELECT count(*) FROM pg_stats WHERE schemaname = 'salience' AND tablename = 'memories'"
    with psycopg.connect(application, autocommit=True) as connection:
        assert connection.execute(asked).fetchone() == (0,)


def test_a_connection_that_was_given_back_belongs_to_nobody(two):
    """What a pool hands out next has no tenant, no operator and no role of the transaction before."""
    engines, _, _ = two
    left = []

    def look(connection):
        with psycopg.Cursor(connection.connection.driver_connection) as cursor:
            asked = "SELECT current_setting('salience.tenant', true), current_setting('salience.operator', true)"
            left.append(cursor.execute(f"{asked}, current_user").fetchone())

    engines[0].recall("tea")
    with pytest.raises(NotFoundError):
        engines[0].get("0" * 32)
    engines[0].services.store.pinned()  # as the operator
    event.listen(Database, "engine_connect", look, once=True)
    engines[1].stats()
    assert left == [("", "", "postgres")]


def test_a_write_that_fails_leaves_the_next_on_its_connection_its_own(tables):
    with opened(tables, pool_size=1) as engine:
        one, other = of(engine, "one"), of(engine, "other")
        mine = one.remember("of one").memory
        with pytest.raises(NotFoundError):
            other.update(mine.id, content="of other")
        other.remember("of other")
        assert [item.content for item in other.list().memories] == ["of other"]
        assert one.get(mine.id).content == "of one"


def test_an_interrupted_transaction_is_not_gone_on_with(tables):
    """A Ctrl-C in the middle of one tenant's write: the connection is let go of, and nothing of it is there."""
    with opened(tables, pool_size=1) as engine:
        one, other = of(engine, "one"), of(engine, "other")
        one.remember("first")

        def interrupt(connection, cursor, statement, parameters, context, executemany):
            if statement.startswith("INSERT INTO memories"):
                raise KeyboardInterrupt

        event.listen(Database, "after_cursor_execute", interrupt)
        try:
            with pytest.raises(KeyboardInterrupt):
                one.remember("second")
        finally:
            event.remove(Database, "after_cursor_execute", interrupt)
        other.remember("third")
        assert [item.content for item in other.list().memories] == ["third"]
        assert [item.content for item in one.list().memories] == ["first"]


def test_names_of_tenants_are_only_names(tables):
    """Quotation marks, backslashes and semicolons in them do nothing."""
    names = ["a'b", "a\\", "'; SET LOCAL salience.operator = 'on'; --", 'a"b', "on", "ä" * 128]
    with opened(tables) as engine:
        for number, tenant in enumerate(names):
            of(engine, tenant).remember(f"memory {number}")
        for number, tenant in enumerate(names):
            assert [item.content for item in of(engine, tenant).list().memories] == [f"memory {number}"]


def test_prowling_goes_on_until_told_to_stop(two):
    _, _, application = two
    stop = threading.Event()
    stop.set()
    found = prowl(application, [name(0), name(1)], seeded(1), stop)
    assert found.tried > len(WAYS) * len(TABLES) * 5
    assert found.faults == {}


def test_owners_tell_foreign_marks_names_and_ids():
    owners = Owners()
    owners.note(1, ["1" * 32])
    assert owners.foreign(0, {"said": [mark(0), name(0)]}) == []
    assert owners.foreign(0, ("1" * 32,), frozenset({"1" * 32})) == []
    assert owners.foreign(0, ("1" * 32,)) == [f"an id of {name(1)}"]
    assert owners.foreign(0, [mark(1).upper()]) == [mark(1)]
    assert owners.foreign(0, f"for {name(1)}") == [name(1)]
    assert owners.seen == {}
