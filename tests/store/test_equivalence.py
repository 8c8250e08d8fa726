"""The same changes on all stores give the same answers: a file and a server do what the specification does."""

import shutil
import tempfile
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

import databases
from reference import ReferenceStore
from salience.errors import PinnedError, SalienceError
from salience.ports import Add, Adopt, Derive, Erase, Lease, Model, Near, Prune, Revise, Touch
from salience.records import ANY, TIERS, Filter, Scope
from salience.store.pins import Handle
from salience.store.sqlite import SQLiteStore
from salience.text import content_hash
from tests.contract.memories import (
    DIMENSION,
    EVERYTHING,
    NOW,
    comparable,
    fitted,
    id_of,
    need,
    random_unit,
    shown,
    stored,
)

pytestmark = pytest.mark.slow

MODELS = [
    Model(name, dimension, lambda seed=seed, dimension=dimension: fitted(random_unit(seed), dimension))
    for name, dimension, seed in (
        ("e", DIMENSION, 90),
        ("e", DIMENSION, 91),
        ("small", 4, 92),
        ("other", DIMENSION, 93),
    )
]
HANDLES = st.sampled_from([None] * 9 + [0, 1, 2, 3])
"""Of which model the handle is; None: of the one that the store is pinned to."""
NUMBERS = st.integers(0, 11)
MOMENTS = st.sampled_from([NOW + timedelta(hours=hours) for hours in range(-2, 3)])
PAST = st.none() | MOMENTS
EVENTS = st.none() | MOMENTS.map(lambda start: (start, start + timedelta(hours=1)))
TENANTS = st.sampled_from(["default", "default", "other"])
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
        "reflection": st.sampled_from([None, id_of(1)]),
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
        "tenant": TENANTS,
        "environment": st.sampled_from(["default", "e"]),
        "project": PROJECTS,
        "user_id": USERS,
        "agent_id": AGENTS,
        "session_id": SESSIONS,
    }
)
CALLERS = st.builds(
    Scope,
    tenant=TENANTS,
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
    fact_keys=st.sampled_from([(), (), ("f",), ("g", "none")]),
    since=st.sampled_from([None, NOW]),
    until=st.sampled_from([None, NOW + timedelta(hours=1)]),
    level=st.sampled_from([None, "global", "project"]),
)
NEEDS = st.builds(
    need,
    scope=st.just(EVERYTHING) | CALLERS,
    filter=FILTERS,
    now=MOMENTS,
    as_of=PAST,
    vector=VECTORS,
    first_person_vector=VECTORS,
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
    lambda number, vector, terms, turns, held, event, changed_at, fields, home: Add(
        stored(number, vector, terms, turns, held, event=event, changed_at=changed_at, **fields, **home)
    ),
    NUMBERS,
    VECTORS,
    TERMS,
    st.dictionaries(st.sampled_from(["default\x1f\x1fs1", "e\x1fu1\x1fs2"]), st.integers(1, 9), max_size=1),
    DISTINCTIONS,
    EVENTS,
    MOMENTS,
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
    PAST,
)
REVISIONS = st.tuples(
    NUMBERS,
    st.integers(0, 9).map(lambda chance: -1 if chance == 0 else 0),
    MOMENTS,
    FIELDS,
    st.none() | st.sampled_from(["memory", "other"]),
    VECTORS,
    TERMS,
    st.tuples(st.booleans(), st.booleans()),
    st.none() | DISTINCTIONS,
)
DERIVATIONS = st.builds(
    lambda tenant, number, version, word, vector, terms, held, event: Derive(
        tenant, id_of(number), version, content_hash(f"{word} {number}"), vector, terms, held, event=event
    ),
    TENANTS,
    NUMBERS,
    st.integers(1, 3),
    st.sampled_from(["memory", "memory", "other"]),
    VECTORS,
    st.none() | TERMS,
    st.none() | DISTINCTIONS,
    EVENTS,
)
ERASURES = st.builds(Erase, TENANTS, st.lists(NUMBERS.map(id_of), max_size=2).map(tuple), st.none() | CALLERS)
PRUNINGS = st.builds(
    Prune, TENANTS, st.lists(st.tuples(NUMBERS.map(id_of), st.integers(1, 4)), max_size=4).map(tuple), PAST
)
LEASES = st.builds(Lease, st.sampled_from(["a", "b"]), st.sampled_from(["x", "y"]), MOMENTS, MOMENTS)
UPKEEP = st.one_of(DERIVATIONS, DERIVATIONS, PRUNINGS, LEASES, ERASURES, st.just(Adopt()))


FILES = st.integers(0, 1)
OTHER_TENANT = replace(EVERYTHING, tenant="other")


