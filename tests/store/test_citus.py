"""Spreading the tables over a cluster: what is asked of Citus, in what order, what is refused, and what is found wrong.

A server without Citus stands for a cluster; see `on_citus/stub.py` for what it keeps to.
"""

import json
from contextlib import closing

import psycopg
import pytest
from sqlalchemy import UniqueConstraint

from command_line import invoke
from on_citus import stub
from on_citus.cluster import GIVEN, MARK, cleared, emptied, prepared
from on_citus.fixtures import on_a_cluster, plain, real_cluster, stub_cluster
from salience import compose
from salience.errors import InputError, NotAStoreError, StoreError, VersionError
from salience.ports import Adopt, Derive, Model
from salience.records import Scope
from salience.store.postgres import PostgresStore, admin, citus
from salience.store.postgres.citus import SETTING, SPREAD, WHOLE
from salience.store.postgres.connection import Address, create_pool
from salience.store.schema import metadata
from tests.contract.keyring_contract import key
from tests.contract.memories import DIMENSION, add, id_of, random_unit, stored

pytestmark = pytest.mark.slow

__all__ = ["plain", "real_cluster", "stub_cluster"]  # fixtures
FORGET_PROBE = "TRUNCATE salience.tenants"
"""On a cluster, the row that was made and undone to see whether a tenant reaches the workers is on one of them."""


def run(dsn, *statements):
    with psycopg.connect(dsn) as connection:
        for statement in statements:
            connection.execute(statement)


def laid_out(dsn):
    address = Address.parse(dsn)
    engine = create_pool(address, 1, 10.0)
    try:
        admin.upgrade(engine, address.name)
    finally:
        engine.dispose()


def opened(dsn, **options):
    return PostgresStore.open(
        dsn, **{"embedder": "contract", "dimension": DIMENSION, "language": "english", "busy_timeout": 5, **options}
    )


@pytest.fixture
def tables(plain):
    laid_out(plain)
    return plain


def test_each_table_of_tenants_is_spread_with_memories_parents_first_and_the_others_are_whole_everywhere(tables):
    done = citus.distribute(tables, shards=8)
    assert stub.calls(tables) == [
        "distribute salience.memories by tenant with none in 8",
        *(f"distribute salience.{name} by tenant with salience.memories in " for name in SPREAD[1:]),
        "reference salience.api_keys",
        "reference salience.leases",
        "reference salience.meta",
    ]
    assert {*SPREAD, *WHOLE} == set(metadata.tables)
    assert SPREAD.index("memories") < min(SPREAD.index(name) for name in ("versions", "touches", "activations"))
    assert (done.shards, done.workers, done.findings, done.is_dry) == (8, 2, (), False)


def test_the_number_of_shards_is_that_of_the_server_where_none_is_given(tables):
    assert citus.distribute(tables).shards == stub.SHARDS


def test_a_dry_run_says_what_would_be_done_and_does_nothing(tables):
    told = citus.distribute(tables, dry_run=True)
    assert (told.is_dry, told.shards, stub.calls(tables)) == (True, None, [])
    assert told.steps == citus.distribute(tables).steps


def test_sessions_of_the_database_hand_settings_on_from_then_on(tables):
    citus.distribute(tables)
    with psycopg.connect(tables) as connection:
        assert connection.execute(f"SHOW {SETTING}").fetchone() == ("local",)


def test_what_is_done_is_not_done_again(tables):
    first = citus.distribute(tables)
    run(tables, FORGET_PROBE)
    calls = stub.calls(tables)
    again = citus.distribute(tables, dry_run=True)
    assert (again.steps, again.shards, stub.calls(tables)) == ((), first.shards, calls)


def test_a_table_that_a_later_revision_brings_is_spread_after_the_others(tables):
    citus.distribute(tables, shards=8)
    run(tables, FORGET_PROBE, "DELETE FROM pg_dist_partition WHERE logicalrelid = 'salience.touches'::regclass")
    (step,) = citus.distribute(tables, dry_run=True).steps
    assert step == "SELECT create_distributed_table('salience.touches', 'tenant', colocate_with => 'salience.memories')"


