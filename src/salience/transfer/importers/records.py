"""Records of other systems: the values that every reader yields, and helpers to make them.

A reader is a function `read(file: File) -> Iterator[Item]`. It raises `InputError` if the file as a whole is not of its
system, and yields a `Problem` for each record that it cannot use. Its keys are ids in its system.
"""

from __future__ import annotations

import math
import re
import shutil
import sqlite3
from codecs import BOM_UTF8
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain
from json import JSONDecodeError, JSONDecoder
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import IO, Any, Final, TypeVar

from salience.errors import InputError, Words
from salience.lines import moment
from salience.records.checks import METADATA_DEPTH, METADATA_LIMIT, NAME_LIMIT, json_size
from salience.text import content_hash

T = TypeVar("T")
SQLITE: Final = b"SQLite format 3\0"
"""First bytes of an SQLite file."""
CUT: Final = "[cut by the import]"
"""Marks the places of `metadata["original"]` where values were left out to fit."""
ORIGINAL_LIMIT: Final = METADATA_LIMIT - 4096
"""Largest original record in the metadata, bytes; the rest is for other metadata."""
CORRECT: Final = "Correct the record and import it again."
CUT_OFF: Final = InputError("file", Words("cut off"), "Import it again once it is complete.", "ends inside this record")
NO_JSON: Final = InputError("text", Words("no JSON"), CORRECT, "is not valid JSON")
NO_UTF8: Final = InputError("text", Words("no UTF-8"), "Save the file as UTF-8.", "is not UTF-8")
JSON_TYPES: Final[Mapping[type, str]] = {
    dict: "an object", list: "a list", str: "a text", bool: "true or false", int: "a number", float: "a number",
}  # fmt: skip
EPOCH: Final = re.compile(r"\d{9,}(?:\.\d*)?")
"""Seconds or milliseconds since 1970, written as text."""
_BETWEEN: Final = re.compile(r"[\s,]*")
_decode: Final = JSONDecoder().raw_decode


@dataclass(frozen=True, slots=True)
class Record:
    """A record of another system as a memory to store.

    Attributes:
        number: line of the file, or position in it from 1, for messages.
        draft: fields of `Draft` and coordinates of its scope, as in a line of drafts; `key` is required.
        supersedes: key of the record that this one replaces; it may come later in the file.
        ended: aware instant from which the record no longer held; `as_of` an earlier instant still finds it.
        began: aware instant from which the record held; None: its `created_at`. `as_of` finds it from then on.
        entities: entities of the memory, besides those that its text names.
        file: name of its file in a folder or ZIP file.
    """

    number: int
    draft: Mapping[str, Any]
    supersedes: str | None = None
    ended: datetime | None = None
    began: datetime | None = None
    entities: tuple[str, ...] = ()
    file: str = ""


@dataclass(frozen=True, slots=True)
class Problem:
    """A record that cannot be imported.

    Attributes:
        number: as in `Record`.
        reason: a clause, such as "content is missing".
        remedy: an imperative sentence.
        stops: whether the import stops here if it stops at errors. The end of a file that is still written never does.
        file: as in `Record`.
    """

    number: int
    reason: str
    remedy: str = CORRECT
    stops: bool = True
    file: str = ""


Item = Record | Problem


@dataclass(frozen=True, slots=True)
class File:
    """A file of an export: on disk, in a ZIP file, or open already.

    Attributes:
        name: path in the folder or ZIP file, name of a file by itself; empty for an open file.
        open: opens the file to read it from its start.
        modified: time of its last change, if known.
        path: place on disk, if it is there.
    """

    name: str
    open: Callable[[], AbstractContextManager[IO[bytes]]]
    modified: datetime | None = None
    path: Path | None = None

    @classmethod
    def at(cls, path: Path, name: str | None = None) -> File:
        """Return the file at a path; raises `OSError` if there is none."""
        modified = datetime.fromtimestamp(path.stat().st_mtime, UTC)
        return cls(name or path.name, lambda: path.open("rb"), modified, path)


def each(
    items: Iterable[tuple[int, Any]], convert: Callable[[int, dict[str, Any]], Record | Iterable[Item] | None]
) -> Iterator[Item]:
    """Yield the records and problems that `convert` makes of each numbered item; None leaves an item out.

    An item that is an error or no JSON object, or for which `convert` raises `InputError`, becomes a problem.
    """
    for number, item in items:
        if isinstance(item, InputError):
            yield problem(number, item)
            continue
        try:
            made = convert(number, checked("record", item, dict))
            if isinstance(made, Record):
                yield made
            elif made is not None:
                yield from made
        except InputError as error:
            yield problem(number, error)


def problem(number: int, error: InputError, place: str = "") -> Problem:
    """Return an error as the problem of a record; `place` says where in the record it is."""
    reason = " ".join(filter(None, (place, error.field, error.problem)))
    return Problem(number, reason, error.remedy, stops=error is not CUT_OFF)


def known(items: Iterable[tuple[int, Any]], system: str, *fields: str) -> Iterator[tuple[int, Any]]:
    """Yield the items of an export as they are.

    Raises:
        InputError: none of the items is an object with one of the fields.
    """
    first: list[tuple[int, Any]] = []
    items = iter(items)
    for item in items:
        first.append(item)
        if isinstance(item[1], dict) and not item[1].keys().isdisjoint(fields):
            break
    else:
        if any(item is not CUT_OFF for _, item in first):
            remedy = f"Give the file as {system} exported it. Its records have one of the fields: {', '.join(fields)}."
            raise InputError("file", Words("another file"), remedy, f"is no {system} export")
    yield from first
    yield from items


