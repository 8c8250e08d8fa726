"""Calibration: a rising line, one rule for the paraphrase threshold, and the figures that ship."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.judged import equal_error, fit, isotonic, read, relatedness
from salience.errors import InputError, MissingExtraError
from salience.models.bge import BGE
from salience.models.cache import Wrapped
from salience.models.calibration import CALIBRATIONS, UNCALIBRATED, calibration_of, measured
from salience.models.minilm import MiniLM
from salience.models.multilingual import Multilingual
from salience.models.static import Static
from salience.ports import Calibration
from tests.contract.doubles import PlantedEmbedder

NUMBERS = st.lists(st.floats(-1, 1), max_size=50)
CLASSES = {one.name: one for one in (MiniLM, Static, BGE, Multilingual)}


@given(NUMBERS)
def test_an_isotonic_sequence_rises_keeps_the_mean_and_stays_in_range(values):
    fitted = isotonic(values)
    assert (np.diff(fitted) >= -1e-12).all()
    assert fitted.sum() == pytest.approx(sum(values), abs=1e-9)
    assert len(fitted) == len(values)


def test_violators_are_pooled():
    np.testing.assert_allclose(isotonic([1, 3, 2, 4, 0]), [1, 2.25, 2.25, 2.25, 2.25])


def test_errors_are_equal_at_the_threshold():
    same, different = np.array([0.4, 0.6, 0.7, 0.8, 0.9]), np.array([0.1, 0.2, 0.3, 0.4, 0.65])
    threshold = equal_error(same, different)
    assert threshold == 0.6
    assert (same < threshold).mean() == (different >= threshold).mean() == 0.2


@given(st.integers(0, 2**32 - 1), st.integers(120, 600))
def test_a_fitted_line_rises_strictly_from_0_0_to_1_1(seed, pairs):
    random = np.random.default_rng(seed)
    relatedness = np.concatenate([np.linspace(0, 0.4, 40), np.linspace(0.8, 1, 40), random.uniform(0, 1, pairs)])
    cosines = np.clip(relatedness + random.normal(0, 0.15, len(relatedness)), -1, 1)
    fitted = fit(cosines, relatedness, "made up")
    assert fitted.cosine[0] == fitted.relatedness[0] == 0
    assert fitted.cosine[-1] == fitted.relatedness[-1] == 1
    assert (np.diff(fitted.cosine) > 0).all()
    assert (np.diff(fitted.relatedness) > 0).all()
    assert 4 <= len(fitted.cosine) == len(fitted.relatedness) <= 10
    assert 0.4 < fitted.paraphrase < 0.9
    assert fitted.source == "made up"


@pytest.mark.parametrize("name", sorted(CALIBRATIONS))
def test_shipped_lines_rise_from_0_0_to_1_1(name):
    shipped = CALIBRATIONS[name]
    assert name in CLASSES
    assert (np.diff(shipped.cosine) > 0).all()
    assert (np.diff(shipped.relatedness) > 0).all()
    assert shipped.cosine[0] == shipped.relatedness[0] == 0
    assert shipped.cosine[-1] == shipped.relatedness[-1] == 1
    assert "SICK" in shipped.source


def test_the_default_embedder_takes_dark_mode_for_dark_theme_and_not_for_night_work():
    vectors = MiniLM().embed(["The user prefers dark mode", "User likes dark theme", "The user works at night"])
    cosines, threshold = vectors @ vectors.T, CALIBRATIONS[MiniLM.name].paraphrase
    assert cosines[0, 1] >= threshold
    assert max(cosines[0, 2], cosines[1, 2]) < threshold - 0.1


def test_an_embedders_own_calibration_comes_first():
    own = Calibration((0.0, 1.0), (0.0, 1.0), 0.5, "own")
    embedder = PlantedEmbedder()
    embedder.name, embedder.calibration = MiniLM.name, own
    assert calibration_of(embedder) is own
    embedder.calibration = None
    assert calibration_of(embedder) is CALIBRATIONS[MiniLM.name]


def test_an_unknown_embedder_keeps_its_cosines_and_says_so():
    unknown = calibration_of(PlantedEmbedder())
    assert unknown is UNCALIBRATED
    np.testing.assert_allclose(np.interp([-0.5, 0.3, 1], unknown.cosine, unknown.relatedness), [0, 0.3, 1])
    assert unknown.paraphrase == 0.90
    assert "not calibrated" in unknown.source


def test_a_calibration_of_another_type_is_refused():
    embedder = PlantedEmbedder()
    embedder.calibration = 0.7
    with pytest.raises(InputError, match=r"embedder\.calibration"):
        calibration_of(embedder)


@pytest.mark.slow
@pytest.mark.data
@pytest.mark.parametrize("name", ["all-MiniLM-L6-v2-int8"])  # the others take longer, and go through the same code
def test_the_shipped_figures_are_what_fit_returns(name):
    folder = os.environ.get("SALIENCE_TEST_DATA")
    if not folder:
        pytest.skip("SALIENCE_TEST_DATA names no folder with sick/SICK_train.txt")
    pairs = read(Path(folder) / "sick" / "SICK_train.txt")
    texts = sorted({text for pair in pairs for text in (pair.first, pair.second)})
    try:
        embedder = CLASSES[name]()
    except MissingExtraError as error:
        pytest.skip(str(error))
    vectors = dict(zip(texts, embedder.embed(texts), strict=True))
    cosines = [float(vectors[pair.first] @ vectors[pair.second]) for pair in pairs]
    fitted, shipped = fit(cosines, relatedness(pairs), "SICK"), CALIBRATIONS[name]
    np.testing.assert_allclose(fitted.cosine, shipped.cosine, atol=0.002)
    np.testing.assert_allclose(fitted.relatedness, shipped.relatedness, atol=0.002)
    assert fitted.paraphrase == pytest.approx(shipped.paraphrase, abs=0.002)


def test_minilm_measured_on_the_included_texts_is_minilm_fitted_to_judged_pairs():
    found, known = measured(Wrapped(MiniLM())), CALIBRATIONS[MiniLM.name]
    cosines = np.linspace(0, 0.85, 18)
    np.testing.assert_allclose(found.related(cosines), known.related(cosines), atol=0.03)
    assert (found.paraphrase, found.token_floor) == (pytest.approx(known.paraphrase, abs=0.02), known.token_floor)


@pytest.mark.parametrize("kind", [BGE, Static])
def test_what_is_measured_is_near_what_was_fitted_to_judged_pairs(kind):
    try:
        found, known = measured(Wrapped(kind())), CALIBRATIONS[kind.name]
    except MissingExtraError as error:
        pytest.skip(str(error))
    assert found.paraphrase == pytest.approx(known.paraphrase, abs=0.05)
    for related in (0.3, 0.5, 0.66):
        cosine = np.interp(related, known.relatedness, known.cosine)
        assert found.related(np.array([cosine]))[0] == pytest.approx(related, abs=0.2)
    assert found.token_floor == pytest.approx(known.token_floor, abs=0.01)


def test_an_embedder_that_tells_nothing_apart_stays_uncalibrated():
    assert measured(Wrapped(PlantedEmbedder({}))) is UNCALIBRATED
