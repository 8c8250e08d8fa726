"""What the indexes of a server bring of more memories than are at hand, and what readers see of states that change."""

from dataclasses import replace
from datetime import timedelta

import numpy as np
import pytest

import salience
from salience import recall
from salience.ports import Add, Derive, Erase, Model, Near, Revise
from salience.rank import profiles
from salience.records import ANY, Filter, Query, Scope
from salience.store.postgres import PostgresStore, admin, search, statements
from salience.store.postgres.cache import read_state
from salience.store.schema import memories
from tests.contract.doubles import PlantedEmbedder
from tests.contract.memories import (
    DIMENSION,
    EVERYTHING,
    NOW,
    add,
    criteria,
    id_of,
    memory,
    need,
    numbers,
    random_unit,
    replaces,
    stored,
    unit,
)

MODEL = Model("e", DIMENSION, lambda: unit(1))
LATER = timedelta(minutes=1)


@pytest.fixture
def opened(tables):
    stores = []

    def opened(**options):
        settings = {"embedder": MODEL.name, "dimension": DIMENSION, "fingerprint": MODEL.fingerprint}
        stores.append(PostgresStore.open(tables, **settings, language="none", busy_timeout=5, **options))
        return stores[-1]

    yield opened
    for store in stores:
        store.close()


@pytest.fixture
def both(opened):
    """A handle that has all at hand, and one that has nothing."""
    return opened(), opened(exact_rows=0)


@pytest.mark.parametrize(
    ("change", "after"),
    [
        (Erase("default", (id_of(2),)), [1, 3]),
        (Add(stored(4)), [1, 2, 3, 4]),
    ],
    ids=["erased", "added"],
)
def test_a_reader_of_an_earlier_state_spoils_no_later_one(opened, change, after):
    """A thread whose transaction began before a write may come to the cache after one that began behind it."""
    store = opened()
    add(store, stored(1), stored(2), stored(3))
    assert numbers(store.gather(need())) == [1, 2, 3]

    def early(reader):
        _, before = read_state(reader, "default")
        store.apply([change])
        assert numbers(store.gather(need())) == after
        return store._indexes.of(reader, EVERYTHING, before, DIMENSION)

    index = store._runner.read("default", early)
    seen = [int(name, 16) for name in index.ids(index.by_id["slot"])]
    assert seen in ([1, 2, 3], after)  # as of its own instant, or later
    assert numbers(store.gather(need())) == after
    add(store, stored(9))
    assert numbers(store.gather(need())) == [*after, 9]


def test_many_memories_of_one_write_are_counted(both):
    """What is visible is counted anew once a hundredth may have changed, however few writes that took."""
    _, store = both
    add(store, *(stored(number) for number in range(200)))
    assert store.gather(need(terms=("memory",), reach=5)).lexicon.documents == 200
    add(store, *(stored(number) for number in range(200, 500)))
    batch = store.gather(need(terms=("memory",), entities=True, names=("nobody",), reach=5))
    assert (batch.lexicon.documents, batch.entities.documents) == (500, 500)
    assert batch.lexicon.document_frequency.tolist() == [500]


def test_no_more_memories_hold_a_term_than_there_are(both):
    """Where what is visible was counted a little earlier than the holders of a term."""
    _, store = both
    add(store, *(stored(number, entities=("Bob",)) for number in range(200)))
    asked = need(terms=("memory",), entities=True, names=("bob",), reach=5)
    assert store.gather(asked).lexicon.documents == 200
    add(store, stored(200, entities=("Bob",)))
    batch = store.gather(asked)
    assert batch.lexicon.document_frequency.tolist() == [batch.lexicon.documents] == [200]
    assert batch.entities.frequency.tolist() == [batch.entities.documents]


@pytest.mark.parametrize("filter", [Filter(), Filter(kinds=("x",))], ids=["all", "filtered"])
@pytest.mark.parametrize("vector", [unit(1), None], ids=["vector", "words alone"])
def test_memories_that_match_several_words_are_candidates_though_none_of_the_words_is_rare(both, filter, vector):
    """Whatever matches as well and does not pass the filter."""
    _, store = both
    words, far = ("red", "green", "blue"), unit(0, 1)
    add(store, *(stored(number, unit(1), (), kind="x") for number in range(4)))
    add(store, *(stored(number, far, (words[number % 3],), kind="x") for number in range(4, 94)))
    add(store, *(stored(100 + number, far, words, kind="x") for number in range(3)))
    add(store, *(stored(200 + number, far, words, kind="y") for number in range(60 if filter != Filter() else 0)))
    found = numbers(store.gather(need(vector=vector, terms=words, filter=filter, reach=4)))
    assert {100, 101, 102} <= set(found)
    assert len(found) < 20


