"""Torture for a server: keys of several tenants over REST and MCP must not reach, see or time what is not theirs.

    python -m bench.torture_server leaks|timing [--store sqlite|postgres] [--plant]
    python -m bench.torture_server silence

Exit code 1: something is wrong. `--plant` makes one key look bound to less than it is; then 1 is the right answer.
`silence` puts a proxy before PostgreSQL that stops answering half of the tenants, as a node of a cluster that hangs.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from statistics import median, quantiles
from tempfile import TemporaryDirectory
from typing import Annotated, Final

import httpx
import psutil
import typer

from bench.driver import PATIENCE, Plant, Seconds, Seed, Threads, report
from bench.leaks import MARK, Holder, Turn, all_holders, all_homes, find_leaks, on_id
from bench.served import empty_store, running
from salience import compose
from salience import settings as configuration
from salience.engine import Engine
from salience.ports import Keyring
from salience.server.auth import create_key
from tests.postgres_proxy import Silent

app = typer.Typer(help=__doc__, no_args_is_help=True, add_completion=False)
Kind = Annotated[str, typer.Option("--store", help="sqlite or postgres.")]
TENANTS: Final = 4


@contextmanager
def serve(kind: str, workers: int) -> Iterator[tuple[str, Engine, Keyring, Path]]:
    """Yield the URL of a server on an empty store, engine and keys on the same store, and its log."""
    with TemporaryDirectory() as folder, empty_store(kind, Path(folder)) as target:
        log = Path(folder) / "log"
        with (
            closing(compose.engine(configuration.load(), target, embedder="static", profile="salience")) as engine,
            closing(compose.keyring(target)) as keyring,
            running(target, log, embedder="static", workers=workers) as served,
        ):
            yield served.url, engine, keyring, log


@app.command()
def leaks(
    store: Kind = "sqlite",
    seconds: Seconds = 120.0,
    threads: Threads = 12,
    workers: Annotated[int, typer.Option(min=1, help="Processes of the server.")] = 2,
    seed: Seed = 1,
    plant: Plant = False,
) -> None:
    """Let the holders of twenty keys ask for everything, and search every answer for what is not theirs."""
    with serve(store, workers) as (url, engine, keyring, log):
        homes = all_homes(TENANTS)
        found = find_leaks([url], engine, keyring, homes, threads, seed, seconds=seconds, plant=plant)
        if MARK.search(log.read_text(errors="replace").lower()):
            found.faults["the server's log holds a memory's text"] += 1
    found.report()


# --- timing -----------------------------------------------------------------------------------------------------------

TIMED: Final = (
    ("get", False),
    ("history", True),
    ("history", False),
    ("explain", False),
    ("forget", False),
    ("forget", True),
    ("supersede", False),
)
KINDS: Final = ("does not exist", "same tenant", "another tenant")


def time_requests(
    url: str, holder: Holder, ids: Mapping[str, Sequence[str]], rounds: int, chance: Random
) -> dict[str, dict[str, list[float]]]:
    """Return milliseconds of requests on memories beyond the key, by request and kind of id, in random order."""
    took: dict[str, dict[str, list[float]]] = {}
    turn = Turn(holder, holder.homes, {}, chance)
    with httpx.Client(base_url=url, timeout=60) as client:
        for number in range(-(rounds // 5), rounds):
            for verb, over_mcp in TIMED:
                for kind in chance.sample(KINDS, len(KINDS)):
                    id = chance.choice(ids[kind]) if kind in ids else f"{chance.getrandbits(128):032x}"
                    request = on_id(verb, turn, id, {}, over_mcp)
                    begun = time.perf_counter()
                    request.sent(client, holder.token)
                    if number >= 0:
                        what = f"{verb} over {'MCP' if over_mcp else 'REST'}"
                        taken = took.setdefault(what, {one: [] for one in KINDS})
                        taken[kind].append((time.perf_counter() - begun) * 1e3)
    return took


@app.command()
def timing(
    store: Kind = "sqlite",
    rounds: Annotated[int, typer.Option(min=10)] = 500,
    memories: Annotated[int, typer.Option(min=1, help="Memories in each place beyond the key.")] = 2000,
    seed: Seed = 1,
) -> None:
    """Compare the time of requests on memories beyond the key with that on memories that do not exist."""
    with serve(store, 1) as (url, engine, keyring, _):
        homes = all_homes(TENANTS)
        holder = next(one for one in all_holders(keyring, homes) if one.grant.bound and one.grant.may("write"))
        beyond = [home for home in homes if home not in holder.homes and len(home.where) == 2]
        near = next(home for home in beyond if home.tenant == holder.grant.tenant)
        far = next(home for home in beyond if home.tenant != holder.grant.tenant)
        ids = {}
        for kind, home in (("same tenant", near), ("another tenant", far)):
            drafts = [{"content": f"{home.mark} memory {number}", **home.where} for number in range(memories)]
            ids[kind] = [receipt.memory.id for receipt in engine.of(home.tenant).remember_many(drafts)]
        took = time_requests(url, holder, ids, rounds, Random(seed))
    print(f"{'request':<20} {'memory':<16} {'p50, p10 in ms':<18} over a memory that does not exist; n = {rounds}")
    for what, kinds in took.items():
        base = median(kinds[KINDS[0]]), quantiles(kinds[KINDS[0]], n=10)[0]
        for kind, times in kinds.items():
            half, tenth = median(times), quantiles(times, n=10)[0]
            print(f"{what:<20} {kind:<16} {f'{half:.2f}, {tenth:.2f}':<18} {half / base[0]:.3f}, {tenth / base[1]:.3f}")


# --- silence ----------------------------------------------------------------------------------------------------------

HEALTHY: Final = ("amber", "coral", "ivory")
SILENT: Final = ("garnet", "quartz", "topaz")
WRITES: Final = 0.2
"""Share of the requests that write."""
BOUND: Final = 2.0
"""Most times that the p95 of healthy tenants may grow, and most seconds until other tenants get an error."""


@dataclass(frozen=True, slots=True)
class Sent:
    """A request: whose, when it began on the monotonic clock, the seconds that it took, and the status, 0 for none."""

    who: str
    began: float
    took: float
    status: int


def ask_until(url: str, who: str, token: str, pause: float, chance: Random, over: threading.Event) -> list[Sent]:
    """Send recalls and writes of a tenant, or probes without a token, until it is over, with pauses between them."""
    sent, headers = list[Sent](), {"Authorization": f"Bearer {token}"}
    with httpx.Client(base_url=url, timeout=120, headers=headers if token else None) as client:
        while not over.wait(chance.uniform(0.5, 1.5) * pause):
            began = time.monotonic()
            text = f"note {chance.randrange(200)} of the {who} garden"
            writes = chance.random() < WRITES
            body = {"content": f"{text} {began}"} if writes else {"query": text}
            try:
                path = "/v1/memories" if writes else "/v1/recall"
                answer = client.post(path, json=body) if token else client.get("/readyz")
                status = answer.status_code
            except httpx.TransportError:
                status = 0
            sent.append(Sent(who, began, time.monotonic() - began, status))
    return sent


@app.command()
def silence(
    seconds: Seconds = 20.0,
    clients: Annotated[int, typer.Option(min=len(HEALTHY + SILENT), help="Clients, spread over six tenants.")] = 20,
    pause: Annotated[float, typer.Option(min=0.0, help="Mean seconds of a client between two requests.")] = 0.3,
    seed: Seed = 1,
) -> None:
    """Ask for six tenants before and while PostgreSQL does not answer three, and compare what the others get."""
    over, tokens = threading.Event(), dict[str, str]()
    with TemporaryDirectory() as folder, empty_store("postgres", Path(folder)) as dsn, Silent(dsn) as proxy:
        with (
            closing(compose.engine(configuration.load(), dsn, embedder="static")) as engine,
            closing(compose.keyring(dsn)) as keyring,
        ):
            for tenant in HEALTHY + SILENT:
                engine.of(tenant).remember_many(
                    [{"content": f"note {number} of the {tenant} garden"} for number in range(200)]
                )
                tokens[tenant], key = create_key(tenant, ("read", "write"), {}, None, None, datetime.now(UTC))
                keyring.add(key)
        with (
            running(proxy.dsn, Path(folder) / "log", embedder="static") as served,
            ThreadPoolExecutor(clients + 1) as threads,
        ):
            process, names = psutil.Process(served.process.pid), (HEALTHY + SILENT) * clients
            asking = [threads.submit(ask_until, served.url, "ready", "", 0.1, Random(seed), over)]
            for number, who in enumerate(names[:clients]):
                chance = Random(f"{seed} {number}")
                asking.append(threads.submit(ask_until, served.url, who, tokens[who], pause, chance, over))
            time.sleep(seconds / 4)  # the first requests fill caches
            marks = [(time.monotonic(), sum(process.cpu_times()[:2]))]
            time.sleep(seconds)
            marks.append((time.monotonic(), sum(process.cpu_times()[:2])))
            proxy.words = {tenant.encode() for tenant in SILENT}  # no statement has these words
            time.sleep(seconds)
            marks.append((time.monotonic(), sum(process.cpu_times()[:2])))
            over.set()
            wait(asking, timeout=PATIENCE)
            proxy.close()  # ends requests that are still stuck
        sent = [one for each in asking for one in each.result()]
    report(*compared(sent, marks))


def compared(sent: Sequence[Sent], marks: Sequence[tuple[float, float]]) -> tuple[dict[str, object], list[str]]:
    """Return figures and faults of requests between three marks, of the monotonic clock and the processor's seconds."""
    figures, faults, p95s = dict[str, object](), list[str](), list[float]()
    for name, (start, used), (end, then) in zip(("before", "meanwhile"), marks, marks[1:], strict=False):
        within = [one for one in sent if start <= one.began < end]
        healthy = [one for one in within if one.who in HEALTHY]
        p95s.append(quantiles([one.took for one in healthy], n=20)[-1])
        failed = sum(one.status != 200 and one.status != 201 for one in healthy)
        probes = [one.took for one in within if one.who == "ready"]
        figures |= {
            f"{name}: healthy, a second": f"{len(healthy) / (end - start):.1f}",
            f"{name}: healthy, p95 in ms": f"{p95s[-1] * 1e3:.1f}",
            f"{name}: healthy, failed": failed,
            f"{name}: /readyz, slowest in ms": f"{max(probes, default=0.0) * 1e3:.0f}",
            f"{name}: processor, share": f"{(then - used) / (end - start):.2f}",
        }
        faults += ["requests of healthy tenants failed"] * bool(failed)
        faults += ["/readyz took more than a second"] * (max(probes, default=0.0) > 1.0)
    silent = [one for one in sent if one.who in SILENT and marks[1][0] <= one.began < marks[2][0]]
    soon = [one for one in silent if one.status == 503 and one.took <= BOUND]
    figures |= {
        "silent: requests": len(silent),
        f"silent: 503 within {BOUND:.0f} s": len(soon),
        "silent: slowest in ms": f"{max((one.took for one in silent), default=0.0) * 1e3:.0f}",
        "p95 meanwhile over before": f"{p95s[1] / p95s[0]:.2f}",
    }
    faults += [f"the p95 of healthy tenants is over {BOUND:.0f} times as long"] * (p95s[1] > BOUND * p95s[0])
    return figures, faults


if __name__ == "__main__":
    app(prog_name="python -m bench.torture_server")
