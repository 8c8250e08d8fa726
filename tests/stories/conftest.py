"""The helpers of this folder can be imported by its tests, and those of the public API run on every surface."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from anyio.from_thread import start_blocking_portal

import surfaces
from salience.testing.doubles import PlantedEmbedder, StoppedClock

sys.path.insert(0, str(Path(__file__).parent))

Connect = Callable[..., Any]


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "every_store: runs on a file and, as a slow test, on PostgreSQL")
    config.addinivalue_line(
        "markers", "every_surface: runs on every store, and on an engine and over HTTP, with and without coroutines"
    )
    config.addinivalue_line(
        "markers", "local(reason): runs on a file alone, though its module is marked `every_store` or `every_surface`"
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "surface" not in metafunc.fixturenames:
        return
    marker = metafunc.definition.get_closest_marker
    chosen: dict[str, object] = {"sqlite": surfaces.LOCAL["sqlite"]}
    if marker("every_surface") and not marker("local") and "connect" in metafunc.fixturenames:
        chosen |= {"memory": surfaces.LOCAL["memory"], **surfaces.REMOTE}
    if (marker("every_surface") or marker("every_store")) and not marker("local"):
        chosen["postgresql"] = pytest.param(surfaces.LOCAL["postgresql"], marks=pytest.mark.slow)
    metafunc.parametrize("surface", chosen.values(), ids=chosen.keys(), indirect=True, scope="function")


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
    with surfaces.served() as found:
        yield found


@pytest.fixture(scope="session")
def _portal() -> Iterator[Any]:
    with start_blocking_portal() as portal:
        yield portal


@pytest.fixture
def connect(surface: surfaces.Surface, request: pytest.FixtureRequest) -> Iterator[Connect]:
    """Return `salience.connect`, or its equivalent on another surface."""
    if surface in surfaces.LOCAL.values():  # which needs no server
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
