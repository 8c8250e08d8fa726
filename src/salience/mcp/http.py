"""MCP over HTTP (streamable HTTP) as an ASGI application, for a server to route to at one path.

Nothing is kept between requests, so that any worker may answer any of them; answers are JSON. Both eras of the
protocol are spoken: the one that begins with `initialize`, and the one in which each request stands by itself.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import anyio
from mcp.server.auth.middleware.auth_context import AuthContextMiddleware
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from pydantic_core import to_json
from starlette.requests import HTTPConnection
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from salience.access import Door
from salience.errors import AccessError, SalienceError
from salience.gate import Gate
from salience.mcp.asking import Gated
from salience.mcp.auth import Verifier
from salience.mcp.server import server
from salience.wire.failures import MEDIA_TYPE, problem

PATH: Final = "/mcp"
"""Where a server routes to it."""
USER: Final = "user"
"""Key of the caller in the scope of a request, where the SDK looks too."""
LOOPBACK: Final = ("127.0.0.1", "localhost", "[::1]")
"""Names of this machine for itself; pages that it serves to itself may call."""
ANY_HOST: Final = "*"
"""In the place of a host: whoever routes here has seen to hosts and origins."""


def app(
    gate: Gate,
    door: Door,
    *,
    hosts: tuple[str, ...] = (),
    origins: tuple[str, ...] = (),
    threads: int = 32,
    body_limit: int = 8 * 1024 * 1024,
    metadata_url: str | None = None,
) -> Endpoint:
    """Return the application, to be routed to by `Route(PATH, ...)`, and `running()` as long as it is.

    Args:
        gate: answers the calls.
        door: knows who calls, by the Authorization header.
        hosts: names under which the server may be addressed, beside loopback. With `*`, neither hosts nor origins are
            looked at here.
        origins: web origins, such as `https://example.org`, whose pages may call, beside those of this machine.
        threads: calls that are worked on at a time.
        body_limit: longest body, bytes.
        metadata_url: where a client learns which OAuth server grants access; told where access is refused.
    """
    return Endpoint(
        StreamableHTTPSessionManager(
            server(lambda request: Gated(gate, request.scope[USER].access_token.grant), threads),
            json_response=True,
            stateless=True,
            security_settings=security(hosts, origins),
            max_request_body_size=body_limit,
        ),
        door,
        threads,
        metadata_url,
    )


def security(hosts: tuple[str, ...], origins: tuple[str, ...]) -> TransportSecuritySettings:
    """Return which Host and Origin headers are let in: against pages that reach this machine by a name of theirs."""
    return TransportSecuritySettings(
        enable_dns_rebinding_protection=ANY_HOST not in hosts,
        allowed_hosts=[form for host in (*LOOPBACK, *hosts) for form in (host, f"{host}:*")],
        allowed_origins=[*origins, *(form for host in LOOPBACK for form in (f"http://{host}", f"http://{host}:*"))],
    )


class Endpoint:
    """The application. It asks who calls, off the event loop, and has the SDK answer."""

    def __init__(
        self, manager: StreamableHTTPSessionManager, door: Door, threads: int, metadata_url: str | None
    ) -> None:
        self._manager = manager
        self._answer = AuthContextMiddleware(manager.handle_request)
        self._verifier = Verifier(door, anyio.CapacityLimiter(threads))
        self._challenge = "Bearer" + (f' resource_metadata="{metadata_url}"' if metadata_url else "")

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Answer within the block, which is to be entered once, in the lifespan of the application around this one."""
        async with self._manager.run():
            yield

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["method"] != "POST":  # there is no session to listen to or to end
            await Response(status_code=405, headers={"Allow": "POST"})(scope, receive, send)
            return
        try:
            user = await self._verifier.user(HTTPConnection(scope))
        except SalienceError as error:
            await self._refusal(error)(scope, receive, send)
            return
        await self._answer({**scope, USER: user}, receive, send)

    def _refusal(self, error: SalienceError) -> Response:
        details: dict[str, Any] = problem(error)
        headers = {"WWW-Authenticate": self._challenge} if isinstance(error, AccessError) else {}
        return Response(to_json(details), details["status"], headers, MEDIA_TYPE)
