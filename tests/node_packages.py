"""Node.js for tests, and packages from npm: installed once per lock file, into a cache outside of the repository."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import platformdirs
import pytest

from waiting import PATIENCE

_UNREACHABLE = re.compile(r"ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ETIMEDOUT|ENETUNREACH|EHOSTUNREACH|network")


def program(name: str) -> str:
    """Return the path of a program of Node.js, that of the environment first; skip where it is missing."""
    beside = Path(sys.executable).with_name(name)
    found = str(beside) if beside.exists() else shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


def call(*command: str, check: bool = True, env: dict[str, str] | None = None, **options: Any) -> Any:
    """Run a program, with this Node.js on its path; fail with its output if it fails."""
    path = f"{Path(program('node')).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    surroundings = {**(os.environ if env is None else env), "PATH": path}
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, env=surroundings, **options)
    assert done.returncode == 0 or not check, done.stdout + done.stderr
    return done


def modules(folder: Path) -> Path:
    """Return the `node_modules` that the lock file of a folder names; skip if the registry cannot be reached."""
    lock = (folder / "package-lock.json").read_bytes()
    place = Path(platformdirs.user_cache_dir("salience-tests")) / f"node-{hashlib.sha256(lock).hexdigest()[:16]}"
    if not place.exists():
        place.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=place.parent) as temporary:
            made = Path(temporary) / "node"
            made.mkdir()
            for name in ("package.json", "package-lock.json"):
                shutil.copy(folder / name, made)
            done = call(program("npm"), "ci", "--ignore-scripts", "--no-audit", "--no-fund", cwd=made, check=False)
            if done.returncode and _UNREACHABLE.search(done.stderr):
                pytest.skip("npm cannot reach its registry")
            assert done.returncode == 0, done.stderr
            with suppress(OSError):  # another run was first
                made.rename(place)
    return place / "node_modules"
