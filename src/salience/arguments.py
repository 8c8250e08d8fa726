"""The arguments of the verbs, each written once: its type, its type in JSON, and a sentence.

The signatures in `verbs` take these aliases. Requests, MCP tools, options of the command line and reference pages are
made from them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from inspect import Parameter
from pathlib import Path
from types import NoneType
from typing import IO, TYPE_CHECKING, Annotated, Any, Final, ForwardRef, Literal, get_args, get_origin

from salience.records import (
    CHANGES,
    ENTITY,
    FACETS,
    KINDS,
    PROBLEMS,
    SCOPE_LEVELS,
    SORTABLE,
    STATUSES,
    TAG,
    TIERS,
    Draft,
    Wildcard,
    checks,
    where,
)

if TYPE_CHECKING:  # commands that only print a text import no model and no store
    from salience.ports import Embedder
    from salience.rank.profile import Profile


@dataclass(frozen=True, slots=True, eq=False)
class Json:
    """In an alias: the type of the argument in JSON.

    Attributes:
        type: `str`, `int`, `float`, `bool`, `dict` or `list`, or a union of them.
        schema: the JSON Schema of a value that is no list.
        items: the items of a list.
        model: name of the model of an object, or of the items of a list, in `wire.requests`.
    """

    type: Any
    schema: Mapping[str, Any] = field(default_factory=dict)
    items: Json | None = None
    model: str | None = None


@dataclass(frozen=True, slots=True)
class Local:
    """In an alias: the argument cannot be sent to a server, such as an open file or a function."""


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument of a verb, as a surface shows it.

    Attributes:
        name: in Python and JSON.
        description: a fragment of a sentence, without a capital or full stop.
        json: the type in JSON, without null; None for an argument that cannot be sent.
        default: in Python; `Parameter.empty` if it is required.
        nullable: whether null is a value.
    """

    name: str
    description: str
    json: Json | None
    default: Any
    nullable: bool

    @property
    def is_required(self) -> bool:
        """Whether every call must give it."""
        return self.default is Parameter.empty


def argument(parameter: Parameter) -> Argument:
    """Return the argument that a parameter with an alias describes."""
    members = _members(parameter.annotation)
    plain, *marks = get_args(next(one for one in members if get_origin(one) is Annotated))
    as_json = next((mark for mark in marks if isinstance(mark, Json)), Json(plain))
    return Argument(
        parameter.name,
        next(mark for mark in marks if isinstance(mark, str)),
        None if any(isinstance(mark, Local) for mark in marks) else as_json,
        parameter.default,
        NoneType in members,
    )


def without_alias(parameter: Parameter) -> Parameter:
    """Return a parameter with its type in Python alone, for `help` and editors."""
    names = [_name(get_args(one)[0] if get_origin(one) is Annotated else one) for one in _members(parameter.annotation)]
    return parameter.replace(annotation=_Shown(" | ".join(names)))


class _Shown(str):
    """A type that is shown without quotes."""

    __repr__ = str.__str__


def _members(annotation: Any) -> tuple[Any, ...]:
    """Return the members of a union, or the one type."""
    return (annotation,) if get_origin(annotation) is Annotated else get_args(annotation) or (annotation,)


def _name(kind: Any) -> str:
    """Return a type as it is written."""
    if isinstance(kind, ForwardRef):
        return kind.__forward_arg__
    if kind is NoneType:
        return "None"
    return kind.__name__ if isinstance(kind, type) and not get_args(kind) else _MODULES.sub("", str(kind))


_MODULES: Final = re.compile(r"\b(?:\w+\.)+(?=\w)")


def text(**schema: Any) -> Json:
    """Return the type of text."""
    return Json(str, {"type": "string", **schema})


def number(low: float, high: float) -> Json:
    """Return the type of a number in [low, high]."""
    return Json(float, {"type": "number", "minimum": low, "maximum": high})


def whole(low: int, high: int) -> Json:
    """Return the type of a whole number in [low, high]."""
    return Json(int, {"type": "integer", "minimum": low, "maximum": high})


def listed(items: Json) -> Json:
    """Return the type of a list."""
    return Json(list, items=items)


