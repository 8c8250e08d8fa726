"""The routes: one for each method and path in the table of verbs, and the routes for profiles and health."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import IO, Any, Literal

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
    body_on_disk,
    body_within,
    if_match,
    is_in_query,
    no_body,
    parse_query,
    parse_request,
    require_media_type,
)
from salience.server.rest.responses import LinesResponse, result_response
from salience.wire.requests import VerbRequest
from salience.wire.verbs import VERBS, Verb

_log = logging.getLogger("salience.server.rest")


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Limits and accepted callers of a server.

    Attributes:
        threads: maximum number of concurrent requests; others wait.
        exports: maximum number of concurrent exports; they have threads of their own, because clients may read slowly.
        body_limit: maximum length of a body, bytes.
        import_limit: maximum length of an import, bytes; stored in a temporary file.
        hosts: host names of the server, in addition to its address and loopback; `*` for any.
        origins: web origins, such as `https://example.org`, whose pages may call the server.
        is_open: returns whether callers need no key; if so, requests from proxies are refused.
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
        request.state.grant = grant
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
        return ProfileList(
            profiles=[
                ProfileInfo(name=name, summary=one.summary, limit=one.limit, toml=profiles.source(name))
                for name, one in ((name, profiles.load(name)) for name in profiles.NAMES)
            ]
        )

    @app.get("/healthz", **openapi.server_operation("alive", is_public=True))
    async def alive() -> Health:
        """Return that the process is up; does not check the store."""
        return Health()

    @app.get("/readyz", **openapi.server_operation("ready", 500, 503, is_public=True))
    def ready() -> Health:
        """Return that the store responds. Callers are anonymous, so the details of an error go only to the log."""
        try:
            gate.ready()
        except StoreError as error:
            _log.error("not ready: %s", error)
            raise StoreError("store: not available. See the server's log.") from None
        return Health()


Authenticate = Callable[[Request], Grant]


def _verbs(gate: Gate, authenticate: Authenticate, options: Options, verbs: Sequence[Verb]) -> Callable[..., Response]:
    """Return the endpoint for the verbs of one method and path."""
    read_body = no_body if is_in_query(verbs[0]) else body_within(options.body_limit)

    def endpoint(request: Request, grant: Grant = Depends(authenticate), body: bytes = Depends(read_body)) -> Response:
        verb, arguments = parse_request(verbs, request, body)
        request.state.verb = verb.name
        versions = if_match(request, verb)
        return result_response(request, verb, _answer(gate, grant, verb, arguments, versions))

    return endpoint


def _answer(gate: Gate, grant: Grant, verb: Verb, request: Any, versions: list[int] | None) -> Any:
    """Return the result at the first of `versions` that matches the memory's version; None for any version."""
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
        request.state.verb = verb.name
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
        request.state.verb = verb.name
        given = parse_query(verb, request).arguments()
        return result_response(request, verb, gate.call(grant, verb, given, file=file))

    return endpoint
