"""A line of an export is read at once where it is as an export writes it, and gives what the checks give."""

from __future__ import annotations

import base64
import gc
import io
import json
from dataclasses import replace
from datetime import timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import salience
from salience import ImportLineError, InputError
from salience.ports import Stored
from salience.records import Memory, Scope, checks, memory_maker, memory_of
from salience.store.rows import of_memory, to_memory
from salience.testing.doubles import PlantedEmbedder
from salience.testing.memories import NOW, memory
from salience.transfer import exported as exported_lines
from salience.transfer.export import as_record
from salience.transfer.exported import FIELDS, Reader, checked, sure_vectors, vector

LIMIT = 1_000
HOUR = timedelta(hours=1)
NAMED = (
    "id", "content", "content_hash", "kind", "fact_key", "supersedes", "key", "speaker", "change",
    "changed_by", "reason", "follows", "reflection",
)  # fmt: skip
WHOLE = replace(
    memory(7, content="Tea at 3 pm", scope=Scope(user_id="ann", session_id="s"), tags=("a", "b"), speaker="Ann"),
    metadata=checks.metadata("metadata", {"deep": [1, {"x": None}]}),
    turn=3,
    fact_key="user.tea",
    changed_by="agent:a",
)
VALUES = (
    st.sampled_from([None, True, False, -1, 0, 1, 3, 2**62, 2**62 + 1, 0.1, 0.5, 1.0, 1.5, float("nan")])
    | st.sampled_from(["", " ", "a", "a\0", "a\nb", "\ud800", "x" * 300, "é" * 600, "fact", "episodic", "create"])
    | st.sampled_from(["0" * 32, "2026-01-02T10:00:00+02:00", "2026-01-02", "0001-01-01T00:00:00+10:00"])
    | st.lists(st.sampled_from(["a", "b", "", None, 1, ["a"]]), max_size=3)
    | st.dictionaries(st.sampled_from(["user_id", "project", "planet"]), st.sampled_from(["a", "", None, 1, ["a"]]))
)


def line(**changes: object) -> dict[str, object]:
    return {**json.loads(json.dumps(as_record(Stored(WHOLE, None, (), {}))))["memory"], **changes}


def outcome(read, data):
    try:
        made = read(data)
    except InputError as error:
        return str(error)
    return made, {name: type(getattr(made, name)) for name in FIELDS}


def test_what_an_export_writes_is_read_as_it_was_and_at_once(monkeypatch):
    reader = Reader("default", LIMIT)
    assert checked(line(), "default", LIMIT) == WHOLE
    monkeypatch.delattr("salience.transfer.exported.checked")
    assert reader.memory(line()) == reader.memory(line()) == WHOLE


def test_a_line_that_leaves_out_what_has_no_value_is_read_at_once_too(monkeypatch):
    whole = line()
    short = {name: value for name, value in whole.items() if (value is not None and value != []) or name == "entities"}
    assert len(short) < len(whole)
    expected = checked(short, "default", LIMIT)
    monkeypatch.delattr("salience.transfer.exported.checked")
    reader, given = Reader("default", LIMIT), dict(short)
    assert reader.memory(given) == reader.memory(given) == expected == WHOLE
    assert given == short


@given(st.dictionaries(st.sampled_from([*sorted(FIELDS), "extra"]), VALUES, min_size=1, max_size=2), st.booleans())
def test_any_line_gives_what_the_checks_give(changes, has_read_another):
    reader = Reader("default", LIMIT)
    if has_read_another:
        reader.memory(line())
    for _ in range(2):
        assert outcome(reader.memory, line(**changes)) == outcome(
            lambda data: checked(data, "default", LIMIT), line(**changes)
        )


CHANGES = st.dictionaries(st.sampled_from([*sorted(FIELDS), "extra"]), VALUES, max_size=2)


@given(st.lists(st.tuples(CHANGES, st.sets(st.sampled_from(sorted(FIELDS)), max_size=2)), max_size=6))
def test_memories_of_a_page_are_those_of_each_line(drawn):
    page = [
        {name: value for name, value in line(**{**changes, "id": f"{at:032x}"}).items() if name not in out}
        for at, (changes, out) in enumerate(drawn)
    ]
    alone = [outcome(lambda data: checked(data, "default", LIMIT), data) for data in page]
    for sure, expected in zip(Reader("default", LIMIT).sure(page), alone, strict=True):
        assert sure is None or outcome(lambda _, sure=sure: sure, None) == expected


def test_a_doubt_about_one_line_leaves_the_others_of_its_page_sure():
    page = [line(), line(importance=1), None, line(), [], {}, line(kind=" "), line()]
    assert Reader("default", LIMIT).sure(page) == [WHOLE, None, None, WHOLE, None, None, None, WHOLE]


