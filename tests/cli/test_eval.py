"""The commands eval and tune: what they print in each form, what they write, what they refuse."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from salience.rank import profiles

SAID = {
    "kites": ["I built a red kite", "We keep two goats", "The kite broke in a storm"],
    "boats": ["The ferry to Gotland was late", "I paint boats on Sundays", "Boats need paint"],
}
ASKED = {
    "kites": [("What colour was Ana's kite?", 4, "D1:1"), ("How many goats?", 1, "D1:2"), ("Who sold it?", 5, "D1:3")],
    "boats": [("Where did the ferry go?", 4, "D1:1"), ("What does Bo paint?", 4, "D1:2")],
}


def conversation(name: str) -> dict[str, Any]:
    turns = [
        {"speaker": ("Ana", "Bo")[place % 2], "dia_id": f"D1:{place + 1}", "text": text}
        for place, text in enumerate(SAID[name])
    ]
    arguments = [{"question": q, "answer": "x", "category": c, "evidence": [e]} for q, c, e in ASKED[name]]
    talk = {"session_1": turns, "session_1_date_time": "1:56 pm on 8 May, 2023"}
    return {"sample_id": name, "conversation": talk, "qa": arguments}


@pytest.fixture
def data(tmp_path: Path) -> str:
    path = tmp_path / "talks.json"
    path.write_text(json.dumps([conversation(name) for name in SAID]), "utf-8")
    return str(path)


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "salience" / "vectors"


def test_lines_say_what_was_measured_before_the_figures(run, data):
    printed = run("eval", data, "--profiles", "bm25,cosine", "--k", "1,2").stdout.splitlines()
    head = [line for line in printed if line.startswith("# ")]
    assert head[0] == "# LoCoMo JSON: talks.json; 2 stores, 6 memories"
    assert head[1] == (
        "# granularity: turn (a memory each); n = 4 questions of the categories 1 multi-hop, 4 single-hop"
    )
    assert head[2] == "# metric of differences: recall@10; limit 10; each profile's own min_score"
    assert head[3] == "# intervals: 95 %, 2,000 samples of questions, seed 0"
    columns = head[4].removeprefix("# ").split("\t")
    assert columns[:6] == ["ranking", "embedder", "category", "n", "recall@1", "recall@2"]
    rows = [line.split("\t") for line in printed if line.startswith("bm25\tplanted\t")]
    assert [row[2:4] for row in rows[:3]] == [["all", "4"], ["1", "1"], ["4", "3"]]
    assert all(len(row) == len(columns) for row in rows[:3])
    assert any(line.startswith("bm25 - cosine\tplanted\trecall@10\t4\t") for line in printed)


def test_json_holds_every_figure(run_json, data):
    record = run_json("eval", data, "--profiles", "salience,bm25", "--foreign", "3", "--seed", "7")
    assert (record["n"], record["memories"], record["granularity"], record["seed"]) == (4, 6, "turn", 7)
    assert record["categories"] == {"1": "multi-hop", "4": "single-hop"}
    figure = record["scores"]["planted"]["bm25"]["all"]["recall@10"]
    assert set(figure) == {"mean", "low", "high", "n"}
    assert 0 <= figure["low"] <= figure["mean"] <= figure["high"] <= 1
    assert {(one["ranking"], one["kind"], one["empty"]["n"]) for one in record["silences"]} == {
        (ranking, kind, n) for ranking in ("salience", "bm25") for kind, n in (("foreign", 3), ("unanswerable", 1))
    }
    assert [one["first"] + one["second"] for one in record["differences"]] == ["saliencebm25"]


def test_a_profile_of_a_file_is_called_by_its_stem(run_json, data, tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(profiles.source("memlayer"), "utf-8")
    record = run_json("eval", data, "--profiles", f"{path},bm25", "--compare", "bm25:mine", "--min-score", "0")
    assert set(record["scores"]["planted"]) == {"mine", "bm25"}
    assert [(one["first"], one["second"]) for one in record["differences"]] == [("bm25", "mine")]
    assert record["min_score"] == 0.0


def test_categories_metric_and_embedders_can_be_chosen(run_json, data):
    record = run_json(
        "eval", data, "--profiles", "bm25,cosine", "--embedders", "planted", "--categories", "4,5", "--metric", "mrr@5"
    )
    assert (record["n"], record["metric"]) == (4, "mrr@5")
    assert record["categories"] == {"4": "single-hop", "5": "adversarial"}
    assert record["silences"] == []


def test_vectors_are_kept_unless_they_are_not_to_be(run, data, cache):
    run("eval", data, "--profiles", "bm25", "--no-cache")
    assert not cache.exists()
    run("eval", data, "--profiles", "bm25")
    assert len(list(cache.iterdir())) == 3  # memories, questions, and the sentence that stores are pinned with


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--profiles", "nosuch"], "Choose of: salience, precise, mememory"),
        (["--profiles", ","], "Give at least one"),
        (["--profiles", "bm25", "--k", "1,x"], "Give whole numbers with commas"),
        (["--profiles", "bm25", "--k", "0"], "Give a whole number from 1 to 200"),
        (["--profiles", "bm25", "--metric", "recall"], "such as recall@10"),
        (["--profiles", "bm25", "--compare", "bm25"], "such as salience:bm25"),
        (["--profiles", "bm25", "--compare", "bm25:cmm"], "Name two of: bm25"),
        (["--profiles", "bm25", "--categories", "9"], "Choose one of: 1, 4, 5"),
        (["--profiles", "bm25", "--embedders", "nosuch"], "Choose one of"),
        (["--profiles", "bm25", "--foreign", "-1"], "Give a whole number"),
    ],
)
def test_what_cannot_be_measured_is_reported(run, data, arguments, told):
    result = run("eval", data, *arguments, code=2)
    assert told in result.stderr
    assert result.stdout == ""


def test_tuning_prints_a_profile_that_loads(run, data, tmp_path):
    printed = run("tune", data, "--profile", "zeromemory", "--trials", "3", "--metric", "mrr@3").stdout
    path = tmp_path / "piped.toml"
    path.write_text(printed, "utf-8")
    assert profiles.load(path).name == "zeromemory-tuned"
    assert "# mrr@3, n = 4 questions, 3 trials a fit" in printed
    assert "# held out\tn\tbefore\theld out\tfitted on the others" in printed


def test_tuning_writes_a_file_and_not_over_another(run, run_json, data, tmp_path):
    path = tmp_path / "tuned.toml"
    record = run_json("tune", data, "--trials", "2", "--out", str(path), "--seed", "3")
    assert path.read_text("utf-8") == record["toml"]
    assert tomllib.loads(record["toml"])["name"] == "salience-tuned"
    assert (record["files"], record["embedder"], record["n"], len(record["folds"])) == (["talks.json"], "planted", 4, 2)
    assert "Name a new one" in run("tune", data, "--trials", "2", "--out", str(path), code=2).stderr
    again = run("tune", data, "--trials", "2", "--out", str(path), "--seed", "3", "--force").stdout
    assert f"# written to {path}" in again
    assert path.read_text("utf-8") == record["toml"]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--profile", "nosuch"], "Choose of"),
        (["--profile", "cosine"], "Give one in which two summed signals"),
        (["--trials", "0"], "Give a whole number"),
        (["--metric", "f1@3"], "such as recall@10"),
        (["--categories", "1"], "at least two"),
    ],
)
def test_what_cannot_be_tuned_is_reported(run, data, arguments, told):
    result = run("tune", data, *arguments, code=2)
    assert told in result.stderr


def test_the_heavy_libraries_are_imported_only_when_they_are_needed():

    code = "import sys, salience.cli; print([m for m in ('optuna', 'tomlkit') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], text=True, capture_output=True).stdout.strip() == "[]"


def test_a_missing_library_is_reported_before_anything_is_measured(run, data, monkeypatch):
    monkeypatch.setattr("salience.loading.find_spec", lambda _: None)
    result = run("tune", data, code=1)
    assert '[eval]"' in result.stderr


WORLD = {
    "name": "rosa",
    "user": "rosa",
    "now": "2026-11-20T18:00:00+00:00",
    "memories": [
        {"id": "m1", "at": "2026-03-01T09:00:00+00:00", "content": "Rosa lives in Ghent"},
        {"id": "m2", "at": "2026-04-01T09:00:00+00:00", "content": "Rosa keeps two goats"},
        {"id": "m3", "at": "2026-05-01T09:00:00+00:00", "content": "Rosa moved to Bruges"},
    ],
    "questions": [
        {"id": "q1", "kind": "present", "query": "Where does Rosa live?", "answers": ["m3"], "outdated": ["m1"]},
        {"id": "q2", "kind": "plain", "query": "How many goats?", "answers": ["m2"]},
        {"id": "q3", "kind": "unanswerable", "query": "What does a boat cost?", "answers": []},
    ],
}
PAIRS = {
    "name": "twins",
    "fillers": ["The heron is back"],
    "pairs": [
        {
            "id": "p1", "kind": "sibling", "older": "web-07 has a broken fan", "newer": "web-10 has new lamps",
            "query": "Which fan is broken?", "right": "older", "relation": "none",
        }
    ],
}  # fmt: skip


class TestEveryday:
    @pytest.fixture(autouse=True)
    def worlds(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        """A world in each half, in place of those of the package."""
        folder = tmp_path / "worlds"
        for half, name in (("fit", "rosa"), ("report", "lea")):
            (folder / half).mkdir(parents=True)
            (folder / half / f"{name}.json").write_text(json.dumps({**WORLD, "name": name}), "utf-8")
        (folder / "fit" / "pairs-twins.json").write_text(json.dumps(PAIRS), "utf-8")
        monkeypatch.setattr("salience.evaluate.datasets.everyday._FOLDER", folder)

    def test_lines_hold_the_figures_by_world_and_kind(self, run):
        printed = run("eval", "everyday", "--profiles", "bm25", "--half", "fit").stdout.splitlines()
        assert printed[0] == "# everyday, fit: 1 world, 3 memories, 3 questions, 1 pair"
        columns = printed[1].removeprefix("# ").split("\t")
        rows = [dict(zip(columns, line.split("\t"), strict=True)) for line in printed[2:]]
        assert [(row["worlds"], row["by"], row["name"]) for row in rows] == [
            ("english", "total", "-"),
            ("english", "world", "rosa"),
            ("english", "kind", "present"),
            ("english", "kind", "plain"),
            ("english", "kind", "unanswerable"),
            ("english pairs", "total", "-"),
            ("english pairs", "kind", "sibling"),
        ]
        total = rows[0]
        assert (total["profile"], total["embedder"], total["n"], total["first"]) == ("bm25", "planted", "2", "0.500")
        assert (total["changed"], total["outdated_first"], total["unanswerable"]) == ("1", "1.000", "1")
        assert (total["unanswerable_empty"], total["calibration_error"]) == ("1.000", "-")
        assert (total["wrong_and_sure"], rows[-1]["first"], rows[-1]["wrong_and_sure"]) == ("0.500", "1.000", "0.000")

    def test_json_has_both_halves_and_the_default_profile(self, run_json):
        record = run_json("eval", "everyday")
        assert (record["half"], record["worlds"], record["limit"]) == ("both", ["rosa", "lea"], 5)
        assert {row["profile"] for row in record["rows"]} == {"salience"}
        assert {row["name"]: row["figures"]["n"] for row in record["rows"] if row["pairs"]} == {"": 1, "sibling": 1}
        assert record["rows"][0]["figures"]["n"] == 4
        assert "misses" not in record

    def test_misses_show_the_question_the_first_hit_and_the_answer(self, run, run_json):
        arguments = ("eval", "everyday", "--half", "report", "--profiles", "bm25", "--misses")
        assert run_json(*arguments)["misses"] == [
            {
                "embedder": "planted",
                "profile": "bm25",
                "world": "lea",
                "kind": "present",
                "question": "Where does Rosa live?",
                "first": "Rosa lives in Ghent",
                "right": ["Rosa moved to Bruges"],
            }
        ]
        line = "bm25\tplanted\tlea\tpresent\tWhere does Rosa live?\tRosa lives in Ghent\tRosa moved to Bruges"
        assert run(*arguments).stdout.splitlines()[-1] == line

    def test_a_terminal_shows_a_table_per_profile(self, run):
        shown = run("eval", "everyday", "--profiles", "bm25,cosine", "--misses", terminal=True).stdout
        assert "bm25, planted: English worlds" in shown
        assert "bm25, planted: English pairs" in shown
        assert "sibling" in shown
        assert "cosine, planted: English worlds" in shown
        assert "right  Rosa moved to Bruges" in shown

    def test_options_of_the_other_use_are_refused(self, run, data):
        assert "k does not apply here. For everyday, give --half" in run("eval", "everyday", "--k", "3", code=2).stderr
        assert "half does not apply here" in run("eval", data, "--half", "fit", code=2).stderr
        assert "misses does not apply here" in run("eval", data, "everyday", "--misses", code=2).stderr

    def test_a_file_of_that_format_is_a_data_set_like_others(self, run_json, tmp_path):
        record = run_json("eval", str(tmp_path / "worlds" / "fit" / "rosa.json"), "--profiles", "bm25", "--k", "1")
        assert (record["formats"], record["memories"], record["n"]) == (["everyday JSON"], 3, 2)
        assert record["scores"]["planted"]["bm25"]["all"]["recall@1"]["mean"] == 0.5
        assert [(one["kind"], one["empty"]["mean"]) for one in record["silences"]] == [("unanswerable", 1.0)]
