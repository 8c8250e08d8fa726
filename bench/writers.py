"""Writers that run random verbs and note them in a journal, and the check of a store against these journals."""

from __future__ import annotations

import base64
import io
import json
import os
import sqlite3
from collections import Counter
from collections.abc import Callable, Sequence, Set
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Final, NamedTuple

import numpy as np

from salience import compose
from salience.access_log import flush_all
from salience.batch import Vectors32
from salience.engine import Engine
from salience.errors import LeaseError, SalienceError, StoreError, UnsettledError
from salience.records import ANY, Draft, Memory
from salience.records.checks import QUERY_LIMIT
from salience.records.ids import short_id
from salience.text import content_hash
from tests.contract.doubles import PlantedEmbedder

WORDS: Final = "anchor bridge candle desert ember forest garden harbour island jungle kettle ladder meadow".split()
TOPICS: Final = "sailing pottery chess climbing baking astronomy".split()
ABOUT: Final = " about "
BOARD: Final = "the board of all writers"
THINKING: Final = " thinking"
"""Suffix of the users whose memories are summed up; versions that `reflect` writes there are not foreseen."""
RELEASED: Final = "no longer replaces"
"""What the reason of a version begins with that only ends a relation; the short id of the other memory follows."""


class TopicalEmbedder(PlantedEmbedder):
    """An embedder under which texts about one topic are near each other, so that `reflect` groups them."""

    def _vector(self, text: str) -> Vectors32:
        own, (_, about, topic) = super()._vector(text), text.rpartition(ABOUT)
        return own * 0.3 + super()._vector(topic) if about else own


def opened(path: Path) -> Engine:
    """Return an engine on a file; its profile counts every recall on the memories that it returns."""
    return compose.local(path, embedder=TopicalEmbedder(), profile="zeromemory")


# --- The journal of a writer ------------------------------------------------------------------------------------------


class Mark(NamedTuple):
    """One version of one memory; None: not known before the verb runs."""

    change: str
    content: str
    id: str | None = None
    version: int | None = None

    def fits(self, other: Mark) -> bool:
        """Return whether `other`, which has no None, is what this mark expects.

        Its version may be a later one: a check sees whether what lies between is all `released`.
        """
        return self[:2] == other[:2] and self.id in (None, other.id) and (self.version or 0) <= (other.version or 0)


class Row(NamedTuple):
    """The fields of a version that a check compares."""

    id: str
    version: int
    change: str
    content: str
    user: str | None
    session: str | None
    tier: str
    kind: str
    weight: float
    live: bool
    access_count: int = 0
    content_hash: str = ""
    vector: bytes | None = None
    changed_at: str = ""
    reason: str | None = None

    @classmethod
    def of(cls, memory: Memory) -> Row:
        """Return the row of a memory as a receipt has it."""
        scope, live = memory.scope, memory.forgotten_at is None
        named = (str(scope.user_id), str(scope.session_id), memory.tier, memory.kind)
        return cls(memory.id, memory.version, memory.change, memory.content, *named, memory.weight, live)

    @property
    def mark(self) -> Mark:
        """The mark of this version."""
        return Mark(self.change, self.content, self.id, self.version)


def exported(engine: Engine) -> list[Row]:
    """Return every version of every memory of the engine's tenant; of each memory, the oldest comes first."""
    file = io.StringIO()
    engine.export(file)
    rows = []
    for line in map(json.loads, file.getvalue().splitlines()[1:]):
        m = line["memory"]
        vector = None if line.get("vector") is None else base64.b64decode(line["vector"])
        named = (m["scope"].get("user_id"), m["scope"].get("session_id"), m["tier"], m["kind"], m["weight"])
        live = m["forgotten_at"] is None
        counts = (m["access_count"], m["content_hash"], vector, m["changed_at"], m.get("reason"))
        rows.append(Row(m["id"], m["version"], m["change"], m["content"], *named, live, *counts))
    return rows


