"""Errors as problem details (RFC 9457), the only form of errors in responses."""

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

REQUEST_ID: Final = "request_id"
"""Key of the request id in the state of a request."""
RETRY_AFTER: Final = 1
"""Default seconds before a retry."""


class HttpError(Exception):
    """A request with an invalid path, method, media type or syntax; `detail` quotes nothing of the request."""

    def __init__(self, status: int, detail: str, headers: Mapping[str, str] | None = None) -> None:
        self.status = status
        self.detail = detail
        self.headers = dict(headers or {})
        super().__init__(detail)


def http_problem(status: int, detail: str) -> dict[str, Any]:
    """Return problem details without a type of their own."""
    return {"type": UNTYPED, "title": HTTPStatus(status).phrase, "status": status, "detail": detail}


def error_response(request_id: str, error: Exception) -> Response:
    """Return the response for an error. An unexpected error shows only the request id."""
    headers: Mapping[str, str] = {}
    match error:
        case SalienceError():
            details = to_problem(error)
            headers = _headers(error, details["status"])
        case HttpError():
            details, headers = http_problem(error.status, error.detail), error.headers
        case HTTPException():
            details, headers = http_problem(error.status_code, _detail(error)), error.headers or {}
        case _:
            details = http_problem(500, f"The server failed. Its log has more under the request id {request_id}.")
    body = to_json({**details, "instance": instance(request_id)})
    return Response(body, details["status"], dict(headers), MEDIA_TYPE)


async def handle_error(request: Request, error: Exception) -> Response:
    """Return the response for an error in a request; an exception handler of FastAPI."""
    if isinstance(error, HTTPException) and error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        # a route knows only its own methods
        here = [route for route in request.app.routes if route.matches(request.scope)[0] is not Match.NONE]
        methods = sorted({method for route in here for method in getattr(route, "methods", None) or ()})
        detail = "method: not allowed for this path. See the header Allow."
        error = HttpError(error.status_code, detail, {"Allow": ", ".join(methods)})
    return error_response(request.scope["state"][REQUEST_ID], error)


def _headers(error: SalienceError, status: int) -> dict[str, str]:
    if isinstance(error, AccessError) and not isinstance(error, ForbiddenError):
        return {"WWW-Authenticate": "Bearer"}
    if isinstance(error, LimitError) and error.retry_after is not None:
        return {"Retry-After": str(max(1, math.ceil(error.retry_after)))}
    return {"Retry-After": str(RETRY_AFTER)} if status == HTTPStatus.SERVICE_UNAVAILABLE else {}


def _detail(error: HTTPException) -> str:
    if error.status_code == HTTPStatus.NOT_FOUND:
        return "path: not found. See /openapi.json for the paths."
    return f"The request is refused: {HTTPStatus(error.status_code).phrase}."
