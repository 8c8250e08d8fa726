"""The stage that ranks the memory that replaces another one in its place."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from salience.batch import Batch, Lexicon, Postings
from salience.rank.profile import parse
from salience.rank.run import details, rank
from salience.rank.stages import with_heirs
from tests.contract.memories import NOW, criteria

PROFILE = parse(
    'name = "x"\nsummary = "x"\ncombine = "sum"\nstages = ["score", "replaced", "trim"]\n[signal.similarity]\n'
    '[signal.weight]\ncombine = "product"\n[stage.replaced]\nsure = 0.9\nlift = 1.01\n',
    "x",
)
SURE, DOUBTFUL, CALLER = 0.95, 0.6, 1.0


def ranked(cosine, replaced, *, weight=None, ids="abcdef", words=None, profile=PROFILE, **values):
    """Rank memories made one after the other; `replaced` is letter of the older one -> newer one and probability."""
    count = len(cosine)
    names = list(ids[:count])
    columns = {
        "cosine": np.array(cosine, float),
        "weight": np.ones(count) if weight is None else np.array(weight, float),
        "created_at": np.arange(count, dtype=float),
        "replaced": np.array([replaced.get(name, ("", 0.0))[1] for name in names]),
    }
    terms = tuple(dict.fromkeys(word for text in words or () for word in text.split()))
    held = [np.array([row for row, text in enumerate(words or ()) if term in text.split()]) for term in terms]
    lexicon = Lexicon(
        count, 3.0, np.array([float(len(rows)) for rows in held]),
        Postings.of([(rows, np.ones(len(rows))) for rows in held]), np.full(count, 3.0),
    )  # fmt: skip
    batch = Batch(
        np.array(names, object), columns, lexicon=lexicon if terms else None,
        successors=np.array([replaced.get(name, ("", 0.0))[0] for name in names], object),
    )  # fmt: skip
    return rank(profile, batch, criteria(now=NOW, limit=9, terms=terms, **values))


def order(found):
    return "".join(found.batch.ids[found.rows])


def scores(found):
    return dict(zip(found.batch.ids.tolist(), found.scores.tolist(), strict=True))


def test_the_newer_memory_comes_right_before_the_one_that_it_replaces():
    found = ranked([0.8, 0.9, 0.1, 0.7], {"a": ("c", SURE)})
    assert order(found) == "bcad"
    assert scores(found) == {"a": 0.8, "b": 0.9, "c": pytest.approx(0.808), "d": 0.7}
    part = details(found, np.array([2]))[0]
    assert part.recompute() == pytest.approx(part.final, abs=1e-9)
    assert found.spread[2].link == "update"


@pytest.mark.parametrize("row", [0, 1, 3])
def test_the_rows_of_a_chain_come_with_any_of_them(row):
    successors = np.array(["b", "d", "", ""], object)  # the newest is the last of all
    batch = Batch(np.array(list("abcd"), object), {}, successors=successors)
    assert with_heirs(batch, np.array([row])).tolist() == [0, 1, 3]


def test_a_row_without_relations_comes_alone():
    batch = Batch(np.array(list("abc"), object), {}, successors=np.array(["x", "", ""], object))  # "x" is left out
    assert with_heirs(batch, np.array([2, 0])).tolist() == [0, 2]


def test_a_newer_memory_that_fits_better_keeps_its_score():
    found = ranked([0.8, 0.9], {"a": ("b", SURE)})
    assert (order(found), found.spread) == ("ba", {})


def test_a_chain_ends_with_the_newest_memory():
    found = ranked([0.8, 0.3, 0.1], {"a": ("b", SURE), "b": ("c", SURE)})
    assert order(found) == "cba"
    assert scores(found)["a"] == 0.8


def test_a_newer_memory_keeps_its_own_factors():
    found = ranked([0.8, 0.1], {"a": ("b", SURE)}, weight=[1.0, 0.5])
    assert order(found) == "ab"
    assert scores(found)["b"] == pytest.approx(0.4)
    found = ranked([0.8, 0.1], {"a": ("b", SURE)}, weight=[0.5, 1.0])
    assert scores(found)["b"] == pytest.approx(0.808)
    found = ranked([0.8, 0.1], {"a": ("b", SURE)}, weight=[1.0, 0.0])
    assert scores(found) == {"a": 0.8, "b": 0.0}


def test_a_question_about_a_former_state_gets_the_older_memory_first():
    assert order(ranked([0.3, 0.8], {"a": ("b", SURE)}, tense="former")) == "ab"
    assert order(ranked([0.3, 0.8], {"a": ("b", SURE)}, tense="present")) == "ba"


def test_a_question_about_the_past_changes_no_order():
    assert order(ranked([0.8, 0.3], {"a": ("b", SURE)}, tense="past")) == "ab"
    assert order(ranked([0.3, 0.8], {"a": ("b", SURE)}, tense="past")) == "ba"


@pytest.mark.parametrize(
    ("chance", "own", "expected"),
    [
        (SURE, 0.1, "ba"),
        (0.9, 0.1, "ba"),
        (DOUBTFUL, 0.1, "ab"),
        (DOUBTFUL, 0.59, "ab"),
        (DOUBTFUL, 0.61, "ba"),  # 0.6 x 0.8 + 0.4 x 0.61 is 0.9 x 0.8
        (0.2, 0.69, "ab"),
        (0.2, 0.71, "ba"),
    ],
)
def test_below_sure_a_memory_gains_only_with_an_expected_score_near_the_other(chance, own, expected):
    assert order(ranked([0.8, own], {"a": ("b", chance)})) == expected


@pytest.mark.parametrize(("tense", "cosine"), [("present", (0.8, 0.3)), ("former", (0.3, 0.8))])
@pytest.mark.parametrize(
    ("words", "gains"),
    [
        (("eu", ""), (False, True)),  # the older one alone has the word
        (("", "eu"), (True, False)),
        (("eu", "eu"), (True, True)),
        (("", ""), (True, True)),
        (("eu 8080", "eu"), (False, True)),
    ],
)
def test_no_memory_gains_from_one_that_has_a_named_thing_that_it_lacks(words, gains, tense, cosine):
    specifics = tuple(dict.fromkeys(" ".join(words).split()))
    found = ranked(cosine, {"a": ("b", SURE)}, words=words, tense=tense, specifics=specifics)
    taken = order(found) == ("ba" if tense == "present" else "ab")
    assert taken is gains[tense == "former"]


def test_a_word_that_is_not_specific_does_not_matter():
    assert order(ranked([0.8, 0.3], {"a": ("b", SURE)}, words=["eu", "us"])) == "ba"


def test_what_a_caller_replaced_is_dropped_after_it_passed_its_score_on():
    found = ranked([0.8, 0.3, 0.5], {"a": ("b", CALLER)})
    assert order(found) == "bc"
    assert scores(found)["b"] == pytest.approx(0.808)
    assert (found.dropped_at[0], found.by[0]) == (PROFILE.stages.index("replaced"), 1)


@pytest.mark.parametrize("tense", ["present", "past", "former"])
def test_what_a_caller_replaced_is_dropped_whatever_the_question(tense):
    assert order(ranked([0.8, 0.3], {"a": ("b", CALLER)}, tense=tense)) == "b"


def test_a_chain_of_a_callers_leaves_its_end():
    found = ranked([0.8, 0.3, 0.1], {"a": ("b", CALLER), "b": ("c", CALLER)})
    assert order(found) == "c"
    assert scores(found)["c"] >= 0.8


def test_a_filter_that_leaves_out_the_newer_memory_brings_no_order_but_the_callers_word_holds():
    found = ranked([0.8, 0.5], {"a": ("z", SURE)})
    assert (order(found), found.spread) == ("ab", {})
    found = ranked([0.8, 0.5], {"a": ("z", CALLER)})
    assert order(found) == "b"
    assert found.by[0] == -1


def test_without_successors_nothing_changes():
    found = ranked([0.8, 0.5], {})
    assert (order(found), found.spread) == ("ab", {})


def test_a_long_chain_lifts_the_score_only_a_little():
    """A store leaves out memories by a bound of what they can take over."""
    count = 8
    found = ranked([0.8, *[0.1] * (count - 1)], {a: (b, SURE) for a, b in pairwise("abcdefgh")}, ids="abcdefgh")
    assert order(found) == "hgfedcba"
    assert 0.808 < scores(found)["h"] < 0.8 * 1.01**2


def test_what_a_caller_replaced_counts_among_the_memories_that_fit_by_chance():
    """So a store that counts the memories, and leaves out some, gives the same cut-off."""
    rules = "[stage.cut_off]\nalone = 0.3\ngrowth = 0.5\nmost = 9.0\nshare = 0.0\ncontent = 0.0\n"
    profile = parse(
        'name = "x"\nsummary = "x"\ncombine = "sum"\nstages = ["score", "replaced", "cut_off", "trim"]\n'
        f"[signal.similarity]\n{rules}",
        "x",
    )
    replaced = {"a": ("d", CALLER), "b": ("d", CALLER), "c": ("d", CALLER)}
    assert order(ranked([0.1, 0.1, 0.1, 0.61], replaced, profile=profile, vector=np.ones(1))) == "d"
    assert order(ranked([0.1, 0.1, 0.1, 0.59], replaced, profile=profile, vector=np.ones(1))) == ""
