"""MCP over HTTP (streamable HTTP) as an ASGI application, for a server to route to at one path.

The entrance of `salience.server.rest` has checked hosts and origins by then, for REST and MCP alike.
Nothing is kept between requests, so that any worker may answer any of them; answers are JSON. Both eras of the protocol
are spoken: the one that begins with `initialize`, and the one in which each request stands by itself.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Final, cast

import anyio
from mcp.server.auth.middleware.auth_context import AuthContextMiddleware
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from pydantic_core import to_json
from starlette.requests import HTTPConnection
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from salience.errors import AccessError, SalienceError
from salience.server.gate import Gate
from salience.server.keys import Door
from salience.server.mcp.asking import Gated
from salience.server.mcp.auth import Admitted, Verifier
from salience.server.mcp.server import server
from salience.server.mcp.tools import DEFAULT, Tool
from salience.wire.errors import MEDIA_TYPE, instance, to_problem

PATH: Final = "/mcp"
"""Where a server routes to it."""
USER: Final = "user"
"""Key of the caller in the scope of a request, where the SDK looks."""
ID: Final = "request_id"
"""Where the state of a request holds its id, if the application around this one gave it any."""
GRANT: Final = "grant"
"""Where the state of a request holds who asked, as it does for REST."""


def app(
    gate: Gate,
    door: Door,
    *,
    threads: int = 32,
    body_limit: int = 8 * 1024 * 1024,
    metadata_url: str | None = None,
    tools: Mapping[str, Tool] = DEFAULT,
) -> Endpoint:
    """Return the application, to be routed to by `Route(PATH, ...)`, and `running()` as long as it is.

    Args:
        gate: answers the calls.
        door: knows who calls, by the Authorization header.
        threads: calls that are worked on at a time.
        body_limit: longest body, bytes.
        metadata_url: where a client learns which OAuth server grants access; told where access is refused.
        tools: those that are offered, by their names.
    """
    return Endpoint(
        StreamableHTTPSessionManager(
            server(lambda request: Gated(gate, getattr(request.state, GRANT)), threads, tools),
            json_response=True,
            stateless=True,
            max_request_body_size=body_limit,
        ),
        door,
        threads,
        metadata_url,
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
            await self._refusal(scope, error)(scope, receive, send)
            return
        scope.setdefault("state", {})[GRANT] = cast("Admitted", user.access_token).grant
        await self._answer({**scope, USER: user}, receive, send)

    def _refusal(self, scope: Scope, error: SalienceError) -> Response:
        details, named = to_problem(error), scope.get("state", {}).get(ID)
        details |= {} if named is None else {"instance": instance(named)}
        headers = {"WWW-Authenticate": self._challenge} if isinstance(error, AccessError) else {}
        return Response(to_json(details), details["status"], headers, MEDIA_TYPE)
