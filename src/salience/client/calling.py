"""From a verb and its arguments to a call: what is sent, and whether it may be sent twice."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from functools import cache
from typing import Any, Final
from urllib.parse import quote
from uuid import uuid4

from salience import keywords, remember
from salience.client import plain
from salience.errors import InputError, NotFoundError, ServerError, Words
from salience.rank.profile import LIMIT
from salience.rank.profiles import ProfileLike
from salience.records import UNSET, Draft, Filter, Query, Receipt, Scope, checks
from salience.records.ids import ONCE
from salience.wire.verbs import VERBS, Verb

HERE: Final = ("calibrate", "reembed", "doctor", "backup")
"""Verbs that are asked for where the store is."""
LOST: Final = (
    "Stored. The server's first answer was lost on the way, and with it what it told of conflicts, of a memory that "
    "this one replaces and of the vector."
)
"""Warning of a receipt that is another try's."""
_DRAFTED: Final = tuple(item.name for item in fields(Draft) if item.name != "scope")
_FILTER: Final = ("tags", "kinds", "tiers", "sessions", "since", "until")
_QUERY: Final = ("min_score", "dry_run", "now", "as_of", "deadline_ms")
_RANKED: Final = ("recall", "recall_many", "context", "explain")
"""Verbs that rank by the profile of the connection unless they name one."""
_LONG: Final = ("consolidate", "reflect", "end_session", "upkeep", "erase")
"""Verbs that may go through a whole store."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A verb as it is sent.

    Attributes:
        verb: what is asked for.
        path: with its arguments in place.
        query: arguments that stand in the URL.
        body: arguments that stand in the body, as JSON; None: no body.
        writes: whether it changes what is stored, beyond the counters of a recall.
        repeats: whether to send it twice does no more than to send it once.
        made_key: whether the key under which it is done once was made here, for this call alone.
        is_long: whether it may go through a whole store, and is waited for accordingly.
        deadline: seconds within which an answer is wanted; None: no such wish.
    """

    verb: Verb
    path: str
    query: Mapping[str, Any]
    body: bytes | None
    writes: bool
    repeats: bool
    made_key: bool = False
    is_long: bool = False
    deadline: float | None = None

    @property
    def headers(self) -> dict[str, str]:
        """What tells of the body."""
        return {} if self.body is None else {"Content-Type": "application/json"}

    def read(self, told: Any, *, again: bool) -> Any:
        """Return the answer that a JSON object tells; `again`: to another try than the first.

        Raises:
            ServerError: it tells none.
        """
        try:
            answer = self.verb.read(told)
        except (InputError, KeyError, TypeError):
            raise ServerError(
                f"{self.verb.name}: the server answered what this client cannot read. Use one version on both sides."
            ) from None
        if not (again and self.made_key):
            return answer
        return _first(answer) if isinstance(answer, Receipt) else [_first(receipt) for receipt in answer]


def _first(receipt: Receipt) -> Receipt:
    """Return the receipt of what an earlier try of this call had stored, as far as it is known."""
    if receipt.status != "unchanged" or receipt.warning or receipt.memory.key is not None:  # as the server met it
        return receipt
    replaced = receipt.memory.supersedes
    status: Any = "created" if replaced is None else "superseded"
    return replace(receipt, status=status, superseded=replaced, warning=LOST)


def call(
    method: Callable[..., Any],
    args: tuple[Any, ...],
    given: Mapping[str, Any],
    profile: ProfileLike | None = None,
) -> Call:
    """Return the call that a verb and its arguments make.

    Args:
        method: of the engine, whose name is the verb's.
        args: by their places, as its caller gave them.
        given: by their names.
        profile: of recalls that name none; None: the server's.

    Raises:
        InputError: the verb is not to be had over HTTP, or an argument that cannot be accepted.
    """
    arguments = {
        name: tuple(value) if isinstance(value, Iterator) else value  # which is looked at, and then sent
        for name, value in bound(method, args, given).items()
    }
    verb = verb_of(method.__name__)
    if verb.name in _RANKED and profile is not None:
        arguments.setdefault("profile", profile)
    made_key = verb.name in _ONCE and _ONCE[verb.name](arguments) is None
    shaped = _SHAPED.get(verb.name, _asked)(arguments)
    if made_key:
        shaped |= _under(ONCE + uuid4().hex, shaped)
    return _sent(verb, shaped, made_key)


def transfer(name: str, given: Mapping[str, Any]) -> Call:
    """Return the call of an export or import; what passes by is no part of it, and it is sent once."""
    verb = verb_of(name)
    query = {field: plain.plain(field, value) for field, value in given.items() if value is not None}
    writes = verb.right != "read"
    return Call(verb=verb, path=verb.path, query=query, body=None, writes=writes, repeats=False, is_long=True)


