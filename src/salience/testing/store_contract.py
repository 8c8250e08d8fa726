"""The laws that every store keeps: subclass `StoreContract` in your tests and override its `store` fixture.

```python
class TestMyStore(StoreContract):
    @pytest.fixture
    def store(self):
        store = MyStore(dimension=DIMENSION)
        yield store
        store.close()
```
"""

from __future__ import annotations

import copy
import math
import pickle
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import numpy as np
import pytest

from salience.batch import COLUMNS, Batch, Vectors32, cosines
from salience.checks import Frozen, frozen
from salience.errors import ConflictError, InputError, StaleError, StoreError
from salience.ports import Add, Change, Near, Need, Revise, Store, Stored, Touch
from salience.records import ANY, Filter, Memory, Receipt, Scope
from salience.text import content_hash

DIMENSION: Final = 8
"""Length of the vectors of the contract's memories."""
NOW: Final = datetime(2026, 5, 1, 12, tzinfo=UTC)
"""When the contract's memories are made, unless they say otherwise."""
EVERYTHING: Final = Scope(environment=ANY, project=ANY, user_id=ANY, agent_id=ANY)
"""Sees all memories of the default tenant."""
_COORDINATES: Final = frozenset(item.name for item in fields(Scope))


def id_of(number: int) -> str:
    """Return the id of the contract's memory `number`; ids sort as the numbers do."""
    return f"{number:032x}"


def memory(number: int, **values: Any) -> Memory:
    """Return a memory; `values` are fields of `Memory` or coordinates of its scope; its metadata is frozen."""
    scope = Scope(**{name: values.pop(name) for name in _COORDINATES & values.keys()})
    content = values.setdefault("content", f"memory {number}")
    made: dict[str, Any] = {
        "id": id_of(number), "scope": scope, "content_hash": content_hash(content), "kind": "fact", "importance": 0.5,
        "weight": 1.0, "tier": "episodic", "tags": (), "entities": (), "fact_key": None, "supersedes": None,
        "key": None, "speaker": None, "created_at": NOW, "updated_at": NOW, "tier_since": NOW,
        "changed_at": NOW,
    }  # fmt: skip
    return Memory(**{**made, **values, "metadata": frozen(values.get("metadata", {}))})


def unit(*numbers: float) -> Vectors32:
    """Return the numbers, and zeros behind them, as a vector of length 1: float32[DIMENSION]."""
    vector = np.zeros(DIMENSION)
    vector[: len(numbers)] = numbers
    return (vector / np.linalg.norm(vector)).astype(np.float32)


def random_unit(seed: int) -> Vectors32:
    """Return a vector of length 1 that depends on `seed` alone."""
    return unit(*np.random.default_rng(seed).normal(size=DIMENSION))


_DERIVED: Final = random_unit(0)


def stored(
    number: int,
    vector: Vectors32 | None = _DERIVED,
    terms: Sequence[str] | None = None,
    activations: dict[str, int] | None = None,
    **values: Any,
) -> Stored:
    """Return a memory with a vector of its own and the words of its content as terms, unless these are given."""
    made = memory(number, **values)
    own = random_unit(number) if vector is _DERIVED else vector
    return Stored(made, own, tuple(made.content.split() if terms is None else terms), activations or {})


def add(store: Store, *items: Stored) -> list[Receipt]:
    """Store the memories in one transaction."""
    return store.apply([Add(item) for item in items])


def need(scope: Scope = EVERYTHING, **values: Any) -> Need:
    """Return a need for every column, as seen from `scope`."""
    return Need(**{"scope": scope, "now": NOW, "columns": frozenset(COLUMNS), **values})


def numbers(batch: Batch) -> list[int]:
    """Return which of the contract's memories are in the batch, in its order."""
    return [int(name, 16) for name in batch.ids]


def listed(store: Store, scope: Scope = EVERYTHING, **values: Any) -> list[int]:
    """Return which of the contract's memories a scan returns, in its order."""
    return [int(item.memory.id, 16) for item in store.scan(scope, **values)]


def only(store: Store, number: int) -> Stored:
    """Return what a scan says of one memory."""
    return next(item for item in store.scan(EVERYTHING, forgotten=True) if item.memory.id == id_of(number))


HOMES: Final[dict[int, dict[str, Any]]] = {
    1: {},
    2: {"project": "p"},
    3: {"project": "q"},
    4: {"user_id": "u"},
    5: {"user_id": "v"},
    6: {"agent_id": "a"},
    7: {"project": "p", "user_id": "u"},
    8: {"project": "p", "user_id": "u", "agent_id": "a"},
    9: {"project": "p", "user_id": "v"},
    10: {"environment": "staging"},
    11: {"tenant": "other"},
    12: {"user_id": "u", "session_id": "s"},
    13: {"session_id": "t"},
}
"""Where the memories of the visibility laws live."""
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
"""Who asks, and which of `HOMES` they see."""
FILTERED: Final[dict[int, dict[str, Any]]] = {
    1: {"tags": ("red",)},
    2: {"tags": ("red", "blue"), "project": "p"},
    3: {"tags": ('a"b', ",", "\\"), "kind": "rule"},
    4: {"kind": "turn", "session_id": "s", "tier": "working"},
    5: {"kind": "turn", "session_id": "t", "tier": "semantic"},
    6: {"created_at": NOW - timedelta(microseconds=1)},
    7: {"created_at": NOW + timedelta(microseconds=1), "tags": ("redder", "Red", "x,", ",y")},
}
"""The memories of the filter laws."""
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
TEXTS: Final = (
    "emoji 👩🏽‍🚀🇪🇺 and 𝔐athematical letters",
    "من اليمين إلى اليسار, עברית",
    "combining e\u0301 and composed \u00e9",
    "quotes ' \" ` \\ ; -- % _ {} and ? :name",
    "lines\nwith\r\nends\tand\u2028separators\u2029\u0085",
    "  white space at both ends  ",
    "x" * 100_000,
)
"""Texts that must come back as they went in."""


