"""Laws of context: who stands beside a memory in its session, and who said it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from salience.batch import Batch, Lexicon, cosines
from salience.ports import Revise, Store, Stored
from salience.records import ANY, Filter, Scope
from salience.testing.memories import EVERYTHING, NOW, add, id_of, need, numbers, stored, unit

ORDERS = ((1, 2, 3, 4, 5), (5, 4, 3, 2, 1), (3, 5, 1, 4, 2))
"""Orders in which a conversation may arrive."""


def turn(number: int, **values: Any) -> Stored:
    """Return the turn that was said `number` minutes after `NOW`, with one term of its own."""
    made = {"session_id": "s", "created_at": NOW + timedelta(minutes=number), "terms": (f"t{number}",)}
    return stored(number, **{**made, **values})


def held(windows: Lexicon | None, terms: Sequence[str]) -> list[dict[str, float]]:
    """Return, for each row, how often each term stands in its window, those that do not left out."""
    assert windows is not None
    rows: list[dict[str, float]] = [{} for _ in windows.length]
    for term, (holding, frequency) in zip(terms, windows.postings, strict=True):
        assert holding.tolist() == sorted(holding.tolist())
        for row, count in zip(holding.tolist(), frequency.tolist(), strict=True):
            rows[row][term] = count
    return rows


def in_windows(batch: Batch, terms: Sequence[str]) -> dict[int, dict[str, float]]:
    """Return number of the memory -> what its window holds."""
    return dict(zip(numbers(batch), held(batch.windows, terms), strict=True))


TERMS = tuple(f"t{number}" for number in range(1, 8))


class ContextLaws:
    """How memories are read in their context."""

    @pytest.mark.parametrize("order", ORDERS)
    def test_a_window_follows_time_and_not_arrival(self, store: Store, order: tuple[int, ...]) -> None:
        """The own text twice and two neighbours on either side, however late a turn was stored."""
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

    def test_turns_of_one_instant_stand_in_the_order_of_storing(self, store: Store) -> None:
        """`turn`, which counts on within the session, decides where the instants are equal."""
        add(store, *(turn(number, created_at=NOW) for number in (4, 2, 3, 1)))
        found = in_windows(store.gather(need(terms=TERMS, windows=True)), TERMS)
        assert found[4] == {"t4": 2, "t2": 1, "t3": 1}
        assert found[1] == {"t1": 2, "t3": 1, "t2": 1}

    def test_a_context_ends_with_its_session(self, store: Store) -> None:
        """A session is one user's in one environment; a memory of none is alone."""
        homes: list[dict[str, Any]] = [
            {"session_id": "s"}, {"session_id": "s", "user_id": "u"}, {"session_id": "s", "environment": "e"},
            {"session_id": "z"}, {"session_id": None}, {"session_id": None}, {"session_id": "s", "project": "p"},
        ]  # fmt: skip
        add(store, *(turn(number, **home) for number, home in enumerate(homes, 1)))
        found = in_windows(store.gather(need(terms=TERMS, windows=True)), TERMS)
        assert found[1] == {"t1": 2, "t7": 1}
        assert found[7] == {"t7": 2, "t1": 1}
        assert all(found[number] == {f"t{number}": 2} for number in range(2, 7))

    def test_nobody_reads_over_a_shoulder(self, store: Store) -> None:
        """What the caller cannot see is in nobody's context; who stands behind it moves up."""
        add(store, turn(1), turn(2, project="secret"), turn(3), turn(4, tenant="other"), turn(5))
        batch = store.gather(need(Scope(), terms=TERMS, windows=True))
        assert in_windows(batch, TERMS)[3] == {"t1": 1, "t3": 2, "t5": 1}
        seen = store.gather(need(Scope(project=ANY), terms=TERMS, windows=True))
        assert in_windows(seen, TERMS)[3] == {"t1": 1, "t2": 1, "t3": 2, "t5": 1}

    def test_a_filter_takes_no_context_away(self, store: Store) -> None:
        """A memory that passes the filter is read beside those that do not."""
        add(store, *(turn(number, kind="x" if number == 2 else "y", vector=unit(1, number)) for number in (1, 2, 3)))
        plain = need(terms=TERMS, windows=True, vector=unit(1))
        whole, narrow = (store.gather(asked) for asked in (plain, need(
            terms=TERMS, windows=True, vector=unit(1), filter=Filter(kinds=["x"]))
        ))  # fmt: skip
        assert numbers(narrow) == [2]
        assert in_windows(narrow, TERMS)[2] == in_windows(whole, TERMS)[2] == {"t1": 1, "t2": 2, "t3": 1}
        assert narrow["context_cosine"][0] == whole["context_cosine"][1]
        assert narrow.windows is not None
        assert narrow.windows.documents == 3

    def test_a_context_is_that_of_today(self, store: Store) -> None:
        """An edit shows in the neighbours' windows at once; one that is forgotten or expired leaves them."""
        first = turn(1)
        add(store, first, turn(2), turn(3), turn(4, expires_at=NOW + timedelta(hours=1)))
        store.apply([Revise(first.memory.changed("update", NOW, turn=1), terms=("t6",))])
        assert in_windows(store.gather(need(terms=TERMS, windows=True)), TERMS)[2] == {
            "t6": 1, "t2": 2, "t3": 1, "t4": 1
        }  # fmt: skip
        store.apply([Revise(turn(3).memory.changed("forget", NOW, forgotten_at=NOW, turn=3))])
        late = need(terms=TERMS, windows=True, now=NOW + timedelta(hours=2))
        assert in_windows(store.gather(late), TERMS) == {1: {"t6": 2, "t2": 1}, 2: {"t6": 1, "t2": 2}, 4: {"t4": 2}}

    def test_the_context_cosine_is_the_mean_of_three(self, store: Store) -> None:
        """A memory and one neighbour on either side, those with a vector; 0 where there is none."""
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

    def test_what_was_said_is_asked_for_in_its_own_voice(self, store: Store) -> None:
        """The cosine of a memory of a speaker is to `voice`, where that is given; of others it is to `vector`."""
        add(store, turn(1, speaker="Ann", vector=unit(1)), turn(2, vector=unit(1)), turn(3, speaker="Bob", vector=None))
        query: dict[str, Any] = {"vector": unit(0, 1), "voice": unit(1)}
        assert store.gather(need(**query))["cosine"].tolist() == [1.0, 0.0, 0.0]
        assert store.gather(need(**query))["context_cosine"].tolist() == [0.5, 0.5, 0.0]
        assert store.gather(need(vector=unit(1)))["cosine"].tolist() == [1.0, 1.0, 0.0]
        assert numbers(store.gather(need(**query, candidates=1))) == [1, 3]

    def test_windows_are_brought_on_request(self, store: Store) -> None:
        """Not without terms, and not unasked."""
        add(store, turn(1))
        assert store.gather(need(terms=TERMS)).windows is None
        assert store.gather(need(windows=True)).windows is None

    def test_who_is_meant_is_told_by_name(self, store: Store) -> None:
        """The whole name or its first word, whatever the case; what nobody said is about whom its entities name."""
        said = {1: "Caroline", 2: "Mel Smith", 3: "MEL Jones", 4: None, 5: "Zoë", 6: "Carol"}
        add(store, *(turn(number, speaker=speaker, user_id="hidden" if number == 6 else None)
                     for number, speaker in said.items()))  # fmt: skip
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
