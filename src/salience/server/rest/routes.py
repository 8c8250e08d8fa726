"""The routes: one of each method and path of the table of verbs, and those that answer or take a stream."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Sequence
from typing import IO, Any, Final

import anyio
from fastapi import Depends, FastAPI, Request
from fastapi.responses import Response

from salience.errors import InputError, StaleError, StoreError, Words
from salience.rank import profiles
from salience.records import Grant
from salience.server.gate import Gate
from salience.server.keys import Door
from salience.server.rest import answering, grouping, reading, streams
from salience.server.rest.options import Options
from salience.wire.verbs import VERBS, Verb

GRANT: Final = "grant"
VERB: Final = "verb"
"""Where the state of a request holds who asked, and for which verb."""
_log = logging.getLogger("salience.server.rest")


def add(made: FastAPI, gate: Gate, door: Door, options: Options) -> None:
    """Add the routes of a gate behind a door to an application."""
    entered = _entered(door)
    own = {"export": _export(gate, entered, options), "import_": _import(gate, entered, options)}
    for verbs in grouping.groups():
        endpoint = own.get(verbs[0].name) or _plain(gate, entered, options, verbs)
        path = verbs[0].path.replace("{session_id}", "{session_id:path}")  # whose name may have slashes
        made.add_api_route(path, endpoint, methods=[verbs[0].method])
    made.add_api_route("/v1/profiles", _profiles(gate, entered), methods=["GET"])
    made.add_api_route("/healthz", _alive, methods=["GET"])
    made.add_api_route("/readyz", _ready(gate), methods=["GET"])


Entered = Callable[[Request], Grant]


def _entered(door: Door) -> Entered:
    def entered(request: Request) -> Grant:
        grant = door.enter(request.headers.get("authorization"))
        setattr(request.state, GRANT, grant)
        return grant

    return entered


def _plain(gate: Gate, entered: Entered, options: Options, verbs: Sequence[Verb]) -> Callable[..., Response]:
    """Return the endpoint of the verbs of one method and path."""
    whole = reading.no_body if grouping.is_in_query(verbs[0]) else reading.whole_body(options.body_limit)

    def endpoint(request: Request, grant: Grant = Depends(entered), body: bytes = Depends(whole)) -> Response:
        verb, asked = reading.asked_by(verbs, request, body)
        setattr(request.state, VERB, verb.name)
        versions = answering.wanted(request, verb)
        return answering.answered(request, verb, _answer(gate, grant, verb, asked, versions))

    return endpoint


def _answer(gate: Gate, grant: Grant, verb: Verb, asked: Any, versions: list[int] | None) -> Any:
    """Return what a verb answers at the first of some versions at which the memory is; None: at any.

    Raises:
        InputError: the request itself wants another one.
        StaleError: the memory is at none of them.
    """
    if versions is None:
        return gate.answer(grant, verb, asked)
    if asked.if_version is not None and versions != [asked.if_version]:
        raise InputError(
            "If-Match",
            Words("another version than if_version"),
            "Give one of them.",
            "names another version than if_version",
        )
    for one in versions[:-1]:
        try:
            return gate.answer(grant, verb, asked.model_copy(update={"if_version": one}))
        except StaleError:
            continue
    return gate.answer(grant, verb, asked.model_copy(update={"if_version": versions[-1]}))


def _export(gate: Gate, entered: Entered, options: Options) -> Callable[..., Response]:
    verb, turns = VERBS["export"], anyio.CapacityLimiter(options.exports)

    def endpoint(request: Request) -> Response:
        grant = entered(request)
        setattr(request.state, VERB, verb.name)
        given = reading.asked_in_query(verb, request).arguments()
        return streams.LinesResponse(lambda file: gate.call(grant, verb, given, file=file), turns)

    return endpoint


def _import(gate: Gate, entered: Entered, options: Options) -> Callable[..., Response]:
    verb = VERBS["import_"]

    async def spooled(request: Request, grant: Grant = Depends(entered)) -> AsyncIterator[IO[bytes]]:
        gate.allow(grant, verb)  # before the disk holds anything
        reading.require_type(request, reading.LINES)
        async with streams.spooled(request, options.import_limit) as file:
            yield file

    def endpoint(request: Request, grant: Grant = Depends(entered), file: IO[bytes] = Depends(spooled)) -> Response:
        setattr(request.state, VERB, verb.name)
        given = reading.asked_in_query(verb, request).arguments()
        return answering.answered(request, verb, gate.call(grant, verb, given, file=file))

    return endpoint


def _profiles(gate: Gate, entered: Entered) -> Callable[..., Response]:
    def endpoint(request: Request) -> Response:
        """Return the profiles that ship: how each ranks, in words and in TOML."""
        gate.allow(entered(request), VERBS["recall"])
        found = [profiles.load(name) for name in profiles.NAMES]
        told = [
            {"name": one.name, "summary": one.summary, "limit": one.limit, "toml": profiles.source(one.name)}
            for one in found
        ]
        return answering.json_response({"profiles": told})

    return endpoint


async def _alive() -> Response:
    """Return that the process is up; the store is not asked."""
    return answering.json_response({"status": "ok"})


def _ready(gate: Gate) -> Callable[[], Response]:
    def endpoint() -> Response:
        """Return that the store answers; otherwise a problem, of which strangers learn no more than that."""
        try:
            gate.ready()
        except StoreError as error:
            _log.error("not ready: %s", error)
            raise StoreError("store: it does not answer. The server's log says why.") from None
        return answering.json_response({"status": "ok"})

    return endpoint
