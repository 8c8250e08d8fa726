"""docs/how-to/import.md lists every source."""

from __future__ import annotations

import re
from pathlib import Path

from salience.transfer.importers import SOURCES

PAGE = (Path(__file__).parents[2] / "docs/how-to/import.md").read_text("utf-8")


def test_every_source_is_in_the_table():
    rows = re.findall(r"^\| (`.*?) \|", PAGE, re.MULTILINE)
    assert {name for row in rows for name in re.findall(r"`([^`]+)`", row)} == SOURCES.keys()