def released(rows: Sequence[Row], erased: Set[str] = frozenset()) -> set[Mark]:
    """Return the marks of versions that only end a relation, because the text of another memory is now the latest.

    Such a version is like the one before, and begins with the version of the other memory that has the new text, if
    that memory is not erased.
    """
    at = {(row.id, row.version): row for row in rows}
    is_release = {row.mark: row.change == "update" and (row.reason or "").startswith(f"{RELEASED} ") for row in rows}
    told = {
        (short_id(row.id), row.changed_at)
        for row in rows
        if row.change in ("update", "restore") and not is_release[row.mark]
    }
    ever, gone = {short for short, _ in told}, {short_id(one) for one in erased}
    found = set()
    for row in rows:
        before, short = at.get((row.id, row.version - 1)), (row.reason or "").removeprefix(f"{RELEASED} ")
        if not is_release[row.mark] or before is None or not row.live or short == short_id(row.id):
            continue
        began = (short, row.changed_at) in told or short in gone
        began |= row.changed_at == before.changed_at and short in ever  # no version begins before the one before it
        same = row._replace(
            version=before.version, change=before.change, reason=before.reason, changed_at=before.changed_at,
            access_count=before.access_count,
        )  # fmt: skip
        if began and same == before:
            found.add(row.mark)
    return found


@dataclass
class Entry:
    """A verb in a journal: what it was going to write and erase, and how it ended, if the writer learned that."""

    writer: str
    number: int
    verb: str
    expected: list[Mark]
    erased: list[str]
    keyed: bool
    acknowledged: list[Mark] | None = None
    touched: list[str] = field(default_factory=list)
    refused: str | None = None

    @property
    def in_flight(self) -> bool:
        """Whether the verb changes memories and its writer was cut off before the answer."""
        return self.acknowledged is None and self.refused is None and bool(self.expected or self.erased)


class Journal:
    """A file of JSON lines, one `write` call each, so that a kill loses at most the last line."""

    def __init__(self, path: Path) -> None:
        self.path = path
        if path.exists():
            os.truncate(path, path.read_bytes().rfind(b"\n") + 1)
        self.number = len(read_journal(path)[0])

    def note(self, **line: Any) -> None:
        """Append a line."""
        with self.path.open("ab", buffering=0) as file:
            file.write(json.dumps(line).encode() + b"\n")


def read_journal(path: Path) -> tuple[list[Entry], list[str]]:
    """Return the verbs of a journal and the failures in it."""
    entries: dict[int, Entry] = {}
    failures: list[str] = []
    lines = path.read_bytes().rpartition(b"\n")[0].splitlines() if path.exists() else []
    for line in map(json.loads, lines):
        if "verb" in line:
            expected = [Mark(*one) for one in line["expected"]]
            entries[line["n"]] = Entry(path.stem, line["n"], line["verb"], expected, line["erased"], line["keyed"])
        elif "acknowledged" in line:
            entries[line["n"]].acknowledged = [Mark(*one) for one in line["acknowledged"]]
            entries[line["n"]].touched = line.get("touched", [])
        elif "refused" in line:
            entries[line["n"]].refused = line["refused"]
        else:
            failures.append(line["failure"])
    return list(entries.values()), failures


def acknowledged_verbs(folder: Path) -> Counter[str]:
    """Return how often each verb was acknowledged, by the journals of a folder."""
    entries = [entry for path in folder.glob("*.journal") for entry in read_journal(path)[0]]
    return Counter(entry.verb for entry in entries if entry.acknowledged is not None)


# --- Writers and their verbs ------------------------------------------------------------------------------------------

Done = tuple[Sequence[Memory], Sequence[str]]
"""The answer of a verb: memories as its receipts have them, ids of memories on which a recall is counted for good."""


@dataclass
class Step:
    """A verb that is ready to run; it writes all of `expected` and `erased`, or nothing."""

    expected: list[Mark]
    run: Callable[[], Done]
    erased: list[str] = field(default_factory=list)
    keyed: bool = False
    leaves: list[str] = field(default_factory=list)
    more: bool = False
    """Whether it may write further versions, in further transactions."""


