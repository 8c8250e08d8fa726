"""Requests: a pydantic model of each verb, made from its arguments.

Requests check names and types. The engine checks values, so its errors are the same with and without a server; the JSON
schemas state both.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import NoneType
from typing import Annotated, Any, Final, TypeVar, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, WithJsonSchema, create_model

from salience.arguments import INSTANT, METADATA, NAME, TEXT, Argument, Json
from salience.errors import InputError, Words, unknown_field
from salience.records import Unset, Wildcard


class VerbRequest(BaseModel):
    """Base of all requests; rejects unknown names and coerces no types."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    def arguments(self) -> dict[str, Any]:
        """Return the arguments that were given, by name."""
        return {name: getattr(self, name) for name in self.__class__.model_fields if name in self.model_fields_set}


def request(
    name: str,
    about: str,
    arguments: Iterable[Argument],
    schema: Mapping[str, Any] | None = None,
    models: Mapping[str, type[BaseModel]] = {},
) -> type[VerbRequest]:
    """Return the model of a request with these arguments, but those that cannot be sent.

    Args:
        name: of the model.
        about: its docstring.
        arguments: its fields.
        schema: joins the schema of the model.
        models: models that fields name, besides those of this module.
    """
    fields: dict[str, Any] = {}
    for one in arguments:
        if one.json is not None:
            kind, default = _type(one.json, {**MODELS, **models}), one.default
            if one.is_required:
                made = Field(description=one.description)
            elif isinstance(default, Unset | Wildcard) or (default is None and not one.nullable):
                made = Field(default_factory=lambda: None, description=one.description)  # optional, but never null
            else:
                plain = one.json.type(default) if one.json.type in (list, dict) and default is not None else default
                made = Field(plain, description=one.description)
            fields[one.name] = (kind | None if one.nullable else kind, made)
    if schema is None:
        return create_model(name, __base__=VerbRequest, __doc__=about, **fields)
    base: Any = type("Request", (VerbRequest,), {"model_config": ConfigDict(json_schema_extra=dict(schema))})
    made_with: type[VerbRequest] = create_model(name, __base__=base, __doc__=about, **fields)
    return made_with


def _type(one: Json, models: Mapping[str, type[BaseModel]]) -> Any:
    """Return the type of a field. JSON has one type of number, so 2.0 is accepted as 2."""
    if one.model is not None:
        model: Any = models[one.model]
        return list[model] if one.type is list else Annotated[one.type, WithJsonSchema(dict(one.schema))] | model
    if one.items is not None:
        items: Any = _type(one.items, models)
        return list[items]
    marks = [WithJsonSchema(dict(one.schema))] if one.schema else []
    if one.type is int:
        return Annotated[int, BeforeValidator(_as_int), *marks]
    return Annotated[one.type, *marks] if marks else one.type


def _as_int(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value


Name = Annotated[str, WithJsonSchema(dict(NAME.schema))]
Text = Annotated[str, WithJsonSchema(dict(TEXT.schema))]
Instant = Annotated[str, WithJsonSchema(dict(INSTANT.schema))]
Metadata = Annotated[dict[str, Any], WithJsonSchema(dict(METADATA.schema))]
Seconds = Annotated[float, WithJsonSchema({"type": "number", "minimum": 0, "maximum": 1e14})]
Utterance = Annotated[str, WithJsonSchema({"type": "string", "pattern": r"^[^\x00]*$"})]


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


MODELS: Final[Mapping[str, type[BaseModel]]] = {"Message": Message, "ProfileText": ProfileText}
"""Models that arguments name."""
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
