"""Values that callers give are checked."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from salience.errors import InputError
from salience.records import ANY, Filter, Scope, checks


def accepted(text: object) -> bool:
    """Return whether a text is a name, as the law has it."""
    if not isinstance(text, str) or not text.strip() or len(text) > checks.NAME_LIMIT:
        return False
    return not any(sign < " " or "\x7f" <= sign <= "\x9f" or "\ud800" <= sign <= "\udfff" for sign in text)


@given(st.one_of(st.text(), st.text(" \u3000\xa0a", max_size=3), st.text("aé", min_size=250, max_size=260), st.none()))
def test_a_name_is_what_the_law_accepts(text):
    try:
        assert checks.name("tag", text) is text
    except InputError:
        assert not accepted(text)
    else:
        assert accepted(text)


@pytest.mark.parametrize("coordinate", ["tenant", "environment", "project", "user_id", "agent_id", "session_id"])
def test_each_coordinate_of_a_scope_is_checked(coordinate):
    assert getattr(Scope(**{coordinate: "x"}), coordinate) == "x"
    for refused in ("", "a\nb", "x" * 257, 7):
        with pytest.raises(InputError, match=coordinate):
            Scope(**{coordinate: refused})


def test_a_wildcard_stands_for_what_narrows_and_nothing_else():
    assert Scope(environment=ANY, project=ANY, user_id=ANY, agent_id=ANY).environment is ANY
    with pytest.raises(InputError, match="tenant"):
        Scope(tenant=ANY)
    with pytest.raises(InputError, match="environment"):
        Scope(environment=None)


def test_a_filter_without_names_asks_for_none():
    assert Filter(tags=(), kinds=[], tiers=()) == Filter()
    with pytest.raises(InputError, match="tags"):
        Filter(tags="a")
