"""A throw-away PostgreSQL server with pgvector, for tests and for measuring: a real one, on a socket of its own.

```python
with server() as running, fresh(running) as dsn:
    memory = salience.connect(dsn)
```

It listens on a Unix socket in a folder that only its own account can enter, since it asks nobody for a password. It
is gone when the process that started it has ended, in whatever way. Tests have it from the fixtures of
`salience.testing.postgres_fixtures`.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from tempfile import gettempdir, mkdtemp
from types import MappingProxyType, TracebackType
from typing import TYPE_CHECKING, Final, Self
from urllib.parse import quote, urlsplit
from uuid import uuid4

from salience.errors import InputError, StoreError
from salience.testing.postgres_programs import Account, account, finish, owned, programs, run, writable
from salience.testing.postgres_watchdog import Watchdog

if TYPE_CHECKING:
    import psutil

SUPERUSER: Final = "postgres"
PORT: Final = 5432
"""Part of the socket's name; no port of the machine is taken."""

LONGEST: Final = 60
"""Longest path of the folder for passing files, characters: a socket's own must stay below about 100."""

CLUSTER: Final = ("--username", SUPERUSER, "--auth=trust", "--encoding=UTF8", "--no-locale", "--no-sync")
"""How a cluster is made: text in the same order on every machine; not synced, since it holds nothing yet."""

LOCALE: Final = MappingProxyType({18: ("--locale-provider=builtin", "--builtin-locale=C.UTF-8")})
"""By version: upper and lower case of all letters, where PostgreSQL knows them without the machine's locales."""

QUIT_PATIENCE: Final = 10.0
"""Seconds that a server has to end when it is told to do so at once."""

TAIL: Final = 2000
"""Characters of the log that an error shows."""

Value = str | int | float | bool
"""Of a setting of PostgreSQL."""


@dataclass(frozen=True)
class Elsewhere:
    """A server that somebody else runs.

    Attributes:
        url: DSN of a superuser there.
    """

    url: str

    def dsn(self, database: str = "postgres", user: str | None = None, password: str | None = None) -> str:
        """Return the DSN of a database there; without a user, for the one of `url`.

        Raises:
            InputError: `url` is no DSN in the form of a URL.
        """
        parts = urlsplit(self.url)
        if parts.scheme not in ("postgresql", "postgres"):
            remedy = "Give a URL such as postgresql://postgres@127.0.0.1:5432/postgres."
            raise InputError("SALIENCE_TEST_POSTGRES", "***", remedy)
        place = parts.netloc.rpartition("@")[2]
        netloc = parts.netloc if user is None else f"{_credentials(user, password)}@{place}"
        return parts._replace(netloc=netloc, path=f"/{quote(database, safe='')}").geturl()


