"""Requests that may come again, or too late: done once under a key, and only to the version that was meant."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

from salience.errors import ConflictError, NotFoundError, SalienceError, StaleError, shown
from salience.ports import Answered, Services
from salience.records import Memory, Receipt, Scope, checks
from salience.records.ids import short_id
from salience.steps import retry_stale

Verb = Literal["update", "forget", "restore"]
MOST: Final = 2**62
"""Largest number of a version."""
_STATUSES: Final[dict[str, Literal["updated", "forgotten", "restored"]]] = {
    "update": "updated",
    "forget": "forgotten",
    "restore": "restored",
}
"""What is asked for -> the status of its receipt."""


@dataclass(frozen=True, slots=True)
class Request:
    """A change to one memory, as it is asked for.

    Attributes:
        scope: who asks; a key is distinct within it, but for its session.
        verb: what is asked for.
        id: of the memory, whole or short.
        key: under which it is done once; None: as often as it is asked for.
        if_version: the version that the memory has to be at; None: any.
    """

    scope: Scope
    verb: Verb
    id: str
    key: str | None = None
    if_version: int | None = None

    def __post_init__(self) -> None:
        if self.key is not None:
            checks.name("key", self.key)
        if self.if_version is not None:
            checks.whole("if_version", self.if_version, 1, MOST)

    def require(self, memory: Memory) -> None:
        """Raise unless a memory is at the version that was meant."""
        if self.if_version not in (None, memory.version):
            raise _OtherVersionError(
                f"id: memory {memory.short_id} is at version {memory.version}, not at {self.if_version}; nothing was "
                "written. Read it again, and decide anew."
            )

    def noted(self, made: Memory) -> list[Answered]:
        """Return what notes the version that came of it, to be applied together with that."""
        if self.key is None:
            return []
        return [Answered(self.scope, self.key, self.verb, made.id, made.version, made.changed_at)]


class _OtherVersionError(SalienceError):
    """The memory is not at the version that was meant, which no other try mends."""


def answered(services: Services, request: Request, attempt: Callable[[], Receipt]) -> Receipt:
    """Return what `attempt` does, or what a request under the same key was answered before.

    Args:
        services: the ports.
        request: what is asked for; `attempt` calls its `require`, and applies what its `noted` returns.
        attempt: reads, writes and may be called again, as by `retry_stale`.

    Raises:
        StaleError: the memory is at another version than the one that was meant; nothing was written.
        ConflictError: the key stands for another verb or memory.
        NotFoundError: the memory is not visible any more.
    """
    try:
        return retry_stale(lambda: _once(services, request, attempt))
    except _OtherVersionError as error:
        raise StaleError(str(error)) from None


def _once(services: Services, request: Request, attempt: Callable[[], Receipt]) -> Receipt:
    first = _first(services, request)
    if first is not None:
        return first
    try:
        return attempt()
    except SalienceError:  # it may have been answered since, or by a commit that broke off
        first = _first(services, request)
        if first is None:
            raise
        return first


def _first(services: Services, request: Request) -> Receipt | None:
    """Return the receipt of the request as it was answered first: with the version that came of it, if it is kept."""
    known = None if request.key is None else services.store.answered(request.scope, request.key)
    if known is None:
        return None
    versions = [stored.memory for stored in services.store.history(request.scope, checks.name("id", request.id))]
    if not versions:
        raise NotFoundError(request.id)
    if (known.verb, known.id) != (request.verb, versions[-1].id):
        raise ConflictError(
            f"key: {shown(request.key)} already stands for: {known.verb} memory {short_id(known.id)}. Use a new key."
        )
    made = next((memory for memory in versions if memory.version == known.version), versions[-1])
    return Receipt(made, _STATUSES[request.verb])
