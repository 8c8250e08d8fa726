"""No space and no rights in the middle of writing: a clear error, nothing half-written, and the engine goes on."""

import re
import tempfile
from contextlib import nullcontext
from pathlib import Path

import pytest

from bench import torture
from bench.torture import CASES, ROOMS, UnavailableError
from bench.writers import Journal, Writer, check, opened
from salience.errors import ReadOnlyError
from salience.store.sqlite_file import PAGE_SIZE

pytestmark = pytest.mark.slow

SAYS = {
    "limit on the size of a file": r"Check the disk, its space, limits and rights\.$",
    "full disk": r"Free some space and try again\.$",
    "file and log locked": r"Check the disk, its space, limits and rights\.$",
    "file moved away": r"Put it back, or connect again\.$",
}
"""What the error of a refused write ends with: what to do."""


@pytest.fixture
def folder():
    """A folder that a process without root's rights can reach, unlike pytest's own."""
    with tempfile.TemporaryDirectory() as made:
        Path(made).chmod(0o755)
        yield Path(made)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_a_store_under_pressure_loses_nothing_and_goes_on(folder, name):
    try:
        answers, checked = torture.case(folder, name, 1, (0, 4_097, 24_720) if CASES[name].rooms is ROOMS else None)
    except UnavailableError as error:
        pytest.skip(str(error))
    assert checked.faults == []
    assert checked.acknowledged > 20
    errors = [what for what in answers if what.startswith("writing: ") and what != "writing: None"]
    assert bool(errors) is (name in SAYS)
    for error in errors:
        assert re.search(SAYS[name], error)


@pytest.mark.slow
def test_a_file_that_cannot_be_written_does_not_open(folder):
    file = folder / "home" / "memory.db"
    file.parent.mkdir()
    opened(file).close()
    process, line = torture.started(_open_without_rights, file)
    said = torture.received(line)
    process.join()
    assert re.fullmatch(r"ReadOnlyError: store: \S+ cannot be written\. Make it writable, or .*", said)


def _open_without_rights(file, line):
    opened(file).close()
    try:
        with torture.read_only(file, 0):
            opened(file).close()
        line.send("opened")
    except ReadOnlyError as error:
        line.send(f"ReadOnlyError: {error}")


def test_a_file_without_pages_refuses_and_goes_on(tmp_path):
    file, journal = tmp_path / "memory.db", Journal(tmp_path / "w0.journal")
    with opened(file) as engine:
        writer, driver = Writer(engine, journal, 3), engine.services.store._writer.connection.driver_connection
        for room in ROOMS[::3]:
            for _ in range(5):
                writer.step()
            pages = driver.execute("PRAGMA page_count").fetchone()[0]
            driver.execute(f"PRAGMA max_page_count={pages + room // PAGE_SIZE}")
            refused, unread = torture.write_error(writer, nullcontext), torture.read_error(writer, nullcontext)
            driver.execute("PRAGMA max_page_count=1000000")
            assert refused.endswith("the disk is full; nothing was written. Free some space and try again.")
            assert unread is None
        assert check(engine, file, [journal.path]).faults == []
