"""From a target and settings to an engine or a client. Only this package imports concrete stores and models."""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakSet

from salience import settings as configuration
from salience.access_log import AccessLog
from salience.compose.stores import (
    MEMORY,
    SERVERS,
    SQLITE,
    copy,
    database,
    distribute,
    file_of,
    is_url,
    keyring,
    model,
    on_server,
    reinstate,
    require_folder,
    require_store,
    store,
)
from salience.engine import Engine, warm_in_background
from salience.errors import InputError, SalienceError, Words, wrong_type
from salience.extract.entities import extractor
from salience.models import llm, registry
from salience.pending import check_model
from salience.ports import FINGERPRINTED, Clustering, Embedder, FullEmbedder, Reranker, Services, Summariser
from salience.rank import profiles
from salience.rank.profiles import ProfileLike
from salience.records import checks
from salience.records.ids import TimeOrderedIds
from salience.settings import Settings
from salience.steps import try_embed
from salience.text import Tokeniser
from salience.verbs import AsyncVerbs, Verbs

if TYPE_CHECKING:  # a local store does not load the HTTP client
    from salience.async_engine import AsyncOpening
    from salience.client import Endpoint, RetryPolicy

__all__ = [
    "EMBEDDER",
    "MEMORY",
    "SALIENCE",
    "SERVERS",
    "SQLITE",
    "aconnect",
    "chat",
    "checked",
    "connect",
    "copy",
    "database",
    "distribute",
    "engine",
    "file_of",
    "is_url",
    "keyring",
    "local",
    "model",
    "moved",
    "moving",
    "on_server",
    "reinstate",
    "require_folder",
    "require_store",
    "store",
]
EMBEDDER: Final = "minilm"
"""The default embedder."""
SALIENCE: Final = "salience"
"""The default profile of a local store."""


def connect(
    target: str | Path | None = None,
    *,
    embedder: str | Embedder | None = None,
    profile: ProfileLike | None = None,
    api_key: str | None = None,
    clock: Callable[[], datetime] | None = None,
    reranker: str | Reranker | None = None,
    summariser: str | Summariser | None = None,
    warm: bool | None = None,
    create: bool = True,
) -> Verbs:
    """Return an engine on the store that `target` names, or a client of a server. Both have the same verbs.

    A server has its own embedder, clock, reranker and summariser; naming another one for it is an error.

    Args:
        target: path of a file (or `sqlite:///path`), `postgresql://user:password@host:port/database`, `:memory:`, or
            `https://host`. None takes `SALIENCE_URL`, then `memory.db` in the platform's data directory.
        embedder: `minilm`, `static`, `bge`, `multilingual`, `fastembed:MODEL`, `openai:MODEL`, `onnx:FOLDER`,
            `sentence-transformers:MODEL`, or an object with `name`, `dimension` and `embed`. None takes
            `SALIENCE_EMBEDDER`, then `minilm`.
        profile: ranks recalls that name no profile: a name, the path of a TOML file, or a `Profile`. None takes
            `salience`, or the server's profile.
        api_key: of the server; None takes `SALIENCE_API_KEY`. A local store takes none.
        clock: returns an aware UTC instant; None for the system's clock.
        reranker: `none`, `fastembed:MODEL`, `sentence-transformers:MODEL`, the URL of an endpoint, or an object with
            `name` and `scores`. None takes `SALIENCE_RERANKER`, then `none`.
        summariser: `none`, `openai`, or an object with `name` and `summarise`. None takes `SALIENCE_SUMMARISER`, then
            `none`: the text of a reflection is then that of one of its sources.
        warm: whether to load the model and the memories of a local store in a thread at once, so that the first recall
            is fast. None takes `SALIENCE_WARM`, then False. A server does this when it starts.
        create: whether to create the file (and its folder) or the tables of a local store that does not exist. With
            False, such a store raises StoreError.

    Raises:
        InputError: a target, embedder, reranker, summariser or setting that cannot be used.
        ProfileError: an unknown profile, or a file that is not a valid profile.
        MissingExtraError: a target or choice that needs a library that is not installed.
        StoreError: the file or database cannot be opened; see its subclasses. A server is not contacted yet.
    """
    settings = configuration.load()
    models: dict[str, Any] = {"embedder": embedder, "clock": clock, "reranker": reranker, "summariser": summariser}
    if is_url(settings.url if target is None else target):
        from salience.client import Client

        return Client(*_server(settings, target, api_key, models), profile)
    return _local(settings, target, profile, api_key, warm, create, models)


