"""What is said to a cluster comes from one tenant's shard; and the check that says so finds what does not."""

import pytest
from sqlalchemy import text

import salience
from on_citus.cluster import emptied
from on_citus.fixtures import on_a_cluster, real_cluster, stub_cluster
from on_citus.recording import MULTI_SHARD, Bounds, Said, after, recording
from on_citus.statements import Value, read
from salience.errors import EmbedderError
from salience.rank import profiles
from salience.store.postgres import connection as connections
from tests.contract.doubles import PlantedEmbedder, StoppedClock

pytestmark = pytest.mark.slow

__all__ = ["real_cluster", "stub_cluster"]  # fixtures

ASKED = Value(parameter="t")
BOUND = [
    "SELECT id FROM memories WHERE tenant = %(t)s",
    'SELECT id FROM memories AS m WHERE m.kind = %(k)s AND (m.tenant = %(t)s::VARCHAR COLLATE "C" AND m.seq > 1)',
    "SELECT count(*) FROM versions WHERE tenant IN (%(t)s)",
    "SELECT v.id FROM memories AS m JOIN versions AS v ON v.tenant = m.tenant AND v.id = m.id WHERE m.tenant = %(t)s",
    "SELECT m.id FROM memories AS m LEFT JOIN touches AS t ON t.tenant = m.tenant WHERE m.tenant = %(t)s",
    "SELECT id FROM memories WHERE tenant = %(t)s AND id IN (SELECT id FROM touches WHERE tenant = %(t)s)",
    "SELECT id FROM memories WHERE tenant = %(t)s UNION SELECT id FROM touches WHERE tenant = %(t)s",
    "SELECT near.id FROM (SELECT id FROM memories WHERE tenant = %(t)s LIMIT 5) AS near",
    "WITH few AS (SELECT id FROM memories WHERE tenant = %(t)s) SELECT id FROM few",
    "WITH RECURSIVE up AS (SELECT id FROM memories WHERE tenant = %(t)s UNION "
    "SELECT m.id FROM memories AS m JOIN up ON m.supersedes = up.id WHERE m.tenant = %(t)s) SELECT id FROM up",
    "INSERT INTO tenants AS t (tenant, sequence, epoch) VALUES (%(t)s, 1, '') "
    "ON CONFLICT (tenant) DO UPDATE SET sequence = t.sequence + 1 RETURNING sequence",
    "INSERT INTO touches (seq, tenant, id) SELECT 1, m.tenant, m.id FROM memories AS m WHERE m.tenant = %(t)s",
    "UPDATE memories SET vector = (SELECT l.vector FROM laid_by AS l WHERE l.tenant = %(t)s AND l.id = memories.id) "
    "WHERE tenant = %(t)s",
    "DELETE FROM memories USING touches WHERE memories.tenant = %(t)s AND touches.tenant = memories.tenant",
]
UNBOUND = {
    "SELECT id FROM memories": ["memories"],
    "SELECT id FROM memories AS m WHERE m.tenant > %(t)s": ["memories AS m"],
    "SELECT id FROM memories WHERE tenant = %(t)s OR id = 'a'": ["memories"],
    "SELECT id FROM memories WHERE NOT tenant = %(t)s": ["memories"],
    "SELECT id FROM memories WHERE tenant IN (%(t)s, %(u)s)": ["memories"],
    "SELECT id FROM memories WHERE tenant = lower(%(t)s)": ["memories"],
    "SELECT m.id FROM memories AS m, touches AS t WHERE m.tenant = %(t)s AND t.id = m.id": ["touches AS t"],
    "SELECT m.id FROM memories AS m LEFT JOIN touches AS t ON m.tenant = %(t)s AND t.tenant = %(t)s": ["memories AS m"],
    "SELECT m.id FROM memories AS m FULL JOIN touches AS t ON m.tenant = %(t)s": ["memories AS m", "touches AS t"],
    "SELECT id FROM memories WHERE tenant = %(t)s AND id IN (SELECT id FROM touches)": ["touches"],
    "SELECT (SELECT count(*) FROM versions AS v WHERE v.tenant = m.tenant) FROM memories AS m WHERE m.tenant = %(t)s": [
        "versions AS v"
    ],
    "SELECT id FROM memories WHERE tenant = %(t)s UNION SELECT id FROM touches": ["touches"],
    "WITH few AS (SELECT id, tenant FROM memories) SELECT id FROM few WHERE tenant = %(t)s": ["memories"],
    "WITH RECURSIVE up AS (SELECT id FROM memories WHERE tenant = %(t)s UNION "
    "SELECT m.id FROM memories AS m JOIN up ON m.supersedes = up.id) SELECT id FROM up": ["memories AS m"],
    "INSERT INTO tenants (sequence) VALUES (1)": ["tenants"],
    "INSERT INTO tenants (tenant, sequence) VALUES (lower(%(t)s), 1)": ["tenants"],
    "INSERT INTO touches (tenant, id) SELECT m.tenant, m.id FROM memories AS m": ["memories AS m"],
    "UPDATE memories SET seq = 1 WHERE id = 'a'": ["memories"],
    "DELETE FROM laid_by": ["laid_by"],
}
REFUSED = {
    "UPDATE memories SET tenant = 'a' WHERE tenant = %(t)s": "is updated",
    "UPDATE memories SET seq = random() WHERE tenant = %(t)s": "random() is volatile",
    "UPDATE memories SET seq = extract(epoch FROM current_timestamp) WHERE tenant = %(t)s": "now() is volatile",
    "INSERT INTO tenants (tenant, epoch) VALUES (%(t)s, '') ON CONFLICT (tenant) DO UPDATE SET epoch = now()": "now()",
    "INSERT INTO laid_by (tenant, id) SELECT %(t)s, 'a' WHERE EXISTS (SELECT 1 FROM meta)": "from no table",
    "INSERT INTO touches (tenant) SELECT m.tenant FROM memories AS m WHERE m.tenant = %(t)s RETURNING id": "no alias",
    "SELECT id FROM memories WHERE tenant = current_setting('salience.tenant')": "current_setting()",
    "SELECT set_config('salience.tenant', %(t)s, true) FROM meta": "set_config()",
    "TRUNCATE memories": "TruncateStmt",
    "MERGE INTO memories AS m USING touches AS t ON m.id = t.id WHEN MATCHED THEN DELETE": "MergeStmt",
    "COPY memories FROM STDIN": "CopyStmt",
}
TURNS = {
    "BEGIN; SET LOCAL salience.tenant = 'a'": "get as a whole",
    "SET salience.tenant = 'a'": "for longer than a transaction",
    "BEGIN ISOLATION LEVEL SERIALIZABLE": "'serializable'",
    "LOCK TABLE memories": "LockStmt",
}


