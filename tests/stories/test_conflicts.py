"""What a receipt tells of the memories that a new one may conflict with."""

from __future__ import annotations

import pytest

import salience
from salience.remember.conflicts import LABELLED


@pytest.mark.parametrize(
    ("older", "newer", "label", "because"),
    [
        ("The request limit is 30 a minute", "The request limit is 40 a minute", "update", "number: 30 -> 40"),
        ("The request limit is 30 a minute", "The request limit is now 40 a minute", "update", "number: 30 -> 40"),
        ("Ann agreed", "Ann did not agree", "contradiction", "negation"),
        ("The office closes at six", "the office closes at six!", "duplicate", "same"),
    ],
)
def test_a_conflict_is_labelled_and_says_why(planted, older, newer, label, because):
    memory = planted({older: 0.9, newer: 0.9}, axes={older: 1, newer: 1})
    memory.remember(older)
    (found,) = memory.remember(newer).contradictions
    assert (found.memory.content, found.label) == (older, label)
    assert because in " ".join(found.because)


def test_only_the_most_similar_are_labelled(planted):
    texts = [f"The request limit is {number} a minute" for number in range(LABELLED + 3)]
    memory = planted(dict.fromkeys(texts, 0.9), axes=dict.fromkeys(texts, 1))
    memory.remember_many([{"content": text} for text in texts[:-1]])
    found = memory.remember(texts[-1]).contradictions
    assert [one.label is not None for one in found] == [True] * LABELLED + [False] * 2


def test_a_pending_memory_has_no_conflicts(target):
    class Down:
        name, dimension = "down", 4

        def embed(self, texts, /):
            raise ConnectionError

    with salience.connect(target, embedder=Down()) as memory:
        memory.remember("The limit is 30")
        receipt = memory.remember("The limit is 40")
        assert (receipt.status, receipt.contradictions) == ("pending", ())
        assert "conflicts were not checked" in receipt.warning
