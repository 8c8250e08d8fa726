"""What a scope sees of an arena is what a plain look at its memories says, after any changes."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from computing import WAYS, computed_by
from salience.batch import OWN, REACH
from salience.ports import Stored
from salience.records import ANY, Scope
from salience.store import around as around_them
from salience.store import occurrences
from salience.store import view as views
from salience.store.arena import Arena
from salience.store.ascending import distinct, position
from salience.store.occurrences import Kept, Occurrences
from salience.store.rows import of_stored
from salience.store.sql import ARENA
from salience.store.values import microseconds
from salience.store.view import View, view_of
from salience.testing.memories import DIMENSION, EVERYTHING, NOW, id_of, random_unit, stored

TERMS = "abcd"
SCOPES = (
    EVERYTHING,
    Scope(),
    Scope(user_id="u1"),
    Scope(user_id=ANY, project="p1", agent_id=ANY),
    Scope(environment="e", user_id=ANY, project=ANY),
    Scope(environment=ANY, user_id="nobody"),
)


@dataclass
class Shelf:
    """An arena, and the memories that it holds as plain values."""

    arena: Arena
    held: dict[str, Stored]
    sequence: int = 1
    versions: int = 1

    def changed(self, *items: Stored, forgotten: bool = False) -> None:
        """Write memories as they now stand, or forget them."""
        self.sequence += 1
        rows = []
        for item in items:
            row = {**of_stored(item, DIMENSION), "seq": self.sequence, "forgotten_at": 5 if forgotten else None}
            rows.append(tuple(row[name] for name in ARENA))
            self.held.pop(item.memory.id, None)
            if not forgotten:
                self.held[item.memory.id] = item
        self.arena = self.arena.refresh(rows)

    def some(self, random: np.random.Generator) -> list[Stored]:
        """Return a few memories that are held."""
        items = list(self.held.values())
        return [items[place] for place in distinct(random.integers(len(items), size=random.integers(1, 6)))]


def pick(random, *choices):
    """Return one of some choices."""
    return choices[random.integers(len(choices))]


def made(random: np.random.Generator, number: int, version: int) -> Stored:
    return stored(
        number,
        vector=pick(random, None, random_unit(number), random_unit(1)),
        terms=tuple(pick(random, *TERMS) for _ in range(random.integers(0, 5))),
        version=version,
        environment=pick(random, "default", "default", "e"),
        user_id=pick(random, None, "u1", "u2"),
        project=pick(random, None, None, "p1"),
        agent_id=pick(random, None, None, "a1"),
        session_id=pick(random, None, "s1", "s1", "s2"),
        turn=pick(random, None, 1, 2, 3),
        created_at=NOW + timedelta(hours=int(random.integers(3))),
        updated_at=NOW + timedelta(hours=int(random.integers(3))),
        expires_at=pick(random, None, None, NOW + timedelta(hours=int(random.integers(-2, 6)))),
        fact_key=pick(random, None, None, "f", "g"),
        supersedes=pick(random, None, None, None, id_of(int(random.integers(40)))),
        entities=pick(random, (), ("Ann",), ("Ann", "Bob")),
        speaker=pick(random, None, "Ann", "Bob"),
    )


def added(shelf: Shelf, random: np.random.Generator) -> None:
    numbers = [number for number in random.integers(40, size=random.integers(1, 12)) if id_of(number) not in shelf.held]
    shelf.changed(*(made(random, int(number), 1) for number in dict.fromkeys(numbers)))


def followed(shelf: Shelf, random: np.random.Generator) -> None:
    """Some come after all others, as new memories do: what scopes saw before is gone on from."""
    last = max((int(item.memory.id, 16) for item in shelf.held.values()), default=40)
    for number in range(last + 1, last + 1 + int(random.integers(1, 4))):
        shelf.changed(made(random, number, 1))


def updated(shelf: Shelf, random: np.random.Generator) -> None:
    items = shelf.some(random)
    shelf.versions += 1
    shelf.changed(*(made(random, int(item.memory.id, 16), shelf.versions) for item in items))


def forgotten(shelf: Shelf, random: np.random.Generator) -> None:
    shelf.changed(*shelf.some(random), forgotten=True)


def touched(shelf: Shelf, random: np.random.Generator) -> None:
    """A recall counts, which moves no memory: what scopes see stays the same object."""
    before = {scope: view_of(shelf.arena, scope, microseconds(NOW)) for scope in SCOPES}
    items = shelf.some(random)
    shelf.changed(*(replace(item, memory=replace(item.memory, access_count=9, accessed_at=NOW)) for item in items))
    for scope, seen in before.items():
        assert view_of(shelf.arena, scope, microseconds(NOW)) is seen


@contextmanager
def lowered(few: int, runs: int, kept: int, large: int, added: int, near: int):
    """Have a view take its other paths with few memories."""
    with ExitStack() as stack:
        for name, value in (("_FEW", few), ("_RUNS", runs), ("_OCCURRENCES", kept), ("_LARGE", large)):
            stack.enter_context(patch.object(views, name, value))
        for module in (around_them, occurrences):
            stack.enter_context(patch.object(module, "ADDED", added))
        stack.enter_context(patch.object(around_them, "NEAR", near))
        yield


@settings(max_examples=120, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    steps=st.integers(1, 12),
    few=st.sampled_from([0, 1, 8]),
    runs=st.sampled_from([0, 2, 64]),
    kept=st.sampled_from([0, 1, 8]),
    large=st.sampled_from([0, 0, 5, 20_000]),
    new=st.sampled_from([0, 2, 64]),
    near=st.sampled_from([1, 3, 32]),
    way=st.sampled_from(WAYS),
)
def test_a_view_is_what_a_plain_look_says(seed, steps, few, runs, kept, large, new, near, way):
    random = np.random.default_rng(seed)
    shelf = Shelf(Arena.empty(DIMENSION), {})
    now = NOW
    with lowered(few, runs, kept, large, new, near), computed_by(way):
        for _ in range(steps):
            change = pick(random, added, followed, followed, followed, updated, forgotten, touched)
            (change if shelf.held else added)(shelf, random)
            now = pick(random, now, now, now + timedelta(hours=int(random.integers(-3, 8))))
            for scope in SCOPES:  # of what is gone on from, not all was asked for each time
                seen = view_of(shelf.arena, scope, microseconds(now))
                if random.random() < 0.6:
                    assert_it_is_what_is_held(seen, shelf, scope, now)
                else:
                    _ = [getattr(seen, name) for name in ("length", "around", "successor") if random.random() < 0.3]


def assert_it_is_what_is_held(seen: View, shelf: Shelf, scope: Scope, now: datetime) -> None:
    shown = {id: item for id, item in shelf.held.items() if scope.sees(item.memory.scope)}
    ids = shelf.arena.ids[shelf.arena.rows[seen.slots]].tolist()
    assert sorted(ids) == sorted(shown)
    assert seen.since <= microseconds(now) < seen.until
    valid = {id for id, item in shown.items() if not item.memory.expires_at or item.memory.expires_at > now}
    assert [id in valid for id in ids] == seen.valid.tolist()
    assert seen.length.tolist() == [len(shown[id].terms) for id in ids]
    assert seen.average_length == pytest.approx(np.mean([len(item.terms) for item in shown.values()]) if ids else 0)
    has = [shown[id].vector is not None for id in ids]
    assert (seen.embedded is None and all(has)) or seen.embedded.tolist() == has
    lines = in_sessions([shown[id] for id in ids if id in valid])
    assert_neighbours_are_those_of_the_session(seen, ids, lines)
    assert_terms_stand_where_they_stand(seen, shelf, shown, ids, lines)
    assert_another_holds_in_place_of_what_it_should(seen, shown, ids, valid)
    assert_places_are_found(seen, shelf, ids)
    assert_speakers_are_known(seen, shelf, shown, ids)


def in_sessions(items: list[Stored]) -> list[list[str]]:
    """Return the ids of each session's memories in order; one alone where it has no session."""
    lines: dict[object, list[Stored]] = {}
    for item in items:
        home = item.memory.scope
        key = item.memory.id if home.session_id is None else (home.environment, home.user_id, home.session_id)
        lines.setdefault(key, []).append(item)
    order = lambda item: (item.memory.created_at, item.memory.turn or 0, item.memory.id)  # noqa: E731
    return [[item.memory.id for item in sorted(line, key=order)] for line in lines.values()]


