"""The command bench: what it prints in each form, what it writes, what it refuses."""

from __future__ import annotations

import json

import pytest

from salience.lab.bench import contender, fresh, writing
from salience.lab.bench.contender import OWN, PEERS
from salience.lab.bench.running import PARTS

QUICK = ("--sizes", "300", "--peers", "none", "--seconds", "0", "--most", "10")


def test_all_of_it_is_measured_and_told(run, tmp_path, monkeypatch):
    monkeypatch.setattr(fresh, "ROUNDS", 1)
    monkeypatch.setattr(writing, "MANY", 20)
    out = tmp_path / "figures"
    printed = run("bench", *QUICK, "--out", str(out)).stdout
    kept = json.loads((out / "300.json").read_text("utf-8"))
    assert list(kept["parts"]) == list(PARTS)
    told = (tmp_path / "figures.md").read_text("utf-8")
    assert "(figures/recall.svg)" in told
    assert (out / "recall.svg").exists()
    for title in ("Recall, hybrid", "Recall, dense", "One memory", "Bulk load", "Threads", "A fresh process"):
        assert title in printed
        assert f"### {title}" in told
    rows = [line.split("\t") for line in printed.splitlines() if line.startswith("all\tsalience\t")]
    assert len(rows) == 3
    assert all(len(row) == 10 for row in rows)


def test_a_terminal_gets_tables(run, tmp_path):
    told = ("bench", *QUICK, "--only", "load", "--out", str(tmp_path / "figures"))
    printed = run(*told, terminal=True, env={"COLUMNS": "160"}).stdout
    for words in ("300 memories", "Bulk load, vectors given", *OWN):
        assert words in printed


def test_a_store_that_is_missing_is_named(run, said, tmp_path, monkeypatch):
    monkeypatch.setattr(contender, "find_spec", lambda _: None)
    monkeypatch.setattr("salience.lab.bench.quiet.seal", lambda: None)  # it would hold for every test after this one
    asked = ("bench", "--sizes", "60", "--only", "load", "--out", str(tmp_path / "figures"))
    assert "# chroma is not measured: pip install chromadb" in run(*asked).stdout
    assert set(said(*asked)[0]["skipped"]) == set(PEERS)
    assert "chroma is not measured" in run(*asked, terminal=True, env={"COLUMNS": "160"}).stdout


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--sizes", "0"], "Give a whole number from 1"),
        (["--sizes", "many"], "Give whole numbers with commas"),
        (["--peers", "nosuch"], "sqlite-vec"),
        (["--only", "nosuch"], "load"),
        (["--seconds", "-1"], "Give a number from 0"),
        (["--most", "1"], "Give a whole number from 10"),
    ],
)
def test_what_cannot_be_measured_is_told(run, tmp_path, arguments, told):
    result = run("bench", *arguments, "--out", str(tmp_path / "figures"), code=2)
    assert told in result.stderr
    assert not (tmp_path / "figures").exists()


def test_the_drawing_is_left_out_where_it_cannot_be_made(run, tmp_path, monkeypatch):
    monkeypatch.setattr("salience.cli.benching.find_spec", lambda _: None)
    run("bench", *QUICK, "--only", "load", "--out", str(tmp_path / "figures"))
    assert "![" not in (tmp_path / "figures.md").read_text("utf-8")
