"""Tenants on one database never meet: not by any verb, nor by statements that say nothing of a tenant."""

import re
from random import Random

import psycopg
import pytest
from sqlalchemy import Engine as Database
from sqlalchemy import event

from bench.torture_postgres import (
    FORBIDDEN,
    ON_ID,
    TABLES,
    WITHOUT_TENANT,
    Found,
    Tenant,
    Turn,
    affected,
    application,
    find_leaks,
    name,
    open_leak,
    opened,
    search,
    statements,
)
from salience import ANY
from salience.errors import NotFoundError

VALUE = r'%\(\w+\)s(?:::\w+)?(?: COLLATE "C")?'
TENANT = re.compile(rf"(?:\w+\.)?tenant (?:= {VALUE}|IN \((?:{VALUE}(?:, )?)+\))")
"""A condition on the tenant, as SQLAlchemy writes it."""


@pytest.fixture
def two(tables):
    """Two tenants on one pool, each with a memory, and the DSN of the application's user."""
    with opened(tables, pool_size=2) as engine, application(tables) as dsn:
        tenants = [Tenant(number, [engine]) for number in range(2)]
        for one in tenants:
            one.ids.append(one.engines[0].remember(f"{one.mark} likes tea", tags=["shared"]).memory.id)
        yield tenants, dsn


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
    found = find_leaks(tables, tenants=12, threads=8, seed=1, turns=25)
    assert found.faults == {}
    assert found.foreign == found.seen == found.changed == 0
    assert found.verbs.total() > 100
    assert found.refused.total() > 10
    assert found.statements >= 5 * len(WITHOUT_TENANT) * len(TABLES)


def test_row_level_security_alone_keeps_tenants_apart(tables, forgotten):
    """Each WHERE forgotten, all verbs at once: nobody sees or changes more than before."""
    found = find_leaks(tables, tenants=6, threads=6, seed=2, turns=20)
    assert found.faults == {}
    assert forgotten[0] > 300


def test_the_search_for_leaks_finds_them(database, forgotten):
    """The same without row-level security, so that the two tests above are known to look."""
    open_leak(database)
    found = find_leaks(database, tenants=6, threads=2, seed=2, turns=20)
    assert found.foreign > 0
    assert found.seen > 0
    assert any("was answered" in fault for fault in found.faults)


@pytest.mark.parametrize("verb", ON_ID)
def test_the_memory_of_another_tenant_is_not_found(two, verb):
    (one, other), _ = two
    with pytest.raises(NotFoundError) as told:
        ON_ID[verb][0](Turn(one, other, Random(1)), other.ids[0])
    assert other.mark not in str(told.value)
    assert other.engines[0].get(other.ids[0]).content == f"{other.mark} likes tea"


def test_coordinates_of_every_value_stay_within_the_tenant(two):
    one = two[0][0]
    engine = one.engines[0]
    assert [hit.memory.id for hit in engine.recall("tea", min_score=0, user_id=ANY, limit=50)] == one.ids
    assert engine.stats(user_id=ANY).memories == 1


def test_statements_by_hand_see_and_change_no_rows_of_others(two):
    found = Found()
    with psycopg.connect(two[1], autocommit=True) as connection:
        statements(connection, name(0), name(1), found)
        with connection.transaction():
            connection.execute(f"SET LOCAL salience.tenant = '{name(0)}'")
            assert connection.execute("SELECT DISTINCT tenant FROM salience.memories").fetchall() == [(name(0),)]
            assert connection.execute("UPDATE salience.memories SET weight = 0.5").rowcount == 1
    assert (found.seen, found.changed, found.faults) == (0, 0, {})


@pytest.mark.parametrize("statement", FORBIDDEN)
def test_the_application_may_not(two, statement):
    with psycopg.connect(two[1], autocommit=True) as connection:
        assert affected(connection, "", statement) is None


def test_statistics_of_the_columns_are_hidden(two):
    """They hold the most frequent values of columns, across tenants."""
    asked = "SELECT count(*) FROM pg_stats WHERE schemaname = 'salience' AND tablename = 'memories'"
    with psycopg.connect(two[1], autocommit=True) as connection:
        assert connection.execute(asked).fetchone() == (0,)


def test_a_connection_that_was_given_back_belongs_to_nobody(two):
    """What a pool hands out next has no tenant, no operator and no role of the transaction before."""
    engines = [tenant.engines[0] for tenant in two[0]]
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
        one, other = engine.of("one"), engine.of("other")
        mine = one.remember("of one").memory
        with pytest.raises(NotFoundError):
            other.update(mine.id, content="of other")
        other.remember("of other")
        assert [item.content for item in other.list().memories] == ["of other"]
        assert one.get(mine.id).content == "of one"


def test_an_interrupted_transaction_is_not_gone_on_with(tables):
    """A Ctrl-C in the middle of one tenant's write: the connection is let go of, and nothing of it is there."""
    with opened(tables, pool_size=1) as engine:
        one, other = engine.of("one"), engine.of("other")
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
            engine.of(tenant).remember(f"memory {number}")
        for number, tenant in enumerate(names):
            assert [item.content for item in engine.of(tenant).list().memories] == [f"memory {number}"]


def test_foreign_marks_names_and_ids_are_found(two):
    (one, other), _ = two
    for answer, leaks in (
        ({"said": [one.mark, one.name]}, 0),
        ([other.mark.upper()], 1),
        (f"for {other.name}", 1),
        (tuple(other.ids), 1),
    ):
        found = Found()
        found.owners[other.ids[0]] = other.number
        search(Turn(one, other, Random(1)), "get", answer, found)
        assert found.foreign == leaks
