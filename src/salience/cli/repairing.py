"""Commands that keep a store whole: backup, reinstate, doctor, reembed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from salience import compose
from salience.cli import files
from salience.cli.calls import Call, command
from salience.cli.screen import Answer, progress, show
from salience.cli.signs import one_line, visible
from salience.cli.surface import FAILED, app
from salience.errors import InputError
from salience.records import DoctorReport, Finding, ReembedReport
from salience.records.ids import short_id
from salience.text import counted

MEGABYTE: Final = 1e6


@command(app, scope=())
def backup(
    call: Call,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A new file.")],
    force: Annotated[bool, typer.Option("--force", help="Replace a backup that is there.")] = False,
) -> Answer:
    """Write a copy of the store to a file, while it is in use.

    The copy is the store as it stands at one instant, and a store itself. It gets its name once it is whole.
    """
    compose.require_store(call.options.store)
    with compose.moving(call.options.store, embedder=call.options.embedder) as engine, bar("copying", "pages") as told:
        engine.backup(file, overwrite=force, progress=lambda left, pages: told(pages - left, pages))
    size = file.stat().st_size
    line = f"backed up to {file}: {size / MEGABYTE:,.1f} MB"
    return Answer({"file": str(file), "bytes": size}, lambda: [one_line(line)])


@command(app, scope=())
def reinstate(
    call: Call,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A backup.")],
    yes: Annotated[bool, typer.Option("--yes", help="Go ahead without being asked.")] = False,
    discard: Annotated[bool, typer.Option("--discard", help="Keep no copy of what the store holds now.")] = False,
) -> Answer:
    """Put a backup in the place of what the store holds.

    Processes that have the store open go on with the backup from their next call. What the store holds now is kept in
    a file beside it, whose name ends in .before-reinstate, unless --discard is given.
    """
    place = compose.file_of(call.options.store)
    if place.exists():
        confirm(f"Put {file} in the place of all that {place} holds?", yes)
    with bar("reading", "pages") as told:
        kept = compose.reinstate(
            file, place, keeping=not discard, progress=lambda left, pages: told(pages - left, pages)
        )
    said = [f"{place} holds what {file} does", *([f"what it held before is in {kept}"] if kept else [])]
    record = {"store": str(place), "file": str(file), "kept": None if kept is None else str(kept)}
    return Answer(record, lambda: map(one_line, said))


@command(app, scope=())
def doctor(
    call: Call,
    repair: Annotated[bool, typer.Option("--repair", help="Make anew what can be made from the texts.")] = False,
    deep: Annotated[bool, typer.Option("--deep", help="Embed every text to check its vector; takes long.")] = False,
) -> Answer:
    """Check that a store is whole, and mend it.

    Looked at are the file, its tables and numbers, and, of every memory and version, the text by its hash, the terms
    by which it is found, and the vector. Exit code 1 says that something is wrong.
    """
    compose.require_store(call.options.store)
    with call.engine() as engine, progress("checking", None) as advance:
        found = engine.doctor(repair=repair, deep=deep, progress=files.steps(advance))
    answer = diagnosis(found)
    if found.healthy:
        return answer
    show(answer, call.as_json)
    raise typer.Exit(FAILED)


@command(app, scope=())
def reembed(call: Call) -> Answer:
    """Embed every memory anew with another model.

    The model is that of --embedder, before the command. Recalls and writes go on meanwhile; the store goes over once
    every vector is there. Cut short, it goes on where it stopped when it is run again.
    """
    compose.require_store(call.options.store)
    with compose.moving(call.options.store, embedder=call.options.embedder) as engine, bar("embedding") as told:
        report = engine.reembed(progress=told)
    return Answer(report, lambda: [one_line(summary(report))])


def summary(report: ReembedReport) -> str:
    """Return what a change of the model did as one line."""
    said = f"embedded {counted(report.made, 'version')} with {report.new}"
    if report.resumed:
        said += f", {report.resumed:,} more in a run before"
    return (
        said
        if report.old == report.new
        else f"{said}, in the place of {report.old}: open the store with it from now on"
    )


def diagnosis(found: DoctorReport) -> Answer:
    """Return the state of a store: what is wrong, a line each, then the counts."""
    record = {
        "healthy": found.healthy,
        "memories": found.memories,
        "versions": found.versions,
        "pending": found.pending,
        "findings": found.findings,
    }

    def lines() -> Iterator[str]:
        yield from map(told, found.findings)
        yield counts(found)

    return Answer(record, lines, lambda _: Group(*_view(found)))


def told(finding: Finding) -> str:
    """Return what is wrong as one line."""
    return "\t".join((_state(finding), finding.check, finding.id or "-", one_line(finding.problem)))


def _view(found: DoctorReport) -> Iterator[RenderableType]:
    for finding in found.findings:
        colour = "green" if finding.repaired else "red"
        about = short_id(finding.id) if finding.id else "the store"
        yield Text.assemble((_state(finding), f"bold {colour}"), "  ", (about, "dim"), f"  {visible(finding.problem)}")
    yield Text(counts(found))


def _state(finding: Finding) -> str:
    return "repaired" if finding.repaired else "wrong"


def counts(found: DoctorReport) -> str:
    """Return what was read, and what became of it, as one line."""
    read = f"{counted(found.memories, 'memory', 'memories')} and {counted(found.versions, 'older version')} read"
    pending = [f"{found.pending:,} without a vector yet"] if found.pending else []
    repaired = sum(finding.repaired for finding in found.findings)
    wrong = len(found.findings) - repaired
    mended = [f"{repaired:,} repaired"] if repaired else []
    return ", ".join((read, *pending, *mended, f"{wrong:,} wrong" if wrong else "healthy"))


class UnconfirmedError(InputError):
    """A question that nobody is there to answer; `what` would have been done."""

    def __init__(self, what: str) -> None:
        super().__init__("--yes", None, "Confirm with --yes.")
        self.args = (f"Nothing was {what}: confirm with --yes.",)


def confirm(question: str, yes: bool) -> None:
    """Return if `yes` was given, or a person says so; end the command if not.

    Raises:
        UnconfirmedError: there is nobody to ask.
    """
    if yes:
        return
    if not asks():
        raise UnconfirmedError("done")
    if not typer.confirm(one_line(question), err=True):
        raise typer.Exit(FAILED)


def asks() -> bool:
    """Return whether a person is there to answer."""
    return sys.stdin.isatty()


@contextmanager
def bar(what: str, unit: str = "memories") -> Iterator[Callable[[int, int], None]]:
    """Yield what takes how many are done, and of how many, and shows it once that is known."""
    with ExitStack() as stack:
        advance: list[files.Progress] = []

        def told(done: int, of: int) -> None:
            if not advance:
                advance.append(files.steps(stack.enter_context(progress(what, of, unit=unit))))
            advance[0](done)

        yield told
