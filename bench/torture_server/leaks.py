"""Threads of all keys at once: nobody sees or changes what is another's, nor is anybody in whose key was revoked."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from random import Random
from typing import Final

from bench.torture.writing import seeded
from bench.torture_postgres.marks import MARK
from bench.torture_server import cast
from bench.torture_server.asking import Answer, Asked, Line
from bench.torture_server.cast import Holder, Home
from bench.torture_server.deeds import DEEDS, ON_AN_ID, Turn, surfaced
from bench.torture_server.judging import NAMES, Known, Leaks, foreign, received, wrong
from salience.engine import Engine
from salience.keywords import EVERYWHERE, scope
from salience.ports import Keyring
from salience.records import Memory
from salience.steps import scan

OVER_MCP: Final = 0.5
"""Chance that what both surfaces have is asked for over MCP."""
STRANGE: Final = 0.5
"""Chance that a request about a memory is tried on one beyond the key, and beside it on one that is not there."""
REVOKED: Final = (1, 7, 13, 19)
"""Numbers of the holders whose keys are revoked halfway, while threads use them."""
FIRST: Final = 1
"""Memories that each home has before it begins."""


def leaks(
    url: str,
    engine: Engine,
    keyring: Keyring,
    threads: int,
    seed: int,
    *,
    seconds: float | None = None,
    turns: int | None = None,
) -> Leaks:
    """Return what the holders of all keys came to in as many seconds, or turns of each thread.

    Args:
        url: of a server, on a store for this alone.
        engine: on the same store, which is asked in the end what it holds.
        keyring: of the same store.
        threads: how many work at once, each for any holder.
        seed: of all choices.
        seconds: how long, at most.
        turns: of each thread, at most.
    """
    homes = cast.homes()
    known, found, start = Known(homes), Leaks(), time.monotonic()
    holders = cast.holders(keyring, homes)
    _furnish(url, holders, known, found, seeded(f"{seed} first"))
    ends = None if seconds is None else start + seconds
    halfway = threading.Barrier(threads + 1)

    def work(number: int) -> None:
        with Line(url) as line:
            choose = seeded(f"{seed} thread {number}")
            for half in (0.5, 1.0):
                done = 0
                until = None if seconds is None else start + seconds * half
                while (turns is None or done < turns * 0.5) and (until is None or time.monotonic() < until):
                    holder = choose.choice(holders)
                    _turn(line, Turn(holder, choose, homes, known.ids), known, found)
                    done += 1
                if half < 1:
                    halfway.wait()

    with ThreadPoolExecutor(threads + 1) as pool:
        working = [pool.submit(work, number) for number in range(threads)]
        pool.submit(_take_back, halfway, keyring, holders).result()
        _come_and_go(url, keyring, holders, known, found, ends)
        for one in working:
            one.result()
    found.seconds = time.monotonic() - start
    _settle(engine, holders, known, found)
    return found


def _furnish(url: str, holders: Sequence[Holder], known: Known, found: Leaks, choose: Random) -> None:
    """Give every home memories, by the first of its tenant's holders, who is bound to nothing."""
    with Line(url) as line:
        for home in known.homes:
            holder = next(one for one in holders if one.grant.tenant == home.tenant and one.grant.may("admin"))
            turn = Turn(holder, choose, known.homes, known.ids)
            for _ in range(FIRST):
                _ask(line, turn, Asked("remember", {"content": turn.text(home), **home.where}), known, found)


def _take_back(halfway: threading.Barrier, keyring: Keyring, holders: Sequence[Holder]) -> None:
    """Revoke some of the keys, once every thread is halfway; they go on to use them."""
    halfway.wait()
    for number in REVOKED:
        _revoke(keyring, holders[number])


def _revoke(keyring: Keyring, holder: Holder) -> None:
    keyring.revoke(holder.grant.name, datetime.now(UTC))
    holder.taken_back = time.monotonic()


def _come_and_go(
    url: str, keyring: Keyring, holders: Sequence[Holder], known: Known, found: Leaks, ends: float | None
) -> None:
    """Make a key, use it, revoke it, and use it again at once, over both surfaces, as long as there is time."""
    with Line(url) as line:
        for holder in holders if ends is None else _over_and_over(holders, ends):
            guest = cast.another(keyring, holder)
            turn = Turn(guest, seeded(guest.token), known.homes, known.ids)
            both = [Asked("list", {}), Asked("list", {}, "mcp")]
            let_in = [_ask(line, turn, asked, known, found).is_ok for asked in both]
            _revoke(keyring, guest)
            for asked in both:
                _ask(line, turn, asked, known, found)  # anything but 401 is a fault
            if not all(let_in):
                _fault(found, "a new key was not let in")


def _over_and_over(holders: Sequence[Holder], ends: float) -> Iterator[Holder]:
    while True:
        for holder in holders:
            if time.monotonic() >= ends:
                return
            yield holder


