"""Files and the JSON in them, read so that what is wrong can be told by its key."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from salience.errors import InputError, Words
from salience.lines import parsed, said

_KINDS: Final = {dict: "an object", list: "a list", str: "text", int: "a whole number", bool: "true or false"}
"""JSON types as errors name them."""


@dataclass(frozen=True, slots=True)
class Place:
    """A value of a JSON file and where it stands.

    Attributes:
        path: the file.
        value: the value; None where the file has none.
        key: how it is reached, such as `qa[3].question`; empty for the whole file.
    """

    path: Path
    value: Any
    key: str = ""

    def at(self, key: str) -> Place:
        """Return the value under `key` of this object; one whose value is None where there is no such key."""
        return Place(self.path, self.object().get(key), f"{self.key}.{key}" if self.key else key)

    def first(self, *keys: str) -> Place:
        """Return the value under the first of `keys` that this object has, else under the first of them."""
        return self.at(next((key for key in keys if self.object().get(key) is not None), keys[0]))

    def each(self) -> list[Place]:
        """Return the values of this list."""
        return [Place(self.path, value, f"{self.key}[{place}]") for place, value in enumerate(self.list())]

    def object(self) -> dict[str, Any]:
        """Return the value if it is an object."""
        found: dict[str, Any] = self._of(dict)
        return found

    def list(self) -> list[Any]:
        """Return the value if it is a list."""
        found: list[Any] = self._of(list)
        return found

    def text(self) -> str:
        """Return the value if it is text."""
        return str(self._of(str))

    def label(self) -> str:
        """Return the value as text if it is text or a whole number."""
        return str(self.value) if type(self.value) is int else self.text()

    def said(self) -> str:
        """Return what a message says, from text or a list of parts; empty where it says nothing."""
        try:
            return said(self.value)
        except InputError as error:
            raise error.at(f"{self.key} in {self.path}") from None

    def words(self) -> str:
        """Return the value as text, whatever it is; empty where there is none."""
        return "" if self.value is None else str(self.value)

    def refused(self, expected: str) -> InputError:
        """Return the error that something else is expected here; it does not show the value."""
        found = "nothing" if self.value is None else _KINDS.get(type(self.value), type(self.value).__name__)
        problem = "is missing" if self.value is None else None
        return InputError(f"{self.key or 'content'} in {self.path}", Words(found), f"Give {expected}.", problem)

    def _of(self, kind: type) -> Any:
        if type(self.value) is not kind:
            raise self.refused(_KINDS[kind])
        return self.value


def document(path: Path, remedy: str = "Give a JSON document in UTF-8.") -> Any:
    """Return the JSON value of a file.

    Raises:
        InputError: a file that cannot be read; one that holds no JSON, with the `remedy`.
    """
    try:
        return parsed(path.read_bytes())
    except OSError as error:
        raise unreadable(path, error) from None
    except ValueError:
        raise InputError(f"file {path}", Words("its content"), remedy, "is not JSON") from None


def lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield (number, line) of the lines that are not blank, as they are read."""
    try:
        with path.open("rb") as file:
            yield from ((number, line) for number, line in enumerate(file, 1) if line.strip())
    except OSError as error:
        raise unreadable(path, error) from None


def unreadable(path: Path, error: OSError) -> InputError:
    """Return the error that the system gave for a file."""
    reason = Words(error.strerror or type(error).__name__)
    return InputError(f"file {path}", reason, "Give a file that can be read.", f"cannot be read: {reason}")
