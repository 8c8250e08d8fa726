"""`salience serve` on an empty store, as a process that ends with the trial."""

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

import httpx

from salience.records import checks
from tests.postgres_server import fresh, server

STORES = ("sqlite", "postgres")


@dataclass
class Served:
    """A running server: where it is, and its process."""

    url: str
    process: subprocess.Popen[bytes]


@contextmanager
def empty_store(kind: str, folder: Path) -> Iterator[str]:
    """Yield the target of an empty store, `sqlite` or `postgres`."""
    if checks.choice("store", kind, STORES) == "sqlite":
        yield str(folder / "memory.db")
        return
    with server() as place, fresh(place) as dsn:
        yield dsn


@contextmanager
def running(target: str, log: Path, *, embedder: str, workers: int = 1, **environment: str) -> Iterator[Served]:
    """Yield a server on a target that writes its log to a file."""
    command = [str(Path(sys.executable).with_name("salience")), "--store", target, "--embedder", embedder]
    command += ["serve", "--port", "0", "--workers", str(workers), "--tools", "all"]
    with log.open("wb") as file, subprocess.Popen(command, stderr=file, env=os.environ | environment) as process:
        try:
            yield Served(_url(process, log), process)
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait()


def _url(process: subprocess.Popen[bytes], log: Path) -> str:
    """Return the URL from the log once the server is ready there."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and process.poll() is None:
        if found := re.search(r"http://[0-9.]+:\d+", log.read_text(errors="replace")):
            with suppress(httpx.TransportError):
                if httpx.get(f"{found[0]}/readyz").is_success:
                    return found[0]
        time.sleep(0.1)
    raise SystemExit(f"The server did not start:\n{log.read_text(errors='replace')}")