class Writer:
    """Runs verbs on an engine; only the writer itself changes its memories, apart from the board."""

    def __init__(
        self, engine: Engine, journal: Journal, seed: object, board: str | None = None, user: str | None = None
    ) -> None:
        self.engine, self.journal, self.board = engine, journal, board
        self.name = journal.path.stem
        self.user = user or self.name
        self.chance = Random(str(seed))
        self.count = 1000 * journal.number
        self.own: dict[str, Row] = {}
        self.gone: dict[str, Row] = {}
        self.created: set[str] = set()
        self.thoughts: set[str] = set()
        if user is None:
            self._learn(exported(engine))
            self.created.clear()  # verbs that were cut off may have to do with the others

    def text(self) -> str:
        """Return a text that is new to the store."""
        self.count += 1
        length = 1500 if self.chance.random() < 0.03 else self.chance.randint(2, 12)
        return " ".join((self.name, str(self.count), *self.chance.choices(WORDS, k=length)))

    def any_own(self) -> Row | None:
        """Return one of the writer's live memories."""
        return self.chance.choice(list(self.own.values())) if self.own else None

    def session(self) -> str:
        """Return the name of one of the writer's sessions."""
        return f"{self.name} {self.chance.randint(1, 3)}"

    def step(self, leave: Sequence[str] = ()) -> tuple[str, Done]:
        """Run a random verb, none of `leave`."""
        names = [name for name in VERBS if name not in leave]
        while True:
            name = self.chance.choices(names, [VERBS[name][1] for name in names])[0]
            ready = VERBS[name][0](self)
            if ready is not None:
                return name, self.run(name, ready)

    def run(self, verb: str, ready: Step) -> Done:
        """Run a verb, noted before and after.

        Raises:
            UnsettledError: nobody knows whether the verb was done.
            StoreError: the store refused the verb; nothing may be written.
        """
        number, self.journal.number = self.journal.number, self.journal.number + 1
        self.journal.note(n=number, verb=verb, expected=ready.expected, erased=ready.erased, keyed=ready.keyed)
        try:
            written, touched = ready.run()
        except UnsettledError:
            raise
        except StoreError as error:
            self.journal.note(n=number, refused=type(error).__name__)
            raise
        rows = [Row.of(memory) for memory in written]
        marks = [row.mark for row in rows]
        missing = [one for one in ready.expected if not any(one.fits(mark) for mark in marks)]
        foreign = [mark for mark in marks if not any(one.fits(mark) for one in ready.expected)]
        unchanged = verb == "race"  # another writer may have stored it, and the receipt shows its present version
        if (missing and not unchanged) or (foreign and not ready.more and not unchanged):
            self.journal.note(failure=f"{verb} {number}: the receipts do not say what was asked for")
        self.journal.note(n=number, acknowledged=marks, touched=list(touched))
        self._learn(rows)
        for left in ready.leaves:
            self.own.pop(left, None)
            self.gone.pop(left, None)
        return written, touched

    def _learn(self, rows: Sequence[Row]) -> None:
        for row in rows:
            if row.change == "create":
                self.created.add(row.id)
            if row.user == self.user:
                self.own.pop(row.id, None)
                self.gone.pop(row.id, None)
                if not row.live:
                    self.gone[row.id] = row
                elif row.weight == 1:
                    self.own[row.id] = row
            elif row.user == f"{self.name}{THINKING}" and row.kind != "reflection":
                (self.thoughts.add if row.live else self.thoughts.discard)(row.id)


def key_of(content: str) -> str:
    """Return the idempotency key of a text: its first two words."""
    return "key of " + " ".join(content.split(maxsplit=2)[:2])


def changed(memory: Row, change: str, content: str | None = None) -> Mark:
    """Return the mark of a memory's next version, which `released` ones may precede."""
    return Mark(change, content or memory.content, memory.id, memory.version + 1)


def remember(w: Writer) -> Step:
    text, working = w.text(), w.chance.random() < 0.5
    where = {"tier": "working", "session_id": w.session()} if working else {"tier": "episodic"}
    return Step(
        [Mark("create", text)],
        lambda: ([w.engine.remember(text, key=key_of(text), tags=["t"], user_id=w.user, **where).memory], ()),  # type: ignore[arg-type]
        keyed=True,
    )


def remember_many(w: Writer) -> Step:
    texts = [w.text() for _ in range(w.chance.randint(2, 20))]
    drafts = [Draft(content=text, key=key_of(text)) for text in texts]
    return Step([Mark("create", text) for text in texts], lambda: (_stored(w, drafts), ()), keyed=True)


