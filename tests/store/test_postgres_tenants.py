"""Tenants made in a row cost the last no more than the first: no table, no lock, no connection of their own."""

from bench.torture_postgres import make_tenants, opened


def test_tenants_in_a_row_leave_the_catalog_and_the_pool_as_they_are(tables):
    figures, faults = make_tenants(tables, 120, threads=8, pool_size=4)
    assert faults == []
    assert figures["early"]["connections"] == figures["late"]["connections"] == 4
    assert figures["last ms"] > 0


def test_rows_at_hand_are_let_go_of(tables):
    """The rows that a process keeps are limited for all tenants together."""
    with opened(tables) as engine:
        store = engine.services.store
        store._indexes._kept = 10
        for number in range(20):
            own = engine.of(f"tenant-{number}")
            own.remember("Alice prefers Python")
            assert len(own.recall("Python", min_score=0)) == 1
        assert sum(1 for _ in store._indexes._entries) <= 10
        assert len(engine.of("tenant-0").recall("Python", min_score=0)) == 1
