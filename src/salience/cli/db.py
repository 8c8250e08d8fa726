"""Commands for the operator of a store's database: upgrade, status, index, doctor, distribute."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import typer

from salience.cli.maintain import finding_line
from salience.cli.options import Call, DryRun, command, command_group
from salience.cli.output import FAILED, Answer, for_store, one_line, size, status, steps, tsv
from salience.errors import InputError, Words
from salience.records import DatabaseState, Distributed, Indexed
from salience.records.answers import counted

app = typer.Typer()
group = command_group("Manage the database: its tables, rights and indexes.")
app.add_typer(group, name="db")


@command(group)
def upgrade(call: Call) -> Answer:
    """Create the tables of a database, or migrate them to the revision of this version.

    On PostgreSQL, the user has to own the tables or the database. Also restores row-level security and the rights of
    the role salience_app. Runs in one transaction, and can be repeated. Opening a file creates its tables.
    """
    from salience import compose

    with compose.database(call.options.store) as database, status("upgrading"):
        report = database.upgrade()
    done = f"migrated {report.store} from revision {report.before} to {report.after}"
    if report.before is None:
        done = f"created the tables of {report.store}, revision {report.after}"
    elif report.before == report.after:
        done = f"{report.store} is at revision {report.after}, up to date"
    return Answer(report, map(one_line, (done, *report.done, *report.left)))


@command(group, "status")
def status_(call: Call) -> Answer:
    """Show the state of a database; changes nothing.

    Shows the revision, the pinned model, the connected user, the tables and the indexes. Row counts of PostgreSQL are
    the server's estimates. Exits with code 1 if no engine can use the database as it is, or if something is wrong.
    """
    from rich.table import Table

    from salience import compose

    with compose.database(call.options.store) as database:
        state = database.state()
    rows = [tuple(for_store(cell, call.options.store) for cell in cells) for cells in _state(state)]
    table = Table.grid(padding=(0, 2))
    for cells in rows:
        table.add_row(*map(one_line, cells))
    record = {"ready": state.is_ready, **{name: getattr(state, name) for name in state.__slots__}}
    return Answer(record, (tsv(*cells) for cells in rows), table, code=0 if state.is_ready else FAILED)


def _state(state: DatabaseState) -> Iterator[tuple[str, ...]]:
    """Yield the state of a database as rows of cells."""
    revision = f"none; this version of Salience has {state.head}"
    if state.revision is not None:
        revision = f"{state.revision}, " + ("up to date" if state.revision == state.head else f"not {state.head}")
    yield "store", state.store
    yield "server", state.server
    yield "revision", revision
    if state.pgvector:
        yield "pgvector", state.pgvector
    yield "model", f"{state.embedder}, {state.dimension:,} numbers" if state.embedder else "none yet"
    if state.bytes is not None:
        yield "size", size(state.bytes)
    yield "language", state.language or "none yet"
    if state.user:
        yield "user", state.user, f"works as {state.role}" if state.role else "cannot work with it"
    for table in state.tables:
        about = "" if state.is_exact or not table.rows else "about "
        rows = "rows not counted" if table.rows is None else about + counted(table.rows, "row")
        yield ("table", table.name, rows, *([] if table.bytes is None else [size(table.bytes)]))
    shown = [index for index in state.indexes if index.method == "hnsw" or not index.valid]
    for index in shown:
        cells = [] if index.bytes is None else [size(index.bytes)]
        cells += [] if index.uses is None else [f"used {counted(index.uses, 'time')}"]
        cells += [] if index.valid else ["not valid"]
        yield ("index", index.name, f"{index.method} on {index.table}", *cells)
    others = [index for index in state.indexes if index not in shown]
    sizes = [index.bytes for index in others if index.bytes is not None]
    yield "index", f"{counted(len(others), 'other')}, valid", *([size(sum(sizes))] if sizes else [])
    yield from (("wrong", problem) for problem in state.faults)
    yield from (("hint", hint) for hint in state.hints)


@command(group)
def index(
    call: Call,
    halfvec: Annotated[bool, typer.Option("--halfvec", help="Half precision: half the size.")] = False,
    drop: Annotated[bool, typer.Option("--drop", help="Drop the index; without --halfvec, both kinds.")] = False,
    m: Annotated[int | None, typer.Option("--m", min=2, max=100, help="Links per vector. Default: 16.")] = None,
    ef_construction: Annotated[
        int | None, typer.Option(min=4, max=1000, help="Candidates per link while building. Default: 64.")
    ] = None,
    memory: Annotated[
        str | None, typer.Option(metavar="AMOUNT", help="maintenance_work_mem while building, such as 2GB.")
    ] = None,
) -> Answer:
    """Build the vector index (HNSW) for searches among many memories.

    The index is built without blocking others, for the model that the store is pinned to, and replaces an older one
    once it is complete. An index that already fits is kept. Connect to the server directly, not through a pooler, as
    the owner of the tables.
    """
    from salience import compose

    if drop and (m or ef_construction or memory):
        value = Words("with --m, --ef-construction or --memory")
        raise InputError("--drop", value, "Leave these out.", "does not go with --m, --ef-construction or --memory")
    with compose.database(call.options.store) as database:
        if drop:
            with status("dropping"):
                return _indexed(database.drop_index(is_half=halfvec))
        with steps("pages") as update:
            made = database.index(
                is_half=halfvec,
                m=m,
                ef_construction=ef_construction,
                memory=memory,
                progress=lambda done, total: update("indexing", done, total),
            )
    return _indexed(made)


def _indexed(report: Indexed) -> Answer:
    lines = [f"dropped {name}" for name in report.dropped]
    if report.name is None:
        lines += [] if report.dropped else ["no vector index"]
    elif report.made:
        lines.append(f"built {report.name}: {size(report.bytes)} in {report.seconds:,.1f} s")
    else:
        lines.append(f"{report.name} exists: {size(report.bytes)}")
    lines += [f"the server said: {report.warning}"] if report.warning else []
    return Answer(report, map(one_line, lines))


@command(group)
def doctor(
    call: Call, repair: Annotated[bool, typer.Option("--repair", help="Repair the parts that can be rebuilt.")] = False
) -> Answer:
    """Check the tables of all tenants, and repair them; needs no model.

    Checks row-level security and rights, indexes, pins, change sequences, and that every row can be read and is found
    by its words. `salience doctor` checks this too, and the memories of one tenant against their texts. Exits with code
    1 if something is wrong.
    """
    from salience import compose

    with compose.database(call.options.store) as database, status("checking"):
        found = database.check(repair=repair)
        hints = database.state().hints
    repaired = sum(finding.repaired for finding in found)
    wrong = len(found) - repaired
    last = (f"{repaired:,} repaired, " if repaired else "") + (f"{wrong:,} wrong" if wrong else "healthy")
    lines = [*(finding_line(one, call.options.store) for one in found), *(tsv("hint", hint) for hint in hints), last]
    return Answer({"healthy": not wrong, "findings": found, "hints": hints}, lines, code=FAILED if wrong else 0)


@command(group)
def distribute(
    call: Call,
    shards: Annotated[
        int | None, typer.Option("--shards", min=1, max=1024, help="Number of shards. Default: the server's, 32.")
    ] = None,
    dry_run: DryRun = False,
) -> Answer:
    """Distribute the tables over the servers of a Citus cluster, each tenant on one server.

    Connect to the coordinator, as the user who owns the tables. Writers wait meanwhile; either all tables are
    distributed or none. Then the result is checked. Repeating it completes what is missing. Exits with code 1 if
    something is wrong.
    """
    from salience import compose

    with status("distributing"):
        report = compose.distribute(call.options.store, shards=shards, dry_run=dry_run)
    return Answer(report, _distributed(report, call.options.store), code=FAILED if report.findings else 0)


def _distributed(report: Distributed, store: str | None) -> Iterator[str]:
    yield from map(one_line, report.steps)
    if report.is_dry:
        yield f"{counted(len(report.steps), 'statement')} would be run on {report.store}, and nothing was done"
        return
    servers = counted(report.workers, "server")
    yield f"{report.store}: {counted(report.shards or 0, 'shard')} of each table on {servers}, Citus {report.citus}"
    if report.steps:
        yield "reconnect all engines, as a user who is in salience_app and not a superuser"
    yield from (finding_line(one, store) for one in report.findings)
    yield f"{len(report.findings):,} wrong" if report.findings else "healthy"
