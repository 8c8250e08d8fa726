"""Readers of other systems' exports, one module each; `SOURCES` names them."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from contextlib import closing, contextmanager
from io import BytesIO
from pathlib import Path
from typing import IO, Final

from salience.errors import InputError, Words, wrong_type
from salience.records import checks
from salience.transfer.files import File, reading
from salience.transfer.importers import (
    chatgpt,
    claude,
    claude_code,
    graphiti,
    langgraph,
    letta,
    markdown,
    mcp_memory_service,
    mcp_server_memory,
    mem0,
    mempalace,
    obsidian,
    zep,
)
from salience.transfer.importers.records import Item, Reader

SOURCES: Final[Mapping[str, Reader]] = {
    "chatgpt": chatgpt.read,
    "claude": claude.read,
    "claude-code": claude_code.read,
    "graphiti": graphiti.read,
    "langgraph": langgraph.read,
    "letta": letta.read,
    "markdown": markdown.read,
    "mcp-memory-service": mcp_memory_service.read,
    "mcp-server-memory": mcp_server_memory.read,
    "mem0": mem0.read,
    "mempalace": mempalace.read,
    "obsidian": obsidian.read,
    "zep": zep.read,
}
"""Readers by name of the source."""
FOLDERS: Final = frozenset({"claude-code", "markdown", "mempalace", "obsidian"})
"""Sources whose reader accepts a folder."""


@contextmanager
def records(source: str, file: File) -> Iterator[Iterator[Item]]:
    """Yield the records and problems in the export of another system.

    Args:
        source: name from `SOURCES`.
        file: a path, or an open file; a folder for the sources in `FOLDERS`.

    Raises:
        InputError: an unknown source, a file that cannot be opened, or a file that is not of the source.
    """
    reader = SOURCES[checks.choice("source", source, SOURCES)]
    if isinstance(file, (str, Path)) and Path(file).is_dir():
        if source not in FOLDERS:
            raise InputError(
                "file", Words("a folder"), f"Give a file: {source} is not read from folders.", "is a folder"
            )
        with closing(_each(reader(Path(file)))) as items:
            yield items
        return
    with reading(file) as stream:
        if isinstance(file, (str, Path)):
            exported: IO[bytes] | Path = Path(file)
        elif not hasattr(stream, "read"):
            raise wrong_type("file", file, "Give a path or an open file.")
        else:
            is_text = isinstance(stream.read(0), str)
            exported = BytesIO(stream.read().encode("utf-8", "surrogatepass")) if is_text else stream
        with closing(_each(reader(exported))) as items:
            yield items


def _each(items: Iterator[Item]) -> Generator[Item, None, None]:
    """Yield items. Closing this generator closes theirs, and with it a database that they are read from."""
    yield from items
