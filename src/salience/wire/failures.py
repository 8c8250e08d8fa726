"""The one table of errors: what each is over HTTP, and the way back. Problem details as in RFC 9457."""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from salience.errors import (
    AccessError,
    BusyError,
    ConfigError,
    ConflictError,
    DamagedError,
    EmbedderError,
    ForbiddenError,
    ImportLineError,
    InputError,
    JudgeError,
    LeaseError,
    LimitError,
    MissingExtraError,
    MovedError,
    NotAStoreError,
    NotFoundError,
    PinnedError,
    ProfileError,
    ReadOnlyError,
    RerankerError,
    SalienceError,
    ServerError,
    StaleError,
    StoreError,
    SummariserError,
    UnsettledError,
    VersionError,
    Words,
    shown,
)

FRAMES: Final = 10
"""Innermost frames of an error that are told."""
MEDIA_TYPE: Final = "application/problem+json"
_TYPE: Final = "urn:salience:problem:"


@dataclass(frozen=True, slots=True)
class Failure:
    """What an error is over HTTP: its code, which the type of a problem ends with, its status and its title."""

    code: str
    status: int
    title: str


FAILURES: Final[Mapping[type[SalienceError], Failure]] = {
    ImportLineError: Failure("line", 422, "A line of the file cannot be accepted"),
    ConfigError: Failure("config", 422, "The config file cannot be read"),
    ProfileError: Failure("profile", 422, "The profile cannot be used"),
    InputError: Failure("input", 422, "A value cannot be accepted"),
    NotFoundError: Failure("not-found", 404, "No such memory is visible"),
    StaleError: Failure("stale", 412, "The memory changed meanwhile"),
    LeaseError: Failure("lease", 409, "Another process is at it"),
    ConflictError: Failure("conflict", 409, "The key or id stands for something else"),
    ForbiddenError: Failure("forbidden", 403, "The key does not allow this"),
    AccessError: Failure("access", 401, "No key that holds was shown"),
    LimitError: Failure("limit", 429, "More than the server takes"),
    MissingExtraError: Failure("missing-extra", 500, "The server lacks a library"),
    EmbedderError: Failure("embedder", 502, "The embedder failed"),
    RerankerError: Failure("reranker", 502, "The reranker failed"),
    SummariserError: Failure("summariser", 502, "The summariser failed"),
    JudgeError: Failure("judge", 502, "The judge failed"),
    BusyError: Failure("busy", 503, "The store is busy"),
    UnsettledError: Failure("unsettled", 500, "Nobody can say whether it was done"),
    ReadOnlyError: Failure("read-only", 503, "The store cannot be written"),
    DamagedError: Failure("damaged", 503, "A row of the store cannot be read"),
    NotAStoreError: Failure("not-a-store", 503, "The store is no store"),
    VersionError: Failure("version", 503, "The store is newer than the server"),
    MovedError: Failure("moved", 503, "The store has another model by now"),
    PinnedError: Failure("pinned", 503, "The store is pinned to another model"),
    ServerError: Failure("server", 502, "A server failed"),
    StoreError: Failure("store", 503, "The store failed"),
    SalienceError: Failure("error", 500, "Something failed"),
}
"""Each error by its class; a class that is not here is what its nearest base is."""
UNTYPED: Final = "about:blank"
"""Type of a problem that HTTP itself has with a request: it says no more than its status."""
STATUSES: Final = tuple(sorted({failure.status for failure in FAILURES.values()} | {400, 404, 405, 408, 413, 415}))
"""Every status that a problem can have."""
BACK: Final = {failure.code: kind for kind, failure in FAILURES.items()}
"""Each class by its code."""


def failure(error: SalienceError) -> Failure:
    """Return what an error is over HTTP."""
    found = next(FAILURES[kind] for kind in type(error).__mro__ if kind in FAILURES)
    if isinstance(error, LimitError) and error.retry_after is None:
        return Failure(found.code, 413, found.title)
    return found


def problem(error: SalienceError) -> dict[str, Any]:
    """Return an error as problem details; they hold what the way back needs, and nothing of a memory."""
    found = failure(error)
    told: dict[str, Any] = {
        "type": _TYPE + found.code,
        "title": found.title,
        "status": found.status,
        "detail": str(error),
    }
    if isinstance(error, ImportLineError):
        told |= {"line": error.line}
    match error:
        case InputError():
            told |= {
                "field": error.field,
                "value": shown(error.value),
                "remedy": error.remedy,
                "problem": error.problem,
            }
        case NotFoundError():
            told |= {"id": error.id} if error.field == "id" else {"id": error.id, "field": error.field}
        case LimitError() if error.retry_after is not None:
            told |= {"retry_after": error.retry_after}
    return told


def instance(request_id: str) -> str:
    """Return the `instance` of the problem with a request."""
    return f"urn:salience:request:{request_id}"


def place_of(error: BaseException) -> str:
    """Return the class of an error and where it was raised, innermost first; its message may hold a user's text."""
    first = error.__cause__ or error
    frames = traceback.extract_tb(first.__traceback__)[-FRAMES:]
    return " < ".join([type(first).__name__, *(f"{frame.filename}:{frame.lineno}" for frame in reversed(frames))])


def error(told: Mapping[str, Any]) -> SalienceError:
    """Return the error that problem details tell; of a kind that is not known, a `ServerError`."""
    kind = BACK.get(str(told.get("type", "")).removeprefix(_TYPE), ServerError)
    detail = str(told.get("detail", "The server failed without a word."))
    if issubclass(kind, InputError) and {"field", "value", "remedy"} <= told.keys():
        if kind is ImportLineError:
            return ImportLineError(int(told["line"]), str(told["value"]), str(told["remedy"]))
        problem = told.get("problem")  # which servers before 0.2 do not tell
        return kind(
            str(told["field"]), Words(told["value"]), str(told["remedy"]), None if problem is None else str(problem)
        )
    if issubclass(kind, NotFoundError):
        return NotFoundError(str(told.get("id", "")), str(told.get("field", "id")))
    if issubclass(kind, LimitError):
        return LimitError(detail, told.get("retry_after"))
    return ServerError(detail) if issubclass(kind, (InputError, MissingExtraError)) else kind(detail)


def schema() -> dict[str, Any]:
    """Return the JSON Schema of problem details."""
    text = {"type": "string"}
    return {
        "description": "What went wrong, as RFC 9457 has it.",
        "type": "object",
        "properties": {
            "type": {"enum": [UNTYPED, *(_TYPE + found.code for found in FAILURES.values())]},
            "title": text,
            "status": {"enum": list(STATUSES)},
            "detail": text,
            "instance": {**text, "description": "the id of the request, as the server's log has it"},
            "field": {**text, "description": "the argument that cannot be accepted"},
            "value": {**text, "description": "what was given, shortened; never the text of a memory"},
            "problem": {**text, "description": "what is wrong with the argument: `is empty`"},
            "remedy": {**text, "description": "what to do instead"},
            "id": text,
            "line": {"type": "integer"},
            "retry_after": {"type": "number", "description": "seconds"},
        },
        "required": ["type", "title", "status", "detail"],
    }
