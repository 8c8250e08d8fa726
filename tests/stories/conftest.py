"""The stories run on a file, and by their markers on every store and every way to connect."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from anyio.from_thread import start_blocking_portal

import surfaces
from tests.contract.doubles import PlantedEmbedder, StoppedClock

sys.path.insert(0, str(Path(__file__).parent))

Connect = Callable[..., Any]


def pytest_configure(config: pytest.Config) -> None:
    lines = (
        "every_store: runs on a file and, as a slow test, on PostgreSQL",
        "every_surface: runs on a file and over HTTP and, as a slow test, on PostgreSQL",
        "every_call: runs, as slow tests, by coroutines too, on stores in memory",
        "local(reason): runs on a file alone, though its module is marked `every_store` or `every_surface`",
    )
    for line in lines:
        config.addinivalue_line("markers", line)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "surface" not in metafunc.fixturenames:
        return
    marker = metafunc.definition.get_closest_marker
    names = ["sqlite"]
    if marker("every_surface") and not marker("local"):
        names = ["sqlite", "rest", "postgresql"] if "connect" in metafunc.fixturenames else ["sqlite", "postgresql"]
        names = list(surfaces.SURFACES) if marker("every_call") and "rest" in names else names
    elif marker("every_store") and not marker("local"):
        names.append("postgresql")
    slow = [pytest.mark.slow]
    chosen = [
        pytest.param(surfaces.SURFACES[name], marks=[] if name in ("sqlite", "rest") else slow, id=name)
        for name in names
    ]
    metafunc.parametrize("surface", chosen, indirect=True, scope="function")


@pytest.fixture
def surface(request: pytest.FixtureRequest) -> surfaces.Surface:
    return request.param  # type: ignore[no-any-return]


@pytest.fixture
def target(surface: surfaces.Surface, request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if surface.store == "postgresql":
        return str(request.getfixturevalue("tables"))
    return ":memory:" if surface.store == "memory" else str(tmp_path / "agent.db")


@pytest.fixture(scope="session")
def _server() -> Iterator[tuple[surfaces.Server, str]]:
    pytest.importorskip("uvicorn", reason="needs salience[server]")
    with surfaces.served() as found:
        yield found


@pytest.fixture(scope="session")
def _portal() -> Iterator[Any]:
    with start_blocking_portal() as portal:
        yield portal


@pytest.fixture
def connect(surface: surfaces.Surface, request: pytest.FixtureRequest) -> Iterator[Connect]:
    """Return `salience.connect`, or its equivalent on another surface."""
    if surface.connect is surfaces.local:
        services = surfaces.Services(None, "", None)  # type: ignore[arg-type]
    else:
        services = surfaces.Services(*request.getfixturevalue("_server"), request.getfixturevalue("_portal"))
    with services.closing:
        yield lambda target=None, **options: surface.connect(services, target, **options)


@pytest.fixture
def planted(connect: Connect, target: str, clock: StoppedClock) -> Callable[..., Any]:
    """Return a function from planted cosines to an engine or client: `planted({"text": 0.9}, profile="cmm")`."""

    def make(cosines: dict[str, float] | None = None, *, profile: str = "salience", **options: object) -> Any:
        embedder = PlantedEmbedder(cosines, **options)  # type: ignore[arg-type]
        return connect(target, embedder=embedder, profile=profile, clock=clock)

    return make