def _stored(w: Writer, drafts: Sequence[Draft], user: str | None = None) -> list[Memory]:
    return [receipt.memory for receipt in w.engine.remember_many(drafts, user_id=user or w.user)]


def supersede(w: Writer) -> Step | None:
    old = w.any_own()
    if old is None or old.tier == "working":  # the end of a session moves working memories
        return None
    draft = Draft(content=w.text(), supersedes=old.id)

    def run() -> Done:
        made, versions = _stored(w, [draft]), w.engine.history(old.id, user_id=w.user)
        return [*made, *[one.memory for one in versions if one.memory.change == "supersede"][-1:]], ()

    return Step([Mark("create", draft.content), changed(old, "supersede")], run, leaves=[old.id])


def ingest(w: Writer) -> Step:
    texts, session = [w.text() for _ in range(w.chance.randint(2, 20))], w.session()
    messages = [{"role": ("assistant", "user")[n % 2], "content": text} for n, text in enumerate(texts)]

    def run() -> Done:
        return [receipt.memory for receipt in w.engine.ingest(messages, user_id=w.user, session_id=session)], ()

    return Step([Mark("create", text) for text in texts], run)


def update(w: Writer) -> Step | None:
    if (old := w.any_own()) is None:
        return None
    text = w.text()
    return Step(
        [changed(old, "update", text)], lambda: ([w.engine.update(old.id, content=text, user_id=w.user).memory], ())
    )


def forget(w: Writer) -> Step | None:
    if (old := w.any_own()) is None:
        return None
    return Step([changed(old, "forget")], lambda: ([w.engine.forget(old.id, user_id=w.user).memory], ()))


def restore(w: Writer) -> Step | None:
    if not w.gone:
        return None
    old = w.chance.choice(list(w.gone.values()))
    return Step([changed(old, "restore")], lambda: ([w.engine.restore(old.id, user_id=w.user).memory], ()))


def erase(w: Writer) -> Step | None:
    known = [one for one in (*w.own, *w.gone) if one in w.created]
    if not known:
        return None
    ids = w.chance.sample(known, min(len(known), 3))

    def run() -> Done:
        if w.engine.erase(ids, user_id=w.user) != len(ids):
            w.journal.note(failure="erase: fewer memories than asked for")
        return (), ()

    return Step([], run, erased=ids, leaves=ids)


def observe(w: Writer) -> Step:
    topic, user = w.chance.choice(TOPICS), f"{w.name}{THINKING}"
    drafts = [Draft(content=f"{w.text()[:200]}{ABOUT}{topic}", duplicate=True) for _ in range(w.chance.randint(2, 6))]
    return Step([Mark("create", draft.content) for draft in drafts], lambda: (_stored(w, drafts, user), ()))


def rethink(w: Writer) -> Step | None:
    """Update a memory that a reflection may sum up; the reflection becomes stale in the same transaction."""
    if not w.thoughts:
        return None
    user = f"{w.name}{THINKING}"
    old = Row.of(w.engine.get(w.chance.choice(sorted(w.thoughts)), user_id=user))
    text = f"{w.text()[:200]}{ABOUT}{w.chance.choice(TOPICS)}"
    return Step(
        [changed(old, "update", text)], lambda: ([w.engine.update(old.id, content=text, user_id=user).memory], ())
    )


def reflect(w: Writer) -> Step:
    def run() -> Done:
        report = w.engine.reflect(user_id=f"{w.name}{THINKING}")
        return (*report.made, *report.renewed), ()

    return Step([], run, more=True)


def upkeep(w: Writer) -> Step | None:
    if w.board is not None:  # the upkeep of one writer would change the memories of others
        return None

    def run() -> Done:
        with suppress(LeaseError):  # of an upkeep that was killed
            w.engine.upkeep()
        return (), ()

    return Step([], run, more=True)


def end_session(w: Writer) -> Step:
    session = w.session()
    moving = [one for one in w.own.values() if one.tier == "working" and one.session == session]

    def run() -> Done:
        promoted = w.engine.end_session(session, user_id=w.user).promoted
        return [w.engine.get(one, user_id=w.user) for one in promoted], ()

    return Step([changed(memory, "promote") for memory in moving], run)


