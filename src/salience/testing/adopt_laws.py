"""Laws of adopting: how another model takes over a store."""

from __future__ import annotations

import pytest

from salience.errors import MovedError, PinnedError, StaleError
from salience.ports import Add, Adopt, Erase, Prune, Revise, Store
from salience.records import Scope
from salience.testing.memories import DIMENSION, EVERYTHING, NOW, id_of, memory, need, numbers, only, stored, unit
from salience.testing.model_laws import SHORT, derive, frequencies, keys, model, rounded, short, vectors


class AdoptLaws:
    """How another model takes over; each test is a law."""

    @pytest.fixture
    def held(self, store: Store) -> tuple[Store, Store]:
        """Return a handle of the model that the store is pinned to, and one of another, of another dimension."""
        home, new = store.under(model("home")), store.under(model("new", SHORT))
        home.apply([Add(stored(1, unit(1), ("x",))), Add(stored(2, unit(0, 1))), Add(stored(3, None))])
        home.apply([Revise(memory(1).changed("update", NOW.replace(hour=13)), None, ("y",))])
        home.apply([Add(stored(1, unit(1), tenant="other"))])
        return home, new

    def test_what_is_laid_by_shows_in_no_answer(self, store: Store, held: tuple[Store, Store]) -> None:
        """The old vectors serve; each version, and each tenant, is to be embedded by the new model."""
        home, new = held
        before = vectors(home)
        everything = [("default", 1, 1), ("default", 1, 2), ("default", 2, 1), ("default", 3, 1), ("other", 1, 1)]
        assert keys(new.unembedded()) == everything
        assert keys(home.unembedded()) == [("default", 3, 1)]
        new.apply([derive(1, short(1)), derive(3, short(1)), derive(1, short(1), tenant="other")])
        assert keys(new.unembedded()) == [everything[1], everything[2]]
        assert keys(new.unembedded(("default", id_of(1), 2), 1)) == [everything[2]]
        assert vectors(home) == before
        assert home.gather(need(vector=unit(1)))["cosine"].tolist() == [1.0, 0.0, 0.0]
        assert keys(home.unembedded()) == [("default", 3, 1)]
        pinned = new.pinned()
        assert pinned is not None
        assert pinned.name == "home"

    def test_words_come_anew_under_any_model(self, store: Store, held: tuple[Store, Store]) -> None:
        """Only vectors wait for the day on which their model is adopted."""
        home, new = held
        new.apply([derive(2, short(1), terms=("new",), distinctions=("text:new",))])
        found = only(home, 2)
        assert (found.terms, found.distinctions, rounded(found.vector)) == (
            ("new",),
            ("text:new",),
            rounded(unit(0, 1)),
        )
        assert frequencies(home) == [0.0, 1.0]

    def test_a_text_that_changed_is_laid_by_anew(self, store: Store, held: tuple[Store, Store]) -> None:
        """What comes from a text of before, or from a version that is gone, is passed over."""
        home, new = held
        new.apply([derive(2, short(1))])
        new.apply([derive(2, short(0, 1), content_hash="another"), derive(9, short(1)), derive(2, short(1), 7)])
        home.apply([Revise(memory(2).changed("update", NOW), unit(1))])
        assert ("default", 2, 1) not in keys(new.unembedded())
        assert ("default", 2, 2) in keys(new.unembedded())
        new.apply([Adopt()])
        assert [rounded(item.vector) for item in new.history(EVERYTHING, id_of(2))] == [rounded(short(1)), None]

    def test_it_is_taken_up_where_it_was_left(self, store: Store, held: tuple[Store, Store]) -> None:
        """By any handle of that model; one of another model begins anew, and what was laid by goes."""
        _, new = held
        new.apply([derive(1, short(1)), derive(2, short(1))])
        again = store.under(model("new", SHORT))
        assert keys(again.unembedded()) == [("default", 1, 2), ("default", 3, 1), ("other", 1, 1)]
        third = store.under(model("third", SHORT))
        assert len(third.unembedded()) == 5
        third.apply([derive(3, short(1))])
        assert len(third.unembedded()) == 4
        assert len(new.unembedded()) == 5
        with pytest.raises(PinnedError, match="another model"):
            new.apply([Adopt()])
        fourth = store.under(model("home", DIMENSION, unit(1)))
        assert len(fourth.unembedded()) == 5

    def test_adopting_puts_the_new_vectors_in_place(self, store: Store, held: tuple[Store, Store]) -> None:
        """Of versions too, of all tenants; what was not laid by has none. The old handle serves words from then on."""
        home, new = held
        assert home.gather(need(vector=unit(1)))["cosine"].tolist() == [1.0, 0.0, 0.0]
        new.apply([derive(1, short(1)), derive(1, short(0, 1), 2), derive(2, short(1))])
        new.apply([derive(1, short(0, 1), tenant="other")])
        assert new.apply([Adopt()]) == []
        first, second = rounded(short(1)), rounded(short(0, 1))
        assert vectors(new) == [first, second, first, None]
        assert vectors(new, Scope("other")) == [second]
        batch = new.gather(need(vector=short(1), candidates=1))
        assert (batch["cosine"].tolist(), batch["embedded"].tolist()) == ([1.0, 0.0], [True, False])
        assert new.gather(need(vector=short(1), as_of=NOW))["cosine"].tolist() == [1.0, 1.0, 0.0]
        assert keys(new.unembedded()) == [("default", 3, 1)]
        pinned = home.pinned()
        assert pinned is not None
        assert (pinned.name, pinned.dimension) == ("new", SHORT)
        for verb in (lambda: home.gather(need(vector=unit(1))), lambda: home.apply([Add(stored(7))])):
            with pytest.raises(MovedError, match=r"embedder 'new' .*Connect again"):
                verb()
        home.apply([Add(stored(7, None, ("z",)))])
        assert numbers(home.gather(need(terms=("z",)))) == [1, 2, 3, 7]
        assert [item.memory.version for item in new.history(EVERYTHING, id_of(1))] == [1, 2]

    def test_a_model_of_the_same_name_may_take_over(self, store: Store) -> None:
        """It is told by its fingerprint, before and after; nothing of the two is mixed."""
        old, new = (store.under(model("one", fingerprint=fingerprint)) for fingerprint in (unit(1), unit(0, 1)))
        old.apply([Add(stored(1, unit(1))), Add(stored(2, unit(1)))])
        new.apply([derive(1, unit(0, 1))])
        assert vectors(store) == [rounded(unit(1))] * 2
        new.apply([Adopt()])
        assert vectors(store) == [rounded(unit(0, 1)), None]
        assert new.gather(need(vector=unit(0, 1)))["cosine"].tolist() == [1.0, 0.0]
        with pytest.raises(PinnedError):
            old.gather(need(vector=unit(1)))

    def test_a_model_that_is_at_home_adopts_nothing(self, store: Store, held: tuple[Store, Store]) -> None:
        """Its vectors stay, and what was laid by for another."""
        home, new = held
        new.apply([derive(1, short(1))])
        before = vectors(home)
        home.apply([Adopt()])
        store.under(model("home")).apply([Adopt()])
        assert vectors(home) == before
        assert len(new.unembedded()) == 4

    def test_adopting_is_of_one_piece(self, store: Store, held: tuple[Store, Store]) -> None:
        """What fails beside it undoes it; what comes with it, after it, is at home."""
        home, new = held
        new.apply([derive(1, short(1), 2)])
        with pytest.raises(StaleError):
            new.apply([Adopt(), Erase("default", (id_of(9),))])
        assert home.gather(need(vector=unit(1)))["cosine"].tolist() == [1.0, 0.0, 0.0]
        assert len(new.unembedded()) == 4
        new.apply([Adopt(), derive(2, short(0, 1)), derive(3, short(0, 1))])
        assert vectors(new) == [None, rounded(short(1)), *[rounded(short(0, 1))] * 2]

    def test_what_goes_takes_along_what_was_laid_by(self, store: Store, held: tuple[Store, Store]) -> None:
        """A memory that is stored under an erased id gets no vector of before."""
        home, new = held
        new.apply([derive(2, short(1)), derive(1, short(1))])
        home.apply([Erase("default", (id_of(2),)), Prune("default", ((id_of(1), 1),))])
        home.apply([Add(stored(2))])
        lacking = [("default", 1, 2), ("default", 2, 1), ("default", 3, 1), ("other", 1, 1)]
        assert keys(new.unembedded()) == lacking
        new.apply([Adopt()])
        assert vectors(new) == [None, None, None]

    def test_an_empty_store_adopts_at_once(self, store: Store) -> None:
        """There is nothing to embed."""
        new = store.under(model("new", SHORT))
        assert new.unembedded() == []
        new.apply([Adopt()])
        pinned = store.pinned()
        assert pinned is not None
        assert pinned.name == "new"
        assert new.apply([Add(stored(1, short(1)))])[0].status == "created"
        assert new.gather(need(vector=short(1)))["cosine"].tolist() == [1.0]
