"""The number of statements that each verb sends to PostgreSQL, and whether each names the tenant."""

from contextlib import contextmanager
from unittest.mock import patch

import pytest
from sqlalchemy import Engine, event

import salience
from on_citus.statements import read
from salience.store.postgres import connection as connections
from salience.testing.doubles import PlantedEmbedder

ANN = {"user_id": "ann"}


@contextmanager
def counting():
    """Collect every statement that is sent, but for BEGIN with its settings, COMMIT and ROLLBACK."""
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


def test_a_recall_sends_few_statements(small):
    assert len(sent_by(lambda: small.recall("the trip to Oslo", **ANN))) <= 4
    assert len(sent_by(lambda: small.context("the trip to Oslo", budget_tokens=200, **ANN))) <= 8


def test_a_recall_of_many_memories_sends_few_statements(large):
    assert len(sent_by(lambda: large.recall("note 17", **ANN))) <= 8


def test_a_write_sends_few_statements_and_each_names_the_tenant(small):
    small.services.access_log.flush()
    for work, most in (
        (lambda: small.remember("The weather was mild", **ANN), 6),
        (lambda: small.ingest([{"role": "user", "content": "hello"}], session_id="s", **ANN), 6),
    ):
        sent = sent_by(work)
        assert len(sent) <= most
        assert [statement for statement in sent if read(statement).unbound] == []


def test_counts_are_made_by_the_database(large):
    assert len(sent_by(lambda: large.stats(**ANN))) <= 3
    assert large.stats(**ANN).memories == 600


def test_upkeep_reads_large_pages(large):
    assert len(sent_by(lambda: large.consolidate(**ANN))) <= 6
    assert len(sent_by(large.upkeep)) <= 50
