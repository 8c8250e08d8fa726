"""Targets and their stores. Each function imports the store that it needs: the others may not be installed."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from salience import settings as configuration
from salience.batch import Vectors32
from salience.errors import InputError, StoreError, Words, shown
from salience.loading import require
from salience.ports import FINGERPRINTED, Database, FullEmbedder, Keyring, Model, Store
from salience.records import CopyReport, Distributed, checks
from salience.settings import Settings
from salience.steps import embed_with
from salience.transfer import copy as copies

if TYPE_CHECKING:
    from salience.store.backup import Progress

MEMORY: Final = ":memory:"
"""The target of a store in this process's memory."""
SQLITE: Final = "sqlite:///"
URLS: Final = ("https", "http")
"""Schemes of a Salience server."""
SERVERS: Final = ("postgresql", "postgres")
"""Schemes of a PostgreSQL database."""


def is_url(target: object) -> bool:
    """Return whether a target is the URL of a Salience server."""
    scheme, separator, _ = str(target).partition("://")
    return bool(separator) and scheme.lower() in URLS


def on_server(target: str | Path) -> bool:
    """Return whether a target names a PostgreSQL database."""
    scheme, separator, _ = str(target).partition("://")
    return bool(separator) and scheme in SERVERS


def named(target: str | Path | None) -> str:
    """Return a target as text; None is the target of the settings."""
    return str(target if target is not None else configuration.load().url)


def path_of(target: str) -> Path:
    """Return the file that `target` names.

    Raises:
        InputError: it names no file.
    """
    scheme, separator, _ = target.partition("://")
    path = target.removeprefix(SQLITE)
    if is_url(target):
        remedy = "Do this where the server's store is: name its file, or its database."
        raise InputError("target", f"{scheme}://...", remedy, "is a server")
    if on_server(target):
        raise InputError(
            "target",
            f"{scheme}://...",
            "Name a file. A database is put back by the tools of its server: pg_restore --clean --dbname=DSN FILE",
            "is a database",
        )
    if "dbname=" in target and not Path(path).exists():
        raise InputError("target", Words("a list of keywords"), f"Give {SERVERS[0]}://USER@HOST/DATABASE, or a file.")
    if (separator and not target.startswith(SQLITE)) or not path or "\0" in path or path == MEMORY:
        value = f"{scheme}://..." if separator else target  # the rest of a URL may contain a password
        raise InputError("target", value, f"Give a file, {SQLITE}PATH, {SERVERS[0]}://HOST/DATABASE or {MEMORY}.")
    return checks.path("target", path)


def file_of(target: str | Path | None = None) -> Path:
    """Return the file that a target names, which need not exist; None is the target of the settings.

    Raises:
        InputError: it names no file.
    """
    return path_of(named(target))


def model(embedder: FullEmbedder) -> Model:
    """Return the model to pin a store to; its fingerprint is computed on first use."""

    @cache
    def fingerprint() -> Vectors32:
        return embed_with(embedder, [embedder.passage_prefix + FINGERPRINTED])[0].vector

    return Model(embedder.name, embedder.dimension, fingerprint)


def store(target: str, embedder: FullEmbedder, settings: Settings, moving: bool = False, create: bool = True) -> Store:
    """Return the store that `target` names, pinned to the embedder and the language.

    With `moving`, it may be pinned to another model, as `reembed` needs.

    Raises:
        StoreError: it does not exist, and `create` is False.
    """
    pin = model(embedder)
    if target == MEMORY:
        return opened(MEMORY, pin, settings, moving)
    path = None if on_server(target) else path_of(target)
    if path is not None and not (create or path.exists() or path.with_name(f"{path.name}-wal").exists()):
        raise absent(path, target)
    return opened(target, pin, settings, moving, create)


def opened(target: str | Path, pin: Model, settings: Settings, moving: bool = False, create: bool = True) -> Store:
    """Return the store in a file, in memory or in a database, of the model `pin`; `create` is for databases."""
    if on_server(target):
        require("psycopg", "a store on PostgreSQL", "postgres")
        from salience.store.postgres import PostgresStore

        return PostgresStore.open(
            str(target),
            embedder=pin.name,
            dimension=pin.dimension,
            fingerprint=pin.fingerprint,
            language=settings.language,
            busy_timeout=settings.busy_timeout,
            statement_timeout=settings.statement_timeout,
            node_timeout=settings.node_timeout,
            pool_size=settings.pool_size,
            exact_rows=settings.exact_rows,
            cached_rows=settings.cached_rows,
            prepares=settings.prepared_statements,
            moving=moving,
            create=create,
        )
    from salience.store.sqlite import SQLiteStore

    return SQLiteStore.open(
        MEMORY if target == MEMORY else path_of(str(target)),
        embedder=pin.name,
        dimension=pin.dimension,
        fingerprint=pin.fingerprint,
        language=settings.language,
        busy_timeout=settings.busy_timeout,
        moving=moving,
    )


def absent(path: Path, target: str) -> StoreError:
    """Return the error that a store does not exist, with the command that creates one."""
    if target == configuration.default_target():
        remedy = 'Make one: salience remember "TEXT"; or open another file: salience --store FILE ...'
        return StoreError(f"store: none was made yet ({path}). {remedy}")
    remedy = f'Check the path, or make a store there: salience --store {shlex.quote(str(path))} remember "TEXT"'
    return StoreError(f"store: {path} does not exist. {remedy}")


