"""Failures inside the shipped contract show their values, as those of any test do."""

from pathlib import Path

import pytest

import salience

_CONTRACT = sorted((Path(salience.__file__).parent / "testing").glob("*_contract.py"))
pytest.register_assert_rewrite(*(f"salience.testing.{file.stem}" for file in _CONTRACT))
