"""Answers that go on end with the server; all others are left to end by themselves."""

from __future__ import annotations

import anyio
import pytest

from salience.server.server import Streams

pytestmark = pytest.mark.slow


class Answering:
    """An application that begins an answer of some media type, and goes on until it is let go."""

    def __init__(self, kind):
        self.kind = kind
        self.begun = anyio.Event()
        self.go = anyio.Event()

    async def __call__(self, scope, receive, send):
        headers = [(b"content-type", self.kind)]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        self.begun.set()
        await self.go.wait()
        await send({"type": "http.response.body", "body": b"all", "more_body": False})


def answered(kind, act):
    """Return the messages of an answer; `act` is called with the streams and the application once it has begun."""

    async def run():
        messages, application = [], Answering(kind)
        streams = Streams(application)

        async def send(message):
            messages.append(message)

        with anyio.fail_after(30):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(streams, {"type": "http", "method": "POST"}, None, send)
                await application.begun.wait()
                act(streams, application)
        return messages

    return anyio.run(run)


def ended(streams, application):
    streams.end()


def ended_and_let_go(streams, application):
    streams.end()
    application.go.set()


def test_a_stream_of_events_ends_as_a_whole():
    assert answered(b"text/event-stream; charset=utf-8", ended)[1:] == [
        {"type": "http.response.body", "body": b"", "more_body": False}
    ]


def test_lines_are_cut_off_so_that_nobody_takes_them_for_all():
    assert len(answered(b"application/x-ndjson", ended)) == 1


@pytest.mark.parametrize("kind", [b"application/json", b"text/plain"])
def test_what_ends_by_itself_is_let(kind):
    assert answered(kind, ended_and_let_go)[1]["body"] == b"all"


def test_a_stream_that_begins_after_the_end_ends_at_once():
    async def run():
        messages, streams = [], Streams(Answering(b"text/event-stream"))

        async def send(message):
            messages.append(message)

        streams.end()
        with anyio.fail_after(30):
            await streams({"type": "http", "method": "GET"}, None, send)
        return messages

    assert anyio.run(run)[-1]["more_body"] is False
