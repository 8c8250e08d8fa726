"""Laws of touching: counters, session clocks, activations."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import timedelta
from typing import Any

from salience.ports import Revise, Store, Touch
from salience.records import Scope
from salience.testing.memories import (
    EVERYTHING,
    NOW,
    add,
    id_of,
    memory,
    need,
    only,
    stored,
)


class TouchLaws:
    """What recalls leave behind; each test is a law."""

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

    def test_touches_of_one_call_count_as_one_after_the_other(self, store: Store) -> None:
        """Whatever their order is; what the counters were before each stays known."""
        add(store, *(stored(number, accessed_at=NOW if number == 1 else None) for number in range(1, 5)))
        minute, ids = timedelta(minutes=1), [id_of(number) for number in (1, 2, 3)]
        touches = [
            Touch(Scope(), tuple(ids[: 3 - step % 3]), NOW + minute * later, step + 1, at=NOW + minute * (10 + step))
            for step, later in enumerate((2, 5, 1, 5, 0))
        ]
        store.apply(touches)
        for step in range(len(touches) + 1):
            batch = store.gather(need(as_of=NOW + minute * (10 + step) - timedelta(microseconds=1)))
            made = touches[:step]
            for row, asked in enumerate([*ids, id_of(4)]):
                mine = [touch for touch in made if asked in touch.ids]
                moments = [touch.accessed_at for touch in mine if touch.accessed_at is not None]
                assert batch["access_count"][row] == sum(touch.access_count for touch in mine)
                assert batch["accessed_at"][row] == max([NOW, *moments]).timestamp()
        assert store.gather(need())["access_count"].tolist() == [15, 12, 5, 0]

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


def _turns(store: Store, scope: Scope) -> list[float]:
    """Return the column of all memories of the default environment, as asked in the session of `scope`."""
    caller = replace(EVERYTHING, environment="default", session_id=scope.session_id)
    return [float(turns) for turns in store.gather(need(caller))["turns_since_activation"]]
