"""The one true delete: what goes, what stays, what is left in the file, and what other processes still know."""

from __future__ import annotations

import io
import os
import random
import sqlite3
import subprocess
import sys
from contextlib import closing
from dataclasses import replace

import pytest

import salience
from salience import ANY, InputError, NotFoundError
from salience.engine import Engine
from salience.ports import Add, Erase, Revise
from salience.records import Memory, Scope
from salience.store import sqlite, sqlite_file
from salience.temporary import PREFIX
from tests.contract.doubles import PlantedEmbedder, StoppedClock

pytestmark = pytest.mark.every_store

EVERYONE = {"environment": ANY, "project": ANY, "user_id": ANY, "agent_id": ANY}


def contents(memory: Engine) -> set[str]:
    """Return the texts of all memories and versions that are there."""
    held = memory.services.store.scan(Scope(**EVERYONE), limit=10_000, forgotten=True, versions=True)
    return {stored.memory.content for stored in held}


@pytest.fixture
def memory(planted) -> Engine:
    return planted(profile="zeromemory")


def test_erase_by_id_deletes_all_versions(memory, clock):
    one, two, three = (memory.remember(text, user_id="u").memory for text in ("one", "two", "three"))
    memory.update(one.id, content="uno", user_id="u")
    memory.forget(two.id, user_id="u")
    clock.advance(hours=1)
    assert memory.erase([one.short_id, two.id, one.id], user_id="u") == 2
    assert contents(memory) == {"three"}
    for gone in (one, two):
        with pytest.raises(NotFoundError):
            memory.history(gone.id, user_id="u")
    assert [hit.memory.id for hit in memory.recall("one two three", user_id="u", min_score=0.0)] == [three.id]
    assert [hit.memory.id for hit in memory.recall("one", user_id="u", min_score=0.0, as_of=one.created_at)] == [
        three.id
    ]


def test_an_invisible_id_erases_nothing(memory):
    mine = memory.remember("mine", user_id="u").memory
    theirs = memory.remember("theirs", user_id="v").memory
    for unseen in (theirs.id, "0" * 32):
        with pytest.raises(NotFoundError):
            memory.erase([mine.id, unseen], user_id="u")
    assert contents(memory) == {"mine", "theirs"}


@pytest.mark.parametrize("ids", ["abc", [5], [""], 5])
def test_ids_must_be_a_list_of_names(memory, ids):
    memory.remember("text", user_id="u")
    with pytest.raises(InputError, match=r"^ids"):
        memory.erase(ids, user_id="u")
    assert contents(memory) == {"text"}


def test_an_empty_list_of_ids_erases_nothing(memory):
    memory.remember("text", user_id="u")
    assert memory.erase([], user_id="u") == 0
    assert contents(memory) == {"text"}


HOMES = {
    "shared": {},
    "ann": {"user_id": "ann"},
    "ann in p": {"user_id": "ann", "project": "p"},
    "ann in s": {"user_id": "ann", "session_id": "s"},
    "bob": {"user_id": "bob"},
    "helper": {"agent_id": "helper"},
    "p": {"project": "p"},
    "staging": {"user_id": "ann", "environment": "staging"},
}


