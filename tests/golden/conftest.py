"""Every golden runs on a file and, in the slow tests, on PostgreSQL: both give the scores of PROFILES.md."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgresql":
        return str(request.getfixturevalue("tables"))
    return str(tmp_path / "agent.db")
