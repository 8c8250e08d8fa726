"""Files of judged pairs: our own format and SICK's, as tables and as lines of JSON."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from salience.errors import InputError
from salience.evaluate.calibrate import read
from salience.records import Judged

HEADER = "first\tsecond\trelatedness\tlabel"


@pytest.fixture
def file(tmp_path):
    def write(*lines, name="pairs", encoding="utf-8", end="\n"):
        path = tmp_path / name
        path.write_bytes(end.join(lines).encode(encoding))
        return path

    return write


def test_a_table_of_your_own(file):
    pairs = read(file(HEADER, "A cat sleeps\tA “cat” is asleep\t0.9\tsame", "", "A cat\tA car\t0\t"))
    assert pairs == [Judged("A cat sleeps", "A “cat” is asleep", 0.9, "same"), Judged("A cat", "A car", 0.0)]


def test_sick_is_read_on_its_scale_of_1_to_5(file):
    pairs = read(
        file(
            "pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment",
            '1\tA "man" sits\tA man is sitting\t4.6\tENTAILMENT',
            "2\tA man sits\tNobody sits\t1\tCONTRADICTION",
            end="\r\n",
        )
    )
    assert pairs == [
        Judged('A "man" sits', "A man is sitting", (4.6 - 1) / 4, "ENTAILMENT"),
        Judged("A man sits", "Nobody sits", 0.0, "CONTRADICTION"),
    ]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
def test_columns_may_come_in_any_order_and_with_others(file, encoding):
    path = file("who\trelatedness\tsecond\tfirst", "Ann\t0.5\tb\ta", encoding=encoding)
    assert read(path) == [Judged("a", "b", 0.5)]


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ([], "has an unknown format.*first, second, relatedness"),
        (["hello", "services"], "line 2.*has an unknown format.*first, second, relatedness"),
        ([HEADER, "a\tb\t0.5"], "line 2 of .* has 3 values.*Give 4 values"),
        ([HEADER, "a\tb\thigh\t"], "relatedness in line 2 of .*text that is no number"),
        ([HEADER, "a\tb\t4.5\t"], "relatedness in line 2 of .*4.5.*Give a number from 0 to 1"),
        ([HEADER, "a\tb\tnan\t"], "relatedness in line 2 of"),
        ([HEADER, "a\tb\t0.5\t", "a\t\t0.5\t"], "second in line 3 of .*is empty"),
        (['{"first": "a", "second": "b"}'], "has an unknown format"),
        (['{"first": "a", "second": "b", "relatedness": 0.5}', "{"], "line 2 of .*JSON"),
        (['{"first": "a", "second": 7, "relatedness": 0.5}'], "second in line 1 of .* has the type int"),
        (['{"first": "a", "second": "b", "relatedness": true}'], "relatedness in line 1 of"),
        (['{"first": "a", "second": "b", "relatedness": null}'], "relatedness in line 1 of"),
    ],
)
def test_errors_is_reported_by_file_and_line(file, lines, words):
    path = file(*lines)
    with pytest.raises(InputError, match=words) as caught:
        read(path)
    assert str(path) in str(caught.value)


def test_a_file_that_is_not_there_or_no_text(tmp_path, file):
    with pytest.raises(InputError, match="Give a file that can be read"):
        read(tmp_path / "none")
    with pytest.raises(InputError, match="Give a file that can be read"):
        read(tmp_path)
    with pytest.raises(InputError, match="Save the file as UTF-8"):
        read(file(HEADER, "ä\tb\t0.5\t", encoding="latin-1"))


def test_no_error_shows_a_text(file):
    with pytest.raises(InputError) as caught:
        read(file(HEADER, "my secret\tmy other secret\t7\t"))
    assert "secret" not in str(caught.value)


@pytest.mark.data
@pytest.mark.parametrize(("name", "count"), [("SICK_train.txt", 4500), ("SICK_test_annotated.txt", 4927)])
def test_sick_is_read_whole(name, count):
    folder = os.environ.get("SALIENCE_TEST_DATA")
    if not folder:
        pytest.skip(f"SALIENCE_TEST_DATA names no folder with sick/{name}")
    pairs = read(Path(folder) / "sick" / name)
    assert len(pairs) == count
    assert {pair.label for pair in pairs} == {"ENTAILMENT", "NEUTRAL", "CONTRADICTION"}
    assert {min(pair.relatedness for pair in pairs), max(pair.relatedness for pair in pairs)} == {0.0, 1.0}