class Server:
    """A server of our own, as `server` makes it.

    Attributes:
        folder: where its data and its log are.
    """

    def __init__(self, folder: Path | None, version: int, settings: Mapping[str, Value], patience: float) -> None:
        self._version = version
        self._settings = {"listen_addresses": "", "port": PORT, **settings}
        self._patience = patience
        self._owner = account()
        self._process: subprocess.Popen[bytes] | None = None
        self._crashed = False
        self._scratch = _scratch(self._owner)
        self._watchdog = Watchdog(self._scratch, self._owner)
        self.folder = self._scratch if folder is None else folder.absolute()

    @property
    def pid(self) -> int | None:
        """Number of its first process, which PostgreSQL calls the postmaster; None: it does not run."""
        return None if self._process is None or self._process.poll() is not None else self._process.pid

    @property
    def log(self) -> Path:
        """The file of its log."""
        return self.folder / "log"

    def dsn(self, database: str = "postgres", user: str = SUPERUSER, password: str | None = None) -> str:
        """Return the DSN of a database; every user that exists is let in, whatever the password."""
        socket = f"host={quote(str(self._scratch), safe='')}&port={self._settings['port']}"
        return f"postgresql://{_credentials(user, password)}@/{quote(database, safe='')}?{socket}"

    def start(self) -> None:
        """Start it, after a `stop` or a `kill` too, and return once it takes connections; nothing where it runs.

        Raises:
            InputError: the folder is closed to the account that runs the server.
            StoreError: it did not start; with the end of its log.
        """
        if self.pid is not None:
            return
        data = self._data()
        options = {**self._settings, "unix_socket_directories": str(self._scratch)}
        command = [str(self._programs / "postgres"), "-D", str(data)]
        command += [text for name, value in options.items() for text in ("-c", f"{name}={_worded(value)}")]
        with self.log.open("ab") as log:
            began = log.tell()
            self._process = run(command, self._owner, stdin=subprocess.DEVNULL, output=log)
        self._watchdog.watch(self._process.pid)
        self._wait_until_ready(self._process, data, began)
        self._crashed = False

    def stop(self) -> None:
        """End its connections and stop it; nothing where it does not run."""
        if self.pid is not None:
            self._end(signal.SIGINT)

    def kill(self) -> None:
        """Kill it (`kill -9`), the first process and then all others: gone on return; nothing where it does not run."""
        import psutil

        if self.pid is None:
            return
        first = psutil.Process(self.pid)
        first.suspend()  # it starts no other from here on
        others = first.children(recursive=True)
        self._crashed = True
        self._end(signal.SIGKILL)
        for other in others:
            with suppress(psutil.NoSuchProcess):
                other.kill()
        for other in others:
            wait_until_gone(other)

    def close(self) -> None:
        """Stop it for good, and remove its folder unless that was given."""
        if self._crashed:
            with suppress(StoreError):  # only its next start gives back the shared memory of a server that was killed
                self.start()
        self.stop()
        self._watchdog.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    @cached_property
    def _programs(self) -> Path:
        return programs(self._version, self._owner, self._scratch)

    def _data(self) -> Path:
        """Return the folder of the cluster, made where there is none; under another name until it is whole."""
        data, making = self.folder / "data", self.folder / "making"
        if data.exists():
            return data
        if not self.folder.exists():
            self.folder.mkdir(parents=True)
            owned(self.folder, self._owner)
        shutil.rmtree(making, ignore_errors=True)
        making.mkdir(mode=0o700)
        if not writable(owned(making, self._owner), self._owner):
            raise InputError("folder", str(self.folder), "Give one that user 'nobody' can reach, or none.")
        finish(
            [str(self._programs / "initdb"), "-D", str(making), *CLUSTER, *LOCALE.get(self._version, ())], self._owner
        )
        return making.rename(data)

    def _wait_until_ready(self, process: subprocess.Popen[bytes], data: Path, began: int) -> None:
        late = time.monotonic() + self._patience
        while not _ready(process.pid, data):
            if process.poll() is not None:
                self._watchdog.watch(None)
                raise StoreError(f"PostgreSQL did not start. The end of {self.log}:\n{_tail(self.log, began)}")
            if time.monotonic() > late:
                self._end(signal.SIGQUIT)
                raise StoreError(f"PostgreSQL took longer than {self._patience} s to start. Give a longer `patience`.")
            time.sleep(0.01)

    def _end(self, how: signal.Signals) -> None:
        """End the first process, which ends the others unless it is killed; at once where it takes too long."""
        assert self._process is not None
        harder = ((how, self._patience), (signal.SIGQUIT, QUIT_PATIENCE), (signal.SIGKILL, None))
        for one, patience in harder:  # one that has only begun may not hear the first
            self._process.send_signal(one)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(patience)
                break
        self._watchdog.watch(None)


def server(
    folder: Path | None = None,
    *,
    version: int = 18,
    settings: Mapping[str, Value] = MappingProxyType({}),
    patience: float = 300.0,
) -> Server:
    """Return a running server; leave its context, or `close` it, to stop it.

    Args:
        folder: for its data and its log; a cluster that is there is used again. None: a new one, removed in the end.
            Where we are root the server runs as `nobody`, who must be able to reach the folder.
        version: of PostgreSQL, major: 16 or 18.
        settings: of PostgreSQL, by name. All others are its own; `fsync` is on.
        patience: longest that it may take to start or to stop, seconds; after a kill there is work to be done again.

    Raises:
        InputError: no such version, or a folder that the server cannot use.
        StoreError: it cannot be started.
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
    """Yield the DSN of a new database, a copy of `template`; it is dropped afterwards, whoever is still connected."""
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


def wait_until_gone(process: psutil.Process) -> None:
    """Wait until the process has ended; one that nobody has collected yet counts as ended."""
    import psutil

    with suppress(psutil.NoSuchProcess):
        while process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
            time.sleep(0.005)


def _scratch(owner: Account) -> Path:
    """Make a folder for what is passing: the socket, and all else where no folder is given."""
    for place in (gettempdir(), "/tmp"):  # noqa: S108
        if len(place) <= LONGEST and writable(Path(place), owner):
            return owned(Path(mkdtemp(prefix="salience-pg-", dir=place)), owner)
    raise StoreError(f"PostgreSQL: {gettempdir()} is closed to it, or too long. Set TMPDIR to another folder.")


def _credentials(user: str, password: str | None) -> str:
    return quote(user, safe="") + ("" if password is None else f":{quote(password, safe='')}")


def _worded(value: Value) -> str:
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else str(value)


def _ready(pid: int, data: Path) -> bool:
    """Read the file in which the server tells how far it is: its number first, its state in the eighth line."""
    with suppress(FileNotFoundError):
        lines = (data / "postmaster.pid").read_text().splitlines()
        return lines[:1] == [str(pid)] and [line.strip() for line in lines[7:8]] == ["ready"]
    return False


def _tail(log: Path, began: int) -> str:
    with log.open("rb") as file:
        file.seek(began)  # what came before may show statements, and what is in them
        return file.read().decode(errors="replace")[-TAIL:]