@pytest.mark.parametrize("statement", BOUND)
def test_a_statement_whose_every_table_is_bound_is_found_to_be(statement):
    found = read(statement)
    assert (found.unbound, found.faults) == ((), ())
    assert set(found.tenants) == {ASKED}


@pytest.mark.parametrize("statement", UNBOUND)
def test_a_table_that_no_tenant_is_said_of_is_named(statement):
    assert sorted(read(statement).unbound) == UNBOUND[statement]


@pytest.mark.parametrize("statement", REFUSED)
def test_what_a_cluster_refuses_is_told(statement):
    assert any(REFUSED[statement] in fault for fault in read(statement).faults)


def test_tables_that_are_not_spread_need_no_tenant():
    assert read("SELECT value FROM meta; SELECT 1; CREATE TABLE other (id int)").unbound == ()
    assert read("SELECT x LIKE '%%a', %s FROM memories WHERE tenant = %s").tenants == (Value(parameter=1),)


@pytest.mark.parametrize(
    ("parameters", "bounds", "is_right"),
    [
        ({"t": "a"}, Bounds("a"), True),
        ([{"t": "a"}, {"t": "a"}], Bounds("a"), True),
        ([{"t": "a"}, {"t": "b"}], Bounds("a"), False),
        ({"t": "a"}, Bounds("b"), False),
        ({"t": "a"}, Bounds(), False),
        ({"t": "a"}, Bounds(None, is_operator=True), True),
    ],
)
def test_the_tenant_of_a_statement_is_the_one_of_its_transaction(parameters, bounds, is_right):
    said = Said(BOUND[0], parameters, "reading.fetched", bounds)
    assert (list(said.faults()) == []) == is_right


def test_only_what_is_listed_may_be_about_all_tenants_and_only_as_the_operator():
    (listed, *_), operator = MULTI_SHARD, Bounds(None, is_operator=True)
    origins = [(listed, operator), (listed, Bounds("a")), ("reading.fetched", operator)]
    assert [not list(Said("DELETE FROM laid_by", {}, *each).faults()) for each in origins] == [True, False, False]


@pytest.mark.parametrize("turn", TURNS)
def test_a_turn_that_workers_would_not_follow_is_told(turn):
    faults = []
    after(turn, Bounds(), faults)
    assert any(TURNS[turn] in fault for fault in faults)


def test_whose_rows_a_transaction_is_about_is_read_from_its_turns():
    faults = []
    bounds = after("SET LOCAL salience.tenant = 'it''s'", Bounds(), faults)
    operator = after("SET LOCAL salience.tenant = ''", bounds, faults)
    assert (bounds, operator, after("COMMIT", operator, faults)) == (Bounds("it's"), Bounds(None, True), Bounds())
    assert faults == []


def test_a_bad_statement_of_a_store_is_caught(stub_cluster, monkeypatch):
    from salience.store.postgres import PostgresStore, statements

    bad = "SELECT NULL::json, max(sequence), max(epoch), false FROM tenants WHERE epoch <> :tenant"
    monkeypatch.setattr(statements, "STATE", text(bad))
    with recording() as record:
        opened = PostgresStore.open(stub_cluster.engine, embedder="none", dimension=2, language="english")
        opened.speakers(salience.Scope(), ["Ann"])
        opened.close()
    (fault,) = record.faults()
    assert "tenants is bound to no tenant" in fault


