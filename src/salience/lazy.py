"""What is worked out when it is first asked for, and kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

Value = TypeVar("Value")


class lazy(Generic[Value]):  # noqa: N801 - it is used as `property` is
    """A property whose value is kept in the object; of pure functions only, for two threads may each work it out.

    `functools.cached_property` has a lock that all objects of a class share up to Python 3.11, so that threads would
    wait for each other's arithmetic.
    """

    def __init__(self, work: Callable[[Any], Value]) -> None:
        self._work = work
        self.__doc__ = work.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> lazy[Value]: ...
    @overload
    def __get__(self, instance: object, owner: type) -> Value: ...
    def __get__(self, instance: object | None, owner: type) -> lazy[Value] | Value:
        """Return the value; once it is kept, Python finds it without asking here."""
        if instance is None:
            return self
        value = instance.__dict__[self._name] = self._work(instance)
        return value
