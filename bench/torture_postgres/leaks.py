"""Random verbs of many tenants at once, on pools that they share: nobody meets, counts or changes what is another's."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Final

import psycopg

from bench.torture.writing import seeded
from bench.torture_postgres.deeds import House, Turn, chosen, memories
from bench.torture_postgres.housing import of, opened, probe
from bench.torture_postgres.marks import MARK, Owners, name
from bench.torture_postgres.prowl import TABLES, Prowl, prowl
from salience.engine import Engine
from salience.errors import NotFoundError, SalienceError, StoreError
from salience.records import ANY, Receipt

FOREIGN: Final = 0.4
"""Chance that a verb on an id is tried on one of another tenant."""
POOL: Final = 6
"""Connections of a pool; there are fewer than threads."""


@dataclass(slots=True)
class Leaks:
    """What came of it.

    Attributes:
        verbs: that were answered, by name.
        refused: tries on what is another's that were refused, by verb.
        errors: other errors, by the name of their type.
        foreign: answers that held something of another.
        prowl: what statements by hand saw and changed.
        seconds: that it took.
        faults: all that is wrong, in words.
    """

    verbs: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    foreign: int = 0
    prowl: Prowl = field(default_factory=Prowl)
    seconds: float = 0.0
    faults: Counter[str] = field(default_factory=Counter)
    lock: threading.Lock = field(default_factory=threading.Lock)


class Logged(logging.Handler):
    """Counts the lines of the log that hold a mark."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.lines = 0
        self.marked = 0

    def emit(self, record: logging.LogRecord) -> None:
        """Look at a line, and at the error that comes with it."""
        self.lines += 1
        said = f"{record.getMessage()} {record.exc_info or ''}"
        self.marked += bool(MARK.search(said.lower()))


def leaks(
    dsn: str,
    tenants: int,
    threads: int,
    seed: int,
    *,
    seconds: float | None = None,
    turns: int | None = None,
    log: Path | None = None,
) -> Leaks:
    """Return what so many tenants came to in as many seconds, or turns of each thread.

    Args:
        dsn: of a superuser, on a database for this alone.
        tenants: how many.
        threads: how many work at once, each for any tenant.
        seed: of all choices.
        seconds: how long, at most.
        turns: of each thread, at most.
        log: the server's log, which is searched too.
    """
    found, owners, stop = Leaks(), Owners(), threading.Event()
    start = time.monotonic()
    with _pools(dsn) as (engines, application), _listening() as logged:
        houses = [House(number, [of(one, name(number)) for one in engines]) for number in range(tenants)]
        for house in houses:
            _turn(Turn(house, house.engines[0], seeded(f"{seed} {house.number}"), house), found, owners)
        with ThreadPoolExecutor(threads + 2) as pool:
            names = [name(house.number) for house in houses]
            prowls = [pool.submit(prowl, application, names, seeded(f"{seed} by hand {n}"), stop) for n in range(2)]
            ends = None if seconds is None else start + seconds
            working = [
                pool.submit(_work, houses, seeded(f"{seed} thread {n}"), found, owners, ends, turns)
                for n in range(threads)
            ]
            for one in working:
                one.result()
            stop.set()
            for roaming in prowls:
                found.prowl.add(roaming.result())
        found.seconds = time.monotonic() - start
        found.faults += found.prowl.faults
        found.faults += Counter(_settled(dsn, houses, owners))
        if logged.marked:
            found.faults["lines of the log hold a memory's text"] += logged.marked
    if log is not None and MARK.search(log.read_text(errors="replace").lower()):
        found.faults["the server's log holds a memory's text"] += 1
    return found


@contextmanager
def _pools(dsn: str) -> Iterator[tuple[Sequence[Engine], str]]:
    """Yield engines with a pool each, as a superuser and as the application's user, and the DSN of the latter."""
    with ExitStack() as stack:
        above = stack.enter_context(opened(dsn, pool_size=POOL))  # first: it makes the tables, and the role
        application = stack.enter_context(probe(dsn))
        yield (above, stack.enter_context(opened(application, pool_size=POOL))), application


@contextmanager
def _listening() -> Iterator[Logged]:
    handler, root = Logged(), logging.getLogger()
    root.addHandler(handler)
    try:
        yield handler
    finally:
        root.removeHandler(handler)