def around(lines: list[list[str]], id: str, reach: int) -> dict[int, str]:
    """Return what stands around a memory in its session: how many places on -> id."""
    line = next((line for line in lines if id in line), [id])
    own = line.index(id)
    return {step: line[own + step] for step in range(-reach, reach + 1) if step and 0 <= own + step < len(line)}


def assert_neighbours_are_those_of_the_session(seen: View, ids: list[str], lines: list[list[str]]) -> None:
    before, after = ([None if place < 0 else ids[place] for place in towards] for towards in seen.beside)
    assert before == [around(lines, id, 1).get(-1) for id in ids]
    assert after == [around(lines, id, 1).get(1) for id in ids]
    for id, places in zip(ids, seen.around.tolist(), strict=True):
        there = around(lines, id, REACH)
        assert [None if place < 0 else ids[place] for place in places] == [there.get(step) for step in (-1, 1, -2, 2)]


def assert_terms_stand_where_they_stand(
    seen: View, shelf: Shelf, shown: dict[str, Stored], ids: list[str], lines: list[list[str]]
) -> None:
    near = {id: [shown[other] for other in around(lines, id, REACH).values()] for id in ids}
    lengths = [OWN * len(shown[id].terms) + sum(len(other.terms) for other in near[id]) for id in ids]
    assert seen.window_length.tolist() == lengths
    assert seen.average_window == pytest.approx(np.mean(lengths) if ids else 0)
    for term in (*TERMS, "unknown", "a"):
        [found] = seen.terms([shelf.arena.numbers.terms.get(term, -1)])
        own = Counter({id: shown[id].terms.count(term) for id in ids})
        window = {id: OWN * own[id] + sum(other.terms.count(term) for other in near[id]) for id in ids}
        assert (np.diff(found.places) > 0).all()
        assert found.texts == sum(count > 0 for count in own.values())
        for is_window, expected in ((False, own), (True, window)):
            frequency = found.frequency(is_window)
            told = {ids[place]: count for place, count in zip(found.places, frequency.tolist(), strict=True) if count}
            assert told == {id: count for id, count in expected.items() if count}
            length, average = (
                (seen.window_length, seen.average_window) if is_window else (seen.length, seen.average_length)
            )
            pace = 0.9 * (0.6 + 0.4 * length[found.places] / max(average, 1.0))
            impact = seen.impact(found, is_window, 0.9, 0.4)
            assert impact.tolist() == pytest.approx((frequency / (frequency + pace)).tolist(), rel=1e-6)
    numbers = [shelf.arena.numbers.terms.get(term, -1) for term in TERMS]
    for one, together in zip(numbers, replace(seen, _terms=Kept()).terms(numbers), strict=True):
        [alone] = replace(seen, _terms=Kept()).terms([one])
        assert alone.texts == together.texts
        for name in ("places", "own", "windows"):
            assert getattr(alone, name).tolist() == getattr(together, name).tolist()


