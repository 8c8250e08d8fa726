"""Output: JSON on request, plain lines in a pipe, tables on a terminal; progress bars, questions, and sanitizing.

Rich is imported when something is shown, so that `salience --help` starts fast.
"""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from datetime import datetime
from io import TextIOWrapper
from typing import TYPE_CHECKING, Final

import typer

from salience.errors import CALL, FLAG, InputError
from salience.records import Context, Page, Recall, Scope, Stats
from salience.records.answers import emptied

if TYPE_CHECKING:
    from rich.console import Group, RenderableType
    from rich.table import Column, Table
    from rich.text import Text

FAILED: Final = 1
"""Exit code of a failure, or of a check that found a problem."""
LONGEST: Final = 280
"""Maximum characters of a memory in a table."""
WIDE: Final = 100
"""Columns of a terminal from which memories are shown as a table."""
LEFT_HINT: Final = "Bytes of the texts may be left in the file or its log until upkeep has run: salience upkeep"
SCOPE_HINT: Final = "To see memories of a project, user or agent, pass --project, --user and --agent ('*' for any)."
ADVISED: Final = re.compile(r"(?<=: )salience (?=[a-z])")
"""The start of a command that a message advises."""
Advance = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of a command in three forms.

    Attributes:
        record: for JSON; a value of the API, or JSON values.
        lines: for a pipe, with content in full.
        view: for a terminal; None: the lines.
        code: exit code.
    """

    record: object
    lines: Iterable[str]
    view: RenderableType | None = None
    code: int = 0


def show(answer: Answer, as_json: bool) -> None:
    """Print an answer to stdout."""
    from rich.console import Console

    console = Console(highlight=False, markup=False, emoji=False)
    if as_json:
        from salience.wire.responses import to_json

        if isinstance(sys.stdout, TextIOWrapper):
            sys.stdout.reconfigure(encoding="utf-8", newline="\n")  # JSON is UTF-8 in any locale (RFC 8259)
        sys.stdout.write(json.dumps(to_json(answer.record), ensure_ascii=False, indent=2) + "\n")
    elif answer.view is not None and console.is_terminal:
        console.print(answer.view)
    else:
        sys.stdout.writelines(line + "\n" for line in answer.lines)
    sys.stdout.flush()


def complain(message: str, code: int, hint: str = "") -> int:
    """Write an error to stderr in one line, with an optional hint, and return `code`."""
    sys.stderr.write(f"salience: {sanitize(' '.join(message.split()))}\n{hint}")
    return code


# --- Questions and progress, on stderr --------------------------------------------------------------------------------


class UnconfirmedError(InputError):
    """A confirmation is needed, and standard input is not a terminal."""

    def __init__(self, done: str) -> None:
        super().__init__("--yes", None, "Confirm with --yes.")
        self.args = (f"Nothing was {done}: confirm with --yes.",)


def is_interactive() -> bool:
    """Return whether a person can answer a question."""
    return sys.stdin.isatty()


def confirm(question: str, yes: bool) -> None:
    """Ask a question unless `yes`; end the command on a no.

    Raises:
        UnconfirmedError: standard input is not a terminal.
    """
    if yes:
        return
    if not is_interactive():
        raise UnconfirmedError("done")
    if not typer.confirm(one_line(question), err=True):
        raise typer.Exit(FAILED)


def status(what: str) -> AbstractContextManager[object]:
    """Show a spinner on stderr, if it is a terminal."""
    from rich.console import Console

    console = Console(stderr=True)
    return console.status(what) if console.is_terminal else nullcontext()


@contextmanager
def progress(what: str, total: int | None, shown: bool = True, unit: str = "memories") -> Iterator[Advance]:
    """Show a progress bar on stderr, if it is a terminal; yield a function that advances it by a count."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
    from rich.text import Text

    class Rate(ProgressColumn):
        def render(self, task: Task) -> Text:
            return Text(f"{task.speed:,.0f} {unit}/s" if task.speed else f"- {unit}/s")

    console = Console(stderr=True)
    texts = TextColumn("{task.description}"), TextColumn("{task.completed:,.0f}")
    columns = (texts[0], BarColumn(), texts[1], Rate(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not (shown and console.is_terminal)) as bar:
        task = bar.add_task(what, total=total)
        yield lambda count: bar.advance(task, count)


def so_far(advance: Advance) -> Advance:
    """Return a function that takes the count done so far and advances by the difference."""
    done = 0

    def update(count: int) -> None:
        nonlocal done
        advance(count - done)
        done = count

    return update


@contextmanager
def steps(unit: str = "memories") -> Iterator[Callable[[str, int, int], None]]:
    """Yield a function of (step, done, total) that shows a progress bar for the current step."""
    with ExitStack() as stack:
        shown: dict[str, Advance] = {}

        def update(step: str, done: int, total: int) -> None:
            if step not in shown:
                stack.close()  # ends the bar of the step before
                shown[step] = so_far(stack.enter_context(progress(step, total, unit=unit)))
            shown[step](done)

        yield update


# --- Text and tables --------------------------------------------------------------------------------------------------


class _Escapes(dict[int, str]):
    """Code point -> what to show: itself, or its escape if it is a control or another hidden character."""

    def __missing__(self, code: int) -> str:
        from salience.text import is_hidden

        character = chr(code)
        if character in "\n\t" or (character.isascii() and character.isprintable()) or not is_hidden(character):
            return character
        return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


_ESCAPES: Final = _Escapes()


def sanitize(text: str) -> str:
    """Escape control characters, direction marks and zero-width characters, so that none acts on the terminal."""
    return text.translate(_ESCAPES)


def as_commands(text: str) -> str:
    """Return a message with the calls that it advises as commands; lines that quote a memory, in brackets, stay."""
    lines = text.split("\n")
    return "\n".join(
        line if line.startswith("[") else FLAG.sub(_as_flag, CALL.sub(_as_command, line)) for line in lines
    )


def _as_flag(found: re.Match[str]) -> str:
    return f"--{found['name'].replace('_', '-')}"


def _as_command(found: re.Match[str]) -> str:
    words = ["salience", found["verb"]]
    for argument in found["arguments"].split(", "):
        name, _, value = argument.partition("=")
        option = name.replace("_", "-")
        if value == "None":
            words.append(f"--no-{option}")
        else:
            words += [value.strip("'")] if name in ("id", "other_id", "content") else [f"--{option}", value.strip("'")]
    return " ".join(words)


def for_store(text: str, store: str | None) -> str:
    """Return a message whose commands name the store that was given; None for none."""
    from salience import settings

    if store is None or store == settings.default_target():
        return text
    return ADVISED.sub(lambda _: f"salience --store {shlex.quote(settings.masked(store))} ", text)


def one_line(text: str) -> str:
    """Sanitize, and escape line breaks and tabs too."""
    return sanitize(text).replace("\n", "\\n").replace("\t", "\\t")


def tsv(*cells: object) -> str:
    """Return cells as a sanitized line with tabs between them."""
    return "\t".join(one_line(str(cell)) for cell in cells)


def truncate(text: str, width: int) -> str:
    """Return the first `width` characters of `text` on one line, with an ellipsis if more follow."""
    line = one_line(" ".join(text.split()))
    return line if len(line) <= width else line[: width - 1].rstrip() + "…"


def excerpt(content: str) -> str:
    """Return at most `LONGEST` characters of a content, line breaks kept."""
    text = sanitize(content)
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def table(*columns: Column | str, title: str | None = None, expand: bool = False) -> Table:
    """Return an empty table without a frame."""
    from rich import box
    from rich.table import Table

    return Table(
        *columns, title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False,
        expand=expand,
    )  # fmt: skip


def is_narrow() -> bool:
    """Return whether the terminal has no room for a table of memories."""
    from rich.console import Console

    return Console().width < WIDE


def entries(items: Iterable[tuple[Sequence[str | Text], Sequence[str | Text]]]) -> Group:
    """Return entries, each a first line of cells, then lines that are indented: for a narrow terminal."""
    from rich.console import Group
    from rich.padding import Padding
    from rich.text import Text

    def text(cell: str | Text) -> Text:
        return Text(sanitize(cell)) if isinstance(cell, str) else cell

    parts: list[RenderableType] = []
    for head, below in items:
        parts.append(Text("  ").join(map(text, head)))
        parts += [Padding(text(line), (0, 0, 0, 3)) for line in below]
    return Group(*parts)


def grid(rows: Iterable[Sequence[str]]) -> Table:
    """Return rows as columns without a head: a name, then its value."""
    from rich.table import Column, Table
    from rich.text import Text

    made = Table.grid(Column(style="dim", no_wrap=True), Column(overflow="fold"), padding=(0, 2))
    for row in rows:
        made.add_row(*(Text(sanitize(cell)) for cell in row))
    return made


def size(bytes: int) -> str:
    """Return a size with its unit: `12.3 MB`."""
    for unit, name in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if bytes >= unit:
            return f"{bytes / unit:,.1f} {name}"
    return f"{bytes:,} bytes"


def age(since: datetime, current: datetime) -> str:
    """Return the time between two instants in one unit: 40s, 5m, 3h, 99d, 7mo, 4y."""
    seconds = max((current - since).total_seconds(), 0.0)
    for below, unit, name in ((60, 1, "s"), (3600, 60, "m"), (86_400, 3600, "h"), (8_640_000, 86_400, "d")):
        if seconds < below:
            return f"{int(seconds / unit)}{name}"
    months = int(seconds / (30.44 * 86_400))
    return f"{months}mo" if months < 24 else f"{int(seconds / (365.25 * 86_400))}y"


def scope_text(scope: Scope) -> str:
    """Return the coordinates that are set, without the default environment: `user:alice project:parcel`."""
    from salience import keywords

    return " ".join(keywords.short(scope)) or "-"


def hints(found: Recall | Context | Page | Stats) -> list[str]:
    """Return a line for each place with memories outside the scope, and one on the options that left out all others."""
    from salience.cli.options import flag

    def option(name: str, value: str) -> str:
        return f"{flag(name)} {shlex.quote(value)}"

    names: Sequence[str] = getattr(found, "emptied_by", ())
    return [*(one_line(place.describe(option)) for place in found.out_of_scope), *emptied([*map(flag, names)])]
