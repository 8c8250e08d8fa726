"""Requests: one pydantic model per verb, with the argument names of the engine.

The models check names and types. The engine checks values, so its errors are the same with and without a server; the
JSON schemas state both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import NoneType
from typing import Annotated, Any, Final, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, WithJsonSchema

from salience.errors import InputError, Words, unknown_field
from salience.records import CHANGES, KINDS, SCOPE_LEVELS, TIERS
from salience.records.checks import DURATION_LEAST, DURATION_LIMIT, DURATION_PATTERN, INSTANT_PATTERN, NAME_LIMIT

_PRINTABLE: Final = r"^[^\x00-\x1f\x7f-\x9f]*[^\s\x00-\x1f\x7f-\x9f][^\x00-\x1f\x7f-\x9f]*$"
_CHANGEABLE: Final = (
    "content", "kind", "importance", "weight", "tags", "entities", "fact_key", "supersedes", "ttl", "tier", "metadata",
)  # fmt: skip
"""Fields that an update can change; at least one is required."""
_ERASE_SCOPE: Final = ("project", "user_id", "agent_id", "session_id")
"""Coordinates of which `erase` requires at least one, unless it has ids."""
QUERIES_LIMIT: Final = 32
"""Maximum number of queries in one request."""


def _text(**schema: Any) -> WithJsonSchema:
    return WithJsonSchema({"type": "string", **schema})


def _number(low: float, high: float, kind: str = "number") -> WithJsonSchema:
    return WithJsonSchema({"type": kind, "minimum": low, "maximum": high})


def _whole(low: int, high: int) -> tuple[BeforeValidator, WithJsonSchema]:
    """Return a validator that accepts 2.0 as 2, as JSON does, and the schema."""
    as_int = BeforeValidator(lambda value: int(value) if isinstance(value, float) and value.is_integer() else value)
    return as_int, _number(low, high, "integer")


def _required(names: Sequence[str]) -> list[Any]:
    return [{"required": [name]} for name in names]


def _also(*schemas: Any) -> ConfigDict:
    """Return the config of a model whose values must also match one of the given schemas.

    The `allOf` is for generators of types, which read an `anyOf` beside `properties` as an alternative to them.
    """
    return ConfigDict(json_schema_extra={"allOf": [{"anyOf": list(schemas)}]})


def _omittable(description: str) -> Any:
    """Return a field that is optional but cannot be null."""
    return Field(default_factory=lambda: None, description=description)


_NAME: Final = _text(minLength=1, maxLength=NAME_LIMIT, pattern=_PRINTABLE)
Name = Annotated[str, _NAME]
Text = Annotated[str, _text(minLength=1, pattern=r"^[^\x00]*[^\s\x00][^\x00]*$")]
Id = Annotated[str, _text(pattern="^([0-9a-f]{32}|[0-9a-f]{8})$")]
Cursor = Annotated[str, _text(pattern="^[0-9a-f]{32}$")]
ChangeCursor = Annotated[str, _text(pattern="^(-[0-9]{1,16}|[0-9]{1,17})_[0-9a-f]{32}_[0-9]{1,18}$")]
Change = Annotated[str, _text(enum=list(CHANGES))]
Instant = Annotated[
    str,
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "format": "date-time"},
                {"type": "string", "format": "date"},
                {"type": "string", "pattern": INSTANT_PATTERN},
            ],
            "examples": ["2026-05-01T09:30:00Z", "2026-05-01", "2026-05", "yesterday", "last week", "2d"],
        }
    ),
]
Seconds = Annotated[float, _number(0, 1e14)]
Tier = Annotated[str, _text(enum=list(TIERS))]
Level = Annotated[str, _text(enum=list(SCOPE_LEVELS))]
Fraction = Annotated[float, _number(0, 1)]
Weight = Annotated[float, _number(0.1, 1)]
MinScore = Annotated[float, _number(0, 100)]
Limit = Annotated[int, *_whole(0, 1000)]
Milliseconds = Annotated[float, _number(0, 3_600_000)]
Metadata = Annotated[
    dict[str, Any],
    WithJsonSchema({"type": "object", "propertyNames": _NAME.json_schema, "additionalProperties": True}),
]
Utterance = Annotated[str, _text(pattern=r"^[^\x00]*$")]
Weights = Annotated[
    dict[str, float], WithJsonSchema({"type": "object", "additionalProperties": _number(0, 100).json_schema})
]
Version = Annotated[int, *_whole(1, 2**31 - 1)]
Ttl = Annotated[
    float | str,
    WithJsonSchema(
        {
            "anyOf": [
                _number(DURATION_LEAST, DURATION_LIMIT).json_schema,
                {"type": "string", "pattern": rf"^\s*{DURATION_PATTERN}\s*$"},
            ],
            "examples": ["24h", "7d", "2w", 3600],
        }
    ),
]


class VerbRequest(BaseModel):
    """Base of all requests; rejects unknown names and coerces no types."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    def arguments(self) -> dict[str, Any]:
        """Return the arguments that were given, by name."""
        return {name: getattr(self, name) for name in self.__class__.model_fields if name in self.model_fields_set}


