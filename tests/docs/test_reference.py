"""docs/reference is what the code says, and the keys of profiles are described as they are."""

from __future__ import annotations

from dataclasses import fields

import pytest

from salience.rank.profile import KEYS, Profile
from tools.reference import FOLDER, GENERATED, PAGES


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_written_from_the_present_code(name):
    assert (FOLDER / name).read_text("utf-8") == PAGES[name]().rstrip() + GENERATED, "run: make reference"


def test_the_defaults_of_profile_keys_are_those_of_profiles():
    for item in fields(Profile):
        if item.name in KEYS and isinstance(item.default, int | str):
            assert KEYS[item.name][0].strip("`").strip('"').lower() == str(item.default).lower(), item.name
