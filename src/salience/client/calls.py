"""Converts a verb and its arguments to an HTTP request."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from enum import Enum
from numbers import Integral, Real
from typing import Any, Final
from urllib.parse import quote
from uuid import uuid4

from salience import keywords, remember
from salience.errors import InputError, NotFoundError, ServerError, Words, wrong_type
from salience.rank import profiles
from salience.rank.profile import LIMIT
from salience.rank.profiles import ProfileLike
from salience.records import Draft, Filter, Query, Receipt, checks
from salience.records.ids import ONCE
from salience.records.query import CHOICES, CONDITIONS, INSTANTS, choices
from salience.verbs import VERBS, Verb
from salience.wire.responses import to_json

LOST: Final = (
    "Stored. The server's first response was lost, and with it any conflicts, superseded memory and vector status."
)
"""Warning of a receipt from a retry."""
_DRAFT: Final = tuple(item.name for item in fields(Draft) if item.name != "scope")
_QUERY: Final = ("min_score", "dry_run", "now", "as_of", "deadline_ms")
_KEYED: Final = [name for name, verb in VERBS.items() if {"key", "drafts", "messages"} & {*verb.arguments}]
"""Verbs with idempotency keys; `remember_many` and `ingest` have one per item."""
_MESSAGE: Final = {
    "content": "content", "speaker": "speaker", "created_at": "timestamp", "metadata": "metadata", "key": "key",
}  # fmt: skip
"""Fields of a draft -> fields of a message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A verb as an HTTP request.

    Attributes:
        path: with its arguments.
        query: the arguments in the URL.
        body: the arguments in the body, as JSON; None for no body.
        writes: whether it changes the store, beyond the counters of a recall.
        idempotent: whether a second request has no further effect.
        generated_key: whether the idempotency key was generated for this call.
        deadline: of the recall, seconds.
    """

    verb: Verb
    path: str
    query: Mapping[str, Any]
    body: bytes | None = None
    writes: bool
    idempotent: bool
    generated_key: bool = False
    deadline: float | None = None

    def result(self, data: Any, *, retried: bool) -> Any:
        """Return the result in a JSON object; raises `ServerError` for others. `retried`: not the first attempt."""
        try:
            result = self.verb.from_json(data)
        except (InputError, KeyError, TypeError):
            raise ServerError(
                f"{self.verb.name}: the response has an unknown form. Use the same version of Salience on both sides."
            ) from None
        if not (retried and self.generated_key):
            return result
        return _first_receipt(result) if isinstance(result, Receipt) else [_first_receipt(one) for one in result]


def _first_receipt(receipt: Receipt) -> Receipt:
    """Return the receipt of the attempt that stored the memory, as far as it can be reconstructed."""
    if receipt.status != "unchanged" or receipt.warning or receipt.memory.key is not None:  # this attempt stored it
        return receipt
    old = receipt.memory.supersedes
    return replace(receipt, status="created" if old is None else "superseded", superseded=old, warning=LOST)


def call(verb: Verb, given: Mapping[str, Any], profile: ProfileLike | None = None) -> Call:
    """Return the request for a call of a verb; `profile` is the default of recalls, None for the server's.

    Raises:
        InputError: the verb is not available over HTTP, or an argument is not acceptable.
    """
    arguments = {
        argument: tuple(value) if isinstance(value, Iterator) else value  # iterated twice below
        for argument, value in changed(verb, given).items()
    }
    name = verb.name
    if not verb.path:
        remedy = "Connect to the file or database of the store instead."
        raise InputError(name, Words("a server over HTTP"), remedy, "is not available over HTTP")
    if verb.ranks and profile is not None:
        arguments.setdefault("profile", profile)
    needs_key = name in _KEYED and arguments.get("key") is None
    body = _body(name, arguments)
    if needs_key:
        key, many = ONCE + uuid4().hex, next((many for many in ("drafts", "messages") if many in body), None)
        if many is None:
            body["key"] = key
        else:
            body[many] = [{"key": f"{key}/{position}", **item} for position, item in enumerate(body[many])]
    in_path = {field: body.pop(field) for field in list(body) if f"{{{field}}}" in verb.path}
    in_query = verb.method in ("GET", "DELETE")
    writes = verb.right != "read" and not body.get("dry_run", False)
    deadline_ms = body.get("deadline_ms")
    return Call(
        verb=verb,
        path=verb.path.format(**{field: _segment(field, value) for field, value in in_path.items()}),
        query=in_url(body) if in_query else {},
        body=None if in_query else json.dumps(body, allow_nan=False, separators=(",", ":")).encode("ascii"),
        writes=writes,
        idempotent=not writes or name in _KEYED,
        generated_key=needs_key,
        deadline=None if deadline_ms is None else deadline_ms / 1000,
    )


def in_url(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return JSON values as parameters of a URL: objects as JSON, null left out."""
    given = {name: value for name, value in arguments.items() if value is not None}
    return {name: json.dumps(value) if isinstance(value, dict) else value for name, value in given.items()}


