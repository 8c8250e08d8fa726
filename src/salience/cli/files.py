"""Files of any known format into a store, with the progress told."""

from __future__ import annotations

import shutil
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from itertools import groupby, islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final, Literal

from salience.cli.options import STDIN
from salience.engine import Engine
from salience.errors import ImportLineError, InputError, Words
from salience.evaluate import datasets
from salience.text import content_hash
from salience.transfer.files import is_export

if TYPE_CHECKING:
    from salience.client import Client

CHUNK: Final = 100
"""Turns of a session that are stored in one transaction."""
MOST_FILES: Final = 10_000
"""Most files that a pattern may match in a folder."""
Progress = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class Loaded:
    """What became of one file: counts as of `TransferReport`, and how many sessions and split messages it has."""

    file: str
    written: int
    unchanged: int = 0
    sessions: int = 0
    split: int = 0
    skipped: tuple[tuple[int, str], ...] = ()


def named(paths: Sequence[Path], pattern: str | None) -> list[Path]:
    """Return the files that the paths name: themselves, and of each folder those in it that match the pattern.

    A link that leads out of its folder is left out.

    Raises:
        InputError: a folder without a pattern; a pattern that no file in a folder matches, or more than `MOST_FILES`.
    """
    return [file for path in paths for file in (_inside(path, pattern) if path.is_dir() else [path])]


def _inside(folder: Path, pattern: str | None) -> list[Path]:
    if pattern is None:
        raise InputError(str(folder), Words("a folder"), "Name its files, or match them: FOLDER --glob '*.json'")
    try:
        matched = (path for path in folder.glob(pattern) if path.is_file() and _is_in(path, folder))
        found = sorted(islice(matched, MOST_FILES + 1))
    except (ValueError, NotImplementedError):
        raise InputError("--glob", pattern, "Give a pattern relative to the folder: '*.json', '**/*.json'.") from None
    if not found:
        remedy = "A pattern such as '**/*.json' looks in the folders below it too."
        raise InputError("--glob", pattern, remedy, f"matches no file in {folder}")
    if len(found) > MOST_FILES:
        remedy = "Give a narrower pattern, or a folder below."
        raise InputError("--glob", pattern, remedy, f"matches more than {MOST_FILES:,} files")
    return found


def _is_in(path: Path, folder: Path) -> bool:
    """Return whether a file lies in a folder or below it, once links are followed."""
    return path.resolve().is_relative_to(folder.resolve())


@contextmanager
def at_hand(paths: Sequence[Path]) -> Iterator[list[Path]]:
    """Yield the paths with `-` replaced by a copy of standard input, since a format is told by reading twice."""
    with TemporaryDirectory(prefix="salience-") as folder:
        copy = Path(folder) / "stdin"
        if Path(STDIN) in paths:
            with copy.open("wb") as file:
                shutil.copyfileobj(sys.stdin.buffer, file)
        yield [copy if path == Path(STDIN) else path for path in paths]


def turns(path: Path, session_id: str | None) -> Iterator[tuple[str, datasets.Message]]:
    """Yield the turns of a conversation; those that name no session go into `session_id`, if one is given."""
    own = path.stem  # what datasets calls the session of a message that names none
    for session, message in datasets.turns(path):
        yield (session_id if session_id is not None and session == own else session), message


def count_turns(path: Path) -> int:
    """Return how many turns a file has, all of them read: a broken one is told before anything is stored.

    Raises:
        InputError: a message that cannot be read.
    """
    return sum(1 for _ in datasets.turns(path))


def ingest(engine: Engine | Client, path: Path, where: Mapping[str, Any], advance: Progress) -> Loaded:
    """Store the turns of a conversation, each under its session, and return counts."""
    statuses, places, split = Counter[str](), Counter[str](), 0
    for session, held in groupby(turns(path, where.get("session_id")), key=lambda turn: turn[0]):
        while chunk := [message for _, message in islice(held, CHUNK)]:
            keyed = [_keyed(message, path, session, places[session] + place) for place, message in enumerate(chunk)]
            places[session] += len(chunk)
            receipts = engine.ingest(keyed, **{**where, "session_id": session})
            statuses.update(receipt.status for receipt in receipts)
            split += sum(receipt.memory.metadata.get("part") == 1 for receipt in receipts)
            advance(len(chunk))
    return Loaded(str(path), statuses["created"], statuses["unchanged"], sessions=len(places), split=split)


def _keyed(message: datasets.Message, source: Path, session: str, place: int) -> dict[str, Any]:
    """Return a message with a key by which the same file, read again or grown, stores no turn twice."""
    named = {item.name: getattr(message, item.name) for item in fields(message)}
    said = (str(source.resolve()), session, place, message.speaker, message.timestamp, message.content)
    return {**named, "key": f"turn {content_hash(repr(said))}"}


def import_any(
    engine: Engine | Client, path: Path, where: Mapping[str, Any], advance: Progress, on_error: Literal["stop", "skip"]
) -> Loaded:
    """Store an export, drafts or a conversation, and return counts."""
    if not is_lines(path):
        return ingest(engine, path, where, advance)
    report = engine.import_(path, on_error=on_error, progress=steps(advance), **where)
    return Loaded(str(path), report.written, report.unchanged, skipped=report.skipped)


def steps(advance: Progress) -> Progress:
    """Return a function that takes how many are done so far, and hands on how many more that are than before."""
    done = 0

    def so_far(count: int) -> None:
        nonlocal done
        advance(count - done)
        done = count

    return so_far


def count(path: Path) -> int:
    """Return about how many memories a file has: its lines, or the turns of a conversation as `count_turns` does."""
    if not is_lines(path):
        return count_turns(path)
    with path.open("rb") as file:
        return sum(1 for line in file if line.strip()) - is_export(path)


def is_lines(path: Path) -> bool:
    """Return whether a file is an export or drafts, one JSON object a line, rather than a conversation.

    A file whose first line cannot be read counts as lines: to tell of that line is a matter of the import.
    """
    try:
        return is_export(path) or datasets.detect(path) == "drafts"
    except ImportLineError:
        return True
