"""What a request holds: the arguments of each verb, under the engine's names.

A model takes what has the right shape, and refuses names that it does not know. Whether a value can be accepted, the
engine says, so that its errors are the same here and there; the schemas state both.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

from salience.records import KINDS, SCOPE_LEVELS, TIERS
from salience.records.checks import NAME_LIMIT, TTL_LEAST, TTL_LIMIT

_NAMED: Final = r"^[^\x00-\x1f\x7f-\x9f]*[^\s\x00-\x1f\x7f-\x9f][^\x00-\x1f\x7f-\x9f]*$"


CHANGED: Final = ("content", "kind", "importance", "weight", "tags", "entities", "fact_key", "ttl", "tier", "metadata")
"""What of a memory can be changed; a change names at least one."""
NAMED: Final = ("project", "user_id", "agent_id", "session_id")
"""What says whose memories are meant where they themselves are not named."""
QUESTIONS_LIMIT: Final = 32
"""Most questions of one request."""


def _text(**schema: Any) -> WithJsonSchema:
    return WithJsonSchema({"type": "string", **schema})


def _number(low: float, high: float, kind: str = "number") -> WithJsonSchema:
    return WithJsonSchema({"type": kind, "minimum": low, "maximum": high})


def _whole(low: int, high: int) -> tuple[BeforeValidator, WithJsonSchema]:
    """Return what makes a whole number of one that is written as 2.0, which to JSON is the same, and its schema."""
    return BeforeValidator(_integral), _number(low, high, "integer")


def _integral(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _together(**schema: Any) -> ConfigDict:
    """Return what a schema states of several arguments at once, which no type does."""
    return ConfigDict(json_schema_extra=schema)


def _one_of(*names: str) -> list[dict[str, Any]]:
    return [{"required": [name]} for name in names]


def _left(description: str) -> Any:
    """Return a field that may be left out and has no value then; null is none of its values."""
    return Field(default_factory=lambda: None, description=description)


_NAME: Final = _text(minLength=1, maxLength=NAME_LIMIT, pattern=_NAMED)
Name = Annotated[str, _NAME]
Text = Annotated[str, _text(minLength=1, pattern=r"^[^\x00]*[^\s\x00][^\x00]*$")]
Id = Annotated[str, _text(pattern="^([0-9a-f]{32}|[0-9a-f]{8})$")]
Cursor = Annotated[str, _text(pattern="^[0-9a-f]{32}$")]
Instant = Annotated[str, _text(format="date-time")]
Seconds = Annotated[float, _number(0, 1e14)]
Tier = Annotated[str, _text(enum=list(TIERS))]
Level = Annotated[str, _text(enum=list(SCOPE_LEVELS))]
Share = Annotated[float, _number(0, 1)]
Weight = Annotated[float, _number(0.1, 1)]
Least = Annotated[float, _number(0, 100)]
Limit = Annotated[int, *_whole(0, 1000)]
Milliseconds = Annotated[float, _number(0, 3_600_000)]
Metadata = Annotated[dict[str, Any], WithJsonSchema({"type": "object", "propertyNames": _NAME.json_schema})]
Said = Annotated[str, _text(pattern=r"^[^\x00]*$")]
Weights = Annotated[
    dict[str, float], WithJsonSchema({"type": "object", "additionalProperties": _number(0, 100).json_schema})
]
Version = Annotated[int, *_whole(1, 2**31 - 1)]
Ttl = Annotated[
    float | str,
    WithJsonSchema(
        {
            "anyOf": [
                _number(TTL_LEAST, TTL_LIMIT).json_schema,
                {"type": "string", "pattern": r"^\s*[0-9]+(\.[0-9]+)?\s*[smhdwSMHDW]?\s*$"},
            ],
            "examples": ["24h", "7d", 3600],
        }
    ),
]


class Asked(BaseModel):
    """What every request is: nothing but names that are known, with values of their types."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    def arguments(self) -> dict[str, Any]:
        """Return what was given, by the names of the verb's parameters."""
        return {name: getattr(self, name) for name in self.__class__.model_fields if name in self.model_fields_set}


