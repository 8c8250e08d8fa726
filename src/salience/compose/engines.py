"""From a target and settings to an engine, or to a client of a server."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from salience import settings as configuration
from salience.compose import parts
from salience.compose.stores import model, store
from salience.compose.targets import is_url
from salience.engine import Engine, warming
from salience.errors import InputError, SalienceError, Words, wrong_type
from salience.extract.registry import extractor
from salience.models import calibration
from salience.models.calibration import calibration_of
from salience.models.registry import embedder as chosen_embedder
from salience.models.registry import embedder_for, fact_reader
from salience.models.registry import judge as chosen_judge
from salience.models.registry import reranker as chosen_reranker
from salience.models.registry import summariser as chosen_summariser
from salience.pending import admitted
from salience.ports import FINGERPRINTED, Clustering, Embedder, Reranker, Services, Summariser
from salience.rank import profiles
from salience.rank.profiles import ProfileLike
from salience.records import checks
from salience.records.ids import TimeOrderedIds
from salience.settings import Settings
from salience.steps import try_embed
from salience.text import Tokeniser

if TYPE_CHECKING:  # what sends requests is loaded for those who do
    from salience.client import AsyncOpening, AsyncVerbs, Client, Endpoint, RetryPolicy

EMBEDDER: Final = "minilm"
"""The embedder that is taken where none is named."""
SALIENCE: Final = "salience"
"""The profile of a local store where none is named."""


def connect(
    target: str | Path | None = None,
    *,
    embedder: str | Embedder = EMBEDDER,
    profile: ProfileLike | None = None,
    api_key: str | None = None,
    clock: Callable[[], datetime] | None = None,
    reranker: str | Reranker | None = None,
    summariser: str | Summariser | None = None,
    warm: bool | None = None,
    create: bool = True,
) -> Engine | Client:
    """Return an engine on the store that `target` names, or a client of a server: they have the same verbs.

    A server has an embedder, a clock, a reranker and a summariser of its own; to name others is an error.

    Args:
        target: path of a file (or `sqlite:///path`), `postgresql://user:password@host:port/database`, `:memory:`, or
            `https://host`. None takes `SALIENCE_URL`, then `memory.db` in the platform's data directory.
        embedder: `minilm`, `static`, `fastembed`, `openai`, or an object with `name`, `dimension` and `embed`.
        profile: the ranking profile of recalls that name none: a name, the path of a TOML file, or a `Profile`. None
            for `salience`, or for the one that the server runs with.
        api_key: of the server; None takes `SALIENCE_API_KEY`. A local store takes none.
        clock: returns an aware UTC instant; None for the system's clock.
        reranker: `none`, `fastembed`, `sentence-transformers`, or an object with `name` and `scores`. None takes
            `SALIENCE_RERANKER`, then `none`.
        summariser: `none`, `openai`, or an object with `name` and `summarise`. None takes `SALIENCE_SUMMARISER`, then
            `none`: the text of a reflection is then that of one of its sources.
        warm: whether to load the model and the memories of a local store at once, in a thread, so that the first recall
            does not wait for them. None takes `SALIENCE_WARM`, then False. A server has loaded its own.
        create: whether to make the file (and its folder) or the tables of a local store that does not exist. With
            False, such a store is a `StoreError`, and nothing is made.

    Raises:
        InputError: a target, embedder, reranker, summariser or setting that cannot be used.
        ProfileError: an unknown profile, or a TOML that is not one.
        MissingExtraError: a target or choice that needs a library which is not installed.
        StoreError: the file or database cannot be opened; see its subclasses. A server is not asked yet.
    """
    settings = configuration.load()
    models: dict[str, Any] = {"embedder": embedder, "clock": clock, "reranker": reranker, "summariser": summariser}
    if is_url(settings.url if target is None else target):
        return parts.Client(*_server(settings, target, api_key, models), profile)
    ranking = SALIENCE if profile is None else profile
    made = engine(settings, target, profile=ranking, api_key=api_key, create=checks.flag("create", create), **models)
    return _warming(made, settings, warm)


def aconnect(
    target: str | Path | None = None,
    *,
    embedder: str | Embedder = EMBEDDER,
    profile: ProfileLike | None = None,
    api_key: str | None = None,
    clock: Callable[[], datetime] | None = None,
    reranker: str | Reranker | None = None,
    summariser: str | Summariser | None = None,
    warm: bool | None = None,
    create: bool = True,
) -> AsyncOpening:
    """Return what opens a target for coroutines: `await` it, or enter it with `async with`.

    The verbs are those of `connect`, which has the arguments and errors as well. Those of a local store run in threads,
    at most 32 at a time.
    """
    models: dict[str, Any] = {"embedder": embedder, "clock": clock, "reranker": reranker, "summariser": summariser}

    def opened() -> AsyncVerbs:
        settings = configuration.load()
        if is_url(settings.url if target is None else target):
            return parts.AsyncClient(*_server(settings, target, api_key, models), profile)
        ranking = SALIENCE if profile is None else profile
        made = engine(
            settings, target, profile=ranking, api_key=api_key, create=checks.flag("create", create), **models
        )
        return parts.AsyncEngine(_warming(made, settings, warm))

    return parts.AsyncOpening(opened)


def _warming(made: Engine, settings: Settings, warm: bool | None) -> Engine:
    """Return the engine, which begins to load what its first recall needs if that is wanted."""
    if settings.warm if warm is None else checks.flag("warm", warm):
        warming.begin(made)
    return made


def _server(
    settings: Settings, target: str | Path | None, api_key: str | None, models: Mapping[str, object]
) -> tuple[Endpoint, RetryPolicy]:
    """Return the server that a target names, and how long it is waited for.

    Raises:
        InputError: a URL or key that cannot be used, or a model or clock that is not the server's.
    """
    for name, chosen in models.items():
        if chosen not in (None, EMBEDDER):
            told = chosen if isinstance(chosen, str) else Words(type(chosen).__name__)
            raise InputError(name, told, "Leave it out: a server has its own.", "is not for a server")
    kept = settings.api_key.get_secret_value() if settings.api_key else None
    where, key = str(settings.url if target is None else target), kept if api_key is None else api_key
    endpoint = parts.Endpoint.parse(where, key, allow_http=settings.client_allow_http)
    return endpoint, parts.RetryPolicy(settings.client_timeout, settings.client_retries)


def local(
    target: str | Path | None = None,
    *,
    embedder: str | Embedder = EMBEDDER,
    profile: ProfileLike = SALIENCE,
    clock: Callable[[], datetime] | None = None,
) -> Engine:
    """Return an engine as `connect` does, for what needs the store itself; a server's URL is refused."""
    return engine(configuration.load(), target, embedder=embedder, profile=profile, clock=clock)