def test_queries_of_a_turn_go_to_the_server_one_by_one_and_end_as_the_last_one_does(stub_cluster):
    with connections.connect(stub_cluster.engine) as connection:
        begun = connections.run(
            connection, ("BEGIN ISOLATION LEVEL REPEATABLE READ", "SET LOCAL salience.tenant = 'a'")
        )
        asked = "SELECT current_setting('transaction_isolation'), current_setting('salience.tenant')"
        assert (begun.statusmessage, connection.execute(asked).fetchone()) == ("SET", ("repeatable read", "a"))
        assert connections.run(connection, ("COMMIT",)).statusmessage == "COMMIT"
        (text,) = connection.execute("SELECT query FROM pg_stat_activity WHERE pid = pg_backend_pid()").fetchone()
    assert "COMMIT" not in text


class Told(PlantedEmbedder):
    """Another model, of another length."""

    name = "another"

    def __init__(self):
        super().__init__(dimension=32)


class Failing(PlantedEmbedder):
    """An embedder that fails while it is `down`."""

    down = False

    def embed(self, texts, /):
        if self.down:
            raise EmbedderError("embedder 'planted' failed. Wait.")
        return super().embed(texts)


ANN = {"user_id": "ann", "project": "p"}


def every_request(memory, clock, embedder, tmp_path):
    """Use a store as agents do: every verb that is about the memories of one tenant."""
    ann = ANN
    first = memory.remember("Ann lives in Oslo", key="k", tags=["home"], fact_key="city", **ann).memory
    memory.remember("Ann lives in Rome", fact_key="city", supersedes=first.id, session_id="s", **ann)
    texts = [f"note {number} of the trip to Rome with Bob" for number in range(12)]
    memory.remember_many([{"content": text, "entities": ["Rome", "Bob"]} for text in texts], **ann)
    turns = [{"content": f"I said {number}", "speaker": "Ann"} for number in range(4)]
    memory.ingest(turns, session_id="talk", **ann)
    clock.advance(hours=1)
    memory.update(first.id, content="Ann lived in Oslo", reason="moved", **ann)
    for profile in profiles.NAMES:
        memory.recall("Where does Ann live?", profile=profile, session_id="s", **ann)
    memory.recall("What did Ann say?", tags=["home"], kinds=["fact"], tiers=["episodic"], **ann)
    memory.recall("Where?", as_of=clock.now, **ann)
    memory.graph_recall("Bob in Rome", max_hops=2, **ann)
    memory.explain("Where does Ann live?", first.id, **ann)
    memory.context("Where does Ann live?", budget_tokens=200, **ann)
    memory.get(first.id, **ann), memory.list(**ann), memory.stats(**ann), memory.history(first.id, **ann)
    memory.forget(first.id, **ann)
    memory.restore(first.id, **ann)
    memory.end_session("s", **ann)
    memory.consolidate(**ann)
    memory.reflect(**ann)
    memory.export(tmp_path / "all.jsonl")
    memory.erase([first.id], **ann)
    memory.erase(**ann)
    memory.import_(tmp_path / "all.jsonl")
    embedder.down = True
    late = memory.remember("Ann moved to Turin", **ann)
    embedder.down = False
    memory.remember("Ann likes Turin", **ann)  # this embeds the former too
    assert late.status == "pending"
    assert memory.stats(**ann).pending == 0


def all_maintenance(memory, clock):
    """Look after a store: every verb that may be about all tenants."""
    clock.advance(days=400)
    memory.upkeep()
    memory.reembed(Told())
    memory.doctor()


@pytest.fixture(params=["stub", pytest.param("real", marks=on_a_cluster)])
def cluster(request):
    found = request.getfixturevalue(f"{request.param}_cluster")
    emptied(found)
    return found


@pytest.mark.parametrize("exact_rows", ["5000", "0"])
def test_requests_ask_only_the_shard_of_their_tenant_and_maintenance_only_what_is_listed(
    cluster, exact_rows, tmp_path, monkeypatch
):
    monkeypatch.setenv("SALIENCE_EXACT_ROWS", exact_rows)
    clock, embedder = StoppedClock(), Failing()
    with recording() as requests:
        memory = salience.connect(cluster.engine, embedder=embedder, clock=clock)
        every_request(memory, clock, embedder, tmp_path)
    with recording() as maintenance:
        all_maintenance(memory, clock)
        left = memory.stats(user_id=salience.ANY, project=salience.ANY).memories
        memory.close()
    assert requests.faults() == maintenance.faults() == []
    assert requests.multi_shard() == set()
    checks = ("checking.", "integrity.")
    assert {origin for origin in maintenance.multi_shard() if not origin.startswith(checks)} == set(MULTI_SHARD)
    assert left > 0
