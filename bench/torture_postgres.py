"""Torture for PostgreSQL stores: tenants that must not see each other, servers that die, tenants by the thousand.

    python -m bench.torture_postgres leaks|kill|tenants [--plant]

Each command starts a server of its own. Exit code 1: something is wrong. `--plant` opens a leak, or deletes a row,
first; then exit code 1 is the right answer.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from random import Random
from statistics import median
from tempfile import TemporaryDirectory
from typing import Annotated, Any, Final

import psutil
import psycopg
import typer
from psycopg import sql
from sqlalchemy import make_url

from bench.driver import PATIENCE, Plant, Seconds, Seed, Threads, listed, received, report, started
from bench.driver import stop as end
from bench.leaks import MARK, Found, Home, all_homes, find_leaks
from bench.writers import RULES, Checked, Journal, TopicalEmbedder, Writer, acknowledged_verbs, board, check, settle
from salience import compose
from salience import settings as configuration
from salience.engine import Engine
from salience.errors import StoreError, UnsettledError
from salience.ports import Keyring
from salience.records import ANY
from salience.store.schema import metadata
from tests.postgres_proxy import Cut, Cutter
from tests.postgres_server import Server, fresh, server
from tests.servers import live

app = typer.Typer(help=__doc__, no_args_is_help=True, add_completion=False)
TABLES: Final = tuple(sorted(name for name, table in metadata.tables.items() if "tenant" in table.c))


def opened(dsn: str, **chosen: Any) -> Engine:
    """Return an engine on a database, with an embedder that costs nothing."""
    settings = configuration.load().model_copy(update=chosen)
    return compose.engine(settings, dsn, embedder=TopicalEmbedder(), profile="zeromemory")


@contextmanager
def application(dsn: str) -> Iterator[str]:
    """Yield the DSN of a user who is neither owner nor superuser, as an application should connect."""
    user = sql.Identifier("salience_probe")
    with psycopg.connect(dsn, autocommit=True) as superuser:
        superuser.execute(sql.SQL("DROP ROLE IF EXISTS {}").format(user))
        superuser.execute(sql.SQL("CREATE ROLE {} LOGIN IN ROLE salience_app").format(user))
    try:
        yield make_url(dsn).set(username="salience_probe").render_as_string(hide_password=False)
    finally:
        with psycopg.connect(dsn, autocommit=True) as superuser:
            superuser.execute(sql.SQL("DROP ROLE IF EXISTS {}").format(user))


@contextmanager
def database(**settings: Any) -> Iterator[tuple[Server, str]]:
    """Yield a server of our own and the DSN of an empty database on it."""
    with server(settings=settings) as running, fresh(running) as dsn:
        yield running, dsn


# --- leaks ------------------------------------------------------------------------------------------------------------


WITHOUT_TENANT: Final = {
    "no tenant": "",
    "an empty tenant": "SET LOCAL salience.tenant = ''",
    "an unknown tenant": "SET LOCAL salience.tenant = 'a tenant that nobody is'",
    "the setting of an operator": "SET LOCAL salience.operator = 'on'; SET LOCAL salience.tenant = ''",
    "an unknown key": "SET LOCAL salience.key = '%'",
    "after a rollback": "SET LOCAL salience.tenant = {other}; ROLLBACK; BEGIN",
    "after a commit": "SET LOCAL salience.tenant = {other}; COMMIT; BEGIN",
    "after a savepoint": "SAVEPOINT one; SET LOCAL salience.tenant = {other}; ROLLBACK TO SAVEPOINT one",
}
"""Ways to a transaction without a tenant; it must see no row."""
FORBIDDEN: Final = (
    "TRUNCATE salience.memories CASCADE",
    "ALTER TABLE salience.memories DISABLE ROW LEVEL SECURITY",
    "DROP POLICY own_tenant ON salience.memories",
    "CREATE POLICY all_of_it ON salience.memories USING (true)",
    "SET ROLE postgres",
    "SET ROLE salience_operator",
    "SET SESSION AUTHORIZATION salience_operator",
    "SET LOCAL row_security = off; SELECT count(*) FROM salience.memories",
)
"""Statements that the application's role must not be allowed."""