def test_of_memories_that_match_a_word_those_nearest_to_the_query_are_candidates(both):
    _, store = both
    add(store, *(stored(number, unit(1), ("blue",)) for number in range(10)))
    add(store, *(stored(number, unit(1, 0.1 * number), ("red",)) for number in range(10, 30)))
    assert numbers(store.gather(need(vector=unit(1), terms=("red",), reach=4))) == [0, 1, 2, 3, 10, 11, 12, 13]


def test_the_number_of_windows_with_a_word_is_estimated(both):
    """Neighbours of candidates are candidates, and would count turns of conversations too often."""
    whole, indexes = both
    sessions = {number: {"session_id": f"s{number // 20}", "turn": number} for number in range(200)}
    draw, words = np.random.default_rng(1), (("old",), ("new",), ("old", "new"), ("red",))
    add(whole, *(stored(n, terms=words[draw.integers(4)], **sessions.get(n, {})) for n in range(400)))
    asked = {"vector": random_unit(1000), "terms": ("old", "new", "none"), "windows": True}
    right, found = (store.gather(need(**asked, reach=60)).windows for store in (whole, indexes))
    assert found.document_frequency == pytest.approx(right.document_frequency, rel=0.15)
    assert found.average_length == pytest.approx(right.average_length, rel=0.15)


@pytest.mark.parametrize("columns", [{"fact"}, {"replaced"}, {"supersedes"}])
def test_what_holds_in_the_place_of_a_candidate_is_one_too(both, columns):
    """Else the nearest, which were replaced by what is far from the query, would be all that ranking sees."""
    _, store = both
    add(store, *(stored(number, unit(1, number / 100), created_at=NOW + number * LATER) for number in range(1, 9)))
    fact = {"fact_key": "user.city"}
    add(store, stored(20, unit(1), **fact), stored(21, unit(0, 1), supersedes=id_of(20), relations=(replaces(20),)))
    add(store, stored(23, unit(0, 0, 0, 1), **fact))
    add(store, stored(22, unit(0, 0, 1), relations=(replaces(9), replaces(21, 0.6), replaces(99))))
    batch = store.gather(need(columns=frozenset(columns | {"cosine"}), vector=unit(1), reach=2))
    assert {20, 21, 22, 23} <= set(numbers(batch))
    assert not batch.complete
    for relations, gone in (((), {22}), ((replaces(21, 0.6),), set())):  # decided anew
        store.apply([Derive("default", id_of(22), 1, memory(22).content_hash, relations=relations)])
        batch = store.gather(need(columns=frozenset(columns), vector=unit(1), reach=2))
        assert {20, 21, 22, 23} - set(numbers(batch)) == gone
    assert numbers(store.gather(need(columns=frozenset({"cosine"}), vector=unit(1), reach=2))) == [1, 20]


@pytest.mark.parametrize("filter", [Filter(), Filter(kinds=("x",))], ids=["all", "filtered"])
@pytest.mark.parametrize("count", [0, 1, 4, 40])
def test_as_many_nearest_come_as_are_asked_for(opened, filter, count):
    """Also where what somebody said and all else are asked for in words of their own, and found apart."""
    whole, indexes = opened(), opened(exact_rows=10)
    add(
        whole,
        *(
            stored(n, None if n % 10 == 9 else random_unit(n), speaker="Mel" if n % 2 else None, kind="xy"[n % 3 > 1])
            for n in range(60)
        ),
    )
    asked = {"vector": unit(1), "first_person_vector": unit(0, 1), "candidates": count, "filter": filter}
    few, found = whole.gather(need(**asked)), indexes.gather(need(**asked, reach=3))
    assert numbers(few) == numbers(found)
    assert few["cosine"].tolist() == found["cosine"].tolist()
    assert not found.complete