@given(st.sets(st.sampled_from(sorted(FIELDS)), min_size=1, max_size=2))
def test_a_line_without_a_field_gives_what_the_checks_give(left_out):
    data = {name: value for name, value in line().items() if name not in left_out}
    assert outcome(Reader("default", LIMIT).memory, data) == outcome(lambda data: checked(data, "default", LIMIT), data)


def test_many_names_and_scopes_are_not_all_kept(monkeypatch):
    monkeypatch.setattr("salience.transfer.paged.KNOWN", 3)
    reader = Reader("default", LIMIT)
    for number in range(20):
        read = reader.memory(line(kind=f"kind {number}", scope={"user_id": f"user {number}"}))
        assert (read.kind, read.scope) == (f"kind {number}", Scope(user_id=f"user {number}"))
        assert len(reader._known._scopes) <= 3


def test_a_memory_of_values_is_the_one_that_they_make():
    values = {name: getattr(WHOLE, name) for name in FIELDS}
    assert memory_of(values) == Memory(**values) == WHOLE
    assert hash(type(memory_of(values))) == hash(Memory)
    with pytest.raises(KeyError):
        memory_of({"id": "x"})


@given(st.permutations(sorted(FIELDS)))
def test_a_memory_is_made_of_values_in_any_order(names):
    assert memory_maker(names)([getattr(WHOLE, name) for name in names]) == WHOLE


def test_a_row_has_each_value_in_the_column_of_its_name():
    whole = replace(WHOLE, sources=("s",), accessed_at=NOW, expires_at=NOW + HOUR, forgotten_at=NOW + 2 * HOUR)
    row = of_memory(replace(whole, **{name: f"its {name}" for name in NAMED}))
    assert to_memory(row) == replace(whole, **{name: f"its {name}" for name in NAMED})
    assert {name: row[name] for name in NAMED} == {name: f"its {name}" for name in NAMED}
    assert row["home"] == whole.scope.home_key


def written(values: object, form: str = "<f4") -> str:
    return base64.b64encode(np.array(values, form).tobytes()).decode()


VECTORS = st.sampled_from(
    [
        written([1, 0, 0]), written([0.6, 0, 0.8]), written([1.0004, 0, 0]), written([1.0009, 0, 0]),
        written([1.002, 0, 0]), written([0, 0, 0]), written([np.nan, 0, 1]), written([np.inf, 0, 0]),
        written([3e38, 3e38, 0]), written([1, 0]), written([1, 0, 0, 0]), written([1, 0, 0], "<f2"), "", "###", "é",
        written([1, 0, 0]) + "=", written([1, 0, 0])[:-1], written([1, 0, 0]) + "\n", None, 7, [], {}, True,
    ]
)  # fmt: skip


@given(st.lists(VECTORS, max_size=8))
def test_vectors_of_a_page_are_those_of_each_line(values):
    for value, sure in zip(values, sure_vectors(values, 3), strict=True):
        if sure is not None:
            assert sure.tolist() == vector(value, 3).tolist()
            assert (sure.dtype, sure.flags.writeable) == (np.float32, True)
    assert sure_vectors([written([0.6, 0, 0.8])], 3)[0] is not None


@given(st.lists(st.sampled_from([*"AB/+=-_ \né", "QUFB", "QQ==", "QR=="]), max_size=8).map("".join))
def test_a_quick_reader_of_base64_reads_nothing_that_the_other_does_not(text):
    try:
        quick = exported_lines.b64decode(text, validate=True)
    except ValueError:
        return
    assert quick == base64.b64decode(text, validate=True)


@pytest.fixture
def exported(planted):
    engine = planted()
    engine.remember_many([{"content": f"text {number}"} for number in range(4)])
    stream = io.StringIO()
    engine.export(stream)
    return stream.getvalue().splitlines()


def test_of_several_broken_lines_the_first_is_told_whatever_breaks_it(exported):
    records = {number: json.loads(exported[number - 1]) for number in (2, 3, 5)}
    records[2]["vector"] = "###"
    records[3]["memory"]["content"] = " "
    lines = [exported[0], json.dumps(records[2]), json.dumps(records[3]), "{not json", exported[4]]
    with salience.connect(":memory:", embedder=PlantedEmbedder()) as copy:
        for first, what in ((2, "vector"), (3, "content"), (4, "JSON")):
            with pytest.raises(ImportLineError, match=f"^line {first}: .*{what}"):
                copy.import_([exported[0], *[""] * (first - 2), *lines[first - 1 :]])
        report = copy.import_(lines, on_error="skip")
        assert (report.written, [number for number, _ in report.skipped]) == (1, [2, 3, 4])


def test_garbage_is_looked_for_as_before(exported):
    for was in (True, False):
        (gc.enable if was else gc.disable)()
        try:
            with salience.connect(":memory:", embedder=PlantedEmbedder()) as copy:
                copy.import_(exported)
                with pytest.raises(ImportLineError):
                    copy.import_(["{"])
            assert gc.isenabled() is was
        finally:
            gc.enable()
