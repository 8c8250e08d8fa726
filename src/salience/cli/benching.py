"""The command that measures what recalls and writes cost: bench."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.console import Console, Group, RenderableType
from rich.table import Table as Grid
from rich.text import Text

from salience.cli.calls import Call, command
from salience.cli.evals import listed
from salience.cli.screen import Answer
from salience.cli.surface import app
from salience.lab.bench import page, plot
from salience.lab.bench.clocks import Effort
from salience.lab.bench.contender import ALL, NONE, PEERS
from salience.lab.bench.running import PARTS, Plan, kept_in, run
from salience.lab.bench.tables import Table, tables
from salience.records import checks

LARGEST: Final = 10_000_000


@command(app, scope=())
def bench(
    _: Call,
    sizes: Annotated[str, typer.Option("--sizes", metavar="N,N", help="How many memories.")] = "10000",
    peers: Annotated[
        str, typer.Option("--peers", metavar="A,B", help=f"Other stores: {', '.join(PEERS)}; or {ALL}, {NONE}.")
    ] = ALL,
    only: Annotated[
        str | None,
        typer.Option("--only", metavar="A,B", help=f"Parts: {', '.join(PARTS)}. What is known of others is kept."),
    ] = None,
    out: Annotated[
        Path, typer.Option("--out", metavar="FOLDER", help="Where figures are kept; the page is written beside it.")
    ] = Path("salience-bench"),
    work: Annotated[
        Path | None,
        typer.Option("--work", metavar="FOLDER", help="Keep the stores here for the next run. Default: nowhere."),
    ] = None,
    seconds: Annotated[float, typer.Option("--seconds", metavar="N", help="Of each store and each figure.")] = 2.0,
    most: Annotated[int, typer.Option("--most", metavar="N", help="Times that a thing is done, at most.")] = 400,
    seed: Annotated[int, typer.Option("--seed", metavar="N", help="Of everything that is made up.")] = 1,
) -> Answer:
    """Measure what recalls and writes cost, beside other stores.

    Memories and questions are made up, their vectors are given, and all stores are asked turn about, as are bare scans
    of the same vectors. The other stores need salience[bench]; one that is not installed is named and left out. No
    store of yours is touched.
    """
    plan = Plan(
        sizes=tuple(listed("sizes", sizes, lambda written: checks.whole("sizes", int(written), 1, LARGEST))),
        peers=chosen(peers),
        parts=tuple(PARTS) if only is None else parts(only),
        seed=checks.whole("seed", seed, 0, 2**32 - 1),
        effort=Effort(checks.number("seconds", seconds, 0.0, 3600.0), most=checks.whole("most", most, 10, 1_000_000)),
        work=work,
    )
    with telling() as tell:
        found = run(plan, out, tell)
    publish(kept_in(out), out)
    return Answer(found, lambda: [line for kept in found for line in lines(kept)], lambda _: view(found))


@contextmanager
def telling() -> Iterator[Callable[[str], None]]:
    """Yield what shows how far it is on stderr, if that is a terminal."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda _: None
        return
    with console.status("") as status:
        yield lambda words: status.update(words)


def chosen(peers: str) -> tuple[str, ...]:
    """Return the other stores that were named.

    Raises:
        InputError: one that is not known.
    """
    if peers in (ALL, NONE):
        return tuple(PEERS) if peers == ALL else ()
    return tuple(checks.choice("peers", name, PEERS) for name in listed("peers", peers, str))


def parts(only: str) -> tuple[str, ...]:
    """Return the parts that were named, in their own order.

    Raises:
        InputError: one that is not known.
    """
    named = {checks.choice("only", name, PARTS) for name in listed("only", only, str)}
    return tuple(part for part in PARTS if part in named)


def publish(known: Sequence[Mapping[str, Any]], out: Path) -> None:
    """Write the page beside the folder of the figures, and the drawing into it where matplotlib is installed."""
    drawing = None
    if find_spec("matplotlib"):
        drawing = out / "recall.svg"
        plot.draw(known, drawing)
    told = page.page(known, f"{out.name}/{drawing.name}" if drawing else None)
    out.with_suffix(".md").write_text(told, "utf-8")


def lines(kept: Mapping[str, Any]) -> list[str]:
    """Return what is known of a size as lines: cells with tabs between them, after a line that says what they are."""
    told = [f"# {kept['size']} memories", f"# {page.surroundings(kept)}"]
    told += [f"# {name} is not measured: {why}" for name, why in kept["skipped"].items()]
    for table in tables(kept):
        told += [f"# {table.title}", "# " + "\t".join(table.head), *("\t".join(row) for row in table.rows)]
    return told


def view(found: Sequence[Mapping[str, Any]]) -> RenderableType:
    """Return what is known of the sizes, for a terminal."""
    told: list[RenderableType] = []
    for kept in found:
        told += [Text(f"\n{kept['size']:,} memories", style="bold"), Text(page.surroundings(kept), style="dim")]
        told += [Text(f"{name} is not measured: {why}", style="yellow") for name, why in kept["skipped"].items()]
        told += map(grid, tables(kept))
    return Group(*told)


def grid(table: Table) -> Grid:
    """Return a table for a terminal."""
    made = Grid(title=Text(table.title), title_justify="left", box=None, pad_edge=False)
    for place, name in enumerate(table.head):
        made.add_column(Text(name, style="dim"), justify="left" if place < table.names else "right")
    for row in table.rows:
        made.add_row(*map(Text, row))
    return made
