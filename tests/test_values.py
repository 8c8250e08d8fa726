"""Values that pass between the rooms: made from one another, and checked."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, fields, replace
from datetime import UTC, datetime

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from salience.batch import Batch
from salience.errors import InputError
from salience.ports import Need
from salience.records import ANY, Filter, Query, Scope, checks

NOW = datetime(2026, 5, 1, tzinfo=UTC)
TAKEN_OVER = [
    (Need(scope=Scope(), now=NOW), {"terms": ("a",), "limit": 7}),
    (Query(text="who?", scope=Scope()), {"now": NOW}),
    (Batch(np.array(["a"], object)), {"columns": {"cosine": np.ones(1)}, "floor": 0.5}),
]


@pytest.mark.parametrize(("value", "others"), TAKEN_OVER, ids=lambda value: type(value).__name__)
def test_a_value_taken_over_is_the_one_that_replace_makes(value, others):
    before = {field.name: getattr(value, field.name) for field in fields(value)}
    made, expected = value.replace(**others), replace(value, **others)
    assert all(getattr(made, field.name) is getattr(expected, field.name) for field in fields(value))
    assert all(getattr(value, name) is kept for name, kept in before.items())
    with pytest.raises(FrozenInstanceError):
        setattr(made, next(iter(others)), None)


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
