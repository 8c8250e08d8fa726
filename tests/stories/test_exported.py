"""Lines of an export are parsed to the memories that they were, or refused by field."""

from __future__ import annotations

import base64
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
from salience.records import Relation, Scope, checks
from salience.store.rows import of_memory, to_memory
from salience.transfer.export import as_record
from salience.transfer.parse import FIELDS, parse_memory, parse_vector
from tests.contract.doubles import PlantedEmbedder
from tests.contract.memories import NOW, memory

LIMIT = 1_000
HOUR = timedelta(hours=1)
NAMED = (
    "id", "content", "content_hash", "kind", "fact_key", "supersedes", "key", "speaker", "change",
    "changed_by", "reason", "reflection",
)  # fmt: skip
WHOLE = replace(
    memory(7, content="Tea at 3 pm", scope=Scope(user_id="ann", session_id="s"), tags=("a", "b"), speaker="Ann"),
    metadata=checks.metadata("metadata", {"deep": [1, {"x": None}]}),
    turn=3,
    fact_key="user.tea",
    changed_by="agent:a",
    relations=(Relation("0" * 32, "replaces", 0.9, "model", "a later value"), Relation("1" * 32, "adds", 0.5, "rule")),
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


def parsed(data: object):
    return parse_memory(data, "default", LIMIT)


def test_fields_without_a_value_may_be_left_out():
    whole = line()
    short = {name: value for name, value in whole.items() if (value is not None and value != []) or name == "entities"}
    assert len(short) < len(whole)
    assert parsed(short) == WHOLE


@given(
    st.dictionaries(st.sampled_from([*sorted(FIELDS), "extra"]), VALUES, max_size=2),
    st.sets(st.sampled_from(sorted(FIELDS)), max_size=2),
)
def test_any_line_is_a_memory_that_goes_round_or_an_input_error(changes, left_out):
    data = {name: value for name, value in line(**changes).items() if name not in left_out}
    try:
        made = parsed(data)
    except InputError:
        return
    assert parsed(json.loads(json.dumps(as_record(Stored(made, None, (), {}))))["memory"]) == made


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


@given(VECTORS)
def test_any_vector_is_of_length_1_or_0_or_refused(value):
    try:
        found = parse_vector(value, 3)
    except InputError:
        return
    if found is not None:
        assert (found.shape, found.dtype, found.flags.writeable) == ((3,), np.float32, True)
        length = float(np.linalg.norm(found))
        assert length == 0 or abs(length - 1) <= 1e-3  # 0: the model knows no word of the text


def test_a_vector_of_length_1_is_read_unchanged():
    assert parse_vector(written([0.6, 0, 0.8]), 3).tolist() == np.array([0.6, 0, 0.8], np.float32).tolist()
    assert parse_vector(None, 3) is None


@pytest.fixture
def exported(planted):
    engine = planted()
    engine.remember_many([{"content": f"text {number}"} for number in range(4)])
    stream = io.StringIO()
    engine.export(stream)
    return stream.getvalue().splitlines()


def test_the_first_invalid_line_is_reported(exported):
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
