"""How a target becomes a client: URLs, keys, settings, coroutines, the command line; and a server that is no good."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial

import anyio
import pytest

import salience
import servers
from command_line import invoke
from salience import AccessError, ForbiddenError, InputError, ServerError, UnsettledError, compose
from salience.async_engine import AsyncEngine
from salience.client import AsyncClient, Client, Endpoint
from salience.server import auth as access
from tests.contract.doubles import PlantedEmbedder, StoppedClock
from waiting import PATIENCE

pytestmark = pytest.mark.slow

KEY = "sal_0123456789ab_secret"


@pytest.mark.parametrize(
    "url",
    [
        "https://",
        "https://user:s3cret@host",
        "https://host?api_key=s3cret",
        "https://host/#s3cret",
        "https://[",
        "https://ho st",
    ],
)
def test_invalid_server_urls_are_refused(url):
    with pytest.raises(InputError, match=r"^target is not the URL of a server") as caught:
        salience.connect(url)
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize("host", ["example.org", "10.0.0.1", "localhost.example.org", "[2001:db8::1]"])
def test_http_to_other_machines_needs_a_setting(host, monkeypatch):
    with pytest.raises(InputError, match=r"Use https\. .* SALIENCE_CLIENT_ALLOW_HTTP=true"):
        salience.connect(f"http://{host}", api_key=KEY)
    monkeypatch.setenv("SALIENCE_CLIENT_ALLOW_HTTP", "true")
    salience.connect(f"http://{host}", api_key=KEY).close()


@pytest.mark.parametrize("host", ["127.0.0.1:1", "localhost", "[::1]", "a.localhost"])
def test_http_to_loopback_is_accepted(host):
    assert Endpoint.parse(f"http://{host}").url.host


@pytest.mark.parametrize("key", ["", " ", "two words", "clé", "line\nbreak"])
def test_invalid_keys_are_refused_and_not_shown(key):
    with pytest.raises(InputError, match=r"^api_key is not a key\. "):
        salience.connect("https://host", api_key=key)


def test_the_key_is_not_in_the_repr():
    with salience.connect("https://host/path/", api_key=KEY) as memory:
        assert repr(memory) == "Client('https://host/path/')"
        assert "secret" not in repr(memory.endpoint)


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"embedder": "static"}, "embedder"),
        ({"embedder": PlantedEmbedder()}, "embedder"),
        ({"clock": StoppedClock()}, "clock"),
        ({"reranker": "fastembed"}, "reranker"),
        ({"summariser": "openai"}, "summariser"),
    ],
)
def test_models_and_clock_are_refused_for_a_server(options, field):
    with pytest.raises(InputError, match=rf"^{field} is not for a server\. Leave it out: a server has its own."):
        salience.connect("https://host", **options)


def test_server_and_key_can_come_from_settings(monkeypatch):
    monkeypatch.setenv("SALIENCE_URL", "HTTPS://memory.example.org/salience")
    monkeypatch.setenv("SALIENCE_API_KEY", KEY)
    monkeypatch.setenv("SALIENCE_CLIENT_TIMEOUT", "7")
    with salience.connect() as memory:
        assert isinstance(memory, Client)
        assert str(memory.endpoint.url) == "https://memory.example.org/salience/"
        assert memory.endpoint.api_key == KEY
    with salience.connect(":memory:", embedder=PlantedEmbedder()) as memory:  # to which the key says nothing
        assert memory.stats().memories == 0


@contextmanager
def locked(engine) -> Iterator[tuple[str, str, str]]:
    """Yield the URL of a server, a key that reads and writes, and one that reads."""
    keyring, now = compose.keyring(":memory:"), engine.services.clock()
    tokens = []
    for rights in (("read", "write"), ("read",)):
        token, key = access.create_key("default", rights, {}, None, None, now)
        keyring.add(key)
        tokens.append(token)
    with closing(keyring), servers.live(engine, keyring) as url:
        yield url, *tokens


def test_keys_are_required_and_checked(engine):
    with locked(engine) as (url, whole, reading):
        with salience.connect(url, api_key=whole) as memory:
            assert memory.remember("text", user_id="keyed").status == "created"
        with salience.connect(url, api_key=reading) as memory, pytest.raises(ForbiddenError, match="'write'"):
            memory.remember("text", user_id="keyed")
        for key in (None, whole[:-1] + "x"):
            with (
                salience.connect(url, api_key=key) as memory,
                pytest.raises(AccessError, match="Missing or invalid API key"),
            ):
                memory.recall("query")


def test_coroutines_of_every_target(url, where):
    async def go() -> None:
        options = {"embedder": PlantedEmbedder(), "profile": "cmm"}
        for target, more, kind in ((":memory:", options, AsyncEngine), (url, {"profile": "cmm"}, AsyncClient)):
            async with salience.aconnect(target, **more) as memory:
                assert isinstance(memory, kind)
                async with anyio.create_task_group() as tasks:
                    for number in range(8):
                        tasks.start_soon(partial(memory.remember, f"text {number}", **where))
                assert (await memory.stats(**where)).memories == 8
                assert (await memory.recall("query", **where)).profile == "cmm"
            memory = await salience.aconnect(target, **more)
            await memory.close()

    anyio.run(go)


def test_opening_errors_are_raised_on_await():
    async def go() -> None:
        with pytest.raises(InputError, match=r"^embedder 'best' is unknown"):
            await salience.aconnect(":memory:", embedder="best")

    anyio.run(go)


def test_a_cancelled_write_is_completed(where):
    class Slow(PlantedEmbedder):
        begun, go_on = threading.Event(), threading.Event()

        def embed(self, texts, /):
            self.begun.set()
            assert self.go_on.wait(PATIENCE)
            return super().embed(texts)

    async def go() -> None:
        embedder = Slow()
        async with salience.aconnect(":memory:", embedder=embedder) as memory:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(partial(memory.remember, "text", **where))
                await anyio.to_thread.run_sync(embedder.begun.wait)
                tasks.cancel_scope.cancel()
                embedder.go_on.set()
            assert (await memory.stats(**where)).memories == 1

    anyio.run(go)


@contextmanager
def speaking(answer: bytes, then: threading.Event | None = None) -> Iterator[str]:
    """Yield the URL of a server that says `answer` to every request, waits for `then`, and hangs up."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            while True:
                try:
                    connection, _ = listening.accept()
                except OSError:
                    return
                with connection:
                    while b"\r\n\r\n" not in connection.recv(65_536):
                        pass
                    connection.sendall(answer)
                    if then is not None:
                        then.wait(PATIENCE)

        threading.Thread(target=serve, daemon=True).start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        listening.shutdown(socket.SHUT_RDWR)


