"""Records of other systems: the values that every reader yields, and helpers to make them.

A reader is a pure function `read(file: IO[bytes] | Path) -> Iterator[Record | Problem]`. It raises `InputError` if the
file as a whole is not of its source, and yields a `Problem` for each record that it cannot use.
"""

from __future__ import annotations

import math
import shutil
import sqlite3
from codecs import BOM_UTF8
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import IO, Any, Final

from salience.errors import InputError, Words, wrong_type
from salience.lines import moment, parsed
from salience.records.checks import METADATA_DEPTH, METADATA_LIMIT, NAME_LIMIT, json_size
from salience.text import content_hash

SQLITE: Final = b"SQLite format 3\0"
"""First bytes of an SQLite file."""
CUT: Final = "[cut by the import]"
"""Marks the places of `metadata["original"]` where values were left out to fit."""
ORIGINAL_LIMIT: Final = METADATA_LIMIT - 4096
"""Largest original record in the metadata, bytes; the rest is for other metadata."""


@dataclass(frozen=True, slots=True)
class Record:
    """A record of another system as a memory to store.

    Attributes:
        number: line of the file, or position in it from 1, for messages.
        draft: fields of `Draft` and coordinates of its scope, as in a line of drafts; `key` is required.
        supersedes: key of the record that this one replaces; it may come later in the file.
        ended: aware instant from which the record no longer held; `as_of` an earlier instant still finds it.
        began: aware instant from which the record held; None: its `created_at`. `as_of` finds it from then on.
    """

    number: int
    draft: Mapping[str, Any]
    supersedes: str | None = None
    ended: datetime | None = None
    began: datetime | None = None


@dataclass(frozen=True, slots=True)
class Problem:
    """A record that cannot be imported: its number as in `Record`, the reason ("no content"), and what to do."""

    number: int
    reason: str
    remedy: str = "Correct the record, or skip invalid ones."


Item = Record | Problem
Reader = Callable[[IO[bytes] | Path], Iterator[Item]]


def converted(
    items: Iterable[tuple[int, Any]], convert: Callable[[int, dict[str, Any]], Record | None]
) -> Iterator[Item]:
    """Yield the record that `convert` makes of each numbered item, as `each` does; None leaves an item out."""
    return each(items, lambda number, item: filter(None, (convert(number, item),)))


@contextmanager
def opened(file: IO[bytes] | Path) -> Iterator[IO[bytes]]:
    """Yield the open file of a path, or an open file as it is."""
    if isinstance(file, Path):
        with file.open("rb") as stream:
            yield stream
    else:
        yield file


def json_of(file: IO[bytes] | Path) -> Any:
    """Return the value of a file that is one JSON text; raises `InputError` for other files."""
    with opened(file) as stream:
        try:
            return parsed(stream.read())
        except ValueError:
            raise InputError("file", Words("no JSON"), "Give the file as it was exported.", "is not JSON") from None


def json_lines(file: IO[bytes] | Path) -> Iterator[tuple[int, Any]]:
    """Yield the number and value of each line of JSON; for an invalid line the error, which `objects` raises."""
    with opened(file) as stream:
        for number, line in enumerate(stream, start=1):
            if not line.strip():
                continue
            try:
                yield number, parsed(line)
            except ValueError:
                yield number, InputError("line", Words("no JSON"), "Give one JSON object a line.", "is not JSON")


@contextmanager
def database(file: IO[bytes] | Path) -> Iterator[sqlite3.Connection]:
    """Yield a connection to an SQLite file, which it only reads; an open file is copied first.

    Raises:
        InputError: the file cannot be read as a database.
    """
    with ExitStack() as stack:
        if not isinstance(file, Path):
            copy = stack.enter_context(NamedTemporaryFile(suffix=".db"))
            shutil.copyfileobj(file, copy)
            copy.flush()
            file = Path(copy.name)
        try:
            connection = sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro", uri=True)
            connection.row_factory = sqlite3.Row
            stack.callback(connection.close)
            yield connection
        except sqlite3.Error as error:
            reason = "is not a database that can be read"
            raise InputError("file", Words(str(error)), "Give a copy of the database file.", reason) from None


def is_database(file: IO[bytes] | Path) -> bool:
    """Return whether a file starts like an SQLite database."""
    if isinstance(file, Path):
        with file.open("rb") as stream:
            return stream.read(len(SQLITE)) == SQLITE
    start = file.tell()
    head = file.read(len(SQLITE))
    file.seek(start)
    return head == SQLITE


def required(item: Mapping[str, Any], *fields: str) -> str:
    """Return the text in the first of the fields that has one; raises `InputError` if none has."""
    for field in fields:
        value = item.get(field)
        if isinstance(value, str) and value.strip():
            return value
    raise InputError(fields[0], None, "Give its text.", "is missing or has no text")


def objects(field: str, value: object) -> dict[str, Any]:
    """Return a JSON object as it is; raises `InputError` for other values, and an error that stands for a value."""
    if isinstance(value, InputError):
        raise value
    if not isinstance(value, dict):
        raise wrong_type(field, value, "Give a JSON object.")
    return value


def instant(field: str, value: object) -> datetime | None:
    """Return an aware instant from ISO 8601 (without an offset: UTC), or from seconds or milliseconds since 1970.

    None, an empty text: None. Raises `InputError` for other values.
    """
    if value is None or value == "":
        return None
    if isinstance(value, str):
        try:
            found = datetime.fromisoformat(value.strip())
        except ValueError:
            raise InputError(field, value, "Give ISO 8601.", "is no time") from None
        return found if found.tzinfo else found.replace(tzinfo=UTC)
    try:
        return moment(value)
    except InputError as error:
        raise error.at(field) from None


