"""Failures inside the contract show their values, as those of any test do."""

from pathlib import Path

import pytest

_CONTRACT = sorted((Path(__file__).parents[1] / "contract").glob("*_contract.py"))
pytest.register_assert_rewrite(*(f"tests.contract.{file.stem}" for file in _CONTRACT))
