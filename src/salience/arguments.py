"""The arguments of the verbs, each written once: its type, its type in JSON, and a sentence.

The signatures in `verbs` take these aliases; requests, MCP tools, options of the command line and reference pages are
made from them.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import reduce
from inspect import Parameter
from operator import or_
from pathlib import Path
from types import FunctionType, NoneType, UnionType
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin

from pydantic import ConfigDict, Field, create_model

from salience.ports import Embedder
from salience.rank import profiles
from salience.records import KINDS, Unset, Wildcard, checks
from salience.transfer import files
from salience.wire import requests
from salience.wire.requests import Name, VerbRequest, whole


@dataclass(frozen=True, slots=True)
class Wire:
    """In an alias: the type of the argument in JSON, or a function that returns it, if it differs from Python's."""

    type: Any


@dataclass(frozen=True, slots=True)
class Local:
    """In an alias: the argument cannot be sent to a server, such as an open file or a function."""


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument of a verb, as a surface shows it.

    Attributes:
        name: in Python and JSON.
        description: a fragment of a sentence, without a capital or full stop.
        type: in JSON, without null, or a function that returns it; None for an argument that cannot be sent.
        default: in Python; `Parameter.empty` if it is required.
        nullable: whether null is a value.
    """

    name: str
    description: str
    type: Any
    default: Any
    nullable: bool

    @property
    def is_required(self) -> bool:
        """Whether every call must give it."""
        return self.default is Parameter.empty


def argument(parameter: Parameter) -> Argument:
    """Return the argument that a parameter with an alias describes."""
    members = get_args(parameter.annotation)
    is_alias = get_origin(parameter.annotation) is Annotated
    alias = parameter.annotation if is_alias else next(one for one in members if get_origin(one) is Annotated)
    plain, *marks = get_args(alias)
    rest = [mark for mark in marks if not isinstance(mark, Wire | Local | str)]
    as_json = next((mark.type for mark in marks if isinstance(mark, Wire)), Annotated[plain, *rest] if rest else plain)
    return Argument(
        parameter.name,
        next(mark for mark in marks if isinstance(mark, str)),
        None if any(isinstance(mark, Local) for mark in marks) else as_json,
        parameter.default,
        not is_alias and NoneType in members,
    )


def plain(annotation: Any) -> Any:
    """Return a type without the marks of aliases, for `help` and editors."""
    if get_origin(annotation) is Annotated:
        return annotation.__origin__
    if get_origin(annotation) in (Union, UnionType):
        return reduce(or_, map(plain, get_args(annotation)))
    return annotation


def request(name: str, about: str, arguments: Iterable[Argument], **schema: Any) -> type[VerbRequest]:
    """Return the model of a request with these arguments, but those that cannot be sent; `schema` joins its schema."""
    fields: dict[str, Any] = {}
    for one in arguments:
        if one.type is not None:
            kind = one.type() if isinstance(one.type, FunctionType) else one.type
            kind, default = kind | None if one.nullable else kind, one.default
            if one.is_required:
                made = Field(description=one.description)
            elif isinstance(default, Unset | Wildcard) or (default is None and not one.nullable):
                made = Field(default_factory=lambda: None, description=one.description)  # optional, but never null
            else:
                made = Field(list(default) if default == () else default, description=one.description)
            fields[one.name] = (kind, made)
    base = (
        type("Request", (VerbRequest,), {"model_config": ConfigDict(json_schema_extra=schema)})
        if schema
        else VerbRequest
    )
    return create_model(name, __base__=base, __doc__=about, **fields)


_NAMES: Final = Wire(list[Name])
_INSTANT: Final = Wire(requests.Instant)
Names = Sequence[str]
Progress = Callable[[int], None]

# The scope: which memories a call may see, and where it stores new ones.

Environment = Annotated[str | Wildcard, Wire(Name), "exact match; * for any"]
Project = Annotated[str | Wildcard, Wire(Name), "the project; memories without one are shared by all"]
UserId = Annotated[str | Wildcard, Wire(Name), "the user; memories without one are shared by all"]
AgentId = Annotated[str | Wildcard, Wire(Name), "the agent; memories without one are shared by all"]
SessionId = Annotated[str | Wildcard, Wire(Name), "the session: orders turns, hides nothing"]
Level = Annotated[
    Literal["global", "project"], Wire(requests.Level),
    "`global`: memories without a project; `project`: memories of the project",
]  # fmt: skip
EndedSession = Annotated[str, Wire(Name), "the session that ends"]
OneSession = Annotated[str | Wildcard, Wire(Name), "only recalls of this session"]

# The fields of a memory.

Content = Annotated[str, Wire(requests.Text), "the text"]
Kind = Annotated[str, Wire(Name), f"one of {', '.join(KINDS)}, or a name of your own; default: fact"]
Importance = Annotated[float, Wire(requests.Fraction), "0 to 1; default: estimated from the text"]
Weight = Annotated[float, Wire(requests.Weight), "confidence, 0.1 to 1; default: 1"]
Labels = Annotated[Names, _NAMES, "names to filter by; an update replaces all of them"]
Entities = Annotated[Names, _NAMES, "named entities; default: extracted from the text"]
FactKey = Annotated[str, Wire(Name), "identity of the fact, such as user.theme; default: extracted"]
Supersedes = Annotated[str, Wire(requests.Id), "id of an older memory that this one replaces"]
Ttl = Annotated[float | str | timedelta, Wire(requests.Ttl), "time to live: seconds, 24h, 7d, 2w"]
Tier = Annotated[str, Wire(requests.Tier), "working, episodic or semantic; default: episodic"]
MemoryType = Annotated[str, Wire(requests.Tier), "another name for `tier`, as in MemLayer and ZeroMemory"]
Metadata = Annotated[Mapping[str, Any], Wire(requests.Metadata), "custom values, returned unchanged"]
Speaker = Annotated[str, Wire(Name), "name of the speaker"]
CreatedAt = Annotated[checks.Instant, _INSTANT, "creation time (2026-05-01, yesterday, 2d); default: now"]
Duplicate = Annotated[bool, "store it even if a current memory has the same text"]

# Changes.

Id = Annotated[str, Wire(requests.Id), "id of the memory, whole or its last 8 characters"]
Reason = Annotated[str, Wire(Name), "reason for the change, for the history"]
IfVersion = Annotated[int, Wire(requests.Version), "refused unless the memory has this version"]
Key = Annotated[str, Wire(Name), "idempotency key: a retry under it returns the first receipt"]
RestoredVersion = Annotated[int, Wire(requests.Version), "a version from the history; default: the last live one"]
OtherId = Annotated[str, Wire(requests.Id), "the other memory of the pair; none for a stale reflection"]
Undo = Annotated[bool, "decide the relation again, and show the problem again"]
ErasedIds = Annotated[Names, Wire(list[requests.Id]), "the memories; default: all memories in the scope"]
DryRun = Annotated[bool, "count what would change, and change nothing"]

Messages = Annotated[Iterable[object], Wire(list[requests.Message]), "the turns, in order"]

# Questions.

QueryText = Annotated[str, Wire(requests.Text), "the query, in words"]
Queries = Annotated[
    Names, Wire(list[requests.Text]), f"the queries, in words; up to {requests.QUERIES_LIMIT} over HTTP"
]
Limit = Annotated[int, *whole(0, 1000), "maximum number of hits; default: the profile's"]
ProfileName = Annotated[
    profiles.ProfileLike, Wire(Name | requests.ProfileText), "ranking profile: its name, or the text of its TOML file"
]
MinScore = Annotated[float, Wire(requests.MinScore), "minimum score, on the profile's scale"]
Uncounted = Annotated[bool, "do not update counters"]
AsOf = Annotated[checks.Instant, _INSTANT, "answer as of this time (2026-05-01, 2d)"]
Now = Annotated[checks.Instant, _INSTANT, "time of the query; default: as_of, or the present"]
DeadlineMs = Annotated[
    float, Wire(requests.Milliseconds), "skip an embedding or reranking that takes longer, milliseconds"
]
Weights = Annotated[
    Mapping[str, float], Wire(requests.Weights), "weights of signals that override the profile's, by label"
]
GraphWeight = Annotated[float, Wire(requests.Fraction), "share of the proximity, 0 to 1; default: the profile's"]
MaxHops = Annotated[int, *whole(0, 10), "maximum distance in the graph; default: the profile's"]
Budget = Annotated[int, *whole(0, 10_000_000), "maximum tokens of the text"]

# Filters.

Tags = Annotated[Names, _NAMES, "only memories with all of these tags"]
Kinds = Annotated[Names, _NAMES, "only memories of these kinds"]
Tiers = Annotated[Names, Wire(list[requests.Tier]), "only memories in these tiers"]
Sessions = Annotated[Names, _NAMES, "only memories of these sessions"]
FactKeys = Annotated[Names, _NAMES, "only memories of these facts, by their fact_key"]
Since = Annotated[checks.Instant, _INSTANT, "earliest created_at, inclusive"]
Until = Annotated[checks.Instant, _INSTANT, "latest created_at, exclusive"]

# Pages and logs.

PageSize = Annotated[int, *whole(1, 1000), "maximum number of items on the page"]
Cursor = Annotated[str, Wire(requests.Cursor), "cursor of the previous page"]
ChangeCursor = Annotated[str, Wire(requests.ChangeCursor), "cursor of the previous page"]
ProblemsOf = Annotated[str, Wire(requests.Id), "only problems of this memory"]
ChangeName = Annotated[str, Wire(requests.Change), "only this change"]
ChangedBy = Annotated[str, Wire(Name), "only by this author: agent:NAME, user:NAME or upkeep"]
ChangedSince = Annotated[checks.Instant, _INSTANT, "earliest time of a change, inclusive"]
ChangedUntil = Annotated[checks.Instant, _INSTANT, "latest time of a change, exclusive"]
QueryPart = Annotated[str, Wire(requests.Text), "a part of the question, in upper or lower case"]
EntryId = Annotated[str, Wire(requests.Cursor), "only this entry"]
ReturnedId = Annotated[str, Wire(requests.Id), "only recalls that returned this memory"]
Topic = Annotated[str, Wire(Name), "the topic; default: the verbs"]

# Files, models and maintenance.

File = Annotated[files.File, Local(), "a path or an open file"]
Format = Annotated[Literal["jsonl", "markdown", "mem0"], Local(), "lines of JSON, or the form of another system"]
Overwrite = Annotated[bool, Local(), "replace an existing file"]
OnProgress = Annotated[Progress, Local(), "called with the number of memories done so far"]
OnTexts = Annotated[Callable[[int, int], None], Local(), "called with the number of texts done, and of all texts"]
OnPages = Annotated[Callable[[int, int], None], Local(), "called with the pages left, and the pages in all"]
Source = Annotated[str, Wire(Name), "the other system whose export it is; default: lines of JSON"]
OnError = Annotated[
    Literal["stop", "skip"],
    Wire(requests.OnError),
    "at an invalid record: `stop` stores nothing, `skip` leaves it out",
]
Model = Annotated[str | Embedder, Local(), "the model, or its name; default: the connection's"]
Pairs = Annotated[
    Iterable[object], Local(),
    "`Judged`, or (text, text, relatedness from 0 to 1): at least 20 from 0.75 on and 20 below 0.5; "
    "default: 60 included texts",
]  # fmt: skip
DataName = Annotated[str, Local(), "name of the data, kept in the calibration"]
CalibrationFile = Annotated[str | Path, Local(), "file to save the calibration in, under the embedder's name"]
BackupFile = Annotated[str | Path, Local(), "path of the copy"]
Repair = Annotated[bool, Local(), "rebuild derived data that is wrong"]
Deep = Annotated[bool, Local(), "embed every text again, and compare the vectors"]
