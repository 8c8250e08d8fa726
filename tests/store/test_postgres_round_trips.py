"""The statements that each verb sends to PostgreSQL, and whether each of them names the tenant."""

import pytest

import salience
from on_citus.statements import read
from salience.store.postgres.connection import Runner, Session
from tests.contract.doubles import PlantedEmbedder
from tests.postgres_proxy import Wire

ANN = {"user_id": "ann"}
CONTROL = ("BEGIN", "COMMIT", "SELECT set_config(")


def filled(dsn, count):
    """Return an engine on a store of some memories, and the wire between the two."""
    wire = Wire(dsn)
    memory = salience.connect(wire.dsn, embedder=PlantedEmbedder())
    memory.services.access_log._linger = 3600.0  # the tests write it
    texts = [f"note {number} of the trip to {('Rome', 'Oslo', 'Paris')[number % 3]}" for number in range(count)]
    memory.remember_many([{"content": text} for text in texts], **ANN)
    memory.recall("the trip to Rome", **ANN)
    memory.services.access_log.flush()
    return memory, wire


@pytest.fixture
def small(tables):
    """A store whose memories are all in the index of the process."""
    memory, wire = filled(tables, 200)
    with wire, memory:
        yield memory, wire


@pytest.fixture
def large(tables, monkeypatch):
    """A store that searches by the postings and vectors in the database."""
    monkeypatch.setenv("SALIENCE_EXACT_ROWS", "50")
    memory, wire = filled(tables, 600)
    with wire, memory:
        yield memory, wire


def sent_by(wire, work):
    """Return the statements that a function sends, with those of transactions and settings."""
    wire.statements.clear()
    work()
    return list(wire.statements)


@pytest.mark.parametrize("query", ["note 17", "the trip to Oslo"])
def test_a_verb_that_reads_sends_a_query_with_its_settings_and_begins_no_transaction(small, query):
    memory, wire = small
    (hit, *_) = memory.recall(query, **ANN)  # brings the index up to date
    assert len(sent_by(wire, lambda: memory.recall(query, **ANN))) <= 6  # speakers, candidates, hits
    assert len(sent_by(wire, lambda: memory.context(query, budget_tokens=200, **ANN))) <= 8
    memory.services.access_log.flush()  # else `explain` and `get` would write the accesses first
    assert len(sent_by(wire, lambda: memory.explain(query, hit.memory.id, **ANN))) <= 10
    assert len(sent_by(wire, lambda: memory.get(hit.memory.id, **ANN))) <= 4  # the memory, and what replaced it


@pytest.mark.parametrize("query", ["note 17", "the trip to Oslo"])  # a rare term, and frequent ones alone
def test_a_recall_of_many_memories_sends_few_statements(large, query):
    memory, wire = large
    assert len(sent_by(wire, lambda: memory.recall(query, **ANN))) <= 15
    memory.services.access_log.flush()
    assert len(sent_by(wire, lambda: memory.context(query, budget_tokens=200, **ANN))) <= 20


@pytest.mark.slow
@pytest.mark.parametrize(("store", "most"), [("small", 13), ("large", 18)])
def test_a_write_sends_few_statements_and_each_of_them_names_the_tenant(store, most, request):
    memory, wire = request.getfixturevalue(store)
    memory.services.access_log.flush()
    for work in (
        lambda: memory.remember("The weather was mild", **ANN),
        lambda: memory.ingest([{"role": "user", "content": "hello"}], session_id="s", **ANN),
    ):
        sent = sent_by(wire, work)
        assert len(sent) <= most
        queries = [statement for statement in sent if not statement.startswith(CONTROL)]
        assert [query for query in queries if read(query).unbound] == []


