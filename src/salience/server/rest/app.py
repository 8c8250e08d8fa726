"""The verbs as a web application (ASGI)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Any, Final

import anyio.to_thread
from fastapi import FastAPI
from fastapi.telemetry import TelemetryConfig
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware

import salience
from salience.errors import SalienceError
from salience.server.gate import Gate
from salience.server.keys import Door
from salience.server.rest import problems, routes
from salience.server.rest.document import document
from salience.server.rest.entrance import REQUEST_ID, Entrance, Net
from salience.server.rest.options import Options

_EXPOSED: Final = ("ETag", "Link", "Location", "Retry-After", "WWW-Authenticate", REQUEST_ID)
_SILENT: Final[TelemetryConfig] = {
    "tracing": False,
    "metrics": False,
    "logs": False,
    "operation_spans": False,
    "auto_configure": False,
}
"""FastAPI's own telemetry would record what users write: the messages of errors, and what stands in a query."""


class _Application(FastAPI):
    """An application whose document is made from our tables."""

    def openapi(self) -> dict[str, Any]:
        """Return the OpenAPI document."""
        return document()


Lifespan = Callable[[FastAPI], AbstractAsyncContextManager[None]]


def app(gate: Gate, door: Door, options: Options = Options(), lifespan: Lifespan | None = None) -> FastAPI:
    """Return an application that asks a gate for whoever a door lets in.

    More can be mounted in it, and passes the same entrance. Of each request, the `state` of its scope holds
    `request_id`, and once they are known `grant` and `verb`.

    Args:
        gate: what is asked.
        door: who is let in.
        options: the bounds of the server, and who may call it.
        lifespan: of what else is to run as long as the application does.
    """
    made = _Application(
        title="Salience",
        version=salience.__version__,
        docs_url=None,  # its page would load scripts from elsewhere
        redoc_url=None,
        redirect_slashes=False,
        telemetry=_SILENT,
        middleware=_middleware(options),
        exception_handlers=dict.fromkeys((SalienceError, problems.Refused, HTTPException), problems.handle),
        lifespan=_bounded(options, lifespan),
    )
    routes.add(made, gate, door, options)
    return made


def _middleware(options: Options) -> list[Middleware]:
    cors = Middleware(
        CORSMiddleware,
        allow_origins=options.origins,
        allow_methods=["*"],  # whether a method is there, the routes say
        allow_headers=["*"],
        allow_private_network=True,  # the origins are chosen, whatever network they are in
        expose_headers=_EXPOSED,
    )
    return [Middleware(Entrance, options=options), *([cors] if options.origins else []), Middleware(Net)]


def _bounded(options: Options, lifespan: Lifespan | None) -> Lifespan:
    """Return a lifespan in which requests have so many threads, around another one."""

    @asynccontextmanager
    async def bounded(made: FastAPI) -> AsyncIterator[None]:
        anyio.to_thread.current_default_thread_limiter().total_tokens = options.threads
        async with AsyncExitStack() as stack:
            if lifespan is not None:
                await stack.enter_async_context(lifespan(made))
            yield

    return bounded