PRINTABLE: Final = r"^[^\x00-\x1f\x7f-\x9f]*[^\s\x00-\x1f\x7f-\x9f][^\x00-\x1f\x7f-\x9f]*$"
QUERIES_LIMIT: Final = 32
"""Maximum number of queries in one request."""
NAME: Final = text(minLength=1, maxLength=checks.NAME_LIMIT, pattern=PRINTABLE)
TEXT: Final = text(minLength=1, pattern=r"^[^\x00]*[^\s\x00][^\x00]*$")
QUERY: Final = text(minLength=1, maxLength=checks.QUERY_LIMIT, pattern=TEXT.schema["pattern"])
ID: Final = text(pattern="^([0-9a-f]{32}|[0-9a-f]{8})$")
WHOLE_ID: Final = text(pattern="^[0-9a-f]{32}$")
LIST_CURSOR: Final = text(pattern="^([-+.e0-9]{1,24}_)?[0-9a-f]{32}$")
SESSION_CURSOR: Final = text(pattern="^-?[0-9]{1,17}_[^\x00\x1f]*\x1f[^\x00\x1f]*\x1f[^\x00\x1f]+$")
CHANGE_CURSOR: Final = text(pattern="^(-[0-9]{1,16}|[0-9]{1,17})_[0-9a-f]{32}_[0-9]{1,18}$")
TIER: Final = text(enum=list(TIERS))
STATUS: Final = text(enum=list(STATUSES))
PROBLEM: Final = text(enum=list(PROBLEMS))
FIELD: Final = text(enum=[*FACETS, TAG, ENTITY])
OWN: Final = text(maxLength=checks.NAME_LIMIT, pattern=r"^[^\x00-\x1f\x7f-\x9f]*$")
VERSION: Final = whole(1, 2**31 - 1)
METADATA: Final = Json(dict, {"type": "object", "propertyNames": NAME.schema, "additionalProperties": True})
INSTANT: Final = Json(
    str,
    {
        "anyOf": [
            {"type": "string", "format": "date-time"},
            {"type": "string", "format": "date"},
            {"type": "string", "pattern": checks.INSTANT_PATTERN},
        ],
        "examples": ["2026-05-01T09:30:00Z", "2026-05-01", "2026-05", "yesterday", "last week", "2d"],
    },
)
TTL: Final = Json(
    float | str,
    {
        "anyOf": [
            number(checks.DURATION_LEAST, checks.DURATION_LIMIT).schema,
            {"type": "string", "pattern": rf"^\s*{checks.DURATION_PATTERN}\s*$"},
        ],
        "examples": ["24h", "7d", "2w", 3600],
    },
)
WHERE: Final = Json(dict, where.SCHEMA)
WEIGHTS: Final = Json(dict, {"type": "object", "additionalProperties": number(0, 100).schema})

Names = Sequence[str]
Progress = Callable[[int], None]

# The scope: which memories a call may see, and where it stores new ones.

Environment = Annotated[str | Wildcard, NAME, "the environment, matched exactly; * for any"]
Project = Annotated[str | Wildcard, NAME, "the project; memories without one are shared by all"]
UserId = Annotated[str | Wildcard, NAME, "the user; memories without one are shared by all"]
AgentId = Annotated[str | Wildcard, NAME, "the agent; memories without one are shared by all"]
SessionId = Annotated[str | Wildcard, NAME, "the session: orders turns, hides nothing"]
Level = Annotated[
    Literal["global", "project"], text(enum=list(SCOPE_LEVELS)),
    "only memories without a project (`global`), or only those of the project (`project`)",
]  # fmt: skip
EndedSession = Annotated[str, NAME, "the session that ends"]
OneSession = Annotated[str | Wildcard, NAME, "only recalls of this session"]

# The fields of a memory.

