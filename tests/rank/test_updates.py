"""What counts as an update of what was said before."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from salience.batch import Batch, Lexicon, Postings, Ragged, Vectors, coded
from salience.ports import Calibration, Need
from salience.rank.updates import Likeness, about_another, answers_alike, updates
from salience.records import Scope

HALVING = Calibration((0.0, 1.0), (0.0, 0.5), 0.9, "test")


def lexicon_of(rows, terms, count):
    held = [np.array([row for row, words in enumerate(rows) if term in words], np.intp) for term in terms]
    postings = Postings.of([(places, np.ones(len(places))) for places in held])
    frequency = np.array([float(len(places)) for places in held])
    return Lexicon(count, 3.0, frequency, postings, np.full(len(rows), 3.0))


def batch_of(cosine, *, words=("ab", "ab"), marks=("number:1", "number:2"), moments=(1.0, 2.0), speakers=(-1, -1)):
    matrix = np.array([[1, 0], [cosine, np.sqrt(1 - cosine**2)]], np.float32)
    numbers = {mark: number for number, mark in enumerate(dict.fromkeys(marks))}
    return Batch(
        np.array(["1", "2"], object),
        {"created_at": np.array(moments), "speaker": np.array(speakers)},
        Vectors(matrix, np.arange(2)),
        lexicon_of(words, "ab", 9),
        distinctions=Ragged.of([[coded(mark, numbers[mark])] for mark in marks]),
    )


def second_updates_first(batch, calibration=None, **thresholds):
    likeness = Likeness(**{"alike": 0.6, "same": 0.9, "terms": 0.6, "kept": 0.7, **thresholds})
    found = updates(batch, np.arange(2), calibration, likeness)
    assert not found[0].any()
    assert not found[1, 1]
    return bool(found[1, 0])


@pytest.mark.parametrize(
    ("given", "is_update"),
    [
        ({"cosine": 0.7}, True),
        ({"cosine": 0.5}, False),  # not alike
        ({"cosine": 0.7, "marks": ("number:1", "number:1")}, False),  # no other value
        ({"cosine": 0.7, "marks": ("number:1", "date:1-2")}, False),  # another kind of value
        ({"cosine": 0.7, "marks": ("name:porto", "name:lisbon")}, True),
        ({"cosine": 0.7, "marks": ("claim:not", "claim:off")}, False),  # a claim is no value
        ({"cosine": 0.7, "words": ("ab", "a")}, False),  # not enough of the query's words
        ({"cosine": 0.7, "speakers": (1, 2)}, False),
        ({"cosine": 0.7, "speakers": (1, 1)}, True),
        ({"cosine": 0.7, "moments": (1.0, 1.0)}, False),  # at once
        ({"cosine": 0.95, "marks": ("number:1", "number:1"), "words": ("", "")}, True),  # the same thing said again
        ({"cosine": 0.95, "words": ("", "")}, False),  # all but the same, with another value, and not asked for
    ],
)
def test_an_update_gives_another_value_of_the_same_thing(given, is_update):
    assert second_updates_first(batch_of(**given)) is is_update


def test_the_thresholds_are_of_relatedness():
    assert second_updates_first(batch_of(0.7), HALVING, alike=0.34)
    assert not second_updates_first(batch_of(0.7), HALVING, alike=0.36)
    again = batch_of(0.95, words=("", ""), marks=("number:1", "number:1"))
    assert second_updates_first(again, HALVING, same=0.47)
    assert not second_updates_first(again, HALVING, same=0.48)


@pytest.mark.parametrize(
    ("older", "newer", "terms", "kept", "alike"),
    [
        ("ab", "ab", 0.6, 1.0, True),
        ("ab", "a", 0.3, 0.6, False),  # what is rare is lost
        ("ab", "b", 0.3, 0.6, True),  # what is common is lost
        ("b", "ab", 0.3, 1.0, True),  # more is no harm
        ("b", "ab", 0.4, 1.0, False),  # one of three terms
        ("", "ab", 0.0, 0.0, False),
        ("ab", "", 0.0, 0.0, False),
    ],
)
def test_an_update_answers_with_the_words_of_what_it_updates(older, newer, terms, kept, alike):
    rows = [older, newer, "a", "a", "a"]
    lexicon = lexicon_of(rows, "abc", 9)  # c is in no memory
    found = answers_alike(lexicon, np.array([1, 0]), Likeness(0.6, 0.9, terms, kept))
    assert found[0, 1] == alike


def test_without_terms_nothing_is_answered():
    likeness = Likeness(0.6, 0.9, 0.0, 0.0)
    assert not answers_alike(None, np.arange(3), likeness).any()
    assert not answers_alike(lexicon_of(["a"], "", 9), np.arange(1), likeness).any()


def test_many_pairs_are_compared_as_few_are():
    """Twelve memories, each said again with another number: of 66 pairs that are later, all are updates."""
    count = 12
    matrix = np.full((count, 4), 0.5, np.float32)
    batch = Batch(
        np.array([str(row) for row in range(count)], object),
        {"created_at": np.arange(count, dtype=float), "speaker": np.full(count, -1)},
        Vectors(matrix, np.arange(count)),
        lexicon_of(["ab"] * count, "ab", 40),
        distinctions=Ragged.of([[coded("number", row)] for row in range(count)]),
    )
    found = updates(batch, np.arange(count), None, Likeness(0.6, 0.9, 0.6, 0.7))
    assert_array_equal(found, np.tri(count, k=-1, dtype=bool))


@pytest.mark.parametrize(
    ("words", "marks", "is_another"),
    [
        (("7", "8"), ("number:7", "number:8"), True),
        (("7", "7"), ("number:7", "number:7"), False),
        (("", "8"), ("text:a", "number:8"), False),  # the query names nothing in the first
        ((("fay",), ("sven",)), ("name:fay", "name:sven"), True),
        ((("fay",), ()), ("name:fay", "text:a"), False),  # "she": no other name in its place
        ((("fay", "vim"), ("fay",)), ("name:fay", "name:emacs"), False),  # a name in common
    ],
)
def test_a_row_about_another_thing_lacks_the_names_and_figures_of_the_query(words, marks, is_another):
    terms = ("7", "fay", "vim")
    batch = replace(batch_of(0.7, marks=marks), lexicon=lexicon_of(words, terms, 9))
    need = Need(scope=Scope(), now=datetime(2026, 1, 1, tzinfo=UTC), terms=terms, specifics=terms)
    found = about_another(need, batch, np.arange(2))
    assert bool(found[0, 1]) is is_another
    assert not found.diagonal().any()
