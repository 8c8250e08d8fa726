"""From what came over HTTP to the request of a verb."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from email.message import Message
from types import NoneType
from typing import Annotated, Any, Final, get_args, get_origin

from fastapi import Request
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails, from_json

from salience import checks
from salience.errors import InputError, LimitError, Words
from salience.web.grouping import is_in_query
from salience.web.problems import Refused
from salience.wire import asked
from salience.wire.verbs import Verb

JSON: Final = ("application/json",)
LINES: Final = ("application/x-ndjson", "application/ndjson", "application/jsonl")
KEY: Final = "Idempotency-Key"
MANY: Final = ("drafts", "messages")
"""Arguments whose items have idempotency keys of their own."""
_WHOLE: Final = re.compile("-?[0-9]{1,18}")
_TRUTH: Final = {"true": True, "false": False}
_KINDS: Final = ((bool, "true or false"), (str, "text"), (int, "a number"), (float, "a number"), (list, "a list"),
                 (dict, "an object"), (NoneType, "null"))  # fmt: skip


async def chunks(request: Request, limit: int) -> AsyncIterator[bytes]:
    """Yield the body as it comes.

    Raises:
        LimitError: it is longer than the limit; told before it is read where its length is known.
    """
    said = request.headers.get("content-length", "")
    size = int(said) if said.isdecimal() and len(said) < 20 else 0
    _require_within(limit, size)
    size = 0
    async for chunk in request.stream():
        size += len(chunk)
        _require_within(limit, size)
        yield chunk


def _require_within(limit: int, size: int) -> None:
    if size > limit:
        raise LimitError(f"body: more than the {limit:,} bytes that one request may have. Send less at a time.")


def whole_body(limit: int) -> Callable[[Request], Any]:
    """Return a dependency of a route: the body, in memory."""

    async def body(request: Request) -> bytes:
        return b"".join([chunk async for chunk in chunks(request, limit)])

    return body


async def no_body(request: Request) -> bytes:
    """Return no body, for a route whose arguments stand in the query.

    Raises:
        InputError: there is one.
    """
    if request.headers.get("content-length", "0") != "0" or "transfer-encoding" in request.headers:
        raise InputError("body", Words("a body"), "Leave it out: the arguments stand in the query.")
    return b""


def require_type(request: Request, accepted: Sequence[str]) -> None:
    """Return if the body is of one of these media types, in UTF-8.

    Raises:
        Refused: it is not.
    """
    said = Message()
    said["content-type"] = request.headers.get("content-type", "none/none")
    charset = said.get_content_charset("utf-8")
    if said.get_content_type() not in accepted or charset not in ("utf-8", "utf8", "us-ascii"):
        raise Refused(415, f"Content-Type: not what this takes. Send {accepted[0]}, in UTF-8.")


def asked_by(verbs: Sequence[Verb], request: Request, body: bytes) -> tuple[Verb, asked.Asked]:
    """Return which verb of a path and method a request asks for, and with what arguments.

    Raises:
        Refused: the body is no JSON.
        InputError: arguments of another shape than the verb's.
    """
    path, query = request.path_params, request.query_params.multi_items()
    if is_in_query(verbs[0]):
        verb, given = verbs[0], in_query(verbs[0], query)
    else:
        if query:
            raise InputError("query", Words("a query"), "Leave it out: the arguments stand in the body.")
        given = _object(request, body)
        verb = next((verb for verb in verbs if _required(verb) <= {*given, *path}), verbs[0])
    for name in given.keys() & path.keys():
        raise InputError(name, Words("a second value"), "Leave it out: the path has it.")
    return verb, validated(verb, _under_key(verb, {**given, **path}, request.headers.get(KEY)))


def in_query(verb: Verb, pairs: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """Return the arguments that a query holds: lists for names that may stand more than once, numbers from digits.

    Raises:
        InputError: a name that may not stand twice does.
    """
    given: dict[str, Any] = {}
    for name, text in pairs:
        kinds = _kinds(verb.asks.model_fields[name].annotation) if name in verb.asks.model_fields else set()
        if list in kinds:
            given.setdefault(name, []).append(text)
        elif name in given:
            raise InputError(name, Words("a second value"), "Give it once.")
        elif int in kinds and _WHOLE.fullmatch(text):
            given[name] = int(text)
        else:
            given[name] = _TRUTH.get(text, text) if bool in kinds else text
    return given


def validated(verb: Verb, given: Mapping[str, Any]) -> asked.Asked:
    """Return arguments as the request of a verb.

    Raises:
        InputError: another shape, or a name that is unknown; names the first one that is wrong, never what it holds.
    """
    try:
        return verb.asks.model_validate(given, strict=True)
    except ValidationError as error:
        found = error.errors(include_url=False, include_context=False)
        first = _path(found[0]["loc"])
        # of what each member of a union has against a value, the innermost is said of the member that was meant
        raise _refused(verb, max((one for one in found if _path(one["loc"]).startswith(first)), key=_depth)) from None


def _object(request: Request, body: bytes) -> dict[str, Any]:
    """Return the JSON object of a body; of an empty one, an empty object."""
    if not body:
        return {}
    require_type(request, JSON)
    try:
        found = from_json(body, allow_inf_nan=False)
    except ValueError as error:
        place = re.search(r"line \d+ column \d+$", str(error))
        raise Refused(400, f"body: no JSON ({place[0] if place else 'cut off'}). Send an object, in UTF-8.") from None
    if not isinstance(found, dict):
        raise InputError("body", Words(_kind(found)), "Send an object of the arguments.")
    return found


def _required(verb: Verb) -> set[str]:
    return {name for name, field in verb.asks.model_fields.items() if field.is_required()}


def _kinds(annotation: Any) -> set[Any]:
    """Return the plain types that an annotation takes; any list is `list`."""
    if get_origin(annotation) is list:
        return {list}
    inner = get_args(annotation)[:1] if get_origin(annotation) is Annotated else get_args(annotation)
    return set().union(*map(_kinds, inner)) if inner else {annotation}


def _under_key(verb: Verb, given: dict[str, Any], key: str | None) -> dict[str, Any]:
    """Return the arguments with the idempotency key of the header; each of many has a key of its own, by its place."""
    if key is None:
        return given
    checks.name(KEY, key)
    if "key" in verb.asks.model_fields:
        if given.get("key") not in (None, key):
            raise InputError(KEY, Words("another key than the body's"), "Give one of them.")
        return {**given, "key": key}
    many = {name: given[name] for name in MANY if isinstance(given.get(name), list)}
    return given | {name: [_keyed(item, f"{key}/{place}") for place, item in enumerate(many[name])] for name in many}


def _keyed(item: Any, key: str) -> Any:
    return {**item, "key": key} if isinstance(item, dict) and item.get("key") is None else item


def _refused(verb: Verb, error: ErrorDetails) -> InputError:
    """Return what pydantic found wrong, under the API's names."""
    *above, last = error["loc"] or ("body",)
    match error["type"]:
        case "extra_forbidden":
            names = "" if above else f" Choose one of: {', '.join(verb.asks.model_fields)}."
            return InputError(_path(above) or "argument", str(last), f"Leave it out.{names}")
        case "missing":
            return InputError(_path(error["loc"]), Words("nothing"), "Give a value.")
    remedy = error["msg"].replace("Input should be", "Give") + "."
    return InputError(_path(error["loc"]) or "body", Words(_kind(error["input"])), remedy)


def _path(loc: Sequence[int | str]) -> str:
    """Return the place of a value, such as `drafts[0].content`; what pydantic says of a union's members is left out."""
    names = [item for item in loc if isinstance(item, int) or item in _FIELDS]
    return "".join(f"[{item}]" if isinstance(item, int) else f".{item}" for item in names).removeprefix(".")


def _depth(error: ErrorDetails) -> int:
    return len(_path(error["loc"]))


def _kind(value: object) -> str:
    return next((words for kind, words in _KINDS if isinstance(value, kind)), type(value).__name__)


_FIELDS: Final = {
    name
    for model in vars(asked).values()
    if isinstance(model, type) and issubclass(model, BaseModel)
    for name in model.model_fields
}
"""Every name that an argument, or a part of one, can have."""
