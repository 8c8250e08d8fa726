"""wrk, which asks as fast as it is answered, and what it tells."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

SCRIPT: Final = Path(__file__).with_name("load.lua")
PATIENCE: Final = 60
"""Seconds after which an answer that has not come counts as failed."""


@dataclass(frozen=True, slots=True)
class Told:
    """What came of a run.

    Attributes:
        requests: that were answered.
        seconds: that it took.
        p50, p95, p99: milliseconds to an answer.
        refused: answers with a status of 400 or more.
        failed: connections that broke, and answers that did not come in time.
    """

    requests: int
    seconds: float
    p50: float
    p95: float
    p99: float
    refused: int
    failed: int


def require() -> None:
    """Return if wrk is there; else end, saying how to get it."""
    if shutil.which("wrk") is None:
        raise SystemExit("wrk is not installed. Debian, Ubuntu: apt-get install wrk; macOS: brew install wrk.")


def driven(
    url: str, token: str, bodies: Iterable[Mapping[str, Any]], clients: int, seconds: float, folder: Path
) -> Told:
    """Return what comes of asking a server for some seconds, over as many connections that are kept open."""
    asked = folder / "bodies"
    asked.write_text("\n".join(map(json.dumps, bodies)), "utf-8")
    command = ["wrk", "--threads", "1", "--connections", str(clients), "--duration", f"{round(seconds)}s"]
    command += ["--timeout", f"{PATIENCE}s", "--script", str(SCRIPT), url, "--", token, str(asked)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return Told(**json.loads(done.stdout.splitlines()[-1]))