def test_rows_are_written_many_at_a_time(small, tmp_path):
    """The number of statements does not grow with that of the memories, as a cluster would route each of them."""
    memory, wire = small
    memory.services.access_log.flush()

    def drafts(count, word):
        return [{"content": f"{word} {number} of the trip", **ANN} for number in range(count)]

    few = sent_by(wire, lambda: memory.remember_many(drafts(20, "letter")))
    many = sent_by(wire, lambda: memory.remember_many(drafts(100, "parcel")))
    assert len(few) <= 14
    assert len(many) <= len(few) + 3
    memory.export(tmp_path / "export.jsonl", user_id=salience.ANY)
    other = memory.of("other")
    assert len(sent_by(wire, lambda: other.import_(tmp_path / "export.jsonl"))) <= 25
    assert other.stats(user_id=salience.ANY).memories == 320


def test_accesses_are_written_in_one_transaction(small):
    memory, wire = small
    memory.recall("note 17", **ANN), memory.recall("the trip to Oslo", **ANN)
    sent = sent_by(wire, memory.services.access_log.flush)
    assert len(sent) <= 8  # two for each recall, and BEGIN, settings, the record of the write, COMMIT


def test_counts_are_made_by_the_database(large):
    memory, wire = large
    assert len(sent_by(wire, lambda: memory.stats(**ANN))) <= 6
    assert memory.stats(**ANN).memories == 600


def test_upkeep_reads_large_pages(large):
    memory, wire = large
    assert len(sent_by(wire, lambda: memory.consolidate(**ANN))) <= 20
    assert len(sent_by(wire, memory.upkeep)) <= 110


@pytest.mark.parametrize("one_state", [True, False])
def test_a_setting_ends_with_its_transaction(tables, one_state):
    """A pooler may give the connection to somebody else after each transaction."""
    with salience.connect(tables, embedder=PlantedEmbedder()) as memory:
        memory.remember("Alice lives in Oslo", **ANN)
        runner = memory.services.store._runner
        asked = "SELECT current_setting('salience.tenant', true), current_user, current_setting('statement_timeout')"

        def seen(reader):
            return reader.exec_driver_sql("SELECT count(*) FROM memories").scalar(), reader.exec_driver_sql(asked).one()

        count, (tenant, role, _) = runner.read("default", seen, one_state=one_state)
        assert (count, tenant, role) == (1, "default", "salience_app")
        with runner._engine.connect() as left:
            tenant, role, timeout = left.exec_driver_sql(asked).one()
        assert (tenant or "", role == "salience_app", timeout) == ("", False, "0")


def test_a_query_outside_a_transaction_sees_no_rows_of_another_tenant(tables):
    with salience.connect(tables, embedder=PlantedEmbedder()) as memory:
        memory.remember("Alice lives in Oslo", **ANN)
        runner = memory.services.store._runner
        counts = [
            runner.read(
                tenant, lambda reader: reader.exec_driver_sql("SELECT count(*) FROM memories").scalar(), one_state=False
            )
            for tenant in ("default", "other", "", "default")
        ]
    assert counts == [1, 0, 0, 1]


def test_an_error_outside_a_transaction_leaves_a_connection_that_works(tables):
    with salience.connect(tables, embedder=PlantedEmbedder()) as memory:
        runner: Runner = memory.services.store._runner
        with pytest.raises(salience.StoreError, match="22012"):
            runner.read("default", lambda reader: reader.exec_driver_sql("SELECT 1 / 0").scalar(), one_state=False)
        assert runner.read("default", lambda reader: reader.exec_driver_sql("SELECT 1").scalar(), one_state=False) == 1
        assert runner.connections() == {"in_use": 0, "idle": 1}


def test_a_cluster_gets_the_tenant_by_a_statement_that_its_workers_get_too():
    session = Session(None, ("salience",), 60.0, citus=True)
    assert session.begin("read", "o'hara", 5.0)[-1] == "SET LOCAL salience.tenant = 'o''hara'"
    assert session.begin("write", "a", 5.0)[-2:] == (
        "SET LOCAL lock_timeout = '5000'",
        "SET LOCAL salience.tenant = 'a'",
    )
    assert session.switch(None) == ("SET LOCAL salience.tenant = ''",)