class Where(Asked):
    """Who asks, or where a memory lives; `*` asks for every value of a coordinate."""

    environment: Name = Field("default", description="matches exactly; * for any")
    project: Name | None = Field(None, description="the project; memories of none are shared by all")
    user_id: Name | None = Field(None, description="the user; memories of none are shared by all")
    agent_id: Name | None = Field(None, description="the agent; memories of none are shared by all")


class Whereabouts(Where):
    """The same, with the session, and mememory's level of scope."""

    session_id: Name | None = Field(None, description="the session: orders turns, hides nothing")
    scope: Level | None = Field(None, description="`global`: memories of no project; `project`: those of the project")


class Remembered(Asked):
    """A memory that is to be stored."""

    content: Text = Field(description="the text, as it is to be recalled")
    kind: Name = Field("fact", description=f"one of {', '.join(KINDS)}, or a name of your own")
    importance: Share | None = Field(None, description="without it, read from the text")
    weight: Weight = Field(1.0, description="confidence")
    tags: list[Name] = Field([], description="names to filter by")
    entities: list[Name] | None = Field(None, description="who and what it names; without it, read from the text")
    fact_key: Name | None = Field(None, description="identity of the fact, such as user.theme; without it, read")
    supersedes: Id | None = Field(None, description="id of the memory that this one replaces")
    ttl: Ttl | None = Field(None, description="time to live: seconds, 24h, 7d")
    tier: Tier = Field("episodic", description="where it starts")
    metadata: Metadata = Field({}, description="values of your own, given back as they are")
    key: Name | None = Field(None, description="idempotency key: a retry under it returns the first receipt")
    created_at: Instant | None = Field(None, description="when it came to be; without it, now")
    duplicate: bool = Field(False, description="store it even where a current memory has the same text")


class Remember(Remembered, Whereabouts):
    """Store one memory."""

    memory_type: Tier | None = Field(None, description="another word for `tier`")


class DraftLine(Remembered, Where):
    """One of several memories, with what of its home differs from that of the request."""

    session_id: Name | None = None
    speaker: Name | None = Field(None, description="who said it")


class RememberMany(Whereabouts):
    """Store several memories, all or none."""

    drafts: list[DraftLine] = Field(description="the memories, in order")


class MessagePart(BaseModel):
    """A part of what a message says; those with a text are read."""

    model_config = ConfigDict(extra="allow", strict=True)

    type: str = "text"
    text: Said | None = None


class Message(BaseModel):
    """A turn of a conversation, as chat programs have it; what it has besides is left out."""

    model_config = ConfigDict(extra="allow", strict=True)

    content: Said | list[MessagePart] | None = Field(None, description="what was said; needed unless it calls tools")
    text: Said | list[MessagePart] | None = Field(None, description="another word for `content`")
    role: Name | None = Field(None, description="user, assistant, ...")
    speaker: Name | None = Field(None, description="who said it, where that is known by name")
    name: Name | None = Field(None, description="another word for `speaker`")
    timestamp: Instant | Seconds | None = Field(
        None, description="when: ISO 8601 with an offset, or seconds since 1970"
    )
    metadata: Metadata | None = None
    key: Name | None = Field(None, description="idempotency key")


class Ingest(Whereabouts):
    """Store a conversation turn by turn."""

    model_config = _together(required=["session_id", "messages"])

    session_id: Annotated[str | None, _NAME] = Field(None, description="the session that the messages belong to")
    messages: list[Message] = Field(description="the turns, in order")


class Update(Whereabouts):
    """Change a memory; what is not named stays."""

    model_config = _together(anyOf=_one_of(*CHANGED))

    id: Id
    content: Text = _left("the text")
    kind: Name = _left("the kind")
    importance: Share = _left("its importance")
    weight: Weight = _left("confidence")
    tags: list[Name] = _left("all of them")
    entities: list[Name] = _left("all of them; where the content is new and they are not given, they are read from it")
    fact_key: Name | None = _left("identity of the fact; null: of none")
    ttl: Ttl | None = _left("time to live from now; null: no end")
    tier: Tier = _left("where it is from now")
    metadata: Metadata = _left("all of it")
    reason: Name | None = Field(None, description="why, for the history")
    if_version: Version | None = Field(None, description="refused unless the memory is at this version")
    key: Name | None = Field(None, description="idempotency key")


