"""What counts as an update of what was said before."""

from __future__ import annotations

import numpy as np
import pytest

from salience.batch import Batch, Lexicon, Postings, Ragged, Vectors, coded
from salience.ports import Calibration
from salience.rank.updates import shared_terms, updates

HALVING = Calibration((0.0, 1.0), (0.0, 0.5), 0.9, "test")


def lexicon_of(rows, terms, count):
    held = [np.array([row for row, words in enumerate(rows) if term in words], np.intp) for term in terms]
    postings = tuple(Postings(places, np.ones(len(places))) for places in held)
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
    found = updates(batch, np.arange(2), calibration, **{"alike": 0.6, "same": 0.9, "terms": 0.6, **thresholds})
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
        ({"cosine": 0.7, "words": ("ab", "a")}, False),  # half of the query's words
        ({"cosine": 0.7, "speakers": (1, 2)}, False),
        ({"cosine": 0.7, "speakers": (1, 1)}, True),
        ({"cosine": 0.7, "moments": (1.0, 1.0)}, False),  # at once
        ({"cosine": 0.95, "marks": ("number:1", "number:1"), "words": ("", "")}, True),  # the same thing said again
    ],
)
def test_an_update_gives_another_value_of_the_same_thing(given, is_update):
    assert second_updates_first(batch_of(**given)) is is_update


def test_the_thresholds_are_of_relatedness():
    assert second_updates_first(batch_of(0.7), HALVING, alike=0.34)
    assert not second_updates_first(batch_of(0.7), HALVING, alike=0.36)
    assert second_updates_first(batch_of(0.95, words=("", "")), HALVING, same=0.47)


def test_shared_terms_are_weighed_by_what_they_tell():
    rows = ["ab", "b", "", "ab"]
    lexicon = Lexicon(
        9, 2.0, np.array([2.0, 3.0]),
        (Postings(np.array([0, 3]), np.ones(2)), Postings(np.array([0, 1, 3]), np.ones(3))), np.full(4, 2.0),
    )  # fmt: skip
    rare, common = np.log1p(7.5 / 2.5), np.log1p(6.5 / 3.5)
    found = shared_terms(lexicon, np.arange(len(rows)))
    assert found[0, 1] == found[1, 0] == pytest.approx(common / (rare + common))
    assert found[0, 3] == pytest.approx(1.0)
    assert found[2].tolist() == [0.0] * 4
    assert shared_terms(None, np.arange(3)).tolist() == [[0.0] * 3] * 3
