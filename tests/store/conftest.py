"""Failures inside the shipped contract show their values, as those of any test do."""

import pytest

pytest.register_assert_rewrite("salience.testing.store_contract")
