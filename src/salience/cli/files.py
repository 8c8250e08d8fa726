"""Commands that move many memories: ingest, import, export, copy."""

from __future__ import annotations

import shutil
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from hashlib import sha256
from itertools import groupby, islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import typer

from salience.cli.options import STDIN, Call, command, options
from salience.cli.output import Advance, Answer, one_line, progress, so_far
from salience.errors import ImportLineError, InputError, Words
from salience.records.answers import counted
from salience.verbs import Verbs

if TYPE_CHECKING:
    from salience.evaluate.datasets import Message

app = typer.Typer()
CHUNK: Final = 100
"""Turns stored in one transaction."""
MOST_FILES: Final = 10_000
"""Maximum files that a pattern may match in a folder."""

Paths = Annotated[
    list[Path], typer.Argument(metavar="PATH...", help="Files, or folders with --glob; - reads standard input.")
]
Glob = Annotated[
    str | None,
    typer.Option("--glob", metavar="PATTERN", help="Files to read in a folder: '*.json'; '**/*.json' with subfolders."),
]


@dataclass(frozen=True, slots=True)
class Loaded:
    """The result of loading one file: counts as in `TransferReport`, and of sessions and split messages."""

    file: str
    written: int
    unchanged: int = 0
    sessions: int = 0
    split: int = 0
    skipped: tuple[tuple[int, str], ...] = ()
    kinds: Mapping[str, int] = field(default_factory=dict)


@command(app, options=options("ingest", "messages"))
def ingest(call: Call, paths: Paths, pattern: Glob = None) -> Answer:
    """Store conversations, turn by turn.

    Files may be LoCoMo, a JSON list of messages, or one JSON message per line. A folder is read only with --glob, which
    selects its files; they are listed on standard error first. Links out of the folder are skipped.

    A session keeps the id that the file gives it (LoCoMo: NAME/session_N). Messages without a session go into
    --session, or into one named after the file. Every file is read completely before anything is stored.
    """
    return _load(call, "ingested", _matched(paths, pattern), _ingest, _count_turns)