class BothStores(RuleBasedStateMachine):
    """Changes go to both stores; every answer is compared, from either of two handles on the file."""

    parts = "salience.store.sqlite.PART"

    @initialize(least_dead=st.sampled_from([-1000, 0, 64]))  # packs at each change, often, never
    def open(self, least_dead):
        self.begin()
        self.patches = [
            patch("salience.store.index.columns._LEAST_DEAD", least_dead),
            patch("salience.store.statements.CHUNK", 3),
            patch(self.parts, 3),
        ]
        for each in self.patches:
            each.start()
        self.plain = ReferenceStore("e", DIMENSION, MODELS[0].fingerprint)
        self.files = [self.opened(), self.opened()]

    def begin(self):
        self.folder = tempfile.mkdtemp()

    def end(self):
        shutil.rmtree(self.folder)

    def opened(self):
        model = MODELS[self.home()]
        return SQLiteStore.open(
            Path(self.folder, "m.db"), embedder=model.name, dimension=model.dimension, fingerprint=model.fingerprint,
            language="none", busy_timeout=5,
        )  # fmt: skip

    def home(self):
        """Which of the models the store is pinned to; the first one while it is to none."""
        pin = self.plain._shared.state.pins.get("pinned")
        return 0 if pin is None else next(n for n, model in enumerate(MODELS) if Handle(model, "").matches(pin))

    def handles(self, handle, file):
        """The store in dictionaries and the file, each under a model, and that model."""
        model = MODELS[self.home() if handle is None else handle]
        return self.plain.with_model(model), self.files[file].with_model(model), model

    def teardown(self):
        if hasattr(self, "files"):
            for store in self.files:
                store.close()
            self.end()
            for each in self.patches:
                each.stop()

    def both(self, ask, handle=None, file=0):
        """What `ask` makes of the store in dictionaries, once the file has said the same."""
        plain, tables, model = self.handles(handle, file)
        told = [outcome(ask, store, model) for store in (plain, tables)]
        assert told[0] == told[1]
        return told[0]

    @rule(changes=st.lists(ADDS | TOUCHES, max_size=6), file=FILES)
    def add_and_touch(self, changes, file):
        self.apply(changes, None, file, False)

    @rule(
        made=st.lists(st.one_of(REVISIONS, REVISIONS, ADDS, TOUCHES), max_size=5),
        handle=HANDLES,
        file=FILES,
        counted=st.booleans(),
    )
    def revise(self, made, handle, file, counted):
        self.apply(self.resolved(made), handle, file, counted)

    @rule(
        made=st.lists(st.one_of(UPKEEP, UPKEEP, REVISIONS, ADDS, TOUCHES), max_size=4),
        handle=HANDLES,
        file=FILES,
        counted=st.booleans(),
    )
    def keep_in_order(self, made, handle, file, counted):
        self.apply(self.resolved(made), handle, file, counted)

    @rule(handle=st.integers(0, 3), file=FILES, all_of_it=st.booleans(), adopts=st.booleans())
    def reembed(self, handle, file, all_of_it, adopts):
        lacking = self.plain.with_model(MODELS[handle]).unembedded(limit=100 if all_of_it else 3)
        changes = [
            Derive(one.scope.tenant, one.id, one.version, one.content_hash, random_unit(7 * int(one.id, 16) + handle))
            for one in (stored.memory for stored in lacking)
        ]
        self.apply([*changes, *([Adopt()] if adopts else [])], handle, file, False)

    def resolved(self, made):
        """The changes, each revision made from the version that those before it leave."""
        held = {scope: self.plain.scan(scope, forgotten=True) for scope in (OTHER_TENANT, EVERYTHING)}
        current = {item.memory.id: item.memory for scope in held for item in held[scope]}
        changes = []
        for one in made:
            if not isinstance(one, tuple):
                changes.append(one)
                continue
            number, behind, at, values, word, vector, terms, (sets, unembeds), distinctions = one
            if id_of(number) in current:
                text = {"content": f"{word} {number}", "content_hash": content_hash(f"{word} {number}")} if word else {}
                new = current[id_of(number)].changed("update", at, **values, **text)
                current[new.id] = new
                new = replace(new, version=new.version + behind)
                changes.append(Revise(new, vector, terms or None, sets, distinctions, unembeds))
        return changes

    def apply(self, changes, handle, file, counted):
        def ask(store, model):
            return store.apply([in_length(change, model.dimension) for change in changes], counted=counted)

        self.both(ask, handle, file)

    @rule(asked=NEEDS, handle=HANDLES, file=FILES)
    def gather(self, asked, handle, file):
        def ask(store, model):
            near = asked.near and replace(
                asked.near, vectors=np.stack([fitted(vector, model.dimension) for vector in asked.near.vectors])
            )
            lengths = {
                name: fitted(getattr(asked, name), model.dimension) for name in ("vector", "first_person_vector")
            }
            return shown(store.gather(replace(asked, near=near, **lengths)))

        self.both(ask, handle, file)

    @rule(
        scope=CALLERS | st.just(EVERYTHING),
        filter=FILTERS,
        after=NUMBERS,
        flags=st.tuples(st.booleans(), st.booleans()),
        file=FILES,
    )
    def scan(self, scope, filter, after, flags, file):
        def ask(store, _):
            page = store.scan(scope, id_of(after) if after else "", 5, filter, forgotten=flags[0], versions=flags[1])
            return [comparable(item) for item in page]

        self.both(ask, None, file)

    @rule(scope=st.sampled_from([EVERYTHING, OTHER_TENANT]), file=FILES)
    def scan_all(self, scope, file):
        self.both(
            lambda store, _: [comparable(item) for item in store.scan(scope, forgotten=True, versions=True)], None, file
        )

    @rule(scope=CALLERS | st.just(EVERYTHING), ids=st.lists(NUMBERS.map(id_of), max_size=5), as_of=PAST, file=FILES)
    def fetch(self, scope, ids, as_of, file):
        asked = [*ids, *(name[-8:] for name in ids)]
        self.both(lambda store, _: store.fetch(scope, asked, as_of=as_of), None, file)

    @rule(
        scope=CALLERS | st.just(EVERYTHING),
        names=st.lists(st.sampled_from(["ann", "bob", "lee"]), max_size=2),
        as_of=PAST,
        file=FILES,
    )
    def speakers(self, scope, names, as_of, file):
        self.both(lambda store, _: store.speakers(scope, names, as_of=as_of), None, file)

    @rule(home=HOMES, keys=st.lists(st.sampled_from(["k1", "k2", "k3"]), max_size=5), file=FILES)
    def find_by_key(self, home, keys, file):
        def ask(store, _):
            found = store.find_by_key(Scope(**home), keys)
            return len(found), {memory.id: memory for memory in found}

        self.both(ask, None, file)

    @rule(scope=CALLERS | st.just(EVERYTHING), number=NUMBERS, is_short=st.booleans(), file=FILES)
    def history(self, scope, number, is_short, file):
        named = id_of(number)[-8:] if is_short else id_of(number)
        self.both(lambda store, _: [comparable(item) for item in store.history(scope, named)], None, file)

    @rule(
        after=st.none() | st.tuples(TENANTS, NUMBERS.map(id_of), st.integers(0, 3)),
        limit=st.sampled_from([0, 3, 100]),
        handle=HANDLES,
        file=FILES,
    )
    def unembedded(self, after, limit, handle, file):
        def ask(store, _):
            pinned = store.pinned()
            found = [comparable(item) for item in store.unembedded(after or ("", "", 0), limit)]
            fingerprint = None if pinned is None or pinned.fingerprint is None else pinned.fingerprint().tobytes()
            return found, pinned and (pinned.name, pinned.dimension, fingerprint)

        self.both(ask, handle, file)

    @rule(file=FILES)
    def close_and_open(self, file):
        self.files[file].close()
        self.files[file] = self.opened()


