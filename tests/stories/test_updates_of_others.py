"""A later memory about another thing is no update of the one that a question names."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

import salience

PEOPLE = "Ann Bob Carl Dora Emil Fay Gus Hana Ivo Jana Karl Lea Mia Nils Olga Paul Rosa Sven Tina".split()
LISTS = {
    "servers": (
        [f"Server web-{number:02} has the address 10.0.0.{number + 10}" for number in range(1, 31)],
        "What is the address of server web-07?",
        "Server web-07 has the address 10.0.0.17",
    ),
    "people": (
        [f"{name} collects stamps of series {100_000 + 7 * place}" for place, name in enumerate(PEOPLE)],
        "Which series does Fay collect?",
        "Fay collects stamps of series 100035",
    ),
    "invoices": (
        [f"Invoice {number} from Nordpost is {number * 3} euros" for number in range(100, 140)],
        "How much is invoice 117?",
        "Invoice 117 from Nordpost is 351 euros",
    ),
}
FIRST = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize("name", LISTS)
def test_the_memory_that_the_question_names_comes_first(name):
    texts, question, wanted = LISTS[name]
    with salience.connect(":memory:") as memory:
        memory.remember_many(
            {"content": text, "created_at": FIRST + timedelta(days=day)} for day, text in enumerate(texts)
        )
        assert memory.recall(question)[0].memory.content == wanted


def test_an_update_need_not_repeat_the_name():
    with salience.connect(":memory:") as memory:
        memory.remember("Nadia's coach is Ben", created_at=FIRST)
        memory.remember("Nadia now trains with a new coach, Carla", created_at=FIRST + timedelta(days=9))
        assert "Carla" in memory.recall("Who is Nadia's coach?")[0].memory.content
