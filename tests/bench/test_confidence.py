"""The fit of confidence: its figures on known data, and the table that it writes."""

from __future__ import annotations

import numpy as np
import pytest

from bench.confidence import EVERYDAY, Asked, area, calibration_error, chances, fitted, reliability, write
from salience.rank.confidence import Model
from salience.rank.profile import parse


def test_area_and_calibration_error_by_hand():
    chance = np.array([0.9, 0.8, 0.8, 0.1])
    right = np.array([True, True, False, False])
    assert area(chance, right) == (1 + 1 + 1 + 0.5) / 4
    assert calibration_error(chance, right) == pytest.approx((0.1 + abs(1.6 - 1) + 0.1) / 4)


def asked(random, half):
    value = random.uniform(0, 1, size=(5, 1))
    right = random.uniform(size=5) < 1 / (1 + np.exp(3 - 6 * value[:, 0]))
    return Asked(EVERYDAY, half, answerable=True, right=right, features=value)


def test_the_fit_finds_the_model_that_made_the_data():
    random = np.random.default_rng(0)
    questions = [asked(random, "fit") for _ in range(4000)]
    nothing = [Asked(EVERYDAY, "fit", False, np.zeros(1, bool), np.array([[place / 10]])) for place in range(10)]
    model = fitted([*questions, *nothing], ["match"])
    assert model.intercept == pytest.approx(-3, abs=0.2)
    assert model.weights["match"] == pytest.approx(6, abs=0.4)
    best = sorted(float(chances(one, model).max()) for one in nothing)
    assert best[-2] < model.confident_from <= best[-1]
    for _, _, mean, share in reliability(questions, model):
        assert float(mean) == pytest.approx(float(share), abs=0.05)


def test_the_table_of_a_profile_is_replaced_alone(tmp_path):
    before = 'name = "p"\nsummary = "P."\ncombine = "sum"\nstages = ["score", "trim"]\n[signal.similarity]\n\n'
    after = "\n[graph]\nweight = 0.5\n"
    table = "[confidence] # why\nintercept = 1\nweights = { match = 1 }\nconfident_from = 0.5\n"
    path = tmp_path / "p.toml"
    path.write_text(before + table + after, "utf-8")
    model = Model(-2.5, {"match": 3.25, "rank": -1.0}, 0.41)
    write(path, model)
    text = path.read_text("utf-8")
    assert text.startswith(before + "[confidence] # why\n")
    assert text.endswith(after)
    assert parse(text, "p.toml").confidence == model
