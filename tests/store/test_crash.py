"""Kills at random moments lose nothing that was told; and the check that says so sees each kind of loss."""

import shutil
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest
from typer.testing import CliRunner

from bench.torture import __main__ as command
from bench.torture import crash, journal
from bench.torture.check import check, traces, unopened
from bench.torture.journal import Journal, Mark
from bench.torture.mix import VERBS
from bench.torture.ways import WAYS
from bench.torture.writing import board, hand, noted, opened, seeded, settle, step
from salience.store.opening import PAGE_SIZE

RUNS = len(WAYS) + 3


def test_what_was_told_outlives_every_kill(tmp_path):
    runs = list(crash.runs(tmp_path, RUNS, seed=1, lives=1))
    assert [fault for run in runs for fault in run.faults] == []
    lives = [life for run in runs for life in run.lives]
    assert all(life.killed >= 1 for life in lives)
    assert {life.way for life in lives} == set(WAYS)
    assert sum(run.lives[-1].checked.told for run in runs) > 100


def test_a_file_outlives_several_kills(tmp_path):
    run = crash.run(tmp_path, "2", "writing", lives=3)
    assert run.faults == ()
    assert len(run.lives) == 3
    assert all(life.killed and life.checked.told for life in run.lives)


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    """A folder with the work of a writer that nobody killed: the file and its journals."""
    folder = tmp_path_factory.mktemp("filled")
    notes = Journal(folder / "w0.journal")
    with opened(folder / "memory.db") as engine:
        shared = board(engine, Journal(folder / "board.journal"))
        mine = hand(engine, notes, seeded(5), shared)
        for _ in range(60):
            step(mine, notes)
        for name in (*VERBS, "forget", "age"):  # each once at least
            mine.board = None if name == "upkeep" else shared
            noted(mine, notes, name, VERBS[name][0](mine))
    return folder


@dataclass
class Written:
    """A copy of it, to be harmed."""

    folder: Path

    def __post_init__(self):
        self.file, self.journal = self.folder / "memory.db", Journal(self.folder / "w0.journal")

    def checked(self):
        with opened(self.file) as engine:
            return check(engine, self.file, journal.read_all(self.folder))

    def sql(self, statement, *values):
        with closing(sqlite3.connect(self.file, isolation_level=None)) as connection:
            return connection.execute(statement, values).fetchall()

    def ids(self, where):
        return {row[0] for row in self.sql(f"SELECT id FROM memories WHERE {where}")}  # noqa: S608 - of this module

    def by_hand(self, *verbs):
        with opened(self.file) as engine:
            return [verb(engine) for verb in verbs]


@pytest.fixture
def written(filled, tmp_path):
    return Written(Path(shutil.copytree(filled, tmp_path / "written")))


def test_a_file_that_nobody_harmed_is_whole(written):
    found = written.checked()
    assert found.faults == ()
    assert found.lost == found.absent == found.whole == 0
    thought = "change <> 'reflect' AND kind <> 'reflection'"
    assert found.told >= len(written.sql(f"SELECT 1 FROM versions WHERE {thought}")) + len(written.ids(thought))  # noqa: S608
    assert {entry.verb for entry in journal.read(written.journal.path).entries} == set(VERBS)
    assert written.ids("kind = 'reflection'")


HARM = {
    "a memory gone": ("DELETE FROM memories WHERE version = 1 AND supersedes IS NULL", "told of is not there"),
    "a version gone": ("DELETE FROM versions WHERE version = 1", "lacks versions"),
    "another text": ("UPDATE memories SET content = content || ' more'", "told of is not there"),
    "an older text": ("UPDATE versions SET content = content || ' more'", "told of is not there"),
    "another vector": ("UPDATE memories SET vector = zeroblob(256)", "vector of"),
    "no vector": ("UPDATE memories SET vector = NULL", "vector of"),
    "another hash": ("UPDATE memories SET content_hash = '0'", "hash of"),
    "a place taken twice": ("UPDATE memories SET turn = 1", "same place"),
    "a newer row": ("UPDATE memories SET seq = 1000000", "newer than the sequence"),
    "another end": ("UPDATE versions SET valid_to = valid_to + 1", "does not end where"),
    "no recalls": ("UPDATE memories SET access_count = 0", "recalls of"),
    "a weight that stays": ("UPDATE memories SET weight = 1", "keeps its weight"),
    "a source of nothing": ("UPDATE memories SET reflection = NULL", "has a source that is not live, or does not name"),
    "a source unlisted": ("UPDATE memories SET sources = '[]'", "names a reflection that is not there"),
    "an orphan": ("PRAGMA foreign_keys=OFF; UPDATE versions SET id = id || '0' WHERE version = 1", "foreign key"),
}


