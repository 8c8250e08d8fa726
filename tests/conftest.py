"""Fixtures shared by all tests: a stopped clock, and engines on a file."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest
import sqlalchemy
from hypothesis import settings
from sqlalchemy.engine.default import DefaultDialect
from sqlalchemy.util import LRUCache

import salience
from salience.engine import Engine
from salience.models import minilm
from tests.contract.doubles import PlantedEmbedder, StoppedClock
from tests.postgres_server import Elsewhere, Server, database, postgres

sys.path.insert(0, str(Path(__file__).parent))  # where the helpers of the tests are
import databases

ROOT = Path(__file__).parents[1]
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
"""Processes that tests start import `tests.contract` too."""
sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]
"""Or jsonschema builds a grammar of IRIs in every process, which takes two seconds; no test checks an IRI."""
settings.register_profile("thorough", deadline=None)  # pytest --hypothesis-profile=thorough runs 100 examples
settings.register_profile("brief", deadline=None, max_examples=40)
settings.load_profile("brief")
__all__ = ["database", "postgres"]  # fixtures for every test

_STATEMENTS = LRUCache(10_000)
# SQLAlchemy compiles each statement again for each store that a test opens, which took a third of the tests' time
sqlalchemy.Engine._compiled_cache = property(lambda _: _STATEMENTS, lambda _, own: None)  # type: ignore[assignment]
DefaultDialect.__hash__ = lambda dialect: hash(type(dialect))  # type: ignore[method-assign]
DefaultDialect.__eq__ = lambda one, other: (  # type: ignore[method-assign]
    type(one) is type(other) and one.server_version_info == getattr(other, "server_version_info", None)
)

minilm._load = cache(minilm._load)  # each engine would load the default model again, which takes a quarter of a second

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as a shell leaves it to what it starts in the background
    signal.signal(signal.SIGINT, signal.default_int_handler)  # those that are started here are to be interrupted


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test that uses a PostgreSQL server as slow."""
    for item in items:
        if "postgres" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.slow)


@pytest.fixture(autouse=True)
def _no_settings_of_this_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for folder in ("XDG_DATA_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(folder, str(tmp_path / folder.lower()))
    for name in set(os.environ):
        if name.upper().startswith("SALIENCE_") and not name.startswith("SALIENCE_TEST_"):
            monkeypatch.delenv(name)


@pytest.fixture
def clock() -> StoppedClock:
    return StoppedClock()


@pytest.fixture
def target(tmp_path: Path) -> str:
    return str(tmp_path / "agent.db")


Planted = Callable[..., Engine]


@pytest.fixture
def planted(target: str, clock: StoppedClock) -> Iterator[Planted]:
    """Return a function from planted cosines to an engine: `planted({"text": 0.9}, profile="cmm")`."""
    engines: list[Engine] = []

    def make(cosines: dict[str, float] | None = None, *, profile: str = "salience", **options: object) -> Engine:
        embedder = PlantedEmbedder(cosines, **options)  # type: ignore[arg-type]
        engines.append(salience.connect(target, embedder=embedder, profile=profile, clock=clock))
        return engines[-1]

    yield make
    for engine in engines:
        engine.close()


@pytest.fixture(scope="session")
def _in_turn(postgres: Server | Elsewhere) -> Iterator[str]:
    with databases.laid_out(postgres) as dsn:
        yield dsn


@pytest.fixture
def tables(_in_turn: str) -> str:
    """DSN of a database with a store's tables and nothing in them, as a superuser."""
    databases.empty(_in_turn)
    return _in_turn


@pytest.fixture
def as_application(postgres: Server | Elsewhere, tables: str) -> str:
    """DSN of the same as a user that owns no table, makes no role and is under row-level security."""
    return databases.as_application(postgres, tables)


@pytest.fixture
def as_caretaker(postgres: Server | Elsewhere, tables: str) -> str:
    """DSN of the same as such a user that also sees all tenants."""
    return databases.as_application(postgres, tables, databases.CARETAKER)
