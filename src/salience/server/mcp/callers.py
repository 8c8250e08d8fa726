"""Callers of MCP tools: on an engine behind its gate, or on a server through a client."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from salience.errors import ForbiddenError
from salience.records import ANY, BOUNDS, Grant
from salience.server.gate import Gate
from salience.wire.requests import ProfileText, VerbRequest
from salience.wire.verbs import Verb


class Caller(Protocol):
    """Calls verbs with the rights of one caller."""

    @property
    def defaults(self) -> Mapping[str, str]:
        """Coordinates for calls without them."""
        ...

    def may(self, verb: Verb) -> bool:
        """Return whether the caller has the right for a verb, as far as known."""
        ...

    def call(self, verb: Verb, request: VerbRequest) -> Any:
        """Return the result of a verb; raises `SalienceError`."""
        ...


@dataclass(frozen=True, slots=True)
class LocalCaller:
    """A caller with a grant on an engine behind its gate."""

    gate: Gate
    grant: Grant
    defaults: Mapping[str, str] = field(default_factory=dict)

    def may(self, verb: Verb) -> bool:
        """Return whether the grant has the rights for a verb."""
        return self.gate.may(self.grant, verb)

    def call(self, verb: Verb, request: VerbRequest) -> Any:
        """Return the result of a verb."""
        return self.gate.answer(self.grant, verb, request)


@dataclass(frozen=True, slots=True)
class RemoteCaller:
    """A caller on a server, which checks the rights. With `read_only`, no call changes a memory."""

    client: Any
    defaults: Mapping[str, str] = field(default_factory=dict)
    read_only: bool = False

    def may(self, verb: Verb) -> bool:
        """Return whether a verb is allowed."""
        return verb.right == "read" or not self.read_only

    def call(self, verb: Verb, request: VerbRequest) -> Any:
        """Return the result of a verb."""
        if not self.may(verb):
            raise ForbiddenError(f"{verb.name}: this server is read-only. Start it without --read-only.")
        arguments = request.arguments()
        if self.read_only and "dry_run" in type(request).model_fields:
            arguments["dry_run"] = True
        return getattr(self.client, verb.name)(**{name: _python(name, value) for name, value in arguments.items()})


def _python(name: str, value: Any) -> Any:
    """Return an argument of a request in the form that the client takes."""
    if name in BOUNDS and value == ANY.value:
        return ANY
    if isinstance(value, list):
        return [item.model_dump(exclude_unset=True) if hasattr(item, "model_dump") else item for item in value]
    return value.model_dump() if isinstance(value, ProfileText) else value
