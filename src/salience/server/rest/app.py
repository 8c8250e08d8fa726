"""The FastAPI application: a route for each method and path of the verbs, middleware, exception handlers."""

from __future__ import annotations

import logging
import re
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from itertools import groupby
from typing import IO, Any, Final, Literal

import anyio
import anyio.to_thread
from fastapi import Depends, FastAPI, Request
from fastapi.responses import Response
from fastapi.telemetry import TelemetryConfig
from pydantic import BaseModel
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect
from starlette.routing import Match
from starlette.types import ASGIApp, Message, Receive, Scope, Send

import salience
from salience.errors import InputError, SalienceError, StaleError, StoreError, Words, shown
from salience.records import Grant
from salience.server.auth import Authenticator
from salience.server.gate import Gate
from salience.server.rest import openapi, parsing
from salience.server.rest.responses import ANY_FILE, NDJSON, HttpError, LinesResponse, error_response, result_response
from salience.server.shares import Budget, Threads
from salience.verbs import VERBS, Verb
from salience.wire.errors import stack_of

HEALTH: Final = ("/healthz", "/readyz")
"""Paths for probes, which accept any host and origin because they reveal nothing."""
LARGE_BODIES: Final = ("remember", "remember_many", "ingest", "update")
"""Verbs whose bodies hold contents."""
SMALL_BODY: Final = 256 * 1024
"""Maximum length of other bodies, bytes: the queries and lists of names of a request."""
PROBES: Final = 4
"""Maximum number of concurrent checks of the store, in threads of their own."""
ID_HEADER: Final = "X-Request-ID"
HEAD_LIMIT: Final = 32_768
"""Maximum size of the URL and the headers of a request, bytes; a token alone may have half of it."""
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
NO_TELEMETRY: Final[TelemetryConfig] = {
    "tracing": False, "metrics": False, "logs": False, "operation_spans": False, "auto_configure": False,
}  # fmt: skip
"""FastAPI's own telemetry is off: it would record user text in error messages and queries."""
_log = logging.getLogger("salience.server.rest")
Lifespan = Callable[[FastAPI], AbstractAsyncContextManager[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Limits and accepted callers of a server.

    Attributes:
        threads: where requests work.
        budget: of the bytes of bodies in memory.
        exports: maximum number of concurrent exports; they have threads of their own, because clients may read slowly.
        body_limit: maximum length of a body of a verb that stores many memories, bytes; of others, `SMALL_BODY`.
        import_limit: maximum length of an import, bytes; stored in a temporary file.
        hosts: host names of the server, in addition to its address and loopback; `*` for any.
        origins: web origins, such as `https://example.org`, whose pages may call the server.
        is_open: returns whether callers need no key; if so, requests from proxies are refused.
    """

    threads: Threads = field(default_factory=Threads)
    budget: Budget = field(default_factory=Budget)
    exports: int = 4
    body_limit: int = 8 * 1024 * 1024
    import_limit: int = 1024**3
    hosts: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    is_open: Callable[[], bool] = lambda: False


class Health(BaseModel):
    """A health check that passed; `degraded`: a node of the database's cluster is unavailable to some tenants."""

    status: Literal["ok", "degraded"]


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
        # the dashboard works in these threads, and has the share of one caller
        anyio.to_thread.current_default_thread_limiter().total_tokens = options.threads.per_caller
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
        docs_url=None,  # FastAPI's page loads scripts from elsewhere
        redoc_url=None,
        redirect_slashes=False,
        telemetry=NO_TELEMETRY,
        middleware=[
            Middleware(RequestGuard, options=options),
            *([cors] if options.origins else []),
            Middleware(UnexpectedErrors),
        ],
        exception_handlers=dict.fromkeys((SalienceError, HttpError, HTTPException), _handle_error),
        lifespan=with_threads,
    )

    async def authenticate(request: Request) -> Grant:
        authorization = request.headers.get("authorization")
        grant = await options.threads.authenticate(authenticator.authenticate, authorization)
        request.state.grant = grant
        return grant

    for _, group in groupby(VERBS.values(), key=lambda verb: (verb.method, verb.path)):
        verbs = tuple(group)
        path = verbs[0].path.replace("{session_id}", "{session_id:path}")  # session names may have slashes
        endpoint = _endpoint(gate, authenticate, options, verbs)
        application.add_api_route(path, endpoint, methods=[verbs[0].method], **openapi.operation(verbs))
        if path.startswith(openapi.ONE):
            alias = path.replace(openapi.ONE, openapi.ALIAS, 1)
            application.add_api_route(alias, endpoint, methods=[verbs[0].method], include_in_schema=False)

    @application.get("/docs", include_in_schema=False)
    def show_docs() -> Response:
        """Return the document for readers."""
        policy = {"Content-Security-Policy": "default-src 'none'"}
        return Response(openapi.page(application.openapi()), media_type="text/html", headers=policy)

    probes = anyio.CapacityLimiter(PROBES)

    @application.get("/healthz", **openapi.server_operation("alive", is_public=True))
    async def alive() -> Health:
        """Return that the process is up; does not check the store."""
        return Health(status="ok")

    @application.get("/readyz", **openapi.server_operation("ready", 500, 503, is_public=True))
    async def ready() -> Health:
        """Return that the store responds. Callers are anonymous, so the details of an error go only to the log."""
        try:
            is_whole = await anyio.to_thread.run_sync(gate.ready, limiter=probes)
            return Health(status="ok" if is_whole else "degraded")
        except StoreError as error:
            _log.error("not ready: %s", error)
            raise StoreError("store: not available. See the server's log.") from None

    return application


def _endpoint(
    gate: Gate, authenticate: Callable[[Request], Awaitable[Grant]], options: Options, verbs: tuple[Verb, ...]
) -> Callable[..., Any]:
    """Return the endpoint for the verbs of one method and path."""
    limiter = anyio.CapacityLimiter(options.exports)
    threads, limit = options.threads, options.body_limit
    if not any(verb.name in LARGE_BODIES for verb in verbs):
        limit = min(limit, SMALL_BODY)

    async def read_body(request: Request, grant: Grant = Depends(authenticate)) -> AsyncIterator[bytes]:
        if parsing.is_in_query(verbs[0]):
            yield await parsing.no_body(request)
            return
        with options.budget.reserve(grant.caller) as take:  # until the response is sent
            yield await parsing.body(request, limit, take)

    async def respond(
        request: Request, grant: Grant = Depends(authenticate), body: bytes = Depends(read_body)
    ) -> Response:
        def work() -> Response:
            verb, given = parsing.parse_request(verbs, request, body)
            request.state.verb = verb.name
            return result_response(request, verb, _answer(gate, grant, verb, given, parsing.if_match(request, verb)))

        return await threads.run(grant.caller, work, request.receive)

    async def export(request: Request, grant: Grant = Depends(authenticate)) -> Response:
        request.state.verb = verbs[0].name
        verb, given = parsing.parse_request(verbs, request)
        return LinesResponse(lambda file: gate.call(grant, verb, given.arguments(), file=file), limiter)

    async def lines(request: Request, grant: Grant = Depends(authenticate)) -> AsyncIterator[IO[bytes]]:
        gate.require_right(grant, verbs[0])  # before anything is written to disk
        parsing.require_media_type(request, ANY_FILE if "source" in request.query_params else NDJSON)
        async with parsing.body_on_disk(request, options.import_limit) as file:
            yield file

    async def import_(
        request: Request, grant: Grant = Depends(authenticate), file: IO[bytes] = Depends(lines)
    ) -> Response:
        def work() -> Response:
            request.state.verb = verbs[0].name
            verb, given = parsing.parse_request(verbs, request)
            return result_response(request, verb, gate.call(grant, verb, given.arguments(), file=file))

        return await threads.run(grant.caller, work, request.receive)

    return {"export": export, "import_": import_}.get(verbs[0].name, respond)


def _answer(gate: Gate, grant: Grant, verb: Verb, request: Any, versions: list[int] | None) -> Any:
    """Return the result at the first of `versions` that matches the memory's version; None for any version."""
    if versions is None:
        return gate.answer(grant, verb, request)
    if request.if_version is not None and versions != [request.if_version]:
        value, problem = Words("another version than if_version"), "names another version than if_version"
        raise InputError("If-Match", value, "Give one of them.", problem)
    *earlier, last = (request.model_copy(update={"if_version": version}) for version in versions)
    for changed in earlier:
        with suppress(StaleError):
            return gate.answer(grant, verb, changed)
    return gate.answer(grant, verb, last)


async def _handle_error(request: Request, error: Exception) -> Response:
    """Return the response for an error in a request."""
    if isinstance(error, HTTPException) and error.status_code == 405:
        # a route knows only its own methods
        matching = [route for route in request.app.routes if route.matches(request.scope)[0] is not Match.NONE]
        methods = sorted({method for route in matching for method in getattr(route, "methods", None) or ()})
        detail = "method: not allowed for this path. See the header Allow."
        error = HttpError(error.status_code, detail, {"Allow": ", ".join(methods)})
    return error_response(request.state.request_id, error)


class RequestGuard:
    """ASGI middleware: sets the request id, checks the head with its Host and Origin, adds security headers.

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

        error = _head_error(scope, headers) or (None if scope["path"] in HEALTH else self._refusal(scope, headers))
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


def _head_error(scope: Scope, headers: Headers) -> HttpError | None:
    """Return the error of a head that is too long, or that gives the length of the body twice."""
    size = len(scope.get("raw_path") or b"") + len(scope["query_string"])
    size += sum(len(name) + len(value) for name, value in scope["headers"])
    if size > HEAD_LIMIT:
        return HttpError(431, f"head: {size:,} bytes are more than the {HEAD_LIMIT:,} allowed. Send fewer headers.")
    if "content-length" in headers and "transfer-encoding" in headers:  # a proxy may believe the other one
        return HttpError(400, "Content-Length: given with Transfer-Encoding. Send one of them.")
    return None


def _host_name(host: str) -> str:
    """Return the name in a `Host` header, without its port."""
    return re.sub(r":\d*$", "", host).rstrip(".").lower() if host.count(":") == 1 or "]" in host else host.lower()
