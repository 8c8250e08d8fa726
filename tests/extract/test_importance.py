"""The table of importance: classes, order, idioms."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from salience import text
from salience.extract.importance import (
    CLASSES,
    FILLERS,
    IDIOMS,
    NORMAL,
    ROUTINE,
    importance,
    importance_class,
)
from salience.extract.phrases import Phrasebook


def test_the_table_has_the_printed_multipliers_in_the_printed_order() -> None:
    table = [(name, row.multiplier) for name, row in CLASSES.items()]
    assert table == [("correction", 2.0), ("instruction", 2.0), ("novel", 1.5), ("normal", 1.0), ("routine", 0.5)]


@pytest.mark.parametrize(
    ("content", "name", "value"),
    [
        ("Actually, the meeting is on Tuesday", "correction", 1.0),
        ("I was wrong about the port", "correction", 1.0),
        ("ALWAYS use tabs in this repository", "instruction", 1.0),
        ("Never deploy on Friday", "instruction", 1.0),
        ("Remember that the key is in the vault", "instruction", 1.0),
        ("Don’t forget the umbrella", "instruction", 1.0),
        ("My name is Mira", "novel", 0.75),
        ("I really like green tea", "novel", 0.75),
        ("The user prefers dark mode", "novel", 0.75),
        ("We switched to uv", "novel", 0.75),
        ("Elena moved to Porto", "novel", 0.75),
        ("The build took nine minutes", "normal", 0.5),
        ("hello", "routine", 0.25),
        ("Thanks!", "routine", 0.25),
        ("Thank you so very much!", "routine", 0.25),
        ("Good morning everyone :-)", "routine", 0.25),
        ("👍", "routine", 0.25),
    ],
)
def test_a_text_belongs_to_the_class_of_its_phrases(content: str, name: str, value: float) -> None:
    assert (importance_class(content), importance(content)) == (name, value)


@pytest.mark.parametrize(
    "content", ["Nevertheless it works", "The factually best one", "Sideways", "It looks like rain"]
)
def test_a_phrase_is_a_whole_word_and_no_part_of_one(content: str) -> None:
    assert importance_class(content) == NORMAL


@pytest.mark.parametrize("name", CLASSES)
def test_each_phrase_of_the_table_is_found_by_itself(name: str) -> None:
    for phrase in CLASSES[name].phrases:
        first = next(other for other, row in CLASSES.items() if phrase in row.phrases)
        assert (importance_class(phrase), importance(phrase)) == (first, CLASSES[first].multiplier / 2)


def test_routine_is_nothing_but_routine() -> None:
    assert importance_class("thanks, and the deploy key is in the vault") == NORMAL
    assert importance_class("Hello Mira, the invoice is paid") == NORMAL


@pytest.mark.parametrize(
    ("content", "name"),
    [
        ("Never mind", ROUTINE),
        ("Never mind, the cable is here", NORMAL),
        ("Never mind the gap, never lean out", "instruction"),
        ("Do you remember the port?", NORMAL),
        ("The server was slow, as always", NORMAL),
    ],
)
def test_an_idiom_hides_the_word_that_it_holds(content: str, name: str) -> None:
    assert importance_class(content) == name


@given(st.text())
def test_case_does_not_matter(content: str) -> None:
    assert importance_class(content.casefold()) == importance_class(content)


def test_a_text_of_64_kib_is_read_to_its_end() -> None:
    assert importance_class("good " * 13_000 + "never") == "instruction"
    assert importance_class("never mind " * 6_000) == ROUTINE


WORDS = sorted(
    {word for row in CLASSES.values() for phrase in row.phrases for word in phrase.split()} | {"cable", "so"}
)


@given(st.lists(st.sampled_from(WORDS), max_size=6))
def test_the_class_is_that_of_the_first_row_that_holds(words: list[str]) -> None:
    kept = [word for word in text.words(" ".join(words)) if word not in FILLERS]
    idioms = {tuple(text.words(idiom)) for idiom in IDIOMS}
    for name, row in CLASSES.items():
        found = Phrasebook((*row.phrases, *IDIOMS)).find(kept) if row.phrases else []
        covered = {place for start, end, _ in found for place in range(start, end)}
        if name == ROUTINE and len(covered) == len(kept):
            break
        if name != ROUTINE and any(phrase not in idioms for _, _, phrase in found):
            break
    else:
        name = NORMAL
    assert importance_class(" ".join(words)) == name
