"""MCP over streamable HTTP, as an ASGI application, with authentication.

The middleware of `salience.server.rest` has checked hosts and origins. The server is stateless, so that any worker can
answer any request, and its responses are JSON. It supports protocol versions with and without `initialize`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Final
from urllib.parse import urlsplit

from mcp.server.auth.middleware.auth_context import AuthContextMiddleware
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.auth.routes import build_resource_metadata_url, create_protected_resource_routes
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from pydantic import AnyHttpUrl, ConfigDict, TypeAdapter
from pydantic_core import to_json
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from salience.errors import AccessError, LimitError, SalienceError
from salience.records import RIGHTS
from salience.server.auth import Authenticator
from salience.server.gate import Gate
from salience.server.mcp.server import server
from salience.server.mcp.tools import DEFAULT, LocalCaller, Tool
from salience.server.oauth import SCOPE_PREFIX
from salience.server.shares import RETRY_AFTER, Budget, Threads, content_length
from salience.wire.errors import MEDIA_TYPE, instance, to_problem

PATH: Final = "/mcp"
METADATA: Final = "/.well-known/oauth-protected-resource"
"""Path of the server's metadata, for clients that know only the host (RFC 9728)."""
NO_TOKEN: Final = "not stored"  # noqa: S105 - no secret
"""Placeholder: the token is not needed once it is verified."""
_VERBATIM_URL: Final = TypeAdapter(AnyHttpUrl, config=ConfigDict(url_preserve_empty_path=True))
"""Adds no slash to a URL: clients compare issuers as text."""


class Endpoint:
    """The ASGI application for `Route(PATH, ...)`: authenticates the caller in a thread, then calls the SDK.

    Args:
        threads: where calls work.
        budget: of the bytes of bodies in memory.
        body_limit: maximum length of a body, bytes.
        metadata_url: of the OAuth metadata; sent to callers without access.
    """

    def __init__(
        self,
        gate: Gate,
        authenticator: Authenticator,
        *,
        threads: Threads | None = None,
        budget: Budget | None = None,
        body_limit: int = 8 * 1024 * 1024,
        metadata_url: str | None = None,
        tools: Mapping[str, Tool] = DEFAULT,
    ) -> None:
        self._threads = Threads() if threads is None else threads
        self._budget = Budget() if budget is None else budget
        self._body_limit = body_limit
        self._manager = StreamableHTTPSessionManager(
            server(lambda request: LocalCaller(gate, request.state.grant), self._threads, tools),
            json_response=True,
            stateless=True,
            max_request_body_size=body_limit,
        )
        self._answer = AuthContextMiddleware(self._manager.handle_request)
        self._authenticate = authenticator.authenticate
        self._challenge = "Bearer" + (f' resource_metadata="{metadata_url}"' if metadata_url else "")

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run the SDK within the block; enter it once, in the lifespan of the outer application."""
        async with self._manager.run():
            yield

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["method"] != "POST":  # GET and DELETE are for sessions
            await Response(status_code=405, headers={"Allow": "POST"})(scope, receive, send)
            return
        try:
            authorization = Headers(scope=scope).get("authorization")
            grant = await self._threads.authenticate(self._authenticate, authorization)  # reads the store
            scope.setdefault("state", {})["grant"] = grant
            length = content_length(Headers(scope=scope))
            with self._budget.reserve(grant.caller) as take:
                take(self._body_limit if length is None else min(length, self._body_limit))
                # the SDK separates callers by client_id and subject
                scopes = [SCOPE_PREFIX + right for right in grant.rights]
                token = AccessToken(token=NO_TOKEN, client_id=grant.caller, subject=grant.tenant, scopes=scopes)
                await self._answer({**scope, "user": AuthenticatedUser(token)}, receive, send)
        except SalienceError as error:
            details, request_id = to_problem(error), scope.get("state", {}).get("request_id")
            details |= {} if request_id is None else {"instance": instance(request_id)}
            headers = {"WWW-Authenticate": self._challenge} if isinstance(error, AccessError) else {}
            headers |= {"Retry-After": str(RETRY_AFTER)} if isinstance(error, LimitError) else {}
            await Response(to_json(details), details["status"], headers, MEDIA_TYPE)(scope, receive, send)


def protected_resource(audience: str, issuer: str) -> tuple[str | None, tuple[Route, ...]]:
    """Return the URL of the server's OAuth metadata (RFC 9728), and the routes that serve it.

    Both are empty if the audience is not a URL.
    """
    if urlsplit(audience).scheme not in ("http", "https"):
        return None, ()
    url = _VERBATIM_URL.validate_python(audience)
    scopes = [SCOPE_PREFIX + right for right in RIGHTS]
    (route,) = create_protected_resource_routes(url, [_VERBATIM_URL.validate_python(issuer)], scopes, "Salience")
    at_root = Route(METADATA, route.endpoint, methods=["GET", "OPTIONS"])
    return str(build_resource_metadata_url(url)), (route, at_root)
