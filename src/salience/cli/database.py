"""Commands on the database of a store, for its operator: upgrade, status, index, doctor."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, Final

import typer
from rich.console import RenderableType
from rich.table import Table

from salience import compose
from salience.cli.calls import Call, command
from salience.cli.repairing import bar, told
from salience.cli.screen import Answer, show, waiting
from salience.cli.signs import one_line
from salience.cli.surface import FAILED, app
from salience.errors import InputError, Words
from salience.records import DatabaseState, Finding, Indexed, IndexState, TableState, Upgraded
from salience.text import counted

group = typer.Typer(help="See to the database of a store: its tables, rights and indexes.", no_args_is_help=False)
app.add_typer(group, name="db")
_UNITS: Final = ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"))
Line = tuple[str, ...]


@command(group, scope=())
def upgrade(call: Call) -> Answer:
    """Make the tables of a database, or bring them to the revision of this version.

    On PostgreSQL it is for the user who owns the tables, or the database. Row-level security and the rights of the role
    salience_app are put right too. It is one transaction, and may be run again. A file is brought up by every opening.
    """
    with compose.database(call.options.store) as database, waiting("upgrading"):
        report = database.upgrade()
    return Answer(report, lambda: map(one_line, upgraded(report)))


@command(group, scope=())
def status(call: Call) -> Answer:
    """Tell how a database stands, and change nothing.

    The revision, the model that it is pinned to, who connects, its tables and indexes. Rows of PostgreSQL are the
    server's own estimates. Exit code 1 says that no engine can work with it as it is, or that something is wrong.
    """
    with compose.database(call.options.store) as database:
        state = database.state()
    lines = list(stands(state))
    answer = Answer({"ready": state.is_ready, **_fields(state)}, lambda: map(_joined, lines), lambda _: _table(lines))
    return _judged(answer, state.is_ready, call)


@command(group, scope=())
def index(
    call: Call,
    halfvec: Annotated[bool, typer.Option("--halfvec", help="Half the precision, and half the size.")] = False,
    drop: Annotated[bool, typer.Option("--drop", help="Take it away; without --halfvec, both kinds.")] = False,
    m: Annotated[int | None, typer.Option("--m", min=2, max=100, help="Links of a vector [default: 16]")] = None,
    ef_construction: Annotated[
        int | None, typer.Option(min=4, max=1000, help="Breadth of the search for them [default: 64]")
    ] = None,
    memory: Annotated[
        str | None, typer.Option(metavar="AMOUNT", help="maintenance_work_mem meanwhile, such as 2GB.")
    ] = None,
) -> Answer:
    """Make the index by which searches among many memories find the nearest (HNSW).

    It is made beside the work of others, for the model that the store is pinned to, and takes the place of an older one
    once it is whole. One that is there and as asked stays. The user has to own the tables, and to be connected to the
    server itself: not through a pooler.
    """
    if drop and (m or ef_construction or memory):
        raise InputError(
            "--drop",
            Words("with --m, --ef-construction or --memory"),
            "Leave these out.",
            "does not go with --m, --ef-construction or --memory",
        )
    with compose.database(call.options.store) as database:
        if drop:
            with waiting("dropping"):
                return done(database.drop_index(is_half=halfvec))
        with bar("indexing", "pages") as far:
            made = database.index(is_half=halfvec, m=m, ef_construction=ef_construction, memory=memory, progress=far)
    return done(made)


@command(group, scope=())
def doctor(
    call: Call, repair: Annotated[bool, typer.Option("--repair", help="Mend what can be made anew.")] = False
) -> Answer:
    """Check the tables of all tenants, and mend them; no model is needed.

    Looked at are row-level security and rights, indexes, pins, change sequences, and of every row whether it can be
    read and is found by its words. `salience doctor` does this too, and then holds the memories of one tenant against
    their texts. Exit code 1 says that something is wrong.
    """
    with compose.database(call.options.store) as database, waiting("checking"):
        found = database.check(repair=repair)
        hints = database.state().hints
    is_healthy = all(finding.repaired for finding in found)
    record = {"healthy": is_healthy, "findings": found, "hints": hints}
    return _judged(Answer(record, lambda: checked(found, hints)), is_healthy, call)


def _judged(answer: Answer, is_well: bool, call: Call) -> Answer:
    """Return an answer; end the command with it where something is wrong."""
    if is_well:
        return answer
    show(answer, call.as_json)
    raise typer.Exit(FAILED)


def upgraded(report: Upgraded) -> Iterator[str]:
    """Return what an upgrade did as lines."""
    if report.before is None:
        yield f"made the tables of {report.store}, of revision {report.after}"
    elif report.before == report.after:
        yield f"{report.store} is of revision {report.after}, up to date"
    else:
        yield f"brought {report.store} from revision {report.before} to {report.after}"
    yield from report.done
    yield from report.left


def done(report: Indexed) -> Answer:
    """Return what became of an index as lines."""

    def lines() -> Iterator[str]:
        for name in report.dropped:
            yield f"dropped {name}"
        if report.name is None:
            if not report.dropped:
                yield "there is no index of vectors"
        elif report.made:
            yield f"made {report.name}: {size(report.bytes)} in {report.seconds:,.1f} s"
        else:
            yield f"{report.name} is there: {size(report.bytes)}"
        if report.warning:
            yield f"the server said: {report.warning}"

    return Answer(report, lambda: map(one_line, lines()))


def checked(found: Sequence[Finding], hints: Iterable[str]) -> Iterator[str]:
    """Return findings, then hints, a line each, then how many are wrong."""
    yield from map(told, found)
    yield from (f"hint\t{one_line(hint)}" for hint in hints)
    repaired = sum(finding.repaired for finding in found)
    wrong = len(found) - repaired
    mended = [f"{repaired:,} repaired"] if repaired else []
    yield ", ".join((*mended, f"{wrong:,} wrong" if wrong else "healthy"))


def stands(state: DatabaseState) -> Iterator[Line]:
    """Return how a database stands as lines of cells."""
    yield "store", state.store
    yield "server", state.server
    yield "revision", _revision(state)
    if state.pgvector:
        yield "pgvector", state.pgvector
    yield "model", f"{state.embedder}, {state.dimension:,} numbers" if state.embedder else "none yet"
    yield "language", state.language or "none yet"
    if state.user:
        yield "user", state.user, f"works as {state.role}" if state.role else "cannot work with it"
    yield from (_of_table(table, state.is_exact) for table in state.tables)
    yield from _indexes(state.indexes)
    yield from (("wrong", problem) for problem in state.faults)
    yield from (("hint", hint) for hint in state.hints)


def _revision(state: DatabaseState) -> str:
    if state.revision is None:
        return f"none; this version of Salience has {state.head}"
    return f"{state.revision}, " + ("up to date" if state.revision == state.head else f"not {state.head}")


def _of_table(table: TableState, is_exact: bool) -> Line:
    rows = "rows not counted" if table.rows is None else counted(table.rows, "row")
    about = "" if is_exact or not table.rows else "about "
    sized = [] if table.bytes is None else [size(table.bytes)]
    return ("table", table.name, about + rows, *sized)


def _indexes(indexes: Sequence[IndexState]) -> Iterator[Line]:
    """Return the indexes of vectors and those that no search may use, then how many others there are."""
    told = [index for index in indexes if index.method == "hnsw" or not index.valid]
    yield from map(_of_index, told)
    others = [index for index in indexes if index not in told]
    known = [index.bytes for index in others if index.bytes is not None]
    yield "index", f"{counted(len(others), 'other')}, valid", *([size(sum(known))] if known else [])


def _of_index(index: IndexState) -> Line:
    sized = [] if index.bytes is None else [size(index.bytes)]
    uses = [] if index.uses is None else [f"used {counted(index.uses, 'time')}"]
    valid = [] if index.valid else ["not valid"]
    return ("index", index.name, f"{index.method} on {index.table}", *sized, *uses, *valid)


def size(bytes: int) -> str:
    """Return bytes in the unit that suits them: `12.3 MB`."""
    unit, name = next(((unit, name) for unit, name in _UNITS if bytes >= unit), (1.0, "bytes"))
    return f"{bytes / unit:,.{0 if unit == 1.0 else 1}f} {name}"


def _joined(cells: Line) -> str:
    return "\t".join(map(one_line, cells))


def _fields(state: DatabaseState) -> dict[str, object]:
    return {name: getattr(state, name) for name in state.__slots__}


def _table(lines: Iterable[Line]) -> RenderableType:
    """Return the lines in columns; those of two cells go all the way."""
    table = Table.grid(padding=(0, 2))
    for cells in lines:
        table.add_row(*map(one_line, cells))
    return table
