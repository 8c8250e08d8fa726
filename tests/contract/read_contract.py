"""Contract of reading: visibility, filters, search, statistics, sessions and distinctions."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any, Final

import numpy as np
import pytest

from salience.batch import COLUMNS, CORRECTED, KINDS, Batch, Lexicon, cosines
from salience.ports import (
    Add,
    After,
    Derive,
    Erase,
    Near,
    Pruning,
    Revise,
    Selection,
    SessionSpan,
    Store,
    Stored,
)
from salience.records import ANY, FACETS, SORTABLE, Filter, Memory, Relation, Scope, SessionSummary
from tests.contract.memories import (
    DIMENSION,
    EVERYTHING,
    NOW,
    add,
    id_of,
    listed,
    memory,
    need,
    numbers,
    only,
    random_unit,
    replaces,
    stored,
    successors,
    unit,
)

HOUR: Final = timedelta(hours=1)
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
NEUTRAL: Final = {
    "cosine", "importance", "weight", "expires_at", "access_count", "tier", "supersedes", "replaced", "asks",
    "turns_since_activation", "context_cosine", "speaker", "speaker_named",
}  # fmt: skip
"""Columns whose value for a plain memory changes no ranking."""
HOMES: Final[dict[int, dict[str, Any]]] = {
    1: {}, 2: {"project": "p"}, 3: {"project": "q"}, 4: {"user_id": "u"}, 5: {"user_id": "v"}, 6: {"agent_id": "a"},
    7: {"project": "p", "user_id": "u"}, 8: {"project": "p", "user_id": "u", "agent_id": "a"},
    9: {"project": "p", "user_id": "v"}, 10: {"environment": "staging"}, 11: {"tenant": "other"},
    12: {"user_id": "u", "session_id": "s"}, 13: {"session_id": "t"},
}  # fmt: skip
"""Scopes of the memories in the visibility tests."""
VISIBLE: Final[list[tuple[dict[str, Any], set[int]]]] = [
    ({}, {1, 13}),
    ({"project": "p"}, {1, 2, 13}),
    ({"project": "unknown"}, {1, 13}),
    ({"user_id": "u"}, {1, 4, 12, 13}),
    ({"agent_id": "a"}, {1, 6, 13}),
    ({"project": "p", "user_id": "u"}, {1, 2, 4, 7, 12, 13}),
    ({"project": "p", "user_id": "u", "agent_id": "a"}, {1, 2, 4, 6, 7, 8, 12, 13}),
    ({"project": "p", "user_id": "v"}, {1, 2, 5, 9, 13}),
    ({"session_id": "s"}, {1, 13}),
    ({"user_id": "u", "session_id": "elsewhere"}, {1, 4, 12, 13}),
    ({"project": ANY}, {1, 2, 3, 13}),
    ({"user_id": ANY}, {1, 4, 5, 12, 13}),
    ({"agent_id": ANY}, {1, 6, 13}),
    ({"project": ANY, "user_id": "u"}, {1, 2, 3, 4, 7, 12, 13}),
    ({"project": ANY, "user_id": ANY, "agent_id": ANY}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 13}),
    ({"environment": "staging"}, {10}),
    ({"environment": "unknown"}, set()),
    ({"environment": ANY}, {1, 10, 13}),
    ({"environment": ANY, "project": ANY, "user_id": ANY, "agent_id": ANY}, {*range(1, 11), 12, 13}),
    ({"tenant": "other"}, {11}),
    ({"tenant": "other", "environment": ANY, "project": ANY, "user_id": ANY, "agent_id": ANY}, {11}),
    ({"tenant": "nobody"}, set()),
]
"""Caller, and the numbers of `HOMES` that it sees."""
FILTERED: Final[dict[int, dict[str, Any]]] = {
    1: {"tags": ("red",)},
    2: {"tags": ("red", "blue"), "project": "p"},
    3: {"tags": ('a"b', ",", "\\"), "kind": "rule"},
    4: {"kind": "turn", "session_id": "s", "tier": "working"},
    5: {"kind": "turn", "session_id": "t", "tier": "semantic"},
    6: {"created_at": NOW - timedelta(microseconds=1)},
    7: {"created_at": NOW + timedelta(microseconds=1), "tags": ("redder", "Red", "x,", ",y")},
}
"""Memories of the filter tests."""
ACCEPTED: Final[list[tuple[dict[str, Any], set[int]]]] = [
    ({}, {1, 2, 3, 4, 5, 6, 7}),
    ({"tags": ["red"]}, {1, 2}),
    ({"tags": ["red", "blue"]}, {2}),
    ({"tags": ["red", "green"]}, set()),
    ({"tags": ['a"b']}, {3}),
    ({"tags": [","]}, {3}),
    ({"tags": ["\\"]}, {3}),
    ({"tags": ["%"]}, set()),
    ({"kinds": ["rule"]}, {3}),
    ({"kinds": ["rule", "turn", "unknown"]}, {3, 4, 5}),
    ({"tiers": ["working"]}, {4}),
    ({"tiers": ["working", "semantic"]}, {4, 5}),
    ({"sessions": ["s"]}, {4}),
    ({"sessions": ["s", "t"]}, {4, 5}),
    ({"kinds": ["turn"], "sessions": ["s"], "tiers": ["semantic"]}, set()),
    ({"since": NOW}, {1, 2, 3, 4, 5, 7}),
    ({"since": NOW + timedelta(microseconds=1)}, {7}),
    ({"until": NOW}, {6}),
    ({"until": NOW + timedelta(microseconds=1)}, {1, 2, 3, 4, 5, 6}),
    ({"since": NOW, "until": NOW + timedelta(microseconds=1)}, {1, 2, 3, 4, 5}),
    ({"level": "project"}, {2}),
    ({"level": "global"}, {1, 3, 4, 5, 6, 7}),
]
"""Filters, and which of `FILTERED` they accept."""


def _dtypes() -> dict[str, np.dtype[Any]]:
    return {name: np.dtype(spec.dtype) for name, spec in COLUMNS.items()}


ORDERS = ((1, 2, 3, 4, 5), (5, 4, 3, 2, 1), (3, 5, 1, 4, 2))
"""Orders in which the turns of a conversation are stored."""


def turn(number: int, **values: Any) -> Stored:
    """Return a turn created `number` minutes after `NOW`, with one term of its own."""
    made = {"session_id": "s", "created_at": NOW + timedelta(minutes=number), "terms": (f"t{number}",)}
    return stored(number, **{**made, **values})


def held(windows: Lexicon | None, terms: Sequence[str]) -> list[dict[str, float]]:
    """Return, for each row, the frequency of each term that its window contains."""
    assert windows is not None
    rows: list[dict[str, float]] = [{} for _ in windows.length]
    for term, (holding, frequency) in zip(terms, windows.postings, strict=True):
        assert holding.tolist() == sorted(holding.tolist())
        for row, count in zip(holding.tolist(), frequency.tolist(), strict=True):
            rows[row][term] = count
    return rows


def in_windows(batch: Batch, terms: Sequence[str]) -> dict[int, dict[str, float]]:
    """Return number of the memory -> frequencies of the terms in its window."""
    return dict(zip(numbers(batch), held(batch.windows, terms), strict=True))


TERMS = tuple(f"t{number}" for number in range(1, 8))
GIVEN: Final = {
    1: ("text:1", "speaker:zoë", "number:30", "number:30 minute", "name:new york", "claim:not", "claim:not"),
    2: (),
    3: ("text:3", "number:30", "date:30", "name:30", "claim:not"),
}
"""Memories of the distinction tests, with their distinctions."""


def _codes(batch: Batch) -> list[list[int]]:
    assert batch.distinctions is not None
    return [batch.distinctions.of_row(row) for row in range(len(batch))]


METADATA: Final[tuple[dict[str, Any], ...]] = (
    {}, {"a": None}, {"a": True}, {"a": False}, {"a": 1}, {"a": 1.0}, {"a": 0}, {"a": -2.5}, {"a": 2**53 + 1},
    {"a": "1"}, {"a": ""}, {"a": "true"}, {"a": "pro"}, {"a": "Pro"}, {"a": "żółw"}, {"a": "😀"}, {"a": "x\ny"},
    {"a": [1]}, {"a": {}}, {"a": {"b": 1}}, {"a": {"b": "x"}}, {"A": 1}, {"a.b": 1}, {"$.a": 1}, {"ключ ': {}": "x"},
)  # fmt: skip
"""The metadata of the memories on which conditions are tried."""


def conditions_on_metadata() -> Iterator[dict[str, Any]]:
    """Yield conditions of every operator and type."""
    values = (None, True, False, 0, 1, 1.0, 0.5, -3, 2**53, "", "1", "Pro", "pro", "true", "żółw", "😀", "x\ny")
    for value in values:
        yield {"a": value}
        yield from ({"a": {operator: value}} for operator in ("$eq", "$ne"))
        if isinstance(value, str | int | float) and not isinstance(value, bool):
            yield from ({"a": {operator: value}} for operator in ("$gt", "$gte", "$lt", "$lte"))
    yield from ({"a": {"$in": some}} for some in ([], [1, "pro"], [None, True], ["x", 2.5]))
    yield from ({"a.b": 1}, {"A": 1})
    yield from ({"ключ ': {}": "x"}, {"a": {"$gte": 0, "$lt": 2}}, {"a": 1, "A": None}, {"a": "pro", "b": None})


class ReadContract:
    """Every read sees what the scope, the filter and the session allow."""

    @pytest.mark.parametrize(("caller", "seen"), VISIBLE)
    def test_a_scope_sees_what_the_table_says(self, store: Store, caller: dict[str, Any], seen: set[int]) -> None:
        add(store, *(stored(number, **home) for number, home in HOMES.items()))
        scope = Scope(**caller)
        assert numbers(store.gather(need(scope))) == sorted(seen)
        assert listed(store, scope) == sorted(seen)
        assert [int(found.id, 16) for found in store.fetch(scope, [id_of(n) for n in HOMES])] == sorted(seen)
        # out_of_scope counts what only the widened scope sees, without forgotten memories
        add(store, stored(50, user_id="u", forgotten_at=NOW), stored(51, user_id="w", forgotten_at=NOW))
        hidden = [memory(number, **HOMES[number]).scope for number in set(listed(store, scope.widened())) - seen]
        counts = Counter(replace(home, session_id=None) for home in hidden)
        live = Selection(scope=scope, values={"status": ("live",)}, now=NOW)
        assert {found.scope: found.count for found in store.out_of_scope(live, limit=100)} == counts

    def test_out_of_scope_lists_places_by_their_number_of_memories(self, store: Store) -> None:
        users = ["ann", "bob", "bob", "cy", "cy", "cy", "dee", "eve", "flo"]
        add(store, *(stored(number, user_id=user) for number, user in enumerate(users)))
        add(store, *(stored(number, project="p") for number in (20, 21)))
        live = Selection(scope=Scope(), values={"status": ("live",)}, now=NOW)
        found = [(one.scope.user_id or one.scope.project, one.count) for one in store.out_of_scope(live)]
        assert found == [("cy", 3), ("bob", 2), ("p", 2), ("ann", 1), ("dee", 1)]
        assert len(store.out_of_scope(live, limit=2)) == 2

    def test_out_of_scope_counts_the_memories_that_a_selection_accepts(self, store: Store) -> None:
        add(
            store,
            stored(1, user_id="ann", tags=("a",), content="green tea", expires_at=NOW + HOUR),
            stored(2, user_id="ann", kind="rule", metadata={"plan": "pro"}),
            stored(3, user_id="ann", forgotten_at=NOW),
        )
        live = Selection(scope=Scope(), values={"status": ("live",)}, now=NOW)

        def counted(selection: Selection) -> list[int]:
            return [one.count for one in store.out_of_scope(selection)]

        for selection, counts in (
            (live, [2]),
            (replace(live, now=NOW + HOUR), [1]),
            (replace(live, filter=Filter(tags=("a",))), [1]),
            (replace(live, filter=Filter(where={"plan": "pro"})), [1]),
            (replace(live, filter=Filter(tags=("b",))), []),
            (replace(live, words=("tea",)), [1]),
            (replace(live, words=("tea",), now=NOW + HOUR), []),
            (replace(live, values={"status": ("live",), "kind": ("rule",)}), [1]),
            (replace(live, values={}), [3]),
        ):
            assert counted(selection) == counts, selection
        for wanted in ([2], [1]):  # before and after an index is read
            assert counted(replace(live, now=NOW if wanted == [2] else NOW + HOUR)) == wanted
            store.gather(need(Scope()))

    def test_a_memory_is_live_until_its_time_to_live_is_over(self, store: Store) -> None:
        """By the instant of the request; a store has no clock. Without an instant, only what is recorded counts."""
        ends = {1: NOW, 2: NOW + timedelta(microseconds=1), 3: None}
        for number, end in ends.items():
            add(store, stored(number, expires_at=end, session_id=f"s{number}", entities=(f"Ann {number}",)))
        add(store, stored(4, tenant="other", expires_at=NOW))
        for _ in range(2):  # before and after an index is read
            for now, gone in ((NOW - HOUR, []), (NOW, [1]), (NOW + HOUR, [1, 2]), (None, []), (NOW - HOUR, [])):
                live = [number for number in ends if number not in gone]
                selection = Selection(scope=EVERYTHING, values={"status": ("live",)}, now=now)
                expired = replace(selection, values={"status": ("expired",)})
                assert [int(one.id, 16) for one in store.browse(selection, "id", 9, ascending=True)] == live
                listed_ = store.browse(expired, "id", 9, ascending=True)
                assert [(int(one.id, 16), one.status, one.forgotten_at) for one in listed_] == [
                    (number, "expired", ends[number]) for number in gone
                ]
                every = store.facets(replace(selection, values={})).values["status"]
                assert every == {name: n for name, n in (("live", len(live)), ("expired", len(gone))) if n}
                assert store.facets(selection).total == len(live)
                assert [one.id for one in store.browse_sessions(selection, 9)] == [f"s{n}" for n in reversed(live)]
                assert list(store.count_entities(selection)) == [f"Ann {number}" for number in live]
                if now is not None:
                    assert store.counts(EVERYTHING, now).total == len(live)
                    assert [int(one.id, 16) for one in store.due("default", now)] == gone
                    assert store.may_be_due("default", now) in (False, bool(gone))
            store.gather(need())
        assert [int(one.id, 16) for one in store.fetch(EVERYTHING, [id_of(1)])] == [1]  # the caller has the clock
        over = memory(1, expires_at=NOW, session_id="s1", entities=("Ann 1",), turn=1)
        store.apply([Revise(over.changed("expire", NOW, forgotten_at=NOW))])
        assert store.due("default", NOW) == []
        assert not store.may_be_due("default", NOW)

    def test_a_word_that_only_an_expired_memory_holds_is_no_spelling(self, store: Store) -> None:
        add(
            store,
            stored(1, terms=("address",)),
            stored(2, terms=("adress",), expires_at=NOW),
            stored(3, terms=("garden",), expires_at=NOW),
        )
        request = ("adress", "gardem")
        for now, corrected in ((NOW, {"adress": "address"}), (NOW - HOUR, {"gardem": "garden"})):
            batch = store.gather(need(terms=request, correctable=frozenset(request), now=now))
            assert batch.corrected == corrected

    @pytest.mark.parametrize(("conditions", "accepted"), ACCEPTED)
    def test_a_filter_accepts_what_the_table_says(
        self, store: Store, conditions: dict[str, Any], accepted: set[int]
    ) -> None:
        add(store, *(stored(number, **values) for number, values in FILTERED.items()))
        filter = Filter(**conditions)
        batch = store.gather(need(filter=filter))
        assert numbers(batch) == sorted(accepted)
        assert batch.complete
        assert listed(store, filter=filter) == sorted(accepted)

    def test_every_condition_of_a_filter_is_in_the_table(self) -> None:
        tried = {name for conditions, _ in ACCEPTED for name in conditions}
        elsewhere = {"where", "fact_keys"}  # which have tests of their own
        assert {item.name for item in fields(Filter)} == tried | elsewhere

    def test_conditions_on_metadata_mean_the_same_in_every_read(self, store: Store) -> None:
        add(store, *(stored(number, metadata=metadata) for number, metadata in enumerate(METADATA)))
        for where in conditions_on_metadata():
            filter = Filter(where=where)
            expected = [
                number for number, metadata in enumerate(METADATA) if filter.accepts(memory(0, metadata=metadata))
            ]
            assert listed(store, filter=filter) == expected, where
            assert numbers(store.gather(need(filter=filter))) == expected, where
        as_of = Filter(where={"a": {"$gt": 0}})
        assert numbers(store.gather(need(filter=as_of, as_of=NOW))) == listed(store, filter=as_of)

    def test_a_filter_works_inside_the_search(self, store: Store) -> None:
        """Ten of a rare tag among two thousand memories are all found."""
        rare = set(range(100, 2_000, 190))
        add(store, *(stored(n, tags=("rare",) if n in rare else ("common",)) for n in range(2_000)))
        batch = store.gather(need(filter=Filter(tags=["rare"]), vector=random_unit(2_000), candidates=10))
        assert set(numbers(batch)) == rare
        assert batch.complete

    def test_an_empty_store_gives_empty_answers(self, store: Store) -> None:
        request = need(vector=unit(1), terms=("x",), names=("x",), entities=True, vectors=True, candidates=5)
        batch = store.gather(request)
        assert len(batch) == 0
        assert batch.complete
        assert {name: column.dtype for name, column in batch.columns.items()} == _dtypes()
        assert batch.lexicon is not None
        assert (batch.lexicon.documents, batch.lexicon.average_length) == (0, 0.0)
        assert batch.lexicon.document_frequency.tolist() == [0.0]
        assert store.fetch(EVERYTHING, [id_of(1)]) == []
        assert store.scan(EVERYTHING) == []
        assert store.apply([]) == []

    def test_a_limit_of_zero_no_candidates_and_no_ids_give_nothing(self, store: Store) -> None:
        add(store, stored(1), stored(2))
        assert store.scan(EVERYTHING, limit=0) == []
        assert store.fetch(EVERYTHING, []) == []
        batch = store.gather(need(vector=unit(1), candidates=0))
        assert len(batch) == 0
        assert not batch.complete
        assert len(store.gather(need(ids=()))) == 0
        assert len(store.gather(need(near=Near(np.empty((0, DIMENSION), np.float32), 0.0)))) == 0

    def test_columns_hold_the_values_of_the_memories(self, store: Store) -> None:
        moment = NOW + timedelta(microseconds=7)
        full = stored(
            1, project="p", user_id="u", importance=0.25, weight=0.1, tier="semantic", fact_key="theme",
            created_at=NOW - timedelta(days=9), updated_at=moment, accessed_at=moment, expires_at=moment,
            access_count=3,
        )  # fmt: skip
        add(store, full, stored(2, user_id="u", fact_key="theme", supersedes=id_of(1)), stored(3, fact_key="theme"))
        batch = store.gather(need())
        assert {name: column.dtype for name, column in batch.columns.items()} == _dtypes()
        seconds = NOW.timestamp()
        expected = {
            "cosine": [0.0, 0.0, 0.0],
            "importance": [0.25, 0.5, 0.5],
            "weight": [0.1, 1.0, 1.0],
            "created_at": [seconds - 9 * 86400, seconds, seconds],
            "updated_at": [moment.timestamp(), seconds, seconds],
            "accessed_at": [moment.timestamp(), seconds, seconds],
            "expires_at": [moment.timestamp(), math.inf, math.inf],
            "access_count": [3, 0, 0],
            "tier": [2, 1, 1],
            "is_global": [False, True, True],
            "turns_since_activation": [math.inf] * 3,
            "speaker_named": [False, False, False],
        }
        assert {name: batch[name].tolist() for name in expected} == expected
        assert len(set(batch["code"].tolist())) == 3
        assert batch["supersedes"].tolist() == [-1, batch["code"][0], -1]
        assert batch["fact"][0] == batch["fact"][1] != batch["fact"][2]
        assert batch["fact"].min() >= 0
        for name, spec in COLUMNS.items():
            assert ((batch[name] >= spec.low) & (batch[name] <= spec.high)).all()
        assert {name for name, spec in COLUMNS.items() if (batch[name][2:] == spec.neutral).all()} >= NEUTRAL

    def test_supersedes_is_empty_unless_its_target_is_live_and_visible(self, store: Store) -> None:
        add(store, stored(1), stored(2, supersedes=id_of(1)), stored(3, supersedes=id_of(9)), stored(4, tenant="other"))
        add(store, stored(5, supersedes=id_of(4)), stored(6, user_id="hidden"), stored(7, supersedes=id_of(6)))
        assert (store.gather(need())["supersedes"] >= 0).tolist() == [False, True, False, False, False, True]
        seen = store.gather(need(replace(EVERYTHING, user_id="u")))  # without the hidden one
        assert (seen["supersedes"] >= 0).tolist() == [False, True, False, False, False]
        store.apply([Revise(memory(1).changed("forget", NOW, forgotten_at=NOW))])
        assert (store.gather(need())["supersedes"] >= 0).tolist() == [False, False, False, False, True]

    def test_the_successor_does_not_depend_on_the_filter(self, store: Store) -> None:
        """It is live, visible and not expired; of several the most probable one, of equals the latest."""
        soon = NOW + timedelta(minutes=1)
        add(
            store,
            stored(1, kind="x"), stored(2, relations=(replaces(1),)),
            stored(3, kind="x"), stored(4, relations=(replaces(3, 0.9),)), stored(5, relations=(replaces(3, 0.6),)),
            stored(6, kind="x"), stored(7, relations=(replaces(6, 0.8), replaces(9, 0.7))),
            stored(8, relations=(replaces(6, 0.8),)), stored(9, kind="x"),
            stored(10, kind="x"), stored(11, relations=(replaces(10, 0.9),), expires_at=soon),
            stored(12, relations=(replaces(10, 0.5),)),
            stored(13, kind="x"), stored(14, relations=(replaces(13),), user_id="hidden"),
            stored(15, kind="x"), stored(16, relations=(Relation(id_of(15), "adds", 0.9, "model"),)),
            stored(17, kind="x"), stored(18, relations=()), stored(19, relations=None, supersedes=id_of(17)),
        )  # fmt: skip
        request = need(Scope(), filter=Filter(kinds=["x"]), successors=True)
        found = store.gather(request)
        assert numbers(found) == [1, 3, 6, 9, 10, 13, 15, 17]
        assert successors(found) == [2, 4, 8, 7, 11, None, None, None]
        assert found["replaced"].tolist() == [1.0, 0.9, 0.8, 0.7, 0.9, 0.0, 0.0, 0.0]
        later = store.gather(replace(request, now=soon))
        assert successors(later) == [2, 4, 8, 7, 12, None, None, None]
        assert later["replaced"].tolist() == [1.0, 0.9, 0.8, 0.7, 0.5, 0.0, 0.0, 0.0]
        everybody = store.gather(replace(request, scope=EVERYTHING))
        assert successors(everybody) == [2, 4, 8, 7, 11, 14, None, None]

    def test_the_successor_is_live(self, store: Store) -> None:
        newer = memory(2, relations=(replaces(1, 0.8),))
        add(
            store,
            stored(1),
            replace(stored(0), memory=newer),
            stored(3, relations=(replaces(2, 0.7), replaces(9, 1.0))),
        )
        request = need(successors=True, ids=(id_of(1), id_of(2)))
        assert successors(store.gather(request)) == [2, 3]
        gone = newer.changed("forget", NOW, forgotten_at=NOW)
        store.apply([Revise(gone)])
        assert successors(store.gather(request)) == [None]
        store.apply([Revise(gone.changed("restore", NOW, forgotten_at=None))])
        assert successors(store.gather(request)) == [2, 3]
        assert store.gather(request)["replaced"].tolist() == [0.8, 0.7]

    def test_a_revision_changes_relations(self, store: Store) -> None:
        newer = memory(3, relations=(replaces(1),))
        add(store, stored(1), stored(2), replace(stored(0), memory=newer))
        second = newer.changed("update", NOW, relations=(replaces(2, 0.75),))
        store.apply([Revise(second)])
        found = store.gather(need(successors=True))
        assert (successors(found), found["replaced"].tolist()) == ([None, 3, None], [0.0, 0.75, 0.0])
        store.apply([Revise(second.changed("update", NOW, relations=()))])
        assert successors(store.gather(need(successors=True))) == [None, None, None]

    def test_derived_relations_make_no_version(self, store: Store) -> None:
        add(store, stored(1), stored(2, relations=None), stored(3, None, relations=None))
        found = (replaces(1, 0.85), Relation(id_of(9), "repeats", 0.9, "rule", "same words"))
        hashes = {number: memory(number).content_hash for number in (2, 3)}
        store.apply([Derive("default", id_of(2), 1, hashes[2], relations=found)])
        assert only(store, 2).memory == memory(2, relations=found)
        batch = store.gather(need(successors=True, vector=unit(1)))
        assert (successors(batch), batch["replaced"].tolist()) == ([2, None, None], [0.85, 0.0, 0.0])
        assert batch["embedded"].tolist() == [True, True, False]
        store.apply([Derive("default", id_of(3), 1, hashes[3], relations=())])
        assert only(store, 3).memory.relations == ()
        outdated = Derive("default", id_of(2), 1, hashes[3], relations=())  # of another text
        unknown = Derive("default", id_of(2), 2, hashes[2], relations=())
        store.apply([outdated, unknown])
        assert only(store, 2).memory.relations == found

    def test_a_search_returns_the_memories_that_replace_those_it_returns(self, store: Store) -> None:
        """However far their texts are from the query, to the ends of chains; a filter still applies."""
        near = [stored(n, unit(1, n / 1000), kind="x") for n in range(1, 301)]
        far = [stored(n, unit(-1, n / 1000), kind="x") for n in range(301, 601)]
        chain = (
            stored(601, unit(-1), kind="x", relations=(replaces(1),)),
            stored(602, unit(-1), kind="x", relations=(replaces(601, 0.9),)),
            stored(603, unit(-1), relations=(replaces(2),)),
        )
        add(store, *near, *far, *chain)
        pruning = Pruning(keep=5, similarity=1.0, heirs=True)
        request = need(vector=unit(1), pruning=pruning, reach=40, candidates=None, successors=True)
        batch = store.gather(request)
        assert {1, 2, 601, 602, 603} <= set(numbers(batch))
        successor = dict(zip(numbers(batch), successors(batch), strict=True))
        assert [successor[number] for number in (1, 2, 3, 601, 602)] == [601, 603, None, 602, None]
        filtered = store.gather(replace(request, filter=Filter(kinds=["x"])))
        assert {1, 2, 601, 602} <= set(numbers(filtered))
        assert 603 not in numbers(filtered)
        successor = dict(zip(numbers(filtered), successors(filtered), strict=True))
        assert [successor[number] for number in (1, 2)] == [601, 603]

    def test_a_question_is_marked(self, store: Store) -> None:
        add(store, stored(1, distinctions=("text:1", "claim:asks")), stored(2, distinctions=("text:2", "claim:not")))
        assert store.gather(need())["asks"].tolist() == [True, False]

    def test_a_batch_has_only_the_requested_columns(self, store: Store) -> None:
        add(store, stored(1))
        batch = store.gather(need(columns=frozenset({"weight"})))
        assert list(batch.columns) == ["weight"]
        assert (batch.vectors, batch.lexicon, batch.windows, batch.entities) == (None, None, None, None)

    def test_ties_go_to_the_smaller_id(self, store: Store) -> None:
        add(store, *(stored(n, vector=unit(1, 1)) for n in (5, 3, 9)), stored(7, vector=unit(1)))
        batch = store.gather(need(vector=unit(1), candidates=3))
        assert numbers(batch) == [3, 5, 7]
        assert not batch.complete

    def test_candidates_are_the_nearest(self, store: Store) -> None:
        items = [stored(n, vector=None if n % 7 == 0 else random_unit(n)) for n in range(200)]
        add(store, *items)
        query = random_unit(1000)
        cosine = [0.0 if item.vector is None else float(cosines(item.vector[None], query)[0]) for item in items]
        pending = set(range(0, 200, 7))
        for count in (0, 1, 50, 199, 200, 300):
            batch = store.gather(need(vector=query, candidates=count))
            assert set(numbers(batch)) == pending | set(sorted(range(200), key=lambda n: (-cosine[n], n))[:count])
            assert batch["embedded"].tolist() == [number not in pending for number in numbers(batch)]
            assert batch["cosine"].tolist() == [cosine[number] for number in numbers(batch)]
            assert batch.complete == (count >= 200)

    def test_ids_name_the_candidates(self, store: Store) -> None:
        add(store, *(stored(n, user_id="u" if n % 2 else "v") for n in range(10)))
        store.apply([Revise(memory(3, user_id="u").changed("forget", NOW, forgotten_at=NOW))])
        request = need(Scope(user_id="u"), ids=tuple(id_of(n) for n in (7, 2, 3, 5, 77)))
        assert numbers(store.gather(request)) == [5, 7]

    def test_near_returns_cosines_above_the_bound_to_any_vector(self, store: Store) -> None:
        add(store, stored(1, vector=unit(1)), stored(2, vector=unit(0, 1)), stored(3, vector=unit(1, 1)))
        add(store, stored(4, vector=None), stored(5, vector=unit(-1)))
        vectors = np.stack([unit(1), unit(0, 1)])
        half = float(cosines(unit(1, 1)[None], unit(1))[0])
        assert numbers(store.gather(need(near=Near(vectors, half)))) == [1, 2]
        assert numbers(store.gather(need(near=Near(vectors, half - 1e-4)))) == [1, 2, 3]
        assert numbers(store.gather(need(near=Near(vectors[:1], -1.0)))) == [1, 2, 3]

    def test_near_is_decided_by_cosines_to_the_last_bit(self, store: Store) -> None:
        """Where the cosine is the bound itself, and where the bound is the next smaller number."""
        items = [stored(n) for n in range(200)]
        add(store, *items)
        vectors = np.stack([random_unit(1000 + n) for n in range(30)])
        cosine = cosines(np.stack([item.vector for item in items if item.vector is not None]), vectors).max(axis=1)
        for bound in np.sort(cosine)[::20].tolist():
            for above in (bound, math.nextafter(bound, -1)):
                near = numbers(store.gather(need(near=Near(vectors, above))))
                assert near == np.flatnonzero(cosine > above).tolist()

    def test_ids_near_and_candidates_are_joined(self, store: Store) -> None:
        add(store, *(stored(n, vector=unit(*([0] * (n - 1)), 1)) for n in range(1, 6)))
        request = need(ids=(id_of(5),), near=Near(unit(0, 1)[None], 0.5), vector=unit(1), candidates=1)
        assert numbers(store.gather(request)) == [1, 2, 5]

    def test_fetch_keeps_the_order_and_takes_short_ids(self, store: Store) -> None:
        add(store, stored(1), stored(2), stored(3))
        store.apply([Revise(memory(3).changed("forget", NOW, forgotten_at=NOW))])
        request = [id_of(2), "absent", memory(1).short_id, id_of(3), id_of(2)]
        assert [int(found.id, 16) for found in store.fetch(EVERYTHING, request)] == [2, 1, 2]

    def test_keyed_finds_memories_of_a_home_by_key(self, store: Store) -> None:
        homes: list[dict[str, Any]] = [
            {}, {"project": "p"}, {"user_id": "p"}, {"agent_id": "p"}, {"environment": "p"}, {"tenant": "p"},
        ]  # fmt: skip
        add(store, *(stored(n, key="k", **home) for n, home in enumerate(homes)))
        add(store, stored(10, key="j", session_id="s"), stored(11, key="i"), stored(12), stored(13, key="h"))
        gone = memory(11, key="i").changed("forget", NOW, forgotten_at=NOW)
        store.apply([Revise(gone), Revise(memory(13, key="h").changed("update", NOW, key="g"))])
        request = ["k", "absent", "i", "j", "k", "h"]
        assert {int(found.id, 16) for found in store.find_by_key(Scope(session_id="t"), request)} == {0, 10, 11}
        assert len(store.find_by_key(Scope(), request)) == 3
        assert gone in store.find_by_key(Scope(), ["i"])
        for number, home in enumerate(homes):
            assert store.find_by_key(Scope(**home), ["k"]) == [memory(number, key="k", **home)]
        assert store.find_by_key(Scope(), []) == store.find_by_key(Scope(project="q"), request) == []
        assert [found.key for found in store.find_by_key(Scope(), ["g"])] == ["g"]

    def test_a_short_id_that_fits_several_fits_none(self, store: Store) -> None:
        twins = [f"{n:024x}0badcafe" for n in (1, 2)]
        add(store, *(stored(n, id=twin, user_id=f"u{n}") for n, twin in enumerate(twins)))
        assert store.fetch(EVERYTHING, ["0badcafe"]) == []
        assert [found.id for found in store.fetch(Scope(user_id="u1"), ["0badcafe"])] == [twins[1]]
        assert [found.id for found in store.fetch(EVERYTHING, twins)] == twins

    def test_a_batch_has_the_rows_of_terms_and_distinctions_that_are_rivals(self, store: Store) -> None:
        add(
            store,
            stored(1, terms=("left", "knee"), distinctions=("text:1", "date:monday")),
            stored(2, terms=("right", "right"), distinctions=("text:2", "date:monday", "number:2", "date:monday")),
            stored(3, terms=("left",), user_id="hidden"),
            stored(4, terms=("left",), kind="y"),
        )
        words = ("right", "date:monday", "left", "absent", "date:friday")
        request = need(Scope(user_id="u"), filter=Filter(kinds=["fact"]), distinctions=True, rivals=words)
        for one in (request, replace(request, vector=unit(1), candidates=5)):
            batch = store.gather(one)
            found = {word: [numbers(batch)[row] for row in rows] for word, rows in batch.rivals.items()}
            assert found == {"right": [2], "date:monday": [1, 2], "left": [1], "absent": [], "date:friday": []}
        assert store.gather(need(distinctions=True)).rivals == {}

    def test_the_lexicon_counts_what_the_scope_sees(self, store: Store) -> None:
        words = np.random.default_rng(5).choice(["a", "b", "c", "d"], size=(60, 6))
        items = [
            stored(n, terms=words[n, : n % 7].tolist(), user_id="u" if n % 3 else None, kind="x" if n % 2 else "y")
            for n in range(60)
        ]
        add(store, *items, stored(99, terms=("a",), user_id="hidden"))
        store.apply([Revise(items[6].memory.changed("forget", NOW, forgotten_at=NOW))])
        request = ("c", "absent", "a")
        batch = store.gather(need(Scope(user_id="u"), filter=Filter(kinds=["y"]), terms=request))
        counts = [Counter(item.terms) for item in items if item is not items[6]]
        rows = [Counter(items[number].terms) for number in numbers(batch)]
        assert batch.lexicon is not None
        assert batch.lexicon.documents == 59
        assert batch.lexicon.average_length == sum(count.total() for count in counts) / 59
        assert batch.lexicon.document_frequency.tolist() == [sum(c[term] > 0 for c in counts) for term in request]
        assert batch.lexicon.length.tolist() == [count.total() for count in rows]
        for term, (holding, frequency) in zip(request, batch.lexicon.postings, strict=True):
            found = {row: count[term] for row, count in enumerate(rows) if count[term]}
            assert dict(zip(holding.tolist(), frequency.tolist(), strict=True)) == found
            assert holding.tolist() == sorted(found)

    def test_a_misspelt_term_counts_as_the_similar_one(self, store: Store) -> None:
        add(
            store,
            stored(1, terms=("address", "garden"), user_id="u"),
            stored(2, terms=("garden",), user_id="u"),
            stored(3, terms=("adress", "birthday"), user_id="hidden"),
        )
        scope, request = Scope(user_id="u"), ("adress", "gardem", "birtday")
        for more in ({}, {"vector": unit(1), "reach": 2}, {"ids": (id_of(1), id_of(2))}):
            batch = store.gather(need(scope, terms=request, correctable=frozenset(request), windows=True, **more))
            assert batch.corrected == {"adress": "address", "gardem": "garden"}
            assert batch.lexicon is not None
            assert batch.lexicon.document_frequency.tolist() == [1, 2, 0]
            held = [dict(zip(rows.tolist(), counts.tolist(), strict=True)) for rows, counts in batch.lexicon.postings]
            assert held == [{0: CORRECTED}, {0: CORRECTED, 1: CORRECTED}, {}]

    def test_only_correctable_terms_that_no_memory_holds_are_corrected(self, store: Store) -> None:
        add(store, stored(1, terms=("address", "adress", "garden")))
        for request, correctable in (
            (("adress",), {"adress"}),
            (("gardem",), set[str]()),
            (("gardem", "garden"), {"gardem", "garden"}),
        ):
            batch = store.gather(need(terms=request, correctable=frozenset(correctable)))
            assert batch.corrected == {}

    def test_entities_are_matched_by_their_normal_form(self, store: Store) -> None:
        add(
            store, stored(1, entities=("Alice Smith", "Zürich")), stored(2), stored(3, entities=("ALICE  SMITH", "Bob"))
        )
        add(store, stored(4, entities=("Carol", "CAROL"), user_id="hidden"), stored(5, entities=("Straße", "STRASSE")))
        batch = store.gather(need(Scope(), entities=True, names=("bob", "alice smith", "carol", "strasse", "nobody")))
        assert batch.entities is not None
        lists = batch.entities.of_row
        of_row = [lists.values[start:end].tolist() for start, end in pairwise(lists.offsets)]
        assert [len(codes) for codes in of_row] == [2, 0, 2, 1]
        alice, bob, street = of_row[0][0], of_row[2][1], of_row[3][0]
        assert of_row[2] == [alice, bob]
        assert len({*of_row[0], *of_row[2], *of_row[3]}) == 4
        assert batch.entities.of_query.tolist() == [bob, alice, street]
        assert batch.entities.frequency.tolist() == [1, 2, 1]
        assert batch.entities.documents == 4

    def test_the_number_of_documents_with_entities_depends_on_no_filter(self, store: Store) -> None:
        add(store, stored(1, entities=("Bob",), kind="rule"), stored(2))
        for names in ((), ("bob",)):
            batch = store.gather(need(Scope(), entities=True, names=names, filter=Filter(kinds=("none",))))
            assert batch.entities is not None
            assert batch.entities.documents == 2

    def test_a_scan_goes_page_by_page(self, store: Store) -> None:
        add(store, *(stored(n) for n in (4, 1, 5, 2, 3)))
        assert listed(store, limit=2) == [1, 2]
        assert listed(store, after=id_of(2), limit=2) == [3, 4]
        assert listed(store, after=id_of(4), limit=2) == [5]
        assert listed(store, after=id_of(5)) == []

    def test_a_scan_goes_from_the_newest_memory_backwards(self, store: Store) -> None:
        add(store, *(stored(n) for n in (4, 1, 5, 2, 3)), stored(6, user_id="u"), stored(7, tenant="other"))
        assert listed(store, Scope(), newest_first=True, limit=2) == [5, 4]
        assert listed(store, Scope(), newest_first=True, after=id_of(4), limit=2) == [3, 2]
        assert listed(store, Scope(), newest_first=True, after=id_of(2)) == [1]
        assert listed(store, Scope(), newest_first=True, after=id_of(1)) == []

    @pytest.mark.parametrize("order", ORDERS)
    def test_a_window_follows_creation_time_and_not_the_order_of_storing(
        self, store: Store, order: tuple[int, ...]
    ) -> None:
        for number in order:
            add(store, turn(number))
        batch = store.gather(need(terms=TERMS, windows=True))
        assert in_windows(batch, TERMS) == {
            1: {"t1": 2, "t2": 1, "t3": 1},
            2: {"t1": 1, "t2": 2, "t3": 1, "t4": 1},
            3: {"t1": 1, "t2": 1, "t3": 2, "t4": 1, "t5": 1},
            4: {"t2": 1, "t3": 1, "t4": 2, "t5": 1},
            5: {"t3": 1, "t4": 1, "t5": 2},
        }
        assert batch.windows is not None
        assert batch.windows.documents == 5
        assert batch.windows.document_frequency.tolist() == [3, 4, 5, 4, 3, 0, 0]
        assert batch.windows.length.tolist() == [4, 5, 6, 5, 4]
        assert batch.windows.average_length == 24 / 5

    def test_turns_of_one_instant_are_ordered_by_turn_number(self, store: Store) -> None:
        add(store, *(turn(number, created_at=NOW) for number in (4, 2, 3, 1)))
        found = in_windows(store.gather(need(terms=TERMS, windows=True)), TERMS)
        assert found[4] == {"t4": 2, "t2": 1, "t3": 1}
        assert found[1] == {"t1": 2, "t3": 1, "t2": 1}

    def test_a_context_ends_with_its_session(self, store: Store) -> None:
        homes: list[dict[str, Any]] = [
            {"session_id": "s"}, {"session_id": "s", "user_id": "u"}, {"session_id": "s", "environment": "e"},
            {"session_id": "z"}, {"session_id": None}, {"session_id": None}, {"session_id": "s", "project": "p"},
        ]  # fmt: skip
        add(store, *(turn(number, **home) for number, home in enumerate(homes, 1)))
        found = in_windows(store.gather(need(terms=TERMS, windows=True)), TERMS)
        assert found[1] == {"t1": 2, "t7": 1}
        assert found[7] == {"t7": 2, "t1": 1}
        assert all(found[number] == {f"t{number}": 2} for number in range(2, 7))

    def test_a_window_holds_only_visible_memories(self, store: Store) -> None:
        add(store, turn(1), turn(2, project="secret"), turn(3), turn(4, tenant="other"), turn(5))
        batch = store.gather(need(Scope(), terms=TERMS, windows=True))
        assert in_windows(batch, TERMS)[3] == {"t1": 1, "t3": 2, "t5": 1}
        seen = store.gather(need(Scope(project=ANY), terms=TERMS, windows=True))
        assert in_windows(seen, TERMS)[3] == {"t1": 1, "t2": 1, "t3": 2, "t5": 1}

    def test_a_filter_does_not_change_windows(self, store: Store) -> None:
        add(store, *(turn(number, kind="x" if number == 2 else "y", vector=unit(1, number)) for number in (1, 2, 3)))
        plain = need(terms=TERMS, windows=True, vector=unit(1))
        whole, narrow = (store.gather(request) for request in (plain, need(
            terms=TERMS, windows=True, vector=unit(1), filter=Filter(kinds=["x"]))
        ))  # fmt: skip
        assert numbers(narrow) == [2]
        assert in_windows(narrow, TERMS)[2] == in_windows(whole, TERMS)[2] == {"t1": 1, "t2": 2, "t3": 1}
        assert narrow["context_cosine"][0] == whole["context_cosine"][1]
        assert narrow.windows is not None
        assert narrow.windows.documents == 3

    def test_windows_follow_edits_forgetting_and_expiry(self, store: Store) -> None:
        first = turn(1)
        add(store, first, turn(2), turn(3), turn(4, expires_at=NOW + timedelta(hours=1)))
        store.apply([Revise(first.memory.changed("update", NOW, turn=1), terms=("t6",))])
        assert in_windows(store.gather(need(terms=TERMS, windows=True)), TERMS)[2] == {
            "t6": 1, "t2": 2, "t3": 1, "t4": 1
        }  # fmt: skip
        store.apply([Revise(turn(3).memory.changed("forget", NOW, forgotten_at=NOW, turn=3))])
        late = need(terms=TERMS, windows=True, now=NOW + timedelta(hours=2))
        assert in_windows(store.gather(late), TERMS) == {1: {"t6": 2, "t2": 1}, 2: {"t6": 1, "t2": 2}, 4: {"t4": 2}}

    def test_the_context_cosine_is_the_mean_of_a_memory_and_its_neighbours(self, store: Store) -> None:
        vectors = {1: unit(1), 2: unit(1, 1), 3: None, 4: unit(0, 1), 5: None}
        add(store, *(turn(number, vector=vector) for number, vector in vectors.items()), stored(9, vector=unit(0, 1)))
        query = unit(3, 4)
        near = {
            number: float(cosines(vector[None], query)[0]) for number, vector in vectors.items() if vector is not None
        }
        batch = store.gather(need(vector=query))
        assert batch["context_cosine"].tolist() == pytest.approx(
            [(near[1] + near[2]) / 2, (near[2] + near[1]) / 2, (near[2] + near[4]) / 2, near[4], near[4], 0.8]
        )
        assert store.gather(need())["context_cosine"].tolist() == [0.0] * 6

    def test_neighbours_are_the_memories_before_and_after_in_the_session(self, store: Store) -> None:
        """A filter does not hide them; a forgotten, expired or invisible memory is none."""
        add(
            store,
            *(turn(number, kind="odd" if number % 2 else "even") for number in range(1, 5)),
            turn(5, user_id="bob"),
            turn(6, expires_at=NOW - timedelta(hours=1)),
            turn(7),
            stored(8),
        )
        assert store.gather(need()).neighbours is None
        ids = {number: id_of(number) for number in range(1, 9)} | {0: ""}

        def near(**values: Any) -> dict[int, tuple[str, str]]:
            batch = store.gather(need(Scope(), neighbours=True, **values))
            assert batch.neighbours is not None
            return dict(zip(numbers(batch), map(tuple, batch.neighbours.tolist()), strict=True))

        due = {1: (0, 2), 2: (1, 3), 3: (2, 4), 4: (3, 7), 6: (0, 0), 7: (4, 0), 8: (0, 0)}
        assert near() == {number: (ids[before], ids[after]) for number, (before, after) in due.items()}
        assert near(filter=Filter(kinds=("odd",))) == {1: ("", ids[2]), 3: (ids[2], ids[4])}
        assert near(ids=(id_of(4),)) == {4: (ids[3], ids[7])}
        assert near(columns=frozenset(), ids=(id_of(2),)) == {2: (ids[1], ids[3])}
        store.apply([Revise(memory(3, session_id="s", turn=3).changed("forget", NOW, forgotten_at=NOW))])
        assert near(ids=(id_of(4),)) == {4: (ids[2], ids[7])}
        nobody = store.gather(need(Scope("nobody"), neighbours=True)).neighbours
        assert nobody is not None
        assert nobody.shape == (0, 2)

    def test_memories_with_a_speaker_are_compared_with_voice(self, store: Store) -> None:
        add(store, turn(1, speaker="Ann", vector=unit(1)), turn(2, vector=unit(1)), turn(3, speaker="Bob", vector=None))
        query: dict[str, Any] = {"vector": unit(0, 1), "first_person_vector": unit(1)}
        assert store.gather(need(**query))["cosine"].tolist() == [1.0, 0.0, 0.0]
        assert store.gather(need(**query))["context_cosine"].tolist() == [0.5, 0.5, 0.0]
        assert store.gather(need(vector=unit(1)))["cosine"].tolist() == [1.0, 1.0, 0.0]
        assert numbers(store.gather(need(**query, candidates=1))) == [1, 3]

    def test_windows_need_terms_and_a_request(self, store: Store) -> None:
        add(store, turn(1))
        assert store.gather(need(terms=TERMS)).windows is None
        assert store.gather(need(windows=True)).windows is None

    def test_sessions_come_in_the_order_of_their_first_memory(self, store: Store) -> None:
        made = {"b": (3, 1), "a": (2, 5), "hidden": (0,), "c": (4,)}
        times = [(name, hour) for name, hours in made.items() for hour in hours]
        add(store, stored(20), *(
            stored(number, session_id=name, created_at=NOW + hour * HOUR, user_id="u" if name == "hidden" else None)
            for number, (name, hour) in enumerate(times, 1)
        ))  # fmt: skip
        spans = [SessionSpan(name, NOW + start * HOUR, NOW + end * HOUR)
                 for name, start, end in (("b", 1, 3), ("a", 2, 5), ("c", 4, 4))]  # fmt: skip
        assert store.sessions(Scope()) == spans
        assert store.sessions(Scope(user_id="u")) == [SessionSpan("hidden", NOW, NOW), *spans]
        assert store.sessions(Scope(tenant="other")) == []
        store.apply([Erase("default", (id_of(2),))])
        assert store.sessions(Scope())[:2] == [spans[1], SessionSpan("b", NOW + 3 * HOUR, NOW + 3 * HOUR)]

    def test_a_stated_time_is_kept_and_changes_with_the_distinctions(self, store: Store) -> None:
        first, other = (NOW, NOW + HOUR), (NOW - HOUR, NOW)
        add(store, stored(1, event=first), stored(2), stored(3, event=other))

        def held() -> list[tuple[float, float]]:
            batch = store.gather(need())
            return list(zip(batch["event_start"].tolist(), batch["event_end"].tolist(), strict=True))

        none, (start, end) = (math.inf, -math.inf), (moment.timestamp() for moment in first)
        assert held() == [(start, end), none, tuple(moment.timestamp() for moment in other)]
        assert [item.event for item in store.scan(EVERYTHING)] == [first, None, other]
        store.apply([Revise(memory(1).changed("update", NOW))])
        assert held()[0] == (start, end)
        second = only(store, 1).memory
        store.apply([Revise(second.changed("update", NOW), distinctions=("text:new",)), Erase("default", (id_of(3),))])
        assert held() == [none, none]
        derived = Derive("default", id_of(2), 1, memory(2).content_hash, distinctions=("text:2",), event=first)
        store.apply([derived])
        assert held() == [none, (start, end)]
        assert [item.event for item in store.history(EVERYTHING, id_of(1))] == [first, first, None]

    def test_browsing_sorts_and_goes_page_by_page(self, store: Store) -> None:
        for number in range(1, 8):
            late = NOW + (number % 3) * HOUR
            fields: dict[str, Any] = {"importance": number % 2 / 2, "weight": 1 - number % 3 / 10, "created_at": late}
            recalled: dict[str, Any] = {"accessed_at": late, "access_count": number % 4} if number % 2 else {}
            add(store, stored(number, updated_at=late, **fields, **recalled))

        def key(memory: Memory, order: str) -> tuple[float, str]:
            value = 0 if order == "id" else getattr(memory, order) or 0
            return (round(value.timestamp() * 1e6) if isinstance(value, datetime) else value), memory.id

        everything = Selection(scope=EVERYTHING)
        for order in SORTABLE:
            for ascending in (False, True):
                whole = store.browse(everything, order, 100, ascending=ascending)
                keys = [key(one, order) for one in whole]
                assert len(whole) == 7
                assert keys == sorted(keys, reverse=not ascending)
                pages, after = list[Memory](), None
                while page := store.browse(everything, order, 3, ascending=ascending, after=after):
                    pages += page
                    after = After(*key(page[-1], order))
                assert pages == whole

    def test_facets_count_what_another_choice_would_give(self, store: Store) -> None:
        add(
            store,
            stored(1, content="Green TEA_100%", user_id="ann", project="p", tags=("drink", "a")),
            stored(2, content="black tea", user_id="ann", kind="rule", tags=("drink",)),
            stored(3, None, content="coffee", user_id="bob", tier="semantic", session_id="s"),
            stored(4, content="tea of another environment", environment="staging"),
            stored(5, content="tea of another tenant", tenant="other"),
        )
        gone = memory(6, content="old tea", user_id="bob")
        add(store, stored(6, content="old tea", user_id="bob"))
        store.apply([Revise(gone.changed("forget", NOW, forgotten_at=NOW))])
        everything = Selection(scope=Scope(user_id=ANY, project=ANY))
        counts = store.counts(everything.scope, NOW)
        found = store.facets(everything)
        assert store.counts(everything.scope, NOW) == counts  # also of a store that has read its index
        assert (counts.total, counts.pending) == (3, 1)
        assert counts.values["user_id"] == {"ann": 2, "bob": 1}
        assert counts.values["session_id"] == {"": 2, "s": 1}
        assert counts.values["status"] == {"live": 3}
        assert store.counts(Scope(), NOW).pending == store.counts(Scope("nobody"), NOW).total == 0
        assert found.total == 4
        assert list(found.values) == list(found.distinct) == [*FACETS, "tag"]
        assert dict(found.values["user_id"]) == {"ann": 2, "bob": 2}
        assert dict(found.values["status"]) == {"live": 3, "forgotten": 1}
        assert dict(found.values["tag"]) == {"drink": 2, "a": 1}
        assert dict(found.values["session_id"]) == {"": 3, "s": 1}
        tea = replace(everything, words=("tea",), values={"status": ("live",), "user_id": ("ann",)})
        found = store.facets(tea)
        assert found.total == 2
        assert dict(found.values["user_id"]) == {"ann": 2}
        assert dict(found.values["status"]) == {"live": 2}
        assert [int(one.id, 16) for one in store.browse(tea, "created_at", 10)] == [2, 1]
        for words, numbers_ in ((("tea_",), [1]), (("100%",), [1]), (("%",), [1]), (("TEA", "green"), [1])):
            assert [int(one.id, 16) for one in store.browse(replace(tea, words=words), "weight", 9)] == numbers_
        other = store.facets(replace(everything, values={"user_id": ("bob",), "status": ("live",)}))
        assert dict(other.values["user_id"]) == {"ann": 2, "bob": 1}
        assert dict(other.values["status"]) == {"forgotten": 1, "live": 1}
        assert store.facets(replace(everything, filter=Filter(tags=("drink", "a")))).total == 1
        assert store.facets(replace(everything, values={"session_id": ("",)})).total == 3
        assert store.facets(Selection(scope=Scope(user_id="ann"))).total == 1
        assert store.facets(Selection(scope=Scope("nobody"))).total == 0
        cut = store.facets(everything, 1)
        assert dict(cut.values["tag"]) == {"drink": 2}
        assert cut.distinct["tag"] == 2

    def test_memories_are_selected_by_fact_and_by_what_they_supersede(self, store: Store) -> None:
        add(
            store,
            stored(1, user_id="ann", fact_key="ann.city"),
            stored(2, user_id="ann", fact_key="ann.city", supersedes=memory(1).id),
            stored(3, user_id="bob", fact_key="bob.city", supersedes=memory(9).id),
            stored(4, user_id="ann"),
        )
        everything = Selection(scope=Scope(user_id=ANY))

        def numbers_of(fact_keys: tuple[str, ...] = (), **conditions: tuple[str, ...]) -> list[int]:
            selection = replace(everything, filter=Filter(fact_keys=fact_keys), **conditions)  # type: ignore[arg-type]
            found = store.browse(selection, "created_at", 9)
            return sorted(int(one.id, 16) for one in found)

        assert numbers_of(fact_keys=("ann.city",)) == [1, 2]
        assert numbers_of(fact_keys=("ann.city", "bob.city", "none")) == [1, 2, 3]
        assert numbers_of(supersedes=(memory(1).id, memory(4).id)) == [2]
        assert numbers_of(fact_keys=("bob.city",), supersedes=(memory(1).id,)) == []
        assert numbers_of(ids=(id_of(2), memory(4).short_id, id_of(9))) == [2, 4]
        assert numbers_of(ids=(id_of(2),), fact_keys=("bob.city",)) == []
        assert store.browse(Selection(scope=Scope(user_id="bob"), ids=(id_of(1),)), "id", 9) == []

    def test_browsing_takes_the_conditions_of_a_recall(self, store: Store) -> None:
        add(
            store,
            stored(1, created_at=NOW, metadata={"plan": "pro"}, tags=("a",)),
            stored(2, created_at=NOW + HOUR, metadata={"plan": "free"}, project="p"),
            stored(3, created_at=NOW + 2 * HOUR, metadata={"plan": "pro"}, kind="rule"),
        )
        everything = Selection(scope=EVERYTHING)
        for filter, accepted in (
            (Filter(where={"plan": "pro"}), [1, 3]),
            (Filter(since=NOW + HOUR), [2, 3]),
            (Filter(until=NOW + HOUR, tags=("a",)), [1]),
            (Filter(level="project"), [2]),
            (Filter(kinds=("rule",)), [3]),
        ):
            selection = replace(everything, filter=filter)
            found = store.browse(selection, "id", 9, ascending=True)
            assert [int(one.id, 16) for one in found] == accepted
            assert store.facets(selection).total == len(accepted)

    def test_sessions_are_listed_the_latest_first_page_by_page(self, store: Store) -> None:
        add(
            store,
            stored(1, session_id="a", user_id="ann", created_at=NOW),
            stored(2, session_id="a", user_id="ann", created_at=NOW + 3 * HOUR, content="tea"),
            stored(3, session_id="a", user_id="bob", created_at=NOW + 3 * HOUR),
            stored(4, session_id="b", created_at=NOW + HOUR, content="tea"),
            stored(5, user_id="ann"),
            stored(6, session_id="c", tenant="other"),
        )
        everything = Selection(scope=Scope(user_id=ANY))
        first = SessionSummary("default", "bob", "a", 1, NOW + 3 * HOUR, NOW + 3 * HOUR)
        second = SessionSummary("default", "ann", "a", 2, NOW, NOW + 3 * HOUR)
        third = SessionSummary("default", None, "b", 1, NOW + HOUR, NOW + HOUR)
        assert store.browse_sessions(everything, 9) == [first, second, third]
        pages, after = list[SessionSummary](), None
        while page := store.browse_sessions(everything, 1, after):
            pages += page
            after = After((page[0].end - EPOCH) // timedelta(microseconds=1), page[0].key)
        assert pages == [first, second, third]
        assert store.browse_sessions(Selection(scope=Scope(user_id="ann")), 9) == [second, third]
        tea = replace(everything, words=("tea",), values={"status": ("live",)})
        assert [(one.id, one.size) for one in store.browse_sessions(tea, 9)] == [("a", 1), ("b", 1)]

    def test_memories_are_found_by_their_entities_and_links(self, store: Store) -> None:
        add(
            store,
            stored(1, entities=("Ann", "Tea"), user_id="ann"),
            stored(2, entities=("Ann",), supersedes=id_of(1), user_id="ann"),
            stored(3, entities=("Oslo",), relations=(replaces(1, 0.8),)),
            stored(4, kind="reflection", sources=(id_of(1), id_of(2))),
            stored(5, entities=("Ann",), tenant="other"),
        )
        everything = Selection(scope=Scope(user_id=ANY))

        def found(**conditions: Any) -> list[int]:
            return [int(one.id, 16) for one in store.browse(replace(everything, **conditions), "id", 9, ascending=True)]

        assert found(entities=("Tea",)) == [1]
        assert found(entities=("Tea", "Oslo")) == [1, 3]
        assert found(entities=("tea",)) == []
        assert found(linked_to=(id_of(1),)) == [2, 3, 4]
        assert found(linked_to=(id_of(2), id_of(9))) == [4]
        assert found(linked_to=(id_of(1),), entities=("Ann",)) == [2]
        assert list(store.count_entities(everything).items()) == [("Ann", 2), ("Oslo", 1), ("Tea", 1)]
        assert store.count_entities(replace(everything, scope=Scope())) == {"Oslo": 1}
        assert store.count_entities(replace(everything, entities=("Tea",))) == {"Ann": 1, "Tea": 1}

    def test_facets_agree_with_browsing(self, store: Store) -> None:
        """A facet counts the memories that the conditions on all other facets select."""
        for number in range(1, 25):
            user, kind = ("ann", "bob", None)[number % 3], ("fact", "rule")[number % 2]
            session, tags = ("s", "t", None, None)[number % 4], (("a", "b"), ("b",), ())[number % 5 % 3]
            fields: dict[str, Any] = {"user_id": user, "kind": kind, "session_id": session, "tags": tags}
            add(store, stored(number, content=f"{('tea', 'coffee')[number % 7 % 2]} {number}", **fields))
            one = memory(number, content="tea again", **fields)
            if number % 6 == 0:
                change = ("forget", "expire")[number % 4 // 2]
                store.apply([Revise(one.changed(change, NOW, forgotten_at=NOW))])
            elif number % 6 == 1:  # another version, so that an index has an outdated one
                store.apply([Revise(replace(one.changed("update", NOW), tags=("c",)))])
        scope, live = Scope(user_id=ANY, project=ANY), {"status": ("live",)}
        for words in ((), ("tea",), ("nothing",)):
            for tags in ((), ("b",)):
                for values in (
                    {},
                    live,
                    {"status": ("forgotten", "expired")},
                    {**live, "user_id": ("ann", "")},
                    {"user_id": ("bob",), "kind": ("rule", "unknown"), "session_id": ("s", "")},
                ):
                    selection = Selection(scope=scope, filter=Filter(tags=tags), words=words, values=values)

                    found = store.facets(selection, 100)
                    selected = store.browse(selection, "id", 100)
                    assert found.total == len(selected)
                    assert found.values["tag"] == Counter(tag for one in selected for tag in one.tags)
                    for name in FACETS:
                        others = {other: accepted for other, accepted in values.items() if other != name}
                        listed = store.browse(replace(selection, values=others), "id", 100)
                        at = [one.scope if hasattr(one.scope, name) else one for one in listed]
                        assert found.values[name] == Counter(getattr(one, name) or "" for one in at), selection

    def test_speakers_are_found_by_whole_or_first_name(self, store: Store) -> None:
        """A memory without a speaker is about the speakers among its entities."""
        speakers = {1: "Caroline", 2: "Mel Smith", 3: "MEL Jones", 4: None, 5: "Zoë", 6: "Carol"}
        add(store, *(turn(number, speaker=speaker, user_id="hidden" if number == 6 else None)
                     for number, speaker in speakers.items()))  # fmt: skip
        assert store.speakers(Scope(), ("mel", "caroline", "carol", "nobody")) == ["Caroline", "MEL Jones", "Mel Smith"]
        assert store.speakers(Scope(), ("mel smith", "zoë")) == ["Mel Smith", "Zoë"]
        assert store.speakers(Scope(user_id="hidden"), ("carol",)) == ["Carol"]
        assert store.speakers(Scope(), ("smith", "jones")) == store.speakers(Scope(), ()) == []
        add(store, stored(7, entities=("ZOË", "Paris")), stored(8, entities=("Zoë Q",)))
        add(store, turn(9, speaker="Bob", entities=("Zoë",)))
        batch = store.gather(need(speakers=("mel", "zoë")))
        assert batch["speaker_named"].tolist() == [False, True, True, False, True, False, True, False, False]
        assert batch["speaker"][3] == -1
        assert len(set(batch["speaker"].tolist())) == 7
        assert store.gather(need(EVERYTHING, ids=(id_of(1), id_of(4))))["speaker_named"].tolist() == [False, False]

    def test_distinctions_come_back_as_they_went_in(self, store: Store) -> None:
        add(store, *(stored(number, distinctions=held) for number, held in GIVEN.items()))
        assert [item.distinctions for item in store.scan(EVERYTHING)] == list(GIVEN.values())

    def test_distinctions_are_returned_as_codes(self, store: Store) -> None:
        add(store, *(stored(number, distinctions=held) for number, held in reversed(GIVEN.items())))
        assert store.gather(need()).distinctions is None
        batch = store.gather(need(distinctions=True))
        codes = _codes(batch)
        flat_values = [one for held in GIVEN.values() for one in held]
        flat = [code for held in codes for code in held]
        assert [len(held) for held in codes] == [len(held) for held in GIVEN.values()]
        assert len(set(zip(flat_values, flat, strict=True))) == len(set(flat_values)) == len(set(flat))
        assert [KINDS[code % len(KINDS)] for code in flat] == [one.partition(":")[0] for one in flat_values]
        third = _codes(store.gather(need(distinctions=True, ids=(id_of(3),))))
        assert [[code % len(KINDS) for code in held] for held in third] == [[code % len(KINDS) for code in codes[2]]]
        assert _codes(store.gather(need(distinctions=True, ids=()))) == []

    def test_a_revision_replaces_distinctions_or_keeps_them(self, store: Store) -> None:
        first = stored(1, distinctions=("text:a", "number:1"))
        add(store, first)
        second = memory(1).changed("update", NOW + timedelta(hours=1))
        third = second.changed("update", NOW + timedelta(hours=2))
        fourth = third.changed("update", NOW + timedelta(hours=3))
        store.apply(
            [Revise(second, distinctions=("text:b", "number:2")), Revise(third), Revise(fourth, distinctions=())]
        )
        expected = [("text:a", "number:1"), ("text:b", "number:2"), ("text:b", "number:2"), ()]
        versions = store.scan(EVERYTHING, versions=True)
        assert [item.distinctions for item in versions] == expected
        elsewhere = [replace(item, memory=replace(item.memory, id=id_of(2))) for item in versions]
        store.apply([Add(elsewhere[-1], tuple(elsewhere[:-1]))])
        assert [item.distinctions for item in store.scan(EVERYTHING, id_of(1), versions=True)] == expected
        assert only(store, 2).distinctions == ()
        assert _codes(store.gather(need(distinctions=True))) == [[], []]
