"""The processes of a server: one, or a supervisor with workers that share a socket."""

from __future__ import annotations

import ctypes
import gc
import ipaddress
import multiprocessing
import secrets
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Any, Final

import structlog

from salience import compose
from salience.engine import Engine
from salience.errors import InputError, SalienceError, Words, shown
from salience.models.registry import embedder as named_embedder
from salience.ports import FullEmbedder, Keyring
from salience.rank import profiles
from salience.server import logs, metrics
from salience.server.gate import rate_limiter
from salience.settings import Settings, masked

MAKE_A_KEY: Final = "salience keys create --right read --right write"
BACKLOG: Final = 2048
"""Maximum number of connections in the accept queue."""
SPAWN: Final = multiprocessing.get_context("spawn")
"""Workers start fresh: forking a process with threads is not safe."""
POLL: Final = 0.1
"""Interval of checks for signals, seconds."""
SHORT_LIFE: Final = 1.0
"""Minimum seconds between two starts of a worker that dies repeatedly."""
CLOSE_TIME: Final = 10.0
"""Time for a worker to close its store after its requests, seconds."""
_HEAP: Final = {-8: 2, -3: 4 * 1024 * 1024, -1: 4 * 1024 * 1024}
"""Options of `mallopt`: M_ARENA_MAX, M_MMAP_THRESHOLD and M_TRIM_THRESHOLD, the last two in bytes."""
FAILED: Final = 1
SIGNALLED: Final = 128
"""Exit code of a process that a signal ended at once, minus the number of the signal; as in shells."""
_log: Any = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerConfig:
    """The configuration of a server; picklable, so that workers receive it.

    Attributes:
        settings: from the environment and the command line; `url` names the store.
        embedder: its name; None takes `settings.embedder`.
        profile: of recalls by default: the name of a built-in, or the path of a TOML file.
        one_time_token: begins one session of the dashboard; callers without it need an API key. None: no such session.
        secret: signs the cookies of the dashboard, unless the settings have a secret.
    """

    settings: Settings
    embedder: str | None = None
    profile: str = "salience"
    one_time_token: str | None = field(default=None, repr=False)
    secret: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)

    def cookie_secret(self) -> bytes:
        """Return the secret that signs the cookies of the dashboard; all workers of a server have the same."""
        given = self.settings.ui_secret
        return self.secret if given is None else given.get_secret_value().encode()

    def check(self) -> None:
        """Raise `InputError` for invalid values that show before the store is opened."""
        profiles.load(self.profile)
        rate_limiter(self.settings.server_rate)
        workers = self.settings.server_workers
        if workers > 1 and self.settings.url == compose.MEMORY:
            remedy = f"Use 1 worker with {compose.MEMORY}: each process would have its own memories."
            raise InputError("server_workers", workers, remedy)


def run(config: ServerConfig, ready: Callable[[str], None] = lambda _: None) -> None:
    """Run a server until a signal ends it.

    The store is opened before the port, so that a broken store fails the start. `ready` is called with the URL as soon
    as the port is open, if the server has one process.

    Raises:
        InputError: a value is not acceptable.
        SalienceError: the store cannot be opened, or the port is in use.
    """
    config.check()
    logs.configure(config.settings.log_level)
    settings = config.settings
    if settings.server_workers > 1:
        with open_store(config) as (_, keyring):
            is_open = settings.oauth_issuer is None and keyring.is_empty()
        with bind(settings.server_host, settings.server_port) as listening, metrics.shared_directory():
            _announce(settings, listening, is_open)
            Supervisor(config, listening).run()
        gc.freeze()  # as `exit_if_stuck` does
    else:
        return_freed_memory()
        from salience.server.app import build_app  # only a process that serves loads the web libraries
        from salience.server.server import exit_if_stuck, serve

        with build_app(config) as app, bind(settings.server_host, settings.server_port) as listening:
            _announce(settings, listening, app.is_open())
            ready(url_of(listening))
            serve(app, listening, settings.server_shutdown)
        exit_if_stuck()
    _log.info("ended")


def _announce(settings: Settings, listening: socket.socket, is_open: bool) -> None:
    url = url_of(listening)
    _log.info("serving", url=url, mcp=f"{url}/mcp", store=masked(settings.url), workers=settings.server_workers)
    if is_open:
        remedy = f"Create one: {MAKE_A_KEY}"
        _log.warning("no API key exists: everyone on this machine can read and write", remedy=remedy)


@dataclass(slots=True)
class _Worker:
    process: SpawnProcess
    started: float
    is_first: bool
    """Whether it replaces no other worker."""


