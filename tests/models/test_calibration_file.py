"""The file of calibrations: a round trip, others left alone, and what is wrong with it told by file and key."""

from __future__ import annotations

import tomllib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from salience.errors import InputError
from salience.models.calibration import CALIBRATIONS, UNCALIBRATED, calibration_of, load, save, to_toml
from salience.ports import Calibration
from tests.contract.doubles import PlantedEmbedder

OWN = Calibration((-0.2, 0.3, 1.0), (0.0, 0.55, 1.0), 0.61, "7,000 judged pairs")
GOOD = 'cosine = [0, 1]\nrelatedness = [0, 1]\nparaphrase = 0.5\nsource = "s"\n'


def test_what_is_saved_is_loaded_and_others_stay(tmp_path):
    path = tmp_path / "new" / "calibrations.toml"
    save(path, "openai:text-embedding-3-small", OWN)
    save(path, "b", UNCALIBRATED)
    save(path, "b", CALIBRATIONS["all-MiniLM-L6-v2-int8"])
    assert load(path) == {"openai:text-embedding-3-small": OWN, "b": CALIBRATIONS["all-MiniLM-L6-v2-int8"]}
    assert [item.name for item in path.parent.iterdir()] == [path.name]


TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1).filter(str.strip)


@settings(max_examples=200, deadline=None)
@given(TEXT, TEXT)
def test_any_name_and_source_survive_toml(name, source):
    calibration = Calibration(OWN.cosine, OWN.relatedness, OWN.paraphrase, source)
    table = tomllib.loads(to_toml(name, calibration))
    assert table == {
        name: {"cosine": [-0.2, 0.3, 1.0], "relatedness": [0.0, 0.55, 1.0], "paraphrase": 0.61, "source": source}
    }


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[", "Write it in TOML"),
        ("\xff", "Write it in TOML"),
        ("m = 1", "m is not a table"),
        ("[m]\n", r"m\.cosine is missing"),
        ("[m]\n" + GOOD.replace("source", "sauce"), r"m\.source is missing"),
        ("[m]\n" + GOOD + "more = 1\n", "m: key 'more' is unknown.*cosine, paraphrase, relatedness, source"),
        ("[m]\n" + GOOD.replace("[0, 1]", "[0, 0]", 1), r"m\.cosine is \[0, 0\].*above the one before"),
        ("[m]\n" + GOOD.replace("[0, 1]", "[0]", 1), r"m\.cosine.*at least two"),
        ("[m]\n" + GOOD.replace("[0, 1]", "7", 1), r"m\.cosine.*at least two"),
        ("[m]\n" + GOOD.replace("[0, 1]", "[0, 1.5]", 1), r"m\.cosine\[1\] is 1\.5"),
        ("[m]\n" + GOOD.replace("relatedness = [0, 1]", "relatedness = [-1, 1]"), r"m\.relatedness\[0\] is -1"),
        ("[m]\n" + GOOD.replace("[0, 1]", "[0, 0.5, 1]", 1), r"m\.relatedness has 2 numbers.*Give 3"),
        ("[m]\n" + GOOD.replace("0.5", "nan"), r"m\.paraphrase"),
        ("[m]\n" + GOOD.replace('"s"', '""'), r"m\.source"),
    ],
)
def test_a_file_that_holds_something_else_is_named_with_its_key(tmp_path, text, words):
    path = tmp_path / "calibrations.toml"
    path.write_text(text, "latin-1")
    with pytest.raises(InputError, match=words) as caught:
        load(path)
    assert str(path) in str(caught.value)
    with pytest.raises(InputError, match=words):
        save(path, "n", OWN)
    assert path.read_text("latin-1") == text


def test_an_unwritable_place_is_reported(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="Give a file that can be"):
        save(tmp_path / "file" / "calibrations.toml", "m", OWN)


def test_the_calibration_fitted_here_comes_before_the_embedders_own_and_the_one_that_ships():
    embedder = PlantedEmbedder()
    embedder.name, embedder.calibration = "all-MiniLM-L6-v2-int8", UNCALIBRATED
    assert calibration_of(embedder, {"another": OWN}) is UNCALIBRATED
    assert calibration_of(embedder, {embedder.name: OWN}) == OWN