def json_items(file: File, *lists: str) -> Iterator[tuple[int, Any]]:
    """Yield the number and value of each record in JSON; for invalid JSON the error, which `each` reports.

    Records are the items of a list, or objects one after another, such as one a line. An object with one of the fields
    `lists` stands for the items of these fields; `result.points` is a field in a field. Lines are read one by one.
    """
    with file.open() as stream:
        lines: Iterable[tuple[int, bytes]] = enumerate(stream, start=1)
        number, line = next(((at, line) for at, line in lines if line.strip()), (1, b""))
        line = line.removeprefix(BOM_UTF8)
        if line.lstrip().startswith(b"["):
            yield from enumerate(_inner(_values(line + stream.read()), lists), start=1)
            return
        if isinstance(next(_values(line), None), InputError):
            text = line + stream.read()
            if not isinstance(next(_values(text)), InputError):  # objects with line breaks in them
                yield from enumerate(_inner(_values(text), lists), start=1)
                return
            lines = enumerate(text.splitlines(keepends=True), number)
        else:
            lines = chain([(number, line)], lines)
        for number, line in lines:
            for value in _values(line):
                inner = list(_inner([value], lists))
                yield from enumerate(inner, 1) if inner != [value] else [(number, value)]


def _values(data: bytes) -> Iterator[Any]:
    """Yield the items of a JSON list, or JSON values one after another; then the error, if the rest is no JSON."""
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        yield CUT_OFF if error.reason == "unexpected end of data" else NO_UTF8
        return
    is_list = text.lstrip().startswith("[")
    position = _after(text, text.index("[") + 1 if is_list else 0)
    while position < len(text) and not (is_list and text[position] == "]"):
        try:
            value, position = _decode(text, position)
        except JSONDecodeError as error:
            yield CUT_OFF if _is_cut(text, error) else NO_JSON
            return
        except (RecursionError, ValueError):  # nested too deeply, or a number that is too long
            yield NO_JSON
            return
        yield value
        position = _after(text, position)
    if is_list and position == len(text):
        yield CUT_OFF


def _after(text: str, position: int) -> int:
    """Return the position after white space and commas."""
    found = _BETWEEN.match(text, position)
    return found.end() if found else position


def _is_cut(text: str, error: JSONDecodeError) -> bool:
    """Return whether JSON is invalid because its end is missing, as in a file that is still written."""
    if text.endswith("\n") or not text.lstrip().startswith(("{", "[")):
        return False
    return error.pos >= len(text) or error.msg.startswith("Unterminated") or not text.endswith(("}", "]"))


def _inner(values: Iterable[Any], lists: Sequence[str]) -> Iterator[Any]:
    """Yield values, and instead of objects with fields of `lists` the items of these."""
    for value in values:
        found = [inner for path in lists if isinstance(inner := _at(value, path), list)]
        yield from chain(*found) if found else [value]


def _at(value: Any, path: str) -> Any:
    for field in path.split("."):
        value = value.get(field) if isinstance(value, dict) else None
    return value


@contextmanager
def database(file: File) -> Iterator[sqlite3.Connection]:
    """Yield a connection to an SQLite file, which it only reads; a file that is not on disk is copied first.

    Raises:
        InputError: the file cannot be read as a database.
    """
    with ExitStack() as stack:
        path = file.path
        if path is None:
            copy = stack.enter_context(NamedTemporaryFile(suffix=".db"))
            with file.open() as stream:
                shutil.copyfileobj(stream, copy)
            copy.flush()
            path = Path(copy.name)
        try:
            connection = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)
            connection.row_factory = sqlite3.Row
            stack.callback(connection.close)
            yield connection
        except sqlite3.Error as error:
            reason = "is not a database that can be read"
            raise InputError("file", Words(str(error)), "Give a copy of the database file.", reason) from None


def is_database(file: File) -> bool:
    """Return whether a file starts like an SQLite database."""
    with file.open() as stream:
        return stream.read(len(SQLITE)) == SQLITE


def required(item: Mapping[str, Any], *fields: str) -> str:
    """Return the text in the first of the fields that has one; raises `InputError` if none has."""
    for field in fields:
        value = item.get(field)
        if isinstance(value, str) and value.strip():
            return value
    raise InputError(fields[0], None, "Give its text.", "is missing or has no text")


def checked(field: str, value: object, kind: type[T]) -> T:
    """Return a JSON value of a type, such as `dict`; raises `InputError` for values of other types."""
    if isinstance(value, kind):
        return value
    problem = None if value is None else f"is {JSON_TYPES[type(value)]} instead of {JSON_TYPES[kind]}"
    raise InputError(field, None if value is None else Words(JSON_TYPES[type(value)]), CORRECT, problem)


def instant(field: str, value: object) -> datetime | None:
    """Return an aware instant from ISO 8601 (without an offset: UTC), or from seconds or milliseconds since 1970.

    Numbers may be texts. None, 0, an empty text: None. Raises `InputError` for other values.
    """
    if value is None or value == "" or value == 0:
        return None
    if isinstance(value, str) and EPOCH.fullmatch(value.strip()):
        value = float(value)
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


def readable_instant(value: object) -> datetime | None:
    """Return an instant as `instant` does, and None for a value that is no time."""
    try:
        return instant("time", value)
    except InputError:
        return None


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


def turn(
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
    draft = {"content": content, "kind": "turn", "speaker": speaker, "session_id": session, "created_at": created}
    return Record(number, {**draft, "key": id, "metadata": metadata, **fields})
