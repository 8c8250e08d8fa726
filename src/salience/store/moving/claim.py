"""Whether a copy may begin or go on in a store, and the pins that it brings."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from sqlalchemy import Connection

from salience.batch import cosines
from salience.errors import ConflictError, InputError, PinnedError, StoreError, Words, shown
from salience.ports import SAME_MODEL
from salience.store.meta import LAID_BY, PINNED, Meta, keep
from salience.store.moving.mark import Mark, new_run
from salience.store.moving.side import Side
from salience.store.moving.tables import holds
from salience.store.pins import Pin

LANGUAGE: Final = "language"
"""Name of the language of the terms."""
_ELSE: Final = "Copy into a store of its own."
_REEMBED: Final = "Give one the model of the other first (salience reembed), or copy into a store of its own."


@dataclass(frozen=True, slots=True)
class Origin:
    """What a copy comes from.

    Attributes:
        where: the store, as messages name it.
        meta: what it says of itself.
        tenants: those to be copied, sorted.
        chosen: the tenants that were asked for, sorted; None: all.
    """

    where: str
    meta: Meta
    tenants: tuple[str, ...]
    chosen: tuple[str, ...] | None


@dataclass(frozen=True, slots=True)
class Claim:
    """A copy that may write to its target.

    Attributes:
        mark: that it left there.
        tenants: whose rows are to be those of the source, sorted; such as are there no more have none.
        resumed: whether it goes on with one that was cut off.
    """

    mark: Mark
    tenants: tuple[str, ...]
    resumed: bool


def claim(connection: Connection, target: Side, origin: Origin) -> Claim:
    """Mark a store as the target of a copy, pin it as the source is, and return what may be written.

    Raises:
        InputError: the store holds memories of a tenant, or part of another copy.
        PinnedError: it is pinned to another model or language.
    """
    meta = Meta.read(connection)
    before = Mark.of(meta)
    if before is not None and (before.source, before.chosen) != (origin.where, origin.chosen):
        remedy = f"Run that to its end first: {before.command(target.where)}"
        raise InputError("target", Words(target.where), remedy, f"{target.where} holds part of another copy")
    known = target.tenants(connection)
    there = [tenant for tenant in known if _is_there(connection, tenant)]
    for tenant in origin.tenants:
        if tenant in there and not (before is not None and before.covers(tenant)):
            raise _taken(target.where, tenant)
    mark = _mark(before, origin, is_empty=not there)
    keep(connection, pins(meta, origin.meta, target.where, is_ours=all(map(mark.covers, there))))
    mark.set(connection)
    left = known if mark.tenants is None else mark.tenants
    return Claim(mark, tuple(sorted({*origin.tenants, *left})), before is not None)


def _is_there(connection: Connection, tenant: str) -> bool:
    return connection.execute(holds(tenant)).first() is not None


def _mark(before: Mark | None, origin: Origin, is_empty: bool) -> Mark:
    """Return the mark of this run, which also covers what one before did."""
    if before is not None and before.tenants is None:
        return replace(before, run=new_run())
    if before is None and is_empty and origin.chosen is None:
        return Mark(origin.where, None, None, new_run())
    known = () if before is None else before.tenants or ()
    return Mark(origin.where, origin.chosen, tuple(sorted({*origin.tenants, *known})), new_run())


def _taken(where: str, tenant: str) -> InputError:
    remedy = "Nothing was written. Copy into a store that has none of it, or other tenants with --tenant."
    return InputError("target", Words(where), remedy, f"{where} holds memories of the tenant {tenant!r}")


def check_run(connection: Connection, claim: Claim) -> None:
    """Raise unless this process is still the one at the copy.

    Raises:
        ConflictError: another one took it over, or the mark is gone.
    """
    mark = Mark.of(Meta.read(connection))
    if mark is None or mark.run != claim.mark.run:
        raise ConflictError("copy: another process took this copy over. Leave it to that one.")


def pins(there: Meta, here: Meta, where: str, *, is_ours: bool) -> dict[str, str]:
    """Return what the target is to say of its models and language.

    Args:
        there: what the target says.
        here: what the source says.
        where: the target, as messages name it.
        is_ours: whether all memories in the target are of this copy, so that its pins may become others.

    Raises:
        PinnedError: it is pinned to another model or language.
    """
    language, other = here.values.get(LANGUAGE, ""), there.values.get(LANGUAGE, "")
    if language and other and language != other and not is_ours:
        raise PinnedError(f"store: {where} is of the language {other!r}, and the source of {language!r}. {_ELSE}")
    parts = [LANGUAGE] if language else []
    for names, what in ((PINNED, "is pinned to"), (LAID_BY, "is being given")):
        own, its = here.pin(names), there.pin(names)
        if own is not None and its is not None and not is_ours and not is_same(own, its):
            raise PinnedError(f"store: {where} {what} {its}, and the source {own}. {_REEMBED}")
        if is_ours or (own is not None and (its is None or its.fingerprint is None)):
            parts += names
    return {name: here.values.get(name, "") for name in parts if name in here.values or name in there.values}


def is_same(one: Pin, other: Pin) -> bool:
    """Return whether two pins are of one model: by name, dimension and, where both are known, fingerprint."""
    if (one.name, one.dimension) != (other.name, other.dimension):
        return False
    if one.fingerprint is None or other.fingerprint is None:
        return True
    return float(cosines(one.fingerprint[None], other.fingerprint)[0]) >= SAME_MODEL


def check_chosen(chosen: Sequence[str] | None, known: Iterable[str], where: str) -> None:
    """Raise `InputError` for a tenant that a store has nothing of."""
    for tenant in sorted({*(chosen or ())} - {*known}):
        raise InputError(
            "tenant", tenant, "Without --tenant, all are copied.", f"{shown(tenant)} has nothing in {where}"
        )


def check_whole(meta: Meta, where: str) -> None:
    """Raise `StoreError` if a store is a half copy itself."""
    mark = Mark.of(meta)
    if mark is not None:
        raise StoreError(f"store: {where} holds part of a copy itself. Run it to its end: {mark.command(where)}")
