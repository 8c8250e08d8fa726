"""Who may do what: the keys of a server, and what one that was shown grants."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Literal

from salience.errors import InputError, Words, wrong_type
from salience.records import checks
from salience.records.stored import ANY

RIGHTS: Final = ("read", "write", "admin")
"""What a caller may be allowed; `admin` holds both others, `write` does not hold `read`."""
BOUNDS: Final = ("environment", "project", "user_id", "agent_id")
"""Coordinates of a scope to one value of which a caller may be bound."""

_DIGEST: Final = re.compile("[0-9a-f]{64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """What a caller may do.

    Attributes:
        tenant: whose memories; no others are seen.
        rights: of `RIGHTS`.
        bound: coordinate of `BOUNDS` -> the only value that the caller may give it.
        name: who it is, for logs and limits: the prefix of a key, or the subject of a token; never a secret.
    """

    tenant: str
    rights: Sequence[str]
    bound: Mapping[str, str] = field(default_factory=dict)
    name: str

    def __post_init__(self) -> None:
        checks.name("tenant", self.tenant)
        checks.name("name", self.name)
        object.__setattr__(self, "rights", rights_of(self.rights))
        object.__setattr__(self, "bound", bound_of(self.bound))

    def may(self, right: str) -> bool:
        """Return whether the caller has one of `RIGHTS`."""
        return checks.choice("right", right, RIGHTS) in self.rights or "admin" in self.rights


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKey:
    """A key as it is kept: what it grants, and a digest of its secret part, from which the secret is not to be had.

    Attributes:
        prefix: its public part, by which it is found and named.
        digest: sha256 of the secret part, 64 hexadecimal digits; never shown.
        tenant, rights, bound: as in `Grant`.
        note: whose it is, in words.
        created_at: when it was made.
        expires_at: from when on it grants nothing; None: never.
        revoked_at: when it was taken back; None while it was not.
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
                object.__setattr__(self, name, checks.instant(name, getattr(self, name)))
        if self.expires_at is not None and self.expires_at <= self.created_at:
            at = self.expires_at.isoformat()
            raise InputError("expires_at", at, "Give an instant that is still to come.", f"{at} is in the past")

    def status(self, now: datetime) -> Literal["live", "expired", "revoked"]:
        """Return whether it grants anything at an instant, and if not, why."""
        if self.revoked_at is not None:
            return "revoked"
        return "expired" if self.expires_at is not None and self.expires_at <= now else "live"


def rights_of(value: object) -> tuple[str, ...]:
    """Return rights, distinct and in the order of `RIGHTS`.

    Raises:
        InputError: none, or something else.
    """
    given = {checks.choice("right", right, RIGHTS) for right in checks.names("rights", value)}
    if not given:
        raise InputError("rights", Words("no right"), f"Give at least one of: {', '.join(RIGHTS)}.", "is empty")
    return tuple(right for right in RIGHTS if right in given)


def bound_of(value: Any) -> Mapping[str, str]:
    """Return the bound of a caller, unchangeable and in the order of `BOUNDS`.

    Raises:
        InputError: another coordinate, or a value that is no name.
    """
    if not isinstance(value, Mapping):
        raise wrong_type("bound", value, "Give a mapping of coordinates to values.")
    given = {checks.choice("bound", name, BOUNDS): checks.name(f"bound.{name}", item) for name, item in value.items()}
    for name in (name for name, item in given.items() if item == ANY.value):
        raise InputError(f"bound.{name}", ANY.value, "Leave it out: without a bound, every value may be given.")
    return checks.Frozen({name: given[name] for name in BOUNDS if name in given})
