"""Errors as problem details (RFC 9457): the only form in which one goes out."""

from __future__ import annotations

import math
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final

from fastapi import Request
from fastapi.responses import Response
from pydantic_core import to_json
from starlette.exceptions import HTTPException
from starlette.routing import Match

from salience.errors import AccessError, ForbiddenError, LimitError, SalienceError
from salience.wire.errors import MEDIA_TYPE, UNTYPED, instance, to_problem

ID: Final = "request_id"
"""Where the state of a request holds its id."""
RETRY_AFTER: Final = 1
"""Seconds after which to try again where nothing better is known."""


class Refused(Exception):  # noqa: N818  (what was refused is a request; the errors are problems)
    """A request that HTTP itself speaks against: its path, method, media type or syntax.

    Args:
        status: of the answer.
        detail: what is wrong and what to do instead; nothing of what was sent.
        headers: of the answer.
    """

    def __init__(self, status: int, detail: str, headers: Mapping[str, str] | None = None) -> None:
        self.status = status
        self.detail = detail
        self.headers = dict(headers or {})
        super().__init__(detail)


def told(id: str, error: Exception) -> Response:
    """Return an error as the answer to the request of an id; of one that nobody expected, the id is all it tells."""
    match error:
        case SalienceError():
            found = to_problem(error)
            return _response(id, found, _headers(error, found["status"]))
        case Refused():
            return _response(id, untyped(error.status, error.detail), error.headers)
        case HTTPException():
            return _response(id, untyped(error.status_code, _said(error)), error.headers or {})
    return _response(id, untyped(500, f"The server failed. Its log has more under the request {id}."), {})


def untyped(status: int, detail: str) -> dict[str, Any]:
    """Return problem details that say no more than their status does, and what to do."""
    return {"type": UNTYPED, "title": HTTPStatus(status).phrase, "status": status, "detail": detail}


async def handle(request: Request, error: Exception) -> Response:
    """Return an error as the answer to its request."""
    if isinstance(error, HTTPException) and error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        error = Refused(
            error.status_code, "method: not for this path. See the header Allow.", {"Allow": _allowed(request)}
        )
    return told(request.scope["state"][ID], error)


def _allowed(request: Request) -> str:
    """Return the methods that the path of a request takes; a route knows no more than its own."""
    here = [route for route in request.app.routes if route.matches(request.scope)[0] is not Match.NONE]
    return ", ".join(sorted({method for route in here for method in getattr(route, "methods", None) or ()}))


def _response(id: str, details: Mapping[str, Any], headers: Mapping[str, str]) -> Response:
    body = to_json({**details, "instance": instance(id)})
    return Response(body, details["status"], dict(headers), MEDIA_TYPE)


def _headers(error: SalienceError, status: int) -> dict[str, str]:
    if isinstance(error, AccessError) and not isinstance(error, ForbiddenError):
        return {"WWW-Authenticate": "Bearer"}
    if isinstance(error, LimitError) and error.retry_after is not None:
        return {"Retry-After": str(max(1, math.ceil(error.retry_after)))}
    return {"Retry-After": str(RETRY_AFTER)} if status == HTTPStatus.SERVICE_UNAVAILABLE else {}


def _said(error: HTTPException) -> str:
    if error.status_code == HTTPStatus.NOT_FOUND:
        return "path: nothing is here. See /openapi.json for what there is."
    return f"The request is refused: {HTTPStatus(error.status_code).phrase}."
