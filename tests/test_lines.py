"""Lines of JSON: drafts with their scope, and errors with the number of the line."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from salience import Draft, ImportLineError
from salience.lines import draft, parsed, parsed_object
from salience.records import Scope


def test_a_draft_has_its_fields_and_its_scope():
    line = {"content": "Tea", "kind": "rule", "user_id": "elena", "session_id": "s", "ttl": "7d", "fact_key": None}
    first = draft(1, line)
    assert (first.kind, first.scope, first.fact_key) == ("rule", Scope(user_id="elena", session_id="s"), None)
    assert first.ttl.days == 7
    second = draft(2, {"content": "Nothing else", "created_at": "2026-01-02T10:00:00Z"})
    assert (second.scope, second.created_at) == (None, datetime(2026, 1, 2, 10, tzinfo=UTC))
    given_scope = Scope(user_id="elena", project="p")
    assert draft(3, {"content": "x", "project": "q"}, given_scope).scope == Scope(user_id="elena", project="q")


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('{"content": "x"', "JSON with an error at column"),
        ("[1]", "a JSON list"),
        ("null", "a JSON NoneType"),
        ('{"content": "x", "importanse": 1}', "importanse is an unknown field. Did you mean importance"),
        ('{"content": "x", "importance": 7}', "importance is 7"),
        ('{"content": "x", "created_at": "someday"}', "created_at is 'someday'"),
        ('{"content": "x", "created_at": "9999-12-31T23:59:59-05:00"}', "created_at is '9999-12-31"),
        ('{"content": "x", "user_id": 5}', "user_id has the type int"),
        ('{"kind": "fact"}', "content has the type NoneType"),
        ('{"content": "\\ud800"}', "content has a lone surrogate"),
        ('{"content": "x", "importance": ' + "9" * 400 + "}", "importance is a number of more than 120 digits"),
        ('{"content": "x", "importance": ' + "9" * 5000 + "}", "JSON that is not readable"),
        ("[" * 100_000, "nested too deeply"),
        (b'{"content": "\xff"}', "text that is not UTF-8"),
    ],
)
def test_a_broken_line_is_refused_with_its_number_and_reason(line, reason):
    with pytest.raises(ImportLineError) as caught:
        draft(3, parsed_object(3, line))
    assert caught.value.line == 3
    assert str(caught.value).startswith("line 3: ")
    assert reason in str(caught.value)


@pytest.mark.parametrize("line", ['{"content": "the secret is 4417\\u0000"}', '{"content": "the secret is 4417"'])
def test_an_error_never_shows_the_text_of_a_memory(line):
    with pytest.raises(ImportLineError) as caught:
        draft(1, parsed_object(1, line))
    assert "secret" not in str(caught.value)


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(line):
    try:
        made: object = draft(1, parsed_object(1, line))
    except ImportLineError as error:
        made = error
    assert isinstance(made, Draft) or made.line == 1


def test_json_that_is_nested_too_deeply_is_a_value_error():
    with pytest.raises(ValueError, match="nested too deeply"):
        parsed("[" * 100_000)
