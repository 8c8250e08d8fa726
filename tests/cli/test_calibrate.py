"""`salience calibrate`: fit, count, keep, and have it used."""

from __future__ import annotations

import pytest

import salience
from salience.models import registry
from salience.models.calibration import load
from tests.contract.doubles import PlantedEmbedder

COSINES = {f"text {number:02}": number / 100 for number in range(100)}
PAIRS = [{"first": "query", "second": text, "relatedness": cosine} for text, cosine in COSINES.items()]


@pytest.fixture
def calibrate(run, monkeypatch, written):
    """Return a function from options to the result, with the judged pairs in `pairs.jsonl`."""
    monkeypatch.setitem(registry.EMBEDDERS, "planted", lambda _: PlantedEmbedder(COSINES))
    path = written("pairs.jsonl", *PAIRS)
    return lambda *options, **given: run("calibrate", path, *options, **given)


def test_the_result_is_printed_saved_and_used(calibrate, tmp_path):
    printed = calibrate().stdout
    kept = tmp_path / "xdg_config_home" / "salience" / "calibrations.toml"
    assert printed.startswith("planted, fitted on 100 judged pairs of pairs.jsonl\n")
    assert "  paraphrases missed               0 of 25, 0.0% (0.0% to 13.3%)\n" in printed
    assert f"Saved in {kept}; every connect with this embedder reads it.\n" in printed
    with salience.connect(":memory:", embedder=PlantedEmbedder(COSINES), profile="zeromemory") as engine:
        assert engine.services.calibration == load(kept)["planted"]
        assert f"{engine.services.calibration.paraphrase:.3f} on." in printed


def test_held_out_pairs_are_counted_and_not_fitted_on(calibrate, written):
    wrong = [{**pair, "relatedness": 1 - pair["relatedness"]} for pair in PAIRS]
    alone, beside = calibrate().stdout, calibrate("--held-out", written("wrong.jsonl", *wrong)).stdout
    assert alone.splitlines()[1:4] == beside.splitlines()[1:4]
    assert "wrong.jsonl (held out)" in beside
    assert "missed               26 of 26, 100.0%" in beside


def test_another_place_is_named_and_how_to_have_it_used(calibrate, tmp_path):
    out = tmp_path / "own.toml"
    assert f"Saved in {out}; to use it, set SALIENCE_CALIBRATIONS to this file." in calibrate("--out", str(out)).stdout
    assert list(load(out)) == ["planted"]
    assert "reads it." in calibrate("--out", str(out), env={"SALIENCE_CALIBRATIONS": str(out)}).stdout


def test_no_store_is_made_or_opened(calibrate, tmp_path):
    calibrate()
    assert not list(tmp_path.rglob("*.db"))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["none.jsonl"], "file none.jsonl cannot be read: No such file or directory"),
        (["FEW"], "at least 20 pairs"),
        (["FEW", "--embedder", "bert"], "embedder 'bert' is unknown"),
        (["FEW", "--held-out", "none.jsonl"], "file none.jsonl"),
    ],
)
def test_an_unusable_file_is_reported_in_one_line(run, written, tmp_path, arguments, words):
    few = written("few.jsonl", *PAIRS[:3])
    result = run("calibrate", *(few if item == "FEW" else item for item in arguments), code=2)
    assert result.stderr.startswith("salience: ")
    assert words in result.stderr
    assert not list(tmp_path.rglob("calibrations.toml"))
