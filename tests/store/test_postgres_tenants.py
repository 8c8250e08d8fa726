"""Tenants made in a row cost the last no more than the first: no table, no lock, no connection of their own."""

from dataclasses import replace

import pytest

from bench.torture_postgres import report
from bench.torture_postgres.growth import Growth, Standing, growth
from bench.torture_postgres.housing import of, opened

TENANTS = 120


def test_tenants_in_a_row_leave_the_catalog_and_the_pool_as_they_are(tables):
    found = growth(tables, TENANTS, threads=8, pool_size=4)
    assert found.faults == ()
    early, late = found.standings
    assert (early.entries, early.backends) == (late.entries, late.backends) == (late.entries, 4)
    assert len(found.remember) == len(found.recall) == TENANTS
    assert any(line.startswith("faults") and line.endswith("0") for line in report.of_growth(found))


def test_rows_at_hand_are_let_go_of(tables):
    """The rows that a process keeps are limited for all tenants together."""
    with opened(tables) as engine:
        store = engine.services.store
        store._arenas._kept = 10
        for number in range(20):
            own = of(engine, f"tenant-{number}")
            own.remember("Alice prefers Python")
            assert len(own.recall("Python", min_score=0)) == 1
        assert sum(1 for _ in store._arenas._entries) <= 10
        assert len(of(engine, "tenant-0").recall("Python", min_score=0)) == 1


@pytest.fixture
def grown():
    """What 100 tenants came to that cost the same, first and last."""
    standing = Standing(process=1, backend=1, backends=1, entries=1)
    same = [0.001] * 100
    return Growth(100, 1, 1.0, same, same, (same[:10], same[:10]), (standing, standing), ())


def test_ratios_hold_the_last_tenth_against_the_first(grown):
    assert (grown.ratio, grown.ratio_again) == (1.0, 1.0)
    slower = replace(grown, recall=[0.001] * 90 + [0.003] * 10, again=([0.001] * 10, [0.002] * 10))
    assert slower.ratio == pytest.approx(3.0)
    assert slower.ratio_again == pytest.approx(2.0)
