"""The command as it is run: what it promises when it is told to end, and when a part of it dies."""

from __future__ import annotations

import os
import signal
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime

import httpx
import pytest

import salience
from salience import compose
from salience.errors import SalienceError
from salience.server import process as processes
from salience.server.app import build_app
from salience.server.auth import create_key
from salience.server.process import FAILED, SPAWN, Supervisor, bind, url_of
from salience.server.server import serve
from tests.contract.doubles import HashedEmbedder
from waiting import PATIENCE

pytestmark = pytest.mark.slow

WRITERS = 6
STORED = 'salience_requests_total{status="201",surface="rest",verb="remember"}'


class Load:
    """Writers that go on until the server answers no more; it keeps what was acknowledged."""

    def __init__(self, url, enough):
        self.stored, self.others = [], []
        self.enough, self._left = threading.Event(), enough
        self._lock = threading.Lock()
        self._url, self.over = url, threading.Event()

    def write(self, writer):
        with httpx.Client(base_url=self._url, timeout=PATIENCE) as client:
            number = 0
            while not self.over.is_set():
                number += 1
                try:
                    answer = client.post("/v1/memories", json={"content": f"Memory {number} of writer {writer}"})
                except httpx.TimeoutException:
                    self.others.append("hangs")
                    return
                except httpx.TransportError:
                    continue  # not acknowledged: it is stored or not
                self._note(answer)

    def _note(self, answer):
        with self._lock:
            if answer.is_success:
                self.stored.append(answer.json()["memory"]["id"])
                self._left -= 1
                if self._left == 0:
                    self.enough.set()
            else:
                self.others.append(answer.status_code)


@pytest.fixture(params=["sqlite", "postgres"])
def store(request, tmp_path):
    return str(tmp_path / "agent.db") if request.param == "sqlite" else request.getfixturevalue("tables")


@pytest.mark.parametrize(("store", "count"), [("sqlite", 2), ("postgres", 1)], indirect=["store"])
def test_all_that_was_acknowledged_is_stored_when_it_ends_under_load(running, store, count):
    server = running(store, "--workers", str(count))
    load = Load(server.url, enough=40)
    with ThreadPoolExecutor(WRITERS) as pool:
        writers = [pool.submit(load.write, number) for number in range(WRITERS)]
        assert load.enough.wait(PATIENCE)
        if count > 1:
            os.kill(server.workers()[0], signal.SIGKILL)
            assert server.until("a worker died and is replaced")["code"] == -signal.SIGKILL
            page = httpx.get(f"{server.url}/metrics", timeout=PATIENCE).text
            counted = sum(float(line.split()[-1]) for line in page.splitlines() if line.startswith(STORED))
            assert counted >= len(load.stored[:40]) - WRITERS  # of both workers, and of the one that is gone
        assert server.end() == 0
        load.over.set()
        for writer in writers:
            writer.result(90)
    assert load.others == []
    with closing(salience.connect(store, embedder="static")) as engine:
        assert {engine.get(id).id for id in load.stored} == set(load.stored)
    assert server.until("ended")["level"] == "info"


