"""The number of round trips that each verb makes to PostgreSQL, and whether each statement names the tenant."""

from contextlib import contextmanager
from unittest.mock import patch

import pytest
from sqlalchemy import Engine, event

import salience
from on_citus.statements import read
from salience.store.postgres import connection as connections
from tests.contract.doubles import PlantedEmbedder

ANN = {"user_id": "ann"}


@contextmanager
def counting():
    """Collect what is sent in each round trip, but for BEGIN (with settings and a first query), COMMIT and ROLLBACK."""
    sent, run = [], connections.run

    def turn(connection, statements):
        first = statements if isinstance(statements, str) else statements[0]
        if not first.startswith(("BEGIN", "COMMIT", "ROLLBACK")):
            sent.append(first)
        return run(connection, statements)

    def say(_, __, statement, *___):
        sent.append(statement)

    event.listen(Engine, "before_cursor_execute", say)
    try:
        with patch.object(connections, "run", turn):
            yield sent
    finally:
        event.remove(Engine, "before_cursor_execute", say)


def sent_by(work):
    with counting() as sent:
        work()
    return sent


def filled(dsn, count):
    memory = salience.connect(dsn, embedder=PlantedEmbedder())
    texts = [f"note {number} of the trip to {('Rome', 'Oslo', 'Paris')[number % 3]}" for number in range(count)]
    memory.remember_many([{"content": text} for text in texts], **ANN)
    memory.recall("the trip to Rome", **ANN)
    memory.services.access_log.flush()
    return memory


@pytest.fixture
def small(tables):
    """A store whose memories are all in the index of the process."""
    with filled(tables, 200) as memory:
        yield memory


@pytest.fixture
def large(tables, monkeypatch):
    """A store that searches by the postings and vectors in the database."""
    monkeypatch.setenv("SALIENCE_EXACT_ROWS", "50")
    with filled(tables, 600) as memory:
        yield memory


@pytest.mark.parametrize("query", ["note 17", "the trip to Oslo"])
def test_a_recall_makes_few_round_trips(small, query):
    assert len(sent_by(lambda: small.recall(query, **ANN))) <= 2
    small.services.access_log.flush()
    assert len(sent_by(lambda: small.context(query, budget_tokens=200, **ANN))) <= 3


@pytest.mark.parametrize("query", ["note 17", "the trip to Oslo"])  # a rare term, and frequent ones alone
def test_a_recall_of_many_memories_makes_few_round_trips(large, query):
    assert len(sent_by(lambda: large.recall(query, **ANN))) <= 7
    large.services.access_log.flush()
    assert len(sent_by(lambda: large.context(query, budget_tokens=200, **ANN))) <= 8


@pytest.mark.parametrize("store", ["small", "large"])
def test_a_write_makes_few_round_trips_and_each_statement_names_the_tenant(store, request):
    memory = request.getfixturevalue(store)
    memory.services.access_log.flush()
    for work in (
        lambda: memory.remember("The weather was mild", **ANN),
        lambda: memory.ingest([{"role": "user", "content": "hello"}], session_id="s", **ANN),
    ):
        sent = sent_by(work)
        assert len(sent) <= 8  # two of them read the memories near the new one, to decide how it is related
        assert [statement for statement in sent if read(statement).unbound] == []


def test_counts_are_made_by_the_database(large):
    assert len(sent_by(lambda: large.stats(**ANN))) <= 3
    assert large.stats(**ANN).memories == 600


def test_upkeep_reads_large_pages(large):
    assert len(sent_by(lambda: large.consolidate(**ANN))) <= 6
    assert len(sent_by(large.upkeep)) <= 50