def post(w: Writer) -> Step | None:
    """Update the board, which other writers update at the same time."""
    if (board := w.board) is None:
        return None
    text = w.text()
    return Step([Mark("update", text, board)], lambda: ([w.engine.update(board, content=text).memory], ()))


def race(w: Writer) -> Step | None:
    """Store a text under a key that other writers use for the same text."""
    if w.board is None:
        return None
    text = f"race {w.chance.randrange(200)} is won by one"
    return Step([Mark("create", text)], lambda: ([w.engine.remember(text, key=key_of(text)).memory], ()), keyed=True)


def recall(w: Writer) -> Step:
    query = " ".join(w.chance.choices(WORDS, k=2))
    return Step([], lambda: ((), counted(w.engine.recall(query, limit=5, min_score=0, user_id=w.user))))


def counted(answer: Any) -> list[str]:
    """Return the ids on which a recall is counted, once the counts are on disk; nothing while they are not."""
    on_disk = any(flush_all() for _ in range(60))
    return [hit.memory.id for hit in answer] if on_disk else []


VERBS: Final[dict[str, tuple[Callable[[Writer], Step | None], int]]] = {
    "remember": (remember, 30), "remember_many": (remember_many, 10), "supersede": (supersede, 6),
    "ingest": (ingest, 8), "update": (update, 20), "forget": (forget, 6), "restore": (restore, 3), "erase": (erase, 3),
    "observe": (observe, 4), "rethink": (rethink, 3), "reflect": (reflect, 4), "upkeep": (upkeep, 2),
    "end_session": (end_session, 3), "post": (post, 8), "race": (race, 8), "recall": (recall, 20),
}  # fmt: skip
"""Verb -> its maker (None: nothing to do it on) and its weight."""


def board(engine: Engine, journal: Journal) -> str:
    """Return the id of the memory that all writers update; it is made where the journal is empty."""
    entries, _ = read_journal(journal.path)
    if entries and entries[0].acknowledged:
        return str(entries[0].acknowledged[0].id)
    writer = Writer(engine, journal, 0, user="nobody")
    made, _ = writer.run("remember", Step([Mark("create", BOARD)], lambda: ([engine.remember(BOARD).memory], ())))
    return made[0].id


# --- The check --------------------------------------------------------------------------------------------------------

RULES: Final = {
    "a memory lacks versions, or has too many": """
        SELECT count(*) FROM memories AS m
        WHERE version - 1 <> (SELECT count(*) FROM versions AS v WHERE v.tenant = m.tenant AND v.id = m.id)
        OR version <= (SELECT coalesce(max(version), 0) FROM versions AS v WHERE v.tenant = m.tenant AND v.id = m.id)
        """,
    "a version does not end where the next one begins": """
        WITH each AS (
            SELECT tenant, id, version, changed_at, valid_to FROM versions
            UNION ALL SELECT tenant, id, version, changed_at, NULL FROM memories)
        SELECT count(*) FROM each AS one JOIN each AS next
        ON one.tenant = next.tenant AND one.id = next.id AND next.version = one.version + 1
        WHERE one.valid_to <> next.changed_at""",
    "two turns of a session have the same place": """
        SELECT count(*) FROM (
            SELECT 1 FROM memories WHERE session_id IS NOT NULL
            GROUP BY tenant, environment, user_id, session_id, turn HAVING count(*) > 1) AS twice""",
    "a key stands for two memories": """
        SELECT count(*) FROM (
            SELECT 1 FROM memories WHERE key IS NOT NULL GROUP BY tenant, home, key HAVING count(*) > 1) AS twice""",
    "a memory supersedes one that keeps its weight": """
        SELECT count(*) FROM memories AS new JOIN memories AS old
        ON old.tenant = new.tenant AND old.id = new.supersedes WHERE old.weight > 0.1""",
}
"""What is wrong -> the statement that counts it, for SQLite and PostgreSQL."""
FILE_RULES: Final = RULES | {
    "a foreign key points nowhere": "SELECT count(*) FROM pragma_foreign_key_check",
    "a row is newer than the sequence": """
        SELECT count(*) FROM memories
        WHERE seq > (SELECT coalesce(max(CAST(value AS INTEGER)), 0) FROM meta WHERE name = 'sequence')""",
    "a live reflection has a source that is not live, or does not name it": """
        SELECT count(*) FROM memories AS one, json_each(one.sources) AS source
        LEFT JOIN memories AS it ON it.tenant = one.tenant AND it.id = source.value
        WHERE one.forgotten_at IS NULL AND (it.forgotten_at IS NOT NULL OR it.reflection IS NOT one.id)""",
}