@pytest.mark.parametrize("name", HARM)
def test_the_check_sees_harm(written, name):
    statement, seen = HARM[name]
    for part in statement.split("; "):
        written.sql(part)
    assert seen in "\n".join(written.checked().faults)


def test_the_check_counts_what_is_lost(written):
    gone = written.ids("change = 'forget'")
    written.sql("DELETE FROM memories WHERE change = 'forget'")
    assert gone
    assert written.checked().lost >= len(gone)


def test_the_check_sees_what_nobody_wrote(written):
    written.by_hand(lambda engine: engine.remember("something else", user_id="w0"))
    assert "nobody wrote" in "\n".join(written.checked().faults)


def test_the_check_sees_a_text_that_is_there_twice(written):
    text = written.sql("SELECT content FROM memories WHERE version = 1 LIMIT 1")[0][0]
    written.by_hand(lambda engine: engine.remember(text, user_id="w0"))
    assert "is there 2 times" in "\n".join(written.checked().faults)


def test_the_check_sees_what_was_erased_and_is_there(written):
    held = min(written.ids("change = 'create' AND user_id = 'w0'"))
    number = written.journal.begin("erase", erased=[held])
    found = written.checked()
    assert (found.faults, found.whole, found.absent) == ((), 0, 1)
    written.journal.tell(number, [])
    assert f"{held} was erased, and is there" in written.checked().faults


def test_an_erase_that_was_cut_off_may_be_done(written):
    held = min(written.ids("change = 'create' AND user_id = 'w0'"))
    number = written.journal.begin("erase", erased=[held])
    written.by_hand(lambda engine: engine.erase([held], user_id="w0"))
    found = written.checked()
    assert (found.faults, found.lost, found.whole, found.absent) == ((), 0, 1, 0)
    written.journal.refuse(number, "StoreError")
    assert "erase ended with StoreError, and yet 1 changes of it are there" in written.checked().faults


def test_the_check_sees_traces_of_what_was_erased(written):
    before = list(traces(written.file, journal.read_all(written.folder)))
    held = min(written.ids("change = 'create' AND user_id = 'w0'"))
    written.journal.tell(written.journal.begin("erase", erased=[held]), [])
    assert held not in before
    assert held in list(traces(written.file, journal.read_all(written.folder)))


def test_the_check_sees_half_of_a_batch(written):
    written.journal.begin("remember_many", [Mark("create", "one half"), Mark("create", "the other half")])
    written.by_hand(lambda engine: engine.remember("one half", user_id="w0"))
    assert "half of a remember_many is there" in written.checked().faults


def test_the_check_sees_what_is_there_in_spite_of_an_error(written):
    number = written.journal.begin("remember", [Mark("create", "refused")])
    written.journal.refuse(number, "StoreError")
    written.by_hand(lambda engine: engine.remember("refused", user_id="w0"))
    assert "remember ended with StoreError, and yet 1 changes of it are there" in written.checked().faults


def test_a_write_that_was_cut_off_may_be_whole_or_absent(written):
    written.journal.begin("remember_many", [Mark("create", "one"), Mark("create", "two")])
    found = written.checked()
    assert (found.faults, found.whole, found.absent) == ((), 0, 1)
    written.by_hand(lambda engine: engine.remember_many([{"content": "one"}, {"content": "two"}], user_id="w0"))
    found = written.checked()
    assert (found.faults, found.whole, found.absent) == ((), 1, 0)