def aconnect(
    target: str | Path | None = None,
    *,
    embedder: str | Embedder | None = None,
    profile: ProfileLike | None = None,
    api_key: str | None = None,
    clock: Callable[[], datetime] | None = None,
    reranker: str | Reranker | None = None,
    summariser: str | Summariser | None = None,
    warm: bool | None = None,
    create: bool = True,
) -> AsyncOpening:
    """Return an awaitable that opens a target for coroutines: `await` it, or enter it with `async with`.

    Arguments, errors and verbs are those of `connect`. Verbs of a local store run in threads, at most 32 at a time.
    """
    from salience.async_engine import AsyncEngine, AsyncOpening
    from salience.client import AsyncClient

    models: dict[str, Any] = {"embedder": embedder, "clock": clock, "reranker": reranker, "summariser": summariser}

    def opened() -> AsyncVerbs:
        settings = configuration.load()
        if is_url(settings.url if target is None else target):
            return AsyncClient(*_server(settings, target, api_key, models), profile)
        return AsyncEngine(_local(settings, target, profile, api_key, warm, create, models))

    return AsyncOpening(opened)


def chat() -> llm.Chat:
    """Return the client of the language model that the settings name, for a conversation.

    Raises:
        MissingExtraError: the library `openai` is not installed.
        InputError: no endpoint is set, or its URL or key cannot be used.
    """
    settings = configuration.load()
    is_default = settings.llm_base_url == configuration.Settings.model_fields["llm_base_url"].default
    if is_default and settings.llm_api_key is None:
        remedy = "Set SALIENCE_LLM_API_KEY, or SALIENCE_LLM_BASE_URL for another endpoint, such as a local model."
        raise InputError("llm_api_key", None, remedy, f"is missing for {settings.llm_base_url}")
    return llm.from_settings(settings, "language model")


def _local(
    settings: Settings,
    target: str | Path | None,
    profile: ProfileLike | None,
    api_key: str | None,
    warm: bool | None,
    create: bool,
    models: Mapping[str, Any],
) -> Engine:
    """Return an engine for `connect`, warmed in the background if `warm` or the settings say so."""
    ranking = SALIENCE if profile is None else profile
    made = engine(settings, target, profile=ranking, api_key=api_key, create=checks.flag("create", create), **models)
    if settings.warm if warm is None else checks.flag("warm", warm):
        warm_in_background(made)
    _OPENED.add(made)
    return made


_OPENED: Final[WeakSet[Engine]] = WeakSet()
"""Engines that this process opened; at its end they are closed, so that a file holds everything by itself."""


def _close_opened() -> None:
    for one in list(_OPENED):
        with suppress(SalienceError):
            one.close()


atexit.register(_close_opened)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_OPENED.clear)  # SQLite's connections do not survive a fork


def _server(
    settings: Settings, target: str | Path | None, api_key: str | None, models: Mapping[str, object]
) -> tuple[Endpoint, RetryPolicy]:
    """Return the address of a server, and the timeouts for it.

    Raises:
        InputError: a URL or key that cannot be used, or a model or clock, which the server has itself.
    """
    from salience.client import Endpoint, RetryPolicy

    for name, chosen in models.items():
        if chosen not in (None, EMBEDDER):
            value = chosen if isinstance(chosen, str) else Words(type(chosen).__name__)
            raise InputError(name, value, "Leave it out: a server has its own.", "is not for a server")
    default = settings.api_key.get_secret_value() if settings.api_key else None
    where, key = str(settings.url if target is None else target), default if api_key is None else api_key
    endpoint = Endpoint.parse(where, key, allow_http=settings.client_allow_http)
    return endpoint, RetryPolicy(settings.client_timeout, settings.client_retries)


