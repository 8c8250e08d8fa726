"""Commands that maintain a store: consolidate, reflect, upkeep, backup, reinstate, doctor, reembed."""

from __future__ import annotations

import json
import signal
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from salience.cli.options import Call, DryRun, Yes, command, options
from salience.cli.output import (
    FAILED,
    LONGEST,
    SCOPE_HINT,
    Answer,
    complain,
    confirm,
    for_store,
    one_line,
    progress,
    sanitize,
    so_far,
    status,
    steps,
    truncate,
    tsv,
)
from salience.errors import InputError
from salience.records import Finding, UpkeepReport, checks
from salience.records.answers import counted
from salience.records.ids import short_id
from salience.wire.responses import to_json

if TYPE_CHECKING:
    from rich.console import RenderableType

app = typer.Typer()


@command(app, options=options("consolidate"))
def consolidate(call: Call) -> Answer:
    """Move memories to the tiers that they have earned.

    A memory moves from working to episodic after 4 hours without a recall, and from episodic to semantic after 3
    recalls and 24 hours; sooner for memories of importance above 0.7, and for working memories recalled 3 times.
    """
    with call.engine() as engine:
        found = engine.consolidate(**call.given)
    last = f"{counted(found.examined, 'memory', 'memories')} examined: {_moved(found.promoted)}"
    lines = [*_promoted(found.promoted), last + ("; nothing was written" if found.dry_run else "")]
    return Answer(found, lines, "\n".join(lines + ([] if found.examined else [SCOPE_HINT])))


@command(app, options=options("reflect"))
def reflect(call: Call) -> Answer:
    """Summarise memories that belong together.

    Memories in one place, by the same speaker, on the same subject and close in meaning get a summary of the kind
    reflection that lists its sources. The sources stay as they are. A group that is unchanged is left alone.

    The text is that of the most representative memory, or the one that SALIENCE_SUMMARISER writes.
    """
    from rich.console import Group
    from rich.text import Text

    with call.engine() as engine, progress("reflecting", None) as advance:
        found = engine.reflect(progress=advance, **call.given)
    lines: list[str] = []
    parts: list[RenderableType] = []
    for what, memory in [*(("made", one) for one in found.made), *(("renewed", one) for one in found.renewed)]:
        subject = one_line(str(memory.metadata.get("subject", "-")))
        sources = counted(len(memory.sources), "memory", "memories")
        lines.append(tsv(what, memory.id, sources, subject, memory.content))
        head = (f"{subject} · {sources}", "bold")
        parts.append(Text.assemble((what, "bold green"), "  ", (memory.short_id, "dim"), "  ", head))
        speaker = f"{sanitize(memory.speaker)}: " if memory.speaker else ""
        parts.append(Text.assemble("  ", (speaker, "dim"), truncate(memory.content, LONGEST)))
    lines += [f"retired\t{gone}" for gone in found.retired]
    parts += [Text.assemble(("retired", "bold yellow"), "  ", (short_id(gone), "dim")) for gone in found.retired]
    last = f"{counted(found.examined, 'memory', 'memories')} examined: {len(found.made):,} made, "
    last += f"{len(found.renewed):,} renewed, {len(found.retired):,} retired, {found.unchanged:,} unchanged"
    last += f"; {found.fell_back:,} without a summary, since the summariser failed" if found.fell_back else ""
    last += "; nothing was written" if found.dry_run else ""
    return Answer(found, [*lines, last], Group(*parts, last, *([] if found.examined else [SCOPE_HINT])))


@command(app)
def upkeep(
    call: Call,
    dry_run: DryRun = False,
    every: Annotated[
        str | None, typer.Option(metavar="TIME", help="Repeat at this interval (10m, 1h, ...) until interrupted.")
    ] = None,
) -> Answer:
    """Run all maintenance that is due, in every scope.

    Embeds pending memories, expires memories, moves tiers, and deletes versions older than SALIENCE_KEEP_VERSIONS. A
    failed step is reported; the others still run, and the next pass tries it again.

    One process at a time runs upkeep. If another one is running it, this one says so and exits with code 1; with
    --every it waits for its next turn instead, and exits with code 0 when interrupted or terminated.
    """
    if every is None:
        with call.engine() as engine, status("running upkeep"):
            found = engine.upkeep(dry_run=dry_run)
        lines = [f"expired\t{gone}" for gone in found.expired]
        return Answer(found, [*lines, *_promoted(found.promoted), _upkept(found), *_warnings(found)])
    if dry_run:
        raise InputError("--every", every, "Leave it out: every pass would report the same.", "is not for --dry-run")
    _repeat(call, checks.duration("every", every))
    raise typer.Exit


def _repeat(call: Call, every: timedelta) -> None:
    """Run passes until interrupted or terminated, and print a line for each."""
    from salience.maintain import upkeep as maintenance

    def report(found: UpkeepReport) -> None:
        now = engine.services.clock().isoformat(timespec="seconds")
        line = "; ".join([_upkept(found), *_warnings(found)])
        print(json.dumps({"at": now, **to_json(found)}) if call.as_json else f"{now}\t{line}", flush=True)  # noqa: T201

    def fail(error: Exception) -> None:
        complain(str(error), FAILED)
        sys.stderr.flush()

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        with call.local_engine() as engine, suppress(KeyboardInterrupt):
            maintenance.keep(lambda: engine.services, maintenance.Pace(every), threading.Event(), report, fail)
    finally:
        signal.signal(signal.SIGTERM, before)


