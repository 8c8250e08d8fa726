"""A change that is asked for again under its key is done once, and one that comes too late is not done."""

from __future__ import annotations

import threading
from dataclasses import replace
from datetime import timedelta

import pytest

import salience
from salience.errors import ConflictError, InputError, NotFoundError, StaleError, UnsettledError
from salience.ports import Answered, Revise
from tests.contract.doubles import PlantedEmbedder

pytestmark = pytest.mark.every_store

TEXT, OTHER = "The crocus blooms", "The boat leaks"
VERBS = {
    "update": (lambda memory, id, **key: memory.update(id, tags=["again"], **key), "updated"),
    "forget": (lambda memory, id, **key: memory.forget(id, **key), "forgotten"),
    "restore": (lambda memory, id, **key: memory.restore(id, 1, **key), "restored"),
}


@pytest.fixture
def memory(planted):
    return planted()


@pytest.fixture
def id(memory):
    """A memory of two versions, of which the second is live."""
    id = memory.remember(TEXT).memory.id
    memory.update(id, content=OTHER)
    return id


@pytest.fixture(params=VERBS)
def verb(request):
    return VERBS[request.param]


def versions(memory, id):
    return [version.memory.version for version in memory.history(id)]


def test_a_retry_writes_nothing_and_gets_the_first_receipt(memory, id, clock, verb):
    call, status = verb
    first = call(memory, id, key="k")
    assert (first.status, first.memory.version) == (status, 3)
    clock.advance(hours=1)
    again = call(memory, id, key="k", session_id="another session")
    assert again == replace(first, warning=None)
    assert versions(memory, id) == [1, 2, 3]


def test_a_short_id_is_the_same_request(memory, id, verb):
    call, _ = verb
    first = call(memory, id, key="k")
    assert call(memory, id[-8:], key="k").memory == first.memory


def test_a_retry_after_other_changes_gets_the_first_version(memory, id, clock):
    first = memory.update(id, importance=0.9, key="k")
    memory.update(id, importance=0.1, content="Something else")
    memory.forget(id)
    again = memory.update(id, importance=0.9, key="k")
    assert again.memory == first.memory
    assert (again.status, again.memory.content, again.memory.forgotten_at) == ("updated", OTHER, None)
    assert versions(memory, id) == [1, 2, 3, 4, 5]


def test_without_a_key_each_call_counts(memory, id):
    for _ in range(2):
        memory.update(id, tags=["again"])
    assert versions(memory, id) == [1, 2, 3, 4]


def test_a_key_belongs_to_one_memory_and_verb(memory, id):
    other = memory.remember("Another").memory.id
    memory.update(id, tags=["a"], key="k")
    with pytest.raises(ConflictError, match="'k' already belongs to: update"):
        memory.update(other, tags=["a"], key="k")
    with pytest.raises(ConflictError, match="'k' already belongs to: update"):
        memory.forget(id, key="k")
    assert (versions(memory, other), versions(memory, id)) == ([1], [1, 2, 3])


def test_a_key_belongs_to_the_scope_of_the_caller(memory, id):
    for who in (
        {"user_id": "ann"},
        {"user_id": "bo"},
        {"user_id": "bo", "project": "p"},
        {"environment": salience.ANY},
    ):
        memory.update(id, tags=["a"], key="k", **who)
    assert versions(memory, id) == [1, 2, 3, 4, 5, 6]
    mine = memory.remember("Ann's own", user_id="ann").memory.id
    with pytest.raises(NotFoundError):  # as if it were not there, and nothing is told of another's key
        memory.forget(mine, key="k", user_id="bo")


def test_keys_of_remember_are_separate(memory):
    id = memory.remember(TEXT, key="k").memory.id
    assert memory.update(id, tags=["a"], key="k").status == "updated"
    assert memory.remember(TEXT, key="k").status == "unchanged"


def test_a_failed_request_is_not_recorded(memory, id):
    with pytest.raises(InputError):
        memory.update(id, importance=2, key="k")
    with pytest.raises(NotFoundError):
        memory.forget("nobody", key="k")
    assert memory.forget(id, key="k").status == "forgotten"


@pytest.mark.parametrize("values", [{"key": ""}, {"key": 7}, {"key": "a\nb"}, {"if_version": 0}, {"if_version": "1"}])
def test_an_invalid_key_or_version_is_refused(memory, id, values):
    with pytest.raises(InputError, match=next(iter(values))):
        memory.forget(id, **values)
    assert versions(memory, id) == [1, 2]


def test_erase_deletes_the_requests_of_a_memory(memory, id):
    memory.forget(id, key="k")
    memory.erase([id])
    with pytest.raises(NotFoundError):
        memory.forget(id, key="k")
    again = memory.remember(TEXT).memory.id
    assert memory.forget(again, key="k").status == "forgotten"


@pytest.mark.parametrize("change", [lambda memory, id, **how: memory.update(id, tags=["a"], **how),
                                    lambda memory, id, **how: memory.forget(id, **how)])  # fmt: skip
def test_a_change_to_another_version_is_refused(memory, id, change):
    for wrong in (1, 3):
        with pytest.raises(StaleError, match=rf"is at version 2, not at {wrong}; nothing was written"):
            change(memory, id, if_version=wrong)
    assert versions(memory, id) == [1, 2]
    assert change(memory, id, if_version=2).memory.version == 3
    with pytest.raises((StaleError, NotFoundError)):
        change(memory, id, if_version=2)


