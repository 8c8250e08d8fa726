"""The table of the page on scopes is what a store does."""

from __future__ import annotations

from pathlib import Path

import pytest

import salience
from tests.contract.doubles import PlantedEmbedder

PAGE = Path(__file__).parents[2] / "docs/explanation/scopes.md"


def keywords(cell: str) -> dict[str, object]:
    text = cell.strip("`")
    return {} if text == "none" else eval(f"dict({text})", {"ANY": salience.ANY})  # noqa: S307 - our own page


@pytest.mark.parametrize("read", ["list", "recall"])
def test_the_table_of_scopes_says_which_question_sees_which_memory(read):
    lines = [line for line in PAGE.read_text("utf-8").splitlines() if line.startswith("| ")]
    (_, *questions), *rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in lines)
    memory = salience.connect(":memory:", embedder=PlantedEmbedder({stored: 0.9 for stored, *_ in rows}))
    for stored, *_ in rows:
        memory.remember(stored, duplicate=True, **keywords(stored))

    def seen(question: str) -> set[str]:
        where = keywords(question)
        if read == "list":
            return {one.content for one in memory.list(**where)}
        return {hit.memory.content for hit in memory.recall("query", limit=20, **where)}

    assert (len(rows), len(questions)) == (9, 9)
    for question, *cells in zip(questions, *(cells for _, *cells in rows), strict=True):
        assert {stored for (stored, *_), cell in zip(rows, cells, strict=True) if cell == "yes"} == seen(question)
