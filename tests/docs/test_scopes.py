"""The table of the page on scopes is what a store does."""

from __future__ import annotations

from pathlib import Path

import salience
from tests.contract.doubles import PlantedEmbedder

PAGE = Path(__file__).parents[2] / "docs/explanation/scopes.md"


def keywords(cell: str) -> dict[str, object]:
    text = cell.strip("`")
    return {} if text == "nothing" else eval(f"dict({text})", {"ANY": salience.ANY})  # noqa: S307 - our own page


def test_the_table_of_scopes_says_who_sees_what():
    lines = [line for line in PAGE.read_text("utf-8").splitlines() if line.startswith("| ")]
    (_, *questions), *rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in lines)
    memory = salience.connect(":memory:", embedder=PlantedEmbedder({}))
    for stored, *_ in rows:
        memory.remember(stored, **keywords(stored))

    seen = {question: {one.content for one in memory.list(**keywords(question))} for question in questions}

    assert len(rows) == 8
    assert len(questions) == 7
    for stored, *cells in rows:
        assert cells == ["yes" if stored in seen[question] else "no" for question in questions], stored
