"""A double of an endpoint that speaks OpenAI's chat protocol, on loopback, for tests of language models."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, Self

from posts import Posted, Reply, answering


def completion(content: object, model: str = "model-x") -> dict[str, Any]:
    """Return an answer in OpenAI's chat protocol: text, or what becomes JSON."""
    message = {"role": "assistant", "content": content if isinstance(content, str) else json.dumps(content)}
    choices = [{"index": 0, "finish_reason": "stop", "message": message}]
    return {"id": "1", "object": "chat.completion", "created": 0, "model": model, "choices": choices}


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
        self._stack = ExitStack()
        self._host = ""

    @property
    def url(self) -> str:
        """Its base URL."""
        return f"http://{self._host}/v1"

    def reply(self, posted: Posted) -> Reply | None:
        """Return the reply to a request; None while it hangs."""
        request = posted.json
        self.requests.append(request["messages"])
        told, asked = (request["messages"][place]["content"] for place in (0, -1))
        try:
            question = json.loads(asked)
        except ValueError:  # a conversation
            question = asked
        self.told.append(told)
        self.questions.append(question)
        if self.hangs:
            return None
        body = completion(self.answer(question), request["model"])
        return Reply(body, self.status, {"Content-Type": "application/json"})

    def __enter__(self) -> Self:
        """Start to answer."""
        self._host = self._stack.enter_context(answering(self.reply))
        return self

    def __exit__(self, *error: object) -> None:
        """Let go of those that wait, and end."""
        self._stack.close()