def test_the_check_sees_a_damaged_file(written):
    with written.file.open("r+b") as file:
        file.seek(PAGE_SIZE * 2)
        file.write(b"\0" * PAGE_SIZE * 2)
    try:
        found = written.checked()
    except Exception as error:  # as a run takes it
        found = unopened(error)
    assert found.faults


def test_a_failure_that_a_writer_notes_is_a_fault(written):
    written.journal.fail("w0 ended with StoreError")
    assert written.checked().faults == ("w0 ended with StoreError",)


@pytest.mark.parametrize("there", [True, False])
def test_a_retry_finds_what_was_cut_off_or_makes_it(written, there):
    content = "w0 9999 text"
    number = written.journal.begin("remember", [Mark("create", content)], keyed=True)
    entry = journal.read(written.journal.path).entries[number]
    if there:
        written.by_hand(lambda engine: engine.remember(content, key=journal.key_of(content), user_id="w0"))
    (found,) = written.checked().in_flight
    assert found[0] == entry
    assert bool(found[1]) is there
    (wrong,) = written.by_hand(lambda engine: settle(engine, written.journal, *found))
    assert wrong is None
    found = written.checked()
    assert (found.faults, found.in_flight) == ((), ())


def test_a_retry_that_stores_a_text_again_is_a_fault(written):
    content = "w0 9999 text"
    number = written.journal.begin("remember", [Mark("create", content)], keyed=True)
    entry = journal.read(written.journal.path).entries[number]
    there = [Mark("create", content, "id", 1)]
    (wrong,) = written.by_hand(lambda engine: settle(engine, written.journal, entry, there))
    assert wrong == "a retry of remember answered ['created'] where it is to answer unchanged"


def test_a_writer_that_begins_again_knows_its_memories(written):
    def known(engine):
        mine = hand(engine, written.journal, seeded(6))
        return mine.own, mine.gone, mine.aged, mine.seen

    ((own, gone, aged, seen),) = written.by_hand(known)
    ids = {name: written.ids(where) for name, where in WHOSE.items()}
    assert {"own": own.keys(), "gone": gone.keys(), "aged": aged.keys(), "seen": seen} == ids
    assert all(ids.values())


WHOSE = {
    "own": "user_id = 'w0' AND forgotten_at IS NULL AND weight = 1",
    "gone": "user_id = 'w0' AND forgotten_at IS NOT NULL",
    "aged": "user_id = 'w0 of old' AND tier = 'working'",
    "seen": "user_id = 'w0 thinking' AND forgotten_at IS NULL AND kind <> 'reflection'",
}


def test_a_line_of_a_journal_counts_once_it_is_whole(tmp_path):
    notes = Journal(tmp_path / "w0.journal")
    number = notes.begin("remember", [Mark("create", "text")])
    whole = notes.path.read_bytes()
    notes.tell(number, [Mark("create", "text", "id", 1)])
    lines = notes.path.read_bytes()
    notes.path.write_bytes(lines[:-1])
    assert journal.read(notes.path).entries[0].in_flight
    again = Journal(notes.path)
    assert notes.path.read_bytes() == whole
    again.tell(number, [Mark("create", "text", "id", 1)])
    assert notes.path.read_bytes() == lines
    assert journal.read(notes.path).entries[0].told == (Mark("create", "text", "id", 1),)


@pytest.mark.parametrize(("faults", "code"), [((), 0), (("a version is not there",), 1)])
def test_the_command_ends_with_1_where_anything_is_lost(tmp_path, monkeypatch, faults, code):
    life = crash.Life("writing", 1, crash.Checked(10, len(faults), 1, 2, faults))
    monkeypatch.setattr(command, "runs", lambda *_: iter([crash.Run((life,), crash.Counter(remember=8))]))
    answer = CliRunner().invoke(command.app, ["crash", "--runs", "1", "--folder", str(tmp_path)])
    assert answer.exit_code == code
    assert f"acknowledged and lost {len(faults)}\n" in answer.stdout
    assert f"faults                {len(faults)}\n" in answer.stdout
    assert ("a version is not there" in answer.stdout) is bool(faults)
    assert bool(list(tmp_path.iterdir())) is bool(faults)