def test_a_reader_that_does_not_read_keeps_it_from_nothing(running, tmp_path):
    store = str(tmp_path / "agent.db")
    with closing(salience.connect(store, embedder="static")) as engine:
        engine.remember_many(
            [{"content": f"Memory {number}", "metadata": {"long": "=" * 60_000}} for number in range(150)]
        )
    server = running(store, SALIENCE_SERVER_SHUTDOWN="600")
    host, port = server.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall(b"GET /v1/export HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert connection.recv(1024).startswith(b"HTTP/1.1 200")
        assert server.end() == 0
        rest = b"".join(iter(lambda: connection.recv(1 << 20), b""))
    assert not rest.endswith(b"0\r\n\r\n")  # nobody takes it for a whole export


TEXTS = ["Alice prefers Python for backend work", "Bob drinks tea in the morning"]


def test_it_goes_over_to_the_model_that_another_process_gives_its_store(running, store):
    server = running(store)
    with httpx.Client(base_url=server.url, timeout=PATIENCE) as client:
        for text in TEXTS:
            assert client.post("/v1/memories", json={"content": text}).json()["status"] == "created"
        with closing(compose.moving(store, embedder="minilm")) as other:
            assert other.reembed().made == 2
        for _ in range(2):  # the first call to meet the other model answers by words
            found = client.post("/v1/recall", json={"query": "What does Bob have for breakfast?"})
            assert found.status_code == 200
            assert found.json()["hits"][0]["memory"]["content"] == TEXTS[1]
        assert found.json()["degraded"] == []
        written = client.post("/v1/memories", json={"content": "Carol plays the cello"}).json()
        assert (written["status"], written["warning"]) == ("created", None)
        result = client.get("/v1/stats").json()
        assert (result["embedder"], result["dimension"], result["pending"]) == ("all-MiniLM-L6-v2-int8", 384, 0)
        assert client.post("/v1/reflect", json={}).status_code == 200
    with closing(salience.connect(store, embedder="minilm")) as engine:
        assert engine.doctor(deep=True).healthy


def test_it_goes_on_by_words_where_the_new_model_is_not_to_be_had(running, tmp_path):
    store = str(tmp_path / "agent.db")
    server = running(store)
    with httpx.Client(base_url=server.url, timeout=PATIENCE) as client:
        client.post("/v1/memories", json={"content": TEXTS[1]})
        with closing(compose.moving(store, embedder=HashedEmbedder("elsewhere", 24))) as other:
            other.reembed()
        for place in range(3):
            found = client.post("/v1/recall", json={"query": "Who drinks tea?"})
            assert (found.status_code, found.json()["degraded"]) == (200, ["embedding"])
            assert found.json()["hits"][0]["memory"]["content"] == TEXTS[1]
            written = client.post("/v1/memories", json={"content": f"Dan runs {place} miles"})
            assert (written.status_code, written.json()["status"]) == (201, "pending")
            assert "has vectors of embedder 'elsewhere'" in written.json()["warning"]
        assert client.get("/v1/stats").json()["pending"] == 3


def test_a_second_signal_ends_it_at_once(running, tmp_path):
    server = running(str(tmp_path / "agent.db"), SALIENCE_SERVER_SHUTDOWN="600")
    host, port = server.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as connection:
        half = b"POST /v1/memories HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 99\r\n\r\n"
        connection.sendall(half)
        assert connection.recv(1024).startswith(b"HTTP/1.1 100")  # it waits for the rest
        server.process.send_signal(signal.SIGINT)
        assert server.until("ending")["connections"] == 1
        assert server.end(signal.SIGINT) == 128 + signal.SIGINT


def test_a_worker_does_not_outlive_its_supervisor(planned):
    reader, writer = SPAWN.Pipe(duplex=False)
    with build_app(planned()) as site, bind("127.0.0.1", 0) as listening:
        served = (site, listening)
        worker = threading.Thread(target=serve, args=(*served, 30.0, reader), daemon=True)
        worker.start()
        assert httpx.get(f"{url_of(listening)}/readyz", timeout=PATIENCE).status_code == 200
        writer.close()  # as it is when the process that holds it is gone
        worker.join(PATIENCE)
        assert not worker.is_alive()


def test_workers_that_cannot_serve_end_all(planned, monkeypatch):
    class Dead:
        pid, exitcode, sentinel = 1, FAILED, None

        def is_alive(self):
            return False

        def start(self):
            pass

        terminate = kill = start

    monkeypatch.setattr(SPAWN, "Process", lambda **_: Dead())
    monkeypatch.setattr(processes, "wait", lambda *_: [])
    with bind("127.0.0.1", 0) as listening, pytest.raises(SalienceError, match="a worker cannot serve"):
        Supervisor(planned(server_workers=2), listening).run()


def test_a_second_signal_ends_workers_that_do_not_end(planned, monkeypatch):
    class Stubborn:
        pid, exitcode, sentinel, lives = 1, None, None, True

        def is_alive(self):
            return self.lives

        def start(self):
            pass

        def terminate(self):
            os.kill(os.getpid(), signal.SIGTERM)  # the second, while the first is seen to

        def kill(self):
            self.lives = False

    monkeypatch.setattr(SPAWN, "Process", lambda **_: Stubborn())
    monkeypatch.setattr(processes, "wait", lambda *_: os.kill(os.getpid(), signal.SIGINT))
    with bind("127.0.0.1", 0) as listening, pytest.raises(SystemExit) as caught:
        Supervisor(planned(server_workers=2), listening).run()
    assert caught.value.code == 128 + signal.SIGTERM
    assert listening.fileno() == -1


def test_two_servers_on_one_database_share_all_but_the_rates_of_keys(running, tables):
    """Behind a load balancer each request may go to either."""
    with closing(compose.keyring(tables)) as keyring:
        token, key = create_key("default", ("read", "write"), {}, None, None, datetime.now(UTC))
        keyring.add(key)
        urls = [running(tables, SALIENCE_SERVER_RATE="4/hour").url for _ in range(2)]
        headers = {"Authorization": f"Bearer {token}"}
        one, other = (httpx.Client(base_url=url, headers=headers, timeout=PATIENCE) for url in urls)
        with one, other:
            draft, once = {"content": "Alice lives in Oslo"}, {"Idempotency-Key": "once"}
            first, again = (client.post("/v1/memories", json=draft, headers=once) for client in (one, other))
            assert (first.status_code, again.status_code) == (201, 200)
            id_ = first.json()["memory"]["id"]
            assert again.json()["memory"]["id"] == id_
            updated = one.patch(f"/v1/memory/{id_}", json={"weight": 0.5})
            assert updated.status_code == 200
            found = other.post("/v1/recall", json={"query": "Alice"}).json()["hits"]
            assert [hit["memory"]["weight"] for hit in found] == [0.5]
            while (asked := one.get(f"/v1/memory/{id_}")).is_success:
                continue
            assert asked.status_code == 429
            assert other.get(f"/v1/memory/{id_}").is_success
            keyring.revoke(key.prefix, datetime.now(UTC))
            assert [client.get(f"/v1/memory/{id_}").status_code for client in (one, other)] == [401, 401]