def name(value: object) -> str | None:
    """Return a text or number as a name that a scope, tag or speaker accepts, or None if nothing is left of it."""
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        return None
    clean = "".join(sign if sign.isprintable() else " " for sign in str(value)).strip()
    if len(clean) > NAME_LIMIT:
        mark = content_hash(clean)[:16]
        clean = f"{clean[: NAME_LIMIT - len(mark) - 1].rstrip()}~{mark}"
    return clean or None


def names(values: object) -> list[str]:
    """Return the names in a list, without repetitions; nothing for other values."""
    found = map(name, values) if isinstance(values, (list, tuple)) else ()
    return list(dict.fromkeys(one for one in found if one))


def key(source: str, *parts: object) -> str:
    """Return the idempotency key `source:part`; a long one ends with a hash."""
    return name(":".join((source, *map(str, parts)))) or source


def original(record: object) -> dict[str, Any]:
    """Return metadata with the record under `original`, cut to fit the limit of metadata."""
    text, many = 1_000_000, 1_000_000
    value = _plain(record, METADATA_DEPTH - 2, text, many)
    while json_size(value) > ORIGINAL_LIMIT:
        size = json_size(value)
        text = min(text // 2, size // 2) if text > 64 else text
        many = many if text > 64 else max(1, min(many // 2, 1024))
        value = _plain(record, METADATA_DEPTH - 2, text, many) if many > 1 else CUT
    return {"original": value}


def _plain(value: Any, depth: int, text: int, many: int) -> Any:
    """Return a JSON value that metadata accepts, with texts of at most `text` characters and `many` items a level."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return value if abs(value) < 2**63 else str(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if depth == 0:
        return CUT
    if isinstance(value, Mapping):
        items = [(name(item) or "_", _plain(one, depth - 1, text, many)) for item, one in list(value.items())[:many]]
        return dict(items) | ({} if len(value) <= many else {CUT: len(value) - many})
    if isinstance(value, (list, tuple)):
        found = [_plain(one, depth - 1, text, many) for one in value[:many]]
        return found if len(value) <= many else [*found, CUT]
    clean = str(value).replace("\x00", " ").encode("utf-8", "replace").decode()
    return clean if len(clean) <= text else f"{clean[:text]} {CUT}"


def each(items: Iterable[tuple[int, Any]], convert: Callable[[int, dict[str, Any]], Iterable[Item]]) -> Iterator[Item]:
    """Yield the records and problems that `convert` makes of each numbered item; for one item they may be several.

    An item that is no JSON object, or for which `convert` raises `InputError`, becomes a problem.
    """
    for number, item in items:
        try:
            yield from convert(number, objects("record", item))
        except InputError as error:
            yield problem(number, error)


def problem(number: int, error: InputError, place: str = "") -> Problem:
    """Return an error as the problem of a record; `place` says where in the record it is."""
    return Problem(number, " ".join(filter(None, (place, error.field, error.problem))), error.remedy)


def json_items(file: IO[bytes] | Path, *fields: str) -> Iterator[tuple[int, Any]]:
    """Yield the number and value of each item of JSON lines, of a JSON list, or of the lists in an object's `fields`.

    Lines are read one by one.

    Raises:
        InputError: a list that is not valid JSON.
    """
    with opened(file) as stream:
        first = stream.readline()
        try:
            value = parsed(first)
        except ValueError:
            first += stream.read()  # JSON of many lines, or lines of which the first is invalid
            try:
                value = parsed(first)
            except ValueError:
                if first.removeprefix(BOM_UTF8).lstrip().startswith(b"["):
                    remedy, cause = "Give the file as exported.", "is not valid JSON"
                    raise InputError("file", Words("a file that is not JSON"), remedy, cause) from None
                yield from json_lines(BytesIO(first))
                return
        if isinstance(value, dict) and any(isinstance(value.get(field), list) for field in fields):
            value = [item for field in fields if isinstance(value.get(field), list) for item in value[field]]
        yield from enumerate(value if isinstance(value, list) else [value], start=1)
        for number, line in json_lines(stream):
            yield number + 1, line


def files_in(folder: Path, *suffixes: str) -> list[Path]:
    """Return the files with these suffixes in a folder and its subfolders, in the order of their paths.

    Hidden files and folders, and links that lead out of the folder, are left out.
    """
    root = folder.resolve()
    return [
        path
        for path in sorted(folder.rglob("*"))
        if path.suffix.lower() in suffixes
        and not any(part.startswith(".") for part in path.relative_to(folder).parts)
        and path.is_file()
        and path.resolve().is_relative_to(root)
    ]


def turn(
    source: str,
    number: int,
    id: str,
    content: str,
    *,
    speaker: str,
    session: str,
    created: datetime | None,
    metadata: Mapping[str, Any],
    **fields: Any,
) -> Record:
    """Return a message of a conversation as a turn of its session; `fields` are further fields of the draft."""
    return Record(
        number,
        {
            "content": content,
            "kind": "turn",
            "speaker": speaker,
            "session_id": session,
            "created_at": created,
            "key": key(source, id),
            "metadata": metadata,
            **fields,
        },
    )
