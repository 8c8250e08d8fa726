"""Helpers for tests of the dashboard: clients, CSRF tokens, and checks of a page in the browser."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

SCREENS = ("light-360", "dark-1600")
NARROW = pytest.mark.parametrize("page", SCREENS[:1], indirect=True)
AXE = Path(__file__).with_name("ui") / "axe.min.js"


def client_of(application: Any) -> TestClient:
    """Return a client that follows no redirects."""
    return TestClient(application, base_url="http://127.0.0.1", follow_redirects=False)


def csrf_of(client: TestClient, path: str = "/ui/") -> str:
    """Return the CSRF token of the forms on a page."""
    [token] = set(re.findall(r'name="csrf" value="([0-9a-f]+)"', client.get(path).text))
    return token


def assert_accessible(page: Any) -> None:
    """Fail with the violations that axe-core finds on the page."""
    if not page.evaluate("typeof window.axe === 'object'"):
        page.evaluate(AXE.read_text("utf-8"))  # by the debugger, which the content policy does not bind
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    violations = [
        f"{one['id']}: {one['help']}: {node['html'][:120]} {node.get('failureSummary', '')[:200]}"
        for one in found["violations"]
        for node in one["nodes"][:3]
    ]
    assert violations == []


def assert_fits(page: Any) -> None:
    """Fail if the page is wider than the window."""
    sizes = page.evaluate("[document.documentElement.scrollWidth, document.documentElement.clientWidth]")
    assert sizes[0] <= sizes[1], sizes
