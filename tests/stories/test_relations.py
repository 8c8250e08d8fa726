"""What a new memory is to older ones: who is related, who takes whose place, and that nothing is hidden by it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import salience
from salience.engine import Engine
from salience.ports import Derive
from salience.records import CALLER, LIKELY, Relation
from salience.relations import with_supersedes
from tests.contract.doubles import PlantedEmbedder, StoppedClock
from tests.contract.memories import id_of
from tests.contract.memories import memory as made

REPLACED = [
    ("I live in Berlin", "I moved to Lisbon"),
    ("My favourite colour is blue", "My favourite colour is green now"),
    ("My dentist is Dr. Weber", "My dentist is Dr. Lang"),
    ("The budget for the trip is 500 euros", "The budget for the trip is 700 euros"),
    ("The deploy freeze starts on 12 May", "The deploy freeze now starts on 15 May"),
    ("We use Postgres for billing", "We switched from Postgres to MySQL for billing"),
    ("Nadia's coach is Ben", "Nadia now trains with a new coach, Carla"),
    ("The API rate limit is 100 requests per minute", "The API rate limit is 250 requests per minute"),
    ("I drink coffee in the morning", "I no longer drink coffee in the morning"),
    ("Ann runs the on-call rota", "Ann left, Bob runs the on-call rota now"),
    ("I work at the office on Mondays", "I work at home on Mondays now"),
    ("The deadline is set for May", "The deadline is set for June"),
    ("Launch planned for May", "Launch planned for June now"),
    ("The rent for May is 900 euros", "The rent for May is 950 euros now"),
]
APART = {
    "siblings": [
        ("The wifi password at home is tulip", "The wifi password at the office is daisy"),
        ("The eu cluster runs Postgres 15", "The us cluster runs Postgres 16"),
        ("My left knee hurts", "My right knee is fine"),
        ("Server web-01 has the address 10.0.0.11", "Server web-02 has the address 10.0.0.12"),
        ("Invoice 117 is 351 euros", "Invoice 118 is 354 euros"),
        ("Atlas uses Redis for its queue", "Borealis uses RabbitMQ for its queue"),
        ("The rent for May was 900 euros", "The rent for June is 950 euros"),
        ("Rent for May was 900", "Rent for June is 950"),
        ("The menu of Friday is fish", "The menu of Monday is soup"),
    ],
    "events": [
        ("Deployed build 76 to eu", "Deployed build 77 to eu"),
        ("Ran 5 km on Monday", "Ran 8 km on Wednesday"),
        ("I met Ann for lunch", "I met Bob for lunch"),
    ],
    "subjects": [
        ("My brother lives in Berlin", "I live in Lisbon"),
        ("I live in Lisbon", "My brother lives in Berlin"),
        ("Bob's phone is a Pixel 7", "Alice's phone is an iPhone 15"),
        ("My sister works as a nurse", "I work as a teacher"),
        ("Alice's birthday is on 14 March", "Bob's birthday is on 2 June"),
    ],
    "other values that are over": [
        ("We deploy on Tuesdays", "We no longer deploy on Fridays"),
        ("We use Buildkite for CI", "We no longer use Jenkins"),
    ],
    "fragments": [("The standup is at nine", "Standup ten")],
    "questions": [("I live in Berlin", "Where do I live?"), ("Where do I live?", "I live in Berlin")],
}


@pytest.fixture(scope="module")
def model() -> Iterator[Engine]:
    with salience.connect(":memory:") as memory:
        yield memory


USERS = iter(range(1_000_000))


def kinds(
    model: Engine, older: str, newer: str, user: str | None = None, given: tuple[str, str] = ("fact", "fact")
) -> dict[str, float]:
    """Return kind -> probability of the relations of a newer text to an older one of the same user."""
    user = user or f"user-{next(USERS)}"
    old = model.remember(older, user_id=user, kind=given[0]).memory
    new = model.remember(newer, user_id=user, kind=given[1]).memory
    return {one.kind: one.probability for one in new.relations or () if one.id == old.id}


@pytest.mark.parametrize(("older", "newer"), REPLACED)
def test_a_later_state_of_the_same_thing_replaces_the_earlier_one(model, older, newer):
    assert kinds(model, older, newer).get("replaces", 0) >= LIKELY


@pytest.mark.parametrize(("older", "newer"), [pair for pairs in APART.values() for pair in pairs])
def test_what_leaves_the_older_memory_true_replaces_nothing(model, older, newer):
    assert "replaces" not in kinds(model, older, newer)


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("The deploy freeze starts on 12 May", "The deploy freeze now starts on 15 May"),
        ("The retry limit is 3", "The retry limit is 5"),
        ("I drink coffee in the morning", "I no longer drink coffee in the morning"),
    ],
)
def test_an_update_of_another_kind_replaces_too_but_is_less_probable(model, older, newer):
    same, other = kinds(model, older, newer), kinds(model, older, newer, given=("fact", "rule"))
    assert LIKELY <= other["replaces"] <= same["replaces"]
    assert other["replaces"] < same["replaces"] or newer.find("no longer") > 0  # stated by the words alone


def test_two_kinds_of_one_subject_are_seldom_values_of_one_thing(model):
    older = "Never paste a carrier token into a ticket; rotate it with `tokens rotate` and write down who did it"
    newer = "LBL-4790 is an error that means the carrier token expired; the worker fetches a new one and tries again"
    assert kinds(model, older, newer, given=("rule", "fact")).get("replaces", 0) < LIKELY


def test_the_user_of_the_scope_is_the_first_person(model):
    assert kinds(model, "Alice lives in Berlin", "I live in Lisbon now", "alice").get("replaces", 0) >= LIKELY
    assert "replaces" not in kinds(model, "Alice lives in Berlin", "I live in Lisbon now", "bob")


def test_a_turn_replaces_as_a_memory_does(model):
    for place, (older, newer) in enumerate(REPLACED[:5]):
        user = f"talker-{place}"
        old = model.remember(older, user_id=user).memory
        (receipt,) = model.ingest([{"role": "user", "content": newer}], session_id="s", user_id=user)
        assert old.id in receipt.memory.replaced_ids, newer
        assert model.get(old.id, user_id=user).replaced_by.id == receipt.memory.id


def test_what_supersedes_another_replaces_it_for_sure_before_relations_are_decided():
    (relation,) = with_supersedes(made(2, supersedes=id_of(1))).relations
    assert (relation.id, relation.kind, relation.probability, relation.by) == (id_of(1), "replaces", 1.0, CALLER)
    assert with_supersedes(made(2)).relations is None


def test_a_turn_of_the_assistant_replaces_nothing_that_the_user_said(model):
    old = model.remember("My dentist is Dr. Weber", user_id="patient").memory
    (receipt,) = model.ingest(
        [{"role": "assistant", "content": "My dentist is Dr. Lang"}], session_id="s", user_id="patient"
    )
    assert old.id not in receipt.memory.replaced_ids


def test_a_stored_question_is_no_sure_answer(model):
    model.remember("Where is the spare key?", user_id="asks")
    (hit,) = model.recall("Where is the spare key?", user_id="asks", min_score=0)
    assert hit.weak
    model.remember("The spare key is under the fern", user_id="asks")
    assert model.recall("Where is the spare key?", user_id="asks")[0].memory.content.endswith("fern")


def test_each_memory_of_a_batch_is_related_to_the_others_whatever_their_order(model):
    drafts = [
        {"content": "The rent is 1400 euros", "created_at": "2026-03-01T00:00:00Z"},
        {"content": "The rent is 1200 euros", "created_at": "2026-01-01T00:00:00Z"},
    ]
    later, earlier = (one.memory for one in model.remember_many(drafts, user_id="tenant"))
    assert (later.replaced_ids, earlier.replaced_ids) == ((earlier.id,), ())


def test_a_memory_of_an_earlier_time_is_replaced_by_what_is_stored(model):
    new = model.remember("The rent is 1400 euros", user_id="late").memory
    old = model.remember("The rent is 1200 euros", user_id="late", created_at="2020-01-01T00:00:00Z").memory
    assert old.relations == ()
    assert model.get(new.id, user_id="late").replaced_ids == (old.id,)
    assert model.get(old.id, user_id="late").replaced_by.id == new.id


def test_the_past_knows_no_relation_that_was_decided_later():
    clock = StoppedClock()
    with salience.connect(":memory:", clock=clock) as memory:
        new = memory.remember("The rent is 1400 euros").memory
        clock.advance(hours=1)
        old = memory.remember("The rent is 1200 euros", created_at="2020-01-01T00:00:00Z").memory
        (link,) = memory.get(new.id).relations
        assert (link.id, link.at) == (old.id, clock())
        clock.advance(hours=1)
        (hit,) = memory.recall("rent", as_of=new.changed_at)
    assert (hit.memory.id, hit.memory.relations) == (new.id, ())


def test_a_retry_under_a_key_relates_nothing_anew(model):
    old = model.remember("The rent is 1200 euros", user_id="key").memory
    first = model.remember("The rent is 1400 euros", user_id="key", key="k").memory
    model.dismiss(first.id, old.id, user_id="key")
    again = model.remember("The rent is 1400 euros", user_id="key", key="k")
    assert (again.status, again.memory.relations) == ("unchanged", ())
    assert model.get(old.id, user_id="key").replaced_by is None


def test_a_dismissed_pair_is_not_related_by_later_changes(model):
    old = model.remember("The rent is 1200 euros", user_id="calm").memory
    new = model.remember("The rent is 1400 euros", user_id="calm").memory
    model.dismiss(new.id, old.id, user_id="calm")
    for change in ({"content": "The rent is 1450 euros"}, {"tags": ["flat"]}):
        model.update(new.id, user_id="calm", **change)
    model.forget(old.id, user_id="calm")
    model.restore(old.id, user_id="calm")
    model.upkeep()
    assert model.get(old.id, user_id="calm").replaced_by is None


def test_a_private_memory_changes_nothing_for_others(model):
    shared = model.remember("The rent is 1200 euros", project="flat").memory
    own = model.remember("The rent is 1400 euros", project="flat", user_id="ann")
    model.remember("The rent is 1500 euros", project="flat", user_id="bob", supersedes=shared.id)
    assert own.memory.replaced_ids == (shared.id,)
    for where, by in (({"user_id": "ann"}, own.memory.id), ({"user_id": "carl"}, None), ({}, None)):
        seen = model.get(shared.id, project="flat", **where)
        assert (seen.weight, seen.replaced_by and seen.replaced_by.id) == (1.0, by)
        assert shared.id in [hit.memory.id for hit in model.recall("the rent", project="flat", min_score=0, **where)]
    hits = model.recall("the rent", project="flat", user_id="bob", min_score=0)
    assert shared.id not in [hit.memory.id for hit in hits]


def test_the_newer_memory_outlives_the_older_one_and_quotes_nothing_of_it(model):
    old = model.remember("The vault code is 48151623", user_id="gone").memory
    new = model.remember("The vault code is 9000 now", user_id="gone").memory
    assert new.replaced_ids == (old.id,)
    model.erase([old.id], user_id="gone")
    left = model.get(new.id, user_id="gone")
    assert "48151623" not in repr(left)
    assert [hit.memory.id for hit in model.recall("What is the vault code?", user_id="gone")] == [new.id]
    model.update(new.id, content="The vault code is 9001", user_id="gone")


def test_relations_travel_with_an_export(model, tmp_path):
    old = model.remember("The rent is 1200 euros", user_id="moves").memory
    new = model.remember("The rent is 1400 euros", user_id="moves").memory
    model.export(tmp_path / "all.jsonl", user_id="moves")
    with salience.connect(":memory:") as other:
        other.import_(tmp_path / "all.jsonl")
        there = {one.id: one for one in other.list(user_id="moves").memories}
        assert there[new.id] == model.get(new.id, user_id="moves")
        assert there[new.id].relations == new.relations
        assert there[old.id].replaced_by == model.get(old.id, user_id="moves").replaced_by


def test_the_past_knows_no_replacement_that_came_later(planted, clock):
    texts = {"The rent is 1200 euros": 0.9, "The rent is 1400 euros": 0.8}
    memory = planted(texts, axes=dict.fromkeys(texts, 1))
    old, then = memory.remember("The rent is 1200 euros").memory, clock()
    clock.advance(days=1)
    new = memory.remember("The rent is 1400 euros").memory
    assert [hit.memory.replaced_by for hit in memory.recall("query", as_of=then)] == [None]
    assert [hit.memory.replaced_by and hit.memory.replaced_by.id for hit in memory.recall("query")] == [None, new.id]
    assert memory.history(old.id)[0].memory.relations == ()


def test_upkeep_decides_what_a_pending_memory_replaces(planted, clock, monkeypatch):
    texts = {"The rent is 1200 euros": 0.9, "The rent is 1400 euros": 0.8}
    memory = planted(texts, axes=dict.fromkeys(texts, 1))
    old = memory.remember("The rent is 1200 euros").memory
    clock.advance(days=1)

    def down(texts, /):
        raise ConnectionError

    with monkeypatch.context() as patch:
        patch.setattr(memory.services.embedder._embedder, "embed", down)
        pending = memory.remember("The rent is 1400 euros").memory
    assert pending.relations is None
    memory.upkeep()
    assert memory.get(pending.id).replaced_ids == (old.id,)
    assert memory.get(old.id).replaced_by.id == pending.id


# Laws

WORD = "ERR-4711"
COSINES = st.floats(0.05, 0.95).map(lambda cosine: round(cosine, 2))


def plant(texts: dict[str, float]) -> tuple[Engine, list[str]]:
    """Return an engine with memories that have no relations, and their ids in order."""
    memory = salience.connect(":memory:", embedder=PlantedEmbedder(texts, dimension=128), clock=StoppedClock())
    made = memory.remember_many([{"content": text, "kind": "bootstrap", "importance": 0.5} for text in texts])
    return memory, [one.memory.id for one in made]


def relate(memory: Engine, pairs: dict[int, tuple[int, float, str]], ids: list[str]) -> None:
    """Store relations: newer place -> (older place, probability, by)."""
    for newer, (older, probability, by) in pairs.items():
        one = memory.get(ids[newer])
        links = (Relation(ids[older], "replaces", probability, by),)
        memory.services.store.apply([Derive(one.scope.tenant, one.id, 1, one.content_hash, relations=links)])


def ranks(memory: Engine, query: str, **given: object) -> dict[str, int]:
    hits = memory.recall(query, limit=50, min_score=0.0, dry_run=True, **given)
    return {hit.memory.id: rank for rank, hit in enumerate(hits)}


@st.composite
def stores(draw: st.DrawFn) -> tuple[dict[str, float], dict[int, tuple[int, float, str]]]:
    """Texts with their cosines, some of which hold a rare word; and relations of later ones to earlier ones."""
    count = draw(st.integers(2, 7))
    texts = {
        f"note {'abcdefg'[place]}" + (f" of {WORD}" if draw(st.booleans()) else ""): draw(COSINES)
        for place in range(count)
    }
    pairs = {
        newer: (
            draw(st.integers(0, newer - 1)),
            draw(st.sampled_from([0.3, 0.6, 0.9, 0.97, 1.0])),
            draw(st.sampled_from(["model", "rule", "fact", "caller"])),
        )
        for newer in range(1, count)
        if draw(st.booleans())
    }
    pairs = {newer: (older, 1.0 if by == "caller" else min(p, 0.97), by) for newer, (older, p, by) in pairs.items()}
    return texts, pairs


LAW = settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
TENSES = st.sampled_from(["query: what of {}?", "query: what was {} before?", "query: what was {}?"])


@LAW
@given(stores(), TENSES)
def test_no_relation_lifts_a_memory_without_the_word_of_the_question_above_one_with_it(store, question):
    """Unless it takes the place of one that lacks the word too and was above, or that a caller replaced by it."""
    texts, pairs = store
    pairs = {newer: pair for newer, pair in pairs.items() if pair[2] != "caller"}
    memory, ids = plant(texts)
    with memory:
        hits = memory.recall(question.format(WORD), limit=50, min_score=0.0, dry_run=True)
        before = {hit.memory.id: hit.score for hit in hits}
        relate(memory, pairs, ids)
        after = ranks(memory, question.format(WORD))
        lift = 1.01 ** len(pairs)  # each memory of a chain comes 1 % before the one that it replaces
        holds = {id for id, text in zip(ids, texts, strict=True) if WORD in text}
        linked: dict[str, set[str]] = {id: {id} for id in ids}
        for _ in ids:  # who may have passed its place on to whom
            for newer, (older, _, _) in pairs.items():
                both = linked[ids[newer]] | linked[ids[older]]
                linked[ids[newer]] = linked[ids[older]] = both
        for with_word in holds:
            for without in set(ids) - holds:
                was_above = any(before[other] * lift >= before[with_word] for other in linked[without] - holds)
                assert after[with_word] < after[without] or was_above


@LAW
@given(stores(), TENSES)
def test_nothing_is_hidden_but_what_a_caller_replaced(store, question):
    texts, pairs = store
    memory, ids = plant(texts)
    with memory:
        relate(memory, pairs, ids)
        successor: dict[int, tuple[float, int, str]] = {}
        for newer, (older, probability, by) in pairs.items():
            successor[older] = max(successor.get(older, (0.0, 0, "")), (probability, newer, by))
        said = {ids[older] for older, (_, _, by) in successor.items() if by == "caller"}
        for profile in ("salience", "precise"):
            assert set(ranks(memory, question.format(WORD), profile=profile)) == set(ids) - said
        for profile in ("mememory", "zeromemory"):
            assert len(ranks(memory, question.format(WORD), profile=profile)) == len(ids)


@LAW
@given(st.lists(COSINES, min_size=2, max_size=6), st.sampled_from(["supersedes", "fact_key"]), TENSES, st.booleans())
@example([0.9, 0.1, 0.5], "supersedes", "query: what was {} before?", False)
@example([0.9, 0.1, 0.5], "fact_key", "query: what was {}?", False)
def test_the_heir_is_found_at_least_as_well_as_the_memory_that_it_replaces(cosines, way, question, has_word):
    older = f"the old note of {WORD}" if has_word else "the old note"
    texts = {older: cosines[0], "a new line": cosines[1]}
    others = {f"note {'abcdefg'[place]} of {WORD}": cosine for place, cosine in enumerate(cosines[2:])}
    key = {"fact_key": "k"} if way == "fact_key" else {}

    def places(is_heir: bool) -> tuple[dict[str, int], str, str]:
        with salience.connect(":memory:", embedder=PlantedEmbedder(texts | others), clock=StoppedClock()) as memory:
            old = memory.remember(older, importance=0.5, **key).memory.id
            memory.remember_many([{"content": text, "kind": "bootstrap", "importance": 0.5} for text in others])
            how = key or {"supersedes": old}
            new = memory.remember("a new line", importance=0.5, kind="bootstrap", **(how if is_heir else {})).memory.id
            return ranks(memory, question.format(WORD)), old, new

    before, old, _ = places(False)
    after, gone, new = places(True)
    assert gone not in after
    assert after[new] <= before[old]


@LAW
@given(stores(), TENSES)
def test_an_undone_replacement_leaves_no_trace_in_the_order(store, question):
    texts, pairs = store
    memory, ids = plant(texts)
    with memory:
        before = ranks(memory, question.format(WORD))
        relate(memory, pairs, ids)
        for newer, (older, _, _) in pairs.items():
            memory.dismiss(ids[newer], ids[older])
        assert ranks(memory, question.format(WORD)) == before


def test_a_fact_key_of_the_caller_still_hides_after_the_text_changed(planted, clock):
    texts = {"dark": 0.9, "light": 0.8, "grey": 0.7}
    memory = planted(texts)
    memory.remember("dark", fact_key="theme")
    clock.advance(days=1)
    new = memory.remember("light", fact_key="theme").memory
    clock.advance(days=1)
    changed = memory.update(new.id, content="grey").memory
    assert changed == replace(memory.get(new.id), replaced_by=None)
    assert [hit.memory.content for hit in memory.recall("query", min_score=0)] == ["grey"]
    memory.restore(new.id, 1)
    assert [hit.memory.content for hit in memory.recall("query", min_score=0)] == ["light"]


RENTS = [f"The rent is {number} euros" for number in range(1000, 2000, 100)]
STEPS = st.tuples(
    st.sampled_from(["remember", "update", "forget", "restore", "first", "dismiss", "undo", "key", "supersede"]),
    st.integers(0, 3),
    st.integers(0, 3),
)


@LAW
@given(st.lists(STEPS, max_size=14))
def test_no_change_of_any_order_makes_memories_replace_each_other_in_a_circle(steps):
    clock, rents = StoppedClock(), iter(RENTS * 10)
    embedder = PlantedEmbedder(dict.fromkeys(RENTS, 0.9), axes=dict.fromkeys(RENTS, 1))
    with salience.connect(":memory:", embedder=embedder, clock=clock) as memory:
        ids = [memory.remember(next(rents)).memory.id]
        for verb, one, other in steps:
            clock.advance(hours=1)
            id, beside = ids[one % len(ids)], ids[other % len(ids)]
            live = {held.id: held for held in memory.list().memories}
            if verb == "remember":
                ids.append(memory.remember(next(rents), fact_key="rent" if other == 3 else None).memory.id)
            elif verb == "restore" and id not in live:
                memory.restore(id)
            elif verb == "first" and live.get(id) is not None and live[id].version > 1:
                memory.restore(id, 1)
            elif verb == "update" and id in live:
                memory.update(id, content=next(rents))
            elif verb == "supersede" and id != beside and {id, beside} <= live.keys():
                if not any(one.supersedes == id for one in live.values() if one.id != beside):
                    memory.update(id, supersedes=None if live[id].supersedes else beside)
            elif verb == "key" and id in live:
                memory.update(id, fact_key=f"rent {other % 2}")
            elif verb == "forget" and id in live:
                memory.forget(id)
            elif verb in ("dismiss", "undo") and id != beside and {id, beside} <= live.keys():
                memory.dismiss(id, beside, undo=verb == "undo")
            live = {held.id: held for held in memory.list().memories}
            left = {id: {older for older in held.replaced_ids if older in live} for id, held in live.items()}
            while ends := [id for id, older in left.items() if not older]:
                left = {id: older.difference(ends) for id, older in left.items() if id not in ends}
            assert not left, (verb, id, left, steps)


def test_an_update_writes_a_version_only_of_what_replaced_the_memory():
    memory, (old, *others) = plant({"note a": 0.9, "note b": 0.5, "note c": 0.4})
    with memory:
        for id, kind in zip(others, ("adds", "replaces"), strict=True):
            one, links = memory.get(id), (Relation(old, kind, 0.9, "model"),)
            memory.services.store.apply([Derive(one.scope.tenant, id, 1, one.content_hash, relations=links)])
        memory.update(old, content="note d")
        adding, replacing = (memory.get(id) for id in others)
    assert (adding.version, [(one.id, one.kind) for one in adding.relations]) == (1, [(old, "adds")])
    assert (replacing.version, replacing.reason) == (2, f"no longer replaces {old[-8:]}")


def test_an_older_version_is_restored_although_the_memory_that_it_superseded_is_erased(planted, clock):
    memory = planted({"dark": 0.9, "light": 0.8})
    old, new = memory.remember("dark").memory, memory.remember("light").memory
    for supersedes in (old.id, None):
        clock.advance(days=1)
        memory.update(new.id, supersedes=supersedes)
    memory.erase([old.id])
    clock.advance(days=1)
    restored = memory.restore(new.id, 2).memory
    assert restored.supersedes is None
    assert not restored.relations
