"""Where answers go: made for reading on a terminal, plain lines into a pipe, one JSON document on request."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from io import TextIOWrapper
from typing import IO

from rich.console import Console, RenderableType
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.text import Text

from salience.wire.responses import to_json


@dataclass(frozen=True, slots=True)
class Answer:
    """What a command found out, in three forms, of which only the one that is wanted is made.

    Attributes:
        record: for JSON: a value of the API, or JSON values.
        lines: for a pipe: lines of text without colour, content in full.
        view: for a terminal; None where the lines are as good.
    """

    record: object
    lines: Callable[[], Iterable[str]]
    view: Callable[[Console], RenderableType] | None = None


def show(answer: Answer, as_json: bool) -> None:
    """Write the answer to stdout in the form that suits its reader."""
    console = Console(highlight=False, markup=False, emoji=False)
    if as_json:
        in_utf8().write(json.dumps(to_json(answer.record), ensure_ascii=False, indent=2) + "\n")
    elif answer.view is not None and console.is_terminal:
        console.print(answer.view(console))
    else:
        sys.stdout.writelines(line + "\n" for line in answer.lines())
    sys.stdout.flush()


def in_utf8() -> IO[str]:
    """Return stdout, from now on in UTF-8 whatever the locale says: that is what JSON is exchanged in (RFC 8259)."""
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8", newline="\n")
    return sys.stdout


class Rate(ProgressColumn):
    """How many of a `unit` a second."""

    def __init__(self, unit: str = "memories") -> None:
        super().__init__()
        self._unit = unit

    def render(self, task: Task) -> Text:
        """Return the rate, or a dash until there is one."""
        return Text(f"{task.speed:,.0f} {self._unit}/s" if task.speed else f"- {self._unit}/s")


def waiting(what: str) -> AbstractContextManager[object]:
    """Return a context in which stderr, if it is a terminal, shows that work is going on."""
    console = Console(stderr=True)
    return console.status(what) if console.is_terminal else nullcontext()


@contextmanager
def progress(
    what: str, total: int | None, shown: bool = True, unit: str = "memories"
) -> Iterator[Callable[[int], None]]:
    """Show a bar with count, rate and time left on stderr, if that is a terminal; yield what moves it on by a count."""
    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:,.0f}"),
        Rate(unit),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True, disable=not (shown and console.is_terminal)) as bar:
        task = bar.add_task(what, total=total)
        yield lambda count: bar.advance(task, count)
