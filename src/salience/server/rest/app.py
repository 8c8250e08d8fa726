"""The FastAPI application: middleware, exception handlers, OpenAPI document."""

from __future__ import annotations

import logging
import re
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Any, Final

import anyio.to_thread
from fastapi import FastAPI
from fastapi.telemetry import TelemetryConfig
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

import salience
from salience.errors import SalienceError, shown
from salience.server.auth import Authenticator
from salience.server.gate import Gate
from salience.server.rest import openapi, routes
from salience.server.rest.problems import HttpError, error_response, handle_error
from salience.server.rest.routes import Options
from salience.wire.errors import stack_of

HEALTH: Final = ("/healthz", "/readyz")
"""Paths for probes, which accept any host and origin because they reveal nothing."""
ID_HEADER: Final = "X-Request-ID"
_EXPOSED: Final = ("ETag", "Link", "Location", "Retry-After", "WWW-Authenticate", ID_HEADER)
_SHORT_BODY_DIGITS: Final = 5
"""Digits of the longest Content-Length after which a refused request keeps its connection open."""
_ID: Final = re.compile("[A-Za-z0-9._:-]{1,64}")
_LOOPBACK: Final = ("localhost", "127.0.0.1", "[::1]")
_PROXY_HEADERS: Final = ("forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip", "via")
_SECURITY_HEADERS: Final = {
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_NO_TELEMETRY: Final[TelemetryConfig] = {
    "tracing": False,
    "metrics": False,
    "logs": False,
    "operation_spans": False,
    "auto_configure": False,
}
"""FastAPI's own telemetry is off: it would record user text in error messages and queries."""
_log = logging.getLogger("salience.server.rest")
Lifespan = Callable[[FastAPI], AbstractAsyncContextManager[None]]

__all__ = ["Lifespan", "Options", "app"]


class _Application(FastAPI):
    def openapi(self) -> dict[str, Any]:
        """Return the OpenAPI document."""
        if self.openapi_schema is None:
            openapi.complete(super().openapi())
        return self.openapi_schema or {}


def app(
    gate: Gate, authenticator: Authenticator, options: Options = Options(), lifespan: Lifespan | None = None
) -> FastAPI:
    """Return the application. Routes that are added later pass through the same middleware.

    The `state` of a request holds `request_id`, and `grant` and `verb` once they are known.
    """
    cors = Middleware(
        CORSMiddleware,
        allow_origins=options.origins,
        allow_methods=["*"],  # the routes decide
        allow_headers=["*"],
        allow_private_network=True,  # the operator chose the origins
        expose_headers=_EXPOSED,
    )

    @asynccontextmanager
    async def with_threads(application: FastAPI) -> AsyncIterator[None]:
        anyio.to_thread.current_default_thread_limiter().total_tokens = options.threads
        async with AsyncExitStack() as stack:
            if lifespan is not None:
                await stack.enter_async_context(lifespan(application))
            yield

    application = _Application(
        title="Salience",
        version=salience.__version__,
        summary="Memory for AI agents that ranks what matters, shows why, and loses nothing.",
        license_info={"name": "Apache-2.0", "identifier": "Apache-2.0"},
        openapi_tags=openapi.TAGS,
        docs_url=None,  # the page would load scripts from elsewhere
        redoc_url=None,
        redirect_slashes=False,
        telemetry=_NO_TELEMETRY,
        middleware=[
            Middleware(RequestGuard, options=options),
            *([cors] if options.origins else []),
            Middleware(UnexpectedErrors),
        ],
        exception_handlers=dict.fromkeys((SalienceError, HttpError, HTTPException), handle_error),
        lifespan=with_threads,
    )
    routes.add_routes(application, gate, authenticator, options)
    return application


class RequestGuard:
    """ASGI middleware: sets the request id, checks Host and Origin, adds security headers.

    The Host check stops DNS rebinding; the Origin check stops pages of other sites.
    """

    def __init__(self, app: ASGIApp, options: Options) -> None:
        self._app = app
        self._hosts = {host.lower() for host in options.hosts}
        self._origins = {origin.lower() for origin in options.origins}
        self._is_open = options.is_open

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Forward a request, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        given = headers.get(ID_HEADER, "")
        request_id = given if _ID.fullmatch(given) else uuid.uuid4().hex
        scope.setdefault("state", {})["request_id"] = request_id
        unread = "transfer-encoding" in headers or len(headers.get("content-length", "")) > _SHORT_BODY_DIGITS

        async def read() -> Message:
            nonlocal unread
            message = await receive()
            unread = unread and message.get("more_body", False)
            return message

        async def respond(message: Message) -> None:
            if message["type"] == "http.response.start":
                added = MutableHeaders(scope=message)
                added[ID_HEADER] = request_id
                if unread:  # stops the client from sending the rest
                    added["Connection"] = "close"
                for name, value in _SECURITY_HEADERS.items():
                    added.setdefault(name, value)
            await send(message)

        error = None if scope["path"] in HEALTH else self._refusal(scope, headers)
        await (error_response(request_id, error) if error else self._app)(scope, read, respond)

    def _refusal(self, scope: Scope, headers: Headers) -> HttpError | None:
        host, origin = _host_name(headers.get("host", "")), headers.get("origin")
        own = _host_name(str((scope.get("server") or ("",))[0]))
        if not self._hosts & {"*", host} and host not in (*_LOOPBACK, own, f"[{own}]"):
            remedy = "Use its own name, or add this one to the setting server_hosts (SALIENCE_SERVER_HOSTS)."
            return HttpError(403, f"Host: {shown(host)} is not a name of this server. {remedy}")
        if len(headers.getlist("authorization")) > 1:  # a proxy may have checked only one of them
            return HttpError(400, "Authorization: given twice. Send one header.")
        if origin is not None and not self._origins & {"*", origin.lower()}:
            # with "*", any page could claim the server's own origin
            is_own = "*" not in self._hosts and origin.lower().partition("://")[2] == headers.get("host", "").lower()
            if not is_own:
                remedy = "Add it to the setting server_origins (SALIENCE_SERVER_ORIGINS)."
                return HttpError(403, f"Origin: pages of {shown(origin)} may not call this server. {remedy}")
        if any(name in headers for name in _PROXY_HEADERS) and self._is_open():
            reason = "no API key exists, so only this machine has access, and a proxy forwarded this request"
            return HttpError(403, f"authorization: {reason}. Create a key first.")
        return None


class UnexpectedErrors:
    """ASGI middleware: turns an unexpected error into a response with the request id, and logs its class and stack."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Forward a request. A response that has started stays unfinished, so that the client sees it is cut off."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        has_started = False

        async def respond(message: Message) -> None:
            nonlocal has_started
            has_started = True
            await send(message)

        try:
            await self._app(scope, receive, respond)
        except ClientDisconnect:
            return
        except Exception as error:
            request_id = scope["state"]["request_id"]
            _log.error("request %s: %s", request_id, stack_of(error))
            if not has_started:
                await error_response(request_id, error)(scope, receive, send)


def _host_name(host: str) -> str:
    """Return the name in a `Host` header, without its port."""
    return re.sub(r":\d*$", "", host).rstrip(".").lower() if host.count(":") == 1 or "]" in host else host.lower()