def bound(method: Callable[..., Any], args: tuple[Any, ...], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments by their names, without those that have their default."""
    signature = _signature(method)
    found = signature.bind(None, *args, **given).arguments
    found.pop("self")
    where = found.pop("where", {})
    keywords.scope("default", where)
    own = {name: value for name, value in found.items() if value is not signature.parameters[name].default}
    return {name: value for name, value in {**own, **where}.items() if value is not UNSET}


@cache
def _signature(method: Callable[..., Any]) -> inspect.Signature:
    return inspect.signature(method)


def verb_of(name: str) -> Verb:
    """Return a verb by its name.

    Raises:
        InputError: it is for where the store is.
    """
    if name in HERE:
        raise InputError(
            name,
            Words("a server over HTTP"),
            f"Run `salience {name}` where its store is.",
            "is not for a server over HTTP",
        )
    return VERBS[name]


def _where(arguments: Mapping[str, Any]) -> dict[str, Any]:
    return {name: arguments[name] for name in keywords.NAMES if name in arguments}


def _picked(arguments: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: arguments[name] for name in names if name in arguments}


def _home(arguments: Mapping[str, Any]) -> Scope:
    return keywords.home("default", _where(arguments))


def _asked(arguments: dict[str, Any]) -> dict[str, Any]:
    """Return arguments as they are sent, with what a question holds looked at as the engine would."""
    scope, level = keywords.scope("default", _where(arguments))
    checked = Filter(**_picked(arguments, _FILTER), level=level)
    if arguments.get("limit") is not None:
        checks.whole("limit", arguments["limit"], 0, LIMIT)
    for text in checks.texts("queries", arguments["queries"]) if "queries" in arguments else ():
        Query(text=text, scope=scope, filter=checked, **_picked(arguments, _QUERY))
    if "query" in arguments:
        Query(text=arguments["query"], scope=scope, filter=checked, **_picked(arguments, _QUERY))
    told = {name: plain.plain(name, value) for name, value in arguments.items() if name != "profile"}
    chosen = arguments.get("profile")
    return told if chosen is None else told | {"profile": plain.profile(chosen)}


def _remembered(arguments: dict[str, Any]) -> dict[str, Any]:
    _home(arguments)
    given = _picked(arguments, _DRAFTED)
    given |= {"tier": arguments["memory_type"]} if "memory_type" in arguments else {}
    return plain.draft(Draft(**given)) | _asked(_where(arguments))


def _remembered_many(arguments: dict[str, Any]) -> dict[str, Any]:
    home = _home(arguments)
    shared, lines = plain.at_home(remember.drafts(arguments["drafts"], home), home)
    return {**shared, "drafts": lines}


def _ingested(arguments: dict[str, Any]) -> dict[str, Any]:
    turns = remember.turns(arguments["messages"], _home(arguments))
    return {**_asked(_where(arguments)), "messages": [plain.turn(one) for one in turns]}


def _updated(arguments: dict[str, Any]) -> dict[str, Any]:
    Draft(**{"content": "-", **_picked(arguments, _DRAFTED)})
    return _asked(arguments)


_SHAPED: Final[Mapping[str, Callable[[dict[str, Any]], dict[str, Any]]]] = {
    "remember": _remembered,
    "remember_many": _remembered_many,
    "ingest": _ingested,
    "update": _updated,
}
"""Verbs whose arguments are sent in another shape than they are given -> how."""
_ONCE: Final[Mapping[str, Callable[[dict[str, Any]], Any]]] = {
    **dict.fromkeys(("remember", "update", "forget", "restore"), lambda arguments: arguments.get("key")),
    **dict.fromkeys(("remember_many", "ingest"), lambda _: None),
}
"""Verbs that are done once under a key -> the key that the caller gave; None: none, or not for all of them."""


def _under(key: str, shaped: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments that put a call, or what of it has no key of its own, under a key."""
    for many in ("drafts", "messages"):
        if many in shaped:
            return {many: [{"key": f"{key}/{place}", **item} for place, item in enumerate(shaped[many])]}
    return {"key": key}


def _sent(verb: Verb, shaped: dict[str, Any], made_key: bool) -> Call:
    in_path = {name: shaped.pop(name) for name in list(shaped) if f"{{{name}}}" in verb.path}
    in_query = verb.method in ("GET", "DELETE")
    writes = verb.right != "read" and not shaped.get("dry_run", False)
    deadline = shaped.get("deadline_ms")
    return Call(
        verb=verb,
        path=verb.path.format(**{name: _segment(name, value) for name, value in in_path.items()}),
        query={name: value for name, value in shaped.items() if value is not None} if in_query else {},
        body=None if in_query else json.dumps(shaped, allow_nan=False, separators=(",", ":")).encode("ascii"),
        writes=writes,
        repeats=not writes or verb.name in _ONCE,
        made_key=made_key,
        is_long=verb.name in _LONG,
        deadline=None if deadline is None else deadline / 1000,
    )


def _segment(name: str, value: object) -> str:
    """Return an argument as a part of a path, in which dots alone would be steps; no id has dots or slashes."""
    text = checks.name(name, value)
    if name == "id" and {*text} & {*"./"}:
        raise NotFoundError(text)
    if not text.strip("."):
        raise InputError(name, text, "Give a name that is not dots alone.")
    return quote(text, safe="")