@pytest.mark.parametrize(
    ("where", "gone"),
    [
        ({"user_id": "ann"}, {"ann", "ann in p", "ann in s"}),
        ({"user_id": "ann", "project": "p"}, {"ann in p"}),
        ({"user_id": "ann", "session_id": "s"}, {"ann in s"}),
        ({"session_id": "s"}, {"ann in s"}),
        ({"project": "p"}, {"ann in p", "p"}),
        ({"agent_id": "helper"}, {"helper"}),
        ({"user_id": "nobody"}, set()),
        ({"user_id": "ann", "environment": "staging"}, {"staging"}),
        ({"user_id": "ann", "environment": ANY}, {"ann", "ann in p", "ann in s", "staging"}),
        ({"user_id": ANY}, set(HOMES) - {"staging"}),
        ({"session_id": ANY}, set(HOMES) - {"staging"}),
        ({"user_id": "ann", "project": ANY}, {"ann", "ann in p", "ann in s"}),
        ({"user_id": "ann", "scope": "global"}, {"ann", "ann in s"}),
        ({"user_id": "ann", "scope": "project"}, {"ann in p"}),
        ({"project": ANY, "environment": ANY}, set(HOMES)),
    ],
)
def test_erase_by_scope_deletes_memories_whose_own_coordinates_match(memory, where, gone):
    for text, home in HOMES.items():
        memory.remember(text, **home)
    forgotten = memory.remember("put away", user_id="ann").memory
    memory.forget(forgotten.id, user_id="ann")
    gone = gone | ({"put away"} if "ann" in gone else set())
    assert memory.erase(dry_run=True, **where) == len(gone)
    assert contents(memory) == {*HOMES, "put away"}
    assert memory.erase(**where) == len(gone)
    assert contents(memory) == {*HOMES, "put away"} - gone


@pytest.mark.parametrize("where", [{}, {"environment": "default"}, {"environment": ANY}, {"scope": "global"}])
def test_erase_needs_a_coordinate(memory, where):
    memory.remember("text")
    with pytest.raises(
        InputError, match=r"^erase names no memory. Name at least one of project, user_id, agent_id, session_id"
    ):
        memory.erase(**where)
    assert contents(memory) == {"text"}


@pytest.mark.parametrize("name", ["project", "user_id", "agent_id", "session_id"])
def test_a_coordinate_of_none_is_refused(memory, name):
    memory.remember("text", project="p")
    with pytest.raises(InputError, match=rf"^{name} is None"):
        memory.erase(**{"project": "p", name: None})
    with pytest.raises(InputError, match=r"^keyword 'user' is unknown"):
        memory.erase(user="ann")
    assert contents(memory) == {"text"}


def summed_up(memory: Engine, clock: StoppedClock, text: str, *sources: Memory, **where: str) -> Memory:
    """Store a reflection of some memories."""
    new = memory.remember(text, kind="reflection", **where).memory
    changes = [Revise(new.changed("reflect", clock(), sources=tuple(one.id for one in sources)))]
    for one in sources:
        now = memory.get(one.id, **where)
        changes.append(Revise(now.changed("reflect", clock(), reflection=new.id)))
    memory.services.store.apply(changes)
    return memory.get(new.id, **where)


def test_a_reflection_is_erased_with_any_of_its_sources(memory, clock):
    tea, milk, rain = (memory.remember(text).memory for text in ("tea", "milk", "rain"))
    summed_up(memory, clock, "tea and milk", tea, milk)
    assert memory.erase([tea.id], dry_run=True) == 2
    assert memory.erase([tea.id]) == 2
    assert contents(memory) == {"milk", "rain"}
    assert memory.get(milk.id).reflection is not None  # of one that is no more; the next reflection sees to it
    assert memory.get(rain.id).reflection is None


def test_a_reflection_is_erased_with_a_source_of_an_older_version(memory, clock):
    tea, milk = (memory.remember(text).memory for text in ("tea", "milk"))
    both = summed_up(memory, clock, "tea and milk", tea, milk)
    renewed = both.changed("reflect", clock(), sources=(milk.id,))
    memory.services.store.apply([Revise(renewed)])
    memory.forget(both.id)
    assert memory.erase([tea.id]) == 2
    assert contents(memory) == {"milk"}


def test_a_reflection_whose_kind_changed_is_erased_too(memory, clock):
    tea = memory.remember("tea").memory
    both = summed_up(memory, clock, "about tea", tea)
    memory.update(both.id, kind="fact")
    now = memory.get(tea.id)
    memory.services.store.apply([Revise(now.changed("reflect", clock(), reflection=None))])
    assert memory.erase([tea.id]) == 2
    assert contents(memory) == set()


