"""Contract of token vectors, for stores with the method `token_vectors`; recalls work without it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import pytest

from salience.batch import Tokens
from salience.errors import InputError
from salience.ports import Add, Adopt, Erase, Prune, Revise, Store
from salience.records import Scope
from tests.contract.memories import (
    EVERYTHING,
    NOW,
    add,
    id_of,
    listed,
    memory,
    need,
    only,
    random_tokens,
    stored,
    unit,
)
from tests.contract.model_contract import SHORT, derive, model, short

HOUR = timedelta(hours=1)


def held(
    store: Store, *wanted: int, scope: Scope = EVERYTHING, as_of: datetime | None = None
) -> list[list[list[int]] | None]:
    """Return the token vectors of some memories as lists."""
    found: Sequence[Tokens | None] = store.token_vectors(scope, [id_of(number) for number in wanted], as_of=as_of)
    return [None if tokens is None else tokens.tolist() for tokens in found]


def tokens_of(seed: int, **shape: int) -> Any:
    """Return `random_tokens` as lists."""
    return random_tokens(seed, **shape).tolist()


class TokenContract:
    """Token vectors come with a vector, and stay as long as it does."""

    @pytest.fixture
    def token_store(self, store: Store) -> Store:
        """Return the empty store, or skip the test if it has no token vectors."""
        if not hasattr(store, "token_vectors"):
            pytest.skip("this store has no token vectors")
        return store

    def test_token_vectors_come_back_in_the_order_of_the_ids(self, token_store: Store) -> None:
        add(
            token_store,
            stored(1, tokens=random_tokens(1)),
            stored(2),
            stored(3, tokens=random_tokens(3, 1, 300)),
            stored(4, tokens=random_tokens(4, 0)),
        )
        asked = token_store.token_vectors(EVERYTHING, [id_of(3), id_of(9), id_of(1), id_of(2), id_of(3), "", "\ud800"])
        assert [None if found is None else (found.dtype.name, found.tolist()) for found in asked] == [
            ("int8", tokens_of(3, count=1, length=300)), None, ("int8", tokens_of(1)), None,
            ("int8", tokens_of(3, count=1, length=300)), None, None,
        ]  # fmt: skip
        (empty,) = token_store.token_vectors(EVERYTHING, [id_of(4)])
        assert empty is not None
        assert empty.shape == (0, 4)
        assert list(token_store.token_vectors(EVERYTHING, [])) == []
        assert [None if item.tokens is None else len(item.tokens) for item in token_store.scan(EVERYTHING)] == [
            3,
            None,
            1,
            0,
        ]

    def test_many_token_vectors_come_back(self, token_store: Store) -> None:
        add(token_store, *(stored(number, tokens=random_tokens(number)) for number in range(1, 301)))
        assert held(token_store, *range(300, 0, -1)) == [tokens_of(number) for number in range(300, 0, -1)]

    def test_invisible_and_forgotten_memories_have_none(self, token_store: Store) -> None:
        add(
            token_store,
            stored(1, user_id="ann", tokens=random_tokens(1)),
            stored(2, user_id="bob", tokens=random_tokens(2)),
            stored(3, tokens=random_tokens(3)),
            stored(4, tokens=random_tokens(4)),
            stored(5, tenant="other", tokens=random_tokens(5)),
            stored(6, environment="staging", tokens=random_tokens(6)),
        )
        token_store.apply([Revise(memory(4).changed("forget", NOW + HOUR, forgotten_at=NOW + HOUR))])
        everyone = range(1, 7)
        seen = held(token_store, *everyone, scope=Scope(user_id="ann"))
        assert seen == [tokens_of(1), None, tokens_of(3), None, None, None]
        seen = held(token_store, *everyone, scope=Scope(user_id="ann"), as_of=NOW)
        assert seen == [tokens_of(1), None, tokens_of(3), tokens_of(4), None, None]
        assert held(token_store, *everyone, scope=Scope(user_id="ann"), as_of=NOW - HOUR) == [None] * 6
        assert held(token_store, 5, scope=Scope("other")) == [tokens_of(5)]

    def test_a_new_text_replaces_or_clears_token_vectors(self, token_store: Store) -> None:
        add(token_store, *(stored(number, tokens=random_tokens(number)) for number in (1, 2, 3, 4)))
        later = {number: memory(number, content="new").changed("update", NOW + HOUR) for number in (1, 2, 3)}
        token_store.apply([
            Revise(later[1], unit(1), tokens=random_tokens(11)),
            Revise(later[2], unit(1)),
            Revise(later[3], unembeds=True, tokens=random_tokens(13)),
            Revise(memory(4).changed("update", NOW + HOUR, weight=0.5)),
        ])  # fmt: skip
        assert held(token_store, 1, 2, 3, 4) == [tokens_of(11), None, None, tokens_of(4)]
        assert held(token_store, 1, 2, 3, 4, as_of=NOW) == [tokens_of(number) for number in (1, 2, 3, 4)]
        found = [item.tokens is not None for item in token_store.scan(EVERYTHING, versions=True)]
        assert found == [True, True, True, False, True, False, True, True]
        token_store.apply([Prune("default", ((id_of(1), 1),))])
        assert held(token_store, 1, as_of=NOW) == [None]

    def test_older_versions_bring_their_token_vectors(self, token_store: Store) -> None:
        older = stored(1, content="old", tokens=random_tokens(1))
        newer = stored(1, version=2, changed_at=NOW + HOUR, tokens=random_tokens(2))
        token_store.apply([Add(newer, (older,))])
        assert (held(token_store, 1), held(token_store, 1, as_of=NOW)) == ([tokens_of(2)], [tokens_of(1)])
        history = [item.tokens for item in token_store.history(EVERYTHING, id_of(1))]
        assert [found is not None and found.tolist() for found in history] == [tokens_of(1), tokens_of(2)]

    def test_token_vectors_need_a_vector(self, token_store: Store) -> None:
        add(token_store, stored(1, None, tokens=random_tokens(1)), stored(2))
        token_store.apply([derive(1, tokens=random_tokens(3)), Revise(memory(2).changed("update", NOW))])
        assert held(token_store, 1, 2) == [None, None]
        token_store.apply([derive(1, unit(1), tokens=random_tokens(1))])
        assert held(token_store, 1) == [tokens_of(1)]
        token_store.apply([derive(1, unit(0, 1))])
        assert held(token_store, 1) == [None]

    def test_derived_token_vectors_change_nothing_else(self, token_store: Store) -> None:
        add(token_store, stored(1), stored(2, tokens=random_tokens(2)))
        token_store.apply([Revise(memory(1).changed("update", NOW + HOUR))])
        before = [(item.memory, item.terms) for item in token_store.scan(EVERYTHING, versions=True)]
        asked = need(vector=unit(1), terms=("memory",))
        cosines = token_store.gather(asked)["cosine"].tolist()
        token_store.apply([
            derive(1, tokens=random_tokens(11)), derive(1, version=2, tokens=random_tokens(12)),
            derive(2, content_hash="another", tokens=random_tokens(3)), derive(9, tokens=random_tokens(9)),
        ])  # fmt: skip
        assert held(token_store, 1, 2) == [tokens_of(12), tokens_of(2)]
        assert held(token_store, 1, as_of=NOW) == [tokens_of(11)]
        assert [(item.memory, item.terms) for item in token_store.scan(EVERYTHING, versions=True)] == before
        assert token_store.gather(asked)["cosine"].tolist() == cosines

    def test_token_vectors_of_another_form_are_refused(self, token_store: Store) -> None:
        wrong: list[Any] = [np.zeros((2, 4), np.float32), np.zeros(4, np.int8), np.zeros((2, 0), np.int8)]
        for tokens in wrong:
            with pytest.raises(InputError, match="tokens"):
                add(token_store, stored(1, tokens=tokens))
        assert listed(token_store) == []

    def test_token_vectors_move_with_the_model(self, token_store: Store) -> None:
        home, new = token_store.with_model(model("home")), token_store.with_model(model("new", SHORT))
        home.apply([Add(stored(number, unit(1), tokens=random_tokens(number))) for number in (1, 2, 3, 4)])
        new.apply([
            derive(1, short(1), tokens=random_tokens(11)), derive(2, short(1)), derive(3, short(1)),
            derive(4, tokens=random_tokens(14)),
        ])  # fmt: skip
        new.apply([derive(3, tokens=random_tokens(13)), derive(2, content_hash="another", tokens=random_tokens(12))])
        assert held(home, 1, 2, 3, 4) == [tokens_of(number) for number in (1, 2, 3, 4)]
        new.apply([Adopt()])
        assert held(new, 1, 2, 3, 4) == [tokens_of(11), None, tokens_of(13), None]

    def test_token_vectors_alone_prepare_no_model(self, token_store: Store) -> None:
        home, new, third = (
            token_store.with_model(each) for each in (model("home"), model("new", SHORT), model("third"))
        )
        home.apply([Add(stored(1, unit(1))), Add(stored(2, unit(1)))])
        new.apply([derive(1, short(1), tokens=random_tokens(11))])
        third.apply([derive(1, tokens=random_tokens(3)), derive(2, tokens=random_tokens(3))])
        new.apply([Adopt()])
        assert held(new, 1, 2) == [tokens_of(11), None]
        assert [item.memory.id for item in new.unembedded()] == [id_of(2)]

    def test_erased_token_vectors_are_gone(self, token_store: Store) -> None:
        add(token_store, stored(1, tokens=random_tokens(1)))
        token_store.apply([Erase("default", (id_of(1),))])
        assert held(token_store, 1) == [None]
        add(token_store, stored(1))
        assert held(token_store, 1) == [None]
        assert only(token_store, 1).tokens is None
