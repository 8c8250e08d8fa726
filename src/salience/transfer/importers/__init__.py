"""Readers of other systems' exports; `SOURCES` names them. A reader is the function `read` of a module here."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib import import_module
from io import BytesIO
from pathlib import Path, PurePosixPath
from typing import IO, Any, Final
from zipfile import BadZipFile, ZipFile, ZipInfo

from salience.errors import InputError, Words, cannot_open, wrong_type
from salience.records import checks
from salience.transfer.importers.records import File, Item, Problem, key, name, problem

ZIP: Final = (b"PK\3\4", b"PK\5\6")
"""First bytes of a ZIP file, and of an empty one."""
LARGEST: Final = 4 * 1024**3
"""Largest file in a ZIP file, bytes; a small ZIP file may hold a file that fills the memory."""
UNREADABLE: Final = (OSError, EOFError, BadZipFile, NotImplementedError, zlib.error)
"""Errors of files on disk and in ZIP files that cannot be read."""


@dataclass(frozen=True, slots=True)
class Source:
    """Another system.

    Attributes:
        module: the module here that reads its files; imported when it is needed.
        files: patterns of the files to read in a folder or ZIP file, as of `PurePath.match`, in lower case.
    """

    module: str
    files: tuple[str, ...] = ("*.json", "*.jsonl")

    def is_of(self, path: PurePosixPath) -> bool:
        """Return whether to read a file of a folder; hidden ones, and those that macOS adds to ZIP files, are not."""
        if any(part.startswith(".") or part == "__MACOSX" for part in path.parts):
            return False
        return any(PurePosixPath(str(path).lower()).match(pattern) for pattern in self.files)


CHATS: Final = ("conversations*.json", "memories*.json", "memories/*.json", "projects*.json", "projects/*.json")
SOURCES: Final[Mapping[str, Source]] = {
    "chatgpt": Source("chatgpt", ("conversations*.json",)),
    "claude": Source("claude", CHATS),
    "claude-code": Source("claude_code", ("*.jsonl",)),
    "graphiti": Source("graphiti"),
    "langgraph": Source("langgraph", ("*.json", "*.jsonl", "*.db", "*.sqlite")),
    "letta": Source("letta", ("*.af", "*.json")),
    "markdown": Source("markdown", ("*.md", "*.markdown")),
    "mcp-memory-service": Source("mcp_memory_service", ("*.json", "*.db")),
    "mcp-server-memory": Source("mcp_server_memory"),
    "mem0": Source("mem0"),
    "mempalace": Source("mempalace", ("*/*.md", "chroma.sqlite3", "knowledge_graph.sqlite3")),
    "obsidian": Source("markdown", ("*.md", "*.markdown")),
    "zep": Source("graphiti"),
}
"""Other systems by name."""


@contextmanager
def records(source: str, file: str | Path | IO[Any]) -> Iterator[Iterator[Item]]:
    """Yield the records and problems in the export of another system.

    Args:
        source: name from `SOURCES`.
        file: a path of a file, of a folder or of a ZIP file, or an open file. Of a folder or ZIP file, the files that
            `Source.files` matches are read, in the order of their names; one that cannot be read is a problem.

    Raises:
        InputError: an unknown source, a file that cannot be read, or a file that is not of the source.
    """
    about = SOURCES[checks.choice("source", source, SOURCES)]
    with ExitStack() as stack, closing(_items(source, about, file, stack)) as items:
        yield items


def _items(source: str, about: Source, file: str | Path | IO[Any], stack: ExitStack) -> Generator[Item, None, None]:
    read: Callable[[File], Iterator[Item]] = import_module(f"{__name__}.{about.module}").read
    files, is_alone = _files(about, file, stack)
    for one in files:
        where = "" if is_alone else name(one.name) or ""
        try:
            for item in read(one):
                yield _named(item, source, where)
        except (InputError, *UNREADABLE) as error:
            failed = error if isinstance(error, InputError) else cannot_open(one.name, error)
            if is_alone:
                raise failed from None
            yield _named(problem(1, failed), source, where)


def _named(item: Item, source: str, file: str) -> Item:
    """Return a problem with its file, or a record with its file and with keys that begin with the source."""
    if isinstance(item, Problem):
        return replace(item, file=file)
    older = None if item.supersedes is None else key(source, item.supersedes)
    return replace(item, draft={**item.draft, "key": key(source, item.draft["key"])}, supersedes=older, file=file)


def _files(about: Source, file: str | Path | IO[Any], stack: ExitStack) -> tuple[Sequence[File], bool]:
    """Return the files to read, and whether it is one file by itself."""
    try:
        path = checks.path("file", file) if isinstance(file, (str, Path)) else file
        if isinstance(path, Path) and path.is_dir():
            found = _in_folder(about, path)
        else:
            alone = File.at(path) if isinstance(path, Path) else _of_stream(path)
            with alone.open() as stream:
                is_zip = stream.read(len(ZIP[0])) in ZIP
            if not is_zip:
                return [alone], True
            archive = stack.enter_context(ZipFile(stack.enter_context(alone.open())))
            found = [
                _member(archive, info)
                for info in sorted(archive.infolist(), key=lambda info: info.filename)
                if not info.is_dir() and about.is_of(PurePosixPath(info.filename))
            ]
    except (*UNREADABLE, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise cannot_open(str(file), error) from None
    if not found:
        remedy = f"Give the export as it comes; its files are called {' or '.join(about.files)}."
        raise InputError("file", Words("other files"), remedy, "has no file of the export in it")
    return found, False


def _in_folder(about: Source, folder: Path) -> list[File]:
    """Return the files of a folder and its subfolders; links that lead out of the folder are left out."""
    root = folder.resolve()
    return [
        File.at(path, path.relative_to(folder).as_posix())
        for path in sorted(folder.rglob("*"))
        if about.is_of(PurePosixPath(path.relative_to(folder).as_posix()))
        and path.is_file()
        and path.resolve().is_relative_to(root)
    ]


def _member(archive: ZipFile, info: ZipInfo) -> File:
    def open_member() -> IO[bytes]:
        if info.flag_bits & 1:
            value, remedy = Words("an encrypted file"), "Unpack it with its password, and import the folder."
            raise InputError("file", value, remedy, "is encrypted")
        if info.file_size > LARGEST:
            raise InputError("file", info.file_size, "Unpack it, and import the folder.", f"is over {LARGEST:,} bytes")
        return archive.open(info)

    try:
        modified = datetime(*info.date_time, tzinfo=UTC)
    except ValueError:  # a program wrote no time
        modified = None
    return File(info.filename, open_member, modified)


def _of_stream(stream: IO[Any]) -> File:
    """Return an open file as a file that can be read more than once."""
    if not hasattr(stream, "read"):
        raise wrong_type("file", stream, "Give a path or an open file.")
    if isinstance(stream.read(0), str):
        stream = BytesIO(stream.read().encode("utf-8", "surrogatepass"))
    elif not (hasattr(stream, "seekable") and stream.seekable()):
        stream = BytesIO(stream.read())
    start = stream.tell()

    @contextmanager
    def reopen() -> Iterator[IO[bytes]]:
        stream.seek(start)
        yield stream

    return File("", reopen)
