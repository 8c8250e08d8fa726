"""Numbers, amounts and dates: what means the same reads the same, and no figure is passed over."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from salience.extract.distinctions import numerals


@pytest.mark.parametrize(
    ("content", "read"),
    [
        ("I have two cats and 2 dogs", "number:2 | number:2"),
        ("twenty-five of a hundred and two", "number:25 | number:102"),
        ("two thousand three hundred and four", "number:2304"),
        ("half a dozen eggs, a dozen", "number:1/2 | number:12 | number:12"),
        ("1,000 or 1000 or 1,2", "number:1000 | number:1000 | number:1 | number:2"),
        ("1.5 million, 2k", "number:1500000 | number:2000"),
        ("$30 or -$30 or 30 dollars", "number:30 | number:30 dollar | number:-30 | number:-30 dollar | number:30 | "
                                      "number:30 dollar"),
        ("30%, 5kg, thirty minutes, 30-minute", "number:30 | number:30 percent | number:5 | number:5 kilogram | "
                                                "number:30 | number:30 minute | number:30 | number:30 minute"),
        ("v2, version 2, V1.2.3, 3.12", "number:2 | number:2 | number:1.2.3 | number:3.12"),
        ("3-5, 2020-2023, 16:9", "number:3 | number:5 | number:2020 | number:2023 | number:16 | number:9"),
        ("-5 and minus", "number:-5"),
        ("10.0.0.1, 007, x86_64, b12", "number:10.0.0.1 | number:007 | number:x86_64 | number:b12"),
        ("gpt-4", "number:4"),
        ("1st place, second place, the twenty-first", "number:rank 1 | number:rank 2 | number:rank 21"),
        ("a second, 30 seconds", "number:30 | number:30 second"),
        ("one of them; no one; one day; one man", "number:1"),
        ("the answer is one", "number:1"),
        ("once or twice a week, weekly", "number:1 | number:2 | date:every week | date:every week"),
        ("on 3 May 2023", "date:month 5 | date:5-3 | number:2023 | date:2023 5"),
        ("May 3rd, 2023", "date:month 5 | date:5-3 | number:2023 | date:2023 5"),
        ("the 3rd of May", "date:month 5 | date:5-3"),
        ("2023-05-03", "date:month 5 | date:5-3 | number:2023 | date:2023 5"),
        ("in May 2023, in May", "date:month 5 | number:2023 | date:2023 5 | date:month 5"),
        ("3 pm, 3:00 p.m., 15:00, 12 am", "date:15:00 | date:15:00 | date:15:00 | date:0:00"),
        ("next Monday, last week, on Tues", "date:next | date:monday | date:last | date:tuesday"),
        ("he sat in the sun and may march", ""),
        ("yesterday morning", "date:yesterday | date:morning"),
        ("½ a cup, ٣ cats, １２ dogs", "number:1 | number:2 | number:3 | number:12"),
        ("no number here", ""),
        ("", ""),
    ],
)  # fmt: skip
def test_what_is_read(content, read):
    assert " | ".join(numerals(content)) == read


@given(st.lists(st.integers(0, 10**20)), st.sampled_from([" apples ", ", ", "\n", "; ", " (", " and ", "=", "] a "]))
def test_no_figure_is_passed_over(numbers, between):
    assert numerals(between.join(map(str, numbers))) == [f"number:{number}" for number in numbers]


@given(st.text() | st.text(alphabet="0123456789.,:-/ amp$kvthe one"))
def test_any_text_is_read(content):
    figures = [sign for sign in unicodedata.normalize("NFKC", content) if sign.isdecimal()]
    assert any(map(str.isdecimal, "".join(numerals(content)))) or not figures


@given(
    st.integers(0, 10**9), st.integers(0, 10**9), st.sampled_from(["limit {}", "{} kg", "${}", "v{}", "{},000", "a{}b"])
)
def test_other_figures_read_otherwise(one, other, form):
    assert (numerals(form.format(one)) == numerals(form.format(other))) == (one == other)


@pytest.mark.parametrize("part", ["1", "1,", "one ", "1-", "$", "a1_", "v1.", "3 May ", "a_", "_a", "-"])
def test_a_long_text_is_read_to_its_end(part):
    assert numerals(part * 20_000 + " and 77 pears")[-1] == "number:77"
