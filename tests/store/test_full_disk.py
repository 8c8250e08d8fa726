"""No room and no rights in the middle of writing: a clear error, nothing half-written, and the engine goes on."""

import re
import tempfile
from contextlib import nullcontext
from pathlib import Path

import pytest

from bench.torture import journal, pressures
from bench.torture.check import check
from bench.torture.full_disk import READING, WRITING, squeeze, squeezed, steps
from bench.torture.journal import Journal
from bench.torture.pressures import CASES, ROOMS, UnavailableError
from bench.torture.writing import hand, opened, seeded
from salience.store.opening import PAGE_SIZE

FEW = (0, 4_097, 24_720)
"""Rooms of a case that has many."""
MOST = 60
"""Verbs until the store has refused one."""
SAYS = {
    "limit on the size of a file": r"Check the disk, its space, limits and rights\.$",
    "full disk": r"Free some space and try again\.$",
    "log locked": r"Check the disk, its space, limits and rights\.$",
    "file and log locked": r"Check the disk, its space, limits and rights\.$",
    "file moved away": r"Put it back, or connect again\.$",
}
"""What a write that is refused ends with: what to do."""


@pytest.fixture
def folder():
    """A folder that a user without rights can reach, which pytest's own is not."""
    with tempfile.TemporaryDirectory() as made:
        Path(made).chmod(0o755)
        yield Path(made)


@pytest.mark.parametrize("name", CASES)
def test_a_store_under_pressure_loses_nothing_and_goes_on(folder, name):
    found = squeezed(folder, name, seed=1, rooms=FEW if CASES[name].rooms is ROOMS else None, most=MOST)
    if found.skipped is not None:
        pytest.skip(found.skipped)
    assert found.faults == ()
    assert found.checked.told > 20
    writing = [told.error for told in found.refusals if told.during == WRITING]
    assert any(writing) is (name in SAYS)
    for error in filter(None, writing):
        assert re.search(SAYS[name], error)


@pytest.mark.parametrize("name", ["file locked", "file and log locked", "rights taken away"])
def test_a_file_that_cannot_be_written_does_not_open(folder, name):
    found = squeezed(folder, name, seed=2, most=5)
    if found.skipped is not None:
        pytest.skip(found.skipped)
    (error,) = (told.error for told in found.refusals if told.during == "opening")
    assert re.fullmatch(r"ReadOnlyError: store: \S+ cannot be written\. Make it writable, or .*", error)


class Pages:
    """A file that holds no more than so many pages: the same everywhere, without rights or limits of the system."""

    def __init__(self, engine):
        self.driver = engine.services.store._writer.connection.driver_connection

    def squeeze(self, room):
        held = self.driver.execute("PRAGMA page_count").fetchone()[0]
        self.driver.execute(f"PRAGMA max_page_count={held + room // PAGE_SIZE}")

    def during(self):
        return nullcontext()

    def release(self):
        self.driver.execute("PRAGMA max_page_count=1000000")


def test_a_file_without_pages_refuses_and_goes_on(tmp_path):
    file, notes = tmp_path / "memory.db", Journal(tmp_path / "w0.journal")
    with opened(file) as engine:
        mine = hand(engine, notes, seeded(3))
        steps(mine, notes, 5)
        for room in ROOMS[::3]:
            said = {told.during: told.error for told in squeeze(mine, notes, Pages(engine), file, room)}
            assert said[WRITING].endswith("the disk is full; nothing was written. Free some space and try again.")
            assert said[READING] is None
        assert check(engine, file, journal.read_all(tmp_path)).faults == ()


def test_a_case_that_this_machine_cannot_make_is_skipped_and_says_so(folder, monkeypatch):
    def impossible(*words):
        raise UnavailableError(f"`{words[0]}` is not possible here")

    monkeypatch.setattr(pressures, "called", impossible)
    assert squeezed(folder, "full disk", seed=1).skipped == "`mount` is not possible here"


def test_what_the_process_does_not_survive_is_a_fault(folder, monkeypatch):
    monkeypatch.setattr("bench.torture.full_disk.heard", lambda line: None)
    assert "without a word" in squeezed(folder, "rights taken away", seed=1, most=5).faults[0]
