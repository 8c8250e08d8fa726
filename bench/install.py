"""Install a wheel in an empty environment and recall once: prints the seconds, and the megabytes of each package.

    python -m bench.install dist/salience-0.1.0-py3-none-any.whl --pythons 3.11 3.12 --sbom dist/salience-0.1.0.cdx.json

pip downloads every package again. A Python that is not on the PATH is skipped; `uv python install 3.12` adds one.
With --lowest, uv installs the lowest versions that pyproject.toml admits.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from importlib.metadata import Distribution, distributions
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from bench.dist import ROOT, commit_time, run

RECALL: Final = """
import salience
memory = salience.connect("agent.db")
memory.remember("Alice prefers Python for backend work", user_id="alice")
[hit] = memory.recall("What language does Alice like?", user_id="alice")
print(hit.memory.content)
"""
ENVIRONMENT: Final = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "SALIENCE_", "XDG_"))}
"""Without the settings of Python and Salience."""


def find(version: str) -> str | None:
    """Return the path of a Python on the PATH; None if there is none, or none that runs (a shim of pyenv)."""
    path = shutil.which(f"python{version}")
    return path if path and subprocess.run([path, "-c", "import venv"], capture_output=True).returncode == 0 else None


def install(python: str, wheel: Path, folder: Path) -> float:
    """Make an environment with a wheel and its dependencies alone, and return the seconds of `pip install`."""
    run(python, "-m", "venv", "--without-pip", folder)
    pip = (sys.executable, "-m", "pip", "--python", folder / "bin" / "python")
    begin = time.perf_counter()
    run(*pip, "install", "--quiet", "--no-cache-dir", wheel, env=ENVIRONMENT)
    return time.perf_counter() - begin


def install_lowest(python: str, wheel: Path, folder: Path) -> float:
    """Like `install`, with the lowest versions that pyproject.toml admits."""
    run(python, "-m", "venv", "--without-pip", folder)
    uv = (sys.executable, "-m", "uv", "pip", "install", "--quiet", "--no-cache", "--python", folder / "bin" / "python")
    begin = time.perf_counter()
    run(*uv, "--resolution", "lowest-direct", "-r", ROOT / "pyproject.toml", env=ENVIRONMENT)
    run(*uv, "--no-deps", wheel, env=ENVIRONMENT)
    return time.perf_counter() - begin


def recall(folder: Path, work: Path) -> float:
    """Return the seconds until a new process has stored and recalled a memory."""
    environment = ENVIRONMENT | {"HOME": str(work)}
    run(folder / "bin" / "salience", "--version", env=environment, stdout=subprocess.DEVNULL)
    begin = time.perf_counter()
    printed = run(folder / "bin" / "python", "-c", RECALL, cwd=work, env=environment, stdout=subprocess.PIPE)
    seconds = time.perf_counter() - begin
    if printed != "Alice prefers Python for backend work\n":
        sys.exit(f"The first recall printed {printed!r}.")
    return seconds


def megabytes(package: Distribution) -> float:
    """Return the size of a package's files, bytecode included."""
    paths = (Path(str(package.locate_file(file))) for file in package.files or ())
    return sum(path.stat().st_size for path in paths if path.is_file()) / 1e6


def write_sbom(folder: Path, version: str, file: Path) -> None:
    """Write the packages of an environment as CycloneDX in JSON."""
    cyclonedx = (sys.executable, "-m", "cyclonedx_py", "environment", "--pyproject", ROOT / "pyproject.toml")
    options = ("--mc-type", "library", "--output-reproducible", "--output-file", file)
    run(*cyclonedx, *options, folder / "bin" / "python", env=os.environ | {"SOURCE_DATE_EPOCH": commit_time()})
    document = json.loads(file.read_text("utf-8"))
    document["metadata"]["component"]["version"] = version  # pyproject.toml does not state it
    file.write_text(json.dumps(document, indent=2) + "\n", "utf-8")
    print(f"{file}: {len(document['components'])} components")


def main() -> None:
    """Install under each Python; the sizes and the SBOM are those of the first one found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wheel", type=Path)
    parser.add_argument("--pythons", nargs="+", default=["3.11"])
    parser.add_argument("--lowest", action="store_true", help="install the lowest versions that pyproject.toml admits")
    parser.add_argument("--sbom", type=Path, help="write the software bill of materials (CycloneDX) to this file")
    options = parser.parse_args()
    found = {version: path for version in options.pythons if (path := find(version))}
    for version in options.pythons:
        if version not in found:
            print(f"Python {version}: skipped, no python{version} on the PATH runs")
            continue
        with TemporaryDirectory() as work:
            folder = Path(work, "environment")
            make = install_lowest if options.lowest else install
            seconds = make(found[version], options.wheel.resolve(), folder)
            first = recall(folder, Path(work))
            [site] = folder.glob("lib/python*/site-packages")
            packages = {package.name: package for package in distributions(path=[str(site)])}
            sizes = {name: megabytes(package) for name, package in packages.items()}
            print(
                f"Python {version}: installed in {seconds:.1f} s, first recall after {first:.1f} s more; "
                f"{sum(sizes.values()):.0f} MB in {len(sizes)} packages"
            )
            if version == next(iter(found)):
                for name, size in sorted(sizes.items(), key=lambda item: -item[1]):
                    if size >= 1:
                        print(f"{size:8.1f} MB  {name} {packages[name].version}")
                if options.sbom:
                    write_sbom(folder, packages["salience"].version, options.sbom)
    if not found:
        sys.exit("No Python was found.")


if __name__ == "__main__":
    main()
