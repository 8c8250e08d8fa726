"""The routes: one for each method and path of the table of verbs, and those for profiles and health."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import IO, Any, Final, Literal

import anyio
from fastapi import Depends, FastAPI, Request
from fastapi.responses import Response
from pydantic import BaseModel

from salience.errors import InputError, StaleError, StoreError, Words
from salience.rank import profiles
from salience.records import Grant
from salience.server.auth import Authenticator
from salience.server.gate import Gate
from salience.server.rest import openapi
from salience.server.rest.parsing import (
    NDJSON,
    body_within,
    if_match,
    is_in_query,
    no_body,
    parse_query,
    parse_request,
    require_media_type,
)
from salience.server.rest.responses import LinesResponse, body_on_disk, result_response
from salience.wire.requests import VerbRequest
from salience.wire.verbs import VERBS, Verb

GRANT: Final = "grant"
VERB: Final = "verb"
"""Keys of the caller and the verb in the state of a request."""
_log = logging.getLogger("salience.server.rest")


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Limits of a server, and its callers.

    Attributes:
        threads: requests that are worked on at a time; others wait.
        exports: exports that are written at a time, in threads of their own because a client may read slowly.
        body_limit: maximum length of a body, bytes.
        import_limit: maximum length of an import, bytes; it is stored in a temporary file.
        hosts: host names of the server, beside its address and loopback; `*` for any.
        origins: web origins, such as `https://example.org`, whose pages may call it.
        is_open: returns whether no key is needed; then proxies are refused.
    """

    threads: int = 32
    exports: int = 4
    body_limit: int = 8 * 1024 * 1024
    import_limit: int = 1024**3
    hosts: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    is_open: Callable[[], bool] = lambda: False


class ProfileInfo(BaseModel):
    """A built-in profile."""

    name: str
    summary: str
    limit: int
    toml: str


class ProfileList(BaseModel):
    """The built-in profiles."""

    profiles: list[ProfileInfo]


class Health(BaseModel):
    """A health check that passed."""

    status: Literal["ok"] = "ok"


def add_routes(app: FastAPI, gate: Gate, authenticator: Authenticator, options: Options) -> None:
    """Add the routes to an application."""

    def authenticate(request: Request) -> Grant:
        grant = authenticator.authenticate(request.headers.get("authorization"))
        setattr(request.state, GRANT, grant)
        return grant

    for _, group in groupby(VERBS.values(), key=lambda verb: (verb.method, verb.path)):
        verbs = tuple(group)
        match verbs[0].name:
            case "export":
                endpoint = _export(gate, authenticate, options)
            case "import_":
                endpoint = _import(gate, authenticate, options)
            case _:
                endpoint = _verbs(gate, authenticate, options, verbs)
        path = verbs[0].path.replace("{session_id}", "{session_id:path}")  # session names may have slashes
        app.add_api_route(path, endpoint, methods=[verbs[0].method], **openapi.operation(verbs))

    @app.get("/v1/profiles", **openapi.server_operation("profiles", 401, 403, 500, 503))
    def list_profiles(grant: Grant = Depends(authenticate)) -> ProfileList:
        """Return the built-in profiles."""
        gate.require_right(grant, VERBS["recall"])
        loaded = [(one, profiles.load(one)) for one in profiles.NAMES]
        return ProfileList(
            profiles=[
                ProfileInfo(name=one.name, summary=one.summary, limit=one.limit, toml=profiles.source(name))
                for name, one in loaded
            ]
        )

    @app.get("/healthz", **openapi.server_operation("alive", is_public=True))
    async def alive() -> Health:
        """Return that the process is up, without a look at the store."""
        return Health()

    @app.get("/readyz", **openapi.server_operation("ready", 500, 503, is_public=True))
    def ready() -> Health:
        """Return that the store answers. The error says no more than that it does not: callers are anonymous."""
        try:
            gate.ready()
        except StoreError as error:
            _log.error("not ready: %s", error)
            raise StoreError("store: it does not answer. The server's log says why.") from None
        return Health()


Authenticate = Callable[[Request], Grant]


def _verbs(gate: Gate, authenticate: Authenticate, options: Options, verbs: Sequence[Verb]) -> Callable[..., Response]:
    """Return the endpoint for the verbs of one method and path."""
    read_body = no_body if is_in_query(verbs[0]) else body_within(options.body_limit)

    def endpoint(request: Request, grant: Grant = Depends(authenticate), body: bytes = Depends(read_body)) -> Response:
        verb, arguments = parse_request(verbs, request, body)
        setattr(request.state, VERB, verb.name)
        versions = if_match(request, verb)
        return result_response(request, verb, _answer(gate, grant, verb, arguments, versions))

    return endpoint


def _answer(gate: Gate, grant: Grant, verb: Verb, request: Any, versions: list[int] | None) -> Any:
    """Return the result at the first of the given versions that the memory has; None for any version."""
    if versions is None:
        return gate.answer(grant, verb, request)
    if request.if_version is not None and versions != [request.if_version]:
        value, problem = Words("another version than if_version"), "names another version than if_version"
        raise InputError("If-Match", value, "Give one of them.", problem)

    def at(version: int) -> Any:
        changed: VerbRequest = request.model_copy(update={"if_version": version})
        return gate.answer(grant, verb, changed)

    for version in versions[:-1]:
        try:
            return at(version)
        except StaleError:
            continue
    return at(versions[-1])


def _export(gate: Gate, authenticate: Authenticate, options: Options) -> Callable[..., Response]:
    verb, limiter = VERBS["export"], anyio.CapacityLimiter(options.exports)

    def endpoint(request: Request, grant: Grant = Depends(authenticate)) -> Response:
        setattr(request.state, VERB, verb.name)
        given = parse_query(verb, request).arguments()
        return LinesResponse(lambda file: gate.call(grant, verb, given, file=file), limiter)

    return endpoint


def _import(gate: Gate, authenticate: Authenticate, options: Options) -> Callable[..., Response]:
    verb = VERBS["import_"]

    async def body(request: Request, grant: Grant = Depends(authenticate)) -> AsyncIterator[IO[bytes]]:
        gate.require_right(grant, verb)  # before anything is written to disk
        require_media_type(request, NDJSON)
        async with body_on_disk(request, options.import_limit) as file:
            yield file

    def endpoint(request: Request, grant: Grant = Depends(authenticate), file: IO[bytes] = Depends(body)) -> Response:
        setattr(request.state, VERB, verb.name)
        given = parse_query(verb, request).arguments()
        return result_response(request, verb, gate.call(grant, verb, given, file=file))

    return endpoint
