"""The command that sums memories up: reflect."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from salience.cli import words
from salience.cli.calls import CALLER, Call, command
from salience.cli.recalls import LONGEST
from salience.cli.screen import Answer, progress
from salience.cli.signs import one_line, shortened, visible
from salience.cli.surface import app
from salience.records import Memory, ReflectReport
from salience.records.ids import short_id
from salience.text import counted


@command(app, scope=CALLER)
def reflect(
    call: Call,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Tell what would be written, and write nothing.")] = False,
) -> Answer:
    """Sum up memories that belong together.

    Memories of one place that are said by the same, speak of the same and lie near each other get one more, of the kind
    reflection, that lists them. They stay as they are. What is unchanged since the last time is left alone.

    The text is that of the memory which stands for the others best, or the one that SALIENCE_SUMMARISER writes.
    """
    with call.engine() as engine, progress("reflecting", None) as advance:
        return report(engine.reflect(dry_run=dry_run, progress=advance, **call.where))


def report(found: ReflectReport) -> Answer:
    """Return what was written: each reflection with the count of its sources, then the counts."""

    def lines() -> Iterator[str]:
        for what, memory in _written(found):
            sources = counted(len(memory.sources), "memory", "memories")
            yield "\t".join((what, memory.id, sources, subject(memory), one_line(memory.content)))
        yield from (f"retired\t{gone}" for gone in found.retired)
        yield counts(found)

    return Answer(found, lines, lambda _: Group(*_view(found)))


def _view(found: ReflectReport) -> Iterator[RenderableType]:
    for what, memory in _written(found):
        head = f"{subject(memory)} · {counted(len(memory.sources), 'memory', 'memories')}"
        yield Text.assemble((what, "bold green"), "  ", (memory.short_id, "dim"), "  ", (head, "bold"))
        speaker = f"{visible(memory.speaker)}: " if memory.speaker else ""
        yield Text.assemble("  ", (speaker, "dim"), shortened(memory.content, LONGEST))
    for gone in found.retired:
        yield Text.assemble(("retired", "bold yellow"), "  ", (short_id(gone), "dim"))
    yield Text(counts(found))
    if not found.examined:
        yield Text(words.ELSEWHERE)


def _written(found: ReflectReport) -> Iterator[tuple[str, Memory]]:
    yield from (("made", memory) for memory in found.made)
    yield from (("renewed", memory) for memory in found.renewed)


def subject(memory: Memory) -> str:
    """Return what a reflection is about, in a word."""
    return one_line(str(memory.metadata.get("subject", "-")))


def counts(found: ReflectReport) -> str:
    """Return the counts in a line."""
    done = f"{len(found.made):,} made, {len(found.renewed):,} renewed, {len(found.retired):,} retired"
    said = [f"{counted(found.examined, 'memory', 'memories')} looked at: {done}, {found.unchanged:,} unchanged"]
    if found.fell_back:
        said.append(f"{found.fell_back:,} without a summary, since the summariser failed")
    return "; ".join(said) + ("; nothing was written" if found.dry_run else "")
