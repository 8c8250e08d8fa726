"""Power cuts: each sector under way is written, lost or torn, and every acknowledged memory is there.

Between two acknowledgements, a file and its log differ in some sectors. Each cut opens a copy in which every one of
these has its old bytes, its new ones, or half of both. Checkpoints are moved between the writes, since their order is
held by `fsync`: `test_syncs` counts these calls.
"""

from __future__ import annotations

import os
import random
from itertools import count, pairwise
from pathlib import Path

import pytest

from salience.ports import Erase
from salience.store.sqlite import SQLiteStore
from tests.contract.memories import DIMENSION, add, id_of, listed, stored

pytestmark = pytest.mark.slow

SECTOR, HEADER = 512, 32
WRITES, CUTS = 25, 3
NAMES = ("a.db", "a.db-wal")
State = tuple[dict[str, bytes], set[int]]
"""The bytes of the file and its log, and the memories that are acknowledged."""


def opened(folder: Path) -> SQLiteStore:
    return SQLiteStore.open(folder / "a.db", embedder="e", dimension=DIMENSION, language="none", busy_timeout=5)


def recorded(folder: Path, pick: random.Random) -> list[State]:
    """Write in a store, and return its state after each acknowledgement and each checkpoint."""
    store, numbers = opened(folder), count(1)
    store._writer.connection.driver_connection.execute("PRAGMA wal_autocheckpoint=0")
    handles = {name: os.open(folder / name, os.O_RDONLY) for name in NAMES}  # closing one would drop SQLite's locks
    known, states = set[int](), list[State]()

    def note() -> None:
        files = {name: os.pread(handle, os.fstat(handle).st_size, 0) for name, handle in handles.items()}
        states.append((files, set(known)))

    note()
    for write in range(WRITES):
        if write % 5 == 4:
            gone = pick.choice(sorted(known))
            store.apply([Erase("default", (id_of(gone),))])
            known.discard(gone)
        else:
            pair = next(numbers), next(numbers)
            add(store, *(stored(number, content=f"memory {number} " * pick.choice([1, 300])) for number in pair))
            known.update(pair)
        note()
        if write % 7 == 6:  # the next write begins the log anew
            store._writer.connection.driver_connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
            note()
    store.close()
    for handle in handles.values():
        os.close(handle)
    return states


def torn(before: bytes, after: bytes, pick: random.Random) -> bytes:
    """Return a file in which each sector that differs is old, new or torn; a new one that is lost holds zeros."""
    share, parts = pick.choice([0.0, 0.5, 0.9, 1.0]), list[bytes]()
    size = max(len(before), len(after))
    if share < 1:
        size -= pick.randrange(abs(len(after) - len(before)) + 1)
    for start in range(0, size, SECTOR):
        old, new = (data[start : start + SECTOR].ljust(SECTOR, b"\0") for data in (before, after))
        half = pick.randrange(SECTOR) if pick.random() < 0.2 and share < 1 else SECTOR
        parts.append(new[:half] + old[half:] if pick.random() < share else old)
    return b"".join(parts)[:size]


def torn_log(before: bytes, after: bytes, pick: random.Random) -> bytes:
    """Return a log likewise. SQLite syncs the header of a log that begins anew before it writes a frame."""
    if before[:HEADER] != after[:HEADER]:
        if pick.random() < 0.3:
            return before or after[: pick.randrange(HEADER)]
        before = after[:HEADER] + before[HEADER:]
    return torn(before, after, pick)


@pytest.mark.parametrize("seed", range(2))
def test_a_power_cut_loses_no_acknowledged_write_and_leaves_none_by_half(tmp_path, seed):
    pick = random.Random(seed)
    states, outcomes = recorded(tmp_path, pick), set[bool]()
    for number, ((before, known), (after, later)) in enumerate(pairwise(states)):
        for cut in range(CUTS):
            folder = tmp_path / f"{number}-{cut}"
            folder.mkdir()
            for name, tear in zip(NAMES, (torn, torn_log), strict=True):
                (folder / name).write_bytes(tear(before[name], after[name], pick))
            store = opened(folder)
            found = set(listed(store))
            assert found in (known, later)
            store.finish_erasures()
            assert store.check() == []
            store.close()
            if known != later:
                outcomes.add(found == later)
    assert outcomes == {True, False}  # writes under way were kept and lost
