"""Error responses: problem details (RFC 9457) for every error."""

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

RETRY_AFTER: Final = 1
"""Default seconds before a retry."""


class HttpError(Exception):
    """The path, method, media type or syntax of a request is invalid; `detail` quotes nothing from a body."""

    def __init__(self, status: int, detail: str, headers: Mapping[str, str] | None = None) -> None:
        self.status = status
        self.detail = detail
        self.headers = dict(headers or {})
        super().__init__(detail)


def http_problem(status: int, detail: str) -> dict[str, Any]:
    """Return problem details without a type of their own."""
    return {"type": UNTYPED, "title": HTTPStatus(status).phrase, "status": status, "detail": detail}


def error_response(request_id: str, error: Exception) -> Response:
    """Return the response for an error; an unexpected error reveals only the request id."""
    headers: Mapping[str, str] = {}
    match error:
        case SalienceError():
            details = to_problem(error)
            if isinstance(error, AccessError) and not isinstance(error, ForbiddenError):
                headers = {"WWW-Authenticate": "Bearer"}
            elif isinstance(error, LimitError) and error.retry_after is not None:
                headers = {"Retry-After": str(max(1, math.ceil(error.retry_after)))}
            elif details["status"] == HTTPStatus.SERVICE_UNAVAILABLE:
                headers = {"Retry-After": str(RETRY_AFTER)}
        case HttpError():
            details, headers = http_problem(error.status, error.detail), error.headers
        case HTTPException():
            is_missing = error.status_code == HTTPStatus.NOT_FOUND
            detail = f"The request is refused: {HTTPStatus(error.status_code).phrase}."
            detail = "path: not found. See /openapi.json for the paths." if is_missing else detail
            details, headers = http_problem(error.status_code, detail), error.headers or {}
        case _:
            details = http_problem(500, f"The server failed. Its log has more under the request id {request_id}.")
    body = to_json({**details, "instance": instance(request_id)})
    return Response(body, details["status"], dict(headers), MEDIA_TYPE)


async def handle_error(request: Request, error: Exception) -> Response:
    """Return the response for an error in a request; an exception handler of FastAPI."""
    if isinstance(error, HTTPException) and error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        # a route knows only its own methods
        matching = [route for route in request.app.routes if route.matches(request.scope)[0] is not Match.NONE]
        methods = sorted({method for route in matching for method in getattr(route, "methods", None) or ()})
        detail = "method: not allowed for this path. See the header Allow."
        error = HttpError(error.status_code, detail, {"Allow": ", ".join(methods)})
    return error_response(request.state.request_id, error)