def test_a_worker_sends_engines_and_operators_to_the_coordinator(plain):
    run(plain, "UPDATE pg_dist_local_group SET groupid = 2")
    for command in (opened, laid_out):
        with pytest.raises(StoreError, match=r"it is a worker of the cluster\. Connect"):
            command(plain)
    with psycopg.connect(plain) as connection:
        assert connection.execute("SELECT to_regclass('salience.memories')").fetchone() == (None,)


def test_all_tables_are_spread_or_none(tables):
    run(tables, "CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'")
    run(tables, "CREATE TRIGGER t BEFORE INSERT ON salience.versions FOR EACH ROW EXECUTE FUNCTION f()")
    with pytest.raises(StoreError, match=r"Citus refuses it: triggers are not supported on distributed tables\."):
        citus.distribute(tables)
    assert stub.calls(tables) == []


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ("DELETE FROM pg_extension WHERE extname = 'citus'", NotAStoreError, "the extension Citus is not installed"),
        ("UPDATE pg_extension SET extversion = '11.1-4' WHERE extname = 'citus'", VersionError, "older than 11.2"),
        ("UPDATE pg_dist_local_group SET groupid = 2", StoreError, "Connect to the coordinator"),
        ("UPDATE salience.alembic_version SET version_num = '0003'", VersionError, "before the first release"),
        (
            "SELECT create_reference_table('salience.touches')",
            StoreError,
            "undistribute_table('salience.touches')",
        ),
        (
            "INSERT INTO pg_dist_partition VALUES ('salience.memories', 'h', 'id', 7, 's')",
            StoreError,
            "otherwise than by",
        ),
    ],
)
def test_what_cannot_be_spread_is_refused_with_what_to_do(tables, change, error, words):
    run(tables, "SET LOCAL allow_system_table_mods = on; " + change)
    with pytest.raises(error) as caught:
        citus.distribute(tables)
    assert words in str(caught.value)


def test_a_database_without_tables_is_refused(plain):
    with pytest.raises(NotAStoreError, match=r"no tables of a store\. Run: salience db upgrade"):
        citus.distribute(plain)


@pytest.mark.parametrize("shards", [0, 1025])
def test_a_number_of_shards_that_no_cluster_has_is_refused(tables, shards):
    with pytest.raises(InputError, match="shards"):
        citus.distribute(tables, shards=shards)


def test_another_number_of_shards_than_there_are_is_refused_with_the_way_to_change_it(tables):
    citus.distribute(tables, shards=8)
    with pytest.raises(InputError, match="shard_count => 16, cascade_to_colocated => true"):
        citus.distribute(tables, shards=16)


def test_rows_are_moved_by_a_superuser_alone_and_removed_from_the_coordinator(tables, postgres):
    store = opened(tables)
    add(store, stored(1))
    store.close()
    run(tables, "DO $$ BEGIN CREATE ROLE salience_test_owner LOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$")
    run(tables, "GRANT salience_test_owner TO postgres", *owned_by("salience_test_owner"))
    owner = postgres.dsn(psycopg.conninfo.conninfo_to_dict(tables)["dbname"], "salience_test_owner")
    with pytest.raises(StoreError, match=r"there are rows in memories.*no user but a superuser"):
        citus.distribute(owner)
    citus.distribute(tables)
    assert {"clear salience.memories", "clear salience.meta"} <= set(stub.calls(tables))


def test_keys_too_are_moved_by_a_superuser_alone_and_found_afterwards(tables, postgres):
    with closing(compose.keyring(tables)) as keyring:
        keyring.add(key(1))
    run(tables, "DO $$ BEGIN CREATE ROLE salience_test_owner LOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$")
    run(tables, "DELETE FROM salience.commits", "GRANT salience_test_owner TO postgres")
    run(tables, *owned_by("salience_test_owner"))
    owner = postgres.dsn(psycopg.conninfo.conninfo_to_dict(tables)["dbname"], "salience_test_owner")
    with pytest.raises(StoreError, match=r"there are rows in .*api_keys, .*no user but a superuser"):
        citus.distribute(owner)
    citus.distribute(tables)
    assert "clear salience.api_keys" in stub.calls(tables)


def owned_by(role):
    owns = [f"ALTER TABLE salience.{name} OWNER TO {role}" for name in (*metadata.tables, "alembic_version")]
    return [f"ALTER SCHEMA salience OWNER TO {role}", *owns]


