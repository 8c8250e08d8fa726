"""Values that are worked out when they are first asked for."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

import pytest

from salience.lazy import lazy


@dataclass(frozen=True)
class Sum:
    numbers: tuple[int, ...]
    asked: list[int] = field(default_factory=list, compare=False)

    @lazy
    def total(self) -> int:
        """What they make together."""
        self.asked.append(1)
        return sum(self.numbers)


def test_a_value_is_worked_out_once_and_for_each_object_alone():
    one, other = Sum((1, 2)), Sum((3, 4))
    assert [one.total, one.total, other.total] == [3, 3, 7]
    assert one.asked == other.asked == [1]
    assert Sum.total.__doc__ == "What they make together."


def test_what_fails_is_tried_again():
    broken = Sum((1, "2"))
    for _ in range(2):
        with pytest.raises(TypeError):
            _ = broken.total
    assert broken.asked == [1, 1]


def test_threads_work_out_values_of_different_objects_at_the_same_time():
    both = threading.Barrier(2)

    class Met:
        @lazy
        def other(self) -> bool:
            both.wait(60)  # neither gets on without the other
            return True

    found: list[bool] = []
    threads = [threading.Thread(target=lambda: found.append(Met().other), daemon=True) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert found == [True, True]
