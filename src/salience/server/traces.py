"""What can be traced, and the way to trace nothing. No text of a user is in a span, nor anything made of one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

Headers = Iterable[tuple[bytes, bytes]]
Told = Mapping[str, str | int]
Ended = Callable[[str, Told], None]
"""Is called with the name of a request, once it is known, and with what is told of it."""


class Traces(Protocol):
    """Where spans go."""

    def request(self, headers: Headers) -> AbstractContextManager[Ended]:
        """Return the span of a request, which continues the trace that its headers name."""
        ...

    def came_of(self, outcome: object) -> None:
        """Add spans of the steps of a recall that has just ended."""
        ...

    def embedding(self, name: str, texts: int) -> AbstractContextManager[object]:
        """Return the span of a call of an embedder."""
        ...

    def close(self) -> None:
        """Send what was not sent yet, for a few seconds at most."""
        ...


class Untraced:
    """Traces nothing."""

    def request(self, headers: Headers) -> AbstractContextManager[Ended]:
        """Return no span."""
        return nullcontext(_ignore)

    def came_of(self, outcome: object) -> None:
        """Add nothing."""

    def embedding(self, name: str, texts: int) -> AbstractContextManager[object]:
        """Return no span."""
        return nullcontext()

    def close(self) -> None:
        """Send nothing."""


def _ignore(name: str, told: Told) -> None:
    pass


def to(endpoint: str | None) -> Traces:
    """Return traces that go to an endpoint of OTLP over HTTP; None: nowhere, and no library is loaded for it."""
    if endpoint is None:
        return Untraced()
    from salience.server.otlp import Otlp

    return Otlp(endpoint)