class CallerScope(VerbRequest):
    """The caller's scope; `*` matches every value of a coordinate."""

    environment: Name = Field("default", description="exact match; * for any")
    project: Name | None = Field(None, description="the project; memories without one are shared by all")
    user_id: Name | None = Field(None, description="the user; memories without one are shared by all")
    agent_id: Name | None = Field(None, description="the agent; memories without one are shared by all")


class FullScope(CallerScope):
    """The caller's scope, the session and mememory's scope level."""

    session_id: Name | None = Field(None, description="the session: orders turns, hides nothing")
    scope: Level | None = Field(
        None, description="`global`: memories without a project; `project`: memories of the project"
    )


class DraftFields(VerbRequest):
    """The fields of a memory to store."""

    content: Text = Field(description="the text")
    kind: Name = Field("fact", description=f"one of {', '.join(KINDS)}, or a name of your own")
    importance: Fraction | None = Field(None, description="default: estimated from the text")
    weight: Weight = Field(1.0, description="confidence")
    tags: list[Name] = Field([], description="names to filter by")
    entities: list[Name] | None = Field(None, description="named entities; default: extracted from the text")
    fact_key: Name | None = Field(None, description="identity of the fact, such as user.theme; default: extracted")
    supersedes: Id | None = Field(None, description="id of the memory that this one replaces")
    ttl: Ttl | None = Field(None, description="time to live: seconds, 24h, 7d, 2w")
    tier: Tier = Field("episodic", description="initial tier")
    metadata: Metadata = Field({}, description="custom values, returned unchanged")
    key: Name | None = Field(None, description="idempotency key: a retry under it returns the first receipt")
    created_at: Instant | None = Field(None, description="creation time (2026-05-01, yesterday, 2d); default: now")
    duplicate: bool = Field(False, description="store it even if a current memory has the same text")


class Remember(DraftFields, FullScope):
    """Store one memory."""

    memory_type: Tier | None = Field(None, description="synonym of `tier`")


class DraftLine(DraftFields, CallerScope):
    """One of several memories; its coordinates take precedence over those of the request."""

    session_id: Name | None = None
    speaker: Name | None = Field(None, description="name of the speaker")


class RememberMany(FullScope):
    """Store several memories, all or none."""

    drafts: list[DraftLine] = Field(description="the memories, in order")


class MessagePart(BaseModel):
    """A part of a message; only text parts are stored."""

    model_config = ConfigDict(extra="allow", strict=True)

    type: str = "text"
    text: Utterance | None = None


class Message(BaseModel):
    """A turn of a conversation in the form of chat APIs; other fields are ignored."""

    model_config = ConfigDict(extra="allow", strict=True)

    content: Utterance | list[MessagePart] | None = Field(None, description="the text; required except in tool calls")
    text: Utterance | list[MessagePart] | None = Field(None, description="synonym of `content`")
    role: Name | None = Field(None, description="user, assistant, ...")
    speaker: Name | None = Field(None, description="name of the speaker, if known")
    name: Name | None = Field(None, description="synonym of `speaker`")
    timestamp: Instant | Seconds | None = Field(None, description="ISO 8601, or seconds since 1970")
    metadata: Metadata | None = None
    key: Name | None = Field(None, description="idempotency key")


class Ingest(FullScope):
    """Store a conversation turn by turn."""

    model_config = ConfigDict(json_schema_extra={"required": ["session_id", "messages"]})

    session_id: Annotated[str | None, _NAME] = Field(None, description="the session that the messages belong to")
    messages: list[Message] = Field(description="the turns, in order")


class Update(FullScope):
    """Change a memory; omitted fields stay."""

    model_config = _also(*_required(_CHANGEABLE))

    id: Id
    content: Text = _omittable("the text")
    kind: Name = _omittable("the kind")
    importance: Fraction = _omittable("the importance")
    weight: Weight = _omittable("confidence")
    tags: list[Name] = _omittable("all tags")
    entities: list[Name] = _omittable("all entities; default: extracted again if the content changes")
    fact_key: Name | None = _omittable("identity of the fact; null for none")
    supersedes: Id | None = _omittable("id of an older memory that this one replaces; null for none")
    ttl: Ttl | None = _omittable("time to live from now; null for no limit")
    tier: Tier = _omittable("the new tier")
    metadata: Metadata = _omittable("all metadata")
    reason: Name | None = Field(None, description="reason for the change, for the history")
    if_version: Version | None = Field(None, description="refused unless the memory has this version")
    key: Name | None = Field(None, description="idempotency key")