@command(app, "import", options=options("import_", "on_error dry_run"))
def import_(
    call: Call,
    paths: Paths,
    pattern: Glob = None,
    on_error: Annotated[
        Literal["stop", "skip"] | None,
        typer.Option(
            "--on-error",
            help="On an invalid line or record: skip it, or stop and store nothing of its file."
            " Default: skip with --from, else stop.",
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check everything, and count without storing.")] = False,
) -> Answer:
    """Store exports, lines of drafts, or the export of another system.

    Conversations are stored as by `ingest`, and folders are read the same way. With --from, the export of a SOURCE may
    be a file, a folder or a ZIP file as it comes; an unknown SOURCE lists the known ones. Records that cannot be read
    are listed, and the others are stored.

    The scope options apply to coordinates that a draft or record does not name; memories of an export keep theirs. A
    memory that already exists is left unchanged.
    """
    source = call.given.pop("source", None)
    load = partial(_import, source=source, on_error=on_error, dry_run=dry_run)
    count = _count if source is None else None
    return _load(call, "imported", _matched(paths, pattern, whole=source is not None), load, count, dry_run)


@command(app, options=options("export"))
def export(
    call: Call,
    path: Annotated[Path | None, typer.Argument(metavar="PATH", help="A new file. Default: standard output.")] = None,
    format: Annotated[
        Literal["jsonl", "markdown", "mem0"],
        typer.Option("--to", help="jsonl: everything, for import; markdown: a folder of notes; mem0: its JSON."),
    ] = "jsonl",
    force: Annotated[bool, typer.Option("--force", help="Replace an existing export.")] = False,
) -> Answer | None:
    """Write memories, versions and vectors as lines of JSON.

    Without scope options, the export is complete; each option limits it. Standard output receives only the export.
    With --to markdown or mem0, only the live memories are written, without older versions and vectors.
    """
    path = None if path == Path(STDIN) else path
    if call.as_json and path is None:
        value, problem = Words("an export to standard output"), "is not for an export to standard output"
        raise InputError("--json", value, "Name a PATH to have the counts as JSON.", problem)
    started = time.perf_counter()
    aloud = path is not None or not sys.stdout.isatty()
    with call.engine() as engine, progress("exporting", None, aloud) as advance:
        file = sys.stdout if path is None else path
        made = engine.export(file, format=format, overwrite=force, progress=so_far(advance), **call.given)
    if path is None:
        return None
    return _report("exported", [Loaded(str(path), made.written)], time.perf_counter() - started)


@command(app)
def copy(
    _: Call,
    source: Annotated[str, typer.Argument(metavar="FROM", help="A store: a file, or the URL of a database.")],
    target: Annotated[str, typer.Argument(metavar="TO", help="Another store; created if it is missing.")],
    tenant: Annotated[
        list[str] | None, typer.Option("--tenant", metavar="NAME", help="Copy only this tenant; may be repeated.")
    ] = None,
) -> Answer:
    """Copy the memories of a store into another one.

    Memories keep their ids, versions, vectors, counters and places in sessions. Both stores may be in use. Run the
    command again to continue a copy that was cut off: memories that are there already are left as they are.
    """
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    from salience import compose

    with progress("copying", None) as advance:
        done = so_far(advance)
        report = compose.copy(source, target, tenants=tenant or None, progress=lambda count, _: done(count))
    summary = f"copied {counted(report.written, 'memory', 'memories')} of {counted(len(report.tenants), 'tenant')}"
    present = f"; {report.unchanged:,} were there already" if report.unchanged else ""
    summary = one_line(f"{summary} to {report.target}{present}")
    shown, lines = Table("tenant", box=None, pad_edge=False), []
    for name in next(iter(report.tenants.values()), {}):
        shown.add_column(name, justify="right")
    shown.add_column("checksum", style="dim")
    for name, tables in report.tenants.items():
        checksum = sha256("\n".join(found.checksum for found in tables.values()).encode()).hexdigest()[:12]
        counts = " ".join(f"{table}={found.rows}" for table, found in tables.items())
        lines.append("\t".join((one_line(name), counts, checksum)))
        shown.add_row(Text(one_line(name)), *(f"{found.rows:,}" for found in tables.values()), checksum)
    return Answer(report, [*lines, summary], Group(shown, Text(summary)))


def _matched(paths: Sequence[Path], pattern: str | None, whole: bool = False) -> list[Path]:
    """Return the files to read, and list those that a pattern matched on stderr; `whole` keeps folders without one."""
    is_kept = whole and pattern is None
    found = [file for path in paths for file in (_inside(path, pattern) if path.is_dir() and not is_kept else [path])]
    if pattern is not None:
        files = (one_line(str(file)) for file in found)
        typer.echo("\n".join([f"{counted(len(found), 'file')} to read:", *files]), err=True)
    return found


def _inside(folder: Path, pattern: str | None) -> list[Path]:
    """Return the files in a folder that match; links that lead out of the folder are skipped."""
    if pattern is None:
        raise InputError(str(folder), Words("a folder"), "Name its files, or match them: FOLDER --glob '*.json'")
    root = folder.resolve()
    try:
        matched = (path for path in folder.glob(pattern) if path.is_file() and path.resolve().is_relative_to(root))
        found = sorted(islice(matched, MOST_FILES + 1))
    except (ValueError, NotImplementedError):
        raise InputError("--glob", pattern, "Give a pattern relative to the folder: '*.json', '**/*.json'.") from None
    if not found:
        remedy = "A pattern such as '**/*.json' includes subfolders."
        raise InputError("--glob", pattern, remedy, f"matches no file in {folder}")
    if len(found) > MOST_FILES:
        remedy = "Give a narrower pattern, or a subfolder."
        raise InputError("--glob", pattern, remedy, f"matches more than {MOST_FILES:,} files")
    return found


def _load(
    call: Call,
    done: str,
    paths: Sequence[Path],
    load: Callable[..., Loaded],
    count: Callable[[Path], int] | None,
    dry_run: bool = False,
) -> Answer:
    """Store the memories of files, once `count` has read all of them; None: their number is not known before."""
    started = time.perf_counter()
    with call.engine(create=True) as engine, TemporaryDirectory(prefix="salience-") as folder:
        copied, ready = Path(folder) / "stdin", list(paths)
        if Path(STDIN) in paths:  # a copy, since detecting the format reads a file twice
            with copied.open("wb") as file:
                shutil.copyfileobj(sys.stdin.buffer, file)
            ready = [copied if path == Path(STDIN) else path for path in paths]
        total = None if count is None else sum(map(count, ready))
        with progress(done.removesuffix("ed") + "ing", total) as advance:
            loaded = [load(engine, path, call.given, advance) for path in ready]
    named = [replace(one, file=str(path)) for one, path in zip(loaded, paths, strict=True)]
    return _report(f"would have {done}" if dry_run else done, named, time.perf_counter() - started)


def _report(done: str, loaded: Sequence[Loaded], seconds: float) -> Answer:
    """Return the skipped lines, then counts and memories per second."""
    kinds = sum((Counter(one.kinds) for one in loaded), Counter[str]())

    counts = {name: sum(getattr(one, name) for one in loaded) for name in ("written", "unchanged", "sessions", "split")}
    skipped = [f"{one.file}: {reason}" for one in loaded for _, reason in one.skipped]
    rate = (counts["written"] + counts["unchanged"]) / seconds
    record = {**counts, "kinds": dict(kinds), "seconds": seconds, "per_second": rate, "files": loaded}
    line = f"{done} {counted(counts['written'], 'memory', 'memories')}"
    line += f" ({', '.join(f'{count:,} {kind}' for kind, count in kinds.items())})" if len(kinds) > 1 else ""
    line += f" in {counted(counts['sessions'], 'session')}" if counts["sessions"] else ""
    line += f", {counts['unchanged']:,} already there" if counts["unchanged"] else ""
    if counts["split"]:
        line += f", {counted(counts['split'], 'message')} over the content limit split into parts"
    line += f", {len(skipped):,} skipped" if skipped else ""
    return Answer(record, map(one_line, (*skipped, f"{line}: {seconds:.1f} s, {rate:,.0f} memories/s")))


def _ingest(engine: Verbs, path: Path, where: Mapping[str, Any], advance: Advance) -> Loaded:
    """Store the turns of a conversation, each in its session.

    Each turn has an idempotency key of its file, place and content, so that reading a file again stores none twice.
    """
    from salience.evaluate import datasets
    from salience.text import content_hash

    def session_of(turn: tuple[str, Message]) -> str:
        unnamed = where.get("session_id") or path.stem  # `datasets.turns` names a session without an id by the stem
        return unnamed if turn[0] == path.stem else turn[0]

    statuses, places, split, source = Counter[str](), Counter[str](), 0, str(path.resolve())
    for session, turns in groupby(datasets.turns(path), key=session_of):
        while chunk := list(islice(turns, CHUNK)):
            messages = []
            for place, (_, message) in enumerate(chunk, places[session]):
                identity = (source, session, place, message.speaker, message.timestamp, message.content)
                named = {item.name: getattr(message, item.name) for item in fields(message)}
                messages.append({**named, "key": f"turn {content_hash(repr(identity))}"})
            places[session] += len(chunk)
            receipts = engine.ingest(messages, **{**where, "session_id": session})
            statuses.update(receipt.status for receipt in receipts)
            split += sum(receipt.memory.metadata.get("part") == 1 for receipt in receipts)
            advance(len(chunk))
    return Loaded(str(path), statuses["created"], statuses["unchanged"], sessions=len(places), split=split)


def _count_turns(path: Path) -> int:
    """Return the number of turns; reads all of them, so an invalid one fails before anything is stored."""
    from salience.evaluate import datasets

    return sum(1 for _ in datasets.turns(path))


def _import(
    engine: Verbs,
    path: Path,
    where: Mapping[str, Any],
    advance: Advance,
    *,
    source: str | None,
    on_error: Literal["stop", "skip"] | None,
    dry_run: bool,
) -> Loaded:
    """Store an export, drafts, a conversation, or the export of another system."""
    if source is None and not _is_lines(path):
        if dry_run:
            raise InputError("--dry-run", Words("a conversation"), "Leave it out.", "is not for conversations")
        return _ingest(engine, path, where, advance)
    options: dict[str, Any] = {"source": source, "dry_run": dry_run, "progress": so_far(advance)}
    report = engine.import_(path, on_error=on_error, **options, **where)
    return Loaded(str(path), report.written, report.unchanged, skipped=report.skipped, kinds=report.kinds)


def _count(path: Path) -> int:
    """Return the approximate number of memories in a file."""
    from salience.transfer.files import is_export

    if not _is_lines(path):
        return _count_turns(path)
    with path.open("rb") as file:
        return sum(1 for line in file if line.strip()) - is_export(path)


def _is_lines(path: Path) -> bool:
    """Return whether a file is an export or drafts; a file whose first line is invalid is left to the import."""
    from salience.evaluate import datasets
    from salience.transfer.files import is_export

    try:
        return is_export(path) or datasets.detect(path) == "drafts"
    except ImportLineError:
        return True
