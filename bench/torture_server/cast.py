"""Homes with a secret each, and those who hold keys: what each may see, and what each may change."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import product
from typing import Any, Final

from bench.torture_postgres import marks
from salience.ports import Keyring
from salience.records import Grant, Scope
from salience.server import keys as access

TENANTS: Final = 4
COORDINATES: Final = ("project", "user_id")
"""Those of a home that differ; a key may be bound to a value of each."""


@dataclass(frozen=True, slots=True)
class Home:
    """Where memories live. All that is stored there bears its mark.

    Attributes:
        number: of the home, over all tenants.
        tenant: its name, which bears a mark of its own, as the names of project and user do.
        project, user_id: None where the memories are shared.
    """

    number: int
    tenant: str
    project: str | None
    user_id: str | None

    @property
    def mark(self) -> str:
        """What every text of the home holds, and no other."""
        return marks.mark(self.number)

    @property
    def where(self) -> dict[str, str]:
        """The coordinates that are set."""
        given = {name: getattr(self, name) for name in COORDINATES}
        return {name: value for name, value in given.items() if value is not None}


@dataclass(slots=True)
class Holder:
    """Somebody with a key.

    Attributes:
        number: of the holder.
        token: the key as it is shown.
        grant: what it allows.
        homes: those of the tenant that the key lets see.
        taken_back: when a revocation had returned, by the clock of `leaks`; None while the key is live.
    """

    number: int
    token: str
    grant: Grant
    homes: Sequence[Home]
    taken_back: float | None = None
    marks: frozenset[str] = field(init=False)
    names: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        self.marks = frozenset(home.mark for home in self.homes)
        named = {value for home in self.homes for value in home.where.values()}
        self.names = frozenset(named | {self.grant.tenant} | set(self.grant.bound.values()))

    def sees(self, home: Home) -> bool:
        """Return whether memories of a home may be shown to the holder."""
        return home in self.homes

    def owns(self, home: Home) -> bool:
        """Return whether the holder may store and change memories of a home."""
        bound = self.grant.bound.items()
        may = self.grant.may("write") and self.grant.tenant == home.tenant
        return may and all(getattr(home, name) == value for name, value in bound)

    @property
    def sign(self) -> str:
        """What shows whose hand a text or a reason is from."""
        return f"hand{self.number:04d}end"


def homes() -> list[Home]:
    """Return every home: in each tenant those of two projects and two users, and those that some or all share."""
    places = []
    for tenant in range(TENANTS):
        projects, users = ((None, *(f"{kind}{10 * tenant + n:04d}end" for n in (1, 2))) for kind in ("proj", "user"))
        places += [(marks.name(tenant), *where) for where in product(projects, users)]
    return [Home(number, *place) for number, place in enumerate(places)]


def holders(keyring: Keyring, all_homes: Sequence[Home]) -> list[Holder]:
    """Return those who hold keys, five in each tenant, with keys that were made now."""
    found = []
    for tenant in range(TENANTS):
        own = [home for home in all_homes if home.tenant == marks.name(tenant)]
        found += [one for rights, bound in _keys(own, tenant) for one in [_made(keyring, own, rights, bound)]]
    for number, holder in enumerate(found):
        holder.number = number
    return found


def another(keyring: Keyring, holder: Holder) -> Holder:
    """Return a holder of a new key that allows the same."""
    return _made(keyring, holder.homes, holder.grant.rights, holder.grant.bound, holder.number)


def _keys(own: Sequence[Home], tenant: int) -> Iterator[tuple[Sequence[str], Mapping[str, str]]]:
    """Yield rights and bounds; all kinds of them are there in two tenants together."""
    (red, blue), (ann, ben) = (sorted({home.where[name] for home in own if name in home.where}) for name in COORDINATES)
    yield ("admin",), {}
    yield ("read", "write") if tenant % 2 else ("read",), {}
    yield ("admin",) if tenant % 2 else ("read", "write"), {"project": red}
    yield ("read", "write") if tenant % 2 else ("admin",), {"user_id": ann}
    yield ("read",) if tenant % 2 else ("read", "write"), {"project": blue, "user_id": ben}


def _made(
    keyring: Keyring, own: Sequence[Home], rights: Sequence[str], bound: Mapping[str, str], number: int = 0
) -> Holder:
    tenant = own[0].tenant
    token, key = access.made(tenant, rights, bound, None, None, datetime.now(UTC))
    keyring.add(key)
    seen = [home for home in own if all(getattr(home, name) in (None, value) for name, value in bound.items())]
    return Holder(number, token, Grant(tenant=tenant, rights=rights, bound=bound, name=key.prefix), seen)


def home_of(all_homes: Sequence[Home], tenant: str, scope: Scope | Mapping[str, Any]) -> Home | None:
    """Return the home that a scope is of, or None."""
    if isinstance(scope, Scope):
        scope = scope.as_dict()
    wanted = (tenant, scope.get("project"), scope.get("user_id"))
    return next((home for home in all_homes if (home.tenant, home.project, home.user_id) == wanted), None)
