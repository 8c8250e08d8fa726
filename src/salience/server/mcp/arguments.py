"""From what a model gives to a request: names, shapes, defaults; each refusal names the argument."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from salience.errors import InputError, Words, unknown_field
from salience.wire.requests import VerbRequest, parse


def request(
    asks: type[VerbRequest],
    names: Iterable[str],
    synonyms: Mapping[str, str],
    defaults: Mapping[str, str],
    given: Mapping[str, Any],
) -> VerbRequest:
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
            raise unknown_field(name, known)
    meant = {**given}
    for other, name in synonyms.items():
        if other in given and name in given:
            raise InputError(
                other,
                Words(f"{other} beside {name}"),
                f"Give {name} alone.",
                f"is another word for {name}, which is given too",
            )
        if other in given:
            meant[name] = meant.pop(other)
    everywhere = meant.get("scope") == "global"  # asks for what belongs to no project
    held = {
        name: value
        for name, value in defaults.items()
        if name in asks.model_fields and not (everywhere and name == "project")
    }
    return parse(asks, {**held, **meant})
