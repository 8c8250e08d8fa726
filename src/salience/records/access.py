"""API keys and the rights that they grant."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Literal

from salience.errors import InputError, Words, wrong_type
from salience.records import checks
from salience.records.memory import ANY

RIGHTS: Final = ("read", "write", "admin")
"""Rights of a caller; `admin` includes the others, `write` does not include `read`."""
BOUNDS: Final = ("environment", "project", "user_id", "agent_id")
"""Coordinates that a key can fix to one value."""

_DIGEST: Final = re.compile("[0-9a-f]{64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """The rights of a caller.

    Attributes:
        tenant: the only tenant that the caller can access.
        rights: of `RIGHTS`.
        bound: coordinate of `BOUNDS` -> its only allowed value.
        name: of the caller, for logs: prefix of the key or subject of the token, never a secret.
        issuer: of the token; None for a key.
    """

    tenant: str
    rights: Sequence[str]
    bound: Mapping[str, str] = field(default_factory=dict)
    name: str
    issuer: str | None = None

    def __post_init__(self) -> None:
        checks.name("tenant", self.tenant)
        checks.name("name", self.name)
        object.__setattr__(self, "rights", rights_of(self.rights))
        object.__setattr__(self, "bound", bound_of(self.bound))

    @property
    def caller(self) -> str:
        """Identity of the caller, for limits: a subject may have the name of a key, or of another tenant's subject."""
        return "\n".join((self.issuer or "", self.tenant, self.name))

    def may(self, right: str) -> bool:
        """Return whether the caller has a right."""
        return checks.choice("right", right, RIGHTS) in self.rights or "admin" in self.rights


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKey:
    """An API key as stored: its rights and the hash of its secret part.

    Attributes:
        prefix: public part that identifies the key.
        digest: sha256 of the secret part, 64 hexadecimal digits; never shown.
        tenant, rights, bound: as in `Grant`.
        note: description, such as the owner.
        created_at: when it was created.
        expires_at: when it becomes invalid; None: never.
        revoked_at: when it was revoked; None: not revoked.
    """

    prefix: str
    digest: str = field(repr=False)
    tenant: str
    rights: Sequence[str]
    bound: Mapping[str, str] = field(default_factory=dict)
    note: str | None = None
    created_at: datetime
    expires_at: datetime | None = None
    revoked_at: datetime | None = None

    def __post_init__(self) -> None:
        for name in ("prefix", "digest", "tenant"):
            checks.name(name, getattr(self, name))
        if not _DIGEST.fullmatch(self.digest):
            raise InputError("digest", Words("another text"), "Give a sha256 as 64 hexadecimal digits.", "is no sha256")
        if self.note is not None:
            checks.name("note", self.note)
        object.__setattr__(self, "rights", rights_of(self.rights))
        object.__setattr__(self, "bound", bound_of(self.bound))
        for name in ("created_at", "expires_at", "revoked_at"):
            if name == "created_at" or getattr(self, name) is not None:
                object.__setattr__(self, name, checks.aware(name, getattr(self, name)))
        if self.expires_at is not None and self.expires_at <= self.created_at:
            at = self.expires_at.isoformat()
            raise InputError("expires_at", at, "Give an instant that is still to come.", f"{at} is in the past")

    def status(self, now: datetime) -> Literal["live", "expired", "revoked"]:
        """Return `live`, or why the key is invalid at an instant."""
        if self.revoked_at is not None:
            return "revoked"
        return "expired" if self.expires_at is not None and self.expires_at <= now else "live"


def rights_of(value: object) -> tuple[str, ...]:
    """Return distinct rights in the order of `RIGHTS`.

    Raises:
        InputError: no right, or an unknown one.
    """
    given = {checks.choice("right", right, RIGHTS) for right in checks.names("rights", value)}
    if not given:
        raise InputError("rights", Words("no right"), f"Give at least one of: {', '.join(RIGHTS)}.", "is empty")
    return tuple(right for right in RIGHTS if right in given)


def bound_of(value: Any) -> Mapping[str, str]:
    """Return an immutable bound in the order of `BOUNDS`.

    Raises:
        InputError: an unknown coordinate or an invalid value.
    """
    if not isinstance(value, Mapping):
        raise wrong_type("bound", value, "Give a mapping of coordinates to values.")
    given = {checks.choice("bound", name, BOUNDS): checks.name(f"bound.{name}", item) for name, item in value.items()}
    for name in (name for name, item in given.items() if item == ANY.value):
        raise InputError(f"bound.{name}", ANY.value, "Leave it out: without a bound, every value may be given.")
    return checks.Frozen({name: given[name] for name in BOUNDS if name in given})