def test_a_reflection_on_a_reflection_is_erased_too(memory, clock):
    tea, rain = (memory.remember(text).memory for text in ("tea", "rain"))
    first = summed_up(memory, clock, "about tea", tea)
    summed_up(memory, clock, "about about tea", first)
    summed_up(memory, clock, "about rain", rain)
    assert memory.erase([tea.id]) == 3
    assert contents(memory) == {"rain", "about rain"}


class Busy:
    """A store in which another writer is at work just before memories are erased, once."""

    def __init__(self, memory: Engine, act) -> None:
        self.store, self.act = memory.services.store, act

    def __getattr__(self, name):
        return getattr(self.store, name)

    def apply(self, changes, **options):
        if self.act is not None and any(isinstance(change, Erase) for change in changes):
            act, self.act = self.act, None
            act()
        return self.store.apply(changes, **options)


def busy(memory: Engine, act) -> Engine:
    return Engine(replace(memory.services, store=Busy(memory, act)))


def test_a_reflection_written_during_erase_is_erased_too(memory, clock):
    tea = memory.remember("tea", user_id="u").memory
    own = busy(memory, lambda: summed_up(memory, clock, "about tea", tea, user_id="u"))
    assert own.erase([tea.id], user_id="u") == 2
    assert contents(memory) == set()


def test_a_memory_erased_by_another_process_is_counted_once(memory):
    ids = [memory.remember(text, user_id="u").memory.id for text in ("one", "two")]
    assert busy(memory, lambda: memory.erase(ids[:1], user_id="u")).erase(user_id="u") == 1
    assert contents(memory) == set()


def test_erase_clears_the_vector_cache(memory):
    memory.remember("a secret", user_id="u")
    memory.recall("a secret", user_id="u")
    cached = memory.services.embedder
    assert len(cached._embeddings) > 0
    assert not any(isinstance(key, str) for key in cached._embeddings)
    memory.erase(user_id="u")
    assert len(cached._embeddings) == 0


def test_erase_of_a_user_deletes_sessions_without_memories(memory):
    memory.remember("shared")
    memory.remember("theirs", user_id="v", session_id="s")
    for user, session in (("u", "s"), ("u", "t"), ("v", "s")):
        memory.recall("shared", user_id=user, session_id=session, profile="cmm", min_score=0.0)
    before = {user: sessions_known(memory, user) for user in "uv"}
    assert memory.erase(user_id="u") == 0
    assert (before, {user: sessions_known(memory, user) for user in "uv"}) == ({"u": 2, "v": 2}, {"u": 0, "v": 2})


def sessions_known(memory: Engine, user: str) -> int:
    """Return the number of a user's sessions in which a memory was recalled."""
    memory.services.access_log.flush()
    held = memory.services.store.scan(Scope(**EVERYONE), limit=100)
    return sum(session.split("\x1f")[1] == user for stored in held for session in stored.activations)


def test_erase_of_a_project_keeps_sessions(memory):
    memory.remember("shared")
    memory.remember("in p", project="p", user_id="u")
    memory.recall("shared", user_id="u", session_id="s", profile="cmm", min_score=0.0)
    memory.erase(project="p", user_id="u")
    assert sessions_known(memory, "u") == 1


SECRET, NAME = "zqsecretq", "robertobolano"


