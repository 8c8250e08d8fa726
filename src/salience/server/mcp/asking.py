"""Who answers: an engine behind its gate, or a server that a client speaks to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from salience.errors import ForbiddenError
from salience.records import ANY, BOUNDS, Grant
from salience.server.gate import Gate
from salience.wire.requests import ProfileText, VerbRequest
from salience.wire.verbs import Verb


class Asker(Protocol):
    """Answers requests of one caller."""

    @property
    def defaults(self) -> Mapping[str, str]:
        """Coordinates that hold where an argument names no other."""
        ...

    def may(self, verb: Verb) -> bool:
        """Return whether the caller has the right that a verb takes, as far as this is known here."""
        ...

    def ask(self, verb: Verb, request: VerbRequest) -> Any:
        """Return the result of a verb; raises `SalienceError`."""
        ...


@dataclass(frozen=True, slots=True)
class Gated:
    """An engine behind its gate, for one caller."""

    gate: Gate
    grant: Grant
    defaults: Mapping[str, str] = field(default_factory=dict)

    def may(self, verb: Verb) -> bool:
        """Return whether the grant holds what a verb takes."""
        return self.gate.may(self.grant, verb)

    def ask(self, verb: Verb, request: VerbRequest) -> Any:
        """Return what the gate answers."""
        return self.gate.answer(self.grant, verb, request)


@dataclass(frozen=True, slots=True)
class Remote:
    """A client, whose server holds the rights; `read_only` asks for nothing that changes a memory."""

    client: Any
    defaults: Mapping[str, str] = field(default_factory=dict)
    read_only: bool = False

    def may(self, verb: Verb) -> bool:
        """Return whether a verb only reads, or anything may be asked."""
        return verb.right == "read" or not self.read_only

    def ask(self, verb: Verb, request: VerbRequest) -> Any:
        """Return what the server answers to the verb of that name."""
        if not self.may(verb):
            raise ForbiddenError(f"{verb.name}: this was started to read only. Start it without --read-only.")
        arguments = request.arguments()
        if self.read_only and "dry_run" in type(request).model_fields:
            arguments["dry_run"] = True
        return getattr(self.client, verb.name)(**{name: _meant(name, value) for name, value in arguments.items()})


def _meant(name: str, value: Any) -> Any:
    """Return a value of the wire as the verbs take it."""
    if name in BOUNDS and value == ANY.value:
        return ANY
    if isinstance(value, list):
        return [item.model_dump(exclude_unset=True) if hasattr(item, "model_dump") else item for item in value]
    return value.model_dump() if isinstance(value, ProfileText) else value
