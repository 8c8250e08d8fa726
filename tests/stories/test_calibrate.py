"""Calibration: what an embedder's cosines mean, measured, and used by every engine with that embedder."""

from __future__ import annotations

import pytest

import salience
from salience.models.minilm import MiniLM
from salience.ports import UNCALIBRATED, Calibration
from tests.contract.doubles import PlantedEmbedder


def test_an_embedder_is_measured_on_the_included_texts(clock):
    with salience.connect(":memory:", embedder=PlantedEmbedder(), profile="zeromemory", clock=clock) as memory:
        assert memory.calibrate() is UNCALIBRATED  # planted cosines tell those texts nothing apart
    with salience.connect(":memory:", embedder=MiniLM(), clock=clock) as memory:
        assert memory.calibrate().paraphrase == pytest.approx(memory.services.calibration.paraphrase, abs=0.02)


def test_the_calibration_of_an_embedder_decides_near_duplicates(clock):
    """Two texts of cosine 0.7 are two memories for an embedder of which nothing is known, and one once it is known."""
    alike = {"tea it is": 0.99, "tea then": 0.7}

    def count(calibration):
        embedder = PlantedEmbedder(alike)
        embedder.calibration = calibration
        with salience.connect(":memory:", embedder=embedder, profile="memorysync", clock=clock) as engine:
            for text in alike:
                engine.remember(text)
            return len(engine.recall("query", limit=2))

    assert (count(None), count(Calibration((0.0, 1.0), (0.0, 1.0), 0.4, "known"))) == (2, 1)