def affected(connection: psycopg.Connection, before: str, statement: str) -> int | None:
    """Return how many rows a statement sees or changes, rolled back; None where it is not allowed."""
    try:
        connection.execute(f"BEGIN; {before}".encode())
        return connection.execute(statement.encode()).rowcount
    except psycopg.errors.InsufficientPrivilege:
        return None
    except (psycopg.IntegrityError, psycopg.errors.DeadlockDetected):  # a foreign row was in reach
        return 1
    finally:
        connection.execute("ROLLBACK")


def statements(connection: psycopg.Connection, own: str, other: str) -> Iterator[tuple[str, int]]:
    """Run statements by hand as the application's role: without a tenant, and with a tenant but on another's rows.

    Yields:
        Each statement, and how many rows it saw or changed, of which none may be seen or changed.
    """
    tries = []
    for way, before in WITHOUT_TENANT.items():
        for table in TABLES:
            column = next(one.name for one in metadata.tables[table].c if one.name != "tenant")
            for verb in ("SELECT * FROM {t}", "SELECT tenant FROM {t} FOR UPDATE", "UPDATE {t} SET {c} = {c}",
                         "DELETE FROM {t}", "INSERT INTO {t} SELECT * FROM {t}"):  # fmt: skip
                tries.append((way, before.format(other=f"'{other}'"), verb.format(t=f"salience.{table}", c=column)))
    for table in TABLES if own != other else ():
        column = next(one.name for one in metadata.tables[table].c if one.name != "tenant")
        before, where = f"SET LOCAL salience.tenant = '{own}'", f"WHERE tenant = '{other}'"
        tries.append((f"as {own}", before, f"SELECT * FROM salience.{table} {where}"))
        tries.append((f"as {own}", before, f"UPDATE salience.{table} SET {column} = {column} {where}"))
    for way, before, statement in tries:
        yield f"{way}: {statement[:40]}", affected(connection, before, statement) or 0
    for statement in FORBIDDEN:
        yield f"allowed: {statement}", int(affected(connection, "", statement) is not None)


@contextmanager
def served(dsn: str) -> Iterator[tuple[list[str], Engine, Keyring, str]]:
    """Yield the URLs of two servers on a database, one for each user: the superuser, and the application's.

    They are threads of this process. After the URLs come the superuser's engine, the keyring of both servers, and the
    application's DSN.
    """
    with (
        opened(dsn, pool_size=6) as above, application(dsn) as app_dsn, opened(app_dsn, pool_size=6) as below,
        closing(compose.keyring(":memory:")) as keyring, live(above, keyring) as one, live(below, keyring) as two,
    ):  # fmt: skip
        yield [one, two], above, keyring, app_dsn


def find_tenant_leaks(
    dsn: str, tenants: int, threads: int, seed: int, *, seconds: float = 0.0, turns: int = 0
) -> Found:
    """Let the keys of tenants use every verb at once on two pools, while statements are run by hand."""
    homes, stop = all_homes(tenants, same_names=True), threading.Event()
    with served(dsn) as (urls, engine, keyring, app_dsn):

        def by_hand(thread: int) -> tuple[int, Counter[str]]:
            """Return how many statements ran, and the rows that they saw or changed."""
            chance, count, rows = Random(f"{seed} by hand {thread}"), 0, Counter[str]()
            with psycopg.connect(app_dsn, autocommit=True) as connection:
                while not (count and stop.is_set()):
                    for what, seen in statements(connection, *(chance.choice(homes).tenant for _ in range(2))):
                        count += 1
                        rows[f"rows by hand, {what}"] += seen
            return count, +rows

        with ThreadPoolExecutor(2) as pool:
            hands = [pool.submit(by_hand, number) for number in range(2)]
            try:
                found = find_leaks(urls, engine, keyring, homes, threads, seed, seconds=seconds, turns=turns, mcp=False)
            finally:
                stop.set()
        for count, rows in (one.result() for one in hands):
            found.statements += count
            found.faults.update(rows)
        found.faults.update(wrong_rows(dsn, engine, homes))
    return found


def wrong_rows(dsn: str, engine: Engine, homes: Sequence[Home]) -> Iterator[str]:
    """Yield the faults of all rows at the end, as a superuser reads them."""
    with psycopg.connect(dsn, autocommit=True, options="-c search_path=salience") as superuser:
        owner = {home.mark: home.tenant for home in homes}
        for table in TABLES:
            for tenant, text in superuser.execute(f"SELECT tenant, row_to_json(t)::text FROM {table} AS t".encode()):
                if any(owner[mark] != tenant for mark in MARK.findall(text.lower())):
                    yield f"a row of {table} holds something of another tenant"
        live_rows = superuser.execute("SELECT tenant, count(*) FROM memories WHERE forgotten_at IS NULL GROUP BY 1")
        for tenant, count in live_rows:
            if engine.of(tenant).stats(environment=ANY, project=ANY, user_id=ANY, agent_id=ANY).memories != count:
                yield "a tenant counts another number of memories than it has"


