"""Calibration: judged pairs in, what cosines mean out, and every later engine goes by it."""

from __future__ import annotations

import numpy as np
import pytest

import salience
from salience import EmbedderError, InputError
from salience import settings as configuration
from salience.maintain.calibrate import cosines
from salience.models.calibration import fit
from salience.models.minilm import MiniLM
from salience.ports import UNCALIBRATED
from salience.records import Judged
from tests.contract.doubles import PlantedEmbedder

COSINES = {f"text {number:02}": number / 100 for number in range(100)}
PAIRS = [("query", text, cosine) for text, cosine in COSINES.items()]


@pytest.fixture
def memory(clock):
    with salience.connect(":memory:", embedder=PlantedEmbedder(COSINES), profile="zeromemory", clock=clock) as engine:
        yield engine


def test_the_calibration_is_fitted_to_the_cosines(memory):
    related = [cosine for _, _, cosine in PAIRS]
    expected = fit(cosines(memory.services, [Judged(*pair) for pair in PAIRS]), related, "planted")
    assert memory.calibrate(PAIRS, source="planted") == expected
    assert expected.paraphrase == pytest.approx(0.75, abs=0.02)
    assert memory.stats().memories == 0


def test_each_text_is_embedded_once_and_pairs_keep_their_order(memory):
    pairs = [Judged("query", "text 50", 0.5), Judged("text 50", "query", 0.5), Judged("query", "query", 1.0)]
    result = []
    np.testing.assert_allclose(cosines(memory.services, pairs, result.append), [0.5, 0.5, 1.0], atol=1e-6)
    assert memory.services.embedder._embedder.texts == ["query", "text 50"]
    assert result == [2]


def test_judged_pairs_and_tuples_are_equivalent(memory):
    assert memory.calibrate([Judged(*pair) for pair in PAIRS]) == memory.calibrate([[*pair, "label"] for pair in PAIRS])


def test_a_saved_calibration_is_used_by_every_engine(memory, monkeypatch):
    file = configuration.load().calibrations
    assert memory.services.calibration is UNCALIBRATED
    fitted = memory.calibrate(PAIRS, source="planted", file=file)
    assert memory.services.calibration is UNCALIBRATED
    with salience.connect(":memory:", embedder=PlantedEmbedder(), profile="zeromemory") as another:
        assert another.services.calibration == fitted
    monkeypatch.setenv("SALIENCE_CALIBRATIONS", str(file.with_name("elsewhere.toml")))
    with salience.connect(":memory:", embedder=PlantedEmbedder(), profile="zeromemory") as another:
        assert another.services.calibration is UNCALIBRATED


def test_the_fitted_threshold_decides_near_duplicates(clock, tmp_path, monkeypatch):
    """Two texts of cosine 0.7 are two memories for an embedder of which nothing is known, and one once it is fitted."""
    monkeypatch.setenv("SALIENCE_CALIBRATIONS", str(tmp_path / "calibrations.toml"))
    alike = {"tea it is": 0.99, "tea then": 0.7}

    def count():
        embedder = PlantedEmbedder({**COSINES, **alike})
        with salience.connect(":memory:", embedder=embedder, profile="memorysync", clock=clock) as engine:
            for text in alike:
                engine.remember(text)
            engine.calibrate([(first, second, min(2 * cosine, 1)) for first, second, cosine in PAIRS],
                             file=tmp_path / "calibrations.toml")  # fmt: skip
            return len(engine.recall("query", limit=2))

    assert (count(), count()) == (2, 1)


def test_an_invalid_calibration_file_is_reported_by_connect(tmp_path, monkeypatch):
    (tmp_path / "calibrations.toml").write_text("planted = 1")
    monkeypatch.setenv("SALIENCE_CALIBRATIONS", str(tmp_path / "calibrations.toml"))
    with pytest.raises(InputError, match=r"calibrations\.toml: planted is not a table"):
        salience.connect(":memory:", embedder=PlantedEmbedder(), profile="zeromemory")


@pytest.mark.parametrize(
    ("pairs", "words"),
    [
        ("text", "pairs has the type str"),
        (7, "pairs has the type int"),
        ([7], r"pairs\[0\]\.pair has the type int"),
        ([("a", "b")], r"pairs\[0\]\.pair has the type tuple"),
        ([*PAIRS, ("a", "", 0.5)], r"pairs\[100\]\.second is empty"),
        ([("a", "b", 4)], r"pairs\[0\]\.relatedness is 4"),
        ([("a", "b", "high")], r"pairs\[0\]\.relatedness is 'high'"),
        ([("a", "b", 0.5, 7)], r"pairs\[0\]\.label"),
        ([], "at least 20 pairs with a relatedness at least 0.75"),
        (PAIRS[:90], "at least 20 pairs with a relatedness at least 0.75"),
    ],
)
def test_invalid_pairs_are_refused(memory, pairs, words):
    with pytest.raises(InputError, match=words):
        memory.calibrate(pairs)


def test_a_blank_source_is_refused(memory):
    with pytest.raises(InputError, match="source"):
        memory.calibrate(PAIRS, source=" ")


def test_an_embedder_that_fails_writes_nothing(tmp_path, monkeypatch):
    broken = PlantedEmbedder()
    monkeypatch.setattr(broken, "embed", lambda texts: 1 / 0)
    with salience.connect(":memory:", embedder=broken, profile="zeromemory") as engine:
        with pytest.raises(EmbedderError, match="ZeroDivisionError"):
            engine.calibrate(PAIRS, file=tmp_path / "new.toml")
        assert not (tmp_path / "new.toml").exists()


def test_without_pairs_it_is_measured_on_the_included_texts(memory, clock):
    assert memory.calibrate() is UNCALIBRATED  # planted cosines tell those texts nothing apart
    with salience.connect(":memory:", embedder=MiniLM(), clock=clock) as other:
        assert other.calibrate().paraphrase == pytest.approx(other.services.calibration.paraphrase, abs=0.02)
