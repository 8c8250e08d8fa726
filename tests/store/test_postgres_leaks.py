"""Tenants on one database never meet: not by any verb, nor by statements that say nothing of a tenant."""

import re
from dataclasses import dataclass

import psycopg
import pytest
from sqlalchemy import Engine as Database
from sqlalchemy import event

from bench.leaks import Found, Holder, Home, all_homes, name, shown
from bench.torture_postgres import (
    FORBIDDEN,
    TABLES,
    WITHOUT_TENANT,
    affected,
    application,
    find_tenant_leaks,
    open_leak,
    opened,
    statements,
)
from salience import ANY
from salience.engine import Engine
from salience.errors import NotFoundError
from salience.records import Grant

VALUE = r'%\(\w+\)s(?:::\w+)?(?: COLLATE "C")?'
TENANT = re.compile(rf"(?:\w+\.)?tenant (?:= {VALUE}|IN \((?:{VALUE}(?:, )?)+\))")
"""A condition on the tenant, as SQLAlchemy writes it."""


ON_ID = {
    "get": lambda engine, id: engine.get(id, user_id=ANY),
    "explain": lambda engine, id: engine.explain("tea", id, user_id=ANY),
    "history": lambda engine, id: engine.history(id, user_id=ANY),
    "update": lambda engine, id: engine.update(id, content="changed", user_id=ANY),
    "forget": lambda engine, id: engine.forget(id, user_id=ANY),
    "restore": lambda engine, id: engine.restore(id, user_id=ANY),
    "erase": lambda engine, id: engine.erase([id], user_id=ANY),
    "supersede": lambda engine, id: engine.remember("newer", supersedes=id, user_id="alice"),
}


@dataclass
class Tenant:
    name: str
    engine: Engine
    text: str
    id: str


@pytest.fixture
def two(tables):
    """Two tenants on one pool, each with a memory, and the DSN of the application's user."""
    with opened(tables, pool_size=2) as engine, application(tables) as dsn:
        tenants = []
        for number in range(2):
            own, text = engine.of(name(number)), f"mark{number:04d}end likes tea"
            tenants.append(Tenant(name(number), own, text, own.remember(text, tags=["shared"]).memory.id))
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
    found = find_tenant_leaks(tables, tenants=6, threads=8, seed=1, turns=25)
    assert found.faults == {}
    assert found.leaks == 0
    assert found.done.total() > 100
    assert found.beyond.total() > 10
    assert found.statements >= 5 * len(WITHOUT_TENANT) * len(TABLES)


def test_row_level_security_alone_keeps_tenants_apart(tables, forgotten):
    """Each WHERE forgotten, all verbs at once: nobody sees or changes more than before."""
    found = find_tenant_leaks(tables, tenants=4, threads=6, seed=2, turns=20)
    assert found.faults == {}
    assert forgotten[0] > 300


def test_the_search_for_leaks_finds_them(database, forgotten):
    """The same without row-level security, so that the two tests above are known to look."""
    open_leak(database)
    found = find_tenant_leaks(database, tenants=4, threads=2, seed=2, turns=20)
    assert found.leaks > 0
    for what in ("rows by hand", "was answered", "shows the text", "shows the id"):
        assert any(what in fault for fault in found.faults)


@pytest.mark.parametrize("verb", ON_ID)
def test_the_memory_of_another_tenant_is_not_found(two, verb):
    (one, other), _ = two
    with pytest.raises(NotFoundError) as told:
        ON_ID[verb](one.engine, other.id)
    assert other.text not in str(told.value)
    assert other.engine.get(other.id).content == other.text


def test_coordinates_of_every_value_stay_within_the_tenant(two):
    one = two[0][0]
    assert [hit.memory.id for hit in one.engine.recall("tea", min_score=0, user_id=ANY, limit=50)] == [one.id]
    assert one.engine.stats(user_id=ANY).memories == 1


def test_statements_by_hand_see_and_change_no_rows_of_others(two):
    with psycopg.connect(two[1], autocommit=True) as connection:
        assert [what for what, rows in statements(connection, name(0), name(1)) if rows] == []
        with connection.transaction():
            connection.execute(f"SET LOCAL salience.tenant = '{name(0)}'")
            assert connection.execute("SELECT DISTINCT tenant FROM salience.memories").fetchall() == [(name(0),)]
            assert connection.execute("UPDATE salience.memories SET weight = 0.5").rowcount == 1


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
    engines = [tenant.engine for tenant in two[0]]
    left = []

    def look(connection):
        with psycopg.Cursor(connection.connection.driver_connection) as cursor:
            asked = "SELECT current_setting('salience.tenant', true), current_setting('salience.key', true)"
            left.append(cursor.execute(f"{asked}, current_user").fetchone())

    engines[0].recall("tea")
    with pytest.raises(NotFoundError):
        engines[0].get("0" * 32)
    engines[0].services.store.tenants()  # as the operator
    event.listen(Database, "engine_connect", look, once=True)
    engines[1].stats()
    assert left == [("", None, "postgres")]


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


def test_foreign_marks_names_and_ids_are_found():
    own, other = Home(0, name(0), None, None), Home(1, name(1), None, None)
    reader = Holder(0, "", Grant(tenant=name(0), rights=("read",), name="reader"), [own])
    found = Found(all_homes(2), home_of={"0" * 32: own, "1" * 32: other})
    for text, leaks in (
        (f"{own.mark} of {own.tenant}, {'0' * 32}", []),
        (other.mark.upper(), ["the text of another's memory"]),
        (f"for {other.tenant}", ["another's name"]),
        ("1" * 32, ["the id of another's memory"]),
    ):
        assert shown(reader, text, found) == leaks
    assert shown(reader, own.mark, found, ok=False) == ["the text of another's memory"]