class MemoryId(FullScope):
    """A memory by its id."""

    id: Id = Field(description="whole, or its last 8 characters")


class Forget(MemoryId):
    """Remove a memory from every recall."""

    reason: Name | None = None
    if_version: Version | None = None
    key: Name | None = None


class Restore(MemoryId):
    """Restore an older version, or a forgotten memory."""

    version: Version | None = None
    reason: Name | None = None
    key: Name | None = None


class ProfileText(VerbRequest):
    """A custom profile."""

    toml: Text = Field(description="TOML, as described in docs/how-to/own-profile.md")


class Filtered(FullScope):
    """Filters on memories."""

    tags: list[Name] = Field([], description="only memories with all of these tags")
    kinds: list[Name] = Field([], description="only memories of these kinds")
    tiers: list[Tier] = Field([], description="only memories in these tiers")
    sessions: list[Name] = Field([], description="only memories of these sessions")
    since: Instant | None = Field(None, description="earliest created_at, inclusive")
    until: Instant | None = Field(None, description="latest created_at, exclusive")


class Ranked(FullScope):
    """Ranking options."""

    limit: Limit | None = Field(None, description="maximum number of hits; default: the profile's")
    profile: Name | ProfileText | None = Field(None, description="ranking profile: its name or its text")
    now: Instant | None = Field(None, description="time of the query")


class Question(Ranked):
    """A query and its ranking options."""

    query: Text = Field(description="the query, in words")


class RecallOptions(Ranked, Filtered):
    """Options of a recall."""

    min_score: MinScore | None = Field(None, description="minimum score, on the profile's scale")
    dry_run: bool = Field(False, description="do not update counters")
    as_of: Instant | None = Field(None, description="answer as of this time (2026-05-01, 2d)")
    deadline_ms: Milliseconds | None = Field(None, description="deadline, milliseconds")
    weights: Weights | None = Field(None, description="weights of signals that override the profile's, by label")


class Recall(Question, RecallOptions):
    """Recall memories for a query."""


class RecallMany(RecallOptions):
    """Recall memories for each of several queries."""

    queries: list[Text] = Field(description=f"the queries, in words: up to {QUERIES_LIMIT}")


class GraphRecall(Question):
    """Recall by similarity and by distance to the entities in the query."""

    graph_weight: Fraction | None = None
    max_hops: Annotated[int, *_whole(0, 10)] | None = None
    tags: list[Name] = []
    dry_run: bool = False


class Explain(Question, Filtered):
    """Explain why a memory is, or is not, in the answer to a query."""

    memory_id: Id = Field(description="whole, or its last 8 characters")
    min_score: MinScore | None = None
    as_of: Instant | None = None
    deadline_ms: Milliseconds | None = None
    weights: Weights | None = None


class Context(Question):
    """Pack the memories for a query into a prompt."""

    budget_tokens: Annotated[int, *_whole(0, 10_000_000)] = 2000
    min_score: MinScore | None = None
    tags: list[Name] = []
    dry_run: bool = False


class Listing(Filtered):
    """List memories in the order they were stored."""

    fact_keys: list[Name] = Field([], description="only memories of these facts, by their fact_key")
    limit: Annotated[int, *_whole(1, 1000)] = 100
    cursor: Cursor | None = Field(None, description="cursor of the previous page")


class Dismiss(FullScope):
    """Undo the relation of two memories, and keep a problem out of the review."""

    id: Id
    other_id: Id | None = Field(None, description="the other memory of the pair; none for a stale reflection")
    undo: bool = Field(False, description="decide the relation again, and show the problem again")
    reason: Name | None = Field(None, description="reason for the change, for the history")


class Review(FullScope):
    """List problems that a person should look at."""

    id: Id | None = Field(None, description="only problems of this memory")
    limit: Annotated[int, *_whole(1, 1000)] = 20
    cursor: Cursor | None = Field(None, description="cursor of the previous page")


class Period(FullScope):
    """A period of changes."""

    since: Instant | None = Field(None, description="earliest time of a change, inclusive")
    until: Instant | None = Field(None, description="latest time of a change, exclusive")


class Changes(Period):
    """List the changes of memories, newest first."""

    change: Change | None = Field(None, description="only this change")
    changed_by: Name | None = Field(None, description="only by this author: agent:NAME, user:NAME or upkeep")
    limit: Annotated[int, *_whole(1, 1000)] = 50
    cursor: ChangeCursor | None = Field(None, description="cursor of the previous page")


