"""Flame graphs: stacks become trees that lose no look, trees become pictures, and the verbs can be called."""

from __future__ import annotations

from itertools import islice, pairwise
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from salience import ANY
from salience.lab import flamegraph, flames, startup
from salience.lab.flamegraph import LEAST, ROW, WIDTH, Flame, grown, stacks, svg, under

RAW = """\
<module> (<string>:1);work (salience/lab/flames.py:70);<lambda> (salience/lab/flames.py:62);recall (engine.py:1) 3
<module> (<string>:1);work (salience/lab/flames.py:70);opened (salience/lab/flames.py:40) 50
<module> (<string>:1);<lambda> (salience/lab/flames.py:62);recall (engine.py:1);rank (salience/rank/run.py:9) 5
"""
NAMES = st.sampled_from(["a (salience/a.py:1)", "b (numpy/b.py:1)", "c <&> (c.py:1)", "d"])
STACKS = st.lists(st.tuples(st.lists(NAMES, max_size=5), st.integers(1, 50)), max_size=12)


def test_what_a_function_called_is_read_without_what_called_it():
    found = list(under(stacks(RAW), flames.CALL))
    assert found == [
        (["recall (engine.py:1)"], 3),
        (["recall (engine.py:1)", "rank (salience/rank/run.py:9)"], 5),
    ]
    rank = Flame("rank (salience/rank/run.py:9)", 5)
    assert grown("recall", found) == Flame("recall", 8, (Flame("recall (engine.py:1)", 8, (rank,)),))


def _total(flame):
    below = sum(inner.looks for inner in flame.below)
    assert below <= flame.looks
    assert [inner.looks for inner in flame.below] == sorted((inner.looks for inner in flame.below), reverse=True)
    return flame.looks - below + sum(map(_total, flame.below))


@given(STACKS)
def test_a_tree_has_every_look(found):
    assert _total(grown("all", found)) == sum(looks for _, looks in found)


@given(STACKS.filter(bool))
def test_a_picture_is_xml_without_scripts_and_its_boxes_lie_within_those_that_they_stand_under(found):
    picture = ElementTree.fromstring(svg(grown("all", found)))  # noqa: S314 - made here
    boxes = [group.find("{*}rect").attrib for group in picture]
    rows = {}
    for box in boxes:
        left, width = float(box["x"]), float(box["width"])
        assert width >= LEAST
        assert 0 <= left <= left + width <= WIDTH + 0.2
        rows.setdefault(int(box["y"]) // ROW, []).append((left, left + width))
    for depth, drawn in rows.items():
        spans = sorted(drawn)
        assert all(one[1] <= following[0] + 0.2 for one, following in pairwise(spans))
        above = rows.get(depth - 1, [(0.0, WIDTH)])
        assert all(any(low - 0.2 <= left and right <= high + 0.2 for low, high in above) for left, right in spans)
    assert {element.tag.rpartition("}")[2] for element in picture.iter()} <= {"svg", "g", "title", "rect", "text"}


def test_nothing_seen_is_an_empty_picture():
    assert ElementTree.fromstring(svg(grown("recall", ()))).findall("{*}g") == []  # noqa: S314 - made here


def test_a_name_is_cut_to_its_box():
    label = flamegraph._label("a_function_of_a_long_name (file.py:1)", 0.0, 0, 60.0)
    assert "a_funct…" in label
    assert flamegraph._label("short (file.py:1)", 0.0, 0, 10.0) == ""


def test_texts_are_the_same_for_the_same_seed():
    assert list(islice(flames.texts(1), 5)) == list(islice(flames.texts(1), 5)) != list(islice(flames.texts(2), 5))


@pytest.mark.parametrize("verb", flames.VERBS)
def test_every_verb_is_called_on_a_filled_store(tmp_path, verb):
    file = tmp_path / "flames.db"
    flames.fill(file, 12)
    with flames.opened(file) as memory:
        assert flames.VERBS[verb](memory)()
        assert memory.stats(user_id=ANY).memories >= 12


def test_the_startup_table_holds_each_case_against_the_same_one():
    told = startup.table([startup.Took(startup.BASE, 0.1, 1.0), startup.Took("salience --help", 0.05, 0.5)])
    assert told.splitlines()[-1] == "| `salience --help` | 50 | 0.50 |"
    assert startup.BASE in startup.cases()


def test_the_first_answer_is_one(tmp_path):
    startup._fill(tmp_path / "first.db")
    assert startup.answered(str(tmp_path / "first.db")) == 1