@pytest.mark.parametrize("count", [2, 20])
def test_what_is_near_some_vectors_is_told_to_the_last_bit(both, count):
    whole, indexes = both
    add(whole, *(stored(number, random_unit(number)) for number in range(60)))
    vectors = np.stack([random_unit(100 + number) for number in range(count)])
    cosines = sorted(float(found) for found in whole.gather(need(vector=vectors[0]))["cosine"])
    for above in (*cosines[-4:], cosines[-3] - 1e-7):
        asked = {"near": Near(vectors, above), "ids": (id_of(7),)}
        assert numbers(indexes.gather(need(**asked, reach=50))) == numbers(whole.gather(need(**asked)))
    alone = [numbers(indexes.gather(need(near=Near(vector[None], 0.1), reach=1))) for vector in vectors]
    assert numbers(indexes.gather(need(near=Near(vectors, 0.1), reach=1))) == sorted(
        {one for found in alone for one in found}
    )


def test_without_a_vector_of_the_query_what_no_word_finds_is_found_by_its_age(both):
    _, store = both
    add(store, *(stored(number, created_at=NOW + number * LATER) for number in range(20)))
    assert numbers(store.gather(need(terms=("nothing",), reach=3))) == [17, 18, 19]
    assert numbers(store.gather(need(vector=unit(1), terms=("nothing",), reach=3))) != [17, 18, 19]


def test_what_has_no_vector_may_be_as_near_as_any(opened):
    """Of more of these than are brought, nothing is known: their words may fit."""
    store = opened(exact_rows=3)
    add(store, *(stored(number) for number in range(1, 9)), *(stored(number, None) for number in (10, 11, 12)))
    assert store.gather(need(vector=random_unit(1), reach=2)).beyond < 1
    add(store, stored(13, None))
    assert store.gather(need(vector=random_unit(1), reach=2)).beyond == 1


@pytest.mark.parametrize("profile", ["zeromemory", "salience"])
def test_those_whose_time_is_over_keep_no_place(tables, monkeypatch, clock, profile):
    """As many as were asked for come, though more than a store is asked for at first are nearer and expired."""
    monkeypatch.setenv("SALIENCE_EXACT_ROWS", "0")
    kept = {f"kept {number}": 0.5 for number in range(3)}
    over = {f"over {number}": 0.9 for number in range(180)}
    with salience.connect(tables, embedder=PlantedEmbedder({**kept, **over}), profile=profile, clock=clock) as memory:
        memory.remember_many([*({"content": text} for text in kept), *({"content": text, "ttl": 60} for text in over)])
        clock.advance(minutes=2)
        found = memory.recall("query", limit=3, min_score=0)
        assert {hit.memory.content for hit in found} == set(kept)


def test_a_question_about_a_time_alone_reaches_what_lies_in_it(tables, monkeypatch, clock):
    """However far the words and the meaning of these memories are from the question."""
    monkeypatch.setenv("SALIENCE_EXACT_ROWS", "0")
    near = {f"what happened {number}": 0.9 for number in range(180)}
    day = {"sowed beans": 0.0, "wrote to Ben": 0.0}
    with salience.connect(tables, embedder=PlantedEmbedder({**near, **day}), clock=clock) as memory:
        memory.remember_many([{"content": text} for text in near])
        memory.remember_many([{"content": text, "created_at": clock() - timedelta(days=8)} for text in day])
        clock.advance(days=1)
        found = memory.recall("query: what happened between 22 and 24 April 2026?", dry_run=True, weights={})
        assert found.intent.name == "default"  # the word "query" is none that asks for anything
        found = memory.recall("what happened between 22 and 24 April 2026?", dry_run=True)
        assert {hit.memory.content for hit in found if not hit.weak} == set(day)


def test_a_question_about_a_time_alone_reaches_stated_times_and_sessions(tables, monkeypatch, clock):
    monkeypatch.setenv("SALIENCE_EXACT_ROWS", "0")
    near = {f"what happened {number}": 0.9 for number in range(180)}
    far = {"We fly on 20 May": 0.0, "sowed beans": 0.0}
    with salience.connect(tables, embedder=PlantedEmbedder({**near, **far}), clock=clock) as memory:
        memory.remember("We fly on 20 May")
        memory.remember("sowed beans", session_id="first", created_at=clock() - timedelta(days=8))
        memory.remember_many([{"content": text, "session_id": "second"} for text in near])
        clock.advance(days=1)
        (hit,) = [hit for hit in memory.recall("what happens on 20 May?", dry_run=True) if not hit.weak]
        assert (hit.memory.content, hit.score_detail.period) == ("We fly on 20 May", 0.5)
        (hit,) = [hit for hit in memory.recall("what was our first session about?", dry_run=True) if not hit.weak]
        assert (hit.memory.content, hit.score_detail.period) == ("sowed beans", 1.0)


