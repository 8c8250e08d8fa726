"""docs/how-to/own-profile.md names every key, signal, stage and parameter of a profile."""

from __future__ import annotations

from pathlib import Path

from salience.rank.profile import KEYS, parse
from salience.rank.signals import SIGNALS
from salience.rank.stages import STAGES

PAGE = (Path(__file__).parents[2] / "docs/how-to/own-profile.md").read_text(encoding="utf-8")


def test_every_key_signal_and_stage_is_on_the_page():
    for key in KEYS:
        assert f"`{key}`" in PAGE or f"`[{key}" in PAGE, key
    for name, entry in {**SIGNALS, **STAGES}.items():
        assert f"`{name}`" in PAGE, name
        row = next(line for line in PAGE.splitlines() if line.startswith("|") and f"`{name}`" in line.split("|")[1])
        for parameter in (*entry.parameters, *getattr(entry, "choices", ())):
            assert f"`{parameter}`" in row, f"{name}: {parameter}"


def test_the_example_is_a_profile():
    assert parse(PAGE.split("```toml\n")[1].split("```")[0], "own.md").name == "mine"
