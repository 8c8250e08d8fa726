"""JSON types of arguments, and the base of the requests that `arguments` makes of the verbs' signatures.

Requests check names and types. The engine checks values, so its errors are the same with and without a server; the JSON
schemas state both.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import NoneType
from typing import Annotated, Any, Final, TypeVar, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, WithJsonSchema

from salience.errors import InputError, Words, unknown_field
from salience.records import CHANGES, SCOPE_LEVELS, TIERS
from salience.records.checks import DURATION_LEAST, DURATION_LIMIT, DURATION_PATTERN, INSTANT_PATTERN, NAME_LIMIT

_PRINTABLE: Final = r"^[^\x00-\x1f\x7f-\x9f]*[^\s\x00-\x1f\x7f-\x9f][^\x00-\x1f\x7f-\x9f]*$"
QUERIES_LIMIT: Final = 32
"""Maximum number of queries in one request."""


def _text(**schema: Any) -> WithJsonSchema:
    return WithJsonSchema({"type": "string", **schema})


def number(low: float, high: float, kind: str = "number") -> WithJsonSchema:
    """Return the schema of a number in [low, high]."""
    return WithJsonSchema({"type": kind, "minimum": low, "maximum": high})


def whole(low: int, high: int) -> tuple[BeforeValidator, WithJsonSchema]:
    """Return a validator that accepts 2.0 as 2, as JSON does, and the schema of a whole number in [low, high]."""
    as_int = BeforeValidator(lambda value: int(value) if isinstance(value, float) and value.is_integer() else value)
    return as_int, number(low, high, "integer")


_NAME: Final = _text(minLength=1, maxLength=NAME_LIMIT, pattern=_PRINTABLE)
Name = Annotated[str, _NAME]
Text = Annotated[str, _text(minLength=1, pattern=r"^[^\x00]*[^\s\x00][^\x00]*$")]
Id = Annotated[str, _text(pattern="^([0-9a-f]{32}|[0-9a-f]{8})$")]
Cursor = Annotated[str, _text(pattern="^[0-9a-f]{32}$")]
ChangeCursor = Annotated[str, _text(pattern="^(-[0-9]{1,16}|[0-9]{1,17})_[0-9a-f]{32}_[0-9]{1,18}$")]
Change = Annotated[str, _text(enum=list(CHANGES))]
Tier = Annotated[str, _text(enum=list(TIERS))]
Level = Annotated[str, _text(enum=list(SCOPE_LEVELS))]
OnError = Annotated[str, _text(enum=["stop", "skip"])]
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
Seconds = Annotated[float, number(0, 1e14)]
Fraction = Annotated[float, number(0, 1)]
Weight = Annotated[float, number(0.1, 1)]
MinScore = Annotated[float, number(0, 100)]
Milliseconds = Annotated[float, number(0, 3_600_000)]
Metadata = Annotated[
    dict[str, Any],
    WithJsonSchema({"type": "object", "propertyNames": _NAME.json_schema, "additionalProperties": True}),
]
Utterance = Annotated[str, _text(pattern=r"^[^\x00]*$")]
Weights = Annotated[
    dict[str, float], WithJsonSchema({"type": "object", "additionalProperties": number(0, 100).json_schema})
]
Version = Annotated[int, *whole(1, 2**31 - 1)]
Ttl = Annotated[
    float | str,
    WithJsonSchema(
        {
            "anyOf": [
                number(DURATION_LEAST, DURATION_LIMIT).json_schema,
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


class ProfileText(VerbRequest):
    """A custom profile."""

    toml: Text = Field(description="TOML, as described in docs/how-to/own-profile.md")


R = TypeVar("R", bound=VerbRequest)
_TYPE_NAMES: Final = ((bool, "true or false"), (str, "text"), (int, "a number"), (float, "a number"), (list, "a list"),
                      (dict, "an object"), (NoneType, "null"))  # fmt: skip
_REMEDIES: Final = {
    "string_type": "Give text.", "int_type": "Give a whole number.", "float_type": "Give a number.",
    "bool_type": "Give true or false.", "list_type": "Give a list.", "dict_type": "Give an object.",
    "model_type": "Give an object.",
}  # fmt: skip
"""Remedies by pydantic's error type."""


def parse(model: type[R], arguments: Mapping[str, Any]) -> R:
    """Return arguments as a request.

    Raises:
        InputError: a wrong type or an unknown name; names the first wrong field and never shows its value.
    """
    try:
        return model.model_validate(arguments, strict=True)
    except ValidationError as error:
        models: list[type[BaseModel]] = [model, *_models_in(model)]
        names = {name for one in models for name in one.model_fields}

        def path(location: Sequence[int | str]) -> str:  # without pydantic's names of union members
            known = [item for item in location if isinstance(item, int) or item in names]
            return "".join(f"[{item}]" if isinstance(item, int) else f".{item}" for item in known).removeprefix(".")

        found = error.errors(include_url=False, include_context=False)
        first = path(found[0]["loc"])
        # A union reports an error per member; the deepest one belongs to the member that the caller meant.
        same_field = (one for one in found if path(one["loc"]).startswith(first))
        deepest = max(same_field, key=lambda one: len(path(one["loc"])))
        field, kind = path(deepest["loc"]), deepest["type"]
        if kind == "extra_forbidden":
            *parents, name = deepest["loc"]
            nested = _models_in(model.model_fields[str(parents[0])].annotation) if parents else ()
            owner = next(iter(nested), model)
            raise unknown_field(str(name), tuple(owner.model_fields), path(parents)) from None
        if kind == "missing":
            raise InputError(field, None, "Give a value.") from None
        remedy = _REMEDIES.get(kind) or deepest["msg"].replace("Input should be", "Give") + "."
        raise InputError(field or "body", type_name(deepest["input"]), remedy) from None


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    """Yield the models inside a type; of a model, those of its fields."""
    inside = get_args(annotation)
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        inside = tuple(field.annotation for field in annotation.model_fields.values())
    for one in inside:
        if isinstance(one, type) and issubclass(one, BaseModel):
            yield one
        yield from _models_in(one)


def type_name(value: object) -> Words:
    """Return the type of a JSON value, such as `a number` or `an object`."""
    return Words(next((words for kind, words in _TYPE_NAMES if isinstance(value, kind)), type(value).__name__))
