"""Build the wheel and the sdist of the last commit and check them: prints their hashes.

    python -m bench.dist dist

Each is built twice, in folders and with permissions that differ; a difference of one byte is an error. Files that are
not committed are not built.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

ROOT: Final = Path(__file__).parents[1]


def run(*command: str | Path, **options: Any) -> str:
    """Run a command that must succeed, and return what it prints if `stdout` is a pipe."""
    done = subprocess.run([str(word) for word in command], check=True, text=True, **options)
    return str(done.stdout)


def commit_time() -> str:
    """Return the time of the last commit, for SOURCE_DATE_EPOCH."""
    return run("git", "log", "-1", "--format=%ct", cwd=ROOT, stdout=subprocess.PIPE).strip()


def build(folder: Path, umask: int) -> list[Path]:
    """Return the sdist and the wheel of the last commit; the wheel is built from the sdist."""
    sources, archive = folder / "sources", folder / "sources.tar"
    sources.mkdir(parents=True)
    run("git", "archive", "--output", archive, "HEAD", cwd=ROOT)
    run("tar", "--extract", "--no-same-permissions", "--file", archive, "--directory", sources, umask=umask)
    environment = os.environ | {"SOURCE_DATE_EPOCH": commit_time()}
    command = (sys.executable, "-m", "build", "--outdir", folder / "dist", sources)
    run(*command, env=environment, umask=umask, stdout=subprocess.DEVNULL)
    return sorted((folder / "dist").iterdir())


def digests(files: list[Path]) -> dict[str, str]:
    """Return the SHA-256 of each file, by name."""
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


def main() -> None:
    """Build, compare and check."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    out = parser.parse_args().out.resolve()
    with TemporaryDirectory() as work:
        files = build(Path(work, "first"), 0o022)
        first, second = digests(files), digests(build(Path(work, "second"), 0o077))
        if first != second:
            sys.exit(f"Two builds differ.\nfirst:  {first}\nsecond: {second}")
        run(sys.executable, "-m", "twine", "check", "--strict", *files)
        wheels = [file for file in files if file.suffix == ".whl"]
        run(sys.executable, "-m", "check_wheel_contents", *wheels, cwd=Path(work, "first", "sources"))
        out.mkdir(parents=True, exist_ok=True)
        for old in out.glob("salience-*"):
            old.unlink()
        for file in files:
            shutil.copyfile(file, out / file.name)
            print(f"{first[file.name]}  {file.name}  {file.stat().st_size:,} bytes")
    print("Two builds are byte-identical.")


if __name__ == "__main__":
    main()