def require_folder(target: str | Path | None = None) -> None:
    """Check that the folder of a target's file exists; the platform's own folder is created when it is needed.

    Raises:
        StoreError: it does not exist. A mistyped path must not create a folder.
    """
    where = named(target)
    if where in (MEMORY, configuration.default_target()) or on_server(where) or is_url(where):
        return
    folder = path_of(where).parent
    if not folder.is_dir():
        remedy = f"Check the path, or make it: mkdir -p {shlex.quote(str(folder))}"
        raise StoreError(f"store: the folder {folder} does not exist. {remedy}")


def require_store(target: str | Path | None = None) -> None:
    """Check that the store of a target exists, since opening one that does not exist would create it.

    Raises:
        StoreError: the file does not exist, or the database holds no store or cannot be reached.
    """
    with database(target) as found:
        if on_server(named(target)) and found.state().revision is None:
            raise StoreError(found.state().faults[0])


def keyring(target: str | Path | None = None) -> Keyring:
    """Return the API keys of a server, in the store that `target` names; close the keyring after use.

    The store is created if it does not exist, as by `connect`. Keys in `:memory:` belong to this call alone.
    """
    settings, where = configuration.load(), named(target)
    if where == MEMORY:
        from salience.store.keyring import MemoryKeyring

        return MemoryKeyring()
    if on_server(where):
        require("psycopg", "a store on PostgreSQL", "postgres")
        from salience.store.postgres.admin import PostgresKeyring

        return PostgresKeyring.open(
            where,
            busy_timeout=settings.busy_timeout,
            statement_timeout=settings.statement_timeout,
            prepares=settings.prepared_statements,
        )
    from salience.store.keyring import SQLiteKeyring

    return SQLiteKeyring.open(str(path_of(where)), busy_timeout=settings.busy_timeout)


def database(target: str | Path | None = None) -> Database:
    """Return the database or file that a target names, for its operator; close it after use. Nothing is created.

    Raises:
        InputError: the target names no database.
        MissingExtraError: it needs a library that is not installed.
        StoreError: the file does not exist.
    """
    settings, where = configuration.load(), named(target)
    if on_server(where):
        require("psycopg", "a store on PostgreSQL", "postgres")
        from salience.store.postgres.admin import PostgresDatabase

        return PostgresDatabase(
            where,
            busy_timeout=settings.busy_timeout,
            statement_timeout=settings.statement_timeout,
            exact_rows=settings.exact_rows,
        )
    path = path_of(where)
    if not path.exists():
        raise absent(path, where)
    from salience.store.sqlite_database import SQLiteDatabase

    return SQLiteDatabase(str(path), busy_timeout=settings.busy_timeout)


def distribute(target: str | Path | None = None, *, shards: int | None = None, dry_run: bool = False) -> Distributed:
    """Distribute the tables of a PostgreSQL database over a Citus cluster, and return what was done and what is wrong.

    Raises:
        InputError: the target is no such database, or the number of shards is invalid.
        MissingExtraError: it needs a library that is not installed.
        StoreError: as `store.postgres.citus.distribute`.
    """
    settings, where = configuration.load(), named(target)
    if not on_server(where):
        remedy = f"Give {SERVERS[0]}://HOST/DATABASE: a file is on one machine."
        raise InputError("target", where, remedy, f"{shown(where)} is a file")
    require("psycopg", "a store on PostgreSQL", "postgres")
    from salience.store.postgres import citus

    return citus.distribute(where, shards=shards, dry_run=dry_run, patience=settings.busy_timeout)


def reinstate(
    file: str | Path, target: str | Path | None = None, *, keeping: bool = True, progress: Progress | None = None
) -> Path | None:
    """Replace a store by a backup while others may have it open, and return the file with its former state.

    Args:
        file: the backup.
        target: of the store, as for `connect`; created if it does not exist.
        keeping: whether to write the present state to a file beside the store first; if not, returns None.
        progress: called with the pages of the backup that are left to read, and the pages in all.

    Raises:
        InputError: a target or file that cannot be used.
        StoreError: as `store.backup.reinstate`.
    """
    from salience.store import backup

    settings, place = configuration.load(), file_of(target)
    former = backup.reinstate(str(file), str(place), settings.busy_timeout, keeping=keeping, progress=progress)
    return None if former is None else Path(former)


def copy(
    source: str | Path,
    target: str | Path,
    *,
    tenants: Sequence[str] | None = None,
    progress: copies.Progress | None = None,
) -> CopyReport:
    """Copy the memories of a store into another one, and return the counts by tenant.

    A copy that was cut off continues when this is called again.

    Args:
        source: as for `connect`; it must exist, and may be in use.
        target: likewise; created if it does not exist.
        tenants: the tenants to copy; None: all.
        progress: called with the memories done so far and the memories in all.

    Raises:
        InputError: the two are one store, or a tenant has no memories in it.
        PinnedError: the target is pinned to another model or language.
        StoreError: the source does not exist.
        ConflictError, StoreError: as `transfer.copy.copy`.
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
    pin = Model(state.embedder, state.dimension)
    with closing(opened(source, pin, settings)) as here:
        pin = here.pinned() or pin
        with closing(opened(target, pin, settings)) as there:
            return copies.copy(copies.End(here, state.store), copies.End(there, name), tenants, progress)


def place_of(target: str | Path) -> str:
    """Return the name of the store in messages: the path of a file, or the URL of a database without its password."""
    if on_server(str(target)):
        from salience.store.postgres.connection import Address

        return Address.parse(str(target)).name
    return str(path_of(str(target)).resolve())
