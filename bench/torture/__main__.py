"""The command: `python -m bench.torture crash|crowd|disk`. It ends with 1 where anything is wrong."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp
from typing import Annotated

import typer

from bench.torture import report
from bench.torture.crash import runs
from bench.torture.crowd import crowd
from bench.torture.full_disk import squeezed
from bench.torture.pressures import CASES

app = typer.Typer(help=__doc__, no_args_is_help=True, add_completion=False)
Seed = Annotated[int, typer.Option(help="What chance starts from; the moments of the kills are the machine's own.")]
Where = Annotated[Path | None, typer.Option(help="Folder for the files; by default the system's for what is passing.")]


@app.command()
def crash(
    count: Annotated[int, typer.Option("--runs", min=1, help="How many files.")] = 200,
    seed: Seed = 1,
    folder: Where = None,
) -> None:
    """Kill writers at random moments and hold their files against what they were told."""
    with _folder(folder) as place:
        done = []
        for made in runs(place, count, seed):
            done.append(made)
            if len(done) % 20 == 0:
                typer.echo(f"{len(done)} of {count} files", err=True)
        _tell(report.of_runs(done), any(made.faults for made in done))


@app.command("crowd")
def crowded(
    processes: Annotated[int, typer.Option(min=2, help="How many write and recall at once.")] = 8,
    seconds: Annotated[float, typer.Option(min=0.1, help="For how long.")] = 120.0,
    seed: Seed = 1,
    folder: Where = None,
) -> None:
    """Have many processes write and recall on one file, and meet what the others have just written."""
    with _folder(folder) as place:
        done = crowd(place, processes, seed, seconds=seconds)
        _tell(report.of_crowd(done), bool(done.checked.faults))


@app.command()
def disk(seed: Seed = 1, folder: Where = None) -> None:
    """Take the room and the rights away in the middle of writing, and give them back."""
    with _folder(folder) as place:
        done = []
        for number, name in enumerate(CASES):
            (own := place / f"case-{number}").mkdir()
            done.append(squeezed(own, name, seed))
        _tell(report.of_cases(done), any(case.faults for case in done))


@contextmanager
def _folder(folder: Path | None) -> Iterator[Path]:
    """Yield a new folder, which is removed if all went well and named if not."""
    place = Path(mkdtemp(prefix="salience-torture-", dir=folder))
    place.chmod(0o755)  # a case gives up its rights, and has to reach its files all the same
    try:
        yield place
    except typer.Exit:
        typer.echo(f"The files are in {place}.", err=True)
        raise
    shutil.rmtree(place)


def _tell(lines: Iterable[str], wrong: bool) -> None:
    for line in lines:
        typer.echo(line)
    if wrong:
        raise typer.Exit(1)


if __name__ == "__main__":
    app(prog_name="python -m bench.torture")
