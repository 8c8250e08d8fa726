"""The pure parts: bars, words, JSON shapes."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime, timedelta
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from salience.cli.output import age, one_line, sanitize, truncate
from salience.cli.results import SCORE, Share, cells, formula, shares, time_cue
from salience.records import ANY, Intent, Part, Recall, Scope, ScoreDetail, TimeCue, Via
from salience.wire.responses import to_json

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)


def part(name, contribution, combine):
    return Part(name, contribution, 1.0, contribution, combine)


parts = st.lists(
    st.tuples(st.floats(0, 5), st.sampled_from(["sum", "product"])).map(lambda pair: part("s", *pair)),
    min_size=1,
    max_size=6,
).map(tuple)


@given(parts)
def test_kept_segments_add_up_to_the_score(found):
    detail = ScoreDetail(found, 0.0)
    kept = math.fsum(share.length for share in shares(detail) if share.kept)
    assert kept == pytest.approx(detail.recompute(), rel=1e-9, abs=1e-12)


@given(st.lists(st.floats(0, 3), min_size=1, max_size=6), st.integers(1, 60))
def test_the_longest_bar_fills_its_cells(lengths, width):
    found = [Share("s", length, True) for length in lengths]
    assert sum(cells(found, sum(lengths), width)) == (width if sum(lengths) > 0 else 0)
    assert all(count >= 0 for count in cells(found, sum(lengths), width))


def test_factors_share_the_loss_by_their_logarithms():
    detail = ScoreDetail((part("a", 0.5, "product"), part("b", 0.25, "product"), part("c", 1.0, "product")), 0.125)
    score, a, b = shares(detail)
    assert (score.signal, score.length, score.kept) == (SCORE, 0.125, True)
    assert b.length == pytest.approx(2 * a.length)
    assert a.length + b.length == pytest.approx(0.875)


def test_a_factor_of_zero_takes_all():
    detail = ScoreDetail((part("a", 0.5, "product"), part("b", 0.0, "product")), 0.0)
    assert [(share.signal, share.length) for share in shares(detail)] == [(SCORE, 0.0), ("b", 1.0)]


@pytest.mark.parametrize(
    ("elapsed", "expected"),
    [
        (timedelta(seconds=-5), "0s"),
        (timedelta(seconds=59), "59s"),
        (timedelta(minutes=59, seconds=59), "59m"),
        (timedelta(hours=23), "23h"),
        (timedelta(days=99), "99d"),
        (timedelta(days=100), "3mo"),
        (timedelta(days=700), "22mo"),
        (timedelta(days=800), "2y"),
    ],
)
def test_an_age_has_one_unit(elapsed, expected):
    assert age(NOW - elapsed, NOW) == expected


@given(st.text())
def test_one_line_is_one_line_and_has_no_control_characters(text):
    line = one_line(text)
    assert len(line.splitlines()) <= 1
    assert not any(ord(sign) < 32 or 0x7F <= ord(sign) < 0xA0 for sign in line)


@pytest.mark.parametrize(
    ("sign", "shown"),
    [
        ("\x1b", "\\x1b"), ("\xad", "\\xad"), ("\u200b", "\\u200b"), ("\u2060", "\\u2060"), ("\ufeff", "\\ufeff"),
        ("\u202e", "\\u202e"), ("\u2028", "\\u2028"), ("\U000e0041", "\\U000e0041"), ("\U000e0100", "\\U000e0100"),
    ],
)  # fmt: skip
def test_hidden_characters_are_escaped(sign, shown):
    assert sanitize(f"a{sign}b") == one_line(f"a{sign}b") == f"a{shown}b"


def test_a_truncated_text_ends_in_an_ellipsis_only_where_it_cut():
    assert truncate("one  two\nthree", 20) == "one two three"
    assert truncate("one two three", 8) == "one two…"


def test_the_arithmetic_of_a_hit_by_activation_is_the_parent_s():
    via = Via("0" * 24 + "cafebabe", 0.8, 0.5, 2, "entity")
    detail = ScoreDetail((), 0.2, via)
    assert formula(detail) == "0.800000 x 0.5^2 (from cafebabe)"
    assert [(share.signal, share.length) for share in shares(detail)] == [("via", pytest.approx(0.2))]


def test_records_become_json_under_the_names_of_the_api():
    recall = Recall((), "cmm", Intent("time", ("now",)), True, (), {"need": 1.5})
    assert to_json(recall) == {
        "hits": [],
        "profile": "cmm",
        "intent": {"name": "time", "words": ["now"], "time": None},
        "exact": True,
        "degraded": [],
        "timings": {"need": 1.5},
        "reranker": None,
        "confident": True,
        "out_of_scope": [],
        "corrected": {},
        "emptied_by": [],
        "verdict": "does not answer",
    }
    assert to_json([NOW, ANY, MappingProxyType({"a": (1, None)})]) == [
        "2026-05-01T12:00:00+00:00",
        "*",
        {"a": [1, None]},
    ]
    assert json.dumps(to_json(Scope(user_id=ANY))) == '{"environment": "default", "user_id": "*"}'


def cued(**cue):
    return Recall((), "salience", Intent(time=TimeCue(**cue)))


MIDNIGHT = NOW.replace(hour=0)


@pytest.mark.parametrize(
    ("cue", "line"),
    [
        (
            {"words": ("today",), "start": MIDNIGHT, "end": NOW},
            'time "today": from 2026-05-01 until 2026-05-01 12:00 UTC',
        ),
        ({"words": ("since May",), "start": MIDNIGHT}, 'time "since May": from 2026-05-01 UTC'),
        ({"words": ("until noon",), "end": NOW}, 'time "until noon": until 2026-05-01 12:00 UTC'),
        ({"words": ("the first time",), "order": "earliest"}, 'time "the first time": earliest first'),
        ({"words": ("after A",), "relation": "after", "anchor": "A"}, 'time "after A": after "A" was mentioned'),
        (
            {"words": ("latest", "in May"), "start": MIDNIGHT, "order": "latest"},
            'time "latest", "in May": from 2026-05-01 UTC, latest first',
        ),
    ],
)
def test_the_time_of_a_query_is_reported_in_one_line(cue, line):
    assert time_cue(cued(**cue)) == [line]
