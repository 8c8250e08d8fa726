"""docs/decisions: the index lists each page under its number and title, and the pages stay short."""

from __future__ import annotations

import re
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "docs/decisions"
TITLE = re.compile(r"# (\d+)\. (.+)\n")


def test_the_index_lists_each_decision():
    rows = []
    for page in sorted(FOLDER.glob("0*.md")):
        title = TITLE.match(page.read_text("utf-8"))
        assert title, page.name
        assert page.name.startswith(f"{int(title[1]):04}-")
        rows.append(f"| {title[1]} | [{title[2]}]({page.name}) |")
    index = (FOLDER / "index.md").read_text("utf-8")
    assert [line for line in index.splitlines() if line.startswith("| ")] == ["| number | decision |", *rows]


def test_a_decision_fits_on_half_a_page():
    for page in FOLDER.glob("0*.md"):
        text = page.read_text("utf-8")
        assert len(text.split()) <= 300, page.name
        assert re.findall(r"^\*\*(\w+)\.\*\*", text, re.MULTILINE) == ["Context", "Decision", "Consequences"], page.name
