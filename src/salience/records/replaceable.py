"""Frozen values that are often made from one another."""

from __future__ import annotations

from typing import Any, Self


class Replaceable:
    """What a frozen dataclass without slots inherits to be taken over with other values quickly."""

    def replace(self, **values: Any) -> Self:
        """Return this with some values in place of its own: `dataclasses.replace`, at a fifth of what it takes.

        Nothing is checked again, and no name is: it is for values of which that is known. A recall makes dozens, and
        answers in less time than `replace` would need for those.
        """
        made = object.__new__(type(self))
        made.__dict__.update(self.__dict__, **values)
        return made
