"""Every verb, in any order, beside a model in plain dictionaries: nothing acknowledged is ever lost.

`SALIENCE_TEST_STEPS` says how many steps are taken in all on each store (by default a few thousand).
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sqlite3
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

import databases
import salience
from salience.errors import InputError, NotFoundError
from salience.rank.profile import parse
from tests.contract.doubles import StoppedClock
from tests.postgres_server import server

sys.path.insert(0, str(Path(__file__).parent))
import breaking
import ledger

pytestmark = pytest.mark.slow

sys.path.pop(0)

BOOST = 0.05
ALL = """
name = "all"
summary = "All that is live, unexpired and not superseded."
combine = "sum"
limit = 1000
max_limit = 1000
stages = ["expired", "superseded", "score", "trim"]
[signal.similarity]
weight = 0.5
[signal.importance]
weight = 0.3
[on_recall]
access_count = 1
importance = 0.05
accessed_at = true
"""
USERS = (None, "ann", "bob")
STEPS = {"memory": 60, "file": 240, "server": 150}
"""How many, unless they are given: a step on a server takes several turns with it, and the disk is waited for."""
GIVEN = int(os.environ.get("SALIENCE_TEST_STEPS") or 0)
PER_RUN = 60
PAINTINGS = [
    f"Painting harbours {how} with {what} brushes" for how in ("slowly", "early", "alone") for what in ("oil", "wet")
]
TEXTS = st.sampled_from(
    [
        *PAINTINGS, *(f"{who} meets {where} noon" for who in ("Mira", "The team") for where in "before after".split()),
        "I live in Lisbon", "I live in Hamburg", "I moved to Oslo", "My favourite tea is Assam",
        "My favourite tea is Sencha", "the budget is 30 euros", "the budget is 40 euros", "long " * 200,
        "naïve — “quoted” 👩🏽‍🚀",
    ]
)  # fmt: skip


class Hashed:
    """An embedder whose texts lie near others that begin with the same words; two of them have other spaces."""

    def __init__(self, name: str, dimension: int) -> None:
        self.name, self.dimension, self.down = name, dimension, False

    def embed(self, texts: Sequence[str], /) -> np.ndarray:
        if self.down:
            raise ConnectionError("down")
        return np.stack([self._vector(text) for text in texts])

    def _vector(self, text: str) -> np.ndarray:
        parts = (" ".join(text.split()[:2]), text)
        near, own = (np.random.default_rng(self._seed(part)).normal(size=self.dimension) for part in parts)
        return (3 * near + own).astype(np.float32)

    def _seed(self, text: str) -> int:
        return int.from_bytes(hashlib.sha256(f"{self.name}:{text}".encode()).digest()[:8], "big")


class Everything(RuleBasedStateMachine):
    """The verbs on an engine and on the model; subclasses say where the engine stands."""

    lasts = False  # beyond the engine

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.files = 0
        self.clock = StoppedClock()
        self.profile = parse(ALL, "all")
        self.embedder = Hashed("first", 16)
        self.path = self.new_file()
        self.model = ledger.Ledger()
        self.updated: dict[str, Any] = {}
        self.keys: dict[tuple[str | None, str], str] = {}
        self.memory = self.connect()

    def new_file(self) -> str:
        self.files += 1
        return ":memory:"

    def connect(self) -> Any:
        return salience.connect(self.path, embedder=self.embedder, clock=self.clock, profile=self.profile)

    def teardown(self) -> None:
        try:
            self.every_history()
        finally:
            self.memory.close()
            shutil.rmtree(self.folder)

    def done(self) -> None:
        """Note the state after a step, and go on in time."""
        self.expired()
        self.model.note(self.clock())
        self.clock.advance(seconds=61)

    def expired(self) -> None:
        """Take over the versions that a local store writes after a write: for all memories whose time is over, or none.

        They are those of upkeep.
        """
        written, due = set(), self.model.due(self.clock())
        for id in due:
            held = self.model.held[id]
            last = self.memory.history(id, user_id=held.user)[-1].memory
            if last.version > len(held.versions):
                assert (last.change, last.changed_by, last.forgotten_at) == ("expire", "upkeep", self.clock())
                written.add(id)
        assert written in (set(), due)
        self.model.expire(written)

    def pick(self, data: Any, ids: Sequence[str]) -> str:
        return data.draw(st.sampled_from(sorted(ids)))

    def sees(self, user: str | None) -> list[str]:
        return sorted(self.model.live(user, self.clock()))

    def added(self, receipt: Any, content: str, user: str | None) -> None:
        memory = receipt.memory
        assert (memory.content, memory.scope.user_id, memory.version) == (content, user, 1)
        if memory.fact_key is not None and memory.kind != "turn":
            older = self.model.latest_fact(user, memory.fact_key, self.clock(), self.updated)
            told_anew = older is not None and self.model.held[older].now["content"] != memory.content
            assert older in memory.replaced_ids or not told_anew
        self.model.add(memory)
        self.updated[memory.id] = memory.updated_at

    # -- writing

    @initialize(contents=st.lists(TEXTS, min_size=4, max_size=12), user=st.sampled_from(USERS))
    def begin(self, contents: list[str], user: str | None) -> None:
        receipts = self.memory.remember_many(
            [{"content": text, "importance": 0.5, "duplicate": True} for text in contents], user_id=user
        )
        for receipt, _content in zip(receipts, contents, strict=True):
            self.model.add(receipt.memory)
            self.updated[receipt.memory.id] = receipt.memory.updated_at
        self.done()

    @rule(user=st.sampled_from(USERS), count=st.integers(3, 6))
    def paint(self, user: str | None, count: int) -> None:
        for content in PAINTINGS[:count]:
            self.added(self.memory.remember(content, user_id=user, importance=0.5, duplicate=True), content, user)
        self.done()

    @rule(content=TEXTS, user=st.sampled_from(USERS), ttl=st.sampled_from([None, None, 300, 86400]), down=st.booleans())
    def remember(self, content: str, user: str | None, ttl: int | None, down: bool) -> None:
        self.embedder.down = down and len(self.model.seen) % 3 == 0
        receipt = self.memory.remember(content, user_id=user, ttl=ttl, importance=0.5, duplicate=True)
        assert receipt.status in (
            ("pending", "created") if self.embedder.down else ("created",)
        )  # its vector may be known
        self.embedder.down = False
        self.added(receipt, content, user)
        self.done()

    @precondition(lambda self: any(held.live for held in self.model.held.values()))
    @rule(data=st.data(), user=st.sampled_from(USERS))
    def say_again(self, data: Any, user: str | None) -> None:
        """What is said again is stored, or is there: live, of the same user, with the same text and one access more."""
        if not self.sees(user):
            return
        content = self.model.held[self.pick(data, self.sees(user))].now["content"]
        receipt = self.memory.remember(content, user_id=user)
        if receipt.status == "unchanged":
            same = self.model.held[receipt.memory.id]
            assert (same.live, same.user, same.now["content"]) == (True, user, content)
            assert not same.is_over(self.clock())
            self.model.touch([receipt.memory.id], 0.0)
            assert receipt.memory.access_count == same.count
        else:
            self.added(receipt, content, user)
        self.done()

    @rule(content=TEXTS, user=st.sampled_from(USERS), key=st.sampled_from("kl"))
    def remember_with_a_key(self, content: str, user: str | None, key: str) -> None:
        first = self.keys.get((user, key))
        if first is None:
            receipt = self.memory.remember(content, user_id=user, key=key, importance=0.5)
            self.added(receipt, content, user)
            self.keys[user, key] = receipt.memory.id
        elif content in [version["content"] for version in self.model.held[first].versions]:
            receipt = self.memory.remember(content, user_id=user, key=key, importance=0.5)
            assert (receipt.status, receipt.memory.id) == ("unchanged", first)
        else:
            with pytest.raises(salience.ConflictError):
                self.memory.remember(content, user_id=user, key=key)
        self.done()

    @rule(contents=st.lists(TEXTS, min_size=1, max_size=4), user=st.sampled_from(USERS))
    def ingest(self, contents: list[str], user: str | None) -> None:
        messages = [{"content": content, "speaker": "Mira"} for content in contents]
        receipts = self.memory.ingest(messages, user_id=user, session_id="s")
        for receipt, content in zip(receipts, contents, strict=True):
            self.added(receipt, content, user)
        self.done()

    @rule(contents=st.lists(TEXTS, min_size=1, max_size=3), user=st.sampled_from(USERS))
    def a_batch_with_a_fault_stores_nothing(self, contents: list[str], user: str | None) -> None:
        with pytest.raises(NotFoundError):
            self.memory.remember_many([*contents_as(contents), {"content": "x", "supersedes": "f" * 32}], user_id=user)
        self.done()

    @precondition(lambda self: any(held.live for held in self.model.held.values()))
    @rule(data=st.data(), content=TEXTS, user=st.sampled_from(USERS))
    def supersede(self, data: Any, content: str, user: str | None) -> None:
        if not self.sees(user):
            return
        old = self.pick(data, self.sees(user))
        receipt = self.memory.remember(content, user_id=user, supersedes=old, importance=0.5)
        assert (receipt.status, receipt.superseded) == ("superseded", old)
        if self.model.held[old].now["weight"] > 0.1 and (user is None or self.model.held[old].user is not None):
            self.model.change(old, "supersede", weight=0.1)
            self.model.stale(old)
        self.added(receipt, content, user)
        self.done()

    @rule(data=st.data(), content=TEXTS, user=st.sampled_from(USERS), importance=st.sampled_from([None, 0.2, 0.9]))
    def update(self, data: Any, content: str, user: str | None, importance: float | None) -> None:
        if not self.sees(user):
            return
        id = self.pick(data, self.sees(user))
        given = {"content": content} | ({} if importance is None else {"importance": importance})
        before = self.model.held[id].now
        receipt = self.memory.update(id, **given, user_id=user, reason="a test")
        assert (receipt.status, receipt.memory.reason) == ("updated", "a test")
        if content != before["content"]:
            self.model.stale(id)
        self.model.change(id, "update", **given, fact_key=receipt.memory.fact_key)
        self.updated[id] = receipt.memory.updated_at
        self.released(receipt.memory)
        self.done()

    def released(self, told: Any) -> None:
        """Take over the versions that only end the relations of others to a memory that is now the latest of its text.

        Each begins with that memory's version, and nothing but the relations is other than before.
        """
        everything = salience.Scope(**everywhere())
        for stored in self.memory.services.store.scan(everything, limit=10_000):
            held = self.model.held[stored.memory.id]
            if stored.memory.version == len(held.versions):
                continue
            before, made = [one.memory for one in self.memory.history(stored.memory.id, user_id=held.user)][-2:]
            ends = {
                "version": len(held.versions) + 1, "change": "update", "changed_at": told.changed_at,
                "changed_by": told.changed_by, "reason": f"no longer replaces {told.short_id}",
                "relations": tuple(one for one in before.relations or () if one.id != told.id),
            }  # fmt: skip
            counted = {name: getattr(made, name) for name in ("importance", "access_count", "accessed_at")}
            assert made == replace(before, **ends, **counted)
            assert told.id in before.replaced_ids
            assert held.live
            self.model.change(made.id, "update")

    @rule(data=st.data(), user=st.sampled_from(USERS))
    def forget(self, data: Any, user: str | None) -> None:
        if not self.sees(user):
            return
        id = self.pick(data, self.sees(user))
        assert self.memory.forget(id, user_id=user).status == "forgotten"
        self.model.stale(id)
        self.model.change(id, "forget", gone=True)
        with pytest.raises(NotFoundError):
            self.memory.get(id, user_id=user)
        self.done()

    @rule(data=st.data())
    def another_users_memory_is_out_of_reach(self, data: Any) -> None:
        theirs = [id for id, held in self.model.held.items() if held.user == "ann"]
        if not theirs:
            return
        id = self.pick(data, theirs)
        for verb in (self.memory.forget, self.memory.history, self.memory.get):
            with pytest.raises(NotFoundError):
                verb(id, user_id="bob")
        with pytest.raises(NotFoundError):
            self.memory.erase([id], user_id="bob")

    @rule(data=st.data())
    def restore(self, data: Any) -> None:
        gone = [id for id, held in self.model.held.items() if not held.live or held.is_over(self.clock())]
        if not gone:
            return
        id = self.pick(data, gone)
        held = self.model.held[id]
        before = next(version for version in reversed(held.versions) if not version["gone"])
        receipt = self.memory.restore(id, user_id=held.user)
        assert (receipt.status, receipt.memory.content) == ("restored", before["content"])
        self.came_back(id)
        expires = before["expires_at"]
        kept = None if expires is not None and expires <= self.clock() else expires
        self.model.change(id, "restore", **taken(before), expires_at=kept, gone=False)
        self.updated[id] = receipt.memory.updated_at
        self.done()

    def came_back(self, id: str) -> None:
        """Take a live reflection that lists a restored memory out of sight: one that was itself restored before it."""
        reflection = self.model.held.get(self.model.held[id].now.get("reflection"))
        if reflection is not None and id in reflection.now.get("sources", ()):
            self.model.stale(id)

    @rule(data=st.data())
    def restore_a_version(self, data: Any) -> None:
        ids = [id for id, held in self.model.held.items() if held.live and len(held.versions) > 1]
        ids = [id for id in ids if not self.model.held[id].is_over(self.clock())]
        if not ids:
            return
        id = self.pick(data, ids)
        held = self.model.held[id]
        number = data.draw(st.integers(1, len(held.versions) - 1))
        version = held.versions[number - 1]
        if version["gone"]:
            with pytest.raises(InputError):
                self.memory.restore(id, number, user_id=held.user)
            return
        receipt = self.memory.restore(id, number, user_id=held.user)
        if version["content"] != held.now["content"]:
            self.came_back(id)
        expires = version["expires_at"]
        kept = None if expires is not None and expires <= self.clock() else expires
        self.model.change(id, "restore", **taken(version), expires_at=kept, gone=False)
        self.updated[id] = receipt.memory.updated_at
        self.released(receipt.memory)
        self.done()

    @rule(data=st.data(), dry_run=st.booleans())
    def erase(self, data: Any, dry_run: bool) -> None:
        if not self.model.held or len(self.model.seen) % 4:
            return
        ids = data.draw(st.sets(st.sampled_from(sorted(self.model.held)), min_size=1, max_size=2))
        everyone = {"user_id": salience.ANY}
        count = self.memory.erase(sorted(ids), dry_run=dry_run, **everyone)
        if dry_run:
            return
        gone = self.model.erase(ids)
        assert count == len(gone)
        self.keys = {place: id for place, id in self.keys.items() if id not in gone}
        for id in gone:
            with pytest.raises(NotFoundError):
                self.memory.history(id, **everyone)
        for _at, held in self.model.seen:
            for id in gone & held.keys():
                del held[id]

    # -- reading

    @rule(query=TEXTS, user=st.sampled_from(USERS))
    def recall_often(self, query: str, user: str | None) -> None:
        for _ in range(3):
            self.recall(query, user, 3)

    @rule(query=TEXTS, user=st.sampled_from(USERS), limit=st.sampled_from([2, 1000]))
    def recall(self, query: str, user: str | None, limit: int) -> None:
        found = self.memory.recall(query, user_id=user, limit=limit)
        expected = ledger.answered(self.model.held, user, self.clock())
        ids = [hit.memory.id for hit in found]
        assert len(ids) == len(set(ids)) == min(limit, len(expected))
        assert set(ids) <= expected.keys()
        self.same([hit.memory for hit in found], expected)
        self.model.touch(ids, BOOST)
        self.done()

    @rule(query=TEXTS, user=st.sampled_from(USERS), data=st.data())
    def recall_the_past(self, query: str, user: str | None, data: Any) -> None:
        if not self.model.seen:
            return
        at, held = self.model.seen[data.draw(st.integers(0, len(self.model.seen) - 1))]
        late = data.draw(st.sampled_from([0, 60]))  # between two steps nothing changes
        found = self.memory.recall(query, user_id=user, limit=1000, as_of=at + timedelta(seconds=late))
        expected = ledger.answered(held, user, at + timedelta(seconds=late))
        assert {hit.memory.id for hit in found} == expected.keys()
        self.same([hit.memory for hit in found], expected)

    def same(self, memories: Sequence[Any], expected: dict[str, Any]) -> None:
        for memory in memories:
            held = expected[memory.id]
            for name in ledger.KEPT:
                assert getattr(memory, name) == held.now[name], name
            assert memory.access_count == held.count
            assert memory.version == len(held.versions)

    # -- upkeep

    @rule(hours=st.sampled_from([1, 5, 25]))
    def time_goes_by(self, hours: int) -> None:
        self.clock.advance(hours=hours)
        self.upkeep(dry_run=False)

    @rule(hours=st.sampled_from([25, 50]), user=st.sampled_from(USERS))
    def reflect_on_paintings(self, hours: int, user: str | None) -> None:
        self.paint(user, 5)
        self.reflect()
        self.time_goes_by(hours)

    @rule(dry_run=st.booleans())
    def upkeep(self, dry_run: bool) -> None:
        report = self.memory.upkeep(dry_run=dry_run)
        assert report.warning is None
        due = self.model.due(self.clock())
        assert set(report.expired) == due
        assert dry_run or report.pending == 0
        if not dry_run:
            self.model.expire(due)
            self.promoted(report.promoted)
            self.done()

    @rule(dry_run=st.booleans())
    def consolidate(self, dry_run: bool) -> None:
        report = self.memory.consolidate(dry_run=dry_run, user_id=salience.ANY)
        if not dry_run:
            self.promoted(report.promoted)
            self.done()

    def promoted(self, by_tier: Any) -> None:
        for tier, ids in by_tier.items():
            for id in ids:
                assert self.model.held[id].live
                assert self.model.held[id].now["tier"] != tier
                self.model.change(id, "promote", tier=tier)

    @rule()
    def reflect(self) -> None:
        report = self.memory.reflect(user_id=salience.ANY)
        made = [memory.id for memory in report.made]
        for id in (*self.model.held, *made):  # take over what it wrote, once the sources are seen to be there
            versions = self.memory.history(id, user_id=salience.ANY)
            known = len(self.model.held[id].versions) if id in self.model.held else 0
            for version in versions[known:]:
                memory = version.memory
                assert memory.change in ("create", "reflect", "promote", "stale"), memory.change
                if memory.change == "stale":
                    assert memory.kind == "reflection"
                elif memory.kind == "reflection":
                    sources = [self.model.held[source] for source in memory.sources]
                    assert memory.content in [source.now["content"] for source in sources]
                    assert {source.user for source in sources} == {memory.scope.user_id}
                else:
                    assert memory.content == self.model.held[id].now["content"]
                values = {name: getattr(memory, name) for name in ledger.KEPT}
                values |= {
                    "sources": memory.sources,
                    "reflection": memory.reflection,
                    "gone": memory.change == "stale",
                }
                if id in self.model.held:
                    self.model.change(id, memory.change, **values)
                else:
                    self.model.held[id] = ledger.Held(memory.scope.user_id, [{**values, "change": "create"}])
                self.updated[id] = memory.updated_at
        again = self.memory.reflect(user_id=salience.ANY)
        assert (again.made, again.renewed, again.retired) == ((), (), ())
        self.done()

    @rule()
    def reembed(self) -> None:
        other = Hashed("second", 24) if self.embedder.name == "first" else Hashed("first", 16)
        self.memory.reembed(other)
        self.embedder = other
        stored = self.memory.services.store.scan(
            salience.Scope(**everywhere()), limit=10_000, forgotten=True, versions=True
        )
        texts = {item.memory.content for item in stored}
        space = {
            text: vector / np.linalg.norm(vector)
            for text, vector in zip(texts, other.embed(list(texts)) if texts else (), strict=True)
        }
        for item in stored:
            assert item.vector is not None
            assert float(item.vector @ space[item.memory.content]) > 0.999
        self.done()

    # -- moving

    @rule()
    def reopen(self) -> None:
        if self.lasts:
            self.memory.close()
            self.memory = self.connect()

    @rule(unfinished=st.booleans())
    def crash(self, unfinished: bool) -> None:
        """Break off, perhaps in the middle of a write, and go on with what lasts."""
        if self.lasts:
            self.break_off(unfinished)

    def break_off(self, unfinished: bool) -> None:
        """Break off what lasts, in the way of the kind of store."""

    @rule()
    def move_house(self) -> None:
        """Export everything, and go on with a new store that imported it."""
        file = self.folder / f"export{self.files}.ndjson"
        written = self.memory.export(file, overwrite=True)
        before = self.memory
        self.path = self.new_file()
        self.memory = self.connect()
        report = self.memory.import_(file)
        assert report.written == written.written == len(self.model.held)
        before.close()
        self.model.seen.clear()  # counters of earlier instants stay behind; versions do not, as `every_history` sees

    @rule()
    def doctor(self) -> None:
        report = self.memory.doctor()
        assert report.findings == ()
        assert report.memories == len(self.model.held)

    # -- what always holds

    @invariant()
    def counts_agree(self) -> None:
        for user in USERS:
            assert self.memory.stats(user_id=user).memories == len(self.sees(user))

    @invariant()
    def a_history_is_whole(self) -> None:
        if self.model.held:
            ids = sorted(self.model.held)
            self.history_of(ids[len(self.model.seen) % len(ids)])

    def every_history(self) -> None:
        for id in self.model.held:
            self.history_of(id)

    def history_of(self, id: str) -> None:
        held = self.model.held[id]
        versions = [version.memory for version in self.memory.history(id, user_id=held.user)]
        assert [memory.version for memory in versions] == list(range(1, len(versions) + 1))
        assert [(memory.change, memory.content) for memory in versions] == [
            (version["change"], version["content"]) for version in held.versions
        ]
        gone = [version["gone"] for version in held.versions]
        gone[-1] = gone[-1] or held.is_over(self.clock())
        assert [memory.forgotten_at is not None for memory in versions] == gone


def contents_as(contents: Sequence[str]) -> list[dict[str, str]]:
    return [{"content": content} for content in contents]


def taken(version: dict[str, Any]) -> dict[str, Any]:
    """Return what a restored version gives: all but the links that belong to the memory as it is."""
    names = ("content", "importance", "weight", "tier", "supersedes", "tags", "fact_key", "kind")
    return {name: version[name] for name in names} | ({"sources": version["sources"]} if "sources" in version else {})


def everywhere() -> dict[str, Any]:
    return dict.fromkeys(("environment", "project", "user_id", "agent_id"), salience.ANY)


class OnAFile(Everything):
    """On a file that is copied while it is open."""

    lasts = True

    def new_file(self) -> str:
        self.files += 1
        return str(self.folder / f"{self.files}.db")

    def break_off(self, unfinished: bool) -> None:
        """Go on with the bytes that are on disk while the engine is open."""
        old, self.path = self.path, self.new_file()
        with closing(sqlite3.connect(old, isolation_level=None)) as raw:
            if unfinished:
                raw.execute("PRAGMA cache_spill=ON")
                raw.execute("BEGIN IMMEDIATE")
                raw.execute("UPDATE memories SET content = 'half-written'")
            for suffix in ("", "-wal"):
                if Path(old + suffix).exists():
                    shutil.copy(old + suffix, self.path + suffix)
            if unfinished:
                raw.execute("ROLLBACK")
        self.memory.close()
        self.memory = self.connect()


class OnAServer(Everything):
    """On PostgreSQL, where connections break and the server is killed in the middle of verbs, which then go on."""

    lasts = True

    def __init__(self, breaking: breaking.Breaking) -> None:
        self.breaking = breaking
        super().__init__()

    def new_file(self) -> str:
        self.files += 1
        place = self.breaking.places[self.files % 2]
        databases.empty(place)
        return place

    @rule(how=st.sampled_from(breaking.HOW), turns=st.integers(0, 40))
    def let_it_break(self, how: str, turns: int) -> None:
        """Whatever is done next loses its connection on the way."""
        self.breaking.arm(how, turns)

    def break_off(self, unfinished: bool) -> None:
        """Lose all connections, that of somebody else in the middle of a write too; the engine stays open."""
        with closing(psycopg.connect(self.path)) as other:
            if unfinished:
                other.execute("UPDATE salience.memories SET content = 'half-written'")
                other.execute("UPDATE salience.tenants SET sequence = sequence + 1000")
            self.breaking.crash(kill=unfinished)


def test_nothing_that_was_acknowledged_is_lost_on_a_server() -> None:
    steps = GIVEN or STEPS["server"]
    with server() as running, databases.laid_out(running) as one, databases.laid_out(running) as two:
        breaks = breaking.Breaking(running, (one, two), kills=max(3, steps // 500))
        with breaks.listening():
            run(lambda: OnAServer(breaks), steps)
    assert len(set(breaks.broken)) > 1


@pytest.mark.parametrize(("store", "machine"), [("memory", Everything), ("file", OnAFile)])
def test_nothing_that_was_acknowledged_is_lost(store: str, machine: type[Everything]) -> None:
    run(machine, GIVEN or STEPS[store])


def run(machine: Callable[[], Everything], steps: int) -> None:
    runs = max(1, steps // PER_RUN)
    chosen = settings(
        max_examples=runs,
        stateful_step_count=PER_RUN,
        derandomize=not GIVEN,
        phases=(Phase.generate,),  # to shorten a failing run takes many times as long as to find it
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(machine, settings=chosen)