def fill(memory: Engine, clock: StoppedClock, seed: int) -> None:
    """Store, change, forget and recall memories of one user and of others, short and long; what is his has a mark."""
    pick, held = random.Random(seed), {NAME: [], "ann": [], None: []}
    for number in range(160):
        clock.advance(minutes=7)
        user = pick.choice(list(held))
        mark = SECRET if user == NAME else "plain"
        words = " ".join(f"{mark}{pick.randrange(10**6)}" for _ in range(pick.choice([1, 3, 40, 400, 1500])))
        receipt = memory.remember(
            f"{mark}{number} {words}", user_id=user, tags=[f"{mark}tag"], entities=[f"{mark} Entity{number}"],
            metadata={mark: [mark, {"deep": f"{mark}{number}"}]}, key=f"{mark}{number}", fact_key=f"{mark}{number % 9}",
            session_id=pick.choice([None, f"{mark}session"]), importance=0.5,
        )  # fmt: skip
        held[user].append(receipt.memory.id)
        if number % 3 == 0:
            target = pick.choice(held[user])
            memory.update(target, content=f"{mark} {words[: pick.choice([20, 9000])]}", user_id=user, reason=mark)
        if number % 7 == 0:
            gone = held[user].pop()
            memory.forget(gone, user_id=user, reason=mark)
        if number % 5 == 0:
            memory.recall(f"{mark} what", user_id=user, session_id=f"{mark}asked", profile="cmm", min_score=0.0)


@pytest.mark.slow
def test_no_byte_of_an_erased_text_is_left_in_the_file(tmp_path, clock):
    path = tmp_path / "agent.db"
    with salience.connect(path, embedder=PlantedEmbedder(dimension=16), clock=clock, profile="zeromemory") as memory:
        fill(memory, clock, seed=1)
        marks = (SECRET.encode(), NAME.encode())
        assert all(mark in bytes_of(tmp_path) for mark in marks)
        ann = memory.list(user_id="ann").memories
        assert memory.erase(user_id=NAME) > 30
        assert not any(mark in bytes_of(tmp_path) for mark in marks)
        assert memory.list(user_id="ann").memories == ann
        assert memory.doctor().healthy
    assert not any(mark in bytes_of(tmp_path) for mark in marks)


def test_the_log_is_emptied_once_other_readers_are_gone(tmp_path, clock, monkeypatch):
    monkeypatch.setenv("SALIENCE_BUSY_TIMEOUT", "0.05")
    path = tmp_path / "agent.db"
    with salience.connect(path, embedder=PlantedEmbedder(dimension=16), clock=clock) as memory:
        memory.remember("zqsecretq", user_id="u")
        with closing(sqlite3.connect(path, isolation_level=None)) as reader:
            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM memories").fetchone()
            assert memory.erase(user_id="u") == 1
            assert b"zqsecretq" in bytes_of(tmp_path)  # in the log, for the one who reads
            reader.execute("COMMIT")
        memory.remember("something else")
        assert b"zqsecretq" not in bytes_of(tmp_path)


def test_bytes_in_the_log_behind_a_reader_are_pending_until_upkeep_has_emptied_it(tmp_path, clock):
    with salience.connect(tmp_path / "agent.db", embedder=PlantedEmbedder(dimension=16), clock=clock) as memory:
        memory.remember("zqsecretq", user_id="u")
        with closing(sqlite3.connect(tmp_path / "agent.db", isolation_level=None)) as reader:
            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM memories").fetchone()
            assert memory.erase(user_id="u").pending
            assert [finding.check for finding in memory.doctor().findings] == ["erasure"]
            assert "log still holds bytes of erased texts" in memory.upkeep().warning
            assert b"zqsecretq" in bytes_of(tmp_path)
            reader.execute("COMMIT")
        assert memory.upkeep().warning is None
        assert b"zqsecretq" not in bytes_of(tmp_path)
        assert memory.doctor().healthy


def test_only_upkeep_rewrites_a_large_file(tmp_path, clock, monkeypatch):
    rewritten, vacuum = [], sqlite_file.vacuum
    monkeypatch.setattr(sqlite, "REWRITTEN", 0)
    monkeypatch.setattr(sqlite_file, "vacuum", lambda writer: (rewritten.append(1), vacuum(writer)))
    with salience.connect(tmp_path / "agent.db", embedder=PlantedEmbedder(dimension=16), clock=clock) as memory:
        for user in ("u", "v"):
            memory.remember("zqsecretq", user_id=user)
            assert memory.erase(user_id=user).pending
            memory.remember("something else")
    with salience.connect(tmp_path / "agent.db", embedder=PlantedEmbedder(dimension=16), clock=clock) as memory:
        assert not rewritten
        assert [finding.check for finding in memory.doctor().findings] == ["erasure"]
        assert memory.upkeep().warning is None
        assert rewritten == [1]
        assert memory.doctor().healthy