def checked(dsn):
    engine = create_pool(Address.parse(dsn), 1, 10.0)
    try:
        return [finding.problem for finding in citus.check(engine)]
    finally:
        engine.dispose()


WRONG = "CREATE TABLE salience.wrong (LIKE salience.memories)"
SOUND = "CREATE TABLE salience.wrong (LIKE salience.memories INCLUDING ALL)"
SHARD = (
    "UPDATE pg_dist_shard SET stands_for = 'salience.wrong' WHERE shardid = "
    "(SELECT min(shardid) FROM pg_dist_shard WHERE logicalrelid = 'salience.memories'::regclass)"
)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ((WRONG, SHARD), "1 of 4 shards of 'memories': row-level security is not forced."),
        ((WRONG, SHARD), "1 of 4 shards of 'memories': valid indexes are not as many as those of the table."),
        ((SOUND, SHARD), "1 of 4 shards of 'memories': the policies are not those of the table."),
        (
            (SOUND, SHARD),
            "1 of 4 shards of 'memories': the rights of salience_app or salience_operator are not those to the table.",
        ),
        (("DELETE FROM pg_dist_partition WHERE logicalrelid = 'salience.meta'::regclass",), "'meta' is not spread."),
        (
            ("UPDATE pg_dist_partition SET colocationid = 99 WHERE logicalrelid = 'salience.touches'::regclass",),
            "'touches' is not spread together with memories.",
        ),
        (
            ("UPDATE pg_dist_partition SET partkey = 'id' WHERE logicalrelid = 'salience.touches'::regclass",),
            "'touches' is not spread by the hash of its tenant.",
        ),
        ((f"DO $$ BEGIN EXECUTE 'ALTER DATABASE ' || current_database() || ' RESET {SETTING}'; END $$",), SETTING),
    ],
)
def test_what_is_not_as_it_should_be_is_found(tables, changes, words):
    citus.distribute(tables, shards=4)
    run(tables, *changes)
    found = checked(tables)
    assert any(words in problem for problem in found), found


def test_a_tenant_that_does_not_reach_the_workers_is_found(tables):
    citus.distribute(tables, shards=4)
    knows_nothing = "CREATE FUNCTION worker.current_setting(text, boolean) RETURNS text LANGUAGE sql AS 'SELECT NULL'"
    run(tables, "CREATE SCHEMA worker", knows_nothing)
    found = []
    for path in ("public", "worker, pg_catalog, public"):
        change = f"EXECUTE 'ALTER DATABASE ' || current_database() || ' SET search_path = {path}'"
        run(tables, f"DO $$ BEGIN {change}; END $$")
        found.append(checked(tables))
    assert found[0] == []
    assert "does not reach the workers" in " ".join(found[1])


def test_the_probe_of_the_tenant_leaves_nothing(tables):
    citus.distribute(tables, shards=4)
    with psycopg.connect(tables) as connection:
        assert connection.execute("SELECT count(*) FROM salience.tenants").fetchone() == (0,)


def test_an_engine_on_spread_tables_takes_no_user_above_row_level_security(stub_cluster):
    with pytest.raises(StoreError, match=r"spread by Citus.*IN ROLE salience_app"):
        opened(stub_cluster.superuser)
    opened(stub_cluster.engine).close()


def test_settings_are_queries_of_their_own_and_handed_on_where_citus_is(stub_cluster):
    engine = create_pool(Address.parse(stub_cluster.engine), 1, 10.0)
    turn = admin.inspect_engine(engine).session(60.0).begin("read", "a", 5.0)
    engine.dispose()
    assert turn[0] == "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
    assert turn[1].startswith("SELECT set_config('citus.propagate_set_commands', 'local', true), ")
    assert turn[2:] == ("SET LOCAL salience.tenant = 'a'",)
    assert not any("role" in statement.lower() or ";" in statement for statement in turn)


def test_a_schema_that_no_test_made_is_not_dropped(tables):
    with pytest.raises(InputError, match=GIVEN):
        cleared(tables)
    run(tables, f"CREATE TABLE public.{MARK} ()")
    assert prepared(tables).spread.findings == ()


