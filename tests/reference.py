"""The reference store: the contract in dictionaries, obvious rather than fast. Stores are compared with it."""

from __future__ import annotations

import copy
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from datetime import date, datetime
from typing import Any, Final, Self

import numpy as np

from salience.batch import (
    COLUMNS,
    CONTEXT_RADIUS,
    CORRECTED,
    OWN_COPIES,
    WINDOW_RADIUS,
    Batch,
    Codes,
    Column,
    Entities,
    Floats,
    Lexicon,
    Postings,
    Ragged,
    Rows,
    Tokens,
    Vectors,
    Vectors32,
    coded,
    cosines,
)
from salience.errors import ConflictError, DamagedError, InputError, PinnedError, StoreError, Words
from salience.ports import (
    Add,
    Adopt,
    After,
    Answered,
    Change,
    Counts,
    Derive,
    Erase,
    Lease,
    LogRecall,
    Model,
    Near,
    Need,
    Prune,
    Revise,
    Revision,
    RevisionFilter,
    Selection,
    SessionSpan,
    Stored,
    Touch,
)
from salience.records import (
    ANY,
    FACETS,
    NARROWING,
    TIERS,
    Facets,
    Filter,
    Finding,
    LoggedRecall,
    Memory,
    OutOfScope,
    Receipt,
    Scope,
    SessionSummary,
)
from salience.records.checks import Frozen
from salience.store.pins import Handle, Pin
from salience.store.values import (
    MICROSECONDS,
    already,
    answered_already,
    carries_vectors,
    check_counts,
    count_changed,
    derives_vectors,
    fitting_tokens,
    held_by,
    is_session_of,
    later,
    means,
    merged,
    microseconds,
    missing,
    own_metadata,
    own_vector,
    revised,
    stale,
)
from salience.text import normalise, similar_term

Place = tuple[str, str]
"""Tenant and id."""


@dataclass(frozen=True, slots=True)
class Before:
    """The recall counters of a memory in one of its versions, as they were before a touch `at` an instant."""

    at: datetime
    version: int
    accessed_at: datetime | None
    access_count: int
    importance: float


@dataclass(frozen=True, slots=True)
class State:
    """All that is stored; what the tables hold never changes, it is replaced.

    Attributes:
        rows: (tenant, id) -> the memory as it stands.
        versions: (tenant, id) -> the versions before it, oldest first.
        touches: (tenant, id) -> its counters before each touch, oldest first.
        keys: (tenant, home, idempotency key) -> id.
        clocks: (tenant, session key) -> turns so far.
        requests: (tenant, home, idempotency key) -> what was answered.
        recalls: (tenant, id) -> entry of the recall log.
        leases: name -> holder, and until when.
        laid_by: (tenant, id, version) -> content hash, vector and tokens, of the model of the pin `laid_by`.
        pins: `pinned` and `laid_by` -> the models of the vectors in the rows, and of those laid by.
    """

    rows: dict[Place, Stored] = field(default_factory=dict)
    versions: dict[Place, tuple[Stored, ...]] = field(default_factory=dict)
    touches: dict[Place, tuple[Before, ...]] = field(default_factory=dict)
    keys: dict[tuple[str, str, str], str] = field(default_factory=dict)
    clocks: dict[Place, int] = field(default_factory=dict)
    requests: dict[tuple[str, str, str], Answered] = field(default_factory=dict)
    recalls: dict[Place, LoggedRecall] = field(default_factory=dict)
    leases: dict[str, tuple[str, datetime]] = field(default_factory=dict)
    laid_by: dict[tuple[str, str, int], tuple[str, Vectors32, Tokens | None]] = field(default_factory=dict)
    pins: dict[str, Pin] = field(default_factory=dict)

    def draft(self) -> State:
        """Return a copy of this state; the values in the tables are frozen."""
        return State(*(dict(getattr(self, table.name)) for table in fields(self)))

    def of(self, tenant: str) -> list[Stored]:
        """Return the memories of a tenant, forgotten ones too, by id."""
        return [self.rows[place] for place in sorted(place for place in self.rows if place[0] == tenant)]

    def live(self, tenant: str, as_of: datetime | None = None) -> list[Stored]:
        """Return the live memories of a tenant, by id, as they stand or as they stood."""
        held = self.of(tenant)
        if as_of is not None:
            held = [then for now in held if (then := self.then((tenant, now.memory.id), as_of)) is not None]
        return [stored for stored in held if stored.memory.forgotten_at is None]

    def all_of(self, place: Place) -> tuple[Stored, ...]:
        """Return the versions of a memory, oldest first, the current one last; none if it is not there."""
        return (*self.versions.get(place, ()), self.rows[place]) if place in self.rows else ()

    def then(self, place: Place, as_of: datetime) -> Stored | None:
        """Return a memory as it stood at an instant; None where it was not stored yet."""
        known = [stored for stored in self.all_of(place) if stored.memory.changed_at <= as_of]
        if not known:
            return None
        stored = replace(known[-1], activations=Frozen())
        for before in self.touches.get(place, ()):
            if before.version == stored.memory.version and before.at > as_of:
                return replace(stored, memory=_with(before, stored))
        return stored

    def counts(self) -> tuple[int, int]:
        """Return how many memories and how many older versions there are."""
        return len(self.rows), sum(map(len, self.versions.values()))


def _is_within(moment: datetime, filter: RevisionFilter) -> bool:
    return (filter.since is None or moment >= filter.since) and (filter.until is None or moment < filter.until)


def _newness(revision: Revision) -> tuple[datetime, str, int]:
    return revision.memory.changed_at, revision.memory.id, revision.memory.version


