"""Counted shares and their intervals; and the page of error rates, which is what its command prints."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench import labels, thresholds
from bench.measured import Measured
from salience.evaluate.calibrate import Errors, errors
from salience.evaluate.metrics import Rate
from salience.ports import Calibration
from salience.rank import profiles
from salience.records import Judged

PAGE = Path(__file__).parents[2] / "docs" / "thresholds.md"
PAIRS = [
    Judged("a", "b", 1.0, "ENTAILMENT"),
    Judged("a", "b", 0.75, "NEUTRAL"),
    Judged("a", "b", 0.5, "NEUTRAL"),
    Judged("It is safe", "It is not safe", 0.49, "CONTRADICTION"),
    Judged("a", "b", 0.0, "NEUTRAL"),
]
COSINES = np.array([0.9, 0.5, 0.9, 0.8, 0.1])


@pytest.mark.parametrize(
    ("count", "of", "low", "high"),
    [
        (0, 10, 0.0, 0.2775),
        (1, 10, 0.0179, 0.4042),
        (5, 10, 0.2366, 0.7634),
        (10, 10, 0.7225, 1.0),
        (15, 148, 0.0624, 0.1605),
    ],
)
def test_an_interval_is_wilsons(count, of, low, high):
    """The figures are of Newcombe (1998), table I, method 3, and of the formula by hand."""
    assert Rate(count, of).interval == pytest.approx((low, high), abs=5e-5)


@given(st.integers(1, 10_000).flatmap(lambda of: st.tuples(st.integers(0, of), st.just(of))))
def test_an_interval_holds_the_share_and_narrows(counted):
    rate, tenfold = Rate(*counted), Rate(10 * counted[0], 10 * counted[1])
    (low, high), (nearer, farther) = rate.interval, tenfold.interval
    assert 0 <= low <= rate.share <= high <= 1
    assert farther - nearer < high - low


def test_of_none_nothing_is_known():
    assert (Rate(0, 0).share, Rate(0, 0).interval) == (0.0, (0.0, 1.0))


def test_a_rate_tells_its_counts_and_its_interval():
    assert str(Rate(1234, 4936)) == "1,234 of 4,936, 25.0% (23.8% to 26.2%)"
    assert Rate(1, 2).as_dict() == {"count": 1, "of": 2, "share": 0.5, "low": pytest.approx(0.0945, abs=1e-4),
                                    "high": pytest.approx(0.9055, abs=1e-4)}  # fmt: skip


def test_paraphrases_are_missed_and_different_things_mistaken():
    assert errors(PAIRS, COSINES, 0.8) == Errors(missed=Rate(1, 2), mistaken=Rate(1, 2))
    assert errors(PAIRS, COSINES, 0.8 + 1e-9) == errors(PAIRS, COSINES, 0.8)
    assert errors(PAIRS, COSINES, 0.85).mistaken == Rate(0, 2)


def rows(part):
    cells = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in part.splitlines() if line.startswith("| ")
    ]
    return {row[0]: row[1:] for row in cells}


def test_the_paraphrase_table_counts_by_label_and_by_relatedness():
    found = [Measured("m", Calibration((0.0, 1.0), (0.0, 1.0), 0.8, "s"), COSINES)]
    table = rows(thresholds.paraphrases(PAIRS, found))
    assert table.pop("pairs") == ["n", "m, 0.8", "m, and covered"]
    assert {title: [row[0], *(cell.split()[0].strip("*") for cell in row[1:])] for title, row in table.items()} == {
        "entailment: missed": ["1", "0.0%", "0.0%"],
        "neutral: taken for one": ["3", "33.3%", "33.3%"],
        "contradiction: taken for one": ["1", "100.0%", "0.0%"],
        "relatedness 1 to 2: taken for one": ["1", "0.0%", "0.0%"],
        "relatedness 2 to 3: taken for one": ["1", "100.0%", "0.0%"],
        "relatedness 3 to 4: taken for one (people do not say)": ["1", "100.0%", "100.0%"],
        "relatedness 4 to 5: missed": ["2", "50.0%", "50.0%"],
    }


def test_the_contradiction_table_counts_what_is_above_the_pages_threshold():
    found = [Measured("m", Calibration((0.0, 1.0), (0.0, 1.0), 0.8, "s"), COSINES)]
    part = thresholds.contradictions(PAIRS, found)
    assert "above 0.75" in part
    assert rows(part)["contradiction: missed"] == ["1", "**0.0%** (0.0% to 79.3%; 0)"]
    assert rows(part)["neutral: reported"][1].startswith("**33.3%**")
    assert rows(part)["relatedness 4 to 5: reported"][1].startswith("**50.0%**")


def test_a_cosine_at_the_contradiction_threshold_is_not_above_it():
    found = [Measured("m", Calibration((0.0, 1.0), (0.0, 1.0), 0.8, "s"), np.full(5, 0.75))]
    assert rows(thresholds.contradictions(PAIRS, found))["entailment: reported"][1].startswith("**0.0%**")


LABELLED = [
    Judged("The door is open", "The door is not open", 0.7, "CONTRADICTION"),
    Judged("The door is open", "The door is closed", 0.7, "CONTRADICTION"),
    Judged("The door is open", "The door is old", 0.7, "CONTRADICTION"),
    Judged("A man is cooking", "A man is cooking quickly", 0.9, "ENTAILMENT"),
    Judged("A man is cooking", "A dog is barking", 0.1, "NEUTRAL"),
    Judged("Ann is at home", "Ann is no longer at home", 0.6, "NEUTRAL"),
]
NEAR = Measured("m", Calibration((0.0, 0.5, 1.0), (0.0, 0.6, 1.0), 0.7, "s"), np.array([0.9, 0.8, 0.71, 0.9, 0.2, 0.6]))


def test_the_label_tables_count_what_rules_say_of_each_judgement():
    part = labels.labels(LABELLED, [NEAR])
    everything, raw, calibrated = [rows(table) for table in part.split("### ")[1:]]
    assert everything.pop("people say") == ["n", "duplicate", "update", "contradiction", "related"]
    assert {
        title: [row[0], *(cell.split("; ")[-1].strip(")") for cell in row[1:])] for title, row in everything.items()
    } == {
        "m: contradiction": ["3", "0", "0", "2", "1"],
        "m: neutral": ["2", "0", "1", "0", "1"],
        "m: entailment": ["1", "1", "0", "0", "0"],
    }
    assert [row[0] for row in list(raw.values())[1:]] == ["2", "0", "1"]
    assert [row[0] for row in list(calibrated.values())[1:]] == ["3", "0", "1"]


def test_the_label_tables_say_how_often_a_conflict_and_a_duplicate_are_right():
    summary = [line for line in labels.labels(LABELLED, [NEAR]).splitlines() if line.startswith("- ")]
    assert summary[0].startswith("- m: contradictions among conflicts 2 of 3, 66.7%")
    assert "entailments among duplicates 1 of 1, 100.0%" in summary[0]


def test_a_pair_is_reported_as_the_profile_has_it():
    assert labels.threshold(profiles.load("mememory")) == (0.75, "raw")
    assert labels.threshold(profiles.load("salience")) == (0.69, "calibrated")
    assert labels.reported(profiles.load("mememory"), NEAR).tolist() == [True, True, False, True, False, False]
    assert labels.reported(profiles.load("salience"), NEAR).tolist() == [True, True, True, True, False, False]
    with pytest.raises(AssertionError, match="cmm reports no contradictions"):
        labels.threshold(profiles.load("cmm"))


@pytest.mark.data
def test_the_page_in_the_docs_is_what_the_command_prints():
    folder = os.environ.get("SALIENCE_TEST_DATA")
    if not folder:
        pytest.skip(f"SALIENCE_TEST_DATA names no folder with {thresholds.TEST}")
    assert PAGE.read_text("utf-8") == thresholds.page(Path(folder))


def test_the_page_holds_every_part_that_the_command_prints():
    text = PAGE.read_text("utf-8")
    introduction = labels.INTRODUCTION.format(pairs=labels.PAIRS, missed=labels.MISSED, first=labels.FIRST_SIGHT)
    parts = (thresholds.HEAD, thresholds.PARAPHRASES, thresholds.CONTRADICTIONS.format(above=0.75), introduction)
    for heading in parts:
        assert heading in text


def test_the_command_wants_a_folder():
    with pytest.raises(SystemExit, match="Name the folder"):
        thresholds.main([])