def open_leak(dsn: str) -> None:
    """Switch row-level security off and let every tenant's rows pass as every other tenant's."""
    opened(dsn).close()
    with psycopg.connect(dsn, autocommit=True) as superuser:
        for table in TABLES:
            superuser.execute(f"ALTER TABLE salience.{table} DISABLE ROW LEVEL SECURITY".encode())


@app.command()
def leaks(
    tenants: Annotated[int, typer.Option(min=2)] = 50,
    threads: Threads = 16,
    seconds: Seconds = 60.0,
    seed: Seed = 1,
    plant: Plant = False,
) -> None:
    """Let tenants use every verb on shared pools, and search every answer for data of another tenant."""
    with database() as (running, dsn):
        if plant:
            open_leak(dsn)
        found = find_tenant_leaks(dsn, tenants, threads, seed, seconds=seconds)
        if MARK.search(running.log.read_text(errors="replace").lower()):
            found.faults["the server's log holds a memory's text"] += 1
    found.report()


# --- kill -------------------------------------------------------------------------------------------------------------

OTHERS: Final = "FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"


def kill_all(running: Server, chance: Random) -> None:
    running.kill()
    time.sleep(chance.uniform(0, 0.5))
    running.start()


def restart_immediately(running: Server, chance: Random) -> None:
    os.kill(running.pid or 0, signal.SIGQUIT)
    while running.pid is not None:
        time.sleep(0.01)
    running.start()


def restart(running: Server, chance: Random) -> None:
    running.stop()
    time.sleep(chance.uniform(0, 0.5))
    running.start()


def kill_backend(running: Server, chance: Random) -> None:
    """Kill one process of the server, which then ends all others and recovers."""
    with psycopg.connect(running.dsn(), autocommit=True) as superuser:
        pids = [pid for (pid,) in superuser.execute(f"SELECT pid {OTHERS} AND datname <> 'postgres'".encode())]
    if pids:
        with suppress(ProcessLookupError):
            os.kill(chance.choice(pids), signal.SIGKILL)
    while True:
        with suppress(psycopg.OperationalError), psycopg.connect(running.dsn()) as superuser:
            superuser.execute("SELECT 1")
            return
        time.sleep(0.02)


def disconnect(running: Server, chance: Random) -> None:
    with psycopg.connect(running.dsn(), autocommit=True) as superuser:
        superuser.execute(f"SELECT pg_terminate_backend(pid) {OTHERS}".encode())


HARMS: Final[dict[str, tuple[Callable[[Server, Random], None], int]]] = {
    "kill -9 of all": (kill_all, 5),
    "restart -m immediate": (restart_immediately, 2),
    "restart -m fast": (restart, 1),
    "kill -9 of one backend": (kill_backend, 2),
    "pg_terminate_backend": (disconnect, 2),
}
"""Fault -> function that injects it and leaves the server running, and its weight."""
SERVER_RULES: Final = RULES | {
    "a row is newer than the sequence of its tenant": """
        SELECT count(*) FROM memories AS row LEFT JOIN tenants AS t ON t.tenant = row.tenant
        WHERE row.seq > coalesce(t.sequence, 0)""",
    "a memory lacks what it is found by": "SELECT count(*) FROM memories WHERE search_keys IS NULL OR length IS NULL",
}


def broken(dsn: str) -> list[str]:
    """Return the rules between rows that do not hold; `dsn` is a superuser's."""
    with psycopg.connect(dsn, autocommit=True, options="-c search_path=salience,public") as superuser:
        counts = {wrong: superuser.execute(rule.encode()).fetchone() for wrong, rule in SERVER_RULES.items()}
    return [f"{wrong}: {row[0]}" for wrong, row in counts.items() if row and row[0]]


