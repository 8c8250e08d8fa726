"""Commands about what a memory was, and about deleting it for good: history, restore, erase."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import Annotated, Final

import typer
from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from salience.cli import records, words
from salience.cli.calls import Call, command
from salience.cli.options import Id, Reason, RequestKey
from salience.cli.recalls import LONGEST
from salience.cli.repairing import UnconfirmedError, asks
from salience.cli.screen import Answer
from salience.cli.signs import one_line, shortened, visible
from salience.cli.surface import FAILED, app
from salience.records import Version
from salience.text import counted

ERASE: Final = "erase"
MEANING: Final = (
    "Texts, versions, vectors and the reflections that sum them up are deleted for good; `restore` brings none of it "
    "back. Files that were exported or backed up keep what they hold."
)
"""What erasing means, in the words that stand before the question."""
_FOLLOWS: Final = ("updated_at", "tier_since", "forgotten_at")
"""Fields that follow from the kind of the change, so that a table need not tell them."""


@command(app)
def history(call: Call, id: Id) -> Answer:
    """Show every version of a memory: who changed what.

    The oldest version comes first. Shown are when it came to be, who made it, by which change and why, and in which
    fields it differs from the one before. A forgotten memory has its versions too; restore puts one in place again.
    """
    with call.engine() as engine:
        found = engine.history(id, **call.where)
    return Answer(found, lambda: lines(found), lambda _: view(found))


@command(app)
def restore(
    call: Call,
    id: Id,
    version: Annotated[
        int | None,
        typer.Option(metavar="N", help="The version, as history shows it. Default: the one before it was forgotten."),
    ] = None,
    reason: Reason = None,
    key: RequestKey = None,
) -> Answer:
    """Bring a memory, or an older version of it, back.

    Without --version, what was forgotten (or ran out of time) is live again as it was. With it, the memory is as it was
    in that version. What stands now stays among the versions.
    """
    with call.engine() as engine:
        return records.receipt(engine.restore(id, version, reason=reason, key=key, **call.where))


@command(app)
def erase(
    call: Call,
    ids: Annotated[
        list[str] | None,
        typer.Argument(metavar="ID", help="Ids of memories; without any, all that live in the scope."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Count, and delete nothing.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Go ahead without being asked.")] = False,
) -> Answer:
    """Delete memories for good, with all their versions.

    Either ids are given, or at least one of --project, --user, --agent and --session: then every memory goes whose own
    project, user, agent and session are those named ('*' for whatever they are); what it shares with others stays. The
    number is told first, and a person is asked; elsewhere --yes is needed.
    """
    with call.engine() as engine:
        count = engine.erase(ids or None, dry_run=True, **call.where)
        if not dry_run:
            if count:
                confirm(count, yes)
            count = engine.erase(ids or None, **call.where)
    done = "would erase" if dry_run else "erased"
    line = f"{done} {counted(count, 'memory', 'memories')}"
    return Answer({"erased": count, "dry_run": dry_run}, lambda: (line, *([] if count else [words.ELSEWHERE])))


def confirm(count: int, yes: bool) -> None:
    """Return if `yes` was given, or a person types the number or the word; end the command if not.

    Raises:
        UnconfirmedError: there is nobody to ask.
    """
    if yes:
        return
    memories = counted(count, "memory", "memories")
    if not asks():
        raise UnconfirmedError("erased")
    typer.echo(f"{memories} to erase. {MEANING}", err=True)
    typer.echo(f"Type {count} or {ERASE} to go on: ", err=True, nl=False)
    if sys.stdin.readline().strip().replace(",", "") not in (str(count), ERASE):
        typer.echo("Nothing was erased.", err=True)
        raise typer.Exit(FAILED)


def lines(found: Sequence[Version]) -> Iterator[str]:
    """Yield a line of tab-separated values for each version."""
    yield "# version\twhen\twho\tchange\twhy\twhat\tcontent"
    for version in found:
        memory = version.memory
        said = (memory.changed_by or "-", memory.change, memory.reason or "-", ", ".join(version.changed) or "-")
        yield "\t".join(map(one_line, (str(memory.version), memory.changed_at.isoformat(), *said, memory.content)))


def view(found: Sequence[Version]) -> RenderableType:
    """Return the versions for a terminal; a text is shown where it is new."""
    last = found[-1].memory
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1), pad_edge=False, expand=True)
    table.add_column("#", justify="right", no_wrap=True)
    for name, style in (("when (UTC)", "dim"), ("who", ""), ("change", "")):
        table.add_column(name, no_wrap=name != "who", overflow="fold", style=style)
    table.add_column("why", ratio=1, overflow="fold")
    table.add_column("what", ratio=2, overflow="fold")
    for version in found:
        memory = version.memory
        when = f"{memory.changed_at:%Y-%m-%d %H:%M:%S}"
        cells = (when, memory.changed_by or "-", memory.change, memory.reason or "-")
        table.add_row(str(memory.version), *(Text(visible(cell)) for cell in cells), _what(version))
    return Group(Text.assemble((last.status, "bold"), "  ", (last.id, "dim")), table)


def _what(version: Version) -> Text:
    names = [name for name in version.changed if name not in _FOLLOWS]
    text = Text(", ".join(names))
    if "content" in names or not version.changed:
        text.append(("\n" if names else "") + shortened(version.memory.content, LONGEST), style="italic")
    return text
