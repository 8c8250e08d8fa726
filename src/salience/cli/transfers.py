"""Commands that move many memories: ingest, import, export."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import typer

from salience.cli import files
from salience.cli.calls import Call, command
from salience.cli.files import Loaded
from salience.cli.options import STDIN
from salience.cli.screen import Answer, progress
from salience.cli.signs import one_line
from salience.cli.surface import app
from salience.errors import InputError, Words
from salience.text import counted

Paths = Annotated[
    list[Path], typer.Argument(metavar="PATH...", help="Files, or folders with --glob; - reads standard input.")
]
Glob = Annotated[
    str | None,
    typer.Option(
        "--glob", metavar="PATTERN", help="Files to read in a folder: '*.json'; '**/*.json' for folders below it too."
    ),
]


@command(app)
def ingest(call: Call, paths: Paths, pattern: Glob = None) -> Answer:
    """Store conversations, turn by turn.

    Files may be LoCoMo, a JSON list of messages, or one JSON message a line. A folder is read only with --glob, which
    says which of its files are meant; they are listed on standard error first. Links out of the folder are left out.

    A session keeps the id that the file gives it (LoCoMo: NAME/session_N). Messages that name no session go into
    --session, else into one called as the file. Every file is read through before anything is stored.
    """
    return load(call, "ingested", matched(paths, pattern), files.ingest, files.count_turns)


@command(app, "import")
def import_(
    call: Call,
    paths: Paths,
    pattern: Glob = None,
    on_error: Annotated[
        Literal["stop", "skip"],
        typer.Option("--on-error", help="What a broken line does: stop stores nothing of its file."),
    ] = "stop",
) -> Answer:
    """Store exports and lines of drafts.

    Files of conversations are stored as `ingest` does it, and folders are read as there.

    The scope options hold for coordinates that a draft does not name; memories of an export keep theirs. A memory that
    is already there is left as it is.
    """
    return load(call, "imported", matched(paths, pattern), partial(files.import_any, on_error=on_error), files.count)


@command(app)
def export(
    call: Call,
    path: Annotated[Path | None, typer.Argument(metavar="PATH", help="A new file. Default: standard output.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an export that is there.")] = False,
) -> Answer:
    """Write memories, versions and vectors as lines of JSON.

    A scope option that is not given stands for every value, so that an export without any is whole. To standard output
    goes the export and nothing else.
    """
    path = None if path == Path(STDIN) else path
    if call.as_json and path is None:
        raise InputError(
            "--json",
            Words("an export to standard output"),
            "Name a PATH to have the counts as JSON.",
            "is not for an export to standard output",
        )
    started = time.perf_counter()
    aloud = path is not None or not sys.stdout.isatty()
    with call.engine() as engine, progress("exporting", None, aloud) as advance:
        file = sys.stdout if path is None else path
        made = engine.export(file, overwrite=force, progress=files.steps(advance), **call.where)
    if path is None:
        return Answer(None, tuple)
    return report("exported", [Loaded(str(path), made.written)], time.perf_counter() - started)


def matched(paths: Sequence[Path], pattern: str | None) -> list[Path]:
    """Return the files to read; those that a pattern found are listed on standard error before any is read."""
    found = files.named(paths, pattern)
    if pattern is not None:
        typer.echo(
            "\n".join([f"{counted(len(found), 'file')} to read:", *(one_line(str(file)) for file in found)]), err=True
        )
    return found


def load(
    call: Call, done: str, paths: Sequence[Path], into: Callable[..., Loaded], count: Callable[[Path], int]
) -> Answer:
    """Store the memories of files by `into`, once `count` has read them all, and report in the word `done`."""
    started = time.perf_counter()
    with call.engine(create=True) as engine, files.at_hand(paths) as ready:
        total = sum(map(count, ready))
        with progress(done.removesuffix("ed") + "ing", total) as advance:
            loaded = [into(engine, path, call.where, advance) for path in ready]
    named = [replace(one, file=str(path)) for one, path in zip(loaded, paths, strict=True)]
    return report(done, named, time.perf_counter() - started)


def report(done: str, loaded: Sequence[Loaded], seconds: float) -> Answer:
    """Return what became of files: the refused lines, then counts and memories a second."""
    written, unchanged, sessions, split = (
        sum(getattr(one, name) for one in loaded) for name in ("written", "unchanged", "sessions", "split")
    )
    refused = [f"{one.file}: {reason}" for one in loaded for _, reason in one.skipped]
    rate = (written + unchanged) / seconds
    record = {
        "written": written,
        "unchanged": unchanged,
        "sessions": sessions,
        "split": split,
        "seconds": seconds,
        "per_second": rate,
        "files": loaded,
    }
    said = [
        f"{done} {counted(written, 'memory', 'memories')}",
        *([f"in {counted(sessions, 'session')}"] if sessions else []),
    ]
    besides = [*([f"{unchanged:,} already there"] if unchanged else [])]
    besides += [f"{counted(split, 'message')} over the content limit split into parts"] if split else []
    besides += [f"{counted(len(refused), 'line')} skipped"] if refused else []
    last = " ".join(said) + "".join(f", {item}" for item in besides) + f": {seconds:.1f} s, {rate:,.0f} memories/s"
    return Answer(record, lambda: [one_line(line) for line in (*refused, last)])
