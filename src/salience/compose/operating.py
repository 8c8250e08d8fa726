"""What the operator of a store does with it as a whole: look at it, spread it, put a backup in its place, copy it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from salience import settings as configuration
from salience.compose import parts
from salience.compose.stores import opened
from salience.compose.targets import SERVERS, named, on_server, path_of
from salience.errors import InputError, StoreError, Words, shown
from salience.extract.distinctions import distinctions
from salience.loading import require
from salience.ports import Database, Model
from salience.records import CopyReport, Distributed
from salience.store import copying
from salience.store.copying import Progress
from salience.transfer.copy import End
from salience.transfer.copy import Progress as CopyProgress
from salience.transfer.copy import copy as transfer_copy


def file_of(target: str | Path | None = None) -> Path:
    """Return the file that a target names, which need not be there; without one, that of the settings.

    Raises:
        InputError: it names no file.
    """
    return path_of(named(target))


def require_store(target: str | Path | None = None) -> None:
    """Return if the store that a target names is there; to open one that is not would make it, with nothing in it.

    Raises:
        InputError: no such file.
        StoreError: the database holds no store, or it cannot be reached.
    """
    with database(target) as found:
        if on_server(named(target)) and found.state().revision is None:
            raise StoreError(found.state().faults[0])


def database(target: str | Path | None = None) -> Database:
    """Return the database or file that a target names, for its operator; without one, that of the settings.

    Nothing is made. It is to be closed, or used in a `with` statement.

    Raises:
        InputError: it names none, or a file that is not there.
        MissingExtraError: it needs a library which is not installed.
    """
    settings, where = configuration.load(), named(target)
    if on_server(where):
        require("psycopg", "a store on PostgreSQL", "postgres")
        return parts.PostgresDatabase(
            where,
            busy_timeout=settings.busy_timeout,
            statement_timeout=settings.statement_timeout,
            exact_rows=settings.exact_rows,
            distinguish=distinctions,
        )
    path = path_of(where)
    if not path.exists():
        raise InputError(
            "target", str(path), "Name the file of a store that is there.", f"{shown(str(path))} does not exist"
        )
    return parts.SQLiteDatabase(str(path), busy_timeout=settings.busy_timeout, distinguish=distinctions)


def distribute(target: str | Path | None = None, *, shards: int | None = None, dry_run: bool = False) -> Distributed:
    """Spread the tables of a PostgreSQL database over a Citus cluster, and return what was done and what is wrong.

    Raises:
        InputError: the target is no such database, or the number of shards is not to be had.
        MissingExtraError: it needs a library which is not installed.
        StoreError: as `store.postgres.citus.distribute` does.
    """
    settings, where = configuration.load(), named(target)
    if not on_server(where):
        remedy = f"Give {SERVERS[0]}://HOST/DATABASE: a file is on one machine."
        raise InputError("target", where, remedy, f"{shown(where)} is a file")
    require("psycopg", "a store on PostgreSQL", "postgres")
    return parts.distribute(where, shards=shards, dry_run=dry_run, patience=settings.busy_timeout)


def reinstate(
    file: str | Path, target: str | Path | None = None, *, keeping: bool = True, progress: Progress | None = None
) -> Path | None:
    """Put a backup in the place of a store that others may have open, and return where its former state is kept.

    Args:
        file: the backup.
        target: of the store, as for `connect`; made if it is not there.
        keeping: whether to write the present state to a file beside the store first; None is returned if not.
        progress: called with the pages of the backup that are left to read, and the pages in all.

    Raises:
        InputError: a target or file that cannot be used.
        StoreError: as `store.copying.reinstate` does.
    """
    settings, place = configuration.load(), file_of(target)
    kept = copying.reinstate(
        str(file), str(place), settings.busy_timeout, distinguish=distinctions, keeping=keeping, progress=progress
    )
    return None if kept is None else Path(kept)


def copy(
    source: str | Path,
    target: str | Path,
    *,
    tenants: Sequence[str] | None = None,
    progress: CopyProgress | None = None,
) -> CopyReport:
    """Copy the memories of a store into another one, and return the counts by tenant.

    A copy that was cut off continues when this is called again.

    Args:
        source: as for `connect`; it must exist, and may be in use.
        target: likewise; made if it does not exist.
        tenants: the tenants to copy; None: all.
        progress: called with the memories done so far and the memories in all.

    Raises:
        InputError: the two are one store, the source does not exist, or a tenant has no memories in it.
        PinnedError: the target is pinned to another model or language.
        ConflictError, StoreError: as `transfer.copy.copy` does.
    """
    settings = configuration.load()
    with database(source) as found:
        state = found.state()
    name = place_of(target)
    if name == place_of(source):
        raise InputError("target", Words(name), "Name another store.", f"{name} is the source itself")
    if state.revision is None:
        raise StoreError(state.faults[0])
    if state.embedder is None or state.dimension is None:  # no memory was ever stored
        return CopyReport(state.store, name, {}, 0, 0)
    settings = settings.model_copy(update={"language": state.language or settings.language})
    model = Model(state.embedder, state.dimension)
    with closing(opened(source, model, settings)) as here:
        model = here.pinned() or model
        with closing(opened(target, model, settings)) as there:
            return transfer_copy(End(here, state.store), End(there, name), tenants, progress)


def place_of(target: str | Path) -> str:
    """Return the name of the store in messages: the path of a file, or the URL of a database without its password."""
    return parts.place_name(str(target)) if on_server(str(target)) else str(path_of(str(target)).resolve())
