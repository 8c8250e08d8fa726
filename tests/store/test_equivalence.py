"""The same changes on both stores give the same answers: the SQLite store does what the specification does."""

import shutil
import tempfile
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from unittest.mock import patch

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from salience.batch import KINDS
from salience.errors import SalienceError
from salience.ports import Add, Near, Revise, Touch
from salience.records import ANY, TIERS, Filter, Scope
from salience.store.memory import MemoryStore
from salience.store.sqlite import SQLiteStore
from salience.testing.memories import DIMENSION, EVERYTHING, NOW, id_of, need, random_unit, stored

NUMBERS = st.integers(0, 11)
MOMENTS = st.sampled_from([NOW + timedelta(hours=hours) for hours in range(-2, 3)])
USERS, PROJECTS, AGENTS = (st.sampled_from([None, f"{name}1", f"{name}2"]) for name in "upa")
SESSIONS = st.sampled_from([None, "s1", "s2"])
TERMS = st.lists(st.sampled_from("abcd"), max_size=5).map(tuple)
DISTINCTIONS = st.lists(
    st.sampled_from(["text:a", "text:b", "number:1", "date:1", "name:zoë lee", "claim:not"]), max_size=4
).map(tuple)
TAGS = st.lists(st.sampled_from(["x", "y", '"', ","]), max_size=3, unique=True).map(tuple)
NAMES = st.lists(st.sampled_from(["Ann", "ANN", "Bob", "Zoë", "ann lee"]), max_size=3, unique=True).map(tuple)
VECTORS = st.one_of(st.none(), st.integers(0, 5).map(random_unit))
FIELDS = st.fixed_dictionaries(
    {
        "kind": st.sampled_from(["fact", "rule"]),
        "importance": st.sampled_from([0.0, 0.1, 0.5, 0.97]),
        "weight": st.sampled_from([0.1, 1.0]),
        "tier": st.sampled_from(TIERS),
        "tags": TAGS,
        "entities": NAMES,
        "fact_key": st.sampled_from([None, "f", "g"]),
        "supersedes": st.one_of(st.none(), NUMBERS.map(id_of)),
        "key": st.sampled_from([None, None, "k1", "k2"]),
        "created_at": MOMENTS,
        "speaker": st.sampled_from([None, "Ann", "ann lee", "Bob"]),
        "expires_at": st.one_of(st.none(), MOMENTS),
        "forgotten_at": st.sampled_from([None, None, None, NOW]),
    }
)
HOMES = st.fixed_dictionaries(
    {
        "tenant": st.sampled_from(["default", "default", "other"]),
        "environment": st.sampled_from(["default", "e"]),
        "project": PROJECTS,
        "user_id": USERS,
        "agent_id": AGENTS,
        "session_id": SESSIONS,
    }
)
CALLERS = st.builds(
    Scope,
    tenant=st.sampled_from(["default", "default", "other"]),
    environment=st.sampled_from([ANY, "default", "e"]),
    project=PROJECTS | st.just(ANY),
    user_id=USERS | st.just(ANY),
    agent_id=AGENTS | st.just(ANY),
    session_id=SESSIONS,
)
FILTERS = st.just(Filter()) | st.builds(
    Filter,
    tags=TAGS,
    kinds=st.sampled_from([(), ("fact",), ("rule", "none")]),
    tiers=st.sampled_from([(), ("working",), ("episodic", "semantic")]),
    sessions=st.sampled_from([(), ("s1",)]),
    since=st.sampled_from([None, NOW]),
    until=st.sampled_from([None, NOW + timedelta(hours=1)]),
    level=st.sampled_from([None, "global", "project"]),
)
NEEDS = st.builds(
    need,
    scope=st.just(EVERYTHING) | CALLERS,
    filter=FILTERS,
    now=MOMENTS,
    vector=VECTORS,
    voice=VECTORS,
    speakers=st.lists(st.sampled_from(["ann", "bob", "lee"]), max_size=2).map(tuple),
    terms=st.lists(st.sampled_from("abcde"), max_size=3, unique=True).map(tuple),
    names=st.lists(st.sampled_from(["ann", "bob", "zoë", "carol"]), max_size=3).map(tuple),
    entities=st.booleans(),
    windows=st.booleans(),
    vectors=st.booleans(),
    distinctions=st.booleans(),
    candidates=st.one_of(st.none(), st.integers(0, 12)),
    ids=st.one_of(st.none(), st.lists(NUMBERS.map(id_of), max_size=4).map(tuple)),
    near=st.one_of(
        st.none(),
        st.builds(
            lambda seeds, above: Near(np.stack([random_unit(seed) for seed in seeds]), above),
            st.lists(st.integers(0, 5), min_size=1, max_size=3),
            st.sampled_from([-1.0, 0.0, 0.5]),
        ),
    ),
)
ADDS = st.builds(
    lambda number, vector, terms, turns, held, fields, home: Add(
        stored(number, vector, terms, turns, held, **fields, **home)
    ),
    NUMBERS,
    VECTORS,
    TERMS,
    st.dictionaries(st.sampled_from(["default\x1f\x1fs1", "e\x1fu1\x1fs2"]), st.integers(1, 9), max_size=1),
    DISTINCTIONS,
    FIELDS,
    HOMES,
)
TOUCHES = st.builds(
    Touch,
    CALLERS,
    st.lists(NUMBERS.map(id_of), max_size=4).map(tuple),
    st.one_of(st.none(), MOMENTS),
    st.integers(0, 2),
    st.sampled_from([0.0, 0.05, 0.7]),
    st.booleans(),
)
REVISIONS = st.tuples(
    NUMBERS,
    st.integers(0, 9).map(lambda chance: -1 if chance == 0 else 0),
    FIELDS,
    VECTORS,
    TERMS,
    st.booleans(),
    st.none() | DISTINCTIONS,
)