def _with(before: Before, stored: Stored) -> Memory:
    return replace(
        stored.memory,
        accessed_at=before.accessed_at,
        access_count=before.access_count,
        importance=before.importance,
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
    tokens = _own_tokens(change.stored.tokens, vector)
    state.rows[tenant, memory.id] = replace(
        change.stored, memory=memory, vector=vector, activations=activations, tokens=tokens
    )
    state.versions[tenant, memory.id] = tuple(_as_version(older, making.dimension) for older in change.history)
    if memory.key is not None:
        state.keys[tenant, home, memory.key] = memory.id
    return Receipt(memory, "created")


def _as_version(stored: Stored, dimension: int) -> Stored:
    vector = own_vector(stored.vector, dimension)
    tokens = _own_tokens(stored.tokens, vector)
    return replace(stored, memory=own_metadata(stored.memory), vector=vector, activations=Frozen(), tokens=tokens)


def _own_tokens(tokens: Tokens | None, vector: Vectors32 | None) -> Tokens | None:
    """Return a copy of token vectors; None without a vector."""
    return None if tokens is None or vector is None else fitting_tokens(tokens).copy()


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
    tokens = None if change.unembeds else current.tokens
    tokens = tokens if change.vector is None else _own_tokens(change.tokens, vector)
    terms = current.terms if change.terms is None else change.terms
    distinctions = current.distinctions if change.distinctions is None else change.distinctions
    state.versions[place] = (*state.versions.get(place, ()), replace(current, activations=Frozen()))
    event = current.event if change.distinctions is None else change.event
    state.rows[place] = Stored(memory, vector, terms, current.activations, distinctions, tokens, event)
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
        tokens = _own_tokens(change.tokens, vector)
        state.laid_by[*place, change.version] = (change.content_hash, vector, tokens)
        vector = None
    if change.tokens is not None and change.vector is None and not making.is_home:
        _add_to_laid_by(making, change)
    kept = stored.tokens
    if making.is_home and vector is not None:
        kept = _own_tokens(change.tokens, vector)
    elif making.is_home and change.tokens is not None and stored.vector is not None:
        kept = _own_tokens(change.tokens, stored.vector)
    anew = replace(
        stored,
        vector=stored.vector if vector is None else vector,
        terms=stored.terms if change.terms is None else change.terms,
        distinctions=stored.distinctions if change.distinctions is None else change.distinctions,
        tokens=kept,
        event=stored.event if change.distinctions is None else change.event,
    )
    if change.relations is not None:
        anew = replace(anew, memory=replace(anew.memory, relations=change.relations))
    if anew.memory.version == state.rows[place].memory.version:
        state.rows[place] = anew
    else:
        versions = state.versions[place]
        state.versions[place] = tuple(anew if one.memory.version == change.version else one for one in versions)


def _add_to_laid_by(making: Making, change: Derive) -> None:
    """Lay tokens beside the vector that is laid by for the handle's model."""
    pin, name = making.state.pins.get("laid_by"), (change.tenant, change.id, change.version)
    laid = making.state.laid_by.get(name)
    if laid is not None and laid[0] == change.content_hash and pin is not None and making.handle.matches(pin):
        making.state.laid_by[name] = (*laid[:2], _own_tokens(change.tokens, laid[1]))


def _make_room(making: Making) -> None:
    """Let vectors be laid by for the handle's model; those of another one go."""
    state = making.state
    pin = state.pins.get("laid_by")
    if pin is None or not making.handle.matches(pin):
        state.laid_by.clear()
        state.pins["laid_by"] = making.handle.pin()


def _log(making: Making, change: LogRecall) -> None:
    entry, tenant = change.entry, change.scope.tenant
    if all((tenant, cited) in making.state.rows for cited in entry.cited):
        making.state.recalls.setdefault((tenant, entry.id), entry)


def _erased_recalls(state: State, change: Erase) -> list[Place]:
    """Return the entries of the recall log that a change deletes."""
    return [
        place
        for place, entry in state.recalls.items()
        if place[0] == change.tenant
        and (
            entry.cited & {*change.ids}
            or (
                change.recalls is not None
                and all(
                    isinstance(getattr(entry.scope, name), str) if value is ANY else getattr(entry.scope, name) == value
                    for name, value in change.recalls.items()
                )
            )
        )
    ]


def _erase(making: Making, change: Erase) -> None:
    state, tenant = making.state, change.tenant
    for place in _erased_recalls(state, change):
        del state.recalls[place]
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
    for place, entry in list(state.recalls.items()):
        if change.now is not None and place[0] == change.tenant and entry.expires_at <= change.now:
            del state.recalls[place]
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
    state.pins["pinned"] = making.handle.pin()


def _moved(state: State, stored: Stored) -> Stored:
    memory = stored.memory
    laid_by = state.laid_by.get((memory.scope.tenant, memory.id, memory.version))
    fits = laid_by is not None and laid_by[0] == memory.content_hash
    vector, tokens = laid_by[1:] if laid_by is not None and fits else (None, None)
    return replace(stored, vector=vector, tokens=tokens)


MAKE: Final[Mapping[type, Callable[[Making, Any], Receipt | None]]] = {
    Add: _add,
    Revise: _revise,
    Touch: _touch,
    LogRecall: _log,
    Derive: _derive,
    Erase: _erase,
    Answered: _answer,
    Prune: _prune,
    Lease: _lease,
    Adopt: _adopt,
}
"""Change -> what makes it in a draft; `StaleError` and its kin undo the draft."""


Neighbours = list[dict[int, Stored]]
"""For each memory: how many places further on in its session (negative: before it) -> the memory there."""


def neighbours(memories: Sequence[Stored], visible: Sequence[Stored], now: datetime) -> Neighbours:
    """Return the neighbours, up to `WINDOW_RADIUS` places away, of each of some `visible` memories."""
    sessions: dict[str, list[Stored]] = {}
    for stored in visible:
        key = stored.memory.scope.session_key
        if key is not None and (stored.memory.expires_at is None or stored.memory.expires_at > now):
            sessions.setdefault(key, []).append(stored)
    for held in sessions.values():
        held.sort(key=lambda stored: (stored.memory.created_at, stored.memory.turn or 0, stored.memory.id))
    places = {stored.memory.id: (key, place) for key, held in sessions.items() for place, stored in enumerate(held)}
    found: Neighbours = []
    for stored in memories:
        key, place = places.get(stored.memory.id, ("", 0))
        held = sessions.get(key, [])
        steps = (step for step in range(-WINDOW_RADIUS, WINDOW_RADIUS + 1) if step and 0 <= place + step < len(held))
        found.append({step: held[place + step] for step in steps})
    return found


def is_embedded(stored: Stored) -> bool:
    """Return whether a memory has a vector to search by: zeros are of a text of which the model knows no word."""
    return stored.vector is not None and bool(stored.vector.any())


def cosine_to(need: Need, stored: Stored) -> float:
    """Return the cosine of the query, in its own words or a speaker's, and a memory; 0 where either has no vector."""
    query = (
        need.vector if stored.memory.speaker is None or need.first_person_vector is None else need.first_person_vector
    )
    if need.vector is None or query is None or stored.vector is None:
        return 0.0
    return float(cosines(stored.vector[None], query)[0])


def context_cosine(memories: Sequence[Stored], around: Neighbours, need: Need) -> Floats:
    """Return the mean cosine of each memory and its context, those with a vector; 0 where none has."""
    means = []
    for stored, near in zip(memories, around, strict=True):
        steps = [step for distance in range(1, CONTEXT_RADIUS + 1) for step in (-distance, distance) if step in near]
        held = [one for one in (stored, *(near[step] for step in steps)) if is_embedded(one)]
        total = 0.0
        for one in held:
            total += cosine_to(need, one)
        means.append(total / len(held) if held else 0.0)
    return np.array(means, np.float64)


def corrected(visible: Sequence[Stored], need: Need) -> dict[str, str]:
    """Return term of the need that no visible memory holds -> the similar term that one holds, or as the need says."""
    if not need.correctable:
        return dict(need.corrections)
    held = Counter(term for stored in visible if stored.memory.is_live(need.now) for term in set(stored.terms))
    unknown = [term for term in need.terms if term in need.correctable and term not in held]
    similar = {term: similar_term(term, held.__getitem__) for term in unknown}
    return {term: other for term, other in similar.items() if other is not None and other not in need.terms}


def windows(batch: Sequence[Stored], visible: Sequence[Stored], need: Need) -> Lexicon:
    """Return the statistics of the windows of the `visible` memories, and the postings of those of `batch`."""
    window = {
        stored.memory.id: Counter((*stored.terms * OWN_COPIES, *(term for one in near.values() for term in one.terms)))
        for stored, near in zip(visible, neighbours(visible, visible, need.now), strict=True)
    }
    own = [window[stored.memory.id] for stored in batch]
    return lexicon(own, list(window.values()), need.terms, corrected(visible, need))


def lexicon(
    own: Sequence[Counter[str]],
    visible: Sequence[Counter[str]],
    terms: tuple[str, ...],
    corrections: Mapping[str, str],
) -> Lexicon:
    """Return the statistics of the terms of the `visible` texts, and the postings of those texts that are `own`."""
    lengths = [counts.total() for counts in visible]
    searched = [(corrections.get(term, term), CORRECTED if term in corrections else 1.0) for term in terms]
    return Lexicon(
        documents=len(visible),
        average_length=sum(lengths) / len(lengths) if lengths else 0.0,
        document_frequency=np.array([sum(term in counts for counts in visible) for term, _ in searched], np.float64),
        postings=Postings.of([_posting(own, term, share) for term, share in searched]),
        length=np.array([counts.total() for counts in own], np.float64),
    )


def _posting(texts: Sequence[Counter[str]], term: str, share: float) -> tuple[Rows, Floats]:
    """Return the rows of the texts that hold a term, and how often each does, times `share`."""
    frequency = np.array([counts[term] for counts in texts], np.float64)
    rows = np.flatnonzero(frequency)
    return rows, share * frequency[rows]


class Distinctions(dict[str, int]):
    """Numbers distinctions in the order in which they come up, in codes as of `batch.coded`."""

    def __missing__(self, distinction: str) -> int:
        self[distinction] = code = coded(distinction, len(self))
        return code


@dataclass(frozen=True, slots=True)
class Candidates:
    """The memories of an answer, and those that they are told of against.

    Attributes:
        rows: the memories, by id.
        cosine: float64[len(rows)], to the query.
        vectors: float32[len(rows), d], zeros for a memory without a vector.
        live, visible: the tenant's memories, and of these the ones that the scope shows.
        need: what to bring.
        clock: of the session that asks.
    """

    rows: list[Stored]
    cosine: Floats
    vectors: Vectors32
    live: list[Stored]
    visible: list[Stored]
    need: Need
    clock: int

    @property
    def codes(self) -> dict[str, int]:
        """Id of a live memory -> its number."""
        return {stored.memory.id: number for number, stored in enumerate(self.live)}


def batch_of(known: Candidates) -> Batch:
    """Return the candidates with what `known.need` asks for."""
    need, rows, visible = known.need, known.rows, known.visible
    corrections = corrected(visible, need)
    return Batch(
        np.array([stored.memory.id for stored in rows], dtype=object),
        {name: _column(name, known) for name in sorted(need.columns)},
        _vectors(known) if "vectors" in need.parts else None,
        lexicon(_counts(rows), _counts(visible), need.terms, corrections) if need.terms else None,
        windows(rows, visible, need) if need.terms and "windows" in need.parts else None,
        _entities(rows, visible, need.names) if "entities" in need.parts else None,
        *(_distinctions(rows, need.asked) if "distinctions" in need.parts else (None, None)),
        rivals={word: _holding(rows, word) for word in need.rivals},
        neighbours=_neighbour_ids(known) if "neighbours" in need.parts else None,
        successors=np.array([id_ for _, id_ in _successors(known)], object) if "successors" in need.parts else None,
        corrected=corrections,
    )


def _neighbour_ids(known: Candidates) -> Column:
    found = np.full((len(known.rows), 2), "", np.object_)
    for row, near in enumerate(neighbours(known.rows, known.visible, known.need.now)):
        for place, step in enumerate((-1, 1)):
            if step in near:
                found[row, place] = near[step].memory.id
    return found


def _vectors(known: Candidates) -> Vectors:
    places = [row if is_embedded(stored) else -1 for row, stored in enumerate(known.rows)]
    return Vectors(known.vectors, np.array(places, np.intp))


_OF_MEMORY: Final[Mapping[str, Callable[[Memory], float]]] = {
    "importance": lambda memory: memory.importance,
    "weight": lambda memory: memory.weight,
    "created_at": lambda memory: microseconds(memory.created_at) / MICROSECONDS,
    "updated_at": lambda memory: microseconds(memory.updated_at) / MICROSECONDS,
    "accessed_at": lambda memory: microseconds(memory.accessed_at or memory.created_at) / MICROSECONDS,
    "expires_at": lambda memory: (
        np.inf if memory.expires_at is None else microseconds(memory.expires_at) / MICROSECONDS
    ),
    "access_count": lambda memory: memory.access_count,
    "tier": lambda memory: TIERS.index(memory.tier),
    "is_global": lambda memory: memory.scope.project is None,
}


def _codes(known: Candidates) -> list[int]:
    codes = known.codes
    return [codes[stored.memory.id] for stored in known.rows]


def _supersedes(known: Candidates) -> list[int]:
    codes, shown = known.codes, {stored.memory.id for stored in known.visible}
    named = [stored.memory.supersedes for stored in known.rows]
    return [codes[target] if target in shown else -1 for target in named]


def _successors(known: Candidates) -> list[tuple[float, str]]:
    """Return the probability that each memory is replaced, and the id of the one that replaces it."""
    now, found = known.need.now, dict[str, tuple[float, str]]()
    for one in (stored.memory for stored in known.visible):
        if one.expires_at is None or one.expires_at > now:
            for link in one.relations or ():
                if link.kind == "replaces" and link.id != one.id:
                    found[link.id] = max(found.get(link.id, (0.0, "")), (link.probability, one.id))
    return [found.get(stored.memory.id, (0.0, "")) for stored in known.rows]


def _fact(memory: Memory) -> tuple[object, str | None]:
    return memory.scope.user_id, memory.fact_key


def _facts(known: Candidates) -> list[int]:
    facts = [_fact(stored.memory) for stored in known.rows]
    number = {fact: number for number, fact in enumerate(facts)}
    return [-1 if fact[1] is None else number[fact] for fact in facts]


def _turns(known: Candidates) -> list[float]:
    if known.need.as_of is not None:
        return [np.inf] * len(known.rows)
    turns = [stored.activations.get(known.need.scope.session_key or "") for stored in known.rows]
    return [np.inf if turn is None else known.clock - turn for turn in turns]


def _context_cosine(known: Candidates) -> Floats:
    around = neighbours(known.rows, known.visible, known.need.now)
    return context_cosine(known.rows, around, known.need)


def _speakers(known: Candidates) -> list[int]:
    speakers = [stored.memory.speaker for stored in known.rows]
    number = {speaker: number for number, speaker in enumerate(speakers)}
    return [-1 if speaker is None else number[speaker] for speaker in speakers]


def _speaker_named(known: Candidates) -> list[bool]:
    names = known.need.speakers
    return [
        means(names, stored.memory.speaker) if stored.memory.speaker is not None
        else any(normalise(entity) in names for entity in stored.memory.entities)
        for stored in known.rows
    ]  # fmt: skip


_OF_BATCH: Final[Mapping[str, Callable[[Candidates], list[bool] | list[int] | list[float] | Floats]]] = {
    "cosine": lambda known: known.cosine,
    "context_cosine": _context_cosine,
    "embedded": lambda known: [is_embedded(stored) for stored in known.rows],
    "speaker": _speakers,
    "speaker_named": _speaker_named,
    "code": _codes,
    "supersedes": _supersedes,
    "replaced": lambda known: [chance for chance, _ in _successors(known)],
    "asks": lambda known: ["claim:asks" in stored.distinctions for stored in known.rows],
    "fact": _facts,
    "turns_since_activation": _turns,
    "event_start": lambda known: [np.inf if one.event is None else _seconds(one.event[0]) for one in known.rows],
    "event_end": lambda known: [-np.inf if one.event is None else _seconds(one.event[1]) for one in known.rows],
}


def _seconds(moment: datetime) -> float:
    return microseconds(moment) / MICROSECONDS


def _column(name: str, known: Candidates) -> Column:
    """Return column `name` of the batch."""
    if name in _OF_BATCH:
        return np.array(_OF_BATCH[name](known), COLUMNS[name].dtype)
    return np.array([_OF_MEMORY[name](stored.memory) for stored in known.rows], COLUMNS[name].dtype)


def _counts(held: list[Stored]) -> list[Counter[str]]:
    return [Counter(stored.terms) for stored in held]


def _distinctions(rows: list[Stored], asked: tuple[str, ...]) -> tuple[Ragged, Column]:
    codes = Distinctions()
    lists = Ragged.of([[codes[one] for one in stored.distinctions] for stored in rows])
    return lists, np.array([codes[one] for one in asked], np.int64)


def _holding(rows: list[Stored], word: str) -> Rows:
    return np.flatnonzero([word in (*stored.terms, *stored.distinctions) for stored in rows])


def _entities(rows: list[Stored], visible: list[Stored], names: tuple[str, ...]) -> Entities:
    """Return the entities of `rows`; those that some visible memory names are the known ones."""
    spellings = dict.fromkeys(name for stored in visible for name in stored.memory.entities)
    codes: dict[str, int] = {}
    code = {name: codes.setdefault(normalise(name), len(codes)) for name in spellings}
    of_row = [list(dict.fromkeys(code[name] for name in stored.memory.entities)) for stored in rows]
    asked = dict.fromkeys(normalise(name) for name in names)
    of_query: Codes = np.array([codes[name] for name in asked if name in codes], np.int64)
    named = [{code[name] for name in stored.memory.entities} for stored in visible]
    frequency = np.array([sum(entity in held for held in named) for entity in of_query.tolist()], np.float64)
    return Entities(Ragged.of(of_row), of_query, frequency, len(visible))


@dataclass(slots=True)
class _Shared:
    """What the handles on a store have in common; there is no state once it is closed."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    state: State | None = field(default_factory=State)


def _facet(memory: Memory, name: str) -> str:
    return getattr(memory, name, None) or getattr(memory.scope, name, None) or ""


def _linked(memory: Memory) -> tuple[str | None, ...]:
    return memory.supersedes, *(link.id for link in memory.relations or ()), *memory.sources


def _chosen(selection: Selection, memory: Memory, ignored: str = "") -> bool:
    return all(_facet(memory, name) in values for name, values in selection.values.items() if name != ignored)


class ReferenceStore:
    """Memories of one process, gone with it.

    Args:
        embedder: name of the embedder that the vectors come from.
        dimension: their length.
        fingerprint: as in `Model`.
    """

    def __init__(self, embedder: str, dimension: int, fingerprint: Callable[[], Vectors32] | None = None) -> None:
        self._handle = Handle(Model(embedder, dimension, fingerprint), ":memory:")
        self._shared = _Shared()

    def apply(self, changes: Sequence[Change], *, counted: bool = False) -> list[Receipt]:
        """Make all changes or none; return a receipt for each `Add` and `Revise`, in order.

        Raises:
            ConflictError: an idempotency key or id that stands for other content; `StaleError` for a stale revision.
            PinnedError: vectors of another model than the store is pinned to.
            StoreError: the store is closed, or the count of memories or versions is not what the changes make it.
        """
        brings = carries_vectors(changes) or derives_vectors(changes)
        if brings or any(isinstance(change, Adopt) for change in changes):
            self._handle.pin()  # before the lock: it may ask a provider
        with self._opened() as state:
            draft = state.draft()
            self._pin(draft, changes)
            made = [MAKE[type(change)](Making(draft, self._handle), change) for change in changes]
            receipts = [receipt for receipt in made if receipt is not None]
            if counted:
                _check_counts(state, draft, changes, receipts)
            self._shared.state = draft
        return receipts

    def gather(self, need: Need) -> Batch:
        """Return the candidates as columns, rows ordered by id."""
        with self._opened() as state:
            live = state.live(need.scope.tenant, need.as_of)
            clock = state.clocks.get((need.scope.tenant, need.scope.session_key or ""), 0)
            pin = state.pins.get("pinned")
        if need.vector is not None or need.near is not None:
            self._handle.check_vectors(pin)
        visible = [stored for stored in live if need.scope.sees(stored.memory.scope)]
        wanted = [stored for stored in visible if need.filter.accepts(stored.memory)]
        matrix = _matrix(wanted, self._handle.model.dimension if pin is None else pin.dimension)
        cosine = np.array([cosine_to(need, stored) for stored in wanted], np.float64)
        rows = _picked(wanted, matrix, cosine, need)
        known = Candidates([wanted[row] for row in rows], cosine[rows], matrix[rows], live, visible, need, clock)
        beyond = float(np.delete(cosine, rows).max(initial=-1.0))
        return replace(batch_of(known), complete=len(rows) == len(wanted), beyond=beyond)

    def fetch(self, scope: Scope, ids: Sequence[str], *, as_of: datetime | None = None) -> list[Memory]:
        """Return the live memories of these ids (whole or short) visible in `scope`, as asked."""
        with self._opened() as state:
            visible = [stored.memory for stored in state.live(scope.tenant, as_of) if scope.sees(stored.memory.scope)]
        by_id = {memory.id: memory for memory in visible}
        return [by_id[found] for asked in ids if (found := _meant(visible, asked)) is not None]

    def token_vectors(self, scope: Scope, ids: Sequence[str], *, as_of: datetime | None = None) -> list[Tokens | None]:
        """Return the token vectors of the live memories of these whole ids visible in `scope`; None where absent."""
        with self._opened() as state:
            visible = [stored for stored in state.live(scope.tenant, as_of) if scope.sees(stored.memory.scope)]
        found = {stored.memory.id: stored.tokens for stored in visible}
        return [found.get(asked) for asked in ids]

    def speakers(self, scope: Scope, names: Sequence[str], *, as_of: datetime | None = None) -> list[str]:
        """Return who said live memories visible in `scope` and is meant by one of some names, sorted and distinct."""
        with self._opened() as state:
            visible = [stored.memory for stored in state.live(scope.tenant, as_of) if scope.sees(stored.memory.scope)]
        return sorted({memory.speaker for memory in visible if memory.speaker and means(names, memory.speaker)})

    def sessions(self, scope: Scope, *, as_of: datetime | None = None) -> list[SessionSpan]:
        """Return the sessions of live memories visible in `scope`, in the order of their first memory."""
        times: dict[tuple[str | None, ...], list[datetime]] = {}
        with self._opened() as state:
            for stored in state.live(scope.tenant, as_of):
                home = stored.memory.scope
                if scope.sees(home) and home.session_id is not None:
                    key = (str(home.environment), home.user_id, home.session_id)
                    times.setdefault(key, []).append(stored.memory.created_at)
        spans = [SessionSpan(str(key[2]), min(held), max(held)) for key, held in times.items()]
        return sorted(spans, key=lambda span: (span.start, span.id))

    def find_by_key(self, home: Scope, keys: Sequence[str]) -> list[Memory]:
        """Return the memories, forgotten ones too, that live at `home` under these idempotency keys, in any order."""
        with self._opened() as state:
            places = [(home.tenant, home.home_key, key) for key in dict.fromkeys(keys)]
            return [state.rows[home.tenant, state.keys[place]].memory for place in places if place in state.keys]

    def answered(self, home: Scope, key: str) -> Answered | None:
        """Return what was answered to a request from `home` under an idempotency key; None if none is known."""
        with self._opened() as state:
            return state.requests.get((home.tenant, home.home_key, key))

    def recalls(
        self,
        scope: Scope,
        now: datetime,
        limit: int = 100,
        *,
        before: str | None = None,
        text: str | None = None,
        id: str | None = None,
        memory_id: str | None = None,
    ) -> list[LoggedRecall]:
        """Return up to `limit` entries of the recall log that belong to `scope`, newest first."""
        with self._opened() as state:
            found = [
                entry
                for (tenant, name), entry in sorted(state.recalls.items(), reverse=True)
                if tenant == scope.tenant
                and all(getattr(scope, one) in (ANY, getattr(entry.scope, one)) for one in ("environment", *NARROWING))
                and scope.session_id in (None, entry.scope.session_id)
                and entry.expires_at > now
                and (before is None or name < before)
                and (text is None or text.lower() in entry.question.lower())
                and id in (None, name)
                and (memory_id is None or any(one.endswith(memory_id) for one in entry.cited))
            ]
        return found[:limit]

    def count_logged(self, erase: Erase) -> int:
        """Return how many entries of the recall log a change would delete."""
        with self._opened() as state:
            return len(_erased_recalls(state, erase))

    def scan(
        self,
        scope: Scope,
        after: str = "",
        limit: int = 100,
        filter: Filter = Filter(),
        *,
        forgotten: bool = False,
        versions: bool = False,
        newest_first: bool = False,
        passed: list[DamagedError] | None = None,
    ) -> list[Stored]:
        """Return up to `limit` visible memories whose id is greater than `after`, in the order of ids or reversed."""
        with self._opened() as state:
            page = [
                stored
                for stored in (reversed(state.of(scope.tenant)) if newest_first else state.of(scope.tenant))
                if (not after or stored.memory.id < after if newest_first else stored.memory.id > after)
                and scope.sees(stored.memory.scope)
                and filter.accepts(stored.memory)
                and (forgotten or stored.memory.forgotten_at is None)
            ][:limit]
            older = state.versions if versions else {}
            return [item for stored in page for item in (*older.get((scope.tenant, stored.memory.id), ()), stored)]

    def history(self, scope: Scope, id: str) -> list[Stored]:
        """Return the versions of the memory of an id (whole or short), live or not, visible in `scope`."""
        with self._opened() as state:
            visible = [stored.memory for stored in state.of(scope.tenant) if scope.sees(stored.memory.scope)]
            found = _meant(visible, id)
            return [] if found is None else list(state.all_of((scope.tenant, found)))

    def revisions(
        self,
        scope: Scope,
        before: tuple[datetime, str, int] | None = None,
        limit: int = 100,
        filter: RevisionFilter = RevisionFilter(),
    ) -> list[Revision]:
        """Return up to `limit` versions of visible memories, live or not, the newest first."""
        found = [
            one
            for one in self._revisions(scope, filter)
            if filter.change in (None, one.memory.change)
            and filter.changed_by in (None, one.memory.changed_by)
            and _is_within(one.memory.changed_at, filter)
            and (before is None or _newness(one) < before)
        ]
        return sorted(found, key=_newness, reverse=True)[:limit]

    def daily(self, scope: Scope, filter: RevisionFilter) -> list[tuple[date, str, int]]:
        """Return day in UTC, change and count of versions; memories by text as `date`, by last recall as `recall`."""
        found = [(one.memory.changed_at, one.memory.change) for one in self._revisions(scope, filter)]
        for one in self._revisions(scope, filter):
            if one.until is None:
                found.append((one.memory.created_at, "date"))
                found += [(one.memory.accessed_at, "recall")] if one.memory.accessed_at is not None else []
        counts = Counter((moment.date(), change) for moment, change in found if _is_within(moment, filter))
        return [(day, change, count) for (day, change), count in counts.items()]

    def _revisions(self, scope: Scope, filter: RevisionFilter) -> list[Revision]:
        accepts = Filter(level=filter.level)
        with self._opened() as state:
            held = [state.all_of((scope.tenant, stored.memory.id)) for stored in state.of(scope.tenant)]
        found = []
        for each in held:
            memories = [stored.memory for stored in each]
            before = [None, *memories[:-1]]
            ends = [*(memory.changed_at for memory in memories[1:]), None]
            for memory, previous, until in zip(memories, before, ends, strict=True):
                is_next = previous is not None and previous.version == memory.version - 1
                if scope.sees(memory.scope) and accepts.accepts(memory):
                    found.append(Revision(memory, previous if is_next else None, until))
        return found

    def out_of_scope(self, selection: Selection, limit: int = 5) -> list[OutOfScope]:
        """Return how many selected memories each place has that `scope.widened()` shows and `scope` does not."""
        wide = replace(selection, scope=selection.scope.widened())
        homes = [one.scope for one in self._selected(wide) if _chosen(selection, one)]
        counts = Counter(home.without_session for home in homes if not selection.scope.sees(home))
        ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0].home_key))
        return [OutOfScope(home, count) for home, count in ordered[:limit]]

    def due(self, tenant: str, now: datetime) -> list[Memory]:
        """Return the memories of a tenant that no change hides, but whose `expires_at` is not after `now`, by id."""
        with self._opened() as state:
            return [one.memory for one in state.live(tenant) if not one.memory.is_live(now)]

    def may_be_due(self, tenant: str, now: datetime) -> bool:
        """Return whether `due` returns any."""
        return bool(self.due(tenant, now))

    def counts(self, scope: Scope, now: datetime) -> Counts:
        """Return the numbers of live memories visible in `scope`, with all values of each of `FACETS`."""
        found = self.facets(Selection(scope=scope, values={"status": ("live",)}, now=now), sys.maxsize)
        with self._opened() as state:
            seen = [one for one in state.live(scope.tenant) if scope.sees(one.memory.scope)]
        live = [one for one in seen if one.memory.is_live(now)]
        values = {name: found.values[name] for name in FACETS}
        values["status"] = {"live": found.total} if found.total else {}
        return Counts(found.total, values, sum(one.vector is None for one in live))

    def browse(
        self,
        selection: Selection,
        order: str,
        limit: int,
        *,
        ascending: bool = False,
        after: After | None = None,
        passed: list[DamagedError] | None = None,
    ) -> list[Memory]:
        """Return up to `limit` selected memories, live or not, sorted by `order`, then by id."""

        def key(memory: Memory) -> tuple[float, str]:
            value = 0 if order == "id" else getattr(memory, order) or 0
            return (microseconds(value) if isinstance(value, datetime) else value), memory.id

        found = sorted((one for one in self._selected(selection) if _chosen(selection, one)), key=key)
        found = found if ascending else found[::-1]
        if after is not None:
            found = [one for one in found if (key(one) > tuple(after) if ascending else key(one) < tuple(after))]
        return found[:limit]

    def facets(self, selection: Selection, top: int = 20) -> Facets:
        """Return the number of selected memories, and the `top` most frequent values of each facet."""
        among = self._selected(selection)
        counts = {name: Counter(_facet(one, name) for one in among if _chosen(selection, one, name)) for name in FACETS}
        chosen = [one for one in among if _chosen(selection, one)]
        counts["tag"] = Counter(tag for one in chosen for tag in one.tags)
        ordered = {name: sorted(found.items(), key=lambda pair: (-pair[1], pair[0])) for name, found in counts.items()}
        return Facets(
            len(chosen),
            {name: dict(found[:top]) for name, found in ordered.items()},
            {name: len(found) for name, found in counts.items()},
        )

    def browse_sessions(self, selection: Selection, limit: int, after: After | None = None) -> list[SessionSummary]:
        """Return up to `limit` sessions of selected memories: the latest `end` first, then the greatest `key`."""
        times: dict[tuple[Any, ...], list[datetime]] = {}
        for one in self._selected(selection):
            if one.scope.session_id is not None and _chosen(selection, one):
                home = one.scope.environment, one.scope.user_id, one.scope.session_id
                times.setdefault(home, []).append(one.created_at)
        found = [SessionSummary(*home, len(of), min(of), max(of)) for home, of in times.items()]
        found.sort(key=lambda one: (microseconds(one.end), one.key), reverse=True)
        return [one for one in found if after is None or (microseconds(one.end), one.key) < tuple(after)][:limit]

    def count_entities(self, selection: Selection) -> dict[str, int]:
        """Return the number of selected memories per entity that they name: the most frequent first, then by name."""
        chosen = [one for one in self._selected(selection) if _chosen(selection, one)]
        counts = Counter(name for one in chosen for name in dict.fromkeys(one.entities))
        return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))

    def _selected(self, selection: Selection) -> list[Memory]:
        with self._opened() as state:
            every = [stored.memory for stored in state.of(selection.scope.tenant)]
        every = every if selection.now is None else [one.seen_at(selection.now) for one in every]
        return [
            one
            for one in every
            if selection.scope.sees(one.scope)
            and all(word.lower() in one.content.lower() for word in selection.words)
            and selection.filter.accepts(one)
            and (not selection.ids or not {one.id, one.short_id}.isdisjoint(selection.ids))
            and (not selection.supersedes or one.supersedes in selection.supersedes)
            and (not selection.entities or not set(selection.entities).isdisjoint(one.entities))
            and (not selection.linked_to or not set(selection.linked_to).isdisjoint(_linked(one)))
        ]

    def unembedded(
        self, after: tuple[str, str, int] = ("", "", 0), limit: int = 100, *, tenant: str | None = None
    ) -> list[Stored]:
        """Return up to `limit` versions of all tenants without a vector of this handle's model, in order."""
        with self._opened() as state:
            pin, laid_by = state.pins.get("pinned"), state.pins.get("laid_by")
        is_home = pin is None or self._handle.matches(pin)  # outside the lock: it may ask a provider
        is_known = laid_by is not None and self._handle.matches(laid_by)
        with self._opened() as state:
            vectors = dict(state.laid_by) if is_known else {}
            held = [(place, one) for place in sorted(state.rows) for one in state.all_of(place)]
        lacking = []
        for place, stored in held:
            name = (*place, stored.memory.version)
            laid = vectors[name][0] == stored.memory.content_hash if name in vectors else False
            if tenant in (None, place[0]) and name > after and not (stored.vector is not None if is_home else laid):
                lacking.append(stored)
        return lacking[:limit]

    def with_model(self, model: Model) -> Self:
        """Return a handle on this store for an engine that embeds with `model`."""
        made = copy.copy(self)
        made._handle = Handle(model, ":memory:")
        return made

    def tenants(self) -> dict[str, int]:
        """Return the number of memories of each tenant that has some, forgotten ones included."""
        with self._opened() as state:
            return dict(Counter(tenant for tenant, _ in state.rows))

    moved, sees_all, is_degraded = False, True, False

    def connections(self) -> dict[str, int]:
        return {}

    def pinned(self) -> Model | None:
        """Return the model that the store is pinned to, with any known fingerprint; None before its first memory."""
        with self._opened() as state:
            pin = state.pins.get("pinned")
        return None if pin is None else pin.model()

    def check(self, *, repair: bool = False) -> list[Finding]:
        """Return nothing: dictionaries have no books that could be wrong."""
        with self._opened():
            return []

    def finish_erasures(self, *, rewrite: bool = True) -> bool:
        """Return True: there is no file to rewrite."""
        return True

    def backup(self, path: str, progress: Callable[[int, int], None] | None = None, *, overwrite: bool = False) -> None:
        """Refuse: there is no file.

        Raises:
            InputError: always.
        """
        raise InputError(
            "file",
            Words("a copy of a store in memory"),
            "Use export, or connect to a file.",
            "cannot hold a store in memory",
        )

    def close(self) -> None:
        """Let go of everything; further calls raise `StoreError`."""
        with self._shared.lock:
            self._shared.state = None

    @contextmanager
    def _opened(self) -> Iterator[State]:
        with self._shared.lock:
            if self._shared.state is None:
                raise StoreError("store: it is closed. Connect again.")
            yield self._shared.state

    def _pin(self, draft: State, changes: Sequence[Change]) -> None:
        """Pin the store at its first memory, and to a fingerprint at its first vector; refuse vectors of others."""
        pin = draft.pins.get("pinned")
        vectors = carries_vectors(changes)
        if vectors:
            self._handle.check_vectors(pin)
        brings = vectors or derives_vectors(changes)
        is_first = pin is None and any(isinstance(change, Add) for change in changes)
        is_bare = pin is not None and pin.fingerprint is None and self._handle.accepts(pin)
        if is_first or (brings and is_bare):
            draft.pins["pinned"] = self._handle.pin() if brings else self._handle.pin_without_fingerprint()


def _check_counts(state: State, draft: State, changes: Sequence[Change], receipts: Sequence[Receipt]) -> None:
    check_counts(state.counts(), draft.counts(), count_changed(changes, receipts))


def _meant(visible: Sequence[Memory], asked: str) -> str | None:
    """Return the id of the one visible memory that a whole or short id means; None for none, or several."""
    fits = {memory.id for memory in visible if asked in (memory.id, memory.short_id)}
    return min(fits) if len(fits) == 1 else None


def _picked(wanted: list[Stored], matrix: Vectors32, cosine: Floats, need: Need) -> Rows:
    """Return the rows that `need` asks for: named, near or among the nearest; all if it asks for none of these."""
    if need.ids is None and need.near is None and need.candidates is None:
        return np.arange(len(wanted))
    picked: set[int] = set()
    if need.ids is not None:
        picked |= {row for row, stored in enumerate(wanted) if stored.memory.id in need.ids}
    if need.near is not None:
        picked |= {row for row in _near(matrix, need.near) if is_embedded(wanted[row])}
    if need.candidates is not None:
        picked |= set(sorted(range(len(wanted)), key=lambda row: (-cosine[row], row))[: need.candidates])
        picked |= {row for row, stored in enumerate(wanted) if not is_embedded(stored)}
    return np.array(sorted(picked), np.intp)


def _near(matrix: Vectors32, near: Near) -> set[int]:
    return {row for vector in near.vectors for row in np.flatnonzero(cosines(matrix, vector) > near.above).tolist()}


def _matrix(wanted: list[Stored], dimension: int) -> Vectors32:
    """Return a row for each memory, zeros for one without a vector."""
    zeros = np.zeros(dimension, np.float32)
    vectors = [zeros if stored.vector is None else stored.vector for stored in wanted]
    return np.array(vectors, np.float32).reshape(-1, dimension)
