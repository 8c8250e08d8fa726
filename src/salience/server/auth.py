"""API keys, and the authentication of callers.

A token is `sal_PREFIX_SECRET`. The prefix identifies the key and is not secret. Only a digest of the secret (256 random
bits) is stored; random bits cannot be guessed from a dictionary, so the digest needs no salt and no slow hash.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from salience.errors import AccessError
from salience.ports import Keyring
from salience.records import ApiKey, Grant

PREFIX_DIGITS: Final = 12
SECRET_DIGITS: Final = 64
_TOKEN: Final = re.compile(rf"sal_([0-9a-f]{{{PREFIX_DIGITS}}})_([0-9a-f]{{{SECRET_DIGITS}}})")
_NO_PREFIX: Final = "-" * PREFIX_DIGITS
"""A prefix that no key has, looked up for malformed tokens so that they take the same time."""


def create_key(
    tenant: str,
    rights: Sequence[str],
    bound: Mapping[str, str],
    expires_at: datetime | None,
    note: str | None,
    now: datetime,
) -> tuple[str, ApiKey]:
    """Return a new token, which is shown once, and the key to store.

    Raises:
        InputError: a value is not acceptable.
    """
    prefix, secret = secrets.token_hex(PREFIX_DIGITS // 2), secrets.token_hex(SECRET_DIGITS // 2)
    key = ApiKey(
        prefix=prefix,
        digest=_digest(secret),
        tenant=tenant,
        rights=rights,
        bound=bound,
        note=note,
        created_at=now,
        expires_at=expires_at,
    )
    return f"sal_{prefix}_{secret}", key


def verify_key(keyring: Keyring, token: str, now: datetime) -> Grant | None:
    """Return the grant of a token, or None.

    The key is read each time, so a revoked key fails at once. All tokens take the same steps: timing reveals nothing.
    """
    match = _TOKEN.fullmatch(token)
    prefix, secret = match.groups() if match else (_NO_PREFIX, "")
    key = keyring.find(prefix)
    matches = hmac.compare_digest(_digest(secret), key.digest if key else _digest(_NO_PREFIX))
    return grant_of(key, now) if matches else None


def grant_of(key: ApiKey | None, now: datetime) -> Grant | None:
    """Return the grant of a key; None if there is no key, or it is revoked or expired."""
    if key is None or key.status(now) != "live":
        return None
    return Grant(tenant=key.tenant, rights=key.rights, bound=key.bound, name=key.prefix)


def bearer_token(authorization: str | None) -> str | None:
    """Return the token in the value of an Authorization header, or None."""
    scheme, _, token = (authorization or "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else None


def key_prefix(text: str) -> str:
    """Return the prefix of a token, without its secret; other texts unchanged."""
    match = _TOKEN.fullmatch(text)
    return match[1] if match else text


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode("ascii")).hexdigest()


@dataclass(frozen=True, slots=True)
class Authenticator:
    """Authenticates callers by their Authorization header.

    Args:
        verifiers: tried in order; each returns the grant of a token, or None.
        anonymous: returns the grant of anonymous callers, or None if callers need a key.
    """

    verifiers: Sequence[Callable[[str], Grant | None]]
    anonymous: Callable[[], Grant | None] = lambda: None

    def authenticate(self, authorization: str | None) -> Grant:
        """Return the grant of a caller.

        Raises:
            AccessError: the caller has no grant; the message is the same for all reasons.
        """
        if (anonymous := self.anonymous()) is not None:
            return anonymous
        if (token := bearer_token(authorization)) is not None:
            for verify in self.verifiers:
                if (grant := verify(token)) is not None:
                    return grant
        raise AccessError("authorization: Missing or invalid API key. Send Authorization: Bearer sal_...")