def test_memories_that_are_named_are_read_alone(both, monkeypatch):
    """Without a reach, each that is named comes; to read all others with them would be to read a tenant whole."""
    whole, indexes = both
    add(whole, *(stored(number, session_id="s", user_id="u") for number in range(60)))
    sizes, index_of = [], search.index_of

    def counted(*query):
        index = index_of(*query)
        sizes.append(len(index))
        return index

    monkeypatch.setattr(search, "index_of", counted)
    named = (id_of(7), id_of(20), id_of(99))
    asked = {"vector": unit(1), "terms": ("memory",)}
    few, found = whole.gather(need(ids=named, **asked)), indexes.gather(need(ids=named, **asked))
    assert numbers(found) == numbers(few) == [7, 20]
    for name in ("cosine", "context_cosine", "replaced", "weight"):
        assert found[name].tolist() == few[name].tolist()
    assert found.lexicon.document_frequency.tolist() == few.lexicon.document_frequency.tolist() == [60]
    assert len(indexes.gather(need(near=Near(np.empty((0, DIMENSION), np.float32), 1.0)))) == 0
    assert max(sizes) < 10
    assert numbers(indexes.gather(need(near=Near(unit(1)[None], -1.0)))) == list(range(60))


def test_a_restore_reads_what_it_restores(tables, monkeypatch, clock):
    """Whether another memory holds in its place is asked of that one alone; if one does, who it is, of all."""
    monkeypatch.setenv("SALIENCE_EXACT_ROWS", "0")
    with salience.connect(tables, embedder=PlantedEmbedder(), clock=clock) as memory:
        first, second, *_ = (memory.remember(f"note {n}", fact_key="n" if n == 1 else None).memory for n in range(30))
        newer = memory.remember("note of late", fact_key="n").memory
        memory.forget(first.id)
        memory.forget(second.id)
        sizes, index_of = [], search.index_of

        def counted(*query):
            index = index_of(*query)
            sizes.append(len(index))
            return index

        monkeypatch.setattr(search, "index_of", counted)
        assert memory.restore(first.id).warning is None
        assert max(sizes) == 1
        assert newer.short_id in memory.restore(second.id).warning


def remembered_in_turn(memory, clock, texts):
    """Return the receipts of texts that were stored a minute apart."""
    for text in texts:
        yield memory.remember(text)
        clock.advance(minutes=1)


def test_explain_tells_what_the_indexes_did_not_bring(tables, monkeypatch, clock):
    monkeypatch.setenv("SALIENCE_EXACT_ROWS", "0")
    cosines = {f"note {number}": 0.75 + number / 1000 for number in range(180)}
    with salience.connect(tables, embedder=PlantedEmbedder(cosines), profile="memlayer", clock=clock) as memory:
        far, *_, near = (receipt.memory.id for receipt in remembered_in_turn(memory, clock, cosines))
        assert memory.explain("query", near, limit=1, min_score=0.5).stage == "returned"
        found = memory.explain("query", far, limit=1, min_score=0.5)
    assert (found.stage, found.rank, found.counterfactual) == ("candidates", None, None)
    assert "This memory is neither; its cosine is 0.750" in found.reason
    assert found.score_detail.parts[0].raw == pytest.approx(0.75)


def test_words_alone_reach_far():
    """While the embedder is down."""
    profile, query = profiles.load("salience"), Query(text="tea", scope=Scope())
    assert recall.make_need(profile, query, criteria()).reach == recall.MAX_REACH
    assert recall.make_need(profile, query, criteria(limit=1000)).reach == 4000
    assert recall.make_need(profile, query, criteria(vector=unit(1))).reach == recall.MIN_REACH


TENANTS = ("default", "other")
WORDS = ("red", "green", "blue", "old", "new")