def test_a_retry_with_the_old_version_gets_the_first_receipt(memory, id):
    first = memory.update(id, tags=["a"], if_version=2, key="k")
    assert memory.update(id, tags=["a"], if_version=2, key="k") == first


class Meanwhile:
    """A store in which something happens once, before or after it makes a change."""

    def __init__(self, store, before=lambda: None, after=lambda: None):
        self.store, self.before, self.after = store, before, after

    def __getattr__(self, name):
        return getattr(self.store, name)

    def apply(self, changes, **options):
        if not any(isinstance(change, Revise) for change in changes):
            return self.store.apply(changes, **options)
        before, self.before = self.before, lambda: None
        before()
        receipts = self.store.apply(changes, **options)
        after, self.after = self.after, lambda: None
        after()
        return receipts


def beside(memory, **hooks):
    return salience.engine.Engine(replace(memory.services, store=Meanwhile(memory.services.store, **hooks)))


@pytest.mark.parametrize("how", [{}, {"if_version": 2}])
def test_a_request_answered_meanwhile_gets_that_answer(memory, id, verb, how):
    call, status = verb
    how = {} if status == "restored" else how
    made = []
    mine = beside(memory, before=lambda: made.append(call(memory, id, key="k", **how)))
    assert call(mine, id, key="k", **how).memory == made[0].memory
    assert versions(memory, id) == [1, 2, 3]


def test_only_the_required_version_is_changed(memory, id):
    mine = beside(memory, before=lambda: memory.update(id, tags=["meanwhile"]))
    with pytest.raises(StaleError):
        mine.update(id, tags=["mine"], if_version=2)
    assert memory.get(id).tags == ("meanwhile",)


def test_after_an_unsettled_commit_the_key_is_looked_up(memory, id, verb):
    call, status = verb

    def broken():
        raise UnsettledError("the connection broke")

    receipt = call(beside(memory, after=broken), id, key="k")
    assert (receipt.status, versions(memory, id)) == (status, [1, 2, 3])
    bare = memory.remember("Without a key").memory.id
    with pytest.raises(UnsettledError):
        beside(memory, after=broken).forget(bare)


def test_two_threads_with_one_key_write_once(memory, id, verb):
    call, _ = verb
    began, result = threading.Barrier(4), []

    def ask():
        began.wait()
        result.append(call(memory, id, key="k").memory)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert result == [result[0]] * 4
    assert versions(memory, id) == [1, 2, 3]


def test_upkeep_drops_old_requests_and_keeps_the_others(memory, id, clock):
    old = memory.update(id, tags=["a"], key="old")
    clock.advance(days=4)
    late = memory.update(id, tags=["b"], key="late")
    clock.advance(days=4)
    memory.upkeep(dry_run=True)
    assert memory.update(id, tags=["a"], key="old") == old
    memory.upkeep()
    assert memory.update(id, tags=["b"], key="late") == late
    assert memory.update(id, tags=["a"], key="old").memory.version == 5


def test_keep_requests_is_a_setting(monkeypatch, tmp_path, clock):
    monkeypatch.setenv("SALIENCE_KEEP_REQUESTS", "forever")
    with salience.connect(tmp_path / "a.db", embedder=PlantedEmbedder(), clock=clock) as memory:
        id = memory.remember(TEXT).memory.id
        first = memory.forget(id, key="k")
        clock.advance(days=4000)
        memory.upkeep()
        assert memory.forget(id, key="k") == first
    assert salience.settings.load(keep_requests="1h").keep_requests == timedelta(hours=1)


def test_a_retry_for_a_dropped_version_gets_the_current_memory(memory, id, clock):
    memory.update(id, tags=["a"], key="k")
    clock.advance(hours=1)
    now = memory.update(id, tags=["b"]).memory
    memory.services.store.apply([salience.ports.Prune("default", ((id, 3),))])
    assert memory.update(id, tags=["a"], key="k") == salience.Receipt(now, "updated")


def test_a_retry_makes_a_reflection_stale_once(memory, clock):
    source = memory.remember(TEXT).memory
    made = memory.remember("It blooms", kind="reflection").memory
    changes = [Revise(made.changed("reflect", clock(), sources=(source.id,)))]
    memory.services.store.apply([*changes, Revise(source.changed("reflect", clock(), reflection=made.id))])
    for _ in range(2):
        memory.forget(source.id, key="k")
    assert versions(memory, made.id) == [1, 2, 3]


def test_an_engine_of_another_tenant_shares_only_the_store(memory, id):
    other = memory.of("other")
    assert (other.services.tenant, memory.services.tenant) == ("other", "default")
    assert other.services.store is memory.services.store
    assert other.profile is memory.profile
    with pytest.raises(NotFoundError):
        other.get(id)
    theirs = other.remember("Theirs").memory
    assert theirs.scope.tenant == "other"
    with pytest.raises(NotFoundError):
        memory.get(theirs.id)
    memory.update(id, tags=["a"], key="k")
    assert memory.services.store.answered(theirs.scope, "k") is None
    assert other.forget(theirs.id, key="k").status == "forgotten"
    for wrong in ("", "a\nb", None):
        with pytest.raises(InputError, match="tenant"):
            memory.of(wrong)


def test_an_answer_is_recorded_with_its_change(memory, id):
    seen = []
    store = Meanwhile(memory.services.store)
    mine = salience.engine.Engine(replace(memory.services, store=store))
    store.apply = lambda changes, **options: (seen.append(changes), memory.services.store.apply(changes, **options))[1]
    mine.forget(id, key="k")
    mine.restore(id)
    assert [[type(change) for change in changes] for changes in seen] == [[Revise, Answered], [Revise]]
