"""Torture for a server: keys of several tenants over REST and MCP must not reach, see or time what is not theirs.

    python -m bench.torture_server leaks|timing [--store sqlite|postgres] [--plant]

Exit code 1: something is wrong. `--plant` makes one key look bound to less than it is; then 1 is the right answer.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from random import Random
from statistics import median, quantiles
from tempfile import TemporaryDirectory
from typing import Annotated, Final

import httpx
import typer

from bench.driver import Plant, Seconds, Seed, Threads
from bench.leaks import MARK, Holder, Turn, all_holders, all_homes, find_leaks, on_id
from bench.served import empty_store, running
from salience import compose
from salience import settings as configuration
from salience.engine import Engine
from salience.ports import Keyring

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


if __name__ == "__main__":
    app(prog_name="python -m bench.torture_server")