@pytest.mark.parametrize("table", [metadata.tables[name] for name in SPREAD], ids=SPREAD)
def test_each_key_has_the_tenant_and_no_key_sets_null(table):
    unique = [set(table.primary_key.columns.keys())]
    unique += [set(each.columns.keys()) for each in table.constraints if isinstance(each, UniqueConstraint)]
    unique += [{column.name for column in index.columns} for index in table.indexes if index.unique]
    assert all("tenant" in names for names in unique)
    for one in table.foreign_key_constraints:
        assert one.column_keys[0] == one.elements[0].column.name == "tenant"
        assert (one.referred_table.name, one.ondelete) == ("memories", "CASCADE")


def test_no_column_counts_by_itself_and_no_table_has_a_trigger(tables):
    with psycopg.connect(tables) as connection:
        asked = (
            "SELECT (SELECT count(*) FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid "
            "WHERE c.relnamespace = n.oid AND a.attidentity <> ''), "
            "(SELECT count(*) FROM pg_class c WHERE c.relnamespace = n.oid AND c.relkind = 'S'), "
            "(SELECT count(*) FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid "
            "WHERE c.relnamespace = n.oid AND NOT t.tgisinternal) FROM pg_namespace n WHERE n.nspname = 'salience'"
        )
        assert connection.execute(asked).fetchone() == (0, 0, 0)


def said(dsn, *words):
    result = invoke(["--store", dsn, "db", "distribute", *words])
    return result.exit_code, result.stdout.splitlines()


def test_the_command_tells_what_it_would_do_what_it_did_and_that_all_is_well(tables):
    code, lines = said(tables, "--dry-run")
    assert (code, lines[0]) == (
        0,
        "SELECT create_distributed_table('salience.memories', 'tenant', colocate_with => 'none')",
    )
    assert lines[-1].endswith("and nothing was done")
    code, lines = said(tables, "--shards", "8")
    assert (code, lines[-1]) == (0, "healthy")
    assert lines[-3].endswith("8 shards of each table on 2 servers, Citus 14.0-1")


def test_the_command_ends_with_1_where_something_is_wrong(tables):
    said(tables, "--shards", "4")
    run(tables, SOUND, SHARD)
    code, lines = said(tables)
    assert (code, lines[-1]) == (1, "3 wrong")
    assert lines[-2].startswith("wrong\tcitus\t-\t1 of 4 shards of 'memories'")
    code, lines = said(tables, "--json")
    assert (code, len(json.loads("\n".join(lines))["findings"])) == (1, 3)


def test_the_command_refuses_a_file(tmp_path):
    result = invoke(["--store", str(tmp_path / "agent.db"), "db", "distribute"])
    assert (result.exit_code, "a file is on one machine" in result.output) == (2, True)


@pytest.fixture(params=["stub", pytest.param("real", marks=on_a_cluster)])
def cluster(request):
    found = request.getfixturevalue(f"{request.param}_cluster")
    emptied(found)
    return found


def laid(number, tenant, model, dimension):
    made = stored(number, tenant=tenant)
    vector = random_unit(100 * dimension + number)[:dimension].copy()
    vector /= float((vector**2).sum()) ** 0.5
    return Derive(tenant, id_of(number), 1, made.memory.content_hash, vector=vector)


def test_vectors_laid_by_for_a_model_that_was_given_up_go_for_all_tenants(cluster):
    """Else those of a tenant that was not yet looked at would be adopted as the new model's."""
    store = opened(cluster.engine)
    for number, tenant in ((1, "a"), (2, "b")):
        add(store, stored(number, tenant=tenant))
    old, new = store.with_model(Model("old", 4)), store.with_model(Model("new", 4))
    old.apply([laid(1, "a", "old", 4)])
    old.apply([laid(2, "b", "old", 4)])
    assert old.unembedded() == []
    new.apply([laid(1, "a", "new", 4)])
    assert [item.memory.scope.tenant for item in new.unembedded()] == ["b"]
    store.close()


