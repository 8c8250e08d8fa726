"""The figures of the pages are those of every store."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(params=["memory", "sqlite", "postgresql"])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgresql":
        return str(request.getfixturevalue("tables"))
    return ":memory:" if request.param == "memory" else str(tmp_path / "agent.db")
