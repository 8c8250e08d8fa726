"""Servers killed under writers who never open anew, and the database held against what they had been told."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Final

from bench.torture.check import Checked, check
from bench.torture.journal import Journal, read_all
from bench.torture.writing import board, seeded, settle
from bench.torture_postgres.cutting import Cut, Cutter
from bench.torture_postgres.hands import Party, Post, Said, together
from bench.torture_postgres.harms import HARMS, chosen
from bench.torture_postgres.housing import of, opened
from bench.torture_postgres.rules import broken
from salience.engine import Engine
from tests.postgres_server import Server

TENANTS: Final = 4
BETWEEN: Final = 1.0
"""Most seconds that writers have between two harms."""
STUCK: Final = 60.0
"""Seconds after which a writer that goes no further is given up."""
CUTS: Final[tuple[Cut, ...]] = ("before", "sent", "after")


@dataclass(frozen=True, slots=True)
class Killed:
    """What came of it.

    Attributes:
        harms: how often each was done.
        cuts: commits at which a connection was cut off.
        back: seconds from the end of a harm until each writer had been told something again.
        verbs: those that writers were told the end of.
        errors: that writers met.
        checked: by tenant, the database beside what was told.
        faults: all that is wrong.
    """

    harms: Counter[str]
    cuts: int
    back: tuple[float, ...]
    verbs: Counter[str]
    errors: Counter[str]
    checked: dict[str, Checked]
    faults: tuple[str, ...]


def kill(
    server: Server, dsn: str, folder: Path, rounds: int, seed: int, threads: int = 8, processes: int = 2
) -> Killed:
    """Return what `rounds` harms to a server came to, with so many writers in this process and in each other one."""
    choose, stop, said = seeded(seed), threading.Event(), Said()
    posts = _posts(dsn, folder, seed, threads * (1 + processes))
    groups = [posts[place :: (1 + processes)] for place in range(1 + processes)]
    harms: Counter[str] = Counter()
    with _cut(dsn, seeded(f"{seed} cuts")) as proxy, opened(proxy.dsn, pool_size=threads) as engine:
        running = together(engine, groups[0], stop, said)
        parties = [Party.start(dsn, group) for group in groups[1:]]
        back, faults = [], []
        for _ in range(rounds):
            time.sleep(choose.uniform(0, BETWEEN))
            name = chosen(choose)
            HARMS[name][0](server, choose)
            harms[name] += 1
            back.append(_until_all_wrote(posts))
            if back[-1] > STUCK:
                faults.append(f"after {name}, a writer went no further")
                break
        stop.set()
        for thread in running:
            thread.join(STUCK)
        heard = [party.end() for party in parties]
        faults += ["a process of writers ended without a word" for one in heard if one is None]
        checked = {tenant: examined(of(engine, tenant), folder / tenant) for tenant in _tenants()}
    errors = sum((one.errors for one in (said, *heard) if one is not None), Counter[str]())
    faults += [f"{tenant}: {fault}" for tenant, found in checked.items() for fault in found.faults]
    faults += broken(dsn)
    return Killed(harms, proxy.cuts, tuple(back), _told(folder), errors, checked, tuple(faults))


def _tenants() -> list[str]:
    return [f"tenant-{number}" for number in range(TENANTS)]


def _posts(dsn: str, folder: Path, seed: int, count: int) -> list[Post]:
    """Return posts spread over the tenants, each of which has a board."""
    boards = {}
    with opened(dsn) as engine:
        for tenant in _tenants():
            (folder / tenant).mkdir()
            boards[tenant] = board(of(engine, tenant), Journal(folder / tenant / "board.journal"))
    homes = [_tenants()[place % TENANTS] for place in range(count)]
    return [
        Post(tenant, folder / tenant / f"w{place}.journal", boards[tenant], f"{seed} {place}")
        for place, tenant in enumerate(homes)
    ]


@contextmanager
def _cut(dsn: str, choose: Random) -> Iterator[Cutter]:
    """Yield a proxy that cuts off one commit in fifty, in each way."""

    def cut() -> Cut | None:
        return choose.choice(CUTS) if choose.random() < 0.02 else None

    with Cutter(dsn, cut) as proxy:
        yield proxy


def _until_all_wrote(posts: Sequence[Post]) -> float:
    """Return the seconds until each journal is longer than it was."""
    before, start = [_length(post) for post in posts], time.monotonic()
    _until(lambda: all(_length(post) > old for post, old in zip(posts, before, strict=True)), start + STUCK)
    return time.monotonic() - start


def _until(holds: Callable[[], bool], latest: float) -> None:
    while not holds() and time.monotonic() < latest + 1:
        time.sleep(0.02)


def _length(post: Post) -> int:
    return post.journal.stat().st_size if post.journal.exists() else 0


def examined(engine: Engine, folder: Path) -> Checked:
    """Return what the check of a tenant's memories finds; verbs of unknown end are tried again."""
    checked = check(engine, None, read_all(folder))
    retried = [
        settle(engine, Journal(folder / f"{entry.writer}.journal"), entry, there) for entry, there in checked.in_flight
    ]
    return replace(checked, faults=(*checked.faults, *filter(None, retried)))


def _told(folder: Path) -> Counter[str]:
    notes = [one for tenant in _tenants() for one in read_all(folder / tenant)]
    return Counter(entry.verb for one in notes for entry in one.entries if entry.told is not None)
