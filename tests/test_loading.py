"""Loading happens once, also under threads, and a library's failure becomes ours without its words."""

from __future__ import annotations

import gc
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor

import pytest

from salience.errors import EmbedderError, InputError, MissingExtraError, pip_install
from salience.loading import Once, mapped, require, uncollected


def test_a_value_is_made_once_however_many_threads_ask_first():
    made: list[int] = []
    barrier = threading.Barrier(8)

    def make() -> int:
        made.append(1)
        return len(made)

    once = Once(make)

    def ask() -> int:
        barrier.wait()
        return once()

    with ThreadPoolExecutor(8) as pool:
        answers = [future.result() for future in [pool.submit(ask) for _ in range(8)]]
    assert made == [1]
    assert answers == [1] * 8


def test_a_failure_is_not_kept():
    tries = iter([ValueError("first"), None])

    def make() -> str:
        if error := next(tries):
            raise error
        return "made"

    once = Once(make)
    with pytest.raises(ValueError, match="first"):
        once()
    assert once() == "made"


def test_what_was_made_goes_with_its_owner_without_a_search_for_garbage():
    class Owner:
        def __init__(self):
            self.once = Once(self.make)

        def make(self):
            return [1]

    owner = Owner()
    owner.once()
    gone = weakref.ref(owner)
    with uncollected():
        del owner
        assert gone() is None


def test_a_missing_extra_ends_with_the_pip_line():
    with pytest.raises(MissingExtraError) as caught:
        require("a_library_that_is_not_there", "the embedder 'x'", "x")
    assert str(caught.value).endswith(f'{pip_install()}[x]"')


def test_an_installed_library_is_required_without_being_imported():
    require("json", "anything", "x")


def test_a_failure_of_a_library_is_named_by_its_class_and_not_by_its_words():
    with pytest.raises(EmbedderError) as caught, mapped("m", "embed", "Do this."):
        raise RuntimeError("bad text: my secret")
    assert str(caught.value) == "embedder 'm' could not embed (RuntimeError). Do this."


def test_our_own_errors_pass_as_they_are():
    with pytest.raises(InputError, match="field"), mapped("m", "embed", "Do this."):
        raise InputError("field", 1, "Do that.")


@pytest.mark.parametrize("was_on", [True, False])
def test_garbage_is_searched_for_again_even_after_a_failure(was_on):
    def failing():
        seen.append(gc.isenabled())
        raise ValueError("damaged")

    seen = []
    if not was_on:
        gc.disable()
    try:
        with pytest.raises(ValueError, match="damaged"), uncollected():
            failing()
        assert [*seen, gc.isenabled()] == [False, was_on]
    finally:
        gc.enable()


SOME = 1_000
"""Most objects that a few lines of a test let go of."""


class Garbage:
    """Something that tells when it is gone."""


def made_uncollected() -> list[list[object]]:
    with uncollected():
        return [[]]


def test_what_was_read_is_old_at_once_and_still_found_where_it_is_garbage():
    made = made_uncollected()
    assert any(one is made[0] for one in gc.get_objects(generation=2))
    made[0].append(made)
    gone = Garbage()
    made.append(gone)
    seen = weakref.ref(gone)
    del made, gone
    gc.collect()
    assert seen() is None


def test_what_is_frozen_stays_frozen():
    gc.freeze()
    try:
        count = gc.get_freeze_count()
        made_uncollected()
        assert gc.get_freeze_count() >= count - SOME > 0
    finally:
        gc.unfreeze()


@pytest.mark.parametrize(
    ("origin", "command"),
    [
        (None, 'pip install "salience'),
        ('{"url": "file:///home/a%20b/salience", "dir_info": {}}', 'pip install "/home/a b/salience'),
        ('{"url": "file:///s", "dir_info": {"editable": true}}', 'pip install --editable "/s'),
        ('{"url": "https://host/salience.whl", "archive_info": {}}', 'pip install "salience'),
    ],
)
def test_the_pip_line_names_the_source_of_this_installation(monkeypatch, origin, command):
    monkeypatch.setattr("importlib.metadata.Distribution.read_text", lambda *_: origin)
    monkeypatch.setattr("importlib.metadata.PathDistribution.read_text", lambda *_: origin)
    assert pip_install().removeprefix("uv ") == command