def test_the_vectors_laid_by_of_every_tenant_are_adopted(cluster):
    store = opened(cluster.engine)
    for number, tenant in ((1, "a"), (2, "b"), (3, "b")):
        add(store, stored(number, tenant=tenant))
    new = store.with_model(Model("new", 4))
    given = {number: laid(number, tenant, "new", 4) for number, tenant in ((1, "a"), (2, "b"))}
    for change in given.values():
        new.apply([change])
    new.apply([Adopt()])
    vectors = {int(item.memory.id, 16): item.vector for tenant in "ab" for item in new.scan(Scope(tenant, "default"))}
    pinned = new.pinned()
    assert (pinned.name, pinned.dimension) == ("new", 4)
    assert vectors[3] is None
    assert all((vectors[number] == change.vector).all() for number, change in given.items())
    store.close()


def vector_indexes(dsn):
    with psycopg.connect(dsn) as connection:
        asked = "SELECT indexname FROM pg_indexes WHERE schemaname = 'salience' AND indexname LIKE '%hnsw%' ORDER BY 1"
        return [name for (name,) in connection.execute(asked)]


@pytest.fixture
def administered(cluster):
    """Return a function that opens a database for administration; its vector indexes go in the end."""
    store = opened(cluster.engine)
    add(store, *(stored(number) for number in range(1, 6)))
    store.close()

    def administer(dsn):
        return admin.PostgresDatabase(dsn, busy_timeout=5, statement_timeout=10, exact_rows=3)

    yield administer
    with administer(cluster.superuser) as database:
        database.drop_index()


def test_the_owner_of_the_tables_makes_and_drops_the_vector_index_though_no_engine_may_connect_so(
    cluster, administered
):
    assert vector_indexes(cluster.superuser) == []
    with administered(cluster.superuser) as database:
        assert database.index().made
        assert not database.index().made
        assert database.index(m=8).made
        assert vector_indexes(cluster.superuser) == ["ix_memories_hnsw"]
        assert checked(cluster.superuser) == []  # each shard has as many valid indexes as the table
        assert database.drop_index().dropped == ("ix_memories_hnsw",)
    assert vector_indexes(cluster.superuser) == []
    assert checked(cluster.superuser) == []


def test_the_role_of_an_engine_is_sent_to_the_owner_of_the_tables(cluster, administered):
    owner = psycopg.conninfo.conninfo_to_dict(cluster.superuser)["user"]
    with administered(cluster.engine) as database:
        for command in (database.index, database.drop_index):
            with pytest.raises(StoreError, match=rf"only the owner of its tables.*Connect as {owner}\."):
                command()


def test_a_failed_vector_index_leaves_nothing_behind(cluster, administered):
    run(cluster.superuser, "UPDATE salience.memories SET vector = '[1,2]'")
    with administered(cluster.superuser) as database, pytest.raises(StoreError):
        database.index()
    assert vector_indexes(cluster.superuser) == []
    assert checked(cluster.superuser) == []


@on_a_cluster
def test_a_tenant_moves_to_a_shard_and_a_worker_of_its_own_with_all_that_is_in_it(real_cluster):
    """As the page about clusters says, and with writes before and after."""
    emptied(real_cluster)
    with closing(opened(real_cluster.engine)) as store:
        for tenant in ("large", "small"):
            add(store, *(stored(number, tenant=tenant) for number in range(10)))
        with psycopg.connect(real_cluster.superuser, autocommit=True) as superuser:
            isolate = "SELECT isolate_tenant_to_new_shard('salience.memories', 'large', 'CASCADE', 'block_writes')"
            (shard,) = superuser.execute(isolate).fetchone()
            where = "SELECT nodename, nodeport FROM pg_dist_shard_placement WHERE shardid = %s"
            source = superuser.execute(where, (shard,)).fetchone()
            workers = superuser.execute("SELECT node_name, node_port FROM citus_get_active_worker_nodes()").fetchall()
            target = next(worker for worker in workers if worker != source)
            move = "SELECT citus_move_shard_placement(%s::bigint, %s::text, %s::int, %s::text, %s::int, 'block_writes')"
            superuser.execute(move, (shard, *source, *target))
            assert superuser.execute(where, (shard,)).fetchone() == target
        for tenant in ("large", "small"):
            add(store, stored(10, tenant=tenant))
            assert len(store.fetch(Scope(tenant), [id_of(number) for number in range(11)])) == 11
    assert citus.distribute(real_cluster.superuser).findings == ()
