"""Scope keywords: the keyword arguments of every verb, and the scope that they name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, Final, Literal, TypedDict

from salience.errors import InputError
from salience.records import ANY, NARROWING, SCOPE_LEVELS, Coordinate, Scope, Wildcard, checks


class CallerKeywords(TypedDict, total=False):
    """The scope keywords without the session. `scope` is mememory's scope level: `global` or `project`."""

    environment: str | Wildcard
    project: Coordinate
    user_id: Coordinate
    agent_id: Coordinate
    scope: Literal["global", "project"] | None


class ScopeKeywords(CallerKeywords, total=False):
    """The scope keywords that every verb takes."""

    session_id: str | None


NAMES: Final = (*(item.name for item in fields(Scope) if item.name != "tenant"), "scope")
"""All scope keywords; the tenant comes with the connection."""
EVERYWHERE: Final = dict.fromkeys(("environment", *NARROWING), ANY)
"""The keywords that match every value of each coordinate."""
SHORT: Final = {"environment": "env", "user_id": "user", "agent_id": "agent", "session_id": "session"}
"""Short names of coordinates for display."""


def scope(tenant: str, where: Mapping[str, object]) -> tuple[Scope, str | None]:
    """Return the scope that the keywords name, and mememory's scope level.

    Raises:
        InputError: an unknown keyword, or a value that cannot be accepted.
    """
    for name in where:
        checks.choice("keyword", name, NAMES)
    words: dict[str, Any] = {**where}
    for name in EVERYWHERE.keys() & words.keys():
        if words[name] == ANY.value:  # text may come from a user, who must not see everybody's memories by it
            raise InputError(name, ANY.value, "Name one; a call that reads takes salience.ANY for every value.")
    level = words.pop("scope", None)
    if level is not None:
        checks.choice("scope", level, SCOPE_LEVELS)
    return Scope(tenant, **words), level


def home(tenant: str, where: Mapping[str, object]) -> Scope:
    """Return the scope in which a call stores memories.

    Raises:
        InputError: as `scope`, or a scope level that does not go with the project.
    """
    found, level = scope(tenant, where)
    if level == "global" and found.project is not None:
        raise InputError(
            "scope", "global", "Name no project, or use scope='project'.", "is 'global', but a project is named"
        )
    if level == "project" and found.project is None:
        raise InputError("scope", "project", "Name the project.", "is 'project', but no project is named")
    return found.as_home()


def short(home: Scope) -> list[str]:
    """Return the coordinates that are set, except the default environment: `user:alice`, `project:parcel`."""
    named = {name: value for name, value in home.as_dict().items() if (name, value) != ("environment", "default")}
    return [f"{SHORT.get(name, name)}:{value}" for name, value in named.items()]
