"""From a target and settings to an engine: the only importer of concrete stores and embedders."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Final

from salience import checks, profiles
from salience import settings as configuration
from salience.batch import Vectors32
from salience.derived import vectors_of
from salience.embed import calibration_file
from salience.embed.calibration import calibration_of
from salience.embed.registry import embedder as chosen_embedder
from salience.engine import Engine
from salience.errors import InputError, StoreError, Words
from salience.extract.distinctions import distinctions
from salience.extract.registry import extractor, fact_reader
from salience.ids import TimeOrderedIds
from salience.judge.registry import judge as chosen_judge
from salience.loading import require
from salience.ports import FINGERPRINTED, Clustering, Database, Embedder, Model, Reranker, Store, Summariser, World
from salience.profiles import ProfileLike
from salience.records import CopyReport, Distributed
from salience.rerank.registry import reranker as chosen_reranker
from salience.settings import Settings
from salience.store import copying
from salience.store.copying import Progress
from salience.store.memory import MemoryStore
from salience.store.moving.copy import Progress as CopyProgress
from salience.store.moving.copy import copy as moving_copy
from salience.store.moving.on_sqlite import SQLiteSide
from salience.store.moving.side import Side
from salience.store.sqlite import SQLiteStore
from salience.store.sqlite_database import SQLiteDatabase
from salience.summarise.registry import summariser as chosen_summariser
from salience.text import Tokeniser

MEMORY: Final = ":memory:"
"""The target that keeps memories in this process only."""
SQLITE: Final = "sqlite:///"
SERVERS: Final = ("postgresql", "postgres")
"""Schemes of a PostgreSQL database."""


def connect(
    target: str | Path | None = None,
    *,
    embedder: str | Embedder = "minilm",
    profile: ProfileLike = "salience",
    api_key: str | None = None,
    clock: Callable[[], datetime] | None = None,
    reranker: str | Reranker | None = None,
    summariser: str | Summariser | None = None,
) -> Engine:
    """Return an engine on the store that `target` names.

    Args:
        target: path of a file (or `sqlite:///path`), `postgresql://user:password@host:port/database`, or `:memory:`.
            None takes `SALIENCE_URL`, then `memory.db` in the platform's data directory.
        embedder: `minilm`, `static`, `fastembed`, `openai`, or an object with `name`, `dimension` and `embed`.
        profile: the ranking profile of recalls that name none: a name, the path of a TOML file, or a `Profile`.
        api_key: for a remote target.
        clock: returns an aware UTC instant; None for the system's clock.
        reranker: `none`, `fastembed`, `sentence-transformers`, or an object with `name` and `scores`. None takes
            `SALIENCE_RERANKER`, then `none`.
        summariser: `none`, `openai`, or an object with `name` and `summarise`. None takes `SALIENCE_SUMMARISER`, then
            `none`: the text of a reflection is then that of one of its sources.

    Raises:
        InputError: a target, embedder, reranker, summariser or setting that cannot be used.
        ProfileError: an unknown profile, or a TOML that is not one.
        MissingExtraError: a target or choice that needs a library which is not installed.
        StoreError: the file or database cannot be opened; see its subclasses.
    """
    return engine(
        configuration.load(),
        target,
        embedder=embedder,
        profile=profile,
        api_key=api_key,
        clock=clock,
        reranker=reranker,
        summariser=summariser,
    )


def moving(target: str | Path | None = None, *, embedder: str | Embedder = "minilm") -> Engine:
    """Return an engine on a store that may be pinned to another model than the embedder's.

    It is there to give the store that model by `reembed`, or to make a backup whatever the model is. Until the former
    is done, its recalls answer by words, and what it stores is pending. Takes and raises what `connect` does.
    """
    return engine(configuration.load(), target, embedder=embedder, moving=True)


def file_of(target: str | Path | None = None) -> Path:
    """Return the file that a target names, which need not be there; without one, that of the settings.

    Raises:
        InputError: it names no file.
    """
    return _path(_named(target))


def require_store(target: str | Path | None = None) -> None:
    """Return if the store that a target names is there; to open one that is not would make it, with nothing in it.

    Raises:
        InputError: no such file.
        StoreError: the database holds no store, or it cannot be reached.
    """
    with database(target) as found:
        if on_server(_named(target)) and found.state().revision is None:
            raise StoreError(found.state().faults[0])


def database(target: str | Path | None = None) -> Database:
    """Return the database or file that a target names, for its operator; without one, that of the settings.

    Nothing is made. It is to be closed, or used in a `with` statement.

    Raises:
        InputError: it names none, or a file that is not there.
        MissingExtraError: it needs a library which is not installed.
    """
    settings, where = configuration.load(), _named(target)
    if on_server(where):
        require("psycopg", "a store on PostgreSQL", "postgres")
        from salience.store.postgres.database import PostgresDatabase

        return PostgresDatabase(
            where,
            busy_timeout=settings.busy_timeout,
            statement_timeout=settings.statement_timeout,
            exact_rows=settings.exact_rows,
            distinguish=distinctions,
        )
    path = _path(where)
    if not path.exists():
        raise InputError("target", str(path), "Name the file of a store that is there.")
    return SQLiteDatabase(str(path), busy_timeout=settings.busy_timeout, distinguish=distinctions)


def distribute(target: str | Path | None = None, *, shards: int | None = None, dry_run: bool = False) -> Distributed:
    """Spread the tables of a PostgreSQL database over a Citus cluster, and return what was done and what is wrong.

    Raises:
        InputError: the target is no such database, or the number of shards is not to be had.
        MissingExtraError: it needs a library which is not installed.
        StoreError: as `store.postgres.citus.distribute` does.
    """
    settings, where = configuration.load(), _named(target)
    if not on_server(where):
        raise InputError("target", where, f"Give {SERVERS[0]}://HOST/DATABASE: a file is on one machine.")
    require("psycopg", "a store on PostgreSQL", "postgres")
    from salience.store.postgres import citus

    return citus.distribute(where, shards=shards, dry_run=dry_run, patience=settings.busy_timeout)


def _named(target: str | Path | None) -> str:
    """Return a target as text; without one, that of the settings."""
    return str(target if target is not None else configuration.load().url)


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
    """Bring all that a store holds into another one, as it is, and return what was done.

    Cut off, it goes on where it was when it is called again; until it is whole, the target is refused to `connect`.

    Args:
        source: as for `connect`; it has to be there, and may be in use.
        target: likewise; made if it is not there.
        tenants: copied alone; None: all.
        progress: called with "copying" or "comparing", the rows done, and the rows in all.

    Raises:
        InputError, StoreError, ConflictError: as `store.moving.copy.copy` does.
    """
    settings = configuration.load()
    with closing(_side(source, settings, is_source=True)) as here, closing(_side(target, settings)) as there:
        return moving_copy(here, there, tenants, progress or (lambda *_: None))


def _side(target: str | Path, settings: Settings, *, is_source: bool = False) -> Side:
    """Return the store that `target` names, as a copy works on it."""
    if on_server(target):
        require("psycopg", "a store on PostgreSQL", "postgres")
        from salience.store.moving.on_postgres import PostgresSide  # the driver is an optional library

        own = {"is_source": is_source, "prepares": settings.prepared_statements}
        return PostgresSide.open(str(target), settings.busy_timeout, distinctions, **own)
    path = _path(str(target)).resolve()
    return SQLiteSide.open(path, settings.busy_timeout, distinctions, is_source=is_source)


def engine(
    settings: Settings,
    target: str | Path | None = None,
    *,
    embedder: str | Embedder = "minilm",
    profile: ProfileLike = "salience",
    api_key: str | None = None,
    clock: Callable[[], datetime] | None = None,
    reranker: str | Reranker | None = None,
    summariser: str | Summariser | None = None,
    moving: bool = False,
) -> Engine:
    """Return an engine as `connect` does, under given settings; one that is `moving` as the function does."""
    if target is not None and not isinstance(target, (str, Path)):
        raise InputError("target", Words(type(target).__name__), "Give a path or a URL as text.")
    where = str(target if target is not None else settings.url)
    if api_key is not None:
        raise InputError("api_key", "***", "Leave it out: a local store takes no key.")
    ranking = profiles.load(profile)  # before a file is made
    ready = chosen_embedder(embedder, settings)
    reordering = chosen_reranker(reranker, settings)
    writing = chosen_summariser(summariser, settings)
    facts, judge = fact_reader(settings), chosen_judge(settings)
    clustering = Clustering(
        settings.reflect_tightness, settings.reflect_share, settings.reflect_least, settings.reflect_greatest
    )
    fitted_here = calibration_file.load(settings.calibrations)
    reader, tokeniser = extractor(settings.entities), Tokeniser(settings.language)
    world = World(
        store=store(where, ready, settings, moving),
        embedder=ready,
        extractor=reader,
        tokeniser=tokeniser,
        calibration=calibration_of(ready, fitted_here),
        clock=checked(clock) if clock else lambda: datetime.now(UTC),
        new_id=TimeOrderedIds(),
        tenant=settings.tenant,
        content_limit=settings.content_limit,
        reranker=reordering,
        rerank_top=settings.rerank_top,
        summariser=writing,
        clustering=clustering,
        fact_reader=facts,
        llm_extract_timeout=settings.llm_extract_timeout,
        judge=judge,
        judge_timeout=settings.judge_timeout,
        embed_patience=settings.embed_patience,
        keep_versions=settings.keep_versions,
        keep_touches=settings.keep_touches,
    )
    return Engine(world, ranking, lambda standing, chosen: moved(standing, chosen, settings))


def moved(world: World, chosen: str | Embedder, settings: Settings) -> World:
    """Return the world under another embedder, on the same store."""
    ready = chosen_embedder(chosen, settings)
    fitted_here = calibration_file.load(settings.calibrations)
    under = world.store.under(model(ready))
    return replace(world, embedder=ready, store=under, calibration=calibration_of(ready, fitted_here))


def model(embedder: Embedder) -> Model:
    """Return the embedder as a store is pinned to it; its fingerprint is made when it is first asked for."""

    @cache
    def fingerprint() -> Vectors32:
        return vectors_of(embedder, [FINGERPRINTED]).reshape(-1)

    return Model(embedder.name, embedder.dimension, fingerprint)


def checked(clock: Callable[[], datetime]) -> Callable[[], datetime]:
    """Return the clock with its instants checked to be aware, and in UTC."""
    return lambda: checks.instant("clock", clock())


def store(target: str, embedder: Embedder, settings: Settings, moving: bool = False) -> Store:
    """Return the store that `target` names, pinned to the embedder, or `moving` to it, and to the language."""
    pinning = model(embedder)
    if target == MEMORY:
        return MemoryStore(pinning.name, pinning.dimension, pinning.fingerprint)
    if on_server(target):
        return _postgres(target, pinning, settings, moving)
    return SQLiteStore.open(
        _path(target),
        embedder=pinning.name,
        dimension=pinning.dimension,
        fingerprint=pinning.fingerprint,
        language=settings.language,
        busy_timeout=settings.busy_timeout,
        distinguish=distinctions,
        moving=moving,
        tenant=settings.tenant,
    )


def on_server(target: str | Path) -> bool:
    """Return whether a target names a PostgreSQL database."""
    scheme, separator, _ = str(target).partition("://")
    return bool(separator) and scheme in SERVERS


def _postgres(target: str, pinning: Model, settings: Settings, moving: bool) -> Store:
    """Return the store in a PostgreSQL database."""
    require("psycopg", "a store on PostgreSQL", "postgres")
    from salience.store.postgres import PostgresStore  # the driver is an optional library

    return PostgresStore.open(
        target,
        embedder=pinning.name,
        dimension=pinning.dimension,
        fingerprint=pinning.fingerprint,
        language=settings.language,
        busy_timeout=settings.busy_timeout,
        statement_timeout=settings.statement_timeout,
        pool_size=settings.pool_size,
        exact_rows=settings.exact_rows,
        cached_rows=settings.cached_rows,
        prepares=settings.prepared_statements,
        distinguish=distinctions,
        moving=moving,
        tenant=settings.tenant,
    )


def _path(target: str) -> Path:
    """Return the file that `target` names.

    Raises:
        InputError: it names none.
    """
    scheme, separator, _ = target.partition("://")
    path = target.removeprefix(SQLITE)
    if on_server(target):
        raise InputError(
            "target",
            f"{scheme}://...",
            "Name a file. A database is put back by the tools of its server: pg_restore --clean --dbname=DSN FILE",
        )
    if "dbname=" in target and not Path(path).exists():
        raise InputError("target", Words("a list of keywords"), f"Give {SERVERS[0]}://USER@HOST/DATABASE, or a file.")
    if (separator and not target.startswith(SQLITE)) or not path or "\0" in path or path == MEMORY:
        shown = f"{scheme}://..." if separator else target  # what follows may hold a password
        raise InputError("target", shown, f"Give a file, {SQLITE}PATH, {SERVERS[0]}://HOST/DATABASE or {MEMORY}.")
    return Path(path).expanduser()
