"""What is wrong is told before a port is taken: by an error, and with what to do."""

from __future__ import annotations

import socket
from datetime import UTC, datetime

import pytest

import salience
from command_line import invoke
from salience import compose
from salience.errors import EmbedderError, InputError
from salience.models import registry
from salience.server import process
from salience.server.auth import create_key
from salience.server.process import bind, is_loopback, url_of
from tests.contract.doubles import PlantedEmbedder

pytestmark = pytest.mark.slow


@pytest.fixture
def refused(monkeypatch, tmp_path):
    """Return a function from arguments of the command to its code and what it says; it must not come to bind a port."""

    def not_yet(*_):
        raise AssertionError("a port was taken")

    monkeypatch.setattr(process, "bind", not_yet)
    monkeypatch.setitem(registry.EMBEDDERS, "planted", lambda _: PlantedEmbedder())

    def refuse(*args, before=()):
        options = ["--store", str(tmp_path / "agent.db"), "--embedder", "planted", *before]
        result = invoke([*options, "serve", *args])
        assert "Traceback" not in result.output
        return result.exit_code, result.stderr

    return refuse


def test_a_server_that_others_reach_needs_a_key_first(refused, tmp_path):
    code, text = refused("--host", "0.0.0.0")  # noqa: S104 - that is what is refused
    assert code == 2
    assert text.startswith("salience: --host '0.0.0.0' lets other machines reach the server. No API key exists")
    assert f"salience --store {tmp_path / 'agent.db'} keys create" in text


def test_so_does_one_that_goes_by_the_name_of_a_proxy(refused, monkeypatch):
    monkeypatch.setenv("SALIENCE_SERVER_HOSTS", "memory.example.org")
    code, text = refused()
    assert code == 2
    assert text.startswith(
        "salience: server_hosts ('memory.example.org',) lets other machines reach the server. No API key exists"
    )


def test_it_is_served_once_there_is_one(refused, tmp_path):
    ring = compose.keyring(str(tmp_path / "agent.db"))
    ring.add(create_key("default", ("read",), {}, None, None, datetime.now(UTC))[1])
    ring.close()
    code, _ = refused("--host", "0.0.0.0")  # noqa: S104
    assert code == 1  # the port was asked for


@pytest.mark.parametrize("workers", ["1", "2"])
def test_another_model_than_the_stores_is_an_error_at_once(refused, tmp_path, workers):
    with salience.connect(str(tmp_path / "agent.db"), embedder="static") as engine:
        engine.remember("Alice drinks tea")
    code, text = refused("--workers", workers)
    assert code == 1
    assert "wordllama" in text


def test_so_is_an_embedder_that_cannot_be_loaded(refused, monkeypatch):
    class Broken(PlantedEmbedder):
        def embed(self, texts, /):
            raise OSError("no such model")

    monkeypatch.setitem(registry.EMBEDDERS, "planted", lambda _: Broken())
    code, text = refused()
    assert code == 1
    assert "failed with OSError" in text


def test_so_is_a_database_without_its_tables(refused, database):
    code, text = refused("--store", f"{database}-is-not-there", before=("--store", database))
    assert (code, text.count("\n")) == (1, 1)
    code, text = refused(before=("--store", f"{database}-is-not-there"))
    assert (code, text.count("\n")) == (1, 1)


@pytest.mark.parametrize(
    ("setting", "value", "field"),
    [
        ("SALIENCE_SERVER_RATE", "often", "server_rate"),
        ("SALIENCE_SERVER_PORT", "70000", "server_port"),
        ("SALIENCE_LOG_LEVEL", "loud", "log_level"),
        ("SALIENCE_MCP_TOOLS", "recall,nonsense", "tools"),
        ("SALIENCE_SERVER_REQUEST_TIMEOUT", "0", "server_request_timeout"),
        ("SALIENCE_SERVER_CONNECTIONS", "0", "server_connections"),
        ("SALIENCE_SERVER_HOST", "no.such.host.invalid", "server_host"),
    ],
)
def test_a_setting_that_is_wrong_is_named(refused, monkeypatch, setting, value, field):
    monkeypatch.setenv(setting, value)
    code, text = refused()
    assert code == 2
    assert text.startswith(f"salience: {field} ")


def test_a_profile_that_is_unknown_is_named(refused):
    code, said = refused(before=("--profile", "nobodys"))
    assert code == 2
    assert "Choose one of: salience," in said


def test_memories_of_a_process_cannot_be_served_by_several(refused):
    code, text = refused("--workers", "2", before=("--store", ":memory:"))
    assert code == 2
    assert "--workers is 2" in text


def test_a_port_that_is_taken_is_named():
    with bind("127.0.0.1", 0) as first, pytest.raises(salience.errors.SalienceError) as caught:
        bind("127.0.0.1", first.getsockname()[1])
    assert "server_port: cannot listen on port" in str(caught.value)
    assert "Address already in use" in str(caught.value)


@pytest.mark.parametrize(
    ("host", "loopback"),
    [("127.0.0.1", True), ("127.1.2.3", True), ("localhost", True), ("::1", True), ("0.0.0.0", False), ("::", False)],  # noqa: S104
)
def test_who_can_reach_a_host(host, loopback):
    assert is_loopback(host) is loopback


def test_the_url_of_a_socket_can_be_opened():
    with bind("127.0.0.1", 0) as made:
        host, port = made.getsockname()
        assert url_of(made) == f"http://{host}:{port}"
        socket.create_connection((host, port)).close()


def test_an_address_of_ipv6_is_written_as_a_url_has_it():
    if not socket.has_ipv6:
        pytest.skip("this machine has no IPv6")
    try:
        made = bind("::1", 0)
    except salience.errors.SalienceError:
        pytest.skip("this machine has no IPv6")
    with made:
        assert url_of(made).startswith("http://[::1]:")


def test_a_host_that_is_none_is_refused():
    with pytest.raises(InputError, match="server_host"):
        is_loopback("a..b")


def test_a_remote_embedder_is_not_called_at_the_start(planned, monkeypatch):
    from salience.server.app import loaded

    class Remote(PlantedEmbedder):
        remote = True

        def embed(self, texts, /):
            raise AssertionError

    assert isinstance(loaded(Remote()), Remote)
    with pytest.raises(EmbedderError):
        loaded(type("Local", (Remote,), {"remote": False})())


@pytest.mark.parametrize(("named", "count"), [(None, 7), ("all", 16), ("recall,explain", 2)])
def test_the_tools_of_mcp_are_those_of_the_setting(started, named, count):
    client = started(**({} if named is None else {"mcp_tools": named}))
    arguments = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    accept = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-06-18"}
    answer = client.post("/mcp", json=arguments, headers=accept)
    assert len(answer.json()["result"]["tools"]) == count


def test_the_command_names_the_tools_of_mcp(monkeypatch, tmp_path):
    plans = []
    monkeypatch.setattr(process, "run", plans.append)
    store = str(tmp_path / "agent.db")
    for arguments, expected in (((), "default"), (("--tools", "all"), "all")):
        assert invoke(["--store", store, "serve", *arguments]).exit_code == 0
        assert plans.pop().settings.mcp_tools == expected
