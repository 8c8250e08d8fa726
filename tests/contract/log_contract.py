"""Contract of the recall log: entries, their scope, how long they are kept, and erasure."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

import pytest

from salience.ports import Erase, LogRecall, Prune, Store
from salience.records import ANY, Coordinate, LoggedHit, LoggedRecall, Part, Scope, ScoreDetail, Via
from tests.contract.memories import EVERYTHING, NOW, add, id_of, stored

DAY: Final = timedelta(days=1)


def entry(number: int, *cited: int, via: int | None = None, **values: Any) -> LoggedRecall:
    """Return an entry of the recall log that cites memories by their numbers."""
    part = Part("similarity", 0.5, 0.7, 0.35, "sum")
    link = None if via is None else Via(id_of(via), 0.5, 0.9, 1, "entity")
    detail = ScoreDetail((part,), 0.35 if link is None else link.activation, link)
    given = {
        "id": id_of(number),
        "at": NOW + number * timedelta(seconds=1),
        "expires_at": NOW + DAY,
        "scope": Scope(user_id="u"),
        "question": f"Question {number}?",
        "profile": "salience",
        "count": len(cited),
        "hits": tuple(LoggedHit(id_of(one), detail.final, 0.25, detail) for one in cited),
    }
    return LoggedRecall(**{**given, **values})


def log(store: Store, *entries: LoggedRecall) -> None:
    """Add entries to the recall log."""
    store.apply([LogRecall(one) for one in entries])


def questions(store: Store, scope: Scope = EVERYTHING, **values: Any) -> list[str]:
    """Return the questions of the entries that a scope has, newest first."""
    return [one.question for one in store.recalls(scope, NOW, **values)]


class LogContract:
    """How stores keep the recall log."""

    def test_logged_recalls_come_back_as_they_went_in(self, store: Store) -> None:
        add(store, stored(1), stored(2), stored(3))
        plain = entry(1)
        full = entry(
            2,
            1,
            2,
            via=3,
            scope=Scope("default", "test", "p", ANY, "a", "s"),
            question="quotes ' \" % _ \\ 👩🏽‍🚀\nand lines",
            limit=5,
            min_score=0.5,
            filter={"tags": ("a", "b"), "since": "2026-01-01T00:00:00+00:00", "level": "project"},
            now=NOW,
            as_of=NOW - DAY,
            confident=False,
            count=7,
            timings={"embed": 1.5, "rank": 0.25},
        )
        log(store, plain, full)
        assert store.recalls(EVERYTHING, NOW) == [full, plain]

    def test_logged_recalls_are_read_page_by_page(self, store: Store) -> None:
        log(store, *(entry(number) for number in (2, 1, 3)))
        log(store, entry(2, question="A retry of the write"))
        assert questions(store, limit=2) == ["Question 3?", "Question 2?"]
        assert questions(store, before=id_of(2)) == ["Question 1?"]
        assert questions(store, id=id_of(2)) == ["Question 2?"]

    def test_logged_recalls_are_found_by_a_memory_that_they_cite(self, store: Store) -> None:
        add(store, stored(1), stored(2), stored(3))
        log(store, entry(1, 1, 2), entry(2, 2), entry(3, 3, via=1), entry(4))
        assert questions(store, memory_id=id_of(1)) == ["Question 3?", "Question 1?"]
        assert questions(store, memory_id=id_of(2)[-8:]) == ["Question 2?", "Question 1?"]
        assert questions(store, memory_id=id_of(2)[:8]) == []
        assert questions(store, memory_id=id_of(4)) == []

    @pytest.mark.parametrize(("text", "found"), [("TEA", [2, 1]), ("100%", [2]), ("_", []), ("\\", [])])
    def test_logged_recalls_are_found_by_a_part_of_the_question(
        self, store: Store, text: str, found: list[int]
    ) -> None:
        log(store, entry(1, question="Which tea?"), entry(2, question="Is it 100% tea?"), entry(3, question="Why?"))
        assert [one.id for one in store.recalls(EVERYTHING, NOW, text=text)] == [id_of(number) for number in found]

    def test_logged_recalls_belong_to_their_scope_alone(self, store: Store) -> None:
        scopes = {
            "alice": Scope(user_id="alice"),
            "bob": Scope(user_id="bob"),
            "nobody": Scope(),
            "anybody": Scope(user_id=ANY),
            "project": Scope(project="p", user_id="alice"),
            "session": Scope(user_id="alice", session_id="s"),
            "test": Scope(environment="test", user_id="alice"),
            "other": Scope("other", user_id="alice"),
        }
        log(store, *(entry(number, scope=scope, question=name) for number, (name, scope) in enumerate(scopes.items())))
        assert questions(store, Scope(user_id="alice")) == ["session", "alice"]
        assert questions(store, Scope(user_id="alice", session_id="s")) == ["session"]
        assert questions(store, Scope(project=ANY, user_id="alice")) == ["session", "project", "alice"]
        assert questions(store, Scope(project="p", user_id="alice")) == ["project"]
        assert questions(store, Scope(user_id="bob")) == ["bob"]
        assert questions(store, Scope()) == ["nobody"]
        assert questions(store, Scope("other", user_id=ANY)) == ["other"]
        assert questions(store, Scope(user_id=ANY)) == ["session", "anybody", "nobody", "bob", "alice"]

    def test_logged_recalls_expire(self, store: Store) -> None:
        log(store, entry(1), entry(2, expires_at=NOW + 2 * DAY), entry(3, scope=Scope("other")))
        assert [one.id for one in store.recalls(EVERYTHING, NOW + DAY)] == [id_of(2)]
        store.apply([Prune("default", now=NOW + DAY)], counted=True)
        assert questions(store) == ["Question 2?"]
        assert questions(store, Scope("other")) == ["Question 3?"]
        store.apply([Prune("default", touches_before=NOW + 9 * DAY, requests_before=NOW + 9 * DAY)])
        assert questions(store) == ["Question 2?"]

    def test_erasing_a_memory_deletes_the_logged_recalls_that_cite_it(self, store: Store) -> None:
        add(store, stored(1), stored(2), stored(3))
        log(store, entry(1, 1, 2), entry(2, 2), entry(3, 3, via=1), entry(4))
        change = Erase("default", (id_of(1),))
        assert store.count_logged(change) == 2
        store.apply([change], counted=True)
        assert questions(store) == ["Question 4?", "Question 2?"]

    def test_a_recall_of_a_memory_that_was_erased_meanwhile_is_not_logged(self, store: Store) -> None:
        add(store, stored(1), stored(2))
        store.apply([Erase("default", (id_of(1),))])
        log(store, entry(1, 2, 1), entry(2, 2), entry(3, 2, via=1))
        assert questions(store) == ["Question 2?"]

    def test_erasing_a_scope_deletes_its_logged_recalls(self, store: Store) -> None:
        add(store, stored(1))
        users = (Scope(user_id="u"), Scope(user_id="u", project="p"), Scope(user_id="v"), Scope())
        scopes = (*users, Scope("other", user_id="u"))
        log(store, *(entry(number, scope=scope) for number, scope in enumerate(scopes)))
        log(store, entry(9, 1, scope=Scope(user_id="v")))
        change = Erase("default", (id_of(1),), recalls={"environment": "default", "user_id": "u"})
        assert store.count_logged(change) == 3
        store.apply([change])
        assert questions(store) == ["Question 3?", "Question 2?"]
        assert questions(store, Scope("other", user_id="u")) == ["Question 4?"]
        store.apply([Erase("default", (), recalls={"user_id": None})])
        assert questions(store) == ["Question 2?"]

    def test_erasing_the_projects_of_a_scope_deletes_the_logged_recalls_that_name_one(self, store: Store) -> None:
        projects: tuple[Coordinate, ...] = ("p", "q", None, ANY)
        scopes = [Scope(project=project, user_id="u") for project in projects]
        scopes += [Scope(project="p", user_id="v"), Scope("other", project="p", user_id="u")]
        log(store, *(entry(number, scope=scope) for number, scope in enumerate(scopes)))
        change = Erase("default", (), recalls={"environment": "default", "user_id": "u", "project": ANY})
        assert store.count_logged(change) == 2
        store.apply([change])
        assert questions(store) == ["Question 4?", "Question 3?", "Question 2?"]
        assert questions(store, Scope("other", project="p", user_id="u")) == ["Question 5?"]