def _promoted(promoted: Mapping[str, Sequence[str]]) -> list[str]:
    return [f"{tier}\t{moved}" for tier, ids in promoted.items() for moved in ids]


def _moved(promoted: Mapping[str, Sequence[str]]) -> str:
    return ", ".join(f"{len(ids):,} now {tier}" for tier, ids in promoted.items())


def _upkept(found: UpkeepReport) -> str:
    done = f"{found.embedded:,} embedded, {found.pending:,} pending, {len(found.expired):,} expired, "
    done += f"{_moved(found.promoted)}, {counted(found.pruned, 'version')} dropped"
    return f"{done}; nothing was written" if found.dry_run else done


def _warnings(found: UpkeepReport) -> list[str]:
    return [sanitize(line) for line in (found.warning or "").splitlines()]


@command(app)
def backup(
    call: Call,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A new file.")],
    force: Annotated[bool, typer.Option("--force", help="Replace an existing backup.")] = False,
) -> Answer:
    """Copy the store to a file while it is in use.

    The copy is the store at one instant, and a store itself. The file appears once it is complete.
    """
    from salience import compose

    compose.require_store(call.options.store)
    with compose.moving(call.options.store, embedder=call.options.embedder) as engine, steps("pages") as update:
        engine.backup(file, overwrite=force, progress=lambda left, pages: update("copying", pages - left, pages))
    size = file.stat().st_size
    return Answer({"file": str(file), "bytes": size}, [one_line(f"backed up to {file}: {size / 1e6:,.1f} MB")])


@command(app)
def reinstate(
    call: Call,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A backup.")],
    yes: Yes = False,
    discard: Annotated[bool, typer.Option("--discard", help="Keep no copy of the current content.")] = False,
) -> Answer:
    """Replace the content of the store with a backup.

    Processes that have the store open use the backup from their next call. The current content is kept in a file beside
    the store, whose name ends in .before-reinstate, unless --discard is given.
    """
    from salience import compose

    place = compose.file_of(call.options.store)
    if place.exists():
        confirm(f"Replace all that {place} holds with {file}?", yes)
    with steps("pages") as update:
        kept = compose.reinstate(
            file, place, keeping=not discard, progress=lambda left, pages: update("reading", pages - left, pages)
        )
    lines = [f"{place} holds what {file} does", *([f"the previous content is in {kept}"] if kept else [])]
    record = {"store": str(place), "file": str(file), "kept": None if kept is None else str(kept)}
    return Answer(record, map(one_line, lines))


@command(app)
def doctor(
    call: Call,
    repair: Annotated[bool, typer.Option("--repair", help="Rebuild the damaged parts from the texts.")] = False,
    deep: Annotated[bool, typer.Option("--deep", help="Embed every text to check its vector; slow.")] = False,
) -> Answer:
    """Check a store for damage, and repair it.

    Checks the file, its tables and numbers, and for every memory and version the text by its hash, its index terms, and
    its vector. Exits with code 1 if something is wrong.
    """
    from rich.console import Group
    from rich.text import Text

    from salience import compose

    compose.require_store(call.options.store)
    with call.engine() as engine, progress("checking", None) as advance:
        found = engine.doctor(repair=repair, deep=deep, progress=so_far(advance))
    repaired = sum(finding.repaired for finding in found.findings)
    wrong = len(found.findings) - repaired
    summary = f"{counted(found.memories, 'memory', 'memories')} and {counted(found.versions, 'older version')} read"
    summary += f", {found.pending:,} without a vector yet" if found.pending else ""
    summary += (f", {repaired:,} repaired" if repaired else "") + (f", {wrong:,} wrong" if wrong else ", healthy")
    parts: list[RenderableType] = []
    store = call.options.store
    for finding in found.findings:
        state, colour = ("repaired", "green") if finding.repaired else ("wrong", "red")
        about = short_id(finding.id) if finding.id else "the store"
        problem = sanitize(for_store(finding.problem, store))
        parts.append(Text.assemble((state, f"bold {colour}"), "  ", (about, "dim"), f"  {problem}"))
    record = {name: getattr(found, name) for name in ("healthy", "memories", "versions", "pending", "findings")}
    lines = [*(finding_line(finding, store) for finding in found.findings), summary]
    return Answer(record, lines, Group(*parts, summary), code=0 if found.healthy else FAILED)


def finding_line(finding: Finding, store: str | None) -> str:
    """Return a finding as one line, with commands for the store that was given."""
    problem = for_store(finding.problem, store)
    return tsv("repaired" if finding.repaired else "wrong", finding.check, finding.id or "-", problem)


@command(app)
def reembed(call: Call) -> Answer:
    """Embed every memory again with another model.

    The model is that of --embedder. Recalls and writes continue meanwhile; the store switches to the new model once
    every vector is there. An interrupted run resumes where it stopped.
    """
    from salience import compose

    compose.require_store(call.options.store)
    with compose.moving(call.options.store, embedder=call.options.embedder) as engine, steps() as update:
        report = engine.reembed(progress=lambda done, total: update("embedding", done, total))
    done = f"embedded {counted(report.made, 'version')} with {report.new}"
    done += f", {report.resumed:,} more in a run before" if report.resumed else ""
    if report.old != report.new:
        done += f", replacing {report.old}: open the store with it from now on"
    return Answer(report, [one_line(done)])