class BothStores(RuleBasedStateMachine):
    """Changes go to both stores; every answer is compared."""

    @initialize(least_dead=st.sampled_from([-1000, 0, 64]))  # compacts at each change, often, never
    def open(self, least_dead):
        self.folder = tempfile.mkdtemp()
        self.patches = [
            patch("salience.store.arena._LEAST_DEAD", least_dead),
            patch("salience.store.sql.CHUNK", 3),
            patch("salience.store.sqlite.PART", 3),
        ]
        for each in self.patches:
            each.start()
        self.plain = MemoryStore("e", DIMENSION)
        self.reopen()

    def reopen(self):
        self.sqlite = SQLiteStore.open(
            Path(self.folder, "m.db"), embedder="e", dimension=DIMENSION, language="none", busy_timeout=5
        )

    def teardown(self):
        if hasattr(self, "sqlite"):
            self.sqlite.close()
            shutil.rmtree(self.folder)
            for each in self.patches:
                each.stop()

    @rule(changes=st.lists(ADDS | TOUCHES, max_size=6))
    def add_and_touch(self, changes):
        self.apply(changes)

    @rule(revisions=st.lists(REVISIONS, max_size=4), more=st.lists(ADDS | TOUCHES, max_size=2))
    def revise(self, revisions, more):
        current = {item.memory.id: item for item in self.plain.scan(EVERYTHING, forgotten=True)}
        changes = []
        for number, behind, values, vector, terms, sets, held in revisions:
            item = current.get(id_of(number))
            if item is not None:
                new = item.memory.changed("update", NOW, **values)
                changes.append(Revise(replace(new, version=new.version + behind), vector, terms or None, sets, held))
                current[item.memory.id] = replace(item, memory=new)
        self.apply([*changes, *more])

    def apply(self, changes):
        outcomes = []
        for store in (self.plain, self.sqlite):
            try:
                outcomes.append(store.apply(changes))
            except SalienceError as error:
                outcomes.append(type(error))
        assert outcomes[0] == outcomes[1]

    @rule(asked=NEEDS)
    def gather(self, asked):
        assert shown(self.plain.gather(asked)) == shown(self.sqlite.gather(asked))

    @rule(
        scope=CALLERS | st.just(EVERYTHING),
        filter=FILTERS,
        after=NUMBERS,
        flags=st.tuples(st.booleans(), st.booleans()),
    )
    def scan(self, scope, filter, after, flags):
        pages = [
            store.scan(scope, id_of(after) if after else "", 5, filter, forgotten=flags[0], versions=flags[1])
            for store in (self.plain, self.sqlite)
        ]
        assert [kept(item) for item in pages[0]] == [kept(item) for item in pages[1]]

    @rule(scope=CALLERS | st.just(EVERYTHING), ids=st.lists(NUMBERS.map(id_of), max_size=5))
    def fetch(self, scope, ids):
        asked = [*ids, *(name[-8:] for name in ids)]
        assert self.plain.fetch(scope, asked) == self.sqlite.fetch(scope, asked)

    @rule(scope=CALLERS | st.just(EVERYTHING), names=st.lists(st.sampled_from(["ann", "bob", "lee"]), max_size=2))
    def speakers(self, scope, names):
        assert self.plain.speakers(scope, names) == self.sqlite.speakers(scope, names)

    @rule(home=HOMES, keys=st.lists(st.sampled_from(["k1", "k2", "k3"]), max_size=5))
    def keyed(self, home, keys):
        found = [store.keyed(Scope(**home), keys) for store in (self.plain, self.sqlite)]
        assert len(found[0]) == len(found[1])
        assert {memory.id: memory for memory in found[0]} == {memory.id: memory for memory in found[1]}

    @rule()
    def close_and_open(self):
        self.sqlite.close()
        self.reopen()


