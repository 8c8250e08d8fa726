"""A server on loopback that answers POST requests, for doubles of the endpoints of models."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from waiting import PATIENCE


@dataclass(frozen=True)
class Posted:
    """A request: its path, its headers by their names in lower case, and its JSON."""

    path: str
    headers: Mapping[str, str]
    json: Any


@dataclass(frozen=True)
class Reply:
    """A response: its body, which is bytes or becomes JSON, its status, and further headers."""

    body: Any = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


@contextmanager
def answering(answer: Callable[[Posted], Reply | None]) -> Iterator[str]:
    """Yield the host and port of a server that replies what `answer` returns, and nothing before the end for None."""
    over = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            sent = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            reply = answer(Posted(self.path, {name.lower(): value for name, value in self.headers.items()}, sent))
            self.close_connection = True
            if reply is None:
                over.wait(PATIENCE)
                return
            body = reply.body if isinstance(reply.body, bytes) else json.dumps(reply.body).encode()
            self.send_response(reply.status)
            for name, value in {**reply.headers, "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *given: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_port}"
    finally:
        over.set()
        server.shutdown()
        thread.join()
        server.server_close()