def write_until_stopped(
    engine: Engine, journal: Journal, seed: str, shared: str, stop: threading.Event, errors: Counter[str]
) -> None:
    """Write until stopped, on an engine that is never reopened; count the errors of the store."""
    try:
        writer = Writer(engine, journal, seed, shared)
        while not stop.is_set():
            try:
                writer.step()
            except StoreError as error:
                errors[type(error).__name__] += 1
                if isinstance(error, UnsettledError):
                    writer = Writer(engine, journal, f"{seed} {journal.number}", shared)
    except Exception as error:
        journal.note(failure=f"{journal.path.stem} ended with {type(error).__name__}: {error}")


Post = tuple[str, Path, str, str]
"""Tenant, journal, seed and board of a writer."""


def write_apart(dsn: str, posts: Sequence[Post], line: Any) -> None:
    """Run writers in threads of this process until stopped; send their errors."""
    stop, errors = threading.Event(), Counter[str]()
    with opened(dsn, pool_size=max(2, len(posts))) as engine:
        threads = [
            threading.Thread(
                target=write_until_stopped, args=(engine.of(tenant), Journal(journal), seed, shared, stop, errors)
            )
            for tenant, journal, seed, shared in posts
        ]
        for thread in threads:
            thread.start()
        line.send("started")
        line.recv()
        stop.set()
        for thread in threads:
            thread.join(PATIENCE)
    line.send(errors)


class Killed:
    """Results of killing a server under writers."""

    def __init__(self) -> None:
        self.harms, self.errors, self.verbs = Counter[str](), Counter[str](), Counter[str]()
        self.back: list[float] = []
        self.cuts = 0
        self.checked: dict[str, Checked] = {}
        self.faults: list[str] = []


def kill_server(
    running: Server, dsn: str, folder: Path, rounds: int, seed: int, threads: int, processes: int, plant: bool = False
) -> Killed:
    """Harm a server under writers of four tenants; compare its rows with the acknowledged writes."""
    result, chance, boards = Killed(), Random(seed), {}
    tenants = [f"tenant-{number}" for number in range(4)]
    with opened(dsn) as engine:
        for tenant in tenants:
            (folder / tenant).mkdir()
            boards[tenant] = board(engine.of(tenant), Journal(folder / tenant / "board.journal"))
    posts: list[Post] = [
        (tenant, folder / tenant / f"w{n}.journal", f"{seed} {n}", boards[tenant])
        for n in range(threads * processes)
        for tenant in [tenants[n % 4]]
    ]

    def cut() -> Cut | None:
        return chance.choice(("before", "sent", "after")) if chance.random() < 0.02 else None

    with Cutter(dsn, cut) as proxy:  # every writer's connection goes through it; one commit in fifty is cut off
        parties = [started(write_apart, proxy.dsn, posts[n::processes]) for n in range(processes)]
        for _, line in parties:
            received(line)
        for _ in range(rounds):
            time.sleep(chance.uniform(0, 1))
            harm = chance.choices(list(HARMS), [weight for _, weight in HARMS.values()])[0]
            HARMS[harm][0](running, chance)
            result.harms[harm] += 1
            sizes, begun = [_size(post) for post in posts], time.monotonic()
            while not all(_size(post) > size for post, size in zip(posts, sizes, strict=True)):
                if time.monotonic() - begun > PATIENCE:
                    result.faults.append(f"after {harm}, a writer went no further")
                    break
                time.sleep(0.02)
            result.back.append(time.monotonic() - begun)
        for process, line in parties:
            with suppress(OSError):
                line.send("stop")
            errors = received(line, 2 * PATIENCE)
            result.faults += ["a process of writers ended without a result"] if errors is None else []
            result.errors += errors or Counter()
            end(process)
        result.cuts = proxy.cuts
    if plant:
        with psycopg.connect(dsn, autocommit=True) as superuser:
            superuser.execute("DELETE FROM salience.memories WHERE id = (SELECT max(id) FROM salience.memories)")
    with opened(dsn) as engine:
        for tenant in tenants:
            own, journals = engine.of(tenant), sorted((folder / tenant).glob("*.journal"))
            result.checked[tenant] = checked = check(own, None, journals)
            settle(own, folder / tenant, checked)
            result.faults += [f"{tenant}: {fault}" for fault in checked.faults]
            result.verbs += acknowledged_verbs(folder / tenant)
    result.faults += broken(dsn)
    return result


def _size(post: Post) -> int:
    return post[1].stat().st_size if post[1].exists() else 0