HALF = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{"


@pytest.mark.parametrize("answer", [b"", b"SSH-2.0-OpenSSH\r\n\r\n", HALF])
def test_a_server_that_hangs_up_is_an_error(answer, monkeypatch, tmp_path):
    monkeypatch.setenv("SALIENCE_CLIENT_RETRIES", "0")
    with speaking(answer) as url, salience.connect(url) as memory:
        with pytest.raises(ServerError, match="did not answer"):
            memory.stats()
        with pytest.raises(ServerError, match="did not answer"):
            memory.export(tmp_path / "export.ndjson")
        with pytest.raises(UnsettledError):
            memory.remember("text")
    assert list(tmp_path.iterdir()) == []


def test_a_silent_server_times_out(monkeypatch):
    monkeypatch.setenv("SALIENCE_CLIENT_RETRIES", "0")
    monkeypatch.setenv("SALIENCE_CLIENT_TIMEOUT", "0.05")
    end = threading.Event()
    with speaking(HALF, end) as url, salience.connect(url) as memory:
        with pytest.raises(ServerError, match=r"did not answer \(ReadTimeout\)"):
            memory.recall("query")
        end.set()


@pytest.fixture
def command(url, where):
    """Return a function from arguments to the result of the command line against a server."""

    def run(*args: str, code: int = 0):
        result = invoke(["--store", url, *args])
        assert result.exit_code == code, result.output
        return result.output

    return run


def test_the_command_line_works_on_a_server(command, where, tmp_path):
    mine = ("--user", where["user_id"])
    command("remember", "text", *mine)
    assert "text" in command("recall", "query", *mine)
    assert "text" in command("list", *mine)
    assert "text" in command("context", "query", *mine)
    command("export", str(tmp_path / "export.ndjson"), *mine)
    assert "1 already there" in command("import", str(tmp_path / "export.ndjson"))
    assert "embedded" in command("upkeep")


@pytest.mark.parametrize(
    "args",
    [("doctor",), ("backup", "file.db"), ("reinstate", "file.db"), ("reembed",), ("db", "status"), ("keys", "list"),
     ("upkeep", "--every", "1h")],
)  # fmt: skip
def test_local_commands_are_refused_for_a_server(command, args):
    assert "Do this where the server's store is" in command(*args, code=2)