def local(
    target: str | Path | None = None,
    *,
    embedder: str | Embedder | None = None,
    profile: ProfileLike = SALIENCE,
    clock: Callable[[], datetime] | None = None,
) -> Engine:
    """Return an engine as `connect` does, but refuse the URL of a server: for work that needs the store itself."""
    return engine(configuration.load(), target, embedder=embedder, profile=profile, clock=clock)


def moving(target: str | Path | None = None, *, embedder: str | Embedder | None = None) -> Engine:
    """Return an engine on a store that may be pinned to another model than the embedder's.

    Use it to `reembed`, or to back up a store whatever its model. Until `reembed` is done, its recalls answer by words,
    and new memories are pending. Arguments and errors are those of `connect`.
    """
    return engine(configuration.load(), target, embedder=embedder, moving=True)


def engine(
    settings: Settings,
    target: str | Path | None = None,
    *,
    embedder: str | Embedder | None = None,
    profile: ProfileLike = SALIENCE,
    api_key: str | None = None,
    clock: Callable[[], datetime] | None = None,
    reranker: str | Reranker | None = None,
    summariser: str | Summariser | None = None,
    moving: bool = False,
    wrap: Callable[[FullEmbedder], FullEmbedder] = lambda embedder: embedder,
    create: bool = True,
) -> Engine:
    """Return an engine as `connect` does, under given settings; with `moving`, as the function of that name.

    When another process changes the model of the store, the engine changes to it too if it ships with Salience and can
    be loaded here. `wrap` is applied to that embedder.
    """
    if target is not None and not isinstance(target, (str, Path)):
        raise wrong_type("target", target, "Give a path or a URL as text.")
    where = str(target if target is not None else settings.url)
    if api_key is not None:
        raise InputError("api_key", "***", "Leave it out: a local store takes no key.", "is not for a local store")
    ranking = profiles.load(profile)  # before a file is created
    embedding = registry.embedder(embedder, settings)
    parts: dict[str, Any] = {
        "reranker": registry.reranker(reranker, settings),
        "summariser": registry.summariser(summariser, settings),
        "fact_reader": registry.fact_reader(settings),
        "judge": registry.judge(settings),
        "clustering": Clustering(
            settings.reflect_tightness, settings.reflect_share, settings.reflect_least, settings.reflect_greatest
        ),
        "extractor": extractor(settings.entities),
    }
    opened = store(where, embedding, settings, moving, create)
    services = Services(
        store=opened,
        tokeniser=Tokeniser(opened.language),
        access_log=AccessLog(opened),
        embedder=embedding,
        clock=checked(clock) if clock else lambda: datetime.now(UTC),
        new_id=TimeOrderedIds(),
        tenant=settings.tenant,
        content_limit=settings.content_limit,
        rerank_top=settings.rerank_top,
        rerank_timeout=settings.rerank_timeout,
        llm_extract_timeout=settings.llm_extract_timeout,
        judge_timeout=settings.judge_timeout,
        embed_patience=settings.embed_patience,
        keep_versions=settings.keep_versions,
        keep_touches=settings.keep_touches,
        keep_requests=settings.keep_requests,
        recall_log=settings.recall_log,
        **parts,
    )
    follow = None if moving else lambda current: followed(current, settings, wrap)
    return Engine(services, ranking, lambda current, chosen: moved(current, chosen, settings), follow)


def moved(services: Services, chosen: str | Embedder, settings: Settings) -> Services:
    """Return the services with another embedder, on the same store."""
    embedding = registry.embedder(chosen, settings)
    return replace(services, embedder=embedding, store=services.store.with_model(model(embedding)))


def followed(services: Services, settings: Settings, wrap: Callable[[FullEmbedder], FullEmbedder]) -> Services | None:
    """Return the services with the model that the store is now pinned to; None if it cannot be loaded here."""
    try:
        pin = services.store.pinned()
        made = None if pin is None else registry.embedder_for(pin.name, pin.dimension, settings)
        if made is None:
            return None
        under = moved(services, wrap(made), settings)
        embedded, _ = try_embed(under, [FINGERPRINTED])
        if embedded is not None:
            check_model(under)
    except SalienceError:
        return None
    return None if embedded is None else under


def checked(clock: Callable[[], datetime]) -> Callable[[], datetime]:
    """Return the clock with each instant checked to be aware, and converted to UTC."""
    return lambda: checks.aware("clock", clock())
