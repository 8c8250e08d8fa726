"""Upkeep: what runs out, what is dropped, and that one of many does it, whole or not at all."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest

import salience
from salience import compose, settings
from salience.errors import EmbedderError, InputError, LeaseError, NotFoundError, StoreError
from salience.ports import Lease, Revise
from salience.records import ANY, Draft
from tests.contract.doubles import PlantedEmbedder
from waiting import PATIENCE

EVERYWHERE = {"environment": ANY, "project": ANY, "user_id": ANY, "agent_id": ANY}
NOTHING = {"episodic": (), "semantic": ()}


class Moody(PlantedEmbedder):
    """An embedder that fails while it is `down`, and calls `meanwhile` first."""

    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        self.down = False
        self.meanwhile = lambda: None

    def embed(self, texts, /):
        self.meanwhile()
        if self.down:
            raise EmbedderError("embedder 'planted' is down. Wait.")
        return super().embed(texts)


@pytest.fixture
def embedder():
    return Moody({"text": 0.9})


@pytest.fixture
def kept(target, clock, embedder):
    """Return a function from settings to an engine on one store."""
    engines = []

    def make(**given):
        made = compose.engine(settings.load(**given), target, embedder=embedder, profile="zeromemory", clock=clock)
        engines.append(made)
        return made

    yield make
    for engine in engines:
        engine.close()


def versions(memory, id):
    return [version.memory.version for version in memory.history(id, **EVERYWHERE)]


def test_expired_memories_are_hidden_and_can_be_restored(kept, clock):
    memory = kept()
    brief = memory.remember("text", ttl="1h", user_id="ann").memory
    lasting = memory.remember("lasting", ttl="2h").memory
    clock.advance(hours=1)
    assert memory.recall("query", user_id="ann", min_score=0.0, dry_run=True)[0].memory == lasting
    assert versions(memory, brief.id) == [1]
    report = memory.upkeep()
    assert (report.expired, report.promoted, report.warning) == ((brief.id,), NOTHING, None)
    with pytest.raises(NotFoundError):
        memory.get(brief.id, user_id="ann")
    first, last = memory.history(brief.id, user_id="ann")
    gone = last.memory
    assert (first.memory.content, gone.content, gone.status) == ("text", "text", "expired")
    assert (gone.change, gone.changed_by, gone.reason) == ("expire", "upkeep", "its time ran out")
    assert gone.forgotten_at == gone.changed_at == clock()
    assert memory.upkeep().expired == ()
    memory.restore(brief.id, user_id="ann")
    assert memory.get(brief.id, user_id="ann").content == "text"
    assert memory.upkeep().expired == ()


def test_a_reflection_of_an_expired_memory_becomes_stale(kept, clock):
    memory = kept()
    source = memory.remember("text", ttl="1d").memory
    reflection = memory.remember("what text says", kind="reflection").memory
    named = source.changed("reflect", clock(), reflection=reflection.id)
    memory.services.store.apply([Revise(named)])
    for _ in range(3):
        memory.recall("query", limit=5, min_score=0.0)
    clock.advance(days=1)
    result = memory.upkeep(dry_run=True)
    done = memory.upkeep()
    assert (result.expired, result.promoted) == (done.expired, done.promoted) == ((source.id,), NOTHING)
    gone = memory.history(reflection.id)[-1].memory
    assert (gone.status, gone.changed_by, gone.reason) == ("stale", "upkeep", "the time of a source ran out")


def test_without_a_setting_all_versions_are_kept(kept, clock):
    memory = kept()
    made = memory.remember("text").memory
    for number in range(5):
        memory.update(made.id, content=f"text {number}")
    clock.advance(days=20_000)
    assert memory.upkeep().pruned == 0
    assert versions(memory, made.id) == [1, 2, 3, 4, 5, 6]


def test_versions_that_ended_long_ago_are_dropped(kept, clock):
    memory = kept(keep_versions="30d")
    made = memory.remember("text", user_id="ann", environment="prod").memory
    where = {"user_id": "ann", "environment": "prod"}
    for day in range(4):
        clock.advance(days=10)
        memory.update(made.id, weight=0.5 + day / 10, **where)  # versions end on days 10, 20, 30, 40
    assert memory.upkeep().pruned == 0
    clock.advance(seconds=1)
    result = memory.upkeep(dry_run=True)
    assert (result.pruned, versions(memory, made.id)) == (1, [1, 2, 3, 4, 5])
    assert memory.upkeep().pruned == 1
    assert versions(memory, made.id) == [2, 3, 4, 5]
    clock.advance(days=1000)
    assert memory.upkeep().pruned == 3
    assert versions(memory, made.id) == [5]
    assert memory.upkeep().pruned == 0


def test_the_version_that_restore_needs_is_kept(kept, clock):
    memory = kept(keep_versions="1d")
    made = memory.remember("text").memory
    memory.update(made.id, content="text, changed")
    memory.forget(made.id)
    clock.advance(days=9)
    assert memory.upkeep().pruned == 1
    assert versions(memory, made.id) == [2, 3]
    assert memory.restore(made.id).memory.content == "text, changed"


def test_versions_are_dropped_in_chunks(kept, clock, monkeypatch):
    monkeypatch.setattr("salience.maintain.upkeep.CHUNK", 3)
    memory = kept(keep_versions="1d")
    made = [receipt.memory for receipt in memory.remember_many([Draft(content=f"text {n}") for n in range(4)])]
    for memory_id in [item.id for item in made] * 2:
        memory.update(memory_id, weight=0.5)
    clock.advance(days=2)
    assert memory.upkeep().pruned == 8
    assert [versions(memory, item.id) for item in made] == [[3]] * 4


def test_earlier_recall_counters_are_kept_as_long_as_set(kept, clock):
    memory = kept(keep_touches="10d")
    memory.remember("text", importance=0.4)
    before = clock()
    clock.advance(minutes=1)
    memory.recall("query")
    clock.advance(days=10)
    memory.upkeep()
    assert memory.recall("query", as_of=before)[0].memory.access_count == 0
    clock.advance(seconds=1)
    memory.upkeep()
    assert memory.recall("query", as_of=before)[0].memory.access_count == 1


@pytest.mark.parametrize(
    ("given", "days"), [("30d", 30), (86400, 1), ("48h", 2), ("forever", None), (" Forever ", None), ("604800", 7)]
)
def test_durations_are_set_in_words_or_seconds(monkeypatch, given, days):
    expected = None if days is None else timedelta(days=days)
    assert settings.load(keep_versions=given, keep_touches=given).keep_versions == expected
    monkeypatch.setenv("SALIENCE_KEEP_TOUCHES", str(given))
    assert settings.load().keep_touches == expected


def test_durations_are_read_from_the_config_file():
    settings.config_file().parent.mkdir(parents=True)
    settings.config_file().write_text('keep_versions = "2w"\nkeep_touches = 3600\n')
    loaded = settings.load()
    assert (loaded.keep_versions, loaded.keep_touches) == (timedelta(weeks=2), timedelta(hours=1))


@pytest.mark.parametrize("given", ["soon", "0", "-3d", "", "1y", True])
def test_an_invalid_duration_is_refused_with_a_remedy(given):
    with pytest.raises(
        InputError, match=r"keep_versions is .* Give a length of time such as '24h', '30d', '2w'.*SALIENCE_KEEP_VERS"
    ):
        settings.load(keep_versions=given)


def full(memory, embedder, clock):
    """Fill a store with some of everything that is due."""
    embedder.down = True
    memory.remember("pending", user_id="ann")
    embedder.down = False
    memory.remember("brief", ttl="1h", environment="prod")
    memory.remember("working", tier="working", user_id="bob")
    often = memory.remember("text", importance=0.9).memory
    for weight in (0.5, 0.6):
        memory.update(often.id, weight=weight)
    for _ in range(3):
        memory.recall("query", limit=1)
    clock.advance(days=2)


def test_a_dry_run_reports_what_the_next_run_does(kept, embedder, clock, monkeypatch):
    memory = kept(keep_versions="1d")
    monkeypatch.setattr("salience.remember.write.catch_up", lambda services: None)
    full(memory, embedder, clock)
    memory.services.access_log.flush()
    before = [(stored.memory, stored.vector is None) for stored in memory.services.store.scan(salience.Scope(
        environment=ANY, project=ANY, user_id=ANY, agent_id=ANY), versions=True)]  # fmt: skip
    embedded = len(embedder.texts)
    result = memory.upkeep(dry_run=True)
    after = [(stored.memory, stored.vector is None) for stored in memory.services.store.scan(salience.Scope(
        environment=ANY, project=ANY, user_id=ANY, agent_id=ANY), versions=True)]  # fmt: skip
    assert (before, len(embedder.texts)) == (after, embedded)
    done = memory.upkeep()
    assert (result.dry_run, done.dry_run) == (True, False)
    assert (done.embedded, done.pending, len(done.expired), done.pruned, done.warning) == (1, 0, 1, 2, None)
    assert {tier: len(ids) for tier, ids in done.promoted.items()} == {"episodic": 1, "semantic": 1}
    for name in ("embedded", "pending", "expired", "promoted", "pruned", "warning"):
        assert getattr(result, name) == getattr(done, name)
    settled = memory.upkeep()
    assert (settled.embedded, settled.expired, settled.promoted, settled.pruned) == (0, (), NOTHING, 0)


def test_a_failed_step_is_named_and_the_others_run(kept, embedder, clock, monkeypatch):
    memory = kept(keep_versions="1d")
    full(memory, embedder, clock)
    embedder.down = True
    monkeypatch.setattr(
        "salience.maintain.upkeep.expire", lambda *_, **__: (_ for _ in ()).throw(StoreError("no disk"))
    )
    memory.remember("pending too")
    report = memory.upkeep()
    assert report.warning.splitlines() == ["embed: embedder 'planted' is down. Wait.", "expire: no disk"]
    assert (report.embedded, report.pending, report.expired, report.pruned) == (0, 1, (), 2)
    assert {tier: len(ids) for tier, ids in report.promoted.items()} == {"episodic": 1, "semantic": 1}


def lease(services, clock, until=timedelta(minutes=10)):
    return Lease(f"upkeep:{services.tenant}", "another:1:a", clock(), clock() + until)


def test_a_held_lease_stops_the_pass_and_names_the_holder(kept, clock):
    memory = kept()
    memory.remember("brief", ttl="1h")
    clock.advance(hours=1)
    memory.services.store.apply([lease(memory.services, clock)])
    with pytest.raises(LeaseError, match=r"upkeep:default: another:1:a is at it, until 2026-05-01T13:10:00\+00:00"):
        memory.upkeep()
    assert len(memory.upkeep(dry_run=True).expired) == 1
    clock.advance(minutes=10)
    assert len(memory.upkeep().expired) == 1


def test_the_lease_is_returned_after_a_failure(kept, embedder, clock, monkeypatch):
    memory = kept()

    def crash(*_, **__):
        raise ZeroDivisionError

    with monkeypatch.context() as patched:
        patched.setattr("salience.maintain.upkeep.prune", crash)
        with pytest.raises(ZeroDivisionError):
            memory.upkeep()
    assert memory.upkeep().warning is None


def test_a_pass_that_lost_its_lease_stops(kept, embedder, clock):
    memory = kept()
    memory.remember("text")
    embedder.down = True
    memory.remember("pending", tier="working", ttl="1h")
    embedder.down = False
    clock.advance(hours=5)

    def slow():
        clock.advance(minutes=10)
        memory.services.store.apply([lease(memory.services, clock)])
        embedder.meanwhile = lambda: None

    embedder.meanwhile = slow
    with pytest.raises(LeaseError, match="another:1:a is at it"):
        memory.upkeep()
    with pytest.raises(LeaseError):  # it is still the other one's
        memory.upkeep()
    assert memory.list().memories[0].status == "live"


def test_a_long_pass_renews_its_lease(kept, embedder, clock, monkeypatch):
    monkeypatch.setattr("salience.pending.PAGE", 2)
    memory = kept()
    memory.remember("text")
    embedder.down = True
    for number in range(9):
        memory.remember(f"pending {number}")
    embedder.down = False
    refused = []

    def slow():
        clock.advance(seconds=100)
        with pytest.raises(LeaseError):
            memory.services.store.apply([lease(memory.services, clock)])
        refused.append(True)

    embedder.meanwhile = slow
    assert memory.upkeep().embedded == 9
    assert len(refused) == 5


def test_one_of_many_threads_does_the_upkeep(kept, embedder, clock):
    memory = kept()
    memory.remember("text")
    embedder.down = True
    memory.remember("pending", ttl="1h", tier="working")
    embedder.down = False
    clock.advance(hours=5)
    arrived, others_done = threading.Event(), threading.Event()

    def hold():
        arrived.set()
        assert others_done.wait(PATIENCE)

    embedder.meanwhile = hold

    def one(_):
        with pytest.raises(LeaseError):
            memory.upkeep()

    with ThreadPoolExecutor(8) as pool:
        first = pool.submit(memory.upkeep)
        assert arrived.wait(PATIENCE)
        list(pool.map(one, range(16)))
        others_done.set()
        report = first.result()
    assert (report.embedded, len(report.expired)) == (1, 1)
    assert memory.upkeep().expired == ()
