"""docs/explanation/architecture.md names functions and files that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import salience

PACKAGE = Path(salience.__file__).parent
PAGE = (Path(__file__).parent.parent / "docs/explanation/architecture.md").read_text(encoding="utf-8")
STEPS = re.findall(r"^\| ([\w, ]+) \| (.*`.*) \| (`.*`) \|$", PAGE, re.MULTILINE)


def test_the_page_has_the_steps_of_both_walks():
    assert len(STEPS) >= 15


@pytest.mark.parametrize(("functions", "files"), [row[1:] for row in STEPS], ids=[row[0] for row in STEPS])
def test_each_step_names_functions_of_its_files(functions, files):
    source = ""
    for name in re.findall(r"`([\w/.]+)`", files):
        path = PACKAGE / name
        source += "".join(
            file.read_text(encoding="utf-8") for file in ([path] if path.is_file() else path.rglob("*.py"))
        )
        assert path.exists(), name
    for name in re.findall(r"`([\w.]+)`", functions):
        for part in name.split("."):
            assert re.search(rf"\b{part}\b", source), f"{part} is not in {files}"


def test_every_file_that_the_page_names_exists():
    for name in re.findall(r"\b((?:\w+/)*\w+\.(?:py|toml))\b", PAGE):
        assert (PACKAGE / name).exists(), name