def kept(item):
    vector = None if item.vector is None else item.vector.tobytes()
    return item.memory, vector, item.terms, dict(item.activations), item.distinctions


def shown(batch):
    """A batch in a form that compares, numbers that a store chooses for itself replaced by what they stand for."""
    names = dict(zip(batch["code"].tolist(), batch.ids.tolist(), strict=True))
    columns = {name: (column.dtype, column.tolist()) for name, column in batch.columns.items()}
    columns["code"] = columns["code"][0]
    columns["supersedes"] = [
        names.get(code, "elsewhere" if code >= 0 else None) for code in batch["supersedes"].tolist()
    ]
    columns["successor"] = [names.get(code, "elsewhere" if code >= 0 else None) for code in batch["successor"].tolist()]
    columns["fact"] = relabelled(batch["fact"].tolist(), keep=-1)
    columns["speaker"] = relabelled(batch["speaker"].tolist(), keep=-1)
    return (
        batch.ids.tolist(), columns, batch.complete,
        batch.vectors and batch.vectors.at(np.arange(len(batch))).tobytes(),
        batch.lexicon and lexicon(batch.lexicon),
        batch.windows and lexicon(batch.windows),
        batch.entities and entities(batch.entities),
        batch.distinctions and distinctions(batch.distinctions),
    )  # fmt: skip


def lexicon(found):
    postings = [(posting.rows.tolist(), posting.frequency.tolist()) for posting in found.postings]
    return found.documents, found.average_length, found.document_frequency.tolist(), found.length.tolist(), postings


def entities(found):
    values = found.of_row.values.tolist()
    codes = relabelled([*values, *found.of_query.tolist()])
    return found.of_row.offsets.tolist(), codes, found.frequency.tolist(), found.documents


def distinctions(found):
    codes = found.values.tolist()
    return found.offsets.tolist(), relabelled(codes), [code % len(KINDS) for code in codes]


def relabelled(codes, keep=None):
    numbers = {}
    return [code if code == keep else numbers.setdefault(code, len(numbers)) for code in codes]


TestBothStores = BothStores.TestCase
TestBothStores.settings = settings(
    max_examples=50, stateful_step_count=20, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
