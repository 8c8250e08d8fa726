"""The everyday worlds beside other stores: what a store returns, and the tables."""

from __future__ import annotations

from bench.everyday import OURS, asked, merged, page
from salience.evaluate.datasets import Conversation, Question
from salience.evaluate.datasets.loader import Belief
from salience.evaluate.everyday import Asked, rows
from salience.records import Draft

WORLD = Conversation(
    "rosa",
    (),
    (
        Question("Where does Rosa live?", "", "present", ("m3",), outdated=("m1",)),
        Question("How many goats does Rosa keep?", "", "plain", ("m2",)),
    ),
    (
        Belief("m1", Draft(content="Rosa lives in Ghent")),
        Belief("m2", Draft(content="Rosa keeps two goats")),
        Belief("m3", Draft(content="The violin is broken")),
    ),
)


def test_cosine_returns_the_nearest_first():
    found = list(asked("cosine", [WORLD]))
    assert [one.refs for one in found] == [("m1", "m2", "m3"), ("m2", "m1", "m3")]
    assert [(one.profile, one.world, one.question) for one in found] == [
        ("cosine", "rosa", question) for question in WORLD.questions
    ]


def test_the_page_has_a_row_for_each_store():
    french = Question("Où ?", "", "plain", ("m1",), language="fr")
    found = [Asked(OURS, "minilm", "rosa", question, question.evidence, True) for question in WORLD.questions]
    found += [Asked(name, "minilm", "lea", french, ("m1",), True) for name in (OURS, "cosine")]
    printed = page(rows([*found, *asked("cosine", [WORLD])])).splitlines()
    assert printed[0].startswith("2 answerable questions in English, and 1 in several languages")
    assert "| salience | 1.000 | 1.000 | 1.000 | 0.000 | 1.000 | 1.000 | 1.000 |  |" in printed
    assert "| cosine | 0.500 | 1.000 | 1.000 | 1.000 | 1.000 | 1.000 | 1.000 |  |" in printed
    assert printed[-4:] == [
        "| store | present | plain |",
        "| --- | ---: | ---: |",
        "| salience | 1.000 | 1.000 |",
        "| cosine | 0.000 | 1.000 |",
    ]


def test_stores_with_equal_figures_share_a_row():
    cells = {"a": ["1", "0"], "b": ["1", "1"], "c": ["1", "0"]}
    assert merged(cells) == [["a, c", "1", "0"], ["b", "1", "1"]]
