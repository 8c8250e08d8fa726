"""A line of JSON is read as `json.loads` reads it, errors included."""

from __future__ import annotations

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from salience.lines import parsed

PARTS = st.sampled_from(
    ['{"a": 1}', "{", "}", "[1, 2]", '"x"', "1", "NaN", " ", "\t", "\n", "\u00a0", "\x0b", "\ufeff", "x"]
)


def outcome(read, text):
    try:
        return json.dumps(read(text))
    except ValueError as error:
        return type(error), str(error)


@given(st.lists(PARTS, max_size=4).map("".join))
@example('{"a": 1}\u00a0')
@example('{"a": 1}\n')
def test_any_text_gives_what_json_gives(text):
    assert outcome(parsed, text) == outcome(json.loads, text)


def test_what_is_nested_too_deeply_is_told():
    with pytest.raises(ValueError, match="nested too deeply"):
        parsed("[" * 100_000)