@pytest.mark.parametrize(("verb", "given"), [("erase", {"user_id": "u"}), ("upkeep", {}), ("doctor", {"repair": True})])
def test_files_of_killed_processes_are_named_and_deleted(tmp_path, clock, verb, given):
    left, new = (tmp_path / f"{PREFIX}{os.getpid()}-{name}" for name in ("left", "new"))
    with salience.connect(tmp_path / "agent.db", embedder=PlantedEmbedder(dimension=16), clock=clock) as memory:
        for file in (left, new):
            file.write_text("zqsecretq")
        os.utime(left, (0, 0))
        findings = memory.doctor().findings
        assert [left.name in finding.problem for finding in findings] == [True]
        getattr(memory, verb)(**given)
        assert (left.exists(), new.exists()) == (False, True)
        assert memory.doctor().healthy


def bytes_of(folder) -> bytes:
    """Return what is in a store's file and in those beside it."""
    return b"".join(file.read_bytes() for file in sorted(folder.glob("agent.db*")))


READER = """
import sys
import salience
from tests.contract.doubles import PlantedEmbedder
memory = salience.connect(sys.argv[1], embedder=PlantedEmbedder(), profile="zeromemory")
for line in sys.stdin:
    if line == "recall\\n":
        found = memory.recall("query secret text", user_id="u", min_score=0.0, limit=50, dry_run=True)
        print(*sorted(hit.memory.content.replace(" ", "_") for hit in found), flush=True)
    else:
        print(memory.export(line.strip()).written, flush=True)
"""


@pytest.mark.slow
def test_another_process_no_longer_finds_an_erased_memory(tmp_path):
    path = str(tmp_path / "agent.db")
    command = [sys.executable, "-W", "error", "-c", READER, path]
    with (
        salience.connect(path, embedder=PlantedEmbedder(), profile="zeromemory") as memory,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as reader,
    ):

        def ask(what: str) -> str:
            reader.stdin.write(what + "\n")
            reader.stdin.flush()
            return reader.stdout.readline().rstrip("\n")

        try:
            memory.remember("secret text one", user_id="u")
            memory.remember("text for all")
            assert ask("recall") == "secret_text_one text_for_all"
            memory.erase(user_id="u")
            assert ask("recall") == "text_for_all"
            assert ask(str(tmp_path / "after.ndjson")) == "1"
            assert "secret" not in (tmp_path / "after.ndjson").read_text("utf-8")
            assert b"secret" not in bytes_of(tmp_path)
            memory.remember("secret text two", user_id="u")
            assert ask("recall") == "secret_text_two text_for_all"
        finally:
            reader.stdin.close()


def test_an_export_has_no_erased_memory(memory):
    memory.remember("secret", user_id="u")
    memory.update(memory.list(user_id="u").memories[0].id, content="secret too", user_id="u")
    memory.remember("other")
    memory.erase(user_id="u")
    stream = io.StringIO()
    assert memory.export(stream).written == 1
    assert "secret" not in stream.getvalue()


def test_an_imported_memory_is_erased_with_its_versions(memory):
    first = memory.remember("text", user_id="u").memory
    stored = memory.services.store.history(Scope(user_id="u"), first.id)[0]
    older = replace(stored, memory=replace(first, id=f"{7:032x}", content="older"))
    memory.services.store.apply(
        [Add(replace(older, memory=replace(older.memory, content="newer", version=2)), (older,))]
    )
    assert contents(memory) == {"text", "older", "newer"}
    assert memory.erase([f"{7:032x}"], user_id="u") == 1
    assert contents(memory) == {"text"}
