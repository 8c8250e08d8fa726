"""A proxy between an engine and its PostgreSQL server that cuts connections at a commit."""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Final, Literal, Self

from psycopg.conninfo import conninfo_to_dict

COMMIT: Final = b"Q\x00\x00\x00\x0bCOMMIT\x00"
"""The message by which an engine asks for a commit; nothing else is sent with it."""
BEGIN: Final = re.compile(rb"Q.{4}BEGIN([^;\0]*)", re.DOTALL)
"""The message with which a transaction begins, and what it says of itself."""
Cut = Literal["before", "sent", "after", "held"]
"""When: before the server gets the commit, once it was sent on, once the server has answered; or before the server
gets it, with the server's side of the connection left open, as where a cable is pulled."""
_SIZE: Final = 65_536


class Cutter:
    """A proxy on a port of this machine, in threads of this process.

    Attributes:
        cuts: how many there were.
        open: while it is not set, those who connect have to wait.

    Args:
        dsn: of the server.
        choose: asked at each commit of a transaction that writes; None lets it pass.
    """

    def __init__(self, dsn: str, choose: Callable[[], Cut | None]) -> None:
        self._known = {name: str(value) for name, value in conninfo_to_dict(dsn).items() if value is not None}
        self._choose = choose
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._sockets: list[socket.socket] = []
        self._held: list[socket.socket] = []
        self._lock = threading.Lock()
        self.cuts = 0
        self.open = threading.Event()
        self.open.set()
        threading.Thread(target=self._listen, daemon=True).start()

    @property
    def dsn(self) -> str:
        """DSN of the database by way of the proxy, as a URL."""
        port = self._listening.getsockname()[1]
        user, database = self._known.get("user", "postgres"), self._known.get("dbname", "postgres")
        return f"postgresql://{user}@127.0.0.1:{port}/{database}"

    def release(self) -> None:
        """Close the server's side of the connections that are held: their transactions end."""
        with self._lock:
            held, self._held = self._held, []
        for one in held:
            _close(one)

    def close(self) -> None:
        """End all connections, and take no more."""
        _close(self._listening)
        self.release()
        with self._lock:
            for one in self._sockets:
                _close(one)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _listen(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            self.open.wait()
            try:
                server = self._upstream()
            except OSError:
                _close(client)
                continue
            with self._lock:
                self._sockets += [client, server]
            line = _Line(client, server)
            threading.Thread(target=self._up, args=(line,), daemon=True).start()
            threading.Thread(target=line.down, daemon=True).start()

    def _upstream(self) -> socket.socket:
        host, port = self._known.get("host", "127.0.0.1"), self._known.get("port", "5432")
        if not host.startswith("/"):
            return socket.create_connection((host, int(port)))
        made = socket.socket(socket.AF_UNIX)
        try:
            made.connect(f"{host}/.s.PGSQL.{port}")
        except OSError:
            made.close()
            raise
        return made

    def _up(self, line: _Line) -> None:
        with suppress(OSError):
            writes = False
            while data := line.client.recv(_SIZE):
                if begun := BEGIN.match(data):
                    writes = b"READ ONLY" not in begun[1]
                cut = self._choose() if writes and data == COMMIT else None
                if cut is not None:
                    self._cut(line, cut)
                    return
                line.server.sendall(data)
        line.close()

    def _cut(self, line: _Line, cut: Cut) -> None:
        self.cuts += 1
        if cut == "after":
            line.swallows.set()
            line.server.sendall(COMMIT)
            return  # the other thread closes both, once the server has answered
        if cut == "sent":
            line.swallows.set()  # an answer that comes before the cut is not handed on
            line.server.sendall(COMMIT)
        if cut == "held":
            line.swallows.set()
            with self._lock:
                self._held.append(line.server)
            _close(line.client)
            return
        line.close()


class _Line:
    """A connection of a client, and the one to the server that goes with it."""

    def __init__(self, client: socket.socket, server: socket.socket) -> None:
        self.client = client
        self.server = server
        self.swallows = threading.Event()

    def down(self) -> None:
        """Hand on what the server says, until the line is cut."""
        with suppress(OSError):
            while data := self.server.recv(_SIZE):
                if self.swallows.is_set():
                    break
                self.client.sendall(data)
        self.close()

    def close(self) -> None:
        """Close both ends."""
        _close(self.client)
        _close(self.server)


def _close(one: socket.socket) -> None:
    with suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
    one.close()