def _turn(line: Line, turn: Turn, known: Known, found: Leaks) -> None:
    """Ask one thing by chance; about a memory beyond the key, ask the same about one that is not there."""
    both = {**DEEDS, **ON_AN_ID}
    what = turn.choose.choices(list(both), [weight for _, weight in both.values()])[0]
    over_mcp = turn.choose.random() < OVER_MCP
    if what in DEEDS:
        _ask(line, turn, surfaced(DEEDS[what][0](turn), over_mcp), known, found)
    elif turn.choose.random() < STRANGE:
        _twins(line, turn, what, over_mcp, known, found)
    else:
        home = turn.choose.choice(turn.holder.homes)
        named = turn.known(home)
        if what == "erase" and turn.holder.grant.may("admin") and turn.holder.owns(home):
            known.erased.add(named)
        there = replace(turn, at=home if turn.holder.owns(home) else None)
        _ask(line, turn, surfaced(ON_AN_ID[what][0](there, named, turn.where(home)), over_mcp), known, found)


def _twins(line: Line, turn: Turn, what: str, over_mcp: bool, known: Known, found: Leaks) -> None:
    """Ask about a memory beyond the key and one that is not there, in any order: the answers are the same."""
    home = turn.foreign()
    where = turn.choose.choice(({}, home.where, turn.asking()))
    was_out, told = turn.holder.taken_back, []
    for named in turn.choose.sample([turn.known(home), turn.nobodys()], 2):
        asked = surfaced(ON_AN_ID[what][0](turn, named, where), over_mcp)
        answer = _ask(line, turn, asked, known, found)
        told.append(repr(answer.but_for(named)))
        if answer.is_ok:
            _fault(found, f"{what} on what is another's, or nobody's, was answered")
    if was_out != turn.holder.taken_back:  # the key may have held for the first of the two alone
        return
    with found.lock:
        found.beyond[what] += 1
    if told[0] != told[1]:
        _fault(found, f"{what} tells what is not theirs from what is not there")


def _ask(line: Line, turn: Turn, asked: Asked, known: Known, found: Leaks) -> Answer:
    """Return the answer to a request, judged, with what its receipts told noted."""
    holder, began = turn.holder, time.monotonic()
    answer = line.ask(holder.token, asked)
    faults = list(wrong(holder, asked, answer, began))
    if answer.is_ok:
        faults += received(known, holder, answer.told)
    strange = list(foreign(known, holder, asked, answer))
    with found.lock:
        (found.answered if answer.is_ok else found.refused)[
            f"{asked.surface} {asked.verb}" if answer.is_ok else f"{asked.surface} {answer.status}"
        ] += 1
        found.taken_back += holder.taken_back is not None and holder.taken_back < began
        found.foreign += bool(strange)
        found.faults.update(faults)
        found.faults.update(f"{asked.verb} over {asked.surface} told {what} of another" for what in strange)
    return answer


def _fault(found: Leaks, what: str) -> None:
    with found.lock:
        found.faults[what] += 1


def _settle(engine: Engine, holders: Sequence[Holder], known: Known, found: Leaks) -> None:
    """Look at every version in the store: whose hand it is in, where it lives, and what is gone."""
    there: dict[str, Home] = {}
    hands = {holder.sign: holder for holder in holders}
    for tenant in sorted({home.tenant for home in known.homes}):
        services = engine.of(tenant).services
        for stored in scan(services, scope(tenant, EVERYWHERE)[0], forgotten=True, versions=True):
            memory, found.checked = stored.memory, found.checked + 1
            home = cast.home_of(known.homes, tenant, memory.scope)
            faults = ["it lives nowhere"] if home is None else list(_out_of_place(memory, home, hands))
            if home is not None:
                there[memory.id] = home
            found.changed += bool(faults)
            found.faults.update(f"a version in the store: {fault}" for fault in faults)
    gone = known.of.keys() - there.keys() - known.erased
    found.changed += len(gone)
    if gone:
        found.faults["a memory is gone that nobody erased who may"] += len(gone)
    for number, shown in known.seen.items():
        hidden = [one for one in shown if one in there and not holders[number].sees(there[one])]
        found.foreign += len(hidden)
        if hidden:
            found.faults["an answer showed the id of another's memory"] += len(hidden)


def _out_of_place(memory: Memory, home: Home, hands: dict[str, Holder]) -> Iterator[str]:
    """Yield what of a version is not of its home, or not in the hand of one who may write there."""
    said = " ".join((memory.content, *memory.tags, *memory.entities, str(memory.metadata), memory.reason or ""))
    if set(MARK.findall(said.lower())) - {home.mark}:
        yield "it holds the text of another home"
    if set(NAMES.findall(memory.changed_by or "")) - set(home.where.values()):
        yield "it names somebody of another home"
    for sign, holder in hands.items():
        if sign in said and not holder.owns(home):
            yield "it is from a hand that must not write there"
