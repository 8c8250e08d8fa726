"""The check of a store against the journals of its writers knows which versions nobody asked for."""

import pytest

from bench.writers import Mark, Row, released

OLD = Row("0" * 24 + "aaaaaaaa", 1, "create", "old", "w", None, "semantic", "fact", 1.0, live=True, changed_at="1")
TOLD = OLD._replace(version=2, change="update", content="told anew", changed_at="3")
NEW = OLD._replace(id="0" * 24 + "bbbbbbbb", content="new", changed_at="2", access_count=1)
ENDED = NEW._replace(
    version=2, change="update", changed_at="3", reason="no longer replaces aaaaaaaa", access_count=2
)  # fmt: skip


def test_a_version_that_only_ends_a_relation_is_known():
    assert released([OLD, TOLD, NEW, ENDED]) == {Mark("update", "new", NEW.id, 2)}
    restored = TOLD._replace(change="restore", content="old")
    assert released([OLD, restored, NEW, ENDED]) == {ENDED.mark}
    assert released([NEW, ENDED], {OLD.id}) == {ENDED.mark}
    late = NEW._replace(changed_at="4")
    assert released([OLD, TOLD, late, ENDED._replace(changed_at="4")]) == {ENDED.mark}


@pytest.mark.parametrize(
    "other",
    [
        {"content": "another text"}, {"weight": 0.1}, {"live": False}, {"vector": b""}, {"change": "restore"},
        {"reason": None}, {"reason": "no longer superseded by aaaaaaaa"}, {"reason": "no longer replaces bbbbbbbb"},
        {"reason": "no longer replaces cccccccc"}, {"changed_at": "4"}, {"version": 3},
    ],
)  # fmt: skip
def test_no_other_version_passes_for_it(other):
    assert released([OLD, TOLD, NEW, ENDED._replace(**other)]) == set()


def test_it_needs_the_new_text_of_the_other_memory():
    assert released([OLD, NEW, ENDED]) == set()
    forgotten = OLD._replace(version=2, change="forget", live=False, changed_at="3")
    assert released([OLD, forgotten, NEW, ENDED]) == set()
