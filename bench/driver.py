"""What the torture programs share: their options, the processes that they start and kill, and their report."""

from __future__ import annotations

import multiprocessing
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Final

import typer

PATIENCE: Final = 60.0
"""Seconds after which a silent process is given up."""
Seed = Annotated[int, typer.Option(help="Seed of all choices; the moments of kills are the machine's own.")]
Plant = Annotated[bool, typer.Option("--plant", help="Damage the store first; the check has to find it.")]
Seconds = Annotated[float, typer.Option(min=0.1, help="Duration.")]
Threads = Annotated[int, typer.Option(min=1, help="Threads.")]


def started(work: Callable[..., None], *arguments: Any) -> tuple[Any, Any]:
    """Start a process that has no thread or connection of this one; return it and the line to it."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["bench.writers"])
    here, there = context.Pipe()
    process = context.Process(target=work, args=(*arguments, there), daemon=True)
    process.start()
    there.close()
    return process, here


def stop(process: Any) -> None:
    """Wait for a process to end; kill it after `PATIENCE` seconds."""
    process.join(PATIENCE)
    process.kill()
    process.join()


def received(line: Any, patience: float = PATIENCE) -> Any:
    """Return the next message of a process; None if it ends or sends none."""
    try:
        return line.recv() if line.poll(patience) else None
    except EOFError:
        return None


def listed(counts: Counter[Any]) -> str:
    """Return a total, and the counts as words."""
    each = ", ".join(f"{name} {count:,}" for name, count in counts.most_common())
    return f"{counts.total():,}: {each}" if each else "0"


def report(figures: Mapping[str, object], faults: Sequence[str]) -> None:
    """Print figures and faults; end with 1 where there are any faults."""
    for name, figure in {**figures, "faults": len(faults)}.items():
        print(f"{name:<28} {figure:,}" if isinstance(figure, int) else f"{name:<28} {figure}")
    for fault in faults[:20]:
        print(f"  {fault}")
    if faults:
        raise typer.Exit(1)


@contextmanager
def kept_on_failure() -> Iterator[Path]:
    """Yield a new folder that is removed unless there were faults."""
    place = Path(tempfile.mkdtemp(prefix="salience-torture-"))
    place.chmod(0o755)
    try:
        yield place
    except typer.Exit:
        print(f"The files are in {place}.", file=sys.stderr)
        raise
    shutil.rmtree(place)