def _work(
    houses: Sequence[House], choose: Random, found: Leaks, owners: Owners, ends: float | None, turns: int | None
) -> None:
    done = 0
    while done != turns and (ends is None or time.monotonic() < ends):
        house, neighbour = choose.sample(houses, 2)
        _turn(Turn(house, choose.choice(house.engines), choose, neighbour), found, owners)
        done += 1


def _turn(turn: Turn, found: Leaks, owners: Owners) -> None:
    """Run one verb by chance, and look at what it answers or raises."""
    verb, deed, takes_id = chosen(turn.choose)
    strange = takes_id and turn.choose.random() < FOREIGN and bool(turn.neighbour.ids)
    asked = (turn.theirs() if strange else turn.known()) if takes_id else ""
    try:
        answer = deed(turn, asked)
    except SalienceError as error:
        _raised(turn, verb, error, strange, asked, found, owners)
        return
    except Exception as error:  # of whatever kind, it is a fault
        with found.lock:
            found.faults[f"{verb} ended with {type(error).__name__}"] += 1
        return
    new = memories(answer)
    with found.lock:
        found.verbs[verb] += 1
        turn.house.made += len(new)
        turn.house.erased += verb == "erase"
        if strange and owners.known.get(asked) != turn.house.number:
            found.faults[f"{verb} on what is another's was answered"] += 1
    _own(turn, answer, owners)
    _look(turn, verb, answer, frozenset(), found, owners)


def _own(turn: Turn, answer: object, owners: Owners) -> None:
    """Note the ids of receipts, which are the tenant's own."""
    told = answer if isinstance(answer, list) else [answer]
    ids = [one.memory.id for one in told if isinstance(one, Receipt)]
    fresh = [one for one in ids if one not in owners.known]
    owners.note(turn.house.number, fresh)
    turn.house.ids.extend(fresh)


def _look(turn: Turn, verb: str, answer: object, asked: frozenset[str], found: Leaks, owners: Owners) -> None:
    foreign = owners.foreign(turn.house.number, answer, asked)
    if foreign:
        with found.lock:
            found.foreign += 1
            found.faults[f"the answer of {verb} held something of another"] += 1


def _raised(
    turn: Turn, verb: str, error: SalienceError, strange: bool, asked: str, found: Leaks, owners: Owners
) -> None:
    with found.lock:
        if strange and isinstance(error, NotFoundError):
            found.refused[verb] += 1
        else:
            found.errors[type(error).__name__] += 1
        if isinstance(error, StoreError):
            found.faults[f"{verb} ended with {type(error).__name__}"] += 1
        if MARK.search(str(error).lower()):
            found.faults[f"the error of {verb} holds a memory's text"] += 1
    _look(turn, verb, str(error), frozenset({asked}), found, owners)


def _settled(dsn: str, houses: Sequence[House], owners: Owners) -> Iterator[str]:
    """Yield what is wrong with the rows in the end, read by a superuser and counted by each tenant."""
    with psycopg.connect(dsn, autocommit=True, options="-c search_path=salience") as superuser:
        for table in TABLES:
            rows = superuser.execute(f"SELECT tenant, row_to_json(t)::text FROM {table} AS t").fetchall()  # noqa: S608
            if any(other != own.replace("house", "mark") for own, text in rows for other in MARK.findall(text.lower())):
                yield f"a row of {table} holds something of another tenant"
        rows = superuser.execute("SELECT id, tenant, kind, forgotten_at IS NULL FROM memories").fetchall()
    whose: dict[str, str] = {row[0]: row[1] for row in rows}
    for number, ids in owners.seen.items():
        if any(whose.get(one, name(number)) != name(number) for one in ids):
            yield "an answer showed the id of another's memory"
    held = Counter(tenant for _, tenant, kind, _ in rows if kind != "reflection")
    live = Counter(tenant for _, tenant, _, is_live in rows if is_live)
    for house in houses:
        if held[name(house.number)] != house.made - house.erased:
            yield "a tenant has another number of memories than it was told"
        if (
            house.engines[0].stats(environment=ANY, project=ANY, user_id=ANY, agent_id=ANY).memories
            != live[name(house.number)]
        ):
            yield "a tenant counts other than its own memories"
