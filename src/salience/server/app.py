"""The application of one process: engine, keys, REST, MCP, the dashboard, metrics and upkeep."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from functools import partial
from typing import Final

from fastapi import FastAPI
from starlette.routing import Route

from salience import compose
from salience.engine import warm_in_background
from salience.errors import InputError
from salience.ports import FINGERPRINTED, FullEmbedder, Keyring
from salience.records import Grant
from salience.server import metrics, oauth
from salience.server.auth import Authenticator, verify_key
from salience.server.gate import Gate, Limits, rate_limiter
from salience.server.mcp import http as mcp
from salience.server.mcp import tools
from salience.server.metrics import Metrics
from salience.server.process import ServerConfig, exposing_setting, open_store
from salience.server.rest.app import Options
from salience.server.rest.app import app as rest_app
from salience.server.server import ConnectionLimits, ServerApp, Streams
from salience.server.shares import Budget, Threads
from salience.server.telemetry import MeasuredEmbedder, RequestTelemetry, Traces, VerbTelemetry
from salience.server.ui import site as ui
from salience.server.ui.login import Sessions
from salience.server.upkeep import UpkeepThread
from salience.settings import Settings, default_target, masked
from salience.steps import embed_with

LOCAL: Final = "local"
"""Name of anonymous callers, for logs and rate limits."""


@contextmanager
def build_app(config: ServerConfig) -> Iterator[ServerApp]:
    """Yield the application of a process, and close it at the end.

    Raises:
        InputError: a setting is not acceptable.
        StoreError: the store cannot be opened.
    """
    settings = config.settings
    counters = Metrics()
    with ExitStack() as stack:
        traces = Traces(settings.otlp_endpoint)
        stack.callback(traces.close)
        engine, keyring = stack.enter_context(
            open_store(config, lambda bare: MeasuredEmbedder(loaded(bare), counters, traces))
        )
        warm_in_background(engine)
        upkeep = UpkeepThread(engine, keyring, settings.server_upkeep, counters)
        stack.callback(upkeep.stop)
        counters.connections = engine.services.store.connections

        anonymous = AnonymousAccess(settings, keyring, engine.services.tenant, config.one_time_token is None)
        clock = engine.services.clock
        verifiers: list[Callable[[str], Grant | None]] = [lambda token: verify_key(keyring, token, clock())]
        metadata_url: str | None = None
        metadata_routes: tuple[Route, ...] = ()
        if settings.oauth_issuer is not None:
            if settings.oauth_audience is None:
                raise InputError("oauth_audience", None, "Set the audience of the issuer's tokens.")
            issuer, audience = settings.oauth_issuer, settings.oauth_audience
            keys, tenant = settings.oauth_jwks_url, settings.oauth_tenant_claim
            verifiers.append(oauth.token_verifier(issuer, audience, keys, tenant, clock=clock))
            metadata_url, metadata_routes = mcp.protected_resource(audience, issuer)
        authenticator = Authenticator(verifiers, anonymous)

        limits = Limits(
            batch=settings.server_batch_limit,
            answer=settings.server_answer_limit,
            deadline_ms=settings.server_deadline_ms,
        )
        check_rate = rate_limiter(settings.server_rate)
        threads = Threads(settings.server_threads, settings.server_threads_per_key)
        budget = Budget(settings.server_memory)
        rest_gate, mcp_gate = (
            Gate(engine, limits, check_rate, VerbTelemetry(counters, traces, surface)) for surface in (None, "mcp")
        )
        endpoint = mcp.Endpoint(
            mcp_gate,
            authenticator,
            threads=threads,
            budget=budget,
            body_limit=settings.server_body_limit,
            metadata_url=metadata_url,
            tools=tools.chosen(settings.mcp_tools),
        )

        @asynccontextmanager
        async def lifespan(_: FastAPI) -> AsyncIterator[None]:
            upkeep.start()
            async with endpoint.running():
                yield

        options = Options(
            threads=threads,
            budget=budget,
            body_limit=settings.server_body_limit,
            import_limit=settings.server_import_limit,
            hosts=settings.server_hosts,
            origins=settings.server_origins,
            is_open=anonymous.is_open,
        )
        app = rest_app(rest_gate, authenticator, options, lifespan)
        app.router.routes += [
            Route(mcp.PATH, endpoint),
            *metadata_routes,
            metrics.route(counters, anonymous.is_open, settings.metrics_token),
        ]
        if settings.ui:
            sessions = Sessions(
                keyring, clock, config.cookie_secret(), anonymous, engine.services.tenant, config.one_time_token
            )
            ui_gate = Gate(engine, limits, check_rate, VerbTelemetry(counters, traces))
            ui.mount(
                app,
                ui_gate,
                sessions,
                body_limit=settings.server_body_limit,
                import_limit=settings.server_import_limit,
                budget=budget,
                database=None if settings.url == compose.MEMORY else partial(compose.database, settings.url),
                metrics=counters,
                store=_shown_store(config),
            )
        streams = Streams(app)
        asgi = RequestTelemetry(streams, mcp.PATH, counters, traces)
        connections = ConnectionLimits(
            settings.server_connections, settings.server_connections_per_address, settings.server_request_timeout
        )
        yield ServerApp(asgi, connections, anonymous.is_open, streams.end)


def _shown_store(config: ServerConfig) -> str | None:
    """Return what `--store` names in the commands of the dashboard of `salience ui`; see `Site.store`."""
    url = config.settings.url
    return None if config.one_time_token is None or url == default_target() else masked(url)


def loaded(embedder: FullEmbedder) -> FullEmbedder:
    """Return an embedder after loading its model, so that no request waits for it; remote embedders are not called.

    Raises:
        EmbedderError: the model cannot be loaded.
    """
    if not embedder.remote:
        embed_with(embedder, [FINGERPRINTED])
    return embedder


class AnonymousAccess:
    """Access without a key, while no key exists and only this machine can reach the server.

    Checks the keys on each call until one exists, and then stays closed.
    """

    def __init__(self, settings: Settings, keyring: Keyring, tenant: str, may_open: bool = True) -> None:
        self._keyring = keyring
        self._everyone = Grant(tenant=tenant, rights=("admin",), name=LOCAL)
        self._may_open = may_open and settings.oauth_issuer is None and exposing_setting(settings) is None

    def __call__(self) -> Grant | None:
        """Return the grant of anonymous callers; None once a key exists."""
        if self._may_open and not self._keyring.is_empty():
            self._may_open = False
        return self._everyone if self._may_open else None

    def is_open(self) -> bool:
        """Return whether callers need no key."""
        return self() is not None
