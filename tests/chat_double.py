"""A double of an endpoint that speaks OpenAI's chat protocol, on loopback, for tests of language models."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

from waiting import PATIENCE

Question = Any
"""A list of records, or a text."""


class ChatDouble:
    """A server that answers each question, a JSON list or text, with what `answer` returns: text, or what becomes JSON.

    Attributes:
        answer: from a question to its answer.
        status: of the replies.
        hangs: whether it gives none.
        questions: what it was asked, in order.
        told: the system's message of each, in order.
        requests: all messages of each, in order.
    """

    def __init__(self, answer: Callable[[Question], object] = lambda _: {}) -> None:
        self.answer = answer
        self.status = 200
        self.hangs = False
        self.questions: list[Question] = []
        self.told: list[str] = []
        self.requests: list[list[dict[str, str]]] = []
        self._over = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})

    @property
    def url(self) -> str:
        """Its base URL."""
        return f"http://127.0.0.1:{self._server.server_port}/v1"

    def reply(self, request: dict[str, Any]) -> bytes | None:
        """Return the body of the reply to a request; None for none, once all is over."""
        self.requests.append(request["messages"])
        told, asked = (request["messages"][place]["content"] for place in (0, -1))
        try:
            question = json.loads(asked)
        except ValueError:  # a conversation
            question = asked
        self.told.append(told)
        self.questions.append(question)
        if self.hangs:
            self._over.wait(PATIENCE)
            return None
        answer = self.answer(question)
        message = {"role": "assistant", "content": answer if isinstance(answer, str) else json.dumps(answer)}
        choices = [{"index": 0, "finish_reason": "stop", "message": message}]
        body = {"id": "1", "object": "chat.completion", "created": 0, "model": request["model"], "choices": choices}
        return json.dumps(body).encode()

    def __enter__(self) -> Self:
        """Start to answer."""
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Let go of those that wait, and end."""
        self._over.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def _handler(double: ChatDouble) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = double.reply(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.close_connection = True
            if body is not None:
                self.send_response(double.status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        def log_message(self, format: str, *given: object) -> None:
            pass

    return Handler