class Supervisor:
    """Starts the workers, replaces dead ones, and ends them.

    Closes the socket when the shutdown begins, so that new connections fail at once.
    """

    def __init__(self, config: ServerConfig, listening: socket.socket) -> None:
        self._config = config
        self._listening = listening
        self._signals: list[int] = []
        self._reader, self._writer = SPAWN.Pipe(duplex=False)  # the kernel closes the writer if this process dies
        self._workers: list[_Worker] = []

    def run(self) -> None:
        """Serve until a signal, then let the workers finish; a second signal kills them.

        Raises:
            SalienceError: one of the first workers cannot serve. Its replacements are restarted instead.
        """

        def record(number: int, _: object) -> None:
            self._signals.append(number)

        before = {number: signal.signal(number, record) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            self._workers = [self._start(is_first=True) for _ in range(self._config.settings.server_workers)]
            while not self._signals:
                wait([worker.process.sentinel for worker in self._workers], POLL)
                self._workers = [self._alive(worker) for worker in self._workers]
            self._listening.close()
            self._end()
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _start(self, *, is_first: bool = False) -> _Worker:
        args = (self._config, self._listening, self._reader)
        process = SPAWN.Process(target=work, args=args, name="salience-worker")
        process.start()
        return _Worker(process, time.monotonic(), is_first)

    def _alive(self, worker: _Worker) -> _Worker:
        """Return the worker, or its replacement if it died."""
        if worker.process.is_alive():
            return worker
        if worker.is_first and worker.process.exitcode == FAILED:
            self._end()
            raise SalienceError("server: a worker cannot serve. See the log line above.")
        if time.monotonic() - worker.started < SHORT_LIFE:
            time.sleep(POLL)  # `wait` returns at once for a dead worker
            return worker
        _log.error("a worker died and is replaced", pid=worker.process.pid, code=worker.process.exitcode)
        metrics.forget_process(worker.process.pid or 0)
        return self._start()

    def _end(self) -> None:
        deadline = time.monotonic() + self._config.settings.server_shutdown + CLOSE_TIME
        for worker in self._workers:
            worker.process.terminate()
        while any(worker.process.is_alive() for worker in self._workers):
            if len(self._signals) > 1 or time.monotonic() > deadline:
                for worker in self._workers:
                    worker.process.kill()
            time.sleep(POLL)
        if len(self._signals) > 1:
            sys.exit(SIGNALLED + self._signals[1])


def work(config: ServerConfig, listening: socket.socket, supervisor: Connection) -> None:
    """Serve as a worker until a signal, or until the supervisor dies, which closes its end of the pipe."""
    return_freed_memory()
    logs.configure(config.settings.log_level)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    from salience.server.app import build_app
    from salience.server.server import exit_if_stuck, serve

    try:
        with build_app(config) as app:
            serve(app, listening, config.settings.server_shutdown, supervisor)
    except SalienceError as error:
        _log.error("a worker cannot serve", detail=str(error))
        sys.exit(FAILED)
    exit_if_stuck()


def return_freed_memory() -> None:
    """Make glibc give freed memory back to the system; no other C library needs it.

    By default, each thread frees into a heap of its own, and a large block that was freed once keeps later ones there.
    """
    with suppress(AttributeError, OSError, TypeError):
        set_option = ctypes.CDLL(None).mallopt
        for option, value in _HEAP.items():
            set_option(option, value)


@contextmanager
def open_store(
    config: ServerConfig, wrap: Callable[[FullEmbedder], FullEmbedder] = lambda embedder: embedder
) -> Iterator[tuple[Engine, Keyring]]:
    """Yield the engine and the keys of a server, and close both.

    `wrap` wraps the embedder, below the query cache.

    Raises:
        InputError: other machines can reach the server, but no key exists; or as `salience.connect`.
        StoreError: the store cannot be opened.
    """
    settings = config.settings
    bare = named_embedder(config.embedder, settings.model_copy(update={"embedder_cache": 0}))
    engine = compose.engine(settings, settings.url, embedder=wrap(bare), profile=config.profile, wrap=wrap)
    with closing(engine), closing(compose.keyring(settings.url)) as keyring:
        field = exposing_setting(settings)
        if field is not None and settings.oauth_issuer is None and keyring.is_empty():
            value, cause = getattr(settings, field), "No API key exists, so everyone could read and write"
            remedy = f"{cause}. Create one: {MAKE_A_KEY}; or serve 127.0.0.1."
            raise InputError(field, value, remedy, f"{shown(value)} lets other machines reach the server")
        yield engine, keyring


def exposing_setting(settings: Settings) -> str | None:
    """Return the setting that lets other machines reach the server; None if only this machine can.

    A server with other host names is assumed to be behind a proxy. Raises `InputError` if the host does not exist.
    """
    if not is_loopback(settings.server_host):
        return "server_host"
    return "server_hosts" if settings.server_hosts else None


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach a server at a host; raises `InputError` if the host does not exist."""
    return all(ipaddress.ip_address(str(address[0]).partition("%")[0]).is_loopback for _, address in _addresses(host))


def bind(host: str, port: int) -> socket.socket:
    """Return a socket that listens on the first address of a host.

    Raises `InputError` if the host does not exist, `SalienceError` if the port is in use or not allowed.
    """
    family, address = _addresses(host, port)[0]
    both = family == socket.AF_INET6 and address[0] == "::" and socket.has_dualstack_ipv6()
    try:
        listening = socket.create_server(address[:2], family=family, backlog=BACKLOG, dualstack_ipv6=both)
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # asyncio sets it only on its own sockets
        return listening
    except OSError as error:
        reason = (error.strerror or type(error).__name__).partition(" (")[0]
        raise SalienceError(
            f"server_port: cannot listen on port {port} of {host} ({reason}). Stop the process that uses it, or choose "
            "another port: salience serve --port 0 takes a free one."
        ) from None


def url_of(listening: socket.socket) -> str:
    """Return the URL of a socket."""
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _addresses(host: str, port: int = 0) -> list[tuple[socket.AddressFamily, tuple[str, int]]]:
    """Return the addresses of a host, IPv4 first."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError):
        remedy = "Give a name or an address of this machine."
        raise InputError("server_host", Words(repr(host)), remedy, f"{shown(host)} is not a host") from None
    found.sort(key=lambda one: one[0] != socket.AF_INET)
    return [(family, (str(address[0]), port)) for family, *_, address in found]
