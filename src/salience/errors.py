"""The error tree: every error that Salience raises on purpose.

```
SalienceError
├── InputError (ValueError)         an invalid argument, record or line of a file
│   ├── ConfigError                 the config file cannot be read
│   ├── ProfileError                an invalid or unknown ranking profile
│   └── ImportLineError             an invalid line of an imported file
├── NotFoundError (LookupError)     the memory does not exist or is not visible; both look the same
├── ConflictError                   an idempotency key or id belongs to something else
│   ├── StaleError                  the memory changed between read and write
│   └── LeaseError                  another process does this maintenance task
├── AccessError                     missing or invalid API key or token
│   └── ForbiddenError              the key is valid but does not allow this
├── LimitError                      a request or answer is too large, or too many requests
├── EmbedderError                   the embedding model failed
│   └── MissingExtraError           an optional library is not installed; the message ends with the pip command
├── RerankerError                   the reranker failed; recalls continue without it
├── SummariserError                 the summariser failed; reflections continue without it
├── JudgeError                      the judge failed; the labels of the rules are used
└── StoreError                      the store cannot be opened, read or written
    ├── DamagedError                a row cannot be read
    ├── NotAStoreError              the target is no Salience store
    ├── ReadOnlyError               the store cannot be written
    ├── BusyError                   another process held the write lock for longer than the busy timeout
    ├── UnsettledError              the connection broke during a commit; its outcome is unknown
    ├── ServerError                 a Salience server cannot be reached, or failed
    ├── VersionError                the store was written by a newer version
    └── PinnedError                 the store was written with another embedder or language
        └── MovedError              the store moved to another embedder while this engine had it open
```

Every message names the field, the value and the remedy. No message contains the content of a memory.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Final


class SalienceError(Exception):
    """Base of all errors that Salience raises on purpose."""


class InputError(SalienceError, ValueError):
    """An invalid value; the message is `FIELD PROBLEM. REMEDY`.

    Attributes:
        field: name of the argument, key or column.
        value: the given value, never the content of a memory.
        remedy: what to do, as an imperative sentence.
        problem: predicate of the field, such as `is empty` or `is 5000`.
    """

    _between = " "

    def __init__(self, field: str, value: object, remedy: str, problem: str | None = None) -> None:
        self.field = field
        self.value = value
        self.remedy = remedy
        if problem is None:
            problem = "is missing" if value is None else "is empty" if value == "" else f"is {shown(value)}"
        self.problem = problem
        super().__init__(f"{field}{self._between}{self.problem}. {remedy}")

    def at(self, field: str) -> InputError:
        """Return the same error for another field, such as a position in a list."""
        return InputError(field, self.value, self.remedy, self.problem)


def wrong_type(field: str, value: object, remedy: str) -> InputError:
    """Return the error for a value of the wrong type, which names the type only."""
    name = type(value).__name__
    return InputError(field, Words(name), remedy, f"has the type {name}")


def cannot_open(file: object, error: Exception) -> InputError:
    """Return the error for a file that cannot be opened or read."""
    reason = error.strerror if isinstance(error, OSError) else str(error)
    problem = f"{shown(str(file))} cannot be opened: {reason or type(error).__name__}"
    return InputError("file", str(file), "Give a file that can be opened.", problem)


def cannot_write(file: object, error: OSError) -> InputError:
    """Return the error for a file that cannot be written; nothing was left in its place."""
    problem = f"{shown(str(file))} cannot be written: {error.strerror or type(error).__name__}"
    return InputError("file", str(file), "Free some space there, or name another place.", problem)


def unknown(field: str, value: object, choices: Iterable[str], remedy: str | None = None) -> InputError:
    """Return the error for a value that is not among the choices; the default remedy lists them."""
    problem = f"{shown(value)} is unknown" if isinstance(value, str) and value else None
    return InputError(field, value, remedy or f"Choose one of: {', '.join(sorted(choices))}.", problem)


def unknown_field(name: str, known: Sequence[str], path: str = "") -> InputError:
    """Return the error for an unknown argument or key; the remedy suggests the nearest one and lists all."""
    text = name if name.isidentifier() and len(name) <= 64 else shown(name)
    near = get_close_matches(name[:64], known, 1)
    suggestion = f"Did you mean {near[0]}? " if near else ""
    field = f"{path}.{text}" if path else text
    return InputError(field, name, f"{suggestion}Known fields: {', '.join(known)}.", "is an unknown field")


class ConfigError(InputError):
    """The config file cannot be read; `field` is its path."""


class ProfileError(InputError):
    """Invalid ranking profile; `field` is the path of the key in its TOML."""


class ImportLineError(InputError):
    """Invalid line of an imported file, or record of another system's export; `line` is its number from 1.

    `unit` is `line` or `record`, and `file` the name of its file if the export is a folder or a ZIP file.
    """

    _between = ": "

    def __init__(self, line: int, reason: str, remedy: str, unit: str = "line", file: str = "") -> None:
        self.line, self.unit, self.file = line, unit, file
        problem = Words(reason.rstrip("."))
        super().__init__(f"{unit} {line}{file and f' of {file}'}", problem, remedy, shown(problem))


class NotFoundError(SalienceError, LookupError):
    """No memory of that id is visible to the caller; whether it exists elsewhere is not revealed."""

    def __init__(self, id: str, field: str = "id") -> None:
        self.id, self.field = id, field
        super().__init__(
            f"{field}: no memory {shown(id)} is visible in this scope. Check the id and the scope keywords."
        )


class ConflictError(SalienceError):
    """The idempotency key or id belongs to something else."""


class StaleError(ConflictError):
    """The memory changed between read and write; nothing was written."""


class LeaseError(ConflictError):
    """Another process holds the lease; nothing was written."""


class AccessError(SalienceError):
    """Missing or invalid API key or token; which of these is not revealed."""


class ForbiddenError(AccessError):
    """The key is valid but does not allow this."""


class LimitError(SalienceError):
    """A request or answer is too large, or there are too many requests.

    Attributes:
        retry_after: seconds after which a retry can succeed; None: never.
    """

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        self.retry_after = retry_after
        super().__init__(message)


class EmbedderError(SalienceError):
    """The embedding model failed, or did not return one vector per text."""


class MissingExtraError(EmbedderError, ImportError):
    """An optional library is not installed."""

    def __init__(self, feature: str, extra: str) -> None:
        super().__init__(f'{feature} needs an optional library. Install it with: {pip_install()}[{extra}]"')


def pip_install() -> str:
    """Return the command that installs this Salience again, without the last quotation mark.

    An installation from a folder or a wheel names that, since an index may not have Salience (PEP 610).
    """
    import json
    from importlib.metadata import PackageNotFoundError, distribution
    from importlib.util import find_spec
    from urllib.parse import unquote, urlsplit

    tool = "pip" if find_spec("pip") else "uv pip"
    try:
        origin = json.loads(distribution("salience").read_text("direct_url.json") or "{}")
    except (PackageNotFoundError, ValueError):
        origin = {}
    url = urlsplit(origin.get("url", ""))
    editable = "--editable " if origin.get("dir_info", {}).get("editable") else ""
    return f'{tool} install {editable}"{unquote(url.path) if url.scheme == "file" else "salience"}'


class RerankerError(SalienceError):
    """The reranker failed, or did not return one number per text."""


class SummariserError(SalienceError):
    """The summariser failed, or did not return a summary of its sources."""


class JudgeError(SalienceError):
    """The judge failed, or did not return one label per pair."""


class StoreError(SalienceError):
    """The store cannot be opened, read or written."""


class DamagedError(StoreError):
    """A row contains an invalid value.

    Attributes:
        id: of the memory; None: not known.
        column: the first column that cannot be read.
    """

    def __init__(self, message: str, id: str | None = None, column: str | None = None) -> None:
        self.id, self.column = id, column
        super().__init__(message)


class NotAStoreError(StoreError):
    """The target is no Salience store."""


class ReadOnlyError(StoreError):
    """The store cannot be written."""


class BusyError(StoreError):
    """Another process held the write lock for longer than the busy timeout."""


class UnsettledError(StoreError):
    """The connection broke during a commit, and its outcome could not be found out."""


class ServerError(StoreError):
    """The Salience server cannot be reached, or its answer is invalid."""


class VersionError(StoreError):
    """The store was written by a newer version of Salience."""


class PinnedError(StoreError):
    """The store is pinned to another embedder, dimension or language."""


class MovedError(PinnedError):
    """The store moved to another embedder while this engine had it open; connect again with that one."""


_VALUE: Final = r"\w+=(?:'\w+'|<\w+>|\.{3}|None)"
CALL: Final = re.compile(rf"\b(?P<verb>[a-z]+)\((?P<arguments>{_VALUE}(?:, {_VALUE})*)\)")
"""A call that a message advises, in Python, such as `update(id='c7a0db33', supersedes=None)`."""
FLAG: Final = re.compile(r"\b(?P<name>[a-z_]+)=True\b")
"""The same for a flag of the same call, such as `duplicate=True`."""


class Words(str):
    """Text that error messages show without quotation marks."""

    __slots__ = ()


def shown(value: object, width: int = 120) -> str:
    """Return `value` for an error message, at most `width` characters."""
    if isinstance(value, int) and abs(value) >= 10**width:  # Python refuses to write very long numbers
        return f"a number of more than {width} digits"
    text = str(value) if isinstance(value, Words) else repr(value)
    return text if len(text) <= width else text[: width - 1] + "…"