def assert_another_holds_in_place_of_what_it_should(
    seen: View, shown: dict[str, Stored], ids: list[str], valid: set[str]
) -> None:
    expected = {id: holding(shown, valid, id) for id in ids}
    numbers = dict(zip(seen.column("id").tolist(), ids, strict=True))
    found = np.full(len(ids), -1) if seen.successor is None else seen.successor
    assert [None if number < 0 else numbers[number] for number in found.tolist()] == [expected[id] for id in ids]
    for drops in ({"expired"}, {"outdated"}, {"expired", "outdated"}, set[str]()):
        kept = [("expired" not in drops or id in valid) and not ("outdated" in drops and expected[id]) for id in ids]
        standing = seen.standing(frozenset(drops))
        assert (standing is None and all(kept)) or standing.tolist() == kept


def holding(shown: dict[str, Stored], valid: set[str], id: str) -> str | None:
    """Return the memory that holds in the place of another; None for none."""
    memory = shown[id].memory
    heirs = [other for other in valid if shown[other].memory.supersedes == id and other != id]
    if heirs:
        return max(heirs)
    told = [
        other.memory
        for other in shown.values()
        if other.memory.id in valid
        and memory.fact_key is not None
        and (other.memory.scope.user_id, other.memory.fact_key) == (memory.scope.user_id, memory.fact_key)
    ]
    newest = max(told, key=lambda other: (other.updated_at, other.id), default=memory).id
    return None if newest == id else newest


def assert_places_are_found(seen: View, shelf: Shelf, ids: list[str]) -> None:
    slots = shelf.arena.order
    expected = {slot: place for place, slot in enumerate(seen.slots.tolist())}
    assert seen.places(slots).tolist() == [expected.get(slot, -1) for slot in slots.tolist()]


