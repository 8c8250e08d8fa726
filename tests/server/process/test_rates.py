"""A caller may ask so often, and is told when to ask again."""

from __future__ import annotations

import pytest

from salience.errors import InputError, LimitError
from salience.server.gate import rate_limiter

pytestmark = pytest.mark.slow


def test_a_caller_is_let_in_as_often_as_the_rate_says():
    admit = rate_limiter("3/hour")
    for _ in range(3):
        admit("one")
    with pytest.raises(LimitError, match="more than 3/hour with one key") as caught:
        admit("one")
    assert 3500 < (caught.value.retry_after or 0) <= 3600


def test_callers_have_a_rate_each():
    admit = rate_limiter("1/hour")
    admit("one")
    admit("two")
    with pytest.raises(LimitError):
        admit("two")


def test_what_is_turned_away_does_not_count():
    admit = rate_limiter("1/hour")
    admit("one")
    waits = []
    for _ in range(3):
        with pytest.raises(LimitError) as caught:
            admit("one")
        waits.append(caught.value.retry_after)
    assert waits == sorted(waits, reverse=True)


def test_without_a_rate_all_are_let_in():
    admit = rate_limiter(None)
    assert [admit("one") for _ in range(1000)] == [None] * 1000


@pytest.mark.parametrize("rate", ["often", "", "0/minute", "-1/minute", "10", "10/fortnight", "1/second;5/minute"])
def test_a_rate_that_is_none_is_refused_before_anything_is_served(rate):
    with pytest.raises(InputError, match=r"server_rate is .*600/minute"):
        rate_limiter(rate)