def changes_of(draw, live):
    """Return some changes to memories of both tenants, of all kinds; `live` says what is there, and is kept up."""
    made = []
    for _ in range(draw.integers(1, 6)):
        tenant, number = TENANTS[draw.integers(2)], int(draw.integers(1, 7))
        known = live.get((tenant, number))
        said = " ".join(draw.choice(WORDS, 3))
        marks = {
            "tags": tuple(draw.choice(WORDS, 1)),
            "kind": str(draw.choice(WORDS)),
            "entities": (str(draw.choice(WORDS)),),
        }
        if known is None:
            fresh = stored(
                number, tenant=tenant, content=said, session_id="s" if number % 2 else None, turn=number, **marks
            )
            made.append(Add(fresh))
            live[tenant, number] = fresh.memory
            continue
        deed = draw.integers(5)
        if deed == 0:
            made.append(Erase(tenant, (known.id,)))
            del live[tenant, number]
            continue
        if deed == 1:
            made.append(Derive(tenant, known.id, known.version, known.content_hash, terms=tuple(draw.choice(WORDS, 2))))
            continue
        gone = NOW if deed == 2 and known.forgotten_at is None else None
        new = known.changed("update", NOW, forgotten_at=gone, **marks)
        made.append(Revise(new, terms=tuple(said.split())))
        live[tenant, number] = new
    return made


@pytest.mark.parametrize("seed", range(3))
def test_words_lead_to_what_is_there_and_to_nothing_else(opened, seed):
    """After transactions of two tenants that add, revise, forget, bring back, derive anew and erase, in any order."""
    store, draw, live = opened(exact_rows=0), np.random.default_rng(seed), {}
    for _ in range(25):
        store.apply(changes_of(draw, live))
        assert store.check() == []
    for tenant in TENANTS:
        scope = Scope(tenant=tenant, environment=ANY, project=ANY, user_id=ANY, agent_id=ANY)
        for word in WORDS:
            held = [number for (of, number), memory in live.items() if of == tenant and word in memory.tags]
            shown = sorted(number for number in held if live[tenant, number].forgotten_at is None)
            assert numbers(store.gather(need(scope, filter=Filter(tags=(word,)), reach=2))) == shown


@pytest.fixture
def near(tables, monkeypatch, clock):
    """Return a function that asks indexes for the only memory near the query, among 180 far and later ones."""
    embedder = PlantedEmbedder({"near": 0.9})
    with salience.connect(tables, embedder=embedder, clock=clock) as memory:
        made = memory.remember("near").memory
        clock.advance(days=1)
        memory.remember_many([{"content": f"far {number}"} for number in range(180)])
    with admin.PostgresDatabase(tables, busy_timeout=5, statement_timeout=10, exact_rows=0) as database:
        database.index()
    monkeypatch.setenv("SALIENCE_EXACT_ROWS", "0")
    asked, nearest = [], statements.nearest

    def ask(*, missed):
        def stub(scope, filter, vector, count, spoken, indexed_as):
            asked.append(indexed_as is not None)
            found = nearest(scope, filter, vector, count, spoken, indexed_as)
            return found.where(memories.c.id != made.id) if missed and indexed_as is not None else found

        monkeypatch.setattr(statements, "nearest", stub)
        asked.clear()
        with salience.connect(tables, embedder=embedder, clock=clock, profile="memlayer") as memory:
            found = memory.recall("query")
        return [hit.memory.content for hit in found], found.exact, list(asked)

    return ask


def test_an_answer_out_of_the_vector_index_is_never_exact(near, monkeypatch):
    """Its cosines would rule out any other memory, and yet the index may have missed one."""
    monkeypatch.setattr(search, "_FEW", 0)
    assert near(missed=True) == ([], False, [True])
    assert near(missed=False) == (["near"], False, [True])


def test_an_answer_out_of_a_full_scan_is_exact_where_no_other_memory_can_reach_it(near):
    assert near(missed=True) == (["near"], True, [False])


def test_an_answer_is_exact_where_the_index_found_too_few_and_a_full_scan_followed(near, monkeypatch):
    monkeypatch.setattr(search, "_FEW", 0)
    monkeypatch.setattr(recall, "MAX_REACH", 200)
    monkeypatch.setattr(recall, "MIN_REACH", 200)
    assert near(missed=True) == (["near"], True, [True, False])


@pytest.mark.parametrize(("profile", "reach"), [("salience", 150), ("cmm", 300)])
def test_a_profile_whose_scores_spread_asks_for_twice_as_many_candidates(planted, profile, reach):
    engine = planted()
    query = Query(text="tea", scope=EVERYTHING, limit=10)
    ranking = profiles.load(profile)
    asked = recall.read_query(engine.services, ranking, query, NOW)
    assert recall.make_need(ranking, query, replace(asked, vector=unit(1))).reach == reach