@dataclass
class Checked:
    """What a check found. `whole` and `absent` count writes that were cut off and found done or not done."""

    acknowledged: int = 0
    lost: int = 0
    whole: int = 0
    absent: int = 0
    faults: list[str] = field(default_factory=list)
    in_flight: list[tuple[Entry, list[Mark] | None]] = field(default_factory=list)

    def add(self, other: Checked) -> None:
        """Add the counts and faults of another check."""
        for name in ("acknowledged", "lost", "whole", "absent", "faults"):
            setattr(self, name, getattr(self, name) + getattr(other, name))


def check(engine: Engine, path: Path | None, journals: Sequence[Path], *, exact: bool = False) -> Checked:
    """Compare a store with the journals of its writers, without changing it.

    Args:
        engine: on the store.
        path: its file, to be read by SQLite too; None for a store on a server.
        journals: of all its writers.
        exact: whether more recalls counted on a memory than journals say is a fault; after a kill it is none.
    """
    entries: list[Entry] = []
    faults: list[str] = []
    for journal in journals:
        verbs, failures = read_journal(journal)
        entries += verbs
        faults += failures
    rows = exported(engine)
    marks = Counter(row.mark for row in rows)
    by_text: dict[tuple[str, str], list[Mark]] = {}
    for mark in marks:
        by_text.setdefault((mark.change, mark.content), []).append(mark)
    current = {row.id: row for row in rows}
    freed = released(rows, {one for entry in entries for one in entry.erased} - current.keys())
    freed_at = {(mark.id, mark.version) for mark in freed}

    def follows(expected: Mark, mark: Mark) -> bool:
        between = range(expected.version or mark.version or 0, mark.version or 0)
        return expected.fits(mark) and all((mark.id, version) in freed_at for version in between)

    def found(entry: Entry) -> list[list[Mark]]:
        return [[m for m in by_text.get(one[:2], []) if follows(one, m)] for one in entry.expected]

    done = [entry for entry in entries if entry.acknowledged is not None]
    result = Checked()
    for entry in (entry for entry in entries if entry.in_flight):
        there = [*map(bool, found(entry)), *(one not in current for one in entry.erased)]
        if all(there):
            done.append(entry)
            result.in_flight.append((entry, [mark for fitting in found(entry) for mark in fitting]))
        elif any(there):
            faults.append(f"half of a {entry.verb} is there")
        else:
            result.in_flight.append((entry, None))
    erased = {one for entry in done for one in entry.erased}
    acknowledged = {mark for entry in entries for mark in entry.acknowledged or () if mark.id not in erased}
    cut_off = {mark for _, there in result.in_flight for mark in there or ()}
    free = {row.mark for row in rows if str(row.user).endswith(THINKING) and "reflect" in (row.change, row.kind[:7])}
    lost = [mark for mark in acknowledged if mark not in marks]
    faults += [f"an acknowledged version is lost: {m.change} of {m.id}, version {m.version}" for m in lost]
    faults += [f"{one} was erased and is there" for one in erased & current.keys()]
    faults += [
        f"nobody wrote {m.change} of {m.id}, version {m.version}"
        for m in marks.keys() - acknowledged - cut_off - free - freed
    ]
    for entry in (entry for entry in entries if entry.acknowledged and entry.verb != "race"):
        unmet = [one for one in entry.expected if not any(follows(one, mark) for mark in entry.acknowledged or ())]
        faults += [f"{entry.verb} {entry.number}: not on the version it was for" for m in unmet if m.id not in erased]
    for entry in (entry for entry in entries if entry.refused):
        if any(set(fitting) - acknowledged - free for fitting in found(entry)):
            faults.append(f"{entry.verb} failed with {entry.refused}, and yet a part of it is there")
    texts = Counter(row.content for row in rows if row.version == 1 and row.kind != "reflection")
    faults += [f"a text is there {count} times" for count in texts.values() if count > 1]
    live = [row for row in current.values() if row.live]
    vectors = TopicalEmbedder().embed([row.content for row in current.values()])
    for row, vector in zip(current.values(), vectors, strict=True):
        held = np.frombuffer(row.vector or b"", "<f4")
        if row.content_hash != content_hash(row.content):
            faults.append(f"{row.id}: the hash is not that of the text")
        if held.shape != vector.shape or not np.allclose(held, vector / np.linalg.norm(vector), atol=1e-6):
            faults.append(f"{row.id}: the vector is not that of the text")
    if (count := engine.stats(environment=ANY, project=ANY, user_id=ANY, agent_id=ANY).memories) != len(live):
        faults.append(f"{count} live memories are counted, and {len(live)} are there")
    recalls = Counter(one for entry in entries for one in entry.touched)
    forgotten = {row.id for row in rows if not row.live}  # a recall beside a forget may not be counted
    for row in current.values():
        short = recalls[row.id] - row.access_count
        if (short > 0 and row.id not in forgotten) or (exact and short < 0):
            faults.append(f"{row.id}: {recalls[row.id]} recalls noted, {row.access_count} counted")
    for user in sorted({str(row.user) for row in live if row.user}):
        for row in [row for row in live if row.user == user and len(row.content) <= QUERY_LIMIT][-5:]:
            answer = engine.recall(row.content, limit=5, min_score=0, dry_run=True, user_id=user)
            if row.id not in [hit.memory.id for hit in answer]:
                faults.append(f"{row.id} is not found by its own text")
    faults += [f"doctor: {found.check} of {found.id}: {found.problem}" for found in engine.doctor().findings]
    faults += [] if path is None else broken_file(path)
    result.acknowledged, result.lost, result.faults = len(acknowledged), len(lost), faults
    result.absent = sum(there is None for _, there in result.in_flight)
    result.whole = len(result.in_flight) - result.absent
    return result


