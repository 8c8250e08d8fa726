"""How each change is made in the store in dictionaries."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from salience.errors import ConflictError, PinnedError
from salience.ports import Add, Adopt, Answered, Derive, Erase, Lease, Prune, Revise, Stored, Touch
from salience.records import Memory, Receipt
from salience.records.checks import Frozen
from salience.store.memory_state import Before, State
from salience.store.pins import Handle
from salience.store.values import (
    already,
    answered_already,
    held_by,
    is_session_of,
    later,
    merged,
    missing,
    own_metadata,
    own_vector,
    revised,
    stale,
)


@dataclass(frozen=True, slots=True)
class Making:
    """Where changes are made: the draft of a state, by a handle."""

    state: State
    handle: Handle

    @property
    def dimension(self) -> int:
        """Length of the handle's vectors."""
        return self.handle.model.dimension

    @property
    def is_home(self) -> bool:
        """Whether the store is pinned to the handle's model, or to none."""
        pin = self.state.pins.get("pinned")
        return pin is None or self.handle.matches(pin)


def _add(making: Making, change: Add) -> Receipt:
    state, memory = making.state, change.stored.memory
    tenant, home = memory.scope.tenant, memory.scope.home_key
    taken = state.keys.get((tenant, home, memory.key)) if memory.key is not None else None
    present = state.rows.get((tenant, memory.id if taken is None else taken))
    if present is not None:
        older = state.versions.get((tenant, present.memory.id), ())
        has_said = any(one.memory.content_hash == memory.content_hash for one in older)
        return already(present.memory, memory, has_said)
    for session, turn in change.stored.activations.items():
        state.clocks[tenant, session] = max(turn, state.clocks.get((tenant, session), 0))
    memory = _in_turn(state, own_metadata(memory))
    vector = own_vector(change.stored.vector, making.dimension)
    activations = Frozen(change.stored.activations)
    state.rows[tenant, memory.id] = replace(change.stored, memory=memory, vector=vector, activations=activations)
    state.versions[tenant, memory.id] = tuple(_as_version(older, making.dimension) for older in change.history)
    if memory.key is not None:
        state.keys[tenant, home, memory.key] = memory.id
    return Receipt(memory, "created")


def _as_version(stored: Stored, dimension: int) -> Stored:
    vector = own_vector(stored.vector, dimension)
    return replace(stored, memory=own_metadata(stored.memory), vector=vector, activations=Frozen())


def _in_turn(state: State, memory: Memory) -> Memory:
    """Return `memory` with its place in its session, and move the session's clock to it."""
    session = memory.scope.session_key
    if session is None:
        return memory
    clock = state.clocks.get((memory.scope.tenant, session), 0)
    turn = clock + 1 if memory.turn is None else memory.turn
    state.clocks[memory.scope.tenant, session] = max(turn, clock)
    return replace(memory, turn=turn)


def _revise(making: Making, change: Revise) -> Receipt:
    state, given = making.state, change.memory
    place = (given.scope.tenant, given.id)
    current = state.rows.get(place)
    if current is None or current.memory.version != given.version - 1:
        raise stale(given, None if current is None else current.memory.version)
    standing = current.memory
    memory = merged(change, standing.importance, standing.accessed_at, standing.access_count)
    _move_key(state, current.memory, memory)
    kept = None if change.unembeds else current.vector
    vector = kept if change.vector is None else own_vector(change.vector, making.dimension)
    terms = current.terms if change.terms is None else change.terms
    distinctions = current.distinctions if change.distinctions is None else change.distinctions
    state.versions[place] = (*state.versions.get(place, ()), replace(current, activations=Frozen()))
    state.rows[place] = Stored(memory, vector, terms, current.activations, distinctions)
    return revised(memory)


def _move_key(state: State, old: Memory, new: Memory) -> None:
    if old.key is not None:
        del state.keys[old.scope.tenant, old.scope.home_key, old.key]
    if new.key is not None:
        place = (new.scope.tenant, new.scope.home_key, new.key)
        if place in state.keys:
            raise ConflictError(f"key: {new.key!r} is taken by another memory there. Use a new key.")
        state.keys[place] = new.id


def _touch(making: Making, change: Touch) -> None:
    state, tenant, session = making.state, change.scope.tenant, change.scope.session_key
    activations = {}
    if session is not None:
        state.clocks[tenant, session] = turn = state.clocks.get((tenant, session), 0) + 1
        activations = {session: turn} if change.activate else {}
    for place in dict.fromkeys((tenant, touched) for touched in change.ids):
        stored = state.rows.get(place)
        if stored is not None and stored.memory.forgotten_at is None:
            if change.at is not None and change.counts:
                before = Before(
                    change.at, stored.memory.version, stored.memory.accessed_at, stored.memory.access_count,
                    stored.memory.importance,
                )  # fmt: skip
                state.touches[place] = (*state.touches.get(place, ()), before)
            memory = _touched(stored.memory, change)
            state.rows[place] = replace(
                stored, memory=memory, activations=Frozen({**stored.activations, **activations})
            )


def _touched(memory: Memory, change: Touch) -> Memory:
    return replace(
        memory,
        accessed_at=later(memory.accessed_at, change.accessed_at),
        access_count=memory.access_count + change.access_count,
        importance=min(1.0, memory.importance + change.importance),
    )