def moving(target: str | Path | None = None, *, embedder: str | Embedder = EMBEDDER) -> Engine:
    """Return an engine on a store that may be pinned to another model than the embedder's.

    It is there to give the store that model by `reembed`, or to make a backup whatever the model is. Until the former
    is done, its recalls answer by words, and what it stores is pending. Takes and raises what `connect` does.
    """
    return engine(configuration.load(), target, embedder=embedder, moving=True)


def engine(
    settings: Settings,
    target: str | Path | None = None,
    *,
    embedder: str | Embedder = EMBEDDER,
    profile: ProfileLike = SALIENCE,
    api_key: str | None = None,
    clock: Callable[[], datetime] | None = None,
    reranker: str | Reranker | None = None,
    summariser: str | Summariser | None = None,
    moving: bool = False,
    wrap: Callable[[Embedder], Embedder] = lambda embedder: embedder,
    create: bool = True,
) -> Engine:
    """Return an engine as `connect` does, under given settings; one that is `moving` as the function does.

    Once another process gives the store another model, the engine goes over to it by itself, if that is one of
    `EMBEDDERS` and can be loaded here. `wrap` returns what is to stand before that embedder.
    """
    if target is not None and not isinstance(target, (str, Path)):
        raise wrong_type("target", target, "Give a path or a URL as text.")
    where = str(target if target is not None else settings.url)
    if api_key is not None:
        raise InputError("api_key", "***", "Leave it out: a local store takes no key.", "is not for a local store")
    ranking = profiles.load(profile)  # before a file is made
    ready = chosen_embedder(embedder, settings)
    reordering = chosen_reranker(reranker, settings)
    writing = chosen_summariser(summariser, settings)
    facts, judge = fact_reader(settings), chosen_judge(settings)
    clustering = Clustering(
        settings.reflect_tightness, settings.reflect_share, settings.reflect_least, settings.reflect_greatest
    )
    fitted_here = calibration.load(settings.calibrations)
    reader, tokeniser = extractor(settings.entities), Tokeniser(settings.language)
    services = Services(
        store=store(where, ready, settings, moving, create),
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
        keep_requests=settings.keep_requests,
    )
    follow = None if moving else lambda standing: followed(standing, settings, wrap)
    return Engine(services, ranking, lambda standing, chosen: moved(standing, chosen, settings), follow)


def moved(services: Services, chosen: str | Embedder, settings: Settings) -> Services:
    """Return the services under another embedder, on the same store."""
    ready = chosen_embedder(chosen, settings)
    fitted_here = calibration.load(settings.calibrations)
    under = services.store.under(model(ready))
    return replace(services, embedder=ready, store=under, calibration=calibration_of(ready, fitted_here))


def followed(services: Services, settings: Settings, wrap: Callable[[Embedder], Embedder]) -> Services | None:
    """Return the services under the model that its store is pinned to by now; None if that is not to be had here."""
    try:
        pin = services.store.pinned()
        made = None if pin is None else embedder_for(pin.name, pin.dimension, settings)
        if made is None:
            return None
        under = moved(services, wrap(made), settings)
        vectors, _ = try_embed(under, [FINGERPRINTED])  # a remote one is waited for no longer than by a write
        if vectors is not None:
            admitted(under)
    except SalienceError:
        return None
    return None if vectors is None else under


def checked(clock: Callable[[], datetime]) -> Callable[[], datetime]:
    """Return the clock with its instants checked to be aware, and in UTC."""
    return lambda: checks.instant("clock", clock())
