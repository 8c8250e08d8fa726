"""Fixtures for tests of the dashboard; the helpers are in `tests/dashboards.py`.

Fast tests use `client`: a starlette TestClient of a server without keys on `engine`, an empty store with a stopped
clock and planted vectors. `keyed(*rights, **bound)` gives a client that is logged in with a new key on the same store;
`csrf_of(client)` returns the CSRF token of its forms.

Slow tests use `page`: a Playwright page of Chromium on the sample store of `bench.sample`, once light at
360 pixels and once dark at 1,600; `@NARROW` leaves it at the first of these, for what neither colour nor width changes.
`page.goto("/ui/...")` is relative to the server. `assert_accessible(page)` runs
axe-core and lists its violations. `assert_fits(page)` fails if the page scrolls sideways. A test fails if its page logs
an error, such as a breach of the content policy. The sample store is shared: do not change it; a test that writes takes
`fresh_page`, on a store of its own; `plain_page` has no JavaScript; `narrow_page` opens any server. Mark
these modules `pytestmark = pytest.mark.slow`.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

import salience
from bench import sample
from bench.browser import chromium, dashboard, served
from dashboards import SCREENS, client_of, csrf_of
from salience import compose
from salience.engine import Engine
from salience.ports import Keyring
from salience.server.auth import create_key
from tests.contract.doubles import HashedEmbedder, PlantedEmbedder, StoppedClock

Keyed = Callable[..., TestClient]


@pytest.fixture
def engine(target: str, clock: StoppedClock) -> Iterator[Engine]:
    with salience.connect(target, embedder=PlantedEmbedder({"near": 0.9, "far": 0.7}), clock=clock) as made:
        yield made


@pytest.fixture
def keyring(engine: Engine, target: str) -> Iterator[Keyring]:
    found = compose.keyring(target)
    yield found
    found.close()


@pytest.fixture
def client(engine: Engine, target: str) -> TestClient:
    """A client of a server that needs no key."""
    return client_of(dashboard(engine, target=target))


@pytest.fixture
def keyed(engine: Engine, keyring: Keyring, clock: StoppedClock, target: str) -> Keyed:
    """Return a function from rights and bounds to a client that is logged in with such a key."""
    application = dashboard(engine, keyring, target=target)

    def log_in(*rights: str, **bound: str) -> TestClient:
        token, key = create_key("default", rights or ("admin",), bound, None, None, clock())
        keyring.add(key)
        client = client_of(application)
        form = {"key": token, "csrf": csrf_of(client, "/ui/login")}
        assert client.post("/ui/login", data=form).status_code == 303
        return client

    return log_in


@pytest.fixture(scope="package")
def browser() -> Iterator[Any]:
    if shutil.which("chromium") is None:
        pytest.skip("chromium is not installed")
    with chromium() as found:
        yield found


@pytest.fixture(scope="package")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a server on the sample store."""
    file = str(tmp_path_factory.mktemp("site") / "sample.db")
    with sample.opened(file, HashedEmbedder("hashed", 64)) as engine, served(dashboard(engine, target=file)) as url:
        yield url


def _open(browser: Any, url: str, theme: str, width: int, **options: Any) -> Iterator[Any]:
    size = {"width": width, "height": 900}
    context = browser.new_context(base_url=url, viewport=size, color_scheme=theme, bypass_csp=False, **options)
    errors: list[str] = []
    page = context.new_page()
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.errors = errors
    page.set_default_timeout(10_000)
    yield page
    context.close()
    assert errors == []


@pytest.fixture(params=SCREENS, ids=SCREENS)
def page(request: pytest.FixtureRequest, browser: Any, site: str) -> Iterator[Any]:
    theme, width = request.param.split("-")
    yield from _open(browser, site, theme, int(width))


@pytest.fixture(scope="module")
def plain_page(browser: Any, site: str) -> Iterator[Any]:
    """A page without JavaScript."""
    yield from _open(browser, site, "light", 1600, java_script_enabled=False)


@pytest.fixture
def narrow_page(browser: Any) -> Iterator[Any]:
    """A page without a server, light and 360 pixels wide."""
    yield from _open(browser, "http://127.0.0.1", "light", 360)


@pytest.fixture
def fresh_page(browser: Any, tmp_path: Path) -> Iterator[Any]:
    """A page on a sample store of its own, light and 1,600 pixels wide."""
    with ExitStack() as stack:
        file = str(tmp_path / "fresh.db")
        engine = stack.enter_context(sample.opened(file, HashedEmbedder("hashed", 64)))
        url = stack.enter_context(served(dashboard(engine, target=file)))
        yield from _open(browser, url, "light", 1600)
