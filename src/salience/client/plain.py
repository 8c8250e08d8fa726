"""Arguments as JSON values: what the engine takes and JSON has no form for is brought into one, or refused."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from enum import Enum
from numbers import Integral, Real
from typing import Any, Final

from salience.errors import InputError, Words, wrong_type
from salience.rank.profiles import NAMES as PROFILES
from salience.rank.profiles import ProfileLike, source
from salience.rank.profiles import load as loaded
from salience.records import Draft, Scope, checks
from salience.wire.told import values

_COORDINATES: Final = tuple(item.name for item in fields(Scope) if item.name != "tenant")
_TURN: Final = {"content": "content", "speaker": "speaker", "created_at": "timestamp", "metadata": "metadata",
                "key": "key"}  # fmt: skip
"""Fields of a draft that a turn has -> their names in a message."""


def plain(field: str, value: object) -> Any:
    """Return an argument as a JSON value.

    Raises:
        InputError: it has no form in JSON; names the argument, or the place in it.
    """
    match value:
        case None | bool() | Enum():
            return values(value)
        case str():
            return checks.text(field, value) if value.strip() else value
        case Integral():
            return int(_of_size(field, value))
        case Real():
            return _finite(field, value)
        case bytes():
            raise wrong_type(field, value, "Give text (str).")
        case Mapping():
            return {str(name): plain(f"{field}.{name}", item) for name, item in value.items()}
        case Iterable():
            return [plain(f"{field}[{place}]", item) for place, item in enumerate(value)]
    try:
        return values(value)
    except InputError as error:
        raise error.at(field) from None


def _of_size(field: str, value: Integral) -> Integral:
    if not -(2**63) <= int(value) < 2**63:
        raise InputError(field, value, "Give a number of at most 63 bits.")
    return value


def _finite(field: str, value: Real) -> float:
    if not math.isfinite(value):
        raise InputError(field, value, "Give a finite number.")
    return float(value)


def profile(chosen: ProfileLike) -> str | dict[str, str]:
    """Return a profile as a request holds it: the name of one that ships, or else the text of its TOML.

    Raises:
        ProfileError: there is no such profile.
        InputError: it has no text, since it was changed after it was read.
    """
    if isinstance(chosen, str) and chosen in PROFILES:
        return chosen
    ranking = loaded(chosen)
    if ranking.toml is None:
        remedy = "Give its name or the path of its TOML, and with a recall weights=."
        raise InputError("profile", Words("a profile that was changed here"), remedy, "was changed after it was read")
    if ranking.name in PROFILES and ranking.toml == source(ranking.name):
        return ranking.name
    return {"toml": ranking.toml}


def draft(given: Draft) -> dict[str, Any]:
    """Return the fields that a draft was given, without its scope and those that are None."""
    said = {item.name: getattr(given, item.name) for item in fields(Draft) if item.name in given.given - {"scope"}}
    return values({name: value for name, value in said.items() if value is not None})  # type: ignore[no-any-return]


def turn(given: Draft) -> dict[str, Any]:
    """Return what a draft says as the message that it was."""
    return values({name: getattr(given, field) for field, name in _TURN.items() if getattr(given, field)})  # type: ignore[no-any-return]


def at_home(drafts: Iterable[Draft], home: Scope) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return the coordinates that hold for all drafts of a call, and each draft with those that it has otherwise.

    A line cannot take back a coordinate of the call; one that some draft has not is named by the others themselves.
    """
    given = list(drafts)
    homes = [replace(item.scope or home, tenant=home.tenant).as_home().as_dict() for item in given]
    shared = {name: value for name, value in home.as_dict().items() if all(name in one for one in homes)}
    lines = [
        draft(item) | {name: one[name] for name in _COORDINATES if name in one and one[name] != shared.get(name)}
        for item, one in zip(given, homes, strict=True)
    ]
    return shared, lines
