"""Errors as problem details (RFC 9457), and back."""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from salience import errors
from salience.errors import ImportLineError, InputError, LimitError, NotFoundError, SalienceError, Words, shown

FRAMES: Final = 10
"""Maximum number of stack frames in a log line."""
MEDIA_TYPE: Final = "application/problem+json"
_TYPE: Final = "urn:salience:problem:"


@dataclass(frozen=True, slots=True)
class Problem:
    """The HTTP form of an error class; `code` ends the URN of the problem type."""

    code: str
    status: int
    title: str


PROBLEMS: Final[Mapping[type[SalienceError], Problem]] = {
    ImportLineError: Problem("line", 422, "A line of the file cannot be accepted"),
    errors.ConfigError: Problem("config", 422, "The config file cannot be read"),
    errors.ProfileError: Problem("profile", 422, "The profile cannot be used"),
    InputError: Problem("input", 422, "A value cannot be accepted"),
    NotFoundError: Problem("not-found", 404, "No such memory is visible"),
    errors.StaleError: Problem("stale", 412, "The memory changed meanwhile"),
    errors.LeaseError: Problem("lease", 409, "Another process is already doing this"),
    errors.ConflictError: Problem("conflict", 409, "The key or id is already in use"),
    errors.ForbiddenError: Problem("forbidden", 403, "The key does not allow this"),
    errors.AccessError: Problem("access", 401, "Missing or invalid API key"),
    LimitError: Problem("limit", 429, "A limit was exceeded"),
    errors.MissingExtraError: Problem("missing-extra", 500, "The server lacks a library"),
    errors.EmbedderError: Problem("embedder", 502, "The embedder failed"),
    errors.RerankerError: Problem("reranker", 502, "The reranker failed"),
    errors.SummariserError: Problem("summariser", 502, "The summariser failed"),
    errors.JudgeError: Problem("judge", 502, "The judge failed"),
    errors.BusyError: Problem("busy", 503, "The store is busy"),
    errors.UnsettledError: Problem("unsettled", 500, "The outcome of the write is unknown"),
    errors.ReadOnlyError: Problem("read-only", 503, "The store cannot be written"),
    errors.DamagedError: Problem("damaged", 503, "A row of the store cannot be read"),
    errors.NotAStoreError: Problem("not-a-store", 503, "The file is not a store"),
    errors.VersionError: Problem("version", 503, "The store is newer than the server"),
    errors.MovedError: Problem("moved", 503, "The store has another model by now"),
    errors.PinnedError: Problem("pinned", 503, "The store is pinned to another model"),
    errors.ServerError: Problem("server", 502, "A server failed"),
    errors.StoreError: Problem("store", 503, "The store failed"),
    SalienceError: Problem("error", 500, "Something failed"),
}
"""By error class; an unlisted subclass has the entry of its nearest base."""
UNTYPED: Final = "about:blank"
"""Problem type of a plain HTTP error, which has no details beyond its status."""
STATUSES: Final = tuple(sorted({problem.status for problem in PROBLEMS.values()} | {400, 404, 405, 408, 413, 415}))
"""All statuses of problems."""
_CLASSES: Final = {problem.code: kind for kind, problem in PROBLEMS.items()}


def problem_of(error: SalienceError) -> Problem:
    """Return the HTTP form of an error."""
    found = next(PROBLEMS[kind] for kind in type(error).__mro__ if kind in PROBLEMS)
    if isinstance(error, LimitError) and error.retry_after is None:
        return Problem(found.code, 413, found.title)
    return found


def to_problem(error: SalienceError) -> dict[str, Any]:
    """Return an error as problem details, without the text of any memory."""
    found = problem_of(error)
    details: dict[str, Any] = {"type": _TYPE + found.code, "title": found.title, "status": found.status}
    details["detail"] = str(error)
    if isinstance(error, ImportLineError):
        details["line"] = error.line
    match error:
        case InputError():
            details |= {"field": error.field, "value": shown(error.value), "remedy": error.remedy}
            details["problem"] = error.problem
        case NotFoundError():
            details |= {"id": error.id} | ({} if error.field == "id" else {"field": error.field})
        case LimitError() if error.retry_after is not None:
            details["retry_after"] = error.retry_after
    return details


def instance(request_id: str) -> str:
    """Return the `instance` of a problem."""
    return f"urn:salience:request:{request_id}"


def stack_of(error: BaseException) -> str:
    """Return the class of an error and its stack, innermost first, without the message, which may quote user text."""
    first = error.__cause__ or error
    frames = traceback.extract_tb(first.__traceback__)[-FRAMES:]
    return " < ".join([type(first).__name__, *(f"{frame.filename}:{frame.lineno}" for frame in reversed(frames))])


def from_problem(details: Mapping[str, Any]) -> SalienceError:
    """Return the error of problem details; a `ServerError` for unknown types."""
    kind = _CLASSES.get(str(details.get("type", "")).removeprefix(_TYPE), errors.ServerError)
    detail = str(details.get("detail", "The server failed without a message."))
    if issubclass(kind, InputError) and {"field", "value", "remedy"} <= details.keys():
        field, value, remedy = (str(details[name]) for name in ("field", "value", "remedy"))
        if kind is ImportLineError:
            place, _, file = field.partition(" of ")
            return ImportLineError(int(details["line"]), value, remedy, place.partition(" ")[0], file)
        problem = details.get("problem")  # absent before version 0.2
        return kind(field, Words(value), remedy, None if problem is None else str(problem))
    if issubclass(kind, NotFoundError):
        return NotFoundError(str(details.get("id", "")), str(details.get("field", "id")))
    if issubclass(kind, LimitError):
        return LimitError(detail, details.get("retry_after"))
    # the constructors of these take more than a message
    return errors.ServerError(detail) if issubclass(kind, InputError | errors.MissingExtraError) else kind(detail)


def schema() -> dict[str, Any]:
    """Return the JSON Schema of problem details."""
    text = {"type": "string"}
    return {
        "description": "Problem details (RFC 9457).",
        "type": "object",
        "properties": {
            "type": {**text, "enum": [UNTYPED, *(_TYPE + found.code for found in PROBLEMS.values())]},
            "title": text,
            "status": {"type": "integer", "enum": list(STATUSES)},
            "detail": text,
            "instance": {**text, "description": "the id of the request, as in the server's log"},
            "field": {**text, "description": "the argument that is wrong"},
            "value": {**text, "description": "its value, shortened; never the text of a memory"},
            "problem": {**text, "description": "what is wrong with the argument: `is empty`"},
            "remedy": {**text, "description": "what to do instead"},
            "id": text,
            "line": {"type": "integer"},
            "retry_after": {"type": "number", "description": "seconds"},
        },
        "required": ["type", "title", "status", "detail"],
    }