def broken_file(path: Path) -> list[str]:
    """Return what SQLite itself finds wrong with a file, and the rules between rows that do not hold."""
    try:
        with closing(sqlite3.connect(path)) as file:
            found = [f"integrity: {line}" for (line,) in file.execute("PRAGMA integrity_check") if line != "ok"]
            counts = {wrong: file.execute(statement).fetchone()[0] for wrong, statement in FILE_RULES.items()}
    except sqlite3.Error as error:
        return [f"SQLite cannot read the file: {type(error).__name__}"]
    return found + [f"{wrong}: {count}" for wrong, count in counts.items() if count]


def settle(engine: Engine, folder: Path, checked: Checked) -> None:
    """Note what became of writes that were cut off; those with keys are repeated, as a caller would repeat them."""
    for entry, there in checked.in_flight:
        journal = Journal(folder / f"{entry.writer}.journal")
        if not entry.keyed:
            journal.note(n=entry.number, **({"refused": "Killed"} if there is None else {"acknowledged": there}))
            continue
        drafts = [Draft(content=mark.content, key=key_of(mark.content)) for mark in entry.expected]
        receipts = engine.remember_many(drafts, user_id=None if entry.verb == "race" else entry.writer)
        marks = {
            *(there or ()),
            *(Row.of(receipt.memory).mark for receipt in receipts),
        }  # those may be of later versions
        journal.note(n=entry.number, acknowledged=sorted(marks))
        answers, right = {receipt.status for receipt in receipts}, "created" if there is None else "unchanged"
        if answers != {right} and entry.verb != "race":
            checked.faults.append(f"a repeated {entry.verb} answered {sorted(answers)} instead of {right}")


def examine(file: Path, folder: Path, seed: str, *, exact: bool = False) -> Checked:
    """Open a file, check it, settle what was cut off, and write on."""
    try:
        with opened(file) as engine:
            checked = check(engine, file, sorted(folder.glob("*.journal")), exact=exact)
            settle(engine, folder, checked)
            writer = Writer(engine, Journal(folder / "parent.journal"), seed)
            for _ in range(2):
                writer.step()
            return checked
    except SalienceError as error:
        return Checked(faults=[f"the file does not open: {type(error).__name__}: {error}"])
