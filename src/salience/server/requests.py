"""What is noted of each request: a line, metrics, a span; of its path only the template, of its query nothing."""

from __future__ import annotations

import time
from typing import Any, Final

import structlog
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from salience.errors import SalienceError
from salience.server.metrics import NO_VERB, Meter
from salience.server.streams import Streams
from salience.server.traces import Traces
from salience.server.watching import FAILED, NOTE, Note
from salience.wire.errors import problem_of

QUIET: Final = ("/healthz", "/readyz", "/metrics")
"""Paths of probes: neither counted nor, but for debugging, logged."""
UNKNOWN: Final = "-"
"""Stands for what is not known, or not told."""
GONE: Final = 499
"""Status that is noted where the client went before there was an answer; no server sends it. As nginx has it."""
METHODS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
"""What is logged as it is; any other method is what a client made up."""


class Requests:
    """Lets an application answer, and notes how it did.

    Args:
        app: the application; it tells of a request what `salience.server.rest` tells, in the `state` of its scope.
        mcp: path of what speaks MCP in it; the verbs that are asked for there count as requests themselves.
        meter: counts.
        traces: where spans go.
        streams: ends answers that go on.
    """

    def __init__(self, app: ASGIApp, mcp: str, meter: Meter, traces: Traces, streams: Streams) -> None:
        self._app = app
        self._mcp = mcp
        self._meter = meter
        self._traces = traces
        self._streams = streams

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if scope["path"] in QUIET:
            await self._app(scope, receive, send)
            _log().debug("request", route=scope["path"])
            return
        note = Note("mcp" if self._is_mcp(scope["path"]) else "rest")

        is_answered = False

        async def noted(message: Message) -> None:
            nonlocal is_answered
            is_answered = True
            if message["type"] == "http.response.start":
                note.status = int(message["status"])
            await send(message)

        before = NOTE.set(note)
        self._meter.begun()
        try:
            with self._traces.request(scope["headers"]) as ended:
                try:
                    await self._streams.through(self._app, scope, receive, noted)
                    note.status = note.status if is_answered else GONE
                finally:
                    told = self._told(scope, note)
                    ended(f"{told['method']} {told['route']}", _attributes(told))
        finally:
            NOTE.reset(before)
            self._meter.ended()
            self._note(note, self._told(scope, note))

    def _is_mcp(self, path: str) -> bool:
        return path == self._mcp or path.startswith(f"{self._mcp}/")

    def _told(self, scope: Scope, note: Note) -> dict[str, Any]:
        """Return what is told of a request, in its line and its span."""
        state = scope.get("state", {})
        grant = note.grant or state.get("grant")
        unrouted = self._mcp if note.surface == "mcp" else UNKNOWN
        return {
            "request_id": state.get("request_id", UNKNOWN),
            "method": scope["method"] if scope["method"] in METHODS else UNKNOWN,
            "route": getattr(scope.get("route"), "path", unrouted),
            "verb": state.get("verb", NO_VERB) if note.verb == NO_VERB else note.verb,
            "status": note.status,
            "surface": note.surface,
            "tenant": grant.tenant if grant else UNKNOWN,
            "key": grant.name if grant else UNKNOWN,
        }

    def _note(self, note: Note, told: dict[str, Any]) -> None:
        """Count a request and log it."""
        seconds = time.perf_counter() - note.began
        if note.surface == "rest" or (note.verb == NO_VERB and note.status >= 400):
            self._meter.answered(note.surface, told["verb"], note.status, seconds)
        line = {"ms": round(seconds * 1e3, 2), **told, **_failure(note.error)}
        (_log().info if note.status < FAILED else _log().error)("request", **line)


def _attributes(told: dict[str, Any]) -> dict[str, str | int]:
    """Return what is told of a request under the names that OpenTelemetry has for it, or ours."""
    return {
        "http.request.method": told["method"],
        "http.route": told["route"],
        "http.response.status_code": told["status"],
        **{f"salience.{name}": told[name] for name in ("request_id", "verb", "surface", "tenant", "key")},
    }


def _failure(error: BaseException | None) -> dict[str, Any]:
    """Return what is told of an error: its code; and what the services did, where that failed, which quotes no text."""
    if not isinstance(error, SalienceError):
        return {} if error is None else {"error": type(error).__name__}
    found = problem_of(error)
    return {"error": found.code, **({"detail": str(error)} if found.status >= FAILED else {})}


def _log() -> Any:
    return structlog.get_logger()
