"""Fetching by id: any number of ids, any scope, whole and short, as `Scope.sees` has it."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from itertools import product

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy.dialects import sqlite

from salience.errors import StoreError
from salience.ports import Add, Stored
from salience.records import ANY, Scope
from salience.records.checks import frozen
from salience.records.ids import SHORT
from salience.store.rows import of_stored, to_memory
from salience.store.sqlite import SQLiteStore
from salience.store.statements import live_of
from tests.contract.memories import DIMENSION, EVERYTHING, NOW, id_of, stored

HOMES = [
    {"project": project, "user_id": user, "agent_id": agent}
    for project, user, agent in product((None, "p"), (None, "u", "w"), (None, "a"))
]
SEEN = [
    Scope(environment=environment, project=project, user_id=user, agent_id=agent)
    for environment, project, user, agent in product(
        ("default", "other", ANY), (None, "p", ANY), (None, "u", ANY), ("a", ANY)
    )
]
MEMORIES: list[Stored] = [stored(number, **HOMES[number % len(HOMES)]) for number in range(67)]
NUMBERS = range(len(MEMORIES))


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SQLiteStore]:
    path = tmp_path_factory.mktemp("fetch") / "agent.db"
    made = SQLiteStore.open(path, embedder="test", dimension=DIMENSION, language="english", busy_timeout=5.0)
    made.apply([Add(one) for one in MEMORIES])
    yield made
    made.close()


@pytest.mark.parametrize("count", [0, 1, 2, 33, len(MEMORIES)])
def test_any_number_is_fetched_in_the_order_in_which_it_is_asked_for(store: SQLiteStore, count: int) -> None:
    ids = [id_of(number) for number in reversed(range(count))]
    assert [memory.id for memory in store.fetch(EVERYTHING, ids)] == ids


@pytest.mark.parametrize("scope", SEEN)
def test_each_scope_fetches_what_it_sees(store: SQLiteStore, scope: Scope) -> None:
    found = store.fetch(scope, [one.memory.id for one in MEMORIES])
    assert found == [one.memory for one in MEMORIES if scope.sees(one.memory.scope)]


@given(st.lists(st.sampled_from([*NUMBERS, 1000]), max_size=40), st.lists(st.booleans(), min_size=40, max_size=40))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whole_and_short_ids_may_stand_beside_each_other(store, numbers, shortened):
    asked = [
        id_of(number)[-SHORT:] if short else id_of(number) for number, short in zip(numbers, shortened, strict=False)
    ]
    expected = [MEMORIES[number].memory for number in numbers if number in NUMBERS]
    assert store.fetch(EVERYTHING, asked) == expected


def test_scopes_of_one_shape_share_a_statement_without_values() -> None:
    few, many = (
        live_of(scope, ids) for scope, ids in ((Scope(project="p"), []), (Scope(project="q' OR 1"), ["x' OR 1"]))
    )
    assert few[0] is many[0]
    assert "' OR 1" not in str(many[0])
    assert many[1] == {"tenant": "default", "environment": "default", "project": "q' OR 1", "ids": ["x' OR 1"]}
    assert live_of(Scope(), [])[0] is not few[0]


@pytest.mark.parametrize(("column", "index"), [("id", "tenant=? AND id=?"), ("short_id", "tenant=? AND short_id=?")])
def test_sqlite_looks_ids_up_in_an_index(store: SQLiteStore, column: str, index: str) -> None:
    query, values = live_of(Scope(user_id="u"), ["a", "b"], column)
    statement = str(query.compile(dialect=sqlite.dialect(paramstyle="named")))
    with closing(sqlite3.connect(store._path)) as connection:
        plan = connection.execute(f"EXPLAIN QUERY PLAN {statement}", {**values, "ids": json.dumps(values["ids"])})
        assert index in str(plan.fetchall())


@pytest.mark.parametrize("other", ["", '"', "\\", "\0", "\ud800", "x' OR 1", f'{id_of(2)}"', f"{id_of(2)}\0"])
def test_a_text_that_is_no_id_finds_nothing(store: SQLiteStore, other: str) -> None:
    assert [memory.id for memory in store.fetch(EVERYTHING, [other, id_of(1), id_of(1)])] == [id_of(1), id_of(1)]


@pytest.mark.parametrize("column", ["tags", "entities", "sources", "metadata"])
@pytest.mark.parametrize("damage", ["", "[", "{}{}", '["a"] ["b"]', 7, None])
def test_a_row_with_what_was_never_written_is_damaged(column, damage):
    row = of_stored(stored(7), DIMENSION)
    with pytest.raises(StoreError, match="damaged"):
        to_memory({**row, column: damage})


@pytest.mark.parametrize(
    "values",
    [
        {},
        {
            "tags": ("a", 'b"', "ß"),
            "entities": ("Ann",),
            "sources": (id_of(1), id_of(2)),
            "metadata": {"a": [1, {"b": None}]},
        },
        {
            "accessed_at": NOW,
            "expires_at": NOW.replace(year=9999),
            "forgotten_at": NOW.replace(microsecond=1),
            "turn": 3,
        },
        {"project": "p", "user_id": "u", "agent_id": "a", "session_id": "s", "speaker": "Ann", "reason": "why"},
    ],
)
def test_a_memory_comes_back_from_its_row_as_it_went_in(values):
    one = stored(7, **values)
    row = of_stored(one, DIMENSION)
    assert to_memory(row) == one.memory
    assert type(to_memory(row).metadata) is type(frozen({}))
