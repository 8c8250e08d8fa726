"""From what a model gives to a request: names, shapes, defaults; each refusal names the argument."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from pydantic import ValidationError

from salience.errors import InputError, Words
from salience.wire.asked import Asked

_SHAPES: Final[Mapping[type, str]] = {
    str: "text",
    bool: "true or false",
    int: "a number",
    float: "a number",
    list: "a list",
    dict: "an object",
    type(None): "null",
}
"""Type of a JSON value -> what an error calls it; the value itself may be a user's text."""


def request(
    asks: type[Asked],
    names: Iterable[str],
    synonyms: Mapping[str, str],
    defaults: Mapping[str, str],
    given: Mapping[str, Any],
) -> Asked:
    """Return the request that arguments make.

    Args:
        asks: the kind of the request.
        names: arguments that there are.
        synonyms: another name of an argument -> its name.
        defaults: values of coordinates that are not given.
        given: the arguments.

    Raises:
        InputError: an argument that there is not, that is missing, or of another shape.
    """
    known = (*names, *synonyms)
    for name in given:
        if name not in known:
            raise InputError("arguments", name, f"Give any of: {', '.join(known)}.")
    meant = {**given}
    for other, name in synonyms.items():
        if other in given and name in given:
            raise InputError(other, Words(f"{other} beside {name}"), f"Give {name} alone: they are the same.")
        if other in given:
            meant[name] = meant.pop(other)
    everywhere = meant.get("scope") == "global"  # asks for what belongs to no project
    held = {
        name: value
        for name, value in defaults.items()
        if name in asks.model_fields and not (everywhere and name == "project")
    }
    try:
        return asks.model_validate({**held, **meant})
    except ValidationError as error:
        raise refusal(error) from None


def refusal(error: ValidationError) -> InputError:
    """Return the first thing that is wrong with a request; of what was given, its shape alone."""
    first = error.errors(include_url=False)[0]
    path = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in first["loc"]).removeprefix(".")
    match first["type"]:
        case "missing":
            return InputError(path, Words("nothing"), "It has to be given.")
        case "extra_forbidden":
            return InputError(path, Words("an unknown name"), "Leave it out.")
    shape = _SHAPES.get(type(first["input"]), type(first["input"]).__name__)
    return InputError(path, Words(shape), f"{first['msg']}.")