def _derive(making: Making, change: Derive) -> None:
    state, place = making.state, (change.tenant, change.id)
    vector = own_vector(change.vector, making.dimension)
    lays_by = vector is not None and not making.is_home
    if lays_by:  # only vectors need a provider to answer
        _make_room(making)
    held = {stored.memory.version: stored for stored in state.all_of(place)}
    stored = held.get(change.version)
    if stored is None or stored.memory.content_hash != change.content_hash:
        return
    if lays_by and vector is not None:
        state.laid_by[*place, change.version] = (change.content_hash, vector)
        vector = None
    anew = replace(
        stored,
        vector=stored.vector if vector is None else vector,
        terms=stored.terms if change.terms is None else change.terms,
        distinctions=stored.distinctions if change.distinctions is None else change.distinctions,
    )
    if anew.memory.version == state.rows[place].memory.version:
        state.rows[place] = anew
    else:
        versions = state.versions[place]
        state.versions[place] = tuple(anew if one.memory.version == change.version else one for one in versions)


def _make_room(making: Making) -> None:
    """Let vectors be laid by for the handle's model; those of another one go."""
    state = making.state
    pin = state.pins.get("laid_by")
    if pin is None or not making.handle.matches(pin):
        state.laid_by.clear()
        state.pins["laid_by"] = making.handle.own()


def _erase(making: Making, change: Erase) -> None:
    state, tenant = making.state, change.tenant
    sessions = set()
    places = {(tenant, erased): None for erased in change.ids}
    for place in places:
        stored = state.rows.pop(place, None)
        if stored is None:
            raise missing(place[1])
        if stored.memory.key is not None:
            del state.keys[tenant, stored.memory.scope.home_key, stored.memory.key]
        state.touches.pop(place, None)
        state.versions.pop(place, None)
        sessions |= {stored.memory.scope.session_key} - {None}
    if change.sessions is not None:
        known = [session for of, session in state.clocks if of == tenant]
        sessions |= {session for session in known if is_session_of(session, change.sessions)}
    for asked in [asked for asked, known in state.requests.items() if (asked[0], known.id) in places]:
        del state.requests[asked]
    for laid in [laid for laid in state.laid_by if laid[:2] in places]:
        del state.laid_by[laid]
    left = state.of(tenant)
    over = sessions - {one.memory.scope.session_key for one in left}
    for session in over:
        state.clocks.pop((tenant, str(session)), None)
    for one in left:
        if over & one.activations.keys():
            kept = {session: turn for session, turn in one.activations.items() if session not in over}
            state.rows[tenant, one.memory.id] = replace(one, activations=Frozen(kept))


def _answer(making: Making, change: Answered) -> None:
    place = (change.home.tenant, change.home.home_key, change.key)
    if place in making.state.requests:
        raise answered_already(change)
    making.state.requests[place] = change


def _prune(making: Making, change: Prune) -> None:
    state = making.state
    dropped = {(change.tenant, *named) for named in change.versions}
    for place in dict.fromkeys(named[:2] for named in dropped):
        kept = [one for one in state.versions.get(place, ()) if (*place, one.memory.version) not in dropped]
        if place in state.versions:
            state.versions[place] = tuple(kept)
    for place in [place for place in state.touches if place[0] == change.tenant]:
        bound = change.touches_before
        if bound is not None:
            state.touches[place] = tuple(before for before in state.touches[place] if before.at >= bound)
    bound = change.requests_before
    for asked, known in list(state.requests.items()):
        if bound is not None and asked[0] == change.tenant and known.at < bound:
            del state.requests[asked]


def _lease(making: Making, change: Lease) -> None:
    holder, until = making.state.leases.get(change.name, (change.holder, change.now))
    if holder != change.holder and until > change.now:
        raise held_by(change.name, holder, until)
    making.state.leases[change.name] = (change.holder, change.until)


def _adopt(making: Making, _: Adopt) -> None:
    state, pin = making.state, making.state.pins.get("laid_by")
    if making.is_home and "pinned" in state.pins:
        return
    if pin is not None and not making.handle.matches(pin):
        raise PinnedError("store: the vectors that were laid by are of another model. Run reembed again.")
    for place, stored in list(state.rows.items()):
        state.rows[place] = _moved(state, stored)
        state.versions[place] = tuple(_moved(state, older) for older in state.versions.get(place, ()))
    state.laid_by.clear()
    state.pins.pop("laid_by", None)
    state.pins["pinned"] = making.handle.own()


def _moved(state: State, stored: Stored) -> Stored:
    memory = stored.memory
    laid_by = state.laid_by.get((memory.scope.tenant, memory.id, memory.version))
    fits = laid_by is not None and laid_by[0] == memory.content_hash
    return replace(stored, vector=laid_by[1] if laid_by is not None and fits else None)


MAKE: Final[Mapping[type, Callable[[Making, Any], Receipt | None]]] = {
    Add: _add,
    Revise: _revise,
    Touch: _touch,
    Derive: _derive,
    Erase: _erase,
    Answered: _answer,
    Prune: _prune,
    Lease: _lease,
    Adopt: _adopt,
}
"""Change -> what makes it in a draft; `StaleError` and its kin undo the draft."""
