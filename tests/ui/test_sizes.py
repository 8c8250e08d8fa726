"""Every view in Chromium on a store without a memory, and on one with a single memory."""

from __future__ import annotations

import pytest

import salience
from bench.browser import dashboard, served
from dashboards import assert_accessible, assert_fits
from salience.server.ui.views import VIEWS
from tests.contract.doubles import HashedEmbedder

pytestmark = pytest.mark.slow
QUESTION = "q=Where+does+Ann+live%3F"
TEXT = "Ann lives in Oslo"


@pytest.mark.parametrize("memories", [0, 1])
def test_every_view_is_whole(narrow_page, tmp_path, memories):
    page = narrow_page
    with salience.connect(str(tmp_path / "agent.db"), embedder=HashedEmbedder("hashed", 64)) as engine:
        paths = [view.path for view in VIEWS] + [f"{name}?{QUESTION}" for name in ("playground", "why", "compare")]
        if memories:
            one = engine.remember(TEXT, user_id="ann", fact_key="ann.city", session_id="s").memory.id
            paths += [f"memory/{one}", f"graph?memory={one}", f"why?{QUESTION}&memory={one}"]
            paths += ["sessions/transcript?id=s"]
        with served(dashboard(engine, target=str(tmp_path / "agent.db"))) as url:
            for path in paths:
                response = page.goto(f"{url}/ui/{path}")
                page.locator("[hx-trigger=load]").first.wait_for(state="detached")  # all parts are loaded
                assert response.status == 200, path
                assert page.locator("h1").count() == 1, path
                assert_fits(page)
                assert_accessible(page)
                assert page.errors == [], path
            page.goto(f"{url}/ui/")
            assert (TEXT in page.inner_text(".results")) == bool(memories)