class Activity(Period):
    """Count what happened on each day."""


class Recalls(CallerScope):
    """List the recall log, newest first."""

    session_id: Name | None = Field(None, description="only recalls of this session")
    query: Text | None = Field(None, description="a part of the question")
    id: Cursor | None = Field(None, description="only this entry")
    memory_id: Id | None = Field(None, description="only recalls that returned this memory")
    limit: Annotated[int, *_whole(1, 1000)] = 100
    cursor: Cursor | None = Field(None, description="cursor of the previous page")


class EndSession(CallerScope):
    """End a session."""

    session_id: Name


class Consolidate(CallerScope):
    """Promote memories to the tiers that they qualify for."""

    dry_run: bool = False


class Erase(FullScope):
    """Delete memories for good."""

    model_config = _also(
        {"required": ["ids"], "properties": {"ids": {"type": "array"}}},
        *(
            {**one, "properties": {name: {"type": "string"} for name in _ERASE_SCOPE}}
            for one in _required(_ERASE_SCOPE)
        ),
    )

    ids: list[Id] | None = Field(None, description="the memories; default: all memories in the scope")
    dry_run: bool = Field(False, description="count without deleting")


class Upkeep(VerbRequest):
    """Run all maintenance that is due."""

    dry_run: bool = False


class Topic(VerbRequest):
    """A help topic."""

    topic: Name | None = None


class ScopeOnly(FullScope):
    """A scope and nothing else."""


class Import(FullScope):
    """Store lines of JSON, or another system's export."""

    source: Name | None = Field(None, description="the other system whose export it is; default: lines of JSON")
    on_error: Literal["stop", "skip"] = Field("stop", description="for an invalid line: store nothing, or skip it")
    dry_run: bool = Field(False, description="check everything, and count without storing")


R = TypeVar("R", bound=VerbRequest)
_TYPE_NAMES: Final = ((bool, "true or false"), (str, "text"), (int, "a number"), (float, "a number"), (list, "a list"),
                      (dict, "an object"), (NoneType, "null"))  # fmt: skip
_REMEDIES: Final = {
    "string_type": "Give text.", "int_type": "Give a whole number.", "float_type": "Give a number.",
    "bool_type": "Give true or false.", "list_type": "Give a list.", "dict_type": "Give an object.",
    "model_type": "Give an object.",
}  # fmt: skip
"""Remedies by pydantic's error type."""
_NESTED: Final[Mapping[int | str, type[VerbRequest]]] = {"drafts": DraftLine, "profile": ProfileText}
"""Models inside others that reject unknown names, by field."""


def parse(model: type[R], arguments: Mapping[str, Any]) -> R:
    """Return arguments as a request.

    Raises:
        InputError: a wrong type or an unknown name; names the first wrong field and never shows its value.
    """
    try:
        return model.model_validate(arguments, strict=True)
    except ValidationError as error:
        found = error.errors(include_url=False, include_context=False)
        first = _path(found[0]["loc"])
        # A union reports an error per member; the deepest one belongs to the member that the caller meant.
        same_field = (one for one in found if _path(one["loc"]).startswith(first))
        deepest = max(same_field, key=lambda one: len(_path(one["loc"])))
        path, kind = _path(deepest["loc"]), deepest["type"]
        if kind == "extra_forbidden":
            *parents, name = deepest["loc"]
            owner = _NESTED.get(parents[0], model) if parents else model
            raise unknown_field(str(name), tuple(owner.model_fields), _path(parents)) from None
        if kind == "missing":
            raise InputError(path, None, "Give a value.") from None
        remedy = _REMEDIES.get(kind) or deepest["msg"].replace("Input should be", "Give") + "."
        raise InputError(path or "body", type_name(deepest["input"]), remedy) from None


def type_name(value: object) -> Words:
    """Return the type of a JSON value, such as `a number` or `an object`."""
    return Words(next((words for kind, words in _TYPE_NAMES if isinstance(value, kind)), type(value).__name__))


def _path(location: Sequence[int | str]) -> str:
    """Return a location as `drafts[0].content`, without pydantic's names of union members."""
    names = [item for item in location if isinstance(item, int) or item in _FIELDS]
    return "".join(f"[{item}]" if isinstance(item, int) else f".{item}" for item in names).removeprefix(".")


_MODELS: Final = [one for one in list(vars().values()) if isinstance(one, type) and issubclass(one, BaseModel)]
_FIELDS: Final = {name for model in _MODELS for name in model.model_fields}
"""Names of all fields of all requests."""