class StoreContract:
    """The laws; each test is one."""

    @pytest.fixture
    def store(self) -> Iterable[Store]:
        """Return an empty store for vectors of `DIMENSION`; closed afterwards."""
        raise NotImplementedError("override the `store` fixture")

    @pytest.mark.parametrize(("caller", "seen"), VISIBLE)
    def test_a_scope_sees_what_the_table_says(self, store: Store, caller: dict[str, Any], seen: set[int]) -> None:
        """Visibility, in every verb that reads."""
        add(store, *(stored(number, **home) for number, home in HOMES.items()))
        scope = Scope(**caller)
        assert numbers(store.gather(need(scope))) == sorted(seen)
        assert listed(store, scope) == sorted(seen)
        assert [int(found.id, 16) for found in store.fetch(scope, [id_of(n) for n in HOMES])] == sorted(seen)

    @pytest.mark.parametrize(("conditions", "accepted"), ACCEPTED)
    def test_a_filter_accepts_what_the_table_says(
        self, store: Store, conditions: dict[str, Any], accepted: set[int]
    ) -> None:
        """Filters, in both verbs that take one."""
        add(store, *(stored(number, **values) for number, values in FILTERED.items()))
        filter = Filter(**conditions)  # noqa: A001 - the name that the port has
        batch = store.gather(need(filter=filter))
        assert numbers(batch) == sorted(accepted)
        assert batch.complete
        assert listed(store, filter=filter) == sorted(accepted)

    def test_a_filter_works_inside_the_search(self, store: Store) -> None:
        """Ten of a rare tag among ten thousand memories are all found when ten are asked for."""
        rare = set(range(500, 10_000, 950))
        add(store, *(stored(n, tags=("rare",) if n in rare else ("common",)) for n in range(10_000)))
        batch = store.gather(need(filter=Filter(tags=["rare"]), vector=random_unit(10_000), candidates=10))
        assert set(numbers(batch)) == rare
        assert batch.complete

    def test_an_empty_store_gives_empty_answers(self, store: Store) -> None:
        """No memory is not an error."""
        asked = need(vector=unit(1), terms=("x",), names=("x",), entities=True, vectors=True, candidates=5)
        batch = store.gather(asked)
        assert len(batch) == 0
        assert batch.complete
        assert {name: column.dtype for name, column in batch.columns.items()} == _dtypes()
        assert batch.lexicon is not None
        assert (batch.lexicon.documents, batch.lexicon.average_length) == (0, 0.0)
        assert batch.lexicon.document_frequency.tolist() == [0.0]
        assert store.fetch(EVERYTHING, [id_of(1)]) == []
        assert store.scan(EVERYTHING) == []
        assert store.apply([]) == []

    def test_nothing_asked_for_gives_nothing(self, store: Store) -> None:
        """A limit of 0, no candidates, no ids."""
        add(store, stored(1), stored(2))
        assert store.scan(EVERYTHING, limit=0) == []
        assert store.fetch(EVERYTHING, []) == []
        batch = store.gather(need(vector=unit(1), candidates=0))
        assert len(batch) == 0
        assert not batch.complete
        assert len(store.gather(need(ids=()))) == 0
        assert len(store.gather(need(near=Near(np.empty((0, DIMENSION), np.float32), 0.0)))) == 0

    def test_columns_hold_what_the_memories_say(self, store: Store) -> None:
        """Every column, with its dtype, its unit, and its value for what is absent."""
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
        }
        assert {name: batch[name].tolist() for name in expected} == expected
        assert len(set(batch["code"].tolist())) == 3
        assert batch["supersedes"].tolist() == [-1, batch["code"][0], -1]
        assert batch["fact"][0] == batch["fact"][1] != batch["fact"][2]
        assert batch["fact"].min() >= 0

    def test_a_memory_that_is_not_live_is_superseded_by_none(self, store: Store) -> None:
        """`supersedes` is -1 where the target is forgotten, absent or another tenant's."""
        add(store, stored(1), stored(2, supersedes=id_of(1)), stored(3, supersedes=id_of(9)), stored(4, tenant="other"))
        add(store, stored(5, supersedes=id_of(4)))
        assert (store.gather(need())["supersedes"] >= 0).tolist() == [False, True, False, False]
        store.apply([Revise(memory(1).changed("forget", NOW, forgotten_at=NOW))])
        assert (store.gather(need())["supersedes"] >= 0).tolist() == [False, False, False]

    def test_only_the_columns_asked_for_are_brought(self, store: Store) -> None:
        """Nothing is brought that nobody reads."""
        add(store, stored(1))
        batch = store.gather(need(columns=frozenset({"weight"})))
        assert list(batch.columns) == ["weight"]
        assert (batch.vectors, batch.lexicon, batch.entities) == (None, None, None)

    def test_ties_go_to_the_smaller_id(self, store: Store) -> None:
        """Candidates of equal cosine are taken in the order of ids, and rows come in that order."""
        add(store, *(stored(n, vector=unit(1, 1)) for n in (5, 3, 9)), stored(7, vector=unit(1)))
        batch = store.gather(need(vector=unit(1), candidates=3))
        assert numbers(batch) == [3, 5, 7]
        assert not batch.complete

    def test_candidates_are_the_nearest(self, store: Store) -> None:
        """By cosine, against a sort of all of them; a memory without a vector stands at 0."""
        items = [stored(n, vector=None if n % 7 == 0 else random_unit(n)) for n in range(200)]
        add(store, *items)
        query = random_unit(1000)
        cosine = [0.0 if item.vector is None else float(cosines(item.vector[None], query)[0]) for item in items]
        for count in (1, 50, 199, 200, 300):
            batch = store.gather(need(vector=query, candidates=count))
            assert numbers(batch) == sorted(sorted(range(200), key=lambda n: (-cosine[n], n))[:count])
            assert batch["cosine"].tolist() == [cosine[number] for number in numbers(batch)]
            assert batch.complete == (count >= 200)

    def test_ids_name_the_candidates(self, store: Store) -> None:
        """Absent, forgotten and invisible ones are left out."""
        add(store, *(stored(n, user_id="u" if n % 2 else "v") for n in range(10)))
        store.apply([Revise(memory(3, user_id="u").changed("forget", NOW, forgotten_at=NOW))])
        asked = need(Scope(user_id="u"), ids=tuple(id_of(n) for n in (7, 2, 3, 5, 77)))
        assert numbers(store.gather(asked)) == [5, 7]

    def test_near_is_above_the_bound_for_any_of_the_vectors(self, store: Store) -> None:
        """The bound itself is not above it, and a memory without a vector is near to nothing."""
        add(store, stored(1, vector=unit(1)), stored(2, vector=unit(0, 1)), stored(3, vector=unit(1, 1)))
        add(store, stored(4, vector=None), stored(5, vector=unit(-1)))
        vectors = np.stack([unit(1), unit(0, 1)])
        half = float(cosines(unit(1, 1)[None], unit(1))[0])
        assert numbers(store.gather(need(near=Near(vectors, half)))) == [1, 2]
        assert numbers(store.gather(need(near=Near(vectors, half - 1e-4)))) == [1, 2, 3]
        assert numbers(store.gather(need(near=Near(vectors[:1], -1.0)))) == [1, 2, 3]

    def test_near_is_decided_by_cosines_to_the_last_bit(self, store: Store) -> None:
        """Where a memory's cosine is the bound itself, and where the next smaller number is."""
        items = [stored(n) for n in range(200)]
        add(store, *items)
        vectors = np.stack([random_unit(1000 + n) for n in range(30)])
        cosine = cosines(np.stack([item.vector for item in items if item.vector is not None]), vectors).max(axis=1)
        for bound in np.sort(cosine)[::20].tolist():
            for above in (bound, math.nextafter(bound, -1)):
                near = numbers(store.gather(need(near=Near(vectors, above))))
                assert near == np.flatnonzero(cosine > above).tolist()

    def test_named_near_and_nearest_are_joined(self, store: Store) -> None:
        """A need that asks in several ways gets what any of them brings."""
        add(store, *(stored(n, vector=unit(*([0] * (n - 1)), 1)) for n in range(1, 6)))
        asked = need(ids=(id_of(5),), near=Near(unit(0, 1)[None], 0.5), vector=unit(1), candidates=1)
        assert numbers(store.gather(asked)) == [1, 2, 5]

    def test_vectors_come_back_bit_for_bit(self, store: Store) -> None:
        """Float32, denormals and signed zeros too; zeros for a memory without a vector."""
        odd = np.array([1e-45, -0.0, 0.1, 1 / 3, -1e-38, 0.5, 0.25, np.sqrt(0.5)], np.float32)
        add(store, stored(1, vector=odd), stored(2, vector=None), stored(3))
        batch = store.gather(need(vectors=True))
        assert batch.vectors is not None
        taken = batch.vectors.at(np.arange(3))
        assert taken.tobytes() == np.stack([odd, np.zeros(DIMENSION, np.float32), random_unit(3)]).tobytes()
        kept = [item.vector for item in store.scan(EVERYTHING)]
        assert [None if vector is None else vector.tobytes() for vector in kept] == [
            odd.tobytes(),
            None,
            random_unit(3).tobytes(),
        ]

    def test_a_vector_that_is_known_later_is_found(self, store: Store) -> None:
        """A revision may bring the vector alone."""
        add(store, stored(1, vector=None))
        assert store.gather(need(vector=unit(1)))["cosine"].tolist() == [0.0]
        store.apply([Revise(memory(1).changed("update", NOW), vector=unit(1))])
        assert store.gather(need(vector=unit(1)))["cosine"].tolist() == [1.0]
        assert only(store, 1).terms == ("memory", "1")

    def test_a_vector_of_another_length_is_refused(self, store: Store) -> None:
        """And nothing is stored of its transaction."""
        with pytest.raises(InputError, match=r"^vector: .*8"):
            add(store, stored(1), stored(2, vector=np.ones(3, np.float32)))
        assert listed(store) == []

    def test_records_come_back_as_they_went_in(self, store: Store) -> None:
        """All fields, with microseconds, nested metadata, and an instant before 1970."""
        whole = stored(
            1, environment="prod", project="p", user_id="u", agent_id="a", session_id="s", kind="my kind", turn=4,
            importance=0.1 + 0.2, weight=1 / 3, tier="working", tags=("b", "a"), entities=("Zoë", "AT&T"),
            fact_key="user.theme", supersedes=id_of(9), key="k", speaker="Al", access_count=2**40, version=3,
            metadata={"n": None, "x": [1, 2.5, {"y": "ü"}], "big": 2**62, "t": True, "f": 0.1}, change="update",
            created_at=datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC), updated_at=NOW, tier_since=NOW,
            accessed_at=NOW + timedelta(microseconds=1), expires_at=datetime.max.replace(tzinfo=UTC),
        )  # fmt: skip
        assert add(store, whole, stored(2)) == [Receipt(whole.memory, "created"), Receipt(memory(2), "created")]
        assert [item.memory for item in store.scan(EVERYTHING)] == [whole.memory, memory(2)]
        assert store.fetch(EVERYTHING, [id_of(1)]) == [whole.memory]
        assert only(store, 1).terms == whole.terms

    @pytest.mark.parametrize("text", TEXTS, ids=range(len(TEXTS)))
    def test_texts_come_back_as_they_went_in(self, store: Store, text: str) -> None:
        """In content, names, keys and metadata."""
        name = " ".join(text.split())[:100]  # names are free of control characters
        item = stored(
            1, content=text, user_id=name, session_id=name, tags=(name,), entities=(name,), key=name, kind=name,
            metadata={name: [text]}, terms=("é", "e\u0301"),
        )  # fmt: skip
        add(store, item)
        found = store.scan(Scope(user_id=name), filter=Filter(tags=[name], kinds=[name], sessions=[name]))
        assert [(item.memory, item.terms) for item in found] == [(replace(item.memory, turn=1), ("é", "e\u0301"))]
        asked = need(Scope(user_id=name), filter=Filter(tags=[name], kinds=[name], sessions=[name]))
        assert numbers(store.gather(asked)) == [1]

    def test_fetch_keeps_the_order_and_takes_short_ids(self, store: Store) -> None:
        """Absent ids are left out, and so are forgotten memories."""
        add(store, stored(1), stored(2), stored(3))
        store.apply([Revise(memory(3).changed("forget", NOW, forgotten_at=NOW))])
        asked = [id_of(2), "absent", memory(1).short_id, id_of(3), id_of(2)]
        assert [int(found.id, 16) for found in store.fetch(EVERYTHING, asked)] == [2, 1, 2]

    def test_keyed_finds_what_lives_at_a_home_under_a_key(self, store: Store) -> None:
        """Forgotten ones too, whatever their session; not what lives elsewhere, nor what has no key or gave it up."""
        homes: list[dict[str, Any]] = [
            {}, {"project": "p"}, {"user_id": "p"}, {"agent_id": "p"}, {"environment": "p"}, {"tenant": "p"},
        ]  # fmt: skip
        add(store, *(stored(n, key="k", **home) for n, home in enumerate(homes)))
        add(store, stored(10, key="j", session_id="s"), stored(11, key="i"), stored(12), stored(13, key="h"))
        gone = memory(11, key="i").changed("forget", NOW, forgotten_at=NOW)
        store.apply([Revise(gone), Revise(memory(13, key="h").changed("update", NOW, key="g"))])
        asked = ["k", "absent", "i", "j", "k", "h"]
        assert {int(found.id, 16) for found in store.keyed(Scope(session_id="t"), asked)} == {0, 10, 11}
        assert len(store.keyed(Scope(), asked)) == 3
        assert gone in store.keyed(Scope(), ["i"])
        for number, home in enumerate(homes):
            assert store.keyed(Scope(**home), ["k"]) == [memory(number, key="k", **home)]
        assert store.keyed(Scope(), []) == store.keyed(Scope(project="q"), asked) == []
        assert [found.key for found in store.keyed(Scope(), ["g"])] == ["g"]

    def test_a_short_id_that_fits_several_fits_none(self, store: Store) -> None:
        """Unless only one of them is visible."""
        twins = [f"{n:024x}0badcafe" for n in (1, 2)]
        add(store, *(stored(n, id=twin, user_id=f"u{n}") for n, twin in enumerate(twins)))
        assert store.fetch(EVERYTHING, ["0badcafe"]) == []
        assert [found.id for found in store.fetch(Scope(user_id="u1"), ["0badcafe"])] == [twins[1]]
        assert [found.id for found in store.fetch(EVERYTHING, twins)] == twins

    @pytest.mark.parametrize(
        "failing",
        [
            Add(stored(1, content="other")),
            Add(stored(9, key="k", content="other")),
            Revise(memory(1, version=7)),
            Revise(memory(99, version=2)),
        ],
        ids=["id", "key", "stale", "absent"],
    )
    def test_apply_is_all_or_nothing(self, store: Store, failing: Change) -> None:
        """A change that fails leaves nothing of those before it: rows, versions, counters, turns, keys."""
        add(store, stored(1, key="k", session_id="s"))
        before = _seen(store)
        some: list[Change] = [
            Add(stored(2, key="new", session_id="s")),
            Touch(Scope(session_id="s"), (id_of(1),), accessed_at=NOW, access_count=1, importance=0.1, activate=True),
            Revise(memory(1, key="k", session_id="s", turn=1).changed("update", NOW, weight=0.2)),
        ]
        with pytest.raises(ConflictError):
            store.apply([*some, failing])
        assert _seen(store) == before
        (receipt,) = add(store, stored(3, key="new", session_id="s"))
        assert (receipt.status, receipt.memory.turn) == ("created", 2)

    def test_an_idempotency_key_stores_once(self, store: Store) -> None:
        """Also within one transaction; the receipt has the memory that is there."""
        first, second = add(store, stored(1, key="k", content="same"), stored(2, key="k", content="same"))
        (third,) = add(store, stored(3, key="k", content="same"))
        assert [first.status, second.status, third.status] == ["created", "unchanged", "unchanged"]
        assert first.memory == second.memory == third.memory == memory(1, key="k", content="same")
        assert listed(store) == [1]

    def test_an_idempotency_key_refuses_other_content(self, store: Store) -> None:
        """The error names the key."""
        add(store, stored(1, key="k"))
        with pytest.raises(ConflictError, match=r"^key: 'k'"):
            add(store, stored(2, key="k"))
        with pytest.raises(ConflictError, match=r"^key: 'j'"):
            add(store, stored(3, key="j"), stored(4, key="j"))
        assert listed(store) == [1]

    def test_an_idempotency_key_belongs_to_its_home(self, store: Store) -> None:
        """The same key elsewhere is another key; the session is no part of the home."""
        homes: list[dict[str, Any]] = [
            {}, {"project": "p"}, {"user_id": "p"}, {"agent_id": "p"}, {"environment": "p"}, {"tenant": "p"},
        ]  # fmt: skip
        receipts = add(store, *(stored(n, key="k", **home) for n, home in enumerate(homes)))
        assert {receipt.status for receipt in receipts} == {"created"}
        with pytest.raises(ConflictError):
            add(store, stored(50, key="k", session_id="s"))

    def test_an_id_stores_once(self, store: Store) -> None:
        """The same content again changes nothing; other content is refused; another tenant has its own ids."""
        add(store, stored(1))
        assert add(store, stored(1)) == [Receipt(memory(1), "unchanged")]
        with pytest.raises(ConflictError, match=f"^id: '{id_of(1)}'"):
            add(store, stored(1, content="other"))
        assert add(store, stored(1, content="other", tenant="t"))[0].status == "created"

    def test_a_revision_takes_the_place_and_keeps_the_version_before(self, store: Store) -> None:
        """With its vector and terms; those that are not given stay as they were."""
        add(store, stored(1, content="one", vector=unit(1)))
        second = memory(1, content="two").changed("update", NOW + timedelta(hours=1))
        third = second.changed("promote", NOW + timedelta(hours=2), tier="semantic")
        assert store.apply([Revise(second, unit(0, 1), ("two",)), Revise(third)]) == [
            Receipt(second, "updated"),
            Receipt(third, "updated"),
        ]
        kept = store.scan(EVERYTHING, versions=True)
        assert [item.memory for item in kept] == [memory(1, content="one"), second, third]
        assert [item.terms for item in kept] == [("one",), ("two",), ("two",)]
        assert [np.argmax(item.vector) for item in kept if item.vector is not None] == [0, 1, 1]
        assert store.fetch(EVERYTHING, [id_of(1)]) == [third]
        batch = store.gather(need(vector=unit(0, 1), terms=("one", "two")))
        assert batch["cosine"].tolist() == [1.0]
        assert batch.lexicon is not None
        assert batch.lexicon.document_frequency.tolist() == [0.0, 1.0]

    def test_a_stale_revision_is_refused(self, store: Store) -> None:
        """Of two revisions of one version, the second."""
        add(store, stored(1))
        store.apply([Revise(memory(1).changed("update", NOW, weight=0.5))])
        with pytest.raises(StaleError, match="version 2"):
            store.apply([Revise(memory(1).changed("update", NOW, weight=0.7))])
        assert store.fetch(EVERYTHING, [id_of(1)])[0].weight == 0.5

    def test_a_revision_loses_no_touch_made_meanwhile(self, store: Store) -> None:
        """Recall counters never step back."""
        add(store, stored(1))
        later = NOW + timedelta(hours=1)
        store.apply([Touch(Scope(), (id_of(1),), accessed_at=later, access_count=2)])
        (receipt,) = store.apply([Revise(memory(1).changed("update", NOW, weight=0.5))])
        assert (receipt.memory.accessed_at, receipt.memory.access_count) == (later, 2)
        assert store.fetch(EVERYTHING, [id_of(1)]) == [receipt.memory]
        assert store.gather(need())["access_count"].tolist() == [2]

    def test_a_revision_leaves_importance_as_recalls_made_it_unless_it_sets_it(self, store: Store) -> None:
        """The receipt shows what was stored."""
        add(store, stored(1, importance=0.5))
        store.apply([Touch(Scope(), (id_of(1),), importance=0.25)])
        second = memory(1, importance=0.5).changed("update", NOW, weight=0.5)
        (left,) = store.apply([Revise(second)])
        assert left.memory == replace(second, importance=0.75)
        assert store.fetch(EVERYTHING, [id_of(1)]) == [left.memory]
        assert store.gather(need())["importance"].tolist() == [0.75]
        third = second.changed("update", NOW, importance=0.125)
        (given,) = store.apply([Revise(third, sets_importance=True)])
        assert given.memory == third
        assert store.fetch(EVERYTHING, [id_of(1)]) == [third]
        assert store.gather(need())["importance"].tolist() == [0.125]
        kept = [item.memory.importance for item in store.scan(EVERYTHING, versions=True)]
        assert kept == [0.75, 0.75, 0.125]

    def test_a_forgotten_memory_is_out_of_sight_and_can_return(self, store: Store) -> None:
        """Only a scan that asks for forgotten ones has it."""
        add(store, stored(1, terms=("x",), entities=("E",)), stored(2, terms=("x",)))
        gone = memory(1, entities=("E",)).changed("forget", NOW, forgotten_at=NOW)
        assert store.apply([Revise(gone)]) == [Receipt(gone, "forgotten")]
        batch = store.gather(need(terms=("x",), entities=True, names=("e",)))
        assert numbers(batch) == listed(store) == [2]
        assert batch.lexicon is not None
        assert batch.lexicon.documents == 1
        assert batch.entities is not None
        assert len(batch.entities.of_query) == 0
        assert store.fetch(EVERYTHING, [id_of(1)]) == []
        assert listed(store, forgotten=True) == [1, 2]
        store.apply([Revise(gone.changed("update", NOW, forgotten_at=None))])
        assert numbers(store.gather(need())) == listed(store) == [1, 2]

    def test_history_comes_along_with_a_memory_from_elsewhere(self, store: Store) -> None:
        """Its older versions are versions here."""
        old, older = stored(1, content="b", version=2), stored(1, content="a")
        now = stored(1, content="c", version=3)
        store.apply([Add(now, (older, old))])
        assert [item.memory for item in store.scan(EVERYTHING, versions=True)] == [older.memory, old.memory, now.memory]
        assert store.apply([Add(now, (older, old))])[0].status == "unchanged"
        store.apply([Revise(now.memory.changed("update", NOW))])
        assert [item.memory.version for item in store.scan(EVERYTHING, versions=True)] == [1, 2, 3, 4]

    def test_a_touch_adds_up(self, store: Store) -> None:
        """Importance stops at 1; an id that comes twice is touched once; no version is made."""
        add(store, stored(1, importance=0.93), stored(2, importance=0.5), stored(3))
        touch = Touch(Scope(), (id_of(1), id_of(2), id_of(1)), accessed_at=NOW, access_count=1, importance=0.05)
        assert store.apply([touch, touch]) == []
        batch = store.gather(need())
        assert batch["importance"].tolist() == [1.0, 0.5 + 0.05 + 0.05, 0.5]
        assert batch["access_count"].tolist() == [2, 2, 0]
        assert batch["accessed_at"].tolist() == [NOW.timestamp()] * 3
        touched = only(store, 1).memory
        assert (touched.version, touched.accessed_at, touched.updated_at) == (1, NOW, NOW)
        assert [item.memory.version for item in store.scan(EVERYTHING, versions=True)] == [1, 1, 1]

    def test_a_touch_may_leave_the_instant(self, store: Store) -> None:
        """And the counters."""
        add(store, stored(1, accessed_at=NOW))
        store.apply([Touch(Scope(), (id_of(1),), access_count=1), Touch(Scope(), (id_of(1),))])
        assert only(store, 1).memory == memory(1, accessed_at=NOW, access_count=1)

    def test_a_touch_never_steps_the_instant_back(self, store: Store) -> None:
        """Of two recalls, the later one counts, whichever is recorded first."""
        late = NOW + timedelta(microseconds=1)
        add(store, stored(1, accessed_at=late), stored(2, accessed_at=NOW), stored(3))
        for moment in (NOW, late, NOW):
            store.apply([Touch(Scope(), (id_of(1), id_of(2)), accessed_at=moment, access_count=1)])
        store.apply([Touch(Scope(), (id_of(3),), accessed_at=NOW - timedelta(days=1))])
        kept = [item.memory.accessed_at for item in store.scan(EVERYTHING)]
        assert kept == [late, late, NOW - timedelta(days=1)]
        assert store.gather(need())["accessed_at"].tolist() == [moment.timestamp() for moment in kept if moment]
        assert store.gather(need())["access_count"].tolist() == [3, 3, 0]

    def test_a_touch_passes_over_what_is_gone(self, store: Store) -> None:
        """Absent ids, forgotten memories and those of another tenant."""
        add(store, stored(1), stored(2, tenant="other"))
        store.apply([Revise(memory(1).changed("forget", NOW, forgotten_at=NOW))])
        scope = Scope(session_id="s")
        store.apply([Touch(scope, (id_of(1), id_of(2), id_of(3)), access_count=1, importance=0.1, activate=True)])
        untouched = [only(store, 1), *store.scan(replace(EVERYTHING, tenant="other"))]
        assert [(item.memory.access_count, item.memory.importance) for item in untouched] == [(0, 0.5), (0, 0.5)]
        assert [dict(item.activations) for item in untouched] == [{}, {}]

    def test_turns_count_up_in_each_session(self, store: Store) -> None:
        """A session belongs to a user of an environment; a turn that is given moves the clock."""
        first = add(store, stored(1, session_id="s"), stored(2, session_id="s"), stored(3, session_id="t"), stored(4))
        assert [receipt.memory.turn for receipt in first] == [1, 2, 1, None]
        second = add(
            store, stored(5, session_id="s", turn=10), stored(6, session_id="s"), stored(7, session_id="s", turn=4)
        )
        assert [receipt.memory.turn for receipt in second] == [10, 11, 4]
        homes: list[dict[str, Any]] = [{}, {"user_id": "u"}, {"environment": "e"}, {"tenant": "t"}, {"project": "p"}]
        third = add(store, *(stored(20 + n, session_id="s", **home) for n, home in enumerate(homes)))
        assert [receipt.memory.turn for receipt in third] == [12, 1, 1, 1, 13]
        assert only(store, 6).memory.turn == 11

    def test_activations_age_by_turns_of_their_session(self, store: Store) -> None:
        """A recall moves the session on by one turn; what it returned is activated at that turn."""
        add(store, stored(1), stored(2), stored(3, session_id="s"))
        scope = Scope(session_id="s")
        store.apply([Touch(scope, (id_of(1), id_of(2)), activate=True)])
        assert _turns(store, scope) == [0.0, 0.0, math.inf]
        store.apply([Touch(scope, (id_of(2),), activate=True), Touch(scope, (id_of(1),))])
        assert _turns(store, scope) == [2.0, 1.0, math.inf]
        add(store, stored(4, session_id="s"))
        assert _turns(store, scope) == [3.0, 2.0, math.inf, math.inf]
        assert [dict(item.activations) for item in store.scan(EVERYTHING)] == [
            {scope.session_key: 2}, {scope.session_key: 3}, {}, {},
        ]  # fmt: skip
        assert _turns(store, Scope()) == _turns(store, Scope(session_id="t")) == [math.inf] * 4

    def test_activations_come_along_with_a_memory_from_elsewhere(self, store: Store) -> None:
        """And the session's clock is never behind them; a revision keeps them."""
        scope = Scope(session_id="s")
        add(store, stored(1, activations={str(scope.session_key): 5}))
        assert _turns(store, scope) == [0.0]
        store.apply([Touch(scope, (), activate=True), Revise(memory(1).changed("update", NOW))])
        assert _turns(store, scope) == [1.0]
        assert dict(only(store, 1).activations) == {scope.session_key: 5}

    def test_the_lexicon_counts_what_the_scope_sees(self, store: Store) -> None:
        """Statistics over the visible memories before the filter, postings of the rows; against a count by hand."""
        words = np.random.default_rng(5).choice(["a", "b", "c", "d"], size=(60, 6))
        items = [
            stored(n, terms=words[n, : n % 7].tolist(), user_id="u" if n % 3 else None, kind="x" if n % 2 else "y")
            for n in range(60)
        ]
        add(store, *items, stored(99, terms=("a",), user_id="hidden"))
        store.apply([Revise(items[6].memory.changed("forget", NOW, forgotten_at=NOW))])
        asked = ("c", "absent", "a")
        batch = store.gather(need(Scope(user_id="u"), filter=Filter(kinds=["y"]), terms=asked))
        counts = [Counter(item.terms) for item in items if item is not items[6]]
        rows = [Counter(items[number].terms) for number in numbers(batch)]
        assert batch.lexicon is not None
        assert batch.lexicon.documents == 59
        assert batch.lexicon.average_length == sum(count.total() for count in counts) / 59
        assert batch.lexicon.document_frequency.tolist() == [sum(c[term] > 0 for c in counts) for term in asked]
        assert batch.lexicon.length.tolist() == [count.total() for count in rows]
        for term, posting in zip(asked, batch.lexicon.postings, strict=True):
            found = {row: count[term] for row, count in enumerate(rows) if count[term]}
            assert dict(zip(posting.rows.tolist(), posting.frequency.tolist(), strict=True)) == found
            assert posting.rows.tolist() == sorted(found)

    def test_entities_are_matched_by_their_normal_form(self, store: Store) -> None:
        """One number for all spellings; the query means those that a visible memory names."""
        add(
            store, stored(1, entities=("Alice Smith", "Zürich")), stored(2), stored(3, entities=("ALICE  SMITH", "Bob"))
        )
        add(store, stored(4, entities=("Carol", "CAROL"), user_id="hidden"), stored(5, entities=("Straße", "STRASSE")))
        batch = store.gather(need(Scope(), entities=True, names=("bob", "alice smith", "carol", "strasse", "nobody")))
        assert batch.entities is not None
        lists = batch.entities.of_row
        of_row = [
            lists.values[start:end].tolist() for start, end in zip(lists.offsets, lists.offsets[1:], strict=False)
        ]
        assert [len(codes) for codes in of_row] == [2, 0, 2, 1]
        alice, bob, street = of_row[0][0], of_row[2][1], of_row[3][0]
        assert of_row[2] == [alice, bob]
        assert len({*of_row[0], *of_row[2], *of_row[3]}) == 4
        assert batch.entities.of_query.tolist() == [bob, alice, street]

    def test_a_scan_goes_page_by_page(self, store: Store) -> None:
        """In the order of ids, whatever the order of storing; each memory once."""
        add(store, *(stored(n) for n in (4, 1, 5, 2, 3)))
        assert listed(store, limit=2) == [1, 2]
        assert listed(store, after=id_of(2), limit=2) == [3, 4]
        assert listed(store, after=id_of(4), limit=2) == [5]
        assert listed(store, after=id_of(5)) == []

    def test_versions_do_not_count_towards_the_limit(self, store: Store) -> None:
        """Each memory comes with its older versions before it, also where only the current one passes the filter."""
        add(store, *(stored(n, kind="old") for n in (1, 2, 3)))
        store.apply([Revise(memory(n, kind="old").changed("update", NOW, kind="new")) for n in (1, 2)])
        store.apply([Revise(memory(1, version=2).changed("update", NOW, kind="new"))])
        asked = Filter(kinds=["new"])
        pages = [store.scan(EVERYTHING, after, 1, asked, versions=True) for after in ("", id_of(1), id_of(2))]
        assert [[(int(item.memory.id, 16), item.memory.version) for item in page] for page in pages] == [
            [(1, 1), (1, 2), (1, 3)], [(2, 1), (2, 2)], [],
        ]  # fmt: skip
        assert listed(store, limit=2) == [1, 2]

    def test_what_is_handed_in_and_out_is_nobody_elses(self, store: Store) -> None:
        """Writing to a vector, a column, metadata or activations afterwards changes nothing in the store."""
        vector, activations = unit(1), {"default\x1f\x1fs": 3}
        nested: dict[str, Any] = {"list": [{"deep": [1]}], "map": {"x": 1}}
        item = stored(1, vector=vector, activations=activations)
        add(store, replace(item, memory=replace(item.memory, metadata=nested)))
        second: dict[str, Any] = {"list": [[2]]}
        expected = [frozen(nested), frozen(second)]
        before = only(store, 1)
        store.apply([Revise(replace(memory(1).changed("update", NOW), metadata=second))])
        vector[:] = 0
        activations.clear()
        nested["list"][0]["deep"].append(2)
        nested["map"]["x"] = second["list"][0][0] = 3
        store.gather(need())["weight"][:] = 0
        batch = store.gather(need(vector=unit(1)))
        assert (batch["cosine"].tolist(), batch["weight"].tolist()) == ([1.0], [1.0])
        assert before.memory.metadata == expected[0]
        assert [kept.memory.metadata for kept in store.scan(EVERYTHING, versions=True)] == expected
        for turn in (3, 4):
            with pytest.raises(TypeError):
                only(store, 1).activations["other"] = 1  # type: ignore[index]
            assert dict(only(store, 1).activations) == {"default\x1f\x1fs": turn}
            store.apply([Touch(Scope(session_id="s"), (id_of(1),), activate=True)])

    def test_metadata_comes_out_frozen_in_every_verb(self, store: Store) -> None:
        """Mappings refuse to be changed and lists are tuples, at every depth; a memory can be pickled and copied."""
        raw: dict[str, Any] = {"list": [1, [2], {"deep": []}], "map": {"x": None}}
        new = replace(memory(1, key="k"), metadata=raw)
        (added,) = store.apply([Add(replace(stored(1), memory=new))])
        (revised,) = store.apply([Revise(new.changed("update", NOW))])
        (unchanged,) = store.apply([Add(replace(stored(1), memory=new))])
        found = [receipt.memory for receipt in (added, revised, unchanged)]
        found += [item.memory for item in store.scan(EVERYTHING, versions=True)]
        found += store.fetch(EVERYTHING, [id_of(1)]) + store.keyed(Scope(), ["k"])
        assert len(found) == 7
        for each in found:
            assert each.metadata == {"list": (1, (2,), {"deep": ()}), "map": {"x": None}}
            for mapping in (each.metadata, each.metadata["map"], each.metadata["list"][2]):
                assert type(mapping) is Frozen
            assert pickle.loads(pickle.dumps(each)) == copy.copy(each) == copy.deepcopy(each) == each  # noqa: S301

    def test_a_closed_store_says_so(self, store: Store) -> None:
        """In every verb; closing twice is no error."""
        store.close()
        store.close()
        for verb in (
            lambda: store.apply([]),
            lambda: store.gather(need()),
            lambda: store.fetch(EVERYTHING, []),
            lambda: store.keyed(Scope(), []),
            lambda: store.scan(EVERYTHING),
        ):
            with pytest.raises(StoreError, match="closed"):
                verb()


def _dtypes() -> dict[str, np.dtype[Any]]:
    return {name: np.dtype(spec.dtype) for name, spec in COLUMNS.items()}


def _turns(store: Store, scope: Scope) -> list[float]:
    """Return the column of all memories of the default environment, as asked in the session of `scope`."""
    caller = replace(EVERYTHING, environment="default", session_id=scope.session_id)
    return [float(turns) for turns in store.gather(need(caller))["turns_since_activation"]]


def _seen(store: Store) -> list[object]:
    """Return all that a store shows, in a form that compares."""
    everything = store.scan(EVERYTHING, forgotten=True, versions=True)
    return [(item.memory, item.terms, dict(item.activations)) for item in everything]