def assert_speakers_are_known(seen: View, shelf: Shelf, shown: dict[str, Stored], ids: list[str]) -> None:
    number = shelf.arena.numbers.speakers.get
    assert seen.heard == {number(item.memory.speaker) for item in shown.values()}
    said = [shown[id].memory.speaker is not None for id in ids]
    if ids and seen.spoken is not None:
        assert [run for start, stop, run in seen.spoken for _ in range(start, stop)] == said
        assert (seen.spoken[0][0], seen.spoken[-1][1]) == (0, len(ids))
    for name in ("ann", "bob", "carol"):
        places = [place for number in shelf.arena.numbers.entities.known([name]) for place in seen.naming(number)]
        naming = [ids[place] for place in places]
        assert sorted(naming) == sorted(id for id in ids if name.title() in shown[id].memory.entities)


@pytest.mark.parametrize("numbers", [[], [-1], [3], [3, 3, -1, 0], [5, 4, 4, -1, -1, 9]])
def test_distinct_numbers_come_in_order_without_none(numbers):
    columns = np.array(numbers[:2], np.intp), np.array(numbers[2:], np.intp)
    assert distinct(*columns).tolist() == sorted({number for number in numbers if number >= 0})


def test_a_position_is_where_a_number_stands():
    ascending = np.array([0, 3, 4, 9])
    assert position(ascending, np.array([4, 0, 1, 9, 10, -1])).tolist() == [2, 0, -1, 3, -1, -1]
    assert position(ascending[:0], np.array([4])).tolist() == [-1]


def test_what_expires_ends_a_view():
    """A view holds until a memory expires, and one of an instant before it holds again is made anew."""
    shelf = Shelf(Arena.empty(DIMENSION), {})
    shelf.changed(stored(1), stored(2, expires_at=NOW), stored(3, expires_at=NOW + timedelta(hours=1)))
    instant = microseconds(NOW)
    found = [view_of(shelf.arena, Scope(), instant + microsecond) for microsecond in (-1, 0, 1)]
    assert [seen.valid.tolist() for seen in found] == [[True, True, True], [True, False, True], [True, False, True]]
    assert found[1] is found[2]
    assert view_of(shelf.arena, Scope()) is found[2]
    assert view_of(shelf.arena, Scope(), instant - 1).valid.all()


@given(st.lists(st.tuples(st.lists(st.integers(0, 5), max_size=4, unique=True), st.integers(0, 200)), max_size=12))
def test_no_more_of_terms_is_kept_than_may_be(asked):
    """Terms are asked for by one view and by later ones: each is made, or brought up to date, for the one that asks."""
    kept, most = Kept(), 20

    def made(number: int, count: int) -> Occurrences:
        held = np.zeros((number + count) % 11, np.float32)
        return Occurrences(held.astype(np.int32), held, held, 0, count)

    for numbers, count in asked:
        before = dict(kept)
        found = kept.of(
            numbers,
            count,
            lambda missing, count=count: [made(number, count) for number in missing],
            lambda late, count=count: {number: made(number, count) for number in late},
            most,
        )
        assert [(one.count, len(one)) for one in found] == [(count, (number + count) % 11) for number in numbers]
        for number, one in zip(numbers, found, strict=True):
            assert number not in before or before[number].count != count or one is before[number]
        assert kept._size == sum(map(len, kept.values()))
        assert kept._size <= most or set(kept) == set(numbers)


def test_no_more_views_are_kept_than_a_few():
    shelf = Shelf(Arena.empty(DIMENSION), {})
    for number in range(1, 7):
        shelf.changed(stored(number))
        for user in range(100):
            assert len(view_of(shelf.arena, Scope(user_id=f"u{number}-{user}"), 0)) == number
        assert len(shelf.arena.views) <= views._KEPT
        assert len(shelf.arena.seen) <= 2 * views._KEPT


def test_what_was_added_is_looked_at_alone():
    shelf = Shelf(Arena.empty(DIMENSION), {})
    shelf.changed(stored(1, user_id="u1"), stored(2, user_id="u2"))
    before = view_of(shelf.arena, Scope(user_id="u1"))
    for column in ("user_id", "project"):
        shelf.arena.slots[column][:] = -7  # who looked at these again would see none of them
    shelf.changed(stored(3, user_id="u1"))
    assert view_of(shelf.arena, Scope(user_id="u1")).slots.tolist() == [*before.slots.tolist(), 2]
