"""Keys as they are shown: how one is made, and what one that is shown grants.

A token is `sal_PREFIX_SECRET`. The prefix finds the key and may be read by anybody; of the secret, 256 random bits,
only a digest is kept. It needs no salt and no slow hash: what is random cannot be guessed from a list.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Final

from salience.errors import AccessError
from salience.ports import Keyring
from salience.records import ApiKey, Grant

PREFIX_DIGITS: Final = 12
SECRET_DIGITS: Final = 64
_TOKEN: Final = re.compile(rf"sal_([0-9a-f]{{{PREFIX_DIGITS}}})_([0-9a-f]{{{SECRET_DIGITS}}})")
_NOBODY: Final = "-" * PREFIX_DIGITS
"""Prefix of no key, sought where a token has none, so that this takes the steps that any other token does."""


def made(
    tenant: str,
    rights: Sequence[str],
    bound: Mapping[str, str],
    expires_at: datetime | None,
    note: str | None,
    now: datetime,
) -> tuple[str, ApiKey]:
    """Return a new token, to be shown once, and the key that is kept of it.

    Raises:
        InputError: a value that cannot be accepted.
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


def granted(keyring: Keyring, token: str, now: datetime) -> Grant | None:
    """Return what a token grants; None for anything that is not a live key.

    The key is read anew each time, so that a revoked one fails at once. Whatever is wrong, the steps are the same: the
    time that they take tells nothing.
    """
    match = _TOKEN.fullmatch(token)
    prefix, secret = match.groups() if match else (_NOBODY, "")
    key = keyring.find(prefix)
    is_its_own = hmac.compare_digest(_digest(secret), key.digest if key else _digest(_NOBODY))
    if key is None or not is_its_own or key.status(now) != "live":
        return None
    return Grant(tenant=key.tenant, rights=key.rights, bound=key.bound, name=key.prefix)


def bearer(authorization: str | None) -> str | None:
    """Return the token in the value of an Authorization header; None where it shows none."""
    scheme, _, token = (authorization or "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else None


def prefix_of(told: str) -> str:
    """Return the prefix of a token, if it is one, lest the whole of it is shown or sought; else what is given."""
    match = _TOKEN.fullmatch(told)
    return match[1] if match else told


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode("ascii")).hexdigest()


class Door:
    """Who comes in, by what they show.

    Args:
        verify: each returns what a token grants, or None; asked in order.
        unlocked: returns what everybody is granted while there is no key at all; None once there is one.
    """

    def __init__(
        self, verify: Sequence[Callable[[str], Grant | None]], unlocked: Callable[[], Grant | None] = lambda: None
    ) -> None:
        self._verify = tuple(verify)
        self._unlocked = unlocked

    def enter(self, authorization: str | None) -> Grant:
        """Return what the value of an Authorization header grants.

        Raises:
            AccessError: nothing; whatever was wrong, it says the same.
        """
        if (everybody := self._unlocked()) is not None:
            return everybody
        if (token := bearer(authorization)) is not None:
            for verify in self._verify:
                if (grant := verify(token)) is not None:
                    return grant
        raise AccessError("authorization: no key that holds was shown. Send Authorization: Bearer sal_...")