Content = Annotated[str, TEXT, "the text"]
Kind = Annotated[str, NAME, f"one of {', '.join(KINDS)}, or a name of your own; default: fact"]
Importance = Annotated[float, number(0, 1), "0 to 1; default: estimated from the text"]
Weight = Annotated[float, number(0.1, 1), "confidence, 0.1 to 1; default: 1"]
Labels = Annotated[Names, listed(NAME), "tags to filter by; an update replaces all of them"]
Entities = Annotated[Names, listed(NAME), "named entities; default: extracted from the text"]
FactKey = Annotated[str, NAME, "identity of the fact, such as user.theme; default: extracted"]
Supersedes = Annotated[str, ID, "id of an older memory that this one replaces"]
Ttl = Annotated[float | str | timedelta, TTL, "time to live: seconds, 24h, 7d, 2w"]
Tier = Annotated[str, TIER, "working, episodic or semantic; default: episodic"]
MemoryType = Annotated[str, TIER, "another name for `tier`, as in MemLayer and ZeroMemory"]
Metadata = Annotated[Mapping[str, Any], METADATA, "custom values, returned unchanged"]
Speaker = Annotated[str, NAME, "name of the speaker"]
CreatedAt = Annotated[checks.Instant, INSTANT, "creation time (2026-05-01, yesterday, 2d); default: now"]
Duplicate = Annotated[bool, "store it even if a current memory has the same text"]

Drafts = Annotated[Iterable[Draft | Mapping[str, Any]], Json(list, model="DraftLine"), "the memories, in order"]

# Changes.

Id = Annotated[str, ID, "id of the memory, whole or its last 8 characters"]
Reason = Annotated[str, NAME, "reason for the change, for the history"]
IfVersion = Annotated[int, VERSION, "refused unless the memory has this version"]
Key = Annotated[str, NAME, "idempotency key: a retry under it returns the first receipt"]
RestoredVersion = Annotated[int, VERSION, "a version from the history; default: the last live one"]
OtherId = Annotated[str, ID, "the other memory of the pair; none for a stale reflection"]
Undo = Annotated[bool, "decide the relation again, and show the problem again"]
ErasedIds = Annotated[Names, listed(ID), "the memories; default: all memories in the scope"]
DryRun = Annotated[bool, "count what would change, and change nothing"]

Messages = Annotated[Iterable[object], Json(list, model="Message"), "the turns, in order"]

# Questions.

QueryText = Annotated[str, QUERY, "the query, in words"]
Queries = Annotated[Names, listed(QUERY), f"the queries, in words; up to {QUERIES_LIMIT} over HTTP"]
Limit = Annotated[int, whole(0, 1000), "maximum number of hits; default: the profile's"]
ProfileName = Annotated[
    "str | Path | Profile",
    Json(str, NAME.schema, model="ProfileText"),
    "ranking profile: a name, or one of your own",
]
BuiltIn = Annotated[str, NAME, "ranking profile, by name; default: the connection's"]
MinScore = Annotated[float, number(0, 100), "minimum score, on the profile's scale"]
Uncounted = Annotated[bool, "do not update counters"]
AsOf = Annotated[checks.Instant, INSTANT, "answer as of this time (2026-05-01, 2d)"]
Now = Annotated[checks.Instant, INSTANT, "time of the query; default: as_of, or the present"]
DeadlineMs = Annotated[float, number(0, 3_600_000), "milliseconds for embedding and reranking; then they are skipped"]
Weights = Annotated[Mapping[str, float], WEIGHTS, "weights of signals that override the profile's, by label"]
GraphWeight = Annotated[float, number(0, 1), "share of the proximity, 0 to 1; default: the profile's"]
MaxHops = Annotated[int, whole(0, 10), "maximum distance in the graph; default: the profile's"]
Budget = Annotated[int, whole(0, 10_000_000), "maximum tokens of the text"]

# Filters.

Tags = Annotated[Names, listed(NAME), "only memories with all of these tags"]
Kinds = Annotated[Names, listed(NAME), "only memories of these kinds"]
Tiers = Annotated[Names, listed(TIER), "only memories in these tiers"]
Sessions = Annotated[Names, listed(NAME), "only memories of these sessions"]
FactKeys = Annotated[Names, listed(NAME), "only memories of these facts, by their fact_key"]
Since = Annotated[checks.Instant, INSTANT, "created at or after this time"]
Until = Annotated[checks.Instant, INSTANT, "created before this time"]

Where = Annotated[
    Mapping[str, Any], WHERE, 'only memories with this metadata: {"plan": "pro", "seats": {"$gte": 5}}'
]  # fmt: skip

