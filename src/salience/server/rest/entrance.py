"""What every request passes first: it gets an id, and is refused where it comes from, or to, the wrong place."""

from __future__ import annotations

import logging
import re
import uuid
from typing import Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from salience.errors import shown
from salience.server.rest.options import Options
from salience.server.rest.problems import ID, Refused, told
from salience.wire.errors import stack_of

HEALTH: Final = ("/healthz", "/readyz")
"""Paths that are open under any name and from anywhere: what probes ask, and nothing of a memory."""
REQUEST_ID: Final = "X-Request-ID"
LONG: Final = 5
"""Digits of the length of a body that is read to its end, or thrown away, rather than cut off."""
_SANE: Final = re.compile("[A-Za-z0-9._:-]{1,64}")
_LOOPBACK: Final = ("localhost", "127.0.0.1", "[::1]")
_PASSED_ON: Final = ("forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip", "via")
"""Headers that a proxy adds to what it passes on."""
_HEADERS: Final = {
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
}
"""Headers of every answer that does not set them itself."""
_log = logging.getLogger("salience.server.rest")


class Entrance:
    """Gives each request an id, which is in the `state` of its scope and in a header of the answer.

    A page of another site may not call the server: neither under a name of its own that leads here (DNS rebinding),
    which `Host` tells, nor as a foreign origin, which `Origin` tells.
    """

    def __init__(self, app: ASGIApp, options: Options) -> None:
        self._app = app
        self._hosts = {host.lower() for host in options.hosts}
        self._origins = {origin.lower() for origin in options.origins}
        self._is_open = options.is_open

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request in, or answer it with what is wrong."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        named = _id(headers.get(REQUEST_ID))
        scope.setdefault("state", {})[ID] = named

        has_more = _is_long(headers)

        async def read() -> Message:
            nonlocal has_more
            message = await receive()
            has_more = has_more and message.get("more_body", False)
            return message

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                added = MutableHeaders(scope=message)
                added[REQUEST_ID] = named
                if has_more:  # nobody is to go on sending what nobody reads
                    added["Connection"] = "close"
                for name, value in _HEADERS.items():
                    added.setdefault(name, value)
            await send(message)

        refusal = None if scope["path"] in HEALTH else self._refusal(scope, headers)
        await (told(named, refusal) if refusal else self._app)(scope, read, answer)

    def _refusal(self, scope: Scope, headers: Headers) -> Refused | None:
        host, origin = _name(headers.get("host", "")), headers.get("origin")
        own = _name(str((scope.get("server") or ("",))[0]))
        if not self._hosts & {"*", host} and host not in (*_LOOPBACK, own, f"[{own}]"):
            return Refused(
                403,
                f"Host: {shown(host)} is no name of this server. Use its own, or add this one to its setting "
                "server_hosts (SALIENCE_SERVER_HOSTS).",
            )
        if len(headers.getlist("authorization")) > 1:  # what stands in front might have looked at the other one
            return Refused(400, "Authorization: there are two headers of this name. Send one.")
        if origin is not None and not self._origins & {"*", origin.lower()} and not self._is_own(origin, headers):
            return Refused(
                403,
                f"Origin: pages of {shown(origin)} may not call this server. Add it to the setting server_origins "
                "(SALIENCE_SERVER_ORIGINS).",
            )
        if any(name in headers for name in _PASSED_ON) and self._is_open():
            return Refused(
                403,
                "authorization: no key was made yet, so that only this machine is let in, and a proxy passed this on. "
                "Make a key first.",
            )
        return None

    def _is_own(self, origin: str, headers: Headers) -> bool:
        """Return whether a page is the server's own: of the name that it is called by, where any name will not do."""
        return "*" not in self._hosts and origin.lower().partition("://")[2] == headers.get("host", "").lower()


class Net:
    """Catches what nobody expected: the caller is told the id of the request, the log what kind of error it was."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on; an answer that has begun when it fails is left unfinished, so that it reads as cut off."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        has_begun = False

        async def answer(message: Message) -> None:
            nonlocal has_begun
            has_begun = True
            await send(message)

        try:
            await self._app(scope, receive, answer)
        except ClientDisconnect:
            return  # nobody is there to be told
        except Exception as error:
            _log.error("request %s: %s", scope["state"][ID], stack_of(error))  # its message may hold a user's text
            if not has_begun:
                await told(scope["state"][ID], error)(scope, receive, send)


def _is_long(headers: Headers) -> bool:
    """Return whether a request has a body that is long, or may be."""
    return "transfer-encoding" in headers or len(headers.get("content-length", "")) > LONG


def _id(given: str | None) -> str:
    return given if given is not None and _SANE.fullmatch(given) else uuid.uuid4().hex


def _name(host: str) -> str:
    """Return the name of a `Host` header, without its port."""
    return re.sub(r":\d*$", "", host).rstrip(".").lower() if host.count(":") == 1 or "]" in host else host.lower()
