"""What the command explain shows: what became of a memory, its path, the arithmetic, what would change it."""

from __future__ import annotations

import re
from pathlib import Path

from salience.cli.explain import MARKS
from salience.explain.trace import OUTCOMES

PAGE = (Path(__file__).parents[2] / "docs/how-to/explain.md").read_text("utf-8")
ANSI = re.compile(r"\x1b\[[0-9;]*m")


def values(result):
    """Return the tab-separated values of each line that is no comment."""
    return [line.split("\t") for line in result.stdout.splitlines() if not line.startswith("#")]


def test_a_pipe_gets_names_and_values_then_the_path(run, stored):
    lines = values(run("explain", "query", stored.bob, "--user", "alice", "--profile", "mememory", "--limit", "1"))
    result = {line[0]: line[1] for line in lines[:5]}
    assert list(result) == ["stage", "rank", "by", "reason", "counterfactual"]
    assert (result["stage"], result["rank"], result["by"]) == ("outranked", "2", stored.alice)
    last, first = result["reason"].split(". ", 1)
    assert re.fullmatch(r"It ranks 2 with 0\.640; the last one in the answer, \w{8}, has 0\.720", last)
    assert re.fullmatch(r"\w{8} is first with 0\.7200, mainly by similarity \(\+0\.0800\)\.", first)
    assert result["counterfactual"].startswith("Only a larger limit would return it: a limit of 2, at rank 2.")
    steps = [line for line in lines[5:] if len(line) == 3]
    assert [step[0] for step in steps] == [
        "scope", "filter", "candidates", "expired", "superseded", "score", "threshold", "trim",
    ]  # fmt: skip
    assert [step[1] for step in steps] == ["passed"] * 7 + ["fell"]
    assert steps[-1][2] == "rank 2 of 2, limit 1"
    assert steps[0][2] == "-"


def test_the_arithmetic_follows_as_comments(run, stored):
    printed = run("explain", "query", stored.alice, "--user", "alice", "--profile", "memorysync").stdout
    assert re.search(r"^# +similarity +0\.900000 +0\.700 +\+ 0\.630000$", printed, re.MULTILINE)
    expression, result = re.search(r"^#    (\([\d. +]+\) x [\d.]+) = ([\d.]+)$", printed, re.MULTILINE).groups()
    summed, factor = expression.split(" x ")
    assert abs(sum(map(float, summed.strip("()").split(" + "))) * float(factor) - float(result)) < 5e-6


def test_json_has_the_names_of_the_api(run_json, stored):
    found = run_json("explain", "query", stored.alice[-8:], "--user", "alice", "--profile", "cmm", "--min-score", "99")
    assert list(found) == [
        "id", "stage", "reason", "by", "rank", "score_detail", "path", "counterfactual", "profile", "degraded",
        "confidence", "confidence_parts", "change", "above",
    ]  # fmt: skip
    assert (found["id"], found["stage"], found["by"], found["rank"]) == (stored.alice, "threshold", None, 1)
    assert found["path"][0] == {"stage": "scope", "outcome": "passed", "note": ""}
    assert found["score_detail"]["parts"]["decay"]["raw"] == 1.0
    assert found["profile"] == "cmm"


def test_a_terminal_gets_a_sign_for_each_step_and_what_would_change_it(run, stored):
    arguments = ("explain", "query", stored.bob, "--user", "alice", "--profile", "memlayer", "--min-score", "0.85")
    result = run(*arguments, terminal=True)
    printed = ANSI.sub("", result.stdout)
    assert re.search(r"similarity floor  Its similarity 0\.800 is 0\.05 below the least score, 0\.850\.", printed)
    for stage, outcome in (("expired", "passed"), ("similarity_floor", "fell"), ("trim", "not reached")):
        assert re.search(rf"^ {MARKS[outcome][0]} +{stage}\b", printed, re.MULTILINE)
    assert "similarity 0.800 < 0.850" in printed
    assert "What would change it  A min_score of 0.8 would return it at rank 2." in printed


def test_the_options_are_those_of_recall(run_json, stored):
    filtered = run_json("explain", "query", stored.alice, "--user", "alice", "--tag", "ops", "--kind", "rule")
    assert filtered["stage"] == "filtered"
    assert filtered["counterfactual"].startswith("Leaving out tags=['ops'], kinds=['rule'] would return it at rank")
    weighed = run_json(
        "explain", "query", stored.alice, "--user", "alice", "--profile", "zeromemory",
        "--weights", "similarity=0", "--weights", "importance=0", "--now", "2999-01-01T00:00:00+00:00",
    )  # fmt: skip
    assert weighed["score_detail"]["final"] < 1e-6


def test_the_page_lists_everything_that_can_become_of_a_memory():
    assert set(re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE)) == set(OUTCOMES)
