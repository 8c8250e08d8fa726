"""The time that a query names, as a factor."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from salience.batch import Batch, Lexicon, Postings
from salience.rank.profile import parse
from salience.rank.run import rank
from salience.rank.signals import BESIDE, DAY, FADED, NAMED, STATED, holds_period, period, period_bounds, time
from salience.records import Intent, TimeCue
from tests.contract.memories import criteria

NOW = datetime(2026, 5, 1, tzinfo=UTC)
DAYS = [-400, -40, -20, -10, -5, 0]


def batch_of(days, alive=None, naming=(), events=None, ordered=None):
    rows = np.array(naming, np.intp)
    postings = Postings.of([(np.arange(len(days)), np.ones(len(days))), (rows, np.ones(len(rows)))])
    frequency = np.array([float(len(days)), float(len(rows))])
    return Batch(
        np.array([str(day) for day in range(len(days))], object),
        {
            "created_at": np.array([(NOW + timedelta(days=day)).timestamp() for day in days]),
            "event_start": np.full(len(days), np.inf) if events is None else np.array([e[0] for e in events]),
            "event_end": np.full(len(days), -np.inf) if events is None else np.array([e[1] for e in events]),
            "alive": np.ones(len(days), bool) if alive is None else np.array(alive),
            "ordered": np.ones(len(days), bool) if ordered is None else np.array(ordered),
        },
        lexicon=Lexicon(len(days), 2.0, frequency, postings, np.full(len(days), 2.0)),
    )


def fits(cue, days=DAYS, anchor=(), slack=7.0, floor=0.0, **more):
    asked = criteria(now=NOW, intent=Intent(time=cue), terms=("where", "move"), anchor=anchor)
    return time(batch_of(days, **more), asked, slack_days=slack, floor=floor)


def at(day):
    return NOW + timedelta(days=day)


def test_a_query_without_a_time_moves_nothing():
    assert fits(None).tolist() == [1.0] * 6


def test_a_window_falls_off_on_both_sides():
    found = fits(TimeCue(("then",), at(-20), at(-10)))
    expected = [math.exp(-380 / 17), math.exp(-20 / 17), 1.0, 1.0, math.exp(-5 / 17), math.exp(-10 / 17)]
    assert found == pytest.approx(expected)
    assert fits(TimeCue(("then",), at(-20), at(-10)), floor=0.5) == pytest.approx(0.5 + 0.5 * found)


def test_an_open_window_has_a_slope_on_one_side():
    assert fits(TimeCue(("since",), at(-10))) == pytest.approx(
        [math.exp(-390 / 7), math.exp(-30 / 7), math.exp(-10 / 7), 1.0, 1.0, 1.0]
    )
    assert fits(TimeCue(("before",), None, at(-10)))[:4].tolist() == [1.0] * 4


def test_a_window_without_slack_is_still_soft():
    found = fits(TimeCue(("then",), at(-20), at(-10)), slack=0.0)
    assert found[4] == pytest.approx(math.exp(-5 / 10))


def test_an_order_counts_places_among_the_memories_that_fit():
    assert fits(TimeCue(("latest",), order="latest")) == pytest.approx([0, 0.2, 0.4, 0.6, 0.8, 1.0])
    assert fits(TimeCue(("first",), order="earliest")) == pytest.approx([1, 0.8, 0.6, 0.4, 0.2, 0.0])
    some = [False, True, True, True, True, False]
    assert fits(TimeCue(("latest",), order="latest"), ordered=some) == pytest.approx([0, 0, 1 / 3, 2 / 3, 1, 0])
    assert fits(TimeCue(("first",), order="earliest"), ordered=some) == pytest.approx([0, 1, 2 / 3, 1 / 3, 0, 0])
    assert fits(TimeCue(("latest",), order="latest"), days=[3, 3]).tolist() == [1.0, 1.0]
    assert fits(TimeCue(("latest",), order="latest"), days=[1, 3], ordered=[True, False]).tolist() == [1.0, 0.0]


@given(
    days=st.lists(st.integers(-400, 0), min_size=2, max_size=8),
    cosines=st.lists(st.integers(0, 100), min_size=8, max_size=8),
    order=st.sampled_from(["latest", "earliest"]),
)
def test_an_order_lifts_no_memory_above_a_better_one_unless_it_fits_nearly_as_well(days, cosines, order):
    profile = parse(
        'name = "p"\nsummary = "s"\ncombine = "sum"\nstages = ["score", "trim"]\n[signal.similarity]\n'
        '[signal.time]\ncombine = "product"\nfloor = 0.5\n',
        "p.toml",
    )
    close = np.array(cosines[: len(days)]) / 100
    batch = batch_of(days).with_columns(cosine=close)
    asked = criteria(now=NOW, intent=Intent(time=TimeCue(("then",), order=order)), limit=10)
    rows = rank(profile, batch, asked).rows.tolist()
    for place, row in enumerate(rows):
        for below in rows[place + 1 :]:
            assert close[row] >= close[below] or close[row] >= NAMED * close.max()


def test_an_event_has_the_time_of_the_memory_that_names_it():
    move = {"naming": (3,), "anchor": ("move",)}
    assert fits(TimeCue(("before",), relation="before", anchor="the move"), **move) == pytest.approx(
        [1, 1, 1, 1, math.exp(-5 / 7), math.exp(-10 / 7)]
    )
    assert fits(TimeCue(("after",), relation="after", anchor="the move"), **move)[3:].tolist() == [1.0] * 3
    told_twice = fits(TimeCue(("after",), relation="after", anchor="the move"), naming=(1, 3), anchor=("move",))
    assert told_twice[3:].tolist() == [1.0] * 3
    assert told_twice[2] == pytest.approx(math.exp(-10 / 7))


def test_an_event_that_nobody_tells_of_bounds_nothing():
    cue = TimeCue(("before",), relation="before", anchor="the move")
    assert fits(cue, anchor=("move",)).tolist() == [1.0] * 6
    assert fits(cue, anchor=()).tolist() == [1.0] * 6
    gone = [True, True, True, False, True, True]
    assert fits(cue, anchor=("move",), naming=(3,), alive=gone).tolist() == [1.0] * 6


def span(start, end):
    return at(start).timestamp(), at(end).timestamp()


NOTHING = (np.inf, -np.inf)
EVENTS = [span(-20, -10), span(-15, -5), span(-30, -20), NOTHING, span(-12, -11), span(-400, -10)]
"""Stated times, of which these shares lie in the window from day -20 to -10."""
SHARES = [1.0, 0.5, 0.0, 0.0, 1.0, 10 / 390]


def test_a_stated_time_counts_if_it_fits_better():
    cue = TimeCue(("then",), at(-20), at(-10))
    created = fits(cue, [-400] * 6)
    assert fits(cue, [-400] * 6, events=EVENTS) == pytest.approx(np.maximum(created, SHARES))
    assert fits(cue, events=EVENTS)[2] == 1.0


def periods(cue, days=DAYS, **more):
    asked = criteria(now=NOW, intent=Intent(time=cue))
    return period(batch_of(days, **more), asked).tolist()


def test_a_period_is_inside_or_outside():
    assert periods(None) == periods(TimeCue(("latest",), order="latest")) == [0.0] * 6
    assert periods(TimeCue(("then",), at(-20), at(-10))) == [0.0, 0.0, 1.0, 0.0, 0.0, 0.0]
    assert periods(TimeCue(("since",), at(-10))) == [0.0, 0.0, 0.0, 1.0, 1.0, 1.0]
    assert periods(TimeCue(("since",), at(-10)), [-10, 1]) == [1.0, 0.0]  # nothing is later than now


def test_the_days_beside_a_holiday_count_less_than_the_holiday():
    cue = TimeCue(("at Christmas",), at(-20), at(-10), told_from=at(-25), told_until=at(-3))
    assert periods(cue, [-26, -25, -20, -11, -10, -4, -3]) == [0.0, BESIDE, 1.0, 1.0, BESIDE, BESIDE, 0.0]
    assert fits(cue, [-26, -25, -11, -4]) == pytest.approx([math.exp(-1 / 29), 1.0, 1.0, 1.0])


def test_a_period_holds_what_is_mostly_about_it():
    asked = criteria(now=NOW, intent=Intent(time=TimeCue(("then",), at(-20), at(-10))))
    every = np.arange(1)
    assert holds_period(batch_of([-15]), asked, every)
    assert not holds_period(batch_of([-15]), asked, every[:0])
    assert not holds_period(batch_of([-5]), asked, every)
    assert holds_period(batch_of([-5], events=[span(-20, 20)]), asked, every)  # a quarter of the stated time
    assert not holds_period(batch_of([-5], events=[span(-200, 200)]), asked, every)
    vague = criteria(now=NOW, intent=Intent(time=TimeCue(("lately",), at(-20), at(0), fades=True)))
    assert holds_period(batch_of([-400]), vague, every)


def test_a_stated_time_gives_a_part_of_the_period():
    cue = TimeCue(("then",), at(-20), at(-10))
    assert periods(cue, [-400] * 6, events=EVENTS) == pytest.approx([STATED * share for share in SHARES])
    assert periods(cue, events=EVENTS)[2] == 1.0
    assert periods(replace(cue, sessions=(1, 1)), [-400] * 6, events=EVENTS) == [0.0] * 6


def test_a_vague_period_fades():
    found = periods(TimeCue(("recently",), at(-30), at(0), fades=True), [-400, -60, -31, -30, -15, -1])
    assert found == sorted(found)
    assert found[3:] == pytest.approx([0.5, 0.75, 1 - 0.5 / 30])
    assert found[2] < FADED


@given(
    days=st.lists(st.floats(-400, 10), min_size=1, max_size=8),
    stated=st.tuples(st.floats(-400, 400), st.floats(0.01, 400)),
    window=st.tuples(st.floats(-400, 100), st.floats(0.01, 400)),
    kind=st.sampled_from(["closed", "open", "fading", "holiday"]),
)
def test_the_bounds_of_a_period_are_never_below_it(days, stated, window, kind):
    start, end = at(window[0]), None if kind == "open" else at(window[0] + window[1])
    cue = TimeCue(("then",), start, end, fades=kind == "fading")
    if kind == "holiday":
        cue = replace(cue, told_from=start - timedelta(days=4), told_until=end + timedelta(days=7))
    asked = criteria(now=NOW, intent=Intent(time=cue))
    batch = batch_of(days, events=[span(stated[0], stated[0] + stated[1])] * len(days))
    bound = np.zeros(len(days))
    for one in period_bounds(asked, 0.7):
        overlaps = (batch[one.first] < one.end) & (batch[one.last] >= one.start)
        bound += np.where(overlaps, one.inside, one.outside)
    assert (0.7 * period(batch, asked) <= bound + 1e-9).all()


def test_no_memories_have_no_times():
    assert fits(TimeCue(("then",), at(-2), at(-1)), days=[]).tolist() == []


@given(
    days=st.lists(st.floats(-1e5, 1e5), min_size=1, max_size=12),
    window=st.tuples(st.floats(-1e4, 1e4), st.floats(0.01, 1e4)),
    slack=st.floats(0, 1e4),
    floor=st.floats(0, 1),
)
def test_nearer_is_never_weaker(days, window, slack, floor):
    start, end = at(window[0]), at(window[0] + window[1])
    found = fits(TimeCue(("then",), start, end), days, slack=slack, floor=floor)
    moments = np.array([at(day).timestamp() for day in days])
    distance = np.maximum(np.maximum(start.timestamp() - moments, moments - end.timestamp()), 0) / DAY
    order = np.argsort(distance)
    assert (np.diff(found[order]) <= 1e-12).all()
    assert ((found >= floor - 1e-12) & (found <= 1)).all()
    assert (found[distance == 0] == 1).all()
