"""A server of our own to try things on: `salience serve` as it is run, in a process that ends with the trial."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import httpx

from salience.records import checks
from tests.postgres_server import fresh, server

STORES: Final = ("sqlite", "postgres")
PATIENCE: Final = 600
"""Tenths of a second that a server has to start."""
_URL: Final = re.compile(r"http://[0-9.]+:\d+")


@dataclass(frozen=True, slots=True)
class Served:
    """A server that runs.

    Attributes:
        url: where it is.
        process: which it is.
    """

    url: str
    process: subprocess.Popen[bytes]

    def end(self, seconds: float | None = None) -> int:
        """Return the code with which it ended, once it is told to; `TimeoutExpired` if that takes longer."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(seconds)


@contextmanager
def empty_store(kind: str, folder: Path) -> Iterator[str]:
    """Yield the target of an empty store of a kind; a file is in the folder."""
    if checks.choice("store", kind, STORES) == "sqlite":
        yield str(folder / "memory.db")
        return
    with server() as place, fresh(place) as dsn:
        yield dsn


@contextmanager
def running(target: str, log: Path, *, embedder: str, workers: int, **environment: str) -> Iterator[Served]:
    """Yield a server of a target, which writes to a log; it has ended afterwards."""
    command = [str(Path(sys.executable).with_name("salience")), "--store", target, "--embedder", embedder]
    command += ["serve", "--port", "0", "--workers", str(workers), "--tools", "all"]
    with (
        log.open("wb") as told,
        subprocess.Popen(command, stderr=told, env={**os.environ, **environment}) as process,  # noqa: S603 - our own
    ):
        try:
            yield Served(_url(process, log), process)
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait()


def _url(process: subprocess.Popen[bytes], log: Path) -> str:
    """Return where the server is, once it answers there."""
    for _ in range(PATIENCE):
        time.sleep(0.1)
        found = _URL.search(log.read_text(errors="replace"))
        if found is not None:
            with suppress(httpx.TransportError):
                if httpx.get(f"{found[0]}/readyz").is_success:
                    return found[0]
        if process.poll() is not None:
            break
    raise SystemExit(f"The server did not start:\n{log.read_text(errors='replace')}")
