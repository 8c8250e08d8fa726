"""Upkeep beside the requests: each tenant in its turn, its reports counted, its end not waited for long."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta

import pytest
from structlog.testing import capture_logs

import salience
from salience.errors import LeaseError, StoreError
from salience.maintain import upkeep
from salience.maintain.leases import leased
from salience.server.auth import create_key
from salience.server.metrics import Metrics
from salience.server.upkeep import SharedPace, TenantRounds, UpkeepThread
from salience.store.keyring import MemoryKeyring
from tests.contract.doubles import PlantedEmbedder
from waiting import PATIENCE

pytestmark = pytest.mark.slow


class Reports(Metrics):
    """Counts, and tells when so many passes were done."""

    def __init__(self, passes):
        super().__init__()
        self.reports, self.errors = [], []
        self._left, self.enough = passes, threading.Event()

    def upkeep(self, report):
        super().upkeep(report)
        self._noted(self.reports, report)

    def upkeep_failed(self, error):
        super().upkeep_failed(error)
        self._noted(self.errors, error)

    def _noted(self, where, what):
        where.append(what)
        self._left -= 1
        if not self._left:
            self.enough.set()


@pytest.fixture
def engine():
    with salience.connect(":memory:", embedder=PlantedEmbedder()) as opened:
        yield opened


@pytest.fixture
def keyring():
    ring = MemoryKeyring()
    for tenant in ("acme", "zeta", "acme"):
        ring.add(create_key(tenant, ("read",), {}, None, None, datetime.now(UTC))[1])
    return ring


def test_every_tenant_has_its_turn_the_own_one_first(engine, keyring):
    rounds = TenantRounds(engine, keyring)
    assert [rounds.next().tenant for _ in range(7)] == [
        "default", "default", "acme", "zeta", "default", "acme", "zeta",
    ]  # fmt: skip


def test_a_tenant_whose_key_is_made_meanwhile_joins_the_next_round(engine):
    ring = MemoryKeyring()
    rounds = TenantRounds(engine, ring)
    assert rounds.next().tenant == "default"
    ring.add(create_key("late", ("read",), {}, None, None, datetime.now(UTC))[1])
    assert [rounds.next().tenant for _ in range(2)] == ["default", "late"]


def test_a_server_that_may_not_list_the_keys_of_all_goes_on_with_its_own_tenant(engine):
    ring = MemoryKeyring()
    rounds = TenantRounds(engine, ring)
    ring.close()
    assert rounds.next().tenant == "default"
    for _ in range(2):
        with pytest.raises(StoreError):
            rounds.next()
        assert rounds.next().tenant == "default"


def test_the_more_tenants_the_shorter_the_time_between_two_passes():
    pace = SharedPace(timedelta(minutes=10), monotonic=lambda: 0.0, tenants=lambda: 5)
    assert pace.after(0.0) == 120.0


def test_what_is_due_is_done_and_counted(engine, keyring):
    for tenant in ("default", "acme", "zeta"):
        engine.of(tenant).remember("Soon gone", ttl=1, created_at=datetime.now(UTC) - timedelta(hours=1))
    meter = Reports(passes=4)
    keeper = UpkeepThread(engine, keyring, timedelta(milliseconds=1), meter)
    keeper.start()
    assert meter.enough.wait(PATIENCE)
    keeper.stop()
    assert sum(len(report.expired) for report in meter.reports) == 3
    value = meter.registry.get_sample_value
    assert value("salience_upkeep_changes_total", {"change": "expired"}) == 3
    assert value("salience_upkeep_passes_total", {"outcome": "done"}) == len(meter.reports)


def test_a_pass_that_another_process_is_at_is_left_to_it(engine):
    meter = Reports(passes=2)
    keeper = UpkeepThread(engine, MemoryKeyring(), timedelta(milliseconds=1), meter)
    with leased(engine.services, f"upkeep:{engine.services.tenant}", upkeep.LEASE_TIME):
        keeper.start()
        assert meter.enough.wait(PATIENCE)
        keeper.stop()
    assert {type(error) for error in meter.errors} == {LeaseError}
    assert meter.registry.get_sample_value("salience_upkeep_passes_total", {"outcome": "elsewhere"}) >= 2


def test_where_the_database_shows_one_tenant_only_that_one_gets_upkeep(engine, keyring, monkeypatch):
    monkeypatch.setattr(type(engine.services.store), "sees_all", False, raising=False)
    rounds = TenantRounds(engine, keyring)
    assert {rounds.next().tenant for _ in range(5)} == {"default"}
    with capture_logs() as lines:
        UpkeepThread(engine, keyring, timedelta(minutes=1), Metrics())
    assert [line["log_level"] for line in lines] == ["warning"]
    assert "only for tenant 'default'" in lines[0]["detail"]


def test_never_is_never(engine):
    keeper = UpkeepThread(engine, MemoryKeyring(), None, Metrics())
    before = threading.active_count()
    keeper.start()
    assert threading.active_count() == before
    keeper.stop()
