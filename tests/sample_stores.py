"""Stores with rows of every kind, as fixtures to import by name, for tests of `salience copy`."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest

import salience
from bench.writers import VERBS, Journal, Writer, board, opened
from salience import compose
from salience.errors import EmbedderError
from tests.contract.doubles import PlantedEmbedder, StoppedClock

TENANTS = ("default", "Ünï/çødé 你好", "x' OR 1=1 --")
ODD = "naïve 你好 \u202e 🦊 | ' \" \\ % : ; \u2028 -0.0"


class Down(PlantedEmbedder):
    """An embedder whose provider is away."""

    def embed(self, texts, /):
        raise EmbedderError("planted: away")


def engine(target, embedder=None, **options):
    return salience.connect(target, embedder=embedder or PlantedEmbedder(), **options)


def write_all_kinds(target, monkeypatch):
    """Write what each verb leaves behind, for several tenants."""
    clock = StoppedClock()
    for tenant in TENANTS:
        monkeypatch.setenv("SALIENCE_TENANT", tenant)
        with engine(target, clock=clock) as memory:
            drafts = [
                {"content": f"{ODD} of {n} for {tenant}", "tags": ["one", ODD.replace("\u2028", "")]} for n in range(20)
            ]
            ids = [made.memory.id for made in memory.remember_many(drafts, user_id="ann")]
            memory.remember("Keyed", key="same key", user_id="ann", metadata={"page": [1.5, None, -0.0]})
            memory.ingest([{"role": "user", "content": f"turn {n}"} for n in range(5)], session_id="s", user_id="ann")
            clock.advance(hours=1)
            memory.update(ids[0], content="changed", user_id="ann", reason=ODD)
            memory.update(ids[0], content="changed again", user_id="ann")
            for gone in ids[1:3]:
                memory.forget(gone, user_id="ann")
            memory.restore(ids[2], user_id="ann")
            memory.recall("query about it", user_id="ann", session_id="s", min_score=0)
            memory.recall("query about it", user_id="ann", profile="zeromemory", min_score=0)
            memory.remember("Runs out", ttl="1h", user_id="bo", project="parcel", agent_id="x")
            memory.erase([ids[3]], user_id="ann")
    for tenant in TENANTS:  # last: the next write of any tenant would embed them
        monkeypatch.setenv("SALIENCE_TENANT", tenant)
        with engine(target, Down(), clock=clock) as memory:
            memory.remember("Without a vector yet", user_id="ann")
    monkeypatch.delenv("SALIENCE_TENANT")


@pytest.fixture(scope="session")
def filled_files(tmp_path_factory):
    with pytest.MonkeyPatch.context() as monkeypatch:
        folder = tmp_path_factory.mktemp("copied")
        write_all_kinds(folder / "a.db", monkeypatch)
        with opened(folder / "mixed.db") as memory:
            writer = Writer(memory, Journal(folder / "w0.journal"), 3, board(memory, Journal(folder / "b.journal")))
            for _ in range(60):
                writer.step()
            for verb in (*["observe"] * 12, "reflect"):
                writer.run(verb, VERBS[verb][0](writer))
    return folder


@pytest.fixture
def filled(filled_files, tmp_path):
    """A file with what every verb leaves behind, of several tenants."""
    path = tmp_path / "a.db"
    path.write_bytes((filled_files / "a.db").read_bytes())
    return path


@pytest.fixture
def mixed(filled_files, tmp_path):
    """A file with the work of a writer of all verbs, reflections among them."""
    path = tmp_path / "mixed.db"
    path.write_bytes((filled_files / "mixed.db").read_bytes())
    return path


def sql(path, statement, *values):
    with closing(sqlite3.connect(path, isolation_level=None)) as file:
        return file.execute(statement, values).fetchall()


def cut_off(source, target):
    """Copy one page."""

    def stop(*_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        compose.copy(source, target, progress=stop)
