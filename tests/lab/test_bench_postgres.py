"""The bench of a store on PostgreSQL: what it makes up is as the product would store it, and its figures hold."""

from __future__ import annotations

import itertools
from dataclasses import replace
from statistics import median

import numpy as np
import psycopg
import psycopg.conninfo
import pytest

from salience.extract.terms import index_terms
from salience.lab.bench_postgres import corpus, loading, place
from salience.lab.bench_postgres.__main__ import main
from salience.lab.bench_postgres.asking import Answer, Case, Effort, Latency
from salience.lab.bench_postgres.corpus import Corpus
from salience.lab.bench_postgres.figures import Agreement
from salience.lab.bench_postgres.meaning import MadeUp
from salience.lab.bench_postgres.measuring import PROFILES, Amounts, cases, measured
from salience.lab.bench_postgres.report import Machine, page
from salience.store.postgres.database import PostgresDatabase
from salience.text import Tokeniser

SMALL = Corpus(1_500, 12)
LITTLE = Amounts(
    Effort(0, 1, 1), Effort(0, 1, 1), compared=2, written=2, processes=1, threads=2, engines=1, connections=1
)


def test_tenants_are_of_uneven_size_and_make_up_all():
    sizes = corpus.sizes(1_000_000, 1_000)
    assert sum(sizes) == 1_000_000
    assert len(sizes) == 1_000
    assert sizes[:5] == [200_000, 20_000, 6_000, 200, 20]
    assert max(sizes[5:]) < 101_000
    assert 50 < median(sizes) < 500


@pytest.mark.parametrize(("memories", "tenants"), [(1_500, 12), (100_000, 1_000), (1_500, 10), (123_457, 77)])
def test_tenants_of_every_corpus_make_up_all(memories, tenants):
    sizes = corpus.sizes(memories, tenants)
    assert (sum(sizes), len(sizes)) == (memories, tenants)
    assert min(sizes) > 0


@pytest.mark.parametrize(
    "amounts", [["--memories", "1000"], ["--tenants", "5"], ["--memories", "15000", "--tenants", "200"]]
)
def test_too_little_is_refused(amounts, capsys):
    with pytest.raises(SystemExit):
        main(amounts)
    assert "give at least 10 tenants, 1,500 memories, and 100 memories for each tenant" in capsys.readouterr().err


def test_what_is_made_up_is_the_same_for_a_seed_and_comes_in_order():
    made = list(SMALL.part())
    assert len(made) == SMALL.memories
    assert made == list(SMALL.part())
    assert [memory.id for memory in made] == sorted({memory.id for memory in made})
    halves = [memory for number in (0, 1) for memory in SMALL.part(number, 2)]
    assert sorted(memory.id for memory in halves) == [memory.id for memory in made]
    assert made != list(Corpus(1_500, 12, seed=2).part())


def test_the_terms_that_are_loaded_are_those_of_the_texts():
    tokeniser = Tokeniser()
    for memory in itertools.islice(SMALL.part(), 200):
        assert loading.terms(memory) == index_terms(tokeniser, memory)


def test_texts_on_one_topic_lie_together():
    said = [SMALL.session(0, first, place.asked_at(), 20) for first in (0, 20, 40)]
    vectors = MadeUp().embed([memory.content for session in said for memory in session])
    cosines = vectors @ vectors.T
    within = np.kron(np.eye(3), np.ones((20, 20))) > 0
    assert np.median(cosines[within]) > 0.35
    assert np.median(cosines[within]) > np.median(cosines[~within]) + 0.2
    assert np.allclose(np.diag(cosines), 1, atol=1e-5)


def test_questions_are_on_what_is_in_sight():
    case = next(case for case in cases(SMALL) if "one project" in case.label)
    said = " ".join(memory.content.lower() for memory in SMALL.part() if case.scope.sees(memory.scope))
    for question in case.questions(SMALL, 20, seed=1):
        words = [word for word in question.rstrip("?").lower().split() if word.endswith("k")]
        assert sum(word in said for word in words) >= len(words) - 1


def test_agreement_and_latency_by_hand():
    case = Case("all", 0)
    found = [Answer(1.0, {}, ("a", "b"), True), Answer(3.0, {}, ("c", "d"), True), Answer(5.0, {}, ("e", "f"), False)]
    true = [Answer(1.0, {}, ("a", "b"), True), Answer(1.0, {}, ("c", "x"), True), Answer(1.0, {}, ("f", "e"), True)]
    agreed = Agreement.of(case, "salience", found, true)
    assert agreed.share == pytest.approx(5 / 6)
    assert (agreed.same, agreed.exact, agreed.wrong) == (pytest.approx(1 / 3), pytest.approx(2 / 3), 1)
    latency = Latency.over(found, 16)
    assert (latency.p50, latency.count, latency.hits) == (3.0, 3, 2.0)
    assert latency.rate == pytest.approx(16 / 0.003)


def test_everything_is_measured_and_told(postgres):
    told: list[str] = []
    with place.store(postgres.dsn()) as made:
        found = measured(made, SMALL, LITTLE, told.append)
        assert not wrong(made)
        recalls_its_own(made)
    assert found.loaded.count == SMALL.memories
    assert [row.case for row in found.rows[:: len(PROFILES)]] == cases(SMALL)
    assert all(one.share == 1 and one.wrong == 0 for one in found.agreements)  # few enough to score each
    assert {size.name for size in found.sizes} >= {"ix_memories_hnsw", "ix_memories_hnsw_half", "pk_postings"}
    assert any("comparing" in words for words in told)
    written = page(found, SMALL, Machine("a processor", 2, 2**34, "PostgreSQL", ""), "the command")
    assert written.count("\n## ") == 8
    assert "| nan" not in written


def wrong(store):
    """Return of which sort are the faults that a doctor finds in a store."""
    with PostgresDatabase(store.owner, busy_timeout=30, statement_timeout=60, exact_rows=5_000) as database:
        return {finding.check for finding in database.check()}


def recalls_its_own(store):
    """Check that what was loaded is found as what was remembered is."""
    memory = next(SMALL.part())
    with place.opened(store.application, tenant=memory.scope.tenant) as engine:
        hit = engine.recall(memory.content, user_id=memory.scope.user_id, project=memory.scope.project)[0]
        assert hit.memory == replace(memory, accessed_at=hit.memory.accessed_at, access_count=hit.memory.access_count)


def test_a_server_is_left_as_it_was(postgres):
    users = "SELECT count(*) FROM pg_roles WHERE rolname = %s"
    with place.store(postgres.dsn()) as made, place.connected(made.owner) as connection:
        assert connection.execute(users, (place.USER,)).fetchone() == (1,)
    with psycopg.connect(postgres.dsn()) as connection:
        assert connection.execute(users, (place.USER,)).fetchone() == (0,)
        assert connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", (made_name(made),)).fetchone() is None


def made_name(made):
    return psycopg.conninfo.conninfo_to_dict(made.owner)["dbname"]