def changed(verb: Verb, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments that differ from their defaults; raises `InputError` for an invalid scope."""
    found = {name: value for name, value in given.items() if value is not verb.arguments[name].default}
    keywords.scope("default", _picked(found, keywords.NAMES))
    return found


def _picked(arguments: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    return {name: arguments[name] for name in names if name in arguments}


def _body(verb: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a verb as JSON values, with the engine's checks."""
    where = _picked(arguments, keywords.NAMES)
    match verb:
        case "remember":
            keywords.home("default", where)
            tier = {"tier": arguments["memory_type"]} if "memory_type" in arguments else {}
            return _draft(Draft(**{**_picked(arguments, _DRAFT), **tier})) | _checked(where)
        case "remember_many":
            # A draft cannot unset a coordinate of the request, so a coordinate is shared only if every draft has it.
            home = keywords.home("default", where)
            drafts = list(remember.drafts(arguments["drafts"], home))
            homes = [replace(one.scope or home, tenant=home.tenant).as_home().as_dict() for one in drafts]
            shared = {name: value for name, value in home.as_dict().items() if all(name in one for one in homes)}
            own = [{name: value for name, value in one.items() if value != shared.get(name)} for one in homes]
            return {**shared, "drafts": [_draft(one) | at for one, at in zip(drafts, own, strict=True)]}
        case "ingest":
            turns = remember.turns(arguments["messages"], keywords.home("default", where))
            messages = [{name: value for f, name in _MESSAGE.items() if (value := getattr(one, f))} for one in turns]
            return {**_checked(where), "messages": to_json(messages)}
        case "list" | "facets" | "sessions":
            choices(arguments)
            for name in ("ids", "words", "entities", "linked_to"):
                checks.texts(name, arguments.get(name, ()))
            return _checked(arguments, without=CHOICES)
        case "update":
            Draft(**{"content": "-", **_picked(arguments, _DRAFT)})
    return _checked(arguments)


def _checked(arguments: dict[str, Any], without: Iterable[str] = ()) -> dict[str, Any]:
    scope, level = keywords.scope("default", _picked(arguments, keywords.NAMES))
    where = Filter(**_picked(arguments, [name for name in CONDITIONS if name not in without]), level=level)
    arguments |= {name: checks.instant(name, value) for name in INSTANTS if (value := arguments.get(name)) is not None}
    if arguments.get("limit") is not None:
        checks.whole("limit", arguments["limit"], 0, LIMIT)
    texts = list(checks.texts("queries", arguments["queries"])) if "queries" in arguments else []
    for text in [*texts, *_picked(arguments, ["query"]).values()]:
        Query(text=text, scope=scope, filter=where, **_picked(arguments, _QUERY))
    found = {name: plain(name, value) for name, value in arguments.items() if name != "profile"}
    chosen = arguments.get("profile")
    return found if chosen is None else found | {"profile": _profile(chosen)}


def _segment(name: str, value: object) -> str:
    """Return an argument as a path segment. Dots alone would change the path; no id has dots or slashes."""
    text = checks.name(name, value)
    if name == "id" and {*text} & {*"./"}:
        raise NotFoundError(text)
    if not text.strip("."):
        raise InputError(name, text, "Give a name with more than dots.")
    return quote(text, safe="")


def _draft(draft: Draft) -> dict[str, Any]:
    """Return the given fields of a draft, without its scope and null values."""
    given = {item.name: getattr(draft, item.name) for item in fields(Draft) if item.name in draft.given - {"scope"}}
    found: dict[str, Any] = to_json({name: value for name, value in given.items() if value is not None})
    return found


def plain(field: str, value: object) -> Any:
    """Return an argument as a JSON value; raise `InputError`, with the path to the invalid part, if it has none."""
    match value:
        case None | bool() | Enum():
            return to_json(value)
        case str():
            return checks.text(field, value) if value.strip() else value
        case Integral():
            if not -(2**63) <= int(value) < 2**63:
                raise InputError(field, value, "Give a number of at most 63 bits.")
            return int(value)
        case Real():
            if not math.isfinite(value):
                raise InputError(field, value, "Give a finite number.")
            return float(value)
        case bytes():
            raise wrong_type(field, value, "Give text (str).")
        case Mapping():
            return {str(name): plain(f"{field}.{name}", item) for name, item in value.items()}
        case Iterable():
            return [plain(f"{field}[{position}]", item) for position, item in enumerate(value)]
    try:
        return to_json(value)
    except InputError as error:
        raise error.at(field) from None


def _profile(chosen: ProfileLike) -> str | dict[str, str]:
    """Return a profile as the name of a built-in, or its TOML.

    Raises:
        ProfileError: no such profile exists.
        InputError: the profile was modified after it was read, so it has no TOML.
    """
    if isinstance(chosen, str) and chosen in profiles.NAMES:
        return chosen
    profile = profiles.load(chosen)
    if profile.toml is None:
        remedy = "Give its name or the path of its TOML, and pass weights= to the recall."
        raise InputError("profile", Words("a modified profile"), remedy, "was changed after it was read")
    if profile.name in profiles.NAMES and profile.toml == profiles.source(profile.name):
        return profile.name
    return {"toml": profile.toml}
