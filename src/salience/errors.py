"""The error tree: everything that Salience raises on purpose.

```
SalienceError
├── InputError (ValueError)         an argument, a record or a line of a file is not acceptable
│   ├── ConfigError                 the config file cannot be read
│   ├── ProfileError                a profile's TOML, or the name of a profile
│   └── ImportLineError             a line of a file: its number and the reason
├── NotFoundError (LookupError)     no such memory, or not one that the caller may see (told apart by nobody)
├── ConflictError                   an idempotency key or an id that already stands for something else
│   ├── StaleError                  the memory changed between the read and the write; the engine tries again
│   └── LeaseError                  another process does this piece of work at present
├── AccessError                     a server was shown no key, or one that does not hold
│   └── ForbiddenError              the key holds, but not for this verb, or not for these coordinates
├── LimitError                      too much at once: the size of a request, or the rate of a key
├── EmbedderError                   the embedding provider failed, or answered nonsense
│   └── MissingExtraError           a library of an optional extra is not installed; ends with the pip line
├── RerankerError                   the reranker failed, or answered nonsense; a recall goes on without it
├── SummariserError                 the summariser failed, or answered nonsense; a reflection goes on without it
├── JudgeError                      the judge failed, or answered nonsense; the labels of the rules stand
└── StoreError                      the store cannot be opened, read or written
    ├── DamagedError                a row cannot be read: its id and the column
    ├── NotAStoreError              the file is something else
    ├── ReadOnlyError               the file or its folder cannot be written
    ├── BusyError                   another process held the write lock for longer than the busy timeout
    ├── UnsettledError              the connection broke during a commit, and nobody can say whether that was done
    ├── ServerError                 the server of a client cannot be reached, or failed
    ├── VersionError                the file is newer than this code
    └── PinnedError                 the store was written with another embedder or language
        └── MovedError              the store was given another embedder while this engine had it open
```

Every message names the field, the value and what to do next. No message holds the content of a memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches


class SalienceError(Exception):
    """Base of everything that Salience raises on purpose."""


class InputError(SalienceError, ValueError):
    """A value that cannot be accepted; its message says what is wrong with it, then what to do.

    Attributes:
        field: the name of the argument, key or column.
        value: what was given, shortened; never the content of a memory.
        remedy: what to do instead, as an imperative sentence.
        problem: what is wrong, to be read after the field: `is empty`, `is 5000`.
    """

    _between = " "

    def __init__(self, field: str, value: object, remedy: str, problem: str | None = None) -> None:
        self.field = field
        self.value = value
        self.remedy = remedy
        self.problem = _problem(value) if problem is None else problem
        super().__init__(f"{field}{self._between}{self.problem}. {remedy}")

    def at(self, field: str) -> InputError:
        """Return the same error of another field, such as the place of a value in a list."""
        return InputError(field, self.value, self.remedy, self.problem)


def wrong_type(field: str, value: object, remedy: str) -> InputError:
    """Return the error of a value of the wrong type; it names the type and does not show the value."""
    name = type(value).__name__
    return InputError(field, Words(name), remedy, f"has the type {name}")


def unknown(field: str, value: object, choices: Iterable[str], remedy: str | None = None) -> InputError:
    """Return the error of a value that is none of the choices; its remedy lists them unless another one is given."""
    problem = f"{shown(value)} is unknown" if isinstance(value, str) and value else None
    return InputError(field, value, remedy or f"Choose one of: {', '.join(sorted(choices))}.", problem)


def unknown_field(name: str, known: Sequence[str], path: str = "") -> InputError:
    """Return the error of an argument or key that does not exist; its remedy names the nearest and lists all."""
    told = name if name.isidentifier() and len(name) <= 64 else shown(name)
    near = get_close_matches(name[:64], known, 1)
    meant = f"Did you mean {near[0]}? " if near else ""
    field = f"{path}.{told}" if path else told
    return InputError(field, name, f"{meant}Known fields: {', '.join(known)}.", "is an unknown field")


class ConfigError(InputError):
    """A config file that cannot be read; `field` is its path."""


class ProfileError(InputError):
    """A ranking profile that cannot be used; `field` is the path of the key in its TOML."""


class ImportLineError(InputError):
    """A line of an imported file that cannot be read; `line` counts from 1."""

    _between = ": "

    def __init__(self, line: int, reason: str, remedy: str) -> None:
        self.line = line
        told = Words(reason.removesuffix("."))
        super().__init__(f"line {line}", told, remedy, shown(told))


class NotFoundError(SalienceError, LookupError):
    """No memory of that id is visible to the caller; one that is not there and one that is not theirs look the same."""

    def __init__(self, id: str, field: str = "id") -> None:
        self.id, self.field = id, field
        super().__init__(
            f"{field}: no memory {shown(id)} is visible in this scope. Check the id and the scope keywords."
        )


class ConflictError(SalienceError):
    """The key or id is taken by another memory."""


class StaleError(ConflictError):
    """The memory is no longer at the version that the change was made from; nothing was written."""


class LeaseError(ConflictError):
    """Another holder has the lease; nothing was written."""


class AccessError(SalienceError):
    """No key was shown, or one that does not hold; which of these is told to nobody."""


class ForbiddenError(AccessError):
    """The key does not allow this."""


class LimitError(SalienceError):
    """More than the server takes.

    Attributes:
        retry_after: seconds after which the same may be asked again; None where it is too much at any time.
    """

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        self.retry_after = retry_after
        super().__init__(message)


class EmbedderError(SalienceError):
    """The embedding provider failed or returned something that is not a vector per text."""


class MissingExtraError(EmbedderError, ImportError):
    """A library of an optional extra is missing."""

    def __init__(self, feature: str, extra: str) -> None:
        super().__init__(f'{feature} needs an optional library. Install it with: pip install "salience[{extra}]"')


class RerankerError(SalienceError):
    """The reranker failed or returned something that is not a number per text."""


class SummariserError(SalienceError):
    """The summariser failed or returned something that is not a summary of its sources."""


class JudgeError(SalienceError):
    """The judge failed or returned something that is not a label per pair."""


class StoreError(SalienceError):
    """The store could not be opened, read or written."""


class DamagedError(StoreError):
    """A row holds a value that no memory has.

    Attributes:
        id: of the memory; None where it is not known.
        column: the first column that cannot be read.
    """

    def __init__(self, message: str, id: str | None = None, column: str | None = None) -> None:
        self.id, self.column = id, column
        super().__init__(message)


class NotAStoreError(StoreError):
    """The target is not a Salience store."""


class ReadOnlyError(StoreError):
    """The store cannot be written."""


class BusyError(StoreError):
    """Another process kept the write lock for longer than the busy timeout."""


class UnsettledError(StoreError):
    """The connection to the server broke while a write was committed, and it could not be asked what became of that."""


class ServerError(StoreError):
    """The server could not be reached, or did not answer as one of Salience does."""


class VersionError(StoreError):
    """The store was written by a newer version of Salience."""


class PinnedError(StoreError):
    """The store is pinned to another embedder, dimension or language."""


class MovedError(PinnedError):
    """The store was pinned to another embedder since this engine opened it; connect again with that one."""


class Words(str):
    """Text to be shown as it is, without quotation marks."""

    __slots__ = ()


def shown(value: object, width: int = 120) -> str:
    """Return `value` as it stands in an error message, at most `width` characters."""
    if isinstance(value, int) and abs(value) >= 10**width:  # Python refuses to write very long numbers
        return f"a number of more than {width} digits"
    text = str(value) if isinstance(value, Words) else repr(value)
    return text if len(text) <= width else text[: width - 1] + "…"


def _problem(value: object) -> str:
    """Return what is wrong with a value of which no more is known."""
    if value is None:
        return "is missing"
    return "is empty" if isinstance(value, str) and not value else f"is {shown(value)}"
