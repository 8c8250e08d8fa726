"""Sessions of the dashboard: a signed cookie in place of an API key, and CSRF tokens.

A cookie holds the prefix of a key, never the key. Every request reads the key again, so a session ends when its key is
revoked or expires. No session is stored: the workers of a server share a secret that signs the cookies.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from salience.ports import Keyring
from salience.records import Grant
from salience.server.auth import grant_of, key_prefix, verify_key

LIFETIME: Final = timedelta(hours=12)
LOCAL: Final = "local"
"""Subject of a session that began with a one-time token."""
_COOKIE: Final = "salience"
_HOST_COOKIE: Final = "__Host-salience"
"""Name over https; browsers accept it only from this host, for all paths, and send it only over https."""
OPEN: Final = "open"
"""Identity of callers of a server without keys, in their CSRF tokens."""


@dataclass(frozen=True, slots=True)
class Session:
    """A session: its identity in CSRF tokens, and the rights of the caller; `signed_in` unless no key is needed."""

    id: str
    grant: Grant
    signed_in: bool = True


@dataclass(slots=True)
class Sessions:
    """Begins, finds and ends sessions.

    Args:
        keyring: the API keys.
        clock: returns the current instant.
        secret: signs cookies and CSRF tokens.
        anonymous: returns the grant of callers without a key, or None if they need one.
        tenant: of a session that begins with the one-time token.
        one_time_token: begins one session with all rights; None for no such session.
    """

    keyring: Keyring
    clock: Callable[[], datetime]
    secret: bytes
    anonymous: Callable[[], Grant | None]
    tenant: str
    one_time_token: str | None = None
    _local: str | None = field(default=None, init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)

    def begin(self, token: str) -> str | None:
        """Return the cookie of a new session for an API key; None if the key is not valid."""
        if verify_key(self.keyring, token, self.clock()) is None:
            return None
        return self._cookie(key_prefix(token))

    def begin_local(self, token: str) -> str | None:
        """Return the cookie of a new session for the one-time token; None for another token and for a second use."""
        with self._lock:
            expected, self.one_time_token = self.one_time_token, None
            if expected is None or not hmac.compare_digest(expected.encode(), token.encode()):
                self.one_time_token = expected
                return None
            self._local = self._cookie(LOCAL)
            return self._local

    def find(self, request: Request) -> Session | None:
        """Return the session of a request; None if the caller has to log in."""
        if (anonymous := self.anonymous()) is not None:
            return Session(OPEN, anonymous, signed_in=False)
        cookie = request.cookies.get(_name(request), "")
        subject, _, rest = cookie.partition(".")
        expiry, _, rest = rest.partition(".")
        nonce, _, signature = rest.partition(".")
        now = self.clock()
        expected = self._sign("session", f"{subject}.{expiry}.{nonce}")
        if not hmac.compare_digest(expected.encode(), signature.encode()) or float(expiry) <= now.timestamp():
            return None
        if subject == LOCAL:
            grant = Grant(tenant=self.tenant, rights=("admin",), name=LOCAL) if cookie == self._local else None
        else:
            grant = grant_of(self.keyring.find(subject), now)
        return None if grant is None else Session(nonce, grant)

    def end_local(self) -> None:
        """End the session that began with the one-time token."""
        self._local = None

    def csrf(self, identity: str) -> str:
        """Return the CSRF token of a session, by its id."""
        return self._sign("csrf", identity)

    def _cookie(self, subject: str) -> str:
        expiry = int((self.clock() + LIFETIME).timestamp())
        body = f"{subject}.{expiry}.{secrets.token_urlsafe(16)}"
        return f"{body}.{self._sign('session', body)}"

    def _sign(self, purpose: str, text: str) -> str:
        return hmac.new(self.secret, f"{purpose}\0{text}".encode(), hashlib.sha256).hexdigest()


def _name(request: Request) -> str:
    return _HOST_COOKIE if request.url.scheme == "https" else _COOKIE


def set_cookie(request: Request, response: Response, cookie: str) -> None:
    """Send a session to the browser, out of reach of scripts and of other sites."""
    response.set_cookie(
        _name(request),
        cookie,
        max_age=int(LIFETIME.total_seconds()),
        path="/",
        secure=request.url.scheme == "https",
        httponly=True,
        samesite="strict",
    )


def delete_cookie(request: Request, response: Response) -> None:
    """Remove the session from the browser."""
    is_secure = request.url.scheme == "https"
    response.delete_cookie(_name(request), path="/", secure=is_secure, httponly=True, samesite="strict")