@app.command()
def kill(
    rounds: Annotated[int, typer.Option(min=1, help="How often the server is harmed.")] = 60,
    threads: Annotated[int, typer.Option(min=1, help="Writers of each process.")] = 6,
    processes: Annotated[int, typer.Option(min=1, help="Processes of writers.")] = 3,
    seed: Seed = 1,
    plant: Plant = False,
) -> None:
    """Kill the server under writers who never reconnect by themselves, and compare its rows with their journals."""
    with database() as (running, dsn), TemporaryDirectory() as folder:
        done = kill_server(running, dsn, Path(folder), rounds, seed, threads, processes, plant)
    checks = list(done.checked.values())
    report(
        {
            "harms": listed(done.harms),
            "commits cut off": done.cuts,
            "until all write again": f"{median(done.back):.1f} s, at most {max(done.back):.1f} s",
            "verbs acknowledged": listed(done.verbs),
            "errors of writers": listed(done.errors),
            "versions acknowledged": sum(one.acknowledged for one in checks),
            "acknowledged and lost": sum(one.lost for one in checks),
        },
        done.faults,
    )


# --- tenants ----------------------------------------------------------------------------------------------------------

CATALOG: Final = "SELECT (SELECT count(*) FROM pg_class) + (SELECT count(*) FROM pg_attribute)"
BACKENDS: Final = "SELECT pid FROM pg_stat_activity WHERE application_name = 'salience' AND datname = %s"


def server_state(dsn: str) -> dict[str, int]:
    """Return rows of the catalog, connections, and the memory of the largest server process in bytes."""
    with psycopg.connect(dsn, autocommit=True) as superuser:
        entries = (superuser.execute(CATALOG).fetchone() or [0])[0]
        pids = [pid for (pid,) in superuser.execute(BACKENDS, (superuser.info.dbname,))]
    sizes = [psutil.Process(pid).memory_full_info().uss for pid in pids if psutil.pid_exists(pid)]
    return {"catalog": int(entries), "connections": len(pids), "backend": max(sizes, default=0)}


def make_tenants(dsn: str, count: int, threads: int, pool_size: int = 10) -> tuple[dict[str, Any], list[str]]:
    """Make tenants in a row; return figures of the first tenth beside the last tenth, and faults."""
    edge, faults = max(1, count // 10), list[str]()
    with opened(dsn, pool_size=pool_size) as engine, ThreadPoolExecutor(threads) as pool:

        def made(number: int) -> int:
            own = engine.of(f"tenant-{number}")
            own.remember_many([{"content": "Alice prefers Python"}, {"content": "The lease ends in June"}])
            return len(own.recall("What does Alice prefer?", min_score=0))

        def asked(number: int) -> float:
            begun = time.perf_counter()
            engine.of(f"tenant-{number}").recall("What does Alice prefer?", min_score=0)
            return (time.perf_counter() - begun) * 1e3

        found = list(pool.map(made, range(edge)))
        early = server_state(dsn)
        found += list(pool.map(made, range(edge, count)))
        late = server_state(dsn)
        pairs = [(asked(number), asked(count - edge + number)) for number in range(edge)]
    faults += [f"tenant {n} found {hits} of 2 memories" for n, hits in enumerate(found) if hits != 2]
    if late["catalog"] != early["catalog"]:
        faults.append(f"the catalog had {early['catalog']} rows, and has {late['catalog']}")
    if late["connections"] > pool_size:
        faults.append(f"{late['connections']} connections are open, of a pool of {pool_size}")
    first, last = (median(times) for times in zip(*pairs, strict=True))
    return {"first ms": first, "last ms": last, "early": early, "late": late}, faults


@app.command()
def tenants(count: Annotated[int, typer.Option(min=20)] = 3000, threads: Threads = 16) -> None:
    """Make tenants in a row, and compare what the first and the last cost."""
    with database() as (_, dsn):
        figures, faults = make_tenants(dsn, count, threads)
    report(
        {
            "tenants": count,
            "threads": threads,
            "recall, first tenth": f"p50 {figures['first ms']:.1f} ms",
            "recall, last tenth": f"p50 {figures['last ms']:.1f} ms",
            "server process at first": f"{figures['early']['backend'] / 1e6:.1f} MB",
            "server process at last": f"{figures['late']['backend'] / 1e6:.1f} MB",
        },
        faults,
    )


if __name__ == "__main__":
    app(prog_name="python -m bench.torture_postgres")
