"""Exports and imports as they pass by: lines of JSON, counted, never held as a whole."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import IO, Any, Final

from salience.errors import ImportLineError, InputError, ServerError, Words
from salience.lines import parsed_object
from salience.records import TransferReport
from salience.transfer.files import FORMAT

CHUNK: Final = 65_536
"""Bytes of an import that are sent at a time, or a few more."""
CONTENT_TYPE: Final = "application/x-ndjson"
Progress = Callable[[int], None]


class Arriving:
    """An export on its way into a file.

    Args:
        file: takes the lines.
        progress: called with the number of memories so far.
    """

    def __init__(self, file: IO[str], progress: Progress | None) -> None:
        self._file = file
        self._progress = progress
        self._rest = b""
        self._lines = self._memories = 0
        self._last: Any = None

    def take(self, chunk: bytes) -> None:
        """Write the lines that a chunk completes.

        Raises:
            ServerError: they are no export.
        """
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        for line in lines:
            self._line(line)

    def end(self) -> TransferReport:
        """Return what was written.

        Raises:
            ServerError: the export broke off.
        """
        if self._rest or not self._lines:
            raise ServerError("export: what the server sent broke off. Export again.")
        return TransferReport(self._memories)

    def _line(self, line: bytes) -> None:
        self._lines += 1
        try:
            found = parsed_object(self._lines, line)
        except ImportLineError:
            raise ServerError("export: the server sent something else than lines of JSON. Export again.") from None
        if (found.get("format") == FORMAT) != (self._lines == 1):
            raise ServerError("export: the server sent something else than one export. Export again.")
        self._file.write(line.decode("utf-8") + "\n")
        if self._lines > 1:
            named = found.get("memory", {}).get("id")
            self._memories += named != self._last
            self._last = named
            if self._progress is not None:
                self._progress(self._memories)


def leaving(source: IO[Any], progress: Progress | None) -> Iterator[bytes]:
    """Yield the lines of an import, some at a time, each ended by a line feed.

    `progress` is called with the number of lines that were sent.
    """
    chunk = bytearray()
    for count, line in enumerate(source, start=1):
        chunk += _encoded(line).rstrip(b"\r\n") + b"\n"
        if len(chunk) >= CHUNK:
            yield bytes(chunk)
            chunk.clear()
            if progress is not None:
                progress(count)
    if chunk:
        yield bytes(chunk)


def _encoded(line: object) -> bytes:
    if isinstance(line, str):
        return line.encode("utf-8", "surrogatepass")  # for the server to say which line it is
    if isinstance(line, bytes):
        return line
    raise InputError("file", Words(f"an item of {type(line).__name__}"), "Give lines of text.")