class OfId(Whereabouts):
    """A memory by its id."""

    id: Id = Field(description="whole, or its last 8 characters")


class Forget(OfId):
    """Take a memory out of every recall."""

    reason: Name | None = None
    if_version: Version | None = None
    key: Name | None = None


class Restore(OfId):
    """Put an older version in place again, or bring back what was forgotten."""

    version: Version | None = None
    reason: Name | None = None
    key: Name | None = None


class ProfileText(Asked):
    """A profile of one's own."""

    toml: Text = Field(description="its TOML, as docs/profiles has it")


class Narrowed(Whereabouts):
    """What the memories have to be."""

    tags: list[Name] = Field([], description="a memory carries all of them")
    kinds: list[Name] = Field([], description="of one of them")
    tiers: list[Tier] = Field([], description="in one of them")
    sessions: list[Name] = Field([], description="of one of them")
    since: Instant | None = Field(None, description="earliest created_at, included")
    until: Instant | None = Field(None, description="latest created_at, excluded")


class Ranked(Whereabouts):
    """How memories are ranked."""

    limit: Limit | None = Field(None, description="most hits; without it, the profile's")
    profile: Name | ProfileText | None = Field(None, description="how to rank: a profile's name, or its text")
    now: Instant | None = Field(None, description="when it is asked")


class Question(Ranked):
    """A question, and the ranking that answers it."""

    query: Text = Field(description="what is asked, in words")


class Recalled(Ranked, Narrowed):
    """How memories are recalled."""

    min_score: Least | None = Field(None, description="least score, on the profile's scale")
    dry_run: bool = Field(False, description="leave every counter and clock as it is")
    as_of: Instant | None = Field(None, description="answer as it would have been then")
    deadline_ms: Milliseconds | None = Field(None, description="milliseconds that an answer may take")
    weights: Weights | None = Field(None, description="other weights of the profile's signals, by label")


class Recall(Question, Recalled):
    """Recall what answers a question."""


class RecallMany(Recalled):
    """Recall what answers each of several questions."""

    queries: list[Text] = Field(description=f"what is asked, in words: up to {QUESTIONS_LIMIT} questions")


class GraphRecall(Question):
    """Recall by likeness, and by nearness to what the question names."""

    graph_weight: Share | None = None
    max_hops: Annotated[int, *_whole(0, 10)] | None = None
    tags: list[Name] = []
    dry_run: bool = False


class Explain(Question, Narrowed):
    """Ask why a memory is, or is not, in the answer to a question."""

    memory_id: Id = Field(description="whole, or its last 8 characters")
    min_score: Least | None = None
    as_of: Instant | None = None
    deadline_ms: Milliseconds | None = None
    weights: Weights | None = None


class Context(Question):
    """Have the memories for a question packed for a prompt."""

    budget_tokens: Annotated[int, *_whole(0, 10_000_000)] = 2000
    min_score: Least | None = None
    tags: list[Name] = []
    dry_run: bool = False


class Listing(Narrowed):
    """Go through memories in the order of storing."""

    limit: Annotated[int, *_whole(1, 1000)] = 100
    cursor: Cursor | None = Field(None, description="of the page before")


class EndSession(Where):
    """End a session."""

    session_id: Name


class Consolidate(Where):
    """Move memories to the tiers that they have earned."""

    dry_run: bool = False


class Erase(Whereabouts):
    """Delete memories for good."""

    model_config = _together(
        anyOf=[
            {"required": ["ids"], "properties": {"ids": {"type": "array"}}},
            {"anyOf": _one_of(*NAMED), "properties": {name: {"type": "string"} for name in NAMED}},
        ]
    )

    ids: list[Id] | None = Field(None, description="the memories; without it, all that live in the scope")
    dry_run: bool = Field(False, description="count, and delete nothing")


class Upkeep(Asked):
    """Do all that is due."""

    dry_run: bool = False


class Topic(Asked):
    """What there is to know."""

    topic: Name | None = None


class InScope(Whereabouts):
    """What is asked of all that is in sight."""


class Import(Whereabouts):
    """Store lines of JSON."""

    on_error: Literal["stop", "skip"] = Field("stop", description="a broken line: store nothing, or leave it out")
