"""What sees to it that a server of ours, and its folder, are gone once the process that started it has ended."""

from __future__ import annotations

import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Final

from salience.testing.postgres_programs import Account, run

SCRIPT: Final = """
runs() {
    kill -0 "$1" 2>/dev/null || return 1
    case "$(cat "/proc/$1/stat" 2>/dev/null)" in *") Z "*) return 1 ;; esac
}
server=
while read -r line; do server=$line; done
if [ -n "$server" ]; then
    kill -QUIT "$server" 2>/dev/null
    left=300
    while [ "$left" -gt 0 ] && runs "$server"; do left=$((left - 1)); sleep 0.05; done
fi
rm -rf -- "$@"
"""
"""Reads the number of the server's process, an empty line for none. When the pipe ends, stops it, removes a folder.

The pipe ends when the process at its other end does, killed or not: no signal, `atexit` or sweep is needed. A process
that has ended, and that nobody has collected yet (`Z`), runs no more.
"""


class Watchdog:
    """A small shell beside the server, in a session of its own, where Ctrl-C does not reach it."""

    def __init__(self, folder: Path, owner: Account) -> None:
        command = ["/bin/sh", "-c", SCRIPT, "watchdog", str(folder)]
        self._process = run(command, owner, stdin=subprocess.PIPE, output=subprocess.DEVNULL)

    @property
    def pid(self) -> int:
        """Number of its process."""
        return self._process.pid

    def watch(self, pid: int | None) -> None:
        """Have it watch the process of that number; None: no process."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{'' if pid is None else pid}\n".encode())

    def close(self) -> None:
        """Let it stop what it watches, and remove the folder; gone on return."""
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.wait()