# Conditions of listings.

FadingIds = Annotated[Names, listed(ID), "the memories, by their ids, whole or their last 8 characters"]
DaysAhead = Annotated[float, number(0, 36_500), "days ahead"]
Steps = Annotated[int, whole(2, 1000), "number of values"]
Ids = Annotated[Names, listed(ID), "only memories with these ids, whole or their last 8 characters"]
Words = Annotated[Names, listed(TEXT), "only memories whose text contains all of these words"]
Naming = Annotated[Names, listed(NAME), "only memories naming one of these entities"]
LinkedTo = Annotated[Names, listed(WHOLE_ID), "only memories that replace, add to or sum up one of these, by whole id"]
Statuses = Annotated[Names, listed(STATUS), "only memories with one of these statuses; default: live"]
OwnProjects = Annotated[Names, listed(OWN), "only memories of these projects; empty: without a project"]
OwnUsers = Annotated[Names, listed(OWN), "only memories of these users; empty: without a user"]
OwnAgents = Annotated[Names, listed(OWN), "only memories of these agents; empty: without an agent"]
OwnSessions = Annotated[Names, listed(OWN), "only memories of these sessions; empty: without a session"]
Order = Annotated[str, text(enum=list(SORTABLE)), "field to sort by; default: id, the order of storing"]
Descending = Annotated[bool, "the greatest or latest first"]
CountedFields = Annotated[Names, listed(FIELD), "the fields whose values are counted; default: all but entity"]
Top = Annotated[int, whole(1, 100_000), "maximum number of values of a field"]

# Pages and logs.

PageSize = Annotated[int, whole(1, 1000), "maximum number of items on the page"]
Cursor = Annotated[str, WHOLE_ID, "cursor of the previous page"]
ListCursor = Annotated[str, LIST_CURSOR, "cursor of the previous page"]
SessionCursor = Annotated[str, SESSION_CURSOR, "cursor of the previous page"]
ChangeCursor = Annotated[str, CHANGE_CURSOR, "cursor of the previous page"]
ProblemsOf = Annotated[str, ID, "only problems of this memory"]
Problems = Annotated[Names, listed(PROBLEM), "only problems of these kinds; default: all but relation"]
ChangeName = Annotated[str, text(enum=list(CHANGES)), "only this change"]
ChangedBy = Annotated[str, NAME, "only by this author: agent:NAME, user:NAME or upkeep"]
VersionSince = Annotated[checks.Instant, INSTANT, "changed at or after this time"]
VersionUntil = Annotated[checks.Instant, INSTANT, "changed before this time"]
QueryPart = Annotated[str, QUERY, "a part of the question, in upper or lower case"]
EntryId = Annotated[str, WHOLE_ID, "only this entry"]
ReturnedId = Annotated[str, ID, "only recalls that returned this memory"]
Topic = Annotated[str, NAME, "the topic; default: the verbs"]

# Files, models and maintenance.

File = Annotated[str | Path | IO[Any], Local(), "a path or an open file"]
Format = Annotated[Literal["jsonl", "markdown", "mem0"], Local(), "lines of JSON, or the form of another system"]
Overwrite = Annotated[bool, Local(), "replace an existing file"]
OnProgress = Annotated[Progress, Local(), "called with the number of memories done so far"]
OnTexts = Annotated[Callable[[int, int], None], Local(), "called with the number of texts done, and of all texts"]
OnPages = Annotated[Callable[[int, int], None], Local(), "called with the pages left, and the pages in all"]
Source = Annotated[str, NAME, "the other system whose export it is; default: lines of JSON"]
OnError = Annotated[
    Literal["stop", "skip"],
    text(enum=["stop", "skip"]),
    "at an invalid record: `stop` stores nothing, `skip` leaves it out; default: `skip` with a source, else `stop`",
]
Model = Annotated["str | Embedder", Local(), "the model, or its name; default: the connection's"]
BackupFile = Annotated[str | Path, Local(), "path of the copy"]
Repair = Annotated[bool, Local(), "rebuild derived data that is wrong"]
Deep = Annotated[bool, Local(), "embed every text again, and compare the vectors"]
