"""From what was given to a request; what is wrong with it is told in the names of the arguments."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import NoneType
from typing import Any, Final, TypeVar, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from salience.errors import InputError, Words, unknown_field
from salience.wire import asked

R = TypeVar("R", bound=asked.Asked)
_KINDS: Final = ((bool, "true or false"), (str, "text"), (int, "a number"), (float, "a number"), (list, "a list"),
                 (dict, "an object"), (NoneType, "null"))  # fmt: skip
_KINDS_MEANT: Final = {
    "string_type": "Give text.",
    "int_type": "Give a whole number.",
    "float_type": "Give a number.",
    "bool_type": "Give true or false.",
    "list_type": "Give a list.",
    "dict_type": "Give an object.",
    "model_type": "Give an object.",
}
"""Remedies by what pydantic found wrong."""


def shaped(asks: type[R], given: Mapping[str, Any]) -> R:
    """Return arguments as a request.

    Raises:
        InputError: another shape, or a name that is unknown; names the first one that is wrong, never what it holds.
    """
    try:
        return asks.model_validate(given, strict=True)
    except ValidationError as error:
        found = error.errors(include_url=False, include_context=False)
        first = _path(found[0]["loc"])
        # of what each member of a union has against a value, the innermost is said of the member that was meant
        raise _refused(asks, max((one for one in found if _path(one["loc"]).startswith(first)), key=_depth)) from None


def kind_of(value: object) -> Words:
    """Return what a value is called in an error, which is not to show it: `a number`, `an object`."""
    return Words(next((words for kind, words in _KINDS if isinstance(value, kind)), type(value).__name__))


def _refused(asks: type[asked.Asked], error: ErrorDetails) -> InputError:
    """Return what pydantic found wrong, under the API's names."""
    *above, last = error["loc"] or ("body",)
    match error["type"]:
        case "extra_forbidden":
            return unknown_field(str(last), tuple(_model(asks, above).model_fields), _path(above))
        case "missing":
            return InputError(_path(error["loc"]), None, "Give a value.")
    remedy = _KINDS_MEANT.get(error["type"]) or error["msg"].replace("Input should be", "Give") + "."
    return InputError(_path(error["loc"]) or "body", kind_of(error["input"]), remedy)


def _model(asks: type[BaseModel], above: Sequence[int | str]) -> type[BaseModel]:
    """Return the model of the object at a place in a request; a place is the names and numbers that lead to it."""
    model = asks
    for name in above:
        field = model.model_fields.get(name) if isinstance(name, str) else None
        if field is not None:
            model = next(_models(field.annotation), model)
    return model


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    """Yield the models that an annotation names."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in get_args(annotation):
        yield from _models(inner)


def _path(loc: Sequence[int | str]) -> str:
    """Return the place of a value, such as `drafts[0].content`; what pydantic says of a union's members is left out."""
    names = [item for item in loc if isinstance(item, int) or item in _FIELDS]
    return "".join(f"[{item}]" if isinstance(item, int) else f".{item}" for item in names).removeprefix(".")


def _depth(error: ErrorDetails) -> int:
    return len(_path(error["loc"]))


_FIELDS: Final = {
    name
    for model in vars(asked).values()
    if isinstance(model, type) and issubclass(model, BaseModel)
    for name in model.model_fields
}
"""Every name that an argument, or a part of one, can have."""
