"""What one process of a server is made of."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any, Final

from fastapi import FastAPI
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.values import ValueClass
from starlette.routing import Route
from starlette.types import ASGIApp

from salience.engine import Engine, warm_in_background
from salience.errors import InputError
from salience.ports import FINGERPRINTED, Embedder, Keyring
from salience.records import Grant
from salience.server import connections, oauth, rates, scraping, traces
from salience.server.embedding import Measured
from salience.server.gate import Gate, Limits
from salience.server.keys import Door, granted
from salience.server.mcp import auth, tools
from salience.server.mcp import http as mcp
from salience.server.metrics import Meter
from salience.server.opening import opened, reached_through
from salience.server.plan import Plan
from salience.server.requests import Requests
from salience.server.rest import app as web
from salience.server.rest.options import Options
from salience.server.streams import Streams
from salience.server.upkeep import Keeper
from salience.server.watching import Watcher
from salience.settings import Settings
from salience.steps import embed_with

LOCAL: Final = "local"
"""Name of everybody, for logs and rates, as long as there is no key."""


@dataclass(frozen=True, slots=True)
class Site:
    """What one process serves.

    Attributes:
        app: the application; upkeep goes on as long as it does.
        protocol: what makes the protocol of each connection, for uvicorn.
        is_open: returns whether everybody is let in.
        end_streams: ends the answers that would go on; to be called where the loop runs.
    """

    app: ASGIApp
    protocol: Any
    is_open: Callable[[], bool]
    end_streams: Callable[[], None]


@contextmanager
def standing(plan: Plan) -> Iterator[Site]:
    """Yield what a process serves; in the end, all of it is closed.

    Raises:
        InputError: a value that cannot be accepted.
        StoreError: the store cannot be opened; see its subclasses.
    """
    settings, meter, streams = plan.settings, Meter(), Streams()
    admit = rates.admission(settings.server_rate)
    with ExitStack() as stack:
        sent = traces.to(settings.otlp_endpoint)
        stack.callback(sent.close)
        engine, keyring = stack.enter_context(opened(plan, lambda bare: Measured(awake(bare), meter, sent)))
        warm_in_background(engine)  # whose memories may take longer to load than a start should
        keeper = Keeper(engine, keyring, settings.server_upkeep, meter)
        stack.callback(keeper.stop)
        unlocked = Unlocked(settings, keyring, engine.services.tenant)
        meter.watch(getattr(engine.services.store, "connections", dict))
        limits = Limits(
            batch=settings.server_batch_limit,
            answer=settings.server_answer_limit,
            deadline_ms=settings.server_deadline_ms,
        )
        rest, asked = (Gate(engine, limits, admit, Watcher(meter, sent, counts)) for counts in (None, "mcp"))
        made = _application(settings, rest, asked, door(settings, keyring, engine, unlocked), keeper, unlocked.is_open)
        page = scraping.page(lambda: _exposed(meter), unlocked.is_open, settings.metrics_token)
        made.router.routes.append(Route(scraping.PATH, page))
        noted = Requests(made, mcp.PATH, meter, sent, streams)
        yield Site(noted, connections.protocol(settings), unlocked.is_open, streams.end)


def _application(
    settings: Settings, rest: Gate, asked: Gate, door: Door, keeper: Keeper, is_open: Callable[[], bool]
) -> FastAPI:
    """Return REST, with MCP behind the same entrance, and upkeep going on beside both."""
    known = _known_to_oauth(settings)
    endpoint = mcp.app(
        asked,
        door,
        threads=settings.server_threads,
        body_limit=settings.server_body_limit,
        metadata_url=known.metadata_url if known else None,
        tools=tools.chosen(settings.mcp_tools),
    )

    @asynccontextmanager
    async def beside(_: FastAPI) -> AsyncIterator[None]:
        keeper.start()
        async with endpoint.running():
            yield

    options = Options(
        threads=settings.server_threads,
        body_limit=settings.server_body_limit,
        import_limit=settings.server_import_limit,
        hosts=settings.server_hosts,
        origins=settings.server_origins,
        is_open=is_open,
    )
    made = web.app(rest, door, options, beside)
    made.router.routes += [Route(mcp.PATH, endpoint), *(known.routes if known else ())]
    return made


def _known_to_oauth(settings: Settings) -> auth.Resource | None:
    """Return what tells clients which issuer grants access; None without one, or where the audience is no URL."""
    if settings.oauth_issuer is None or settings.oauth_audience is None:
        return None
    return auth.resource(settings.oauth_audience, settings.oauth_issuer)


def awake(embedder: Embedder) -> Embedder:
    """Return an embedder that is loaded, so that no request waits for that; a remote one is not asked.

    Raises:
        EmbedderError: it cannot be loaded.
    """
    if not getattr(embedder, "remote", False):
        embed_with(embedder, [FINGERPRINTED])
    return embedder


class Unlocked:
    """Lets everybody in as long as no key was ever made, where only this machine reaches the server.

    Returns the grant of everybody, or None; it looks each time until there is a key, and never opens again.
    """

    def __init__(self, settings: Settings, keyring: Keyring, tenant: str) -> None:
        self._keyring = keyring
        self._everybody = Grant(tenant=tenant, rights=("admin",), name=LOCAL)
        self._may_open = settings.oauth_issuer is None and reached_through(settings) is None

    def __call__(self) -> Grant | None:
        """Return what everybody may do; None once there is a key."""
        if self._may_open and not self._keyring.is_empty():
            self._may_open = False
        return self._everybody if self._may_open else None

    def is_open(self) -> bool:
        """Return whether everybody is let in."""
        return self() is not None


def door(settings: Settings, keyring: Keyring, engine: Engine, unlocked: Unlocked) -> Door:
    """Return who lets callers in: by a key, or by a token of the issuer that the settings name.

    Raises:
        InputError: an issuer without an audience, or at an address that is not to be trusted.
    """
    verify: list[Callable[[str], Grant | None]] = [lambda token: granted(keyring, token, engine.services.clock())]
    if settings.oauth_issuer is not None:
        if settings.oauth_audience is None:
            raise InputError("oauth_audience", None, "Name the audience that tokens have to be for.")
        verify.append(
            oauth.verifier(
                settings.oauth_issuer,
                settings.oauth_audience,
                settings.oauth_jwks_url,
                settings.oauth_tenant_claim,
                clock=engine.services.clock,
            )
        )
    return Door(verify, unlocked)


def _exposed(meter: Meter) -> bytes:
    """Return the metrics of this process, or of all that count together, as Prometheus reads them."""
    meter.pool()
    if not getattr(ValueClass, "_multiprocess", False):
        return generate_latest(meter.registry)
    together = CollectorRegistry()
    MultiProcessCollector(together)  # type: ignore[no-untyped-call]
    return generate_latest(together)
