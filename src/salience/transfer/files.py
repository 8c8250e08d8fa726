"""Files of an export: open one to read, and replace one only with a complete one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any, Final

from salience import temporary
from salience.errors import ImportLineError, InputError, cannot_open, cannot_write, shown, wrong_type
from salience.lines import parsed_object
from salience.records import checks

FORMAT: Final = "salience"
VERSION: Final = 1
MEM0: Final = '{"results": ['
"""Start of an export in the format of mem0."""
INSTANTS: Final = ("created_at", "updated_at", "tier_since", "accessed_at", "expires_at", "forgotten_at", "changed_at")
"""Fields of a memory that are instants."""
BUFFER: Final = 65_536
"""Bytes read at a time; a line with a vector has some thousands."""
File = str | Path | IO[Any]
Progress = Callable[[int], None]
"""Called with the number of memories done so far."""


@contextmanager
def reading(file: File) -> Iterator[IO[Any]]:
    """Yield the open file of a path, or an open file as it is.

    Raises:
        InputError: neither, or a path that cannot be opened.
    """
    if not isinstance(file, (str, Path)):
        if not hasattr(file, "__iter__"):
            raise wrong_type("file", file, "Give a path or an open file.")
        yield file
        return
    path = checks.path("file", file)
    try:
        stream = path.open("rb", buffering=BUFFER)
    except (OSError, ValueError) as error:
        raise cannot_open(file, error) from None
    with stream:
        yield stream


@contextmanager
def writing(file: File, overwrite: bool) -> Iterator[IO[str]]:
    """Yield a text stream that replaces the file at a path once it is complete and on disk, or an open file as it is.

    Raises:
        InputError: neither, a path that cannot be written, or an existing file that may not be overwritten.
    """
    if not isinstance(file, (str, Path)):
        if not hasattr(file, "encoding"):
            raise wrong_type("file", file, "Give a path or a file that is open for text.")
        yield file
        return
    path = checks.path("file", file)
    if path.exists() and not (overwrite and is_export(path)):
        remedy = "Name a new file" + (
            ", since this one is no export." if overwrite else ", or allow it to be replaced (overwrite=True, --force)."
        )
        raise InputError("file", str(path), remedy, f"{shown(str(path))} exists")
    with ExitStack() as stack:
        try:
            made = stack.enter_context(temporary.file(path.parent))
        except (OSError, ValueError) as error:
            raise cannot_open(file, error) from None
        try:
            with made.open("w", encoding="utf-8", newline="\n") as stream:
                yield stream
            temporary.sync(made)
            made.replace(path)
            temporary.sync(path.parent)
        except OSError as error:
            raise cannot_write(path, error) from None


def is_export(path: Path) -> bool:
    """Return whether a file starts like an export, or is empty."""
    try:
        with path.open("rb") as file:
            head = file.readline(1_000_000)
        if head.rstrip() == MEM0.encode():
            return True
        record = parsed_object(1, head) if head.strip() else {"format": FORMAT}
    except (OSError, ImportLineError):
        return False
    return record.get("format") == FORMAT or isinstance(record.get("memory"), dict)
