"""The wheel: pure Python, and it says so."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]


def test_the_wheel_is_pure_python(tmp_path):
    """Built where there is no compiler, as on the machine of most users."""
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tmp_path)
    hidden = shutil.ignore_patterns("__pycache__", "*.egg-info")
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=hidden)
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", "dist", "."]
    subprocess.run(build, cwd=tmp_path, env=os.environ | {"CC": "/nowhere"}, check=True, timeout=300)
    (wheel,) = (tmp_path / "dist").iterdir()
    assert wheel.name.endswith("-py3-none-any.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (about,) = (name for name in names if name.endswith(".dist-info/WHEEL"))
        assert "Root-Is-Purelib: true" in archive.read(about).decode()
    assert not [name for name in names if name.endswith((".c", ".so", ".pyd"))]
    assert "salience/rank/profiles/precise.toml" in names
    assert "salience/evaluate/data/everyday/report/oskar.json" in names
