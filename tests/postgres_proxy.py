"""Proxies between an engine and its PostgreSQL server: they cut connections at a commit, or list the statements."""

from __future__ import annotations

import re
import socket
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Final, Literal, Self

from psycopg.conninfo import conninfo_to_dict

COMMIT: Final = b"Q\x00\x00\x00\x0bCOMMIT\x00"
"""The message by which an engine asks for a commit; nothing else is sent with it."""
BEGIN: Final = re.compile(rb"(?:Q.{4}|P.{4}\0)BEGIN([^;\0]*)", re.DOTALL)
"""The message with which a transaction begins, and what it says of itself."""
Cut = Literal["before", "sent", "after", "held"]
"""When: before the server gets the commit, once it was sent on, once the server has answered; or before the server
gets it, with the server's side of the connection left open, as where a cable is pulled."""
_SIZE: Final = 65_536
_ENCRYPTION: Final = (80877103, 80877104)
"""Codes of the requests for TLS and GSSAPI."""


class Proxy:
    """A proxy on a port of this machine, in threads of this process, that hands on all that either side sends.

    Attributes:
        open: while it is not set, those who connect have to wait.

    Args:
        dsn: of the server.
    """

    def __init__(self, dsn: str) -> None:
        self._known = {name: str(value) for name, value in conninfo_to_dict(dsn).items() if value is not None}
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._lines: list[_Line] = []
        self._lock = threading.Lock()
        self._is_closed = False
        self.open = threading.Event()
        self.open.set()
        threading.Thread(target=self._listen, daemon=True).start()

    @property
    def dsn(self) -> str:
        """DSN of the database by way of the proxy, as a URL."""
        port = self._listening.getsockname()[1]
        user, database = self._known.get("user", "postgres"), self._known.get("dbname", "postgres")
        return f"postgresql://{user}@127.0.0.1:{port}/{database}"

    def close(self) -> None:
        """End all connections, and take no more."""
        _close(self._listening)
        with self._lock:
            self._is_closed = True
            for line in self._lines:
                line.close()

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
            line = _Line(client, server)
            with self._lock:
                self._lines.append(line)
                if self._is_closed:
                    line.close()
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
        """Hand on what the client says, until either side ends."""
        with suppress(OSError):
            while data := line.client.recv(_SIZE):
                self.sent(line, data)
                line.server.sendall(data)
        line.close()

    def sent(self, line: _Line, data: bytes) -> None:
        """Note what a client sends, before the server gets it."""


class Cutter(Proxy):
    """A proxy that cuts connections at a commit.

    Attributes:
        cuts: how many there were.

    Args:
        dsn: of the server.
        choose: asked at each commit of a transaction that writes; None lets it pass.
    """

    def __init__(self, dsn: str, choose: Callable[[], Cut | None]) -> None:
        super().__init__(dsn)
        self._choose = choose
        self._held: list[socket.socket] = []
        self.cuts = 0

    def release(self) -> None:
        """Close the server's side of the connections that are held: their transactions end."""
        with self._lock:
            held, self._held = self._held, []
        for one in held:
            _close(one)

    def close(self) -> None:
        """End all connections, and take no more."""
        self.release()
        super().close()

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


class Silent(Proxy):
    """A proxy that says nothing more on a connection once a client has named one of some words on it.

    Attributes:
        words: what is not answered any more, such as the setting of a tenant; an empty word stands for everything.
    """

    def __init__(self, dsn: str) -> None:
        super().__init__(dsn)
        self.words: set[bytes] = set()

    def sent(self, line: _Line, data: bytes) -> None:
        """Keep the server from a message with one of the words, and from all that follows on the connection."""
        if any(word in data for word in self.words):
            line.over.wait()
            raise ConnectionAbortedError


class Wire(Proxy):
    """A proxy that lists the statements that clients send: each of a message of several, and each execution."""

    def __init__(self, dsn: str) -> None:
        super().__init__(dsn)
        self.statements: list[str] = []

    def sent(self, line: _Line, data: bytes) -> None:
        """List the statements of the messages that are whole."""
        line.left += data
        while len(line.left) >= 5:
            start = 0 if line.is_new else 1
            (size,) = struct.unpack_from(">i", line.left, start)
            if len(line.left) < start + size:
                return
            kind, body = line.left[:start], bytes(line.left[start + 4 : start + size])
            del line.left[: start + size]
            if line.is_new:  # a request for encryption comes before the message that begins a session
                line.is_new = struct.unpack_from(">i", body)[0] in _ENCRYPTION
            elif kind == b"Q":
                self.statements += [part.strip() for part in body[:-1].decode().split(";")]
            elif kind == b"P":
                name, text = body.split(b"\0")[:2]
                line.prepared[name] = text.decode()
            elif kind == b"B":
                line.bound = line.prepared[body.split(b"\0")[1]]
            elif kind == b"E":
                self.statements.append(line.bound)


class _Line:
    """A connection of a client, and the one to the server that goes with it."""

    def __init__(self, client: socket.socket, server: socket.socket) -> None:
        self.client = client
        self.server = server
        self.swallows = threading.Event()
        self.over = threading.Event()
        self.left = bytearray()
        self.is_new = True
        self.prepared: dict[bytes, str] = {}
        self.bound = ""

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
        self.over.set()
        _close(self.client)
        _close(self.server)


def _close(one: socket.socket) -> None:
    with suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
    one.close()
