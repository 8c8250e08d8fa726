"""Commands that see to memories between recalls: consolidate, upkeep."""

from __future__ import annotations

import json
import signal
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Annotated, Any, Final

import typer
from rich.text import Text

from salience.cli import words
from salience.cli.calls import CALLER, Call, command
from salience.cli.screen import Answer, waiting
from salience.cli.signs import visible
from salience.cli.surface import FAILED, app, complain
from salience.engine import Engine
from salience.errors import InputError
from salience.maintain import upkeep
from salience.records import ConsolidateReport, UpkeepReport, checks
from salience.text import counted
from salience.wire.responses import to_json

DryRun = Annotated[bool, typer.Option("--dry-run", help="Tell what would be done, and write nothing.")]
NOTHING_WRITTEN: Final = "nothing was written"


@command(app, scope=CALLER)
def consolidate(call: Call, dry_run: DryRun = False) -> Answer:
    """Move memories to the tiers that they have earned.

    From working to episodic after 4 hours without a recall, from episodic to semantic after 3 recalls and 24 hours;
    sooner for those of importance above 0.7, and for working memories that were recalled 3 times.
    """
    with call.engine() as engine:
        return consolidated(engine.consolidate(dry_run=dry_run, **call.where))


@command(app, "upkeep", scope=())
def keep_up(
    call: Call,
    dry_run: DryRun = False,
    every: Annotated[
        str | None, typer.Option(metavar="TIME", help="Go on, a pass each 10m, 1h, ...; until interrupted.")
    ] = None,
) -> Answer:
    """Do all that is due, in every scope of the tenant.

    Embeds what is pending, puts out of sight what has run out, moves tiers, and drops the versions that are older than
    SALIENCE_KEEP_VERSIONS. What fails is told, keeps nothing else from being done, and is left to the next pass.

    One process at a time does it. While another one is at it, this one says so and ends with code 1; with --every it
    waits for its next turn instead, and ends with code 0 when it is interrupted or terminated.
    """
    if every is None:
        with call.engine() as engine, waiting("seeing to the memories"):
            return kept(engine.upkeep(dry_run=dry_run))
    if dry_run:
        raise InputError("--every", every, "Leave it out: all passes would tell the same.", "is not for --dry-run")
    pace = upkeep.Pace(checks.ttl("every", every))
    with call.store() as engine:
        _go_on(engine, pace, call.as_json)
    raise typer.Exit


def _go_on(engine: Engine, pace: upkeep.Pace, as_json: bool) -> None:
    """Do pass after pass, a line on stdout for each, until the process is interrupted or terminated."""

    def told(report: UpkeepReport) -> None:
        now = engine.services.clock().isoformat(timespec="seconds")
        line = json.dumps({"at": now, **to_json(report)}) if as_json else f"{now}\t{in_a_line(report)}"
        sys.stdout.write(line + "\n")
        sys.stdout.flush()

    with _interrupted_by_termination(), suppress(KeyboardInterrupt):  # every write is a transaction of its own
        upkeep.keep(lambda: engine.services, pace, threading.Event(), told, lambda error: _complain(str(error)))


def _complain(message: str) -> None:
    complain(message, FAILED)
    sys.stderr.flush()


@contextmanager
def _interrupted_by_termination() -> Iterator[None]:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def consolidated(found: ConsolidateReport) -> Answer:
    """Return which memories moved to which tier, then the counts."""
    looked = f"{counted(found.examined, 'memory', 'memories')} looked at: {_moved(found.promoted)}"
    lines = [*_promoted(found.promoted), f"{looked}; {NOTHING_WRITTEN}" if found.dry_run else looked]
    hint = [] if found.examined else [words.ELSEWHERE]
    return Answer(found, lambda: lines, lambda _: Text("\n".join(lines + hint)))


def kept(found: UpkeepReport) -> Answer:
    """Return what was done: the memories that ran out, those that moved, then the counts and what failed."""

    def lines() -> Iterator[str]:
        yield from (f"expired\t{gone}" for gone in found.expired)
        yield from _promoted(found.promoted)
        yield counts(found)
        yield from warnings(found)

    return Answer(found, lines)


def _promoted(promoted: Mapping[str, Iterable[str]]) -> Iterator[str]:
    return (f"{tier}\t{moved}" for tier, ids in promoted.items() for moved in ids)


def _moved(promoted: Mapping[str, Sequence[Any]]) -> str:
    return ", ".join(f"{len(ids):,} now {tier}" for tier, ids in promoted.items())


def counts(found: UpkeepReport) -> str:
    """Return the counts in a line."""
    done = (
        f"{found.embedded:,} embedded, {found.pending:,} pending, {len(found.expired):,} expired, "
        f"{_moved(found.promoted)}, {counted(found.pruned, 'version')} dropped"
    )
    return f"{done}; {NOTHING_WRITTEN}" if found.dry_run else done


def warnings(found: UpkeepReport) -> list[str]:
    """Return what failed, a line for each step."""
    return [visible(line) for line in (found.warning or "").splitlines()]


def in_a_line(found: UpkeepReport) -> str:
    """Return the counts and what failed."""
    return "; ".join([counts(found), *warnings(found)])