def outcome(ask, store, model):
    """What is answered, or the kind of error; that a pin has moved is told only by a handle that has seen it."""
    try:
        return ask(store, model)
    except PinnedError:
        return PinnedError
    except SalienceError as error:
        return type(error)


def in_length(change, dimension):
    """The change with vectors of that length."""
    if isinstance(change, Add):
        return replace(change, stored=replace(change.stored, vector=fitted(change.stored.vector, dimension)))
    return replace(change, vector=fitted(change.vector, dimension)) if isinstance(change, Revise | Derive) else change


class OnAServer(BothStores):
    """The same with handles on a PostgreSQL database, each with a pool and with what it keeps in memory."""

    parts = "salience.store.postgres.search.PART"

    def __init__(self, dsn, exact_rows):
        super().__init__()
        self.dsn, self.exact_rows = dsn, exact_rows

    def begin(self):
        databases.empty(self.dsn)

    def end(self):
        pass

    def opened(self):
        from salience.store.postgres import PostgresStore

        model = MODELS[self.home()]
        return PostgresStore.open(
            self.dsn, embedder=model.name, dimension=model.dimension, fingerprint=model.fingerprint,
            language="none", busy_timeout=5, exact_rows=self.exact_rows,
        )  # fmt: skip


SETTINGS = settings(max_examples=25, stateful_step_count=20, suppress_health_check=[HealthCheck.too_slow])
TestBothStores = BothStores.TestCase
TestBothStores.settings = SETTINGS


@pytest.mark.parametrize("exact_rows", [5000, 4, 0])
def test_a_server_answers_as_the_specification_does(tables, exact_rows):
    """With all in memory, with more than may be there now and then, and by indexes alone."""
    run_state_machine_as_test(lambda: OnAServer(tables, exact_rows), settings=settings(SETTINGS, max_examples=12))
